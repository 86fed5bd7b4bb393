//! `budget`: how many rounds there are, by what they cost.

use fedback_core::protocol::{Batch, Deploy, Protocol};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Table;

use super::value::{Count, KeyError};

/// What all rounds of one repetition may cost, one of these.
///
/// | Name | What one round takes |
/// |---|---|
/// | steps | E: local steps of one client |
/// | communications | 1 |
/// | sample_gradients | K · E · batch: gradients of single observations |
/// | deployments | K · E, or K where models are deployed once per round |
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Local steps of one client.
    Steps(Count),
    /// Rounds of communication.
    Communications(Count),
    /// Gradients of single observations.
    SampleGradients(Count),
    /// Models deployed to a population.
    Deployments(Count),
}

impl Budget {
    /// The most rounds within the budget; a client that is drawn twice counts twice.
    pub fn rounds(self, protocol: &Protocol, clients: usize) -> Result<u64, KeyError> {
        let cohort = protocol.scheme.cohort().unwrap_or(clients) as u64;
        let steps = protocol.local_steps as u64;
        let all = cohort.saturating_mul(steps);
        let (key, budget, each) = match self {
            Budget::Steps(most) => ("steps", most, steps),
            Budget::Communications(most) => ("communications", most, 1),
            Budget::SampleGradients(most) => match protocol.batch {
                Batch::Sampled(size) => ("sample_gradients", most, all.saturating_mul(size as u64)),
                Batch::All => {
                    let why = "batch = \"all\" takes no samples; budget steps or communications";
                    return Err(KeyError::new("budget.sample_gradients", why));
                }
            },
            Budget::Deployments(most) => match protocol.deploy {
                Deploy::Step => ("deployments", most, all),
                Deploy::Round => ("deployments", most, cohort),
            },
        };
        match budget.0 / each {
            0 => {
                let why = format!("found {}; one round takes {each}", budget.0);
                Err(KeyError::new(format!("budget.{key}"), why))
            }
            rounds => Ok(rounds),
        }
    }
}

/// Rounds are counted or follow from a budget.
pub(super) fn check(table: &Table) -> Result<(), KeyError> {
    match (table.get("rounds"), table.get("budget")) {
        (Some(_), Some(_)) => {
            Err(KeyError::new("budget", "rounds are given as well; leave one of them out"))
        }
        (None, None) => Err(KeyError::new("rounds", "is missing; or say budget = { steps = … }")),
        _ => Ok(()),
    }
}
