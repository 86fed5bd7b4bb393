//! Bases whose rows are not in the spec's reach: from functions, from real sites.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::{Missing, one};
use super::value::{Count, Positive, Real};

/// `kind = "custom"`: observations of a population that reacts in its own way, from a Python function
/// or a real site.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | dim | 1 | coordinates of θ | ≥ 1 |
/// | intercept | false | the last coordinate is a one that is added to every row, not regularised | – |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomBase {
    /// Coordinates of θ.
    #[serde(default = "one")]
    pub dim: Count,
    /// The last coordinate is a one that is added to every row.
    #[serde(default)]
    pub intercept: bool,
}

/// `kind = "sites"`: every client's rows lie in a CSV file that only its site can read.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | features | required | the columns of a row, in the order of θ's coordinates | – |
/// | label | none | the column to predict | required but for the loss "mean" |
/// | standardize | false | every feature to mean 0 and sd 1 over all rows of all sites | – |
/// | intercept | false | a last coordinate of ones, never standardised, regularised or moved | – |
/// | missing | "error" | rows with an empty, NA or NaN cell | "error", "drop" |
/// | rows | gathered | every client's count of rows | one per client |
/// | mean, sd | gathered | of every feature over all rows | one per feature |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SitesBase {
    /// The columns of a row.
    pub features: Vec<String>,
    /// The column to predict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Every feature to mean 0 and standard deviation 1 over all rows of all sites.
    #[serde(default)]
    pub standardize: bool,
    /// A last coordinate of ones.
    #[serde(default)]
    pub intercept: bool,
    /// What to do with rows that miss a cell.
    #[serde(default)]
    pub missing: Missing,
    /// Every client's count of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<Count>>,
    /// The mean of every feature over all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<Vec<Real>>,
    /// The standard deviation of every feature over all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd: Option<Vec<Positive>>,
}

impl SitesBase {
    /// The names of θ's coordinates.
    pub fn coordinates(&self) -> Vec<String> {
        let intercept = self.intercept.then(|| "intercept".to_string());
        self.features.iter().cloned().chain(intercept).collect()
    }
}
