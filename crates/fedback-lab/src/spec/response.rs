//! `[problem.response]`: how data react to a deployed θ.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

use std::collections::BTreeMap;

use super::memory::Memory;
use super::per_client::PerClient;
use super::problem::{NoKeys, decode_by_kind};
use super::value::{
    Fraction, KeyError, NonNegative, Real, carry, decode, decode_from_value, show, take_kind,
};

/// `[problem.response]`: how data react to a deployed θ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Response {
    /// They do not.
    #[default]
    None,
    /// z = z0 + sensitivity_i · θ.
    Location(LocationResponse),
    /// x_S ← x_S − sensitivity_i · θ_S.
    BestResponse(BestResponse),
    /// z = z0 + limit · tanh(sensitivity_i · θ / limit).
    Saturating(Saturating),
    /// Rows move to a threshold where that pays.
    Strategic(Strategic),
    /// Labels listen to scores.
    Outcome(Outcome),
    /// Who is served badly leaves.
    Retention(Retention),
}

/// `kind = "location"`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | sensitivity | required | ε_i: number, vector or matrix | see [`PerClient`] |
/// | range | none | two numbers that a feature stays between, by name | in the table's units |
/// | reference | zeros | the θ under which the base was recorded | one number a coordinate |
/// | resamples | none | a CSV file with plausible other sensitivities | relative to the spec |
/// | memory | none | what they answer to besides the model deployed last | see [`Memory`] |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocationResponse {
    /// The clients' sensitivities.
    pub sensitivity: PerClient,
    /// What features stay between, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub range: BTreeMap<String, [Real; 2]>,
    /// The θ under which the base was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Vec<Real>>,
    /// A file with plausible other sensitivities, relative to the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resamples: Option<String>,
    /// What they answer to besides the model deployed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
}

/// `kind = "best-response"`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | features | required | the columns S that move | names of the table |
/// | sensitivity | required | ε_i, over the features in their order | see [`PerClient`] |
/// | range | none | two numbers that a feature stays between, by name | in the table's units |
/// | reference | zeros | the θ under which the base was recorded | one number a coordinate |
/// | resamples | none | a CSV file with plausible other sensitivities | relative to the spec |
/// | memory | none | what they answer to besides the model deployed last | see [`Memory`] |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BestResponse {
    /// The columns that move.
    pub features: Vec<String>,
    /// The clients' sensitivities.
    pub sensitivity: PerClient,
    /// What features stay between, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub range: BTreeMap<String, [Real; 2]>,
    /// The θ under which the base was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Vec<Real>>,
    /// A file with plausible other sensitivities, relative to the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resamples: Option<String>,
    /// What they answer to besides the model deployed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
}

/// `kind = "saturating"`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | sensitivity | required | ε_i: number, vector or matrix | see [`PerClient`] |
/// | limit | required | how far a coordinate moves at most | > 0 |
/// | memory | none | what they answer to besides the model deployed last | see [`Memory`] |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Saturating {
    /// The clients' sensitivities where hardly anything has moved yet.
    pub sensitivity: PerClient,
    /// How far a coordinate moves at most.
    pub limit: Real,
    /// What they answer to besides the model deployed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
}

/// `kind = "strategic"`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | features | required | the columns that rows can change | names of the table |
/// | wants | required | the side of the threshold that they want | positive, negative |
/// | threshold | 0 | the score where that side begins | any |
/// | share | 1 | how many of those for whom it pays do it | 0 to 1 |
/// | smoothing | 0 | how blurred the budget is | ≥ 0 |
/// | budget | required, unless gain | how far a row goes at most | ≥ 0 |
/// | gain, cost, cost_kind | none, none, linear | instead of a budget: what it gains, what a unit of way costs, or its square (quadratic, half of it) | ≥ 0, > 0, linear or quadratic |
/// | memory | none | what they answer to besides the model deployed last | see [`Memory`] |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Strategic {
    /// The columns that rows can change.
    pub features: Vec<String>,
    /// The side that they want.
    pub wants: Wants,
    /// The score where it begins.
    #[serde(default = "zero")]
    pub threshold: Real,
    /// How many of those for whom it pays do it.
    #[serde(default = "one")]
    pub share: Real,
    /// How blurred the budget is.
    #[serde(default = "none")]
    pub smoothing: NonNegative,
    /// How far a row goes at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<NonNegative>,
    /// What being on that side is worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<NonNegative>,
    /// What way costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<NonNegative>,
    /// How cost grows with way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_kind: Option<CostKind>,
    /// What they answer to besides the model deployed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
}

