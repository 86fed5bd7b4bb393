//! The `[algorithm]` section.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use toml::{Table, Value};

use super::hint;
use super::latency::Latency;
use super::problem::decode_by_kind;
use super::value::{
    Count, Fraction, KeyError, NonNegative, Positive, carry, decode, decode_from_value, number,
    show, take_kind,
};

/// `[algorithm]`: a preset of parts. All of them have the keys of [`RoundKeys`].
///
/// | kind | what is its own |
/// |---|---|
/// | "p-fedavg" | clients descend, the server averages |
/// | "fedprox" | clients are pulled back to the model as broadcast; `proximal` |
/// | "scaffold" | clients correct their drift by what they keep |
/// | "fedopt" | the server has momentum, or adapts its steps; `server` |
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Algorithm {
    /// P-FedAvg.
    PFedavg(RoundKeys),
    /// FedProx.
    Fedprox(FedProx),
    /// SCAFFOLD.
    Scaffold(RoundKeys),
    /// FedAvgM and FedAdam.
    Fedopt(FedOpt),
}

impl Algorithm {
    /// The keys that all algorithms have.
    pub fn rounds(&self) -> &RoundKeys {
        match self {
            Algorithm::PFedavg(rounds) | Algorithm::Scaffold(rounds) => rounds,
            Algorithm::Fedprox(fedprox) => &fedprox.rounds,
            Algorithm::Fedopt(fedopt) => &fedopt.rounds,
        }
    }

    /// The same, to be changed.
    pub fn rounds_mut(&mut self) -> &mut RoundKeys {
        match self {
            Algorithm::PFedavg(rounds) | Algorithm::Scaffold(rounds) => rounds,
            Algorithm::Fedprox(fedprox) => &mut fedprox.rounds,
            Algorithm::Fedopt(fedopt) => &mut fedopt.rounds,
        }
    }
}

decode_by_kind!(Algorithm {
    "p-fedavg" => |table| decode_rounds(table, "p-fedavg").map(Algorithm::PFedavg),
    "fedprox" => |mut table| {
        let proximal = take(&mut table, "fedprox", "proximal")?;
        Ok(Algorithm::Fedprox(FedProx { proximal, rounds: decode_rounds(table, "fedprox")? }))
    },
    "scaffold" => |table| decode_rounds(table, "scaffold").map(Algorithm::Scaffold),
    "fedopt" => |mut table| {
        let server = take(&mut table, "fedopt", "server")?;
        Ok(Algorithm::Fedopt(FedOpt { server, rounds: decode_rounds(table, "fedopt")? }))
    },
});

/// The keys that only some algorithms have, and whose they are.
const OWN: [(&str, &str); 2] = [("proximal", "fedprox"), ("server", "fedopt")];

impl RoundKeys {
    /// The keys that all algorithms have.
    pub(super) const ALL: [&str; 13] = [
        "scheme",
        "cohort",
        "local_steps",
        "batch",
        "step_size",
        "start",
        "deploy",
        "aggregate",
        "scale_objectives",
        "clip",
        "latency",
        "deadline",
        "correct",
    ];

    /// Whether a key of the section is one that all algorithms have.
    pub(super) fn has(key: &str) -> bool {
        RoundKeys::ALL.contains(&key)
    }
}

/// Refuses keys that an algorithm does not have, with a guess at what was meant.
fn refuse_unknown(table: &Table, kind: &str) -> Result<(), KeyError> {
    let own = OWN.iter().filter(|(_, owner)| *owner == kind).map(|(key, _)| *key);
    let allowed: Vec<&str> = own.chain(RoundKeys::ALL).collect();
    let unknown = table.keys().map(String::as_str).find(|key| !allowed.contains(key));
    let Some(key) = unknown else { return Ok(()) };
    let message = match OWN.iter().find(|(own, _)| *own == key) {
        Some((_, owner)) => format!("is for kind = \"{owner}\" only; leave it out"),
        None => format!("unknown key; {}", hint::keys(key, &allowed)),
    };
    Err(KeyError::new(key, message))
}

/// Decodes one key that only some algorithms have.
fn take<T: DeserializeOwned>(table: &mut Table, kind: &str, key: &str) -> Result<T, KeyError> {
    refuse_unknown(table, kind)?;
    let missing = || KeyError::new(key, format!("is missing; kind = \"{kind}\" needs it"));
    let own = table.remove(key).ok_or_else(missing)?;
    let mut decoded: BTreeMap<String, T> = decode(Table::from_iter([(key.to_string(), own)]))?;
    decoded.remove(key).ok_or_else(missing)
}

/// Decodes the keys that all algorithms have.
fn decode_rounds(table: Table, kind: &str) -> Result<RoundKeys, KeyError> {
    refuse_unknown(&table, kind)?;
    decode(table)
}

/// `kind = "fedprox"`: w ← w − η (g + proximal · (w − θ)), θ the model as broadcast.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | proximal | required | how strongly clients are pulled back | ≥ 0 |
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FedProx {
    /// How strongly clients are pulled back to the model as broadcast.
    pub proximal: NonNegative,
    /// What all algorithms have.
    #[serde(flatten)]
    pub rounds: RoundKeys,
}

