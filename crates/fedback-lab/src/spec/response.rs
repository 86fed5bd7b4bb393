//! `[problem.response]`: how data react to a deployed θ.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

use super::per_client::PerClient;
use super::problem::{NoKeys, decode_by_kind};
use super::value::{KeyError, Real, carry, decode, show, take_kind};

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
}

/// `kind = "location"`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | sensitivity | required | ε_i: number, vector or matrix | see [`PerClient`] |
/// | reference | zeros | the θ under which the base was recorded | one number a coordinate |
/// | resamples | none | a CSV file with plausible other sensitivities | relative to the spec |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocationResponse {
    /// The clients' sensitivities.
    pub sensitivity: PerClient,
    /// The θ under which the base was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Vec<Real>>,
    /// A file with plausible other sensitivities, relative to the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resamples: Option<String>,
}

/// `kind = "best-response"`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | features | required | the columns S that move | names of the table |
/// | sensitivity | required | ε_i, over the features in their order | see [`PerClient`] |
/// | reference | zeros | the θ under which the base was recorded | one number a coordinate |
/// | resamples | none | a CSV file with plausible other sensitivities | relative to the spec |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BestResponse {
    /// The columns that move.
    pub features: Vec<String>,
    /// The clients' sensitivities.
    pub sensitivity: PerClient,
    /// The θ under which the base was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Vec<Real>>,
    /// A file with plausible other sensitivities, relative to the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resamples: Option<String>,
}

impl Response {
    /// The clients' sensitivities.
    pub fn sensitivity(&self) -> Option<&PerClient> {
        match self {
            Response::None => None,
            Response::Location(location) => Some(&location.sensitivity),
            Response::BestResponse(best) => Some(&best.sensitivity),
        }
    }

    /// The θ under which the base was recorded, where that is not zero.
    pub fn reference(&self) -> Option<Vec<f64>> {
        let reference = match self {
            Response::None => None,
            Response::Location(location) => location.reference.as_ref(),
            Response::BestResponse(best) => best.reference.as_ref(),
        };
        reference.map(|theta| theta.iter().map(|number| number.0).collect())
    }

    /// The file with plausible other sensitivities.
    pub fn resamples(&self) -> Option<&str> {
        match self {
            Response::None => None,
            Response::Location(location) => location.resamples.as_deref(),
            Response::BestResponse(best) => best.resamples.as_deref(),
        }
    }

    /// The same response without that file, which no run looks at.
    pub fn without_resamples(mut self) -> Self {
        match &mut self {
            Response::None => {}
            Response::Location(location) => location.resamples = None,
            Response::BestResponse(best) => best.resamples = None,
        }
        self
    }
}

decode_by_kind!(Response {
    "none" => |table| decode(table).map(|NoKeys {}| Response::None),
    "location" => |table| decode(table).map(Response::Location),
    "best-response" => |table| decode(table).map(Response::BestResponse),
});