/// The side of a threshold that rows want.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wants {
    /// A score of the threshold or more.
    Positive,
    /// A score of the threshold or less.
    Negative,
}

/// How cost grows with way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CostKind {
    /// cost · d.
    Linear,
    /// cost · d² / 2.
    Quadratic,
}

impl Strategic {
    /// How far a row goes at most.
    pub fn reach(&self) -> Result<f64, KeyError> {
        let fail = |key: &str, why: &str| Err(KeyError::new(key.to_string(), why));
        match (self.budget, self.gain, self.cost) {
            (Some(budget), None, None) if self.cost_kind.is_none() => Ok(budget.0),
            (None, Some(gain), Some(cost)) if cost.0 > 0.0 => Ok(match self.cost_kind {
                None | Some(CostKind::Linear) => gain.0 / cost.0,
                Some(CostKind::Quadratic) => (2.0 * gain.0 / cost.0).sqrt(),
            }),
            (None, Some(_), Some(_)) => fail("cost", "found 0; allowed: above 0"),
            (None, None, None) => fail("budget", "is missing; needed: budget, or gain and cost"),
            (None, Some(_), None) => fail("cost", "is missing; needed beside gain"),
            (None, None, Some(_)) => fail("gain", "is missing; needed beside cost"),
            (Some(_), _, _) => {
                fail("budget", "is given beside gain, cost or cost_kind; allowed: one of the two")
            }
        }
    }
}

/// `kind = "outcome"`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | strength | required | how much labels listen: above 0 they come true, below they defeat themselves | a number per client; −1 to 1 under the loss logistic |
/// | memory | none | what they answer to besides the model deployed last | see [`Memory`] |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// How much the clients' labels listen.
    pub strength: PerClient,
    /// What they answer to besides the model deployed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
}

/// `kind = "retention"`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | by | required | what leaves together | "client", "label", "row", { column = "…" } |
/// | law | exponential | how likely it is to stay at a loss L: e^(−rate L), or 1/(1 + e^(rate (L − tolerance))) | exponential, logistic |
/// | rate | required | how much a loss matters | a number per client, ≥ 0 |
/// | tolerance | required with logistic | the loss at which half stay | any |
/// | floor | 0 | the share that stays whatever happens | 0 to below 1 |
/// | weights | fixed | whether clients count by how many of them stay | fixed, follow |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// What leaves together.
    pub by: By,
    /// How likely it is to stay.
    #[serde(default)]
    pub law: Law,
    /// How much a loss matters.
    pub rate: PerClient,
    /// The loss at which half stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Real>,
    /// The share that stays whatever happens.
    #[serde(default = "nobody")]
    pub floor: Fraction,
    /// Whether clients count by how many of them stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Turnout>,
}

/// What leaves together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// A client's whole population.
    Client,
    /// The rows of one label.
    Label,
    /// Every row for itself.
    Row,
    /// The rows of one value of a column.
    #[serde(untagged)]
    Column {
        /// Its name.
        column: String,
    },
}

impl TryFrom<Value> for By {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let column = |table: &toml::Table| match (table.len(), table.get("column")) {
            (1, Some(Value::String(column))) => Some(By::Column { column: column.clone() }),
            _ => None,
        };
        let found = match &value {
            Value::String(name) => match name.as_str() {
                "client" => Some(By::Client),
                "label" => Some(By::Label),
                "row" => Some(By::Row),
                _ => None,
            },
            Value::Table(table) => column(table),
            _ => None,
        };
        found.ok_or_else(|| {
            let allowed = "\"client\", \"label\", \"row\" or { column = \"…\" }";
            format!("found {}; allowed: {allowed}", show(&value))
        })
    }
}

decode_from_value!(By);

/// How likely it is to stay at a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// e^(−rate L).
    #[default]
    Exponential,
    /// 1 / (1 + e^(rate (L − tolerance))).
    Logistic,
}

/// Whether clients count by how many of them stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Turnout {
    /// They count as they did.
    Fixed,
    /// They do.
    Follow,
}

fn zero() -> Real {
    Real(0.0)
}

fn one() -> Real {
    Real(1.0)
}

fn none() -> NonNegative {
    NonNegative(0.0)
}

fn nobody() -> Fraction {
    Fraction(0.0)
}

