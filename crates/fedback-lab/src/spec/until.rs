//! `until`: when a run ends before its last round.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::value::Positive;

/// A run ends at the first record at which this holds.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | movement | required | every repetition's θ moved by less since the record before | > 0 |
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// The Euclidean length of what θ moved by between two records.
    pub movement: Positive,
}
