//! `latency`: how long clients take, for first arrivals in memory.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

use super::per_client::PerClient;
use super::problem::decode_by_kind;
use super::value::{KeyError, carry, decode, show, take_kind};

/// `latency`: how long every client takes to answer, independently in every round.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Latency {
    /// Exponential.
    Exponential(ExponentialLatency),
    /// Log-normal.
    Lognormal(LognormalLatency),
    /// Drawn from what was recorded.
    Trace(TraceLatency),
}

decode_by_kind!(Latency {
    "exponential" => |table| decode(table).map(Latency::Exponential),
    "lognormal" => |table| decode(table).map(Latency::Lognormal),
    "trace" => |table| decode(table).map(Latency::Trace),
});

/// `kind = "exponential"`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | mean | required | the mean latency of every client | > 0 |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExponentialLatency {
    /// The mean latency of every client.
    pub mean: PerClient,
}

/// `kind = "lognormal"`: median · e^(σ Z).
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | median | required | the median latency of every client | > 0 |
/// | sigma | required | σ, the standard deviation of its logarithm | > 0 |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LognormalLatency {
    /// The median latency of every client.
    pub median: PerClient,
    /// The standard deviation of the logarithm.
    pub sigma: PerClient,
}

/// `kind = "trace"`: in every round one of the latencies recorded of a client, each as likely.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | path | required | a CSV file with the columns `client` and `seconds`, or a column a client | relative to the spec |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceLatency {
    /// The CSV file, relative to the spec.
    pub path: String,
}