impl Response {
    /// The numbers that clients have one of each: sensitivities, strengths or rates, with their key.
    pub fn each(&self) -> Option<(&'static str, &PerClient)> {
        match self {
            Response::None | Response::Strategic(_) => None,
            Response::Location(location) => Some(("sensitivity", &location.sensitivity)),
            Response::BestResponse(best) => Some(("sensitivity", &best.sensitivity)),
            Response::Saturating(saturating) => Some(("sensitivity", &saturating.sensitivity)),
            Response::Outcome(outcome) => Some(("strength", &outcome.strength)),
            Response::Retention(retention) => Some(("rate", &retention.rate)),
        }
    }

    /// The name of the kind, as a spec says it.
    pub fn kind(&self) -> &'static str {
        match self {
            Response::None => "none",
            Response::Location(_) => "location",
            Response::BestResponse(_) => "best-response",
            Response::Saturating(_) => "saturating",
            Response::Strategic(_) => "strategic",
            Response::Outcome(_) => "outcome",
            Response::Retention(_) => "retention",
        }
    }

    /// Whether clients' weights react.
    pub fn weighs(&self) -> bool {
        match self {
            Response::Retention(retention) => {
                retention.by == By::Client || retention.weights == Some(Turnout::Follow)
            }
            Response::None
            | Response::Location(_)
            | Response::BestResponse(_)
            | Response::Saturating(_)
            | Response::Strategic(_)
            | Response::Outcome(_) => false,
        }
    }

    /// The column whose values leave together.
    pub fn column(&self) -> Option<&str> {
        match self {
            Response::Retention(Retention { by: By::Column { column }, .. }) => Some(column),
            Response::Retention(_)
            | Response::None
            | Response::Location(_)
            | Response::BestResponse(_)
            | Response::Saturating(_)
            | Response::Strategic(_)
            | Response::Outcome(_) => None,
        }
    }

    /// The numbers that features stay between.
    pub fn range(&self) -> Option<&BTreeMap<String, [Real; 2]>> {
        let range = match self {
            Response::Location(location) => &location.range,
            Response::BestResponse(best) => &best.range,
            Response::None
            | Response::Saturating(_)
            | Response::Strategic(_)
            | Response::Outcome(_)
            | Response::Retention(_) => return None,
        };
        (!range.is_empty()).then_some(range)
    }

    /// The θ under which the base was recorded, where that is not zero.
    pub fn reference(&self) -> Option<Vec<f64>> {
        let reference = match self {
            Response::Location(location) => location.reference.as_ref(),
            Response::BestResponse(best) => best.reference.as_ref(),
            Response::None
            | Response::Saturating(_)
            | Response::Strategic(_)
            | Response::Outcome(_)
            | Response::Retention(_) => None,
        };
        reference.map(|theta| theta.iter().map(|number| number.0).collect())
    }

    /// What populations answer to besides the model deployed last.
    pub fn memory(&self) -> Option<&Memory> {
        match self {
            Response::Location(location) => location.memory.as_ref(),
            Response::BestResponse(best) => best.memory.as_ref(),
            Response::Saturating(saturating) => saturating.memory.as_ref(),
            Response::Strategic(strategic) => strategic.memory.as_ref(),
            Response::Outcome(outcome) => outcome.memory.as_ref(),
            Response::None | Response::Retention(_) => None,
        }
    }

    /// The file with plausible other sensitivities.
    pub fn resamples(&self) -> Option<&str> {
        match self {
            Response::Location(location) => location.resamples.as_deref(),
            Response::BestResponse(best) => best.resamples.as_deref(),
            Response::None
            | Response::Saturating(_)
            | Response::Strategic(_)
            | Response::Outcome(_)
            | Response::Retention(_) => None,
        }
    }

    /// The same response without that file, which no run looks at.
    pub fn without_resamples(mut self) -> Self {
        match &mut self {
            Response::Location(location) => location.resamples = None,
            Response::BestResponse(best) => best.resamples = None,
            Response::None
            | Response::Saturating(_)
            | Response::Strategic(_)
            | Response::Outcome(_)
            | Response::Retention(_) => {}
        }
        self
    }
}

decode_by_kind!(Response {
    "none" => |table| decode(table).map(|NoKeys {}| Response::None),
    "location" => |table| decode(table).map(Response::Location),
    "best-response" => |table| decode(table).map(Response::BestResponse),
    "saturating" => |table| decode(table).map(Response::Saturating),
    "strategic" => |table| decode(table).map(Response::Strategic),
    "outcome" => |table| decode(table).map(Response::Outcome),
    "retention" => |table| decode(table).map(Response::Retention),
});
