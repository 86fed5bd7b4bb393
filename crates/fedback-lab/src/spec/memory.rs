//! `problem.response.memory`: what populations answer to besides the model deployed last.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

use super::problem::decode_by_kind;
use super::value::{
    Count, KeyError, Real, Whole, carry, decode, decode_from_value, number, show, take_kind,
};

/// `memory = { … }` in `[problem.response]`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Memory {
    /// They follow what is deployed at a rate.
    Inertia(Inertia),
    /// They answer late.
    Delay(Delay),
    /// Equal parts of them answer 0, 1, 2 … deployments late.
    Staggered(Staggered),
}

/// `kind = "inertia"`: the data come from D(s), s ← (1 − rate) s + rate · θ at every deployment.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | rate | required | how much of the way populations go at a deployment | above 0, up to 1 |
/// | start | the response's reference, else 0 | the θ that they answered to before the first round | a number, or one per coordinate |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inertia {
    /// How much of the way they go.
    pub rate: Real,
    /// What they answered to before the first round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Model>,
}

/// `kind = "delay"`: the data come from the model deployed so many deployments ago.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | deployments | required | how late populations answer | ≥ 0 |
/// | start | the response's reference, else 0 | the θ that they answered to before the first round | a number, or one per coordinate |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// How late they answer.
    pub deployments: Whole,
    /// What they answered to before the first round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Model>,
}

/// `kind = "staggered"`: an observation answers 0, 1 … `parts` − 1 deployments late, equally likely.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | parts | required | into how many parts populations fall | ≥ 1 |
/// | start | the response's reference, else 0 | the θ that they answered to before the first round | a number, or one per coordinate |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Staggered {
    /// How many parts there are.
    pub parts: Count,
    /// What they answered to before the first round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Model>,
}

/// A θ: the same number in every coordinate, or one for each.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Model {
    /// The same everywhere.
    Number(f64),
    /// One a coordinate.
    List(Vec<f64>),
}

impl TryFrom<Value> for Model {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let list = || value.as_array()?.iter().map(number).collect::<Option<Vec<_>>>();
        let found = number(&value).map(Model::Number).or_else(|| list().map(Model::List));
        let allowed = "a finite number, or a list of them";
        found.ok_or_else(|| format!("found {}; allowed: {allowed}", show(&value)))
    }
}

decode_from_value!(Model);

impl Memory {
    /// What populations answered to before the first round.
    pub fn start(&self) -> Option<&Model> {
        match self {
            Memory::Inertia(inertia) => inertia.start.as_ref(),
            Memory::Delay(delay) => delay.start.as_ref(),
            Memory::Staggered(staggered) => staggered.start.as_ref(),
        }
    }
}

decode_by_kind!(Memory {
    "inertia" => |table| decode(table).map(Memory::Inertia),
    "delay" => |table| decode(table).map(Memory::Delay),
    "staggered" => |table| decode(table).map(Memory::Staggered),
});
