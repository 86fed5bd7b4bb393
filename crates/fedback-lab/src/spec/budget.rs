//! `budget`: how many rounds there are, by what they cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::Spec;
use super::algorithm::RoundKeys;
use super::value::{Count, KeyError};
use crate::costs::Prices;

/// What all rounds of one repetition may cost, one of these, as [`Costs`](crate::costs::Costs)
/// counts them.
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
    pub fn rounds(self, keys: &RoundKeys, clients: usize) -> Result<u64, KeyError> {
        let one = Prices::of(keys, clients).after(1.0, 0.0);
        let (key, most, each) = match self {
            Budget::Steps(most) => ("steps", most, one.steps),
            Budget::Communications(most) => ("communications", most, one.communications),
            Budget::SampleGradients(most) => ("sample_gradients", most, one.sample_gradients),
            Budget::Deployments(most) => ("deployments", most, one.deployments),
        };
        if each == 0.0 {
            let why = "batch = \"all\" takes no samples; budget steps or communications";
            return Err(KeyError::new(format!("budget.{key}"), why));
        }
        match (most.0 as f64 / each) as u64 {
            0 => {
                let why = format!("found {}; one round takes {each}: allow at least that", most.0);
                Err(KeyError::new(format!("budget.{key}"), why))
            }
            rounds => Ok(rounds),
        }
    }
}

impl Spec {
    /// Makes rounds of a budget, where there is one.
    pub(crate) fn spend(&mut self, clients: usize) -> Result<(), KeyError> {
        if let Some(budget) = self.budget.take() {
            self.rounds = Count(budget.rounds(self.algorithm.rounds(), clients)?);
        }
        Ok(())
    }
}

/// Rounds are counted or follow from a budget.
pub(super) fn check(table: &Table) -> Result<(), KeyError> {
    match (table.get("rounds"), table.get("budget")) {
        (Some(_), Some(_)) => {
            Err(KeyError::new("budget", "rounds are given as well; leave one of them out"))
        }
        (None, Some(Value::Table(budget))) if budget.len() != 1 => {
            let found: Vec<&str> = budget.keys().map(String::as_str).collect();
            let found = if found.is_empty() { "nothing".into() } else { found.join(", ") };
            let why = "allowed: one of steps, communications, sample_gradients, deployments";
            Err(KeyError::new("budget", format!("found {found}; {why}")))
        }
        (None, None) => Err(KeyError::new("rounds", "is missing; or say budget = { steps = … }")),
        _ => Ok(()),
    }
}
