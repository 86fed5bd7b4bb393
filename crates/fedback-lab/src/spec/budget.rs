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
    /// The most rounds within the budget.
    pub fn rounds(self, protocol: &Protocol, clients: usize) -> Result<u64, KeyError> {
        let cost = RoundCost::of(protocol, clients);
        let (key, budget, each) = match self {
            Budget::Steps(most) => ("steps", most, Some(cost.steps)),
            Budget::Communications(most) => ("communications", most, Some(1)),
            Budget::SampleGradients(most) => ("sample_gradients", most, cost.sample_gradients),
            Budget::Deployments(most) => ("deployments", most, Some(cost.deployments)),
        };
        let fail = |why: String| KeyError::new(format!("budget.{key}"), why);
        let each = each.ok_or_else(|| {
            fail("batch = \"all\" takes no samples; budget steps or communications".into())
        })?;
        match budget.0 / each {
            0 => Err(fail(format!("found {}; one round takes {each}", budget.0))),
            rounds => Ok(rounds),
        }
    }
}

/// What one round takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundCost {
    /// Local steps of one client.
    pub steps: u64,
    /// Gradients of single observations, all clients of a cohort together; none where gradients are exact.
    pub sample_gradients: Option<u64>,
    /// Models deployed to a population, all clients of a cohort together.
    pub deployments: u64,
}

impl RoundCost {
    /// Of a protocol; a client that is drawn twice counts twice.
    pub fn of(protocol: &Protocol, clients: usize) -> Self {
        let cohort = protocol.scheme.cohort().unwrap_or(clients) as u64;
        let steps = protocol.local_steps as u64;
        let all = cohort.saturating_mul(steps);
        RoundCost {
            steps,
            sample_gradients: match protocol.batch {
                Batch::Sampled(size) => Some(all.saturating_mul(size as u64)),
                Batch::All => None,
            },
            deployments: match protocol.deploy {
                Deploy::Step => all,
                Deploy::Round => cohort,
            },
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
