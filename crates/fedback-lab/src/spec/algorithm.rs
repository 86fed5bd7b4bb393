//! The `[algorithm]` section.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

use super::latency::Latency;
use super::problem::decode_by_kind;
use super::value::{
    Count, KeyError, Positive, carry, decode, decode_from_value, number, show, take_kind,
};

/// `[algorithm]`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Algorithm {
    /// P-FedAvg.
    PFedavg(PFedAvg),
}

decode_by_kind!(Algorithm {
    "p-fedavg" => |table| decode(table).map(Algorithm::PFedavg),
});

/// `kind = "p-fedavg"`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | scheme | required | how a cohort is drawn | "full", "with-replacement", "without-replacement", "first-arrivals" |
/// | cohort | required unless full, refused with it | K | ≥ 1, and ≤ N but with replacement |
/// | local_steps | 1 | E | ≥ 1 |
/// | batch | 1 | observations a local step | ≥ 1 |
/// | step_size | required | `{ beta, gamma }` for β/(t+γ), or `{ constant }` | > 0 |
/// | start | "zeros" | θ before the first round | number, list, "zeros", "stable" |
/// | deploy | "step" | what batches react to: the local θ or the one last broadcast | "step", "round" |
/// | aggregate | "deltas" | θ + Σ c·delta, or Σ c·w as printed | "deltas", "iterates" |
/// | scale_objectives | false | gradients × N·p_i, coefficients 1/K | without replacement only |
/// | latency | none | how long clients take, where arrivals are simulated | first arrivals only; see [`Latency`] |
/// | deadline | none | when a round closes without the missing | first arrivals only; > 0, in the unit of the latencies |
/// | correct | false | coefficients p_i/π_i, which make up for speed, instead of p_i N/K | first arrivals with a latency only |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PFedAvg {
    /// How a cohort is drawn.
    pub scheme: SchemeName,
    /// The size K of a cohort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohort: Option<Count>,
    /// Local steps a round, E.
    #[serde(default = "one")]
    pub local_steps: Count,
    /// Observations a local step.
    #[serde(default = "one")]
    pub batch: Count,
    /// η_t.
    pub step_size: StepSize,
    /// θ before the first round.
    #[serde(default)]
    pub start: Start,
    /// What batches react to.
    #[serde(default)]
    pub deploy: Deploy,
    /// How the server combines.
    #[serde(default)]
    pub aggregate: Aggregate,
    /// The remedy for unequal weights without replacement.
    #[serde(default)]
    pub scale_objectives: bool,
    /// How long clients take, for first arrivals in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// When a round of first arrivals closes whoever is missing, in the unit of the latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Positive>,
    /// Whether the coefficients of first arrivals make up for speed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub correct: bool,
}

fn one() -> Count {
    Count(1)
}

/// How a cohort is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchemeName {
    /// Every client, every round.
    Full,
    /// K draws by weight (the paper's Scheme I).
    WithReplacement,
    /// K different clients (the paper's Scheme II).
    WithoutReplacement,
    /// The first K clients to answer.
    FirstArrivals,
}

/// What batches react to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Deploy {
    /// The client's current local θ (the paper).
    #[default]
    Step,
    /// The θ last broadcast.
    Round,
}

/// How the server combines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregate {
    /// θ + Σ coefficient · delta.
    #[default]
    Deltas,
    /// Σ coefficient · w, as the paper prints it.
    Iterates,
}

/// η_t: `{ constant = 0.02 }` or `{ beta = 20.0, gamma = 1000.0 }` for beta / (t + gamma).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StepSize {
    /// The same at every step.
    Constant {
        /// η.
        constant: Positive,
    },
    /// beta / (t + gamma).
    Decaying {
        /// β.
        beta: Positive,
        /// γ.
        gamma: Positive,
    },
}

impl TryFrom<Value> for StepSize {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let error = || {
            format!(
                "found {}; allowed: {{ constant = … }} or {{ beta = …, gamma = … }}, each above 0",
                show(&value)
            )
        };
        let table = value.as_table().ok_or_else(error)?;
        let positive = |key: &str| {
            Positive::try_from(table[key].clone()).map_err(|message| format!("{key}: {message}"))
        };
        let mut keys: Vec<&str> = table.keys().map(String::as_str).collect();
        keys.sort_unstable();
        match keys[..] {
            ["constant"] => Ok(StepSize::Constant { constant: positive("constant")? }),
            ["beta", "gamma"] => {
                Ok(StepSize::Decaying { beta: positive("beta")?, gamma: positive("gamma")? })
            }
            _ => Err(error()),
        }
    }
}

/// θ before the first round: a number for every coordinate, a list, `"zeros"` or `"stable"`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Start {
    /// A point by name.
    Named(NamedStart),
    /// The same number in every coordinate.
    Number(f64),
    /// One number a coordinate.
    List(Vec<f64>),
}

/// A point by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NamedStart {
    /// The origin.
    Zeros,
    /// The stable point.
    Stable,
}

impl Default for Start {
    fn default() -> Self {
        Start::Named(NamedStart::Zeros)
    }
}

impl TryFrom<Value> for Start {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let list = || value.as_array()?.iter().map(number).collect::<Option<Vec<_>>>();
        match &value {
            Value::String(name) if name == "zeros" => Ok(Start::Named(NamedStart::Zeros)),
            Value::String(name) if name == "stable" => Ok(Start::Named(NamedStart::Stable)),
            _ => number(&value).map(Start::Number).or_else(|| list().map(Start::List)).ok_or_else(
                || {
                    format!(
                        "found {}; allowed: a finite number, a list of them, \"zeros\", \"stable\"",
                        show(&value)
                    )
                },
            ),
        }
    }
}

decode_from_value!(StepSize, Start);