/// `kind = "fedopt"`: the server makes more of the clients' combined work than an average.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | server | required | its rule | see [`Server`] |
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FedOpt {
    /// The server's rule.
    pub server: Server,
    /// What all algorithms have.
    #[serde(flatten)]
    pub rounds: RoundKeys,
}

/// What the server makes of the clients' combined work Δ.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Server {
    /// v ← beta · v + Δ, θ += rate · v.
    Momentum(Momentum),
    /// m ← beta1 · m + (1 − beta1) Δ, v ← beta2 · v + (1 − beta2) Δ², θ += rate · m / (√v + tau).
    Adam(Adam),
}

decode_by_kind!(Server {
    "momentum" => |table| decode(table).map(Server::Momentum),
    "adam" => |table| decode(table).map(Server::Adam),
});

/// `server = { kind = "momentum" }`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | rate | 1.0 | the server's rate | > 0 |
/// | beta | 0.9 | how much of the last step is kept | ≥ 0, < 1 |
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Momentum {
    /// The server's rate.
    #[serde(default = "unit")]
    pub rate: Positive,
    /// How much of the last step is kept.
    #[serde(default = "nine_tenths")]
    pub beta: Fraction,
}

/// `server = { kind = "adam" }`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | rate | 0.1 | the server's rate | > 0 |
/// | beta1 | 0.9 | how much of the mean is kept | ≥ 0, < 1 |
/// | beta2 | 0.99 | how much of the mean square is kept | ≥ 0, < 1 |
/// | tau | 1e-3 | the smallest divisor, and the root of the first mean square | > 0 |
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adam {
    /// The server's rate.
    #[serde(default = "tenth")]
    pub rate: Positive,
    /// How much of the mean is kept.
    #[serde(default = "nine_tenths")]
    pub beta1: Fraction,
    /// How much of the mean square is kept.
    #[serde(default = "ninety_nine_hundredths")]
    pub beta2: Fraction,
    /// The smallest divisor.
    #[serde(default = "thousandth")]
    pub tau: Positive,
}

fn unit() -> Positive {
    Positive(1.0)
}

fn tenth() -> Positive {
    Positive(0.1)
}

fn thousandth() -> Positive {
    Positive(1e-3)
}

fn nine_tenths() -> Fraction {
    Fraction(0.9)
}

fn ninety_nine_hundredths() -> Fraction {
    Fraction(0.99)
}

/// The keys that all algorithms have.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | scheme | required | how a cohort is drawn | "full", "with-replacement", "without-replacement", "first-arrivals" |
/// | cohort | required unless full, refused with it | K | ≥ 1, and ≤ N but with replacement |
/// | local_steps | 1 | E | ≥ 1 |
/// | batch | 1 | observations a local step | ≥ 1, "all" |
/// | step_size | required | `{ beta, gamma }` for β/(t+γ), or `{ constant }` | > 0 |
/// | start | "zeros" | θ before the first round | number, list, "zeros", "stable" |
/// | deploy | "step" | what batches react to: the local θ or the one last broadcast | "step", "round" |
/// | aggregate | "deltas" | θ + Σ c·delta, or Σ c·w as printed | "deltas", "iterates" |
/// | scale_objectives | false | gradients × N·p_i, coefficients 1/K | without replacement only |
/// | clip | none | the longest average gradient: a client's update is shortened to clip · Σ η_t | > 0 |
/// | latency | none | how long clients take, where arrivals are simulated | first arrivals only; see [`Latency`] |
/// | deadline | none | when a round closes without the missing | first arrivals only; > 0, in the unit of the latencies |
/// | correct | false | coefficients p_i/π_i, which make up for speed, instead of p_i N/K | first arrivals with a latency only |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoundKeys {
    /// How a cohort is drawn.
    pub scheme: SchemeName,
    /// The size K of a cohort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohort: Option<Count>,
    /// Local steps per round, E.
    #[serde(default = "one")]
    pub local_steps: Count,
    /// Observations a local step.
    #[serde(default)]
    pub batch: Batch,
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
    /// The longest average gradient that a client's work may come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<Positive>,
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

/// Observations a local step: a whole number, or `"all"` of a population.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Batch {
    /// So many fresh observations.
    Sampled(Count),
    /// Every row with equal weight; the expectation for normal data.
    All(All),
}

/// `"all"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum All {
    /// The whole population.
    All,
}

impl Default for Batch {
    fn default() -> Self {
        Batch::Sampled(one())
    }
}

impl TryFrom<Value> for Batch {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match &value {
            Value::String(name) if name == "all" => Ok(Batch::All(All::All)),
            Value::Integer(size) if *size >= 1 => Ok(Batch::Sampled(Count(*size as u64))),
            other => {
                let found = show(other);
                Err(format!("found {found}; allowed: a whole number, 1 or more, or \"all\""))
            }
        }
    }
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

decode_from_value!(Batch, StepSize, Start);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_listed() {
        let schema = schemars::schema_for!(RoundKeys).to_value();
        let keys: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(keys, RoundKeys::ALL);
    }
}
