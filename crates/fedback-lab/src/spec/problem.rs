//! The `[problem]` section: who the clients are, their data, and how these react.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

use super::elsewhere::{CustomBase, SitesBase};
use super::per_client::{PerClient, by_name};
use super::response::Response;
use super::rows::{Holdout, Partition};
use super::value::{
    Count, KeyError, NonNegative, Real, SeedNumber, carry, decode, decode_from_value, number, show,
    take_kind,
};

/// `[problem]`: the federation.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | clients | from the lists or the table | how many clients | ≥ 1 |
/// | weights | "uniform"; "rows" for tables | the p_i | see [`Weights`] |
/// | seed | the spec's | what is drawn for the problem comes from it | ≥ 0 |
/// | base | required | data before any model is deployed | see [`Base`] |
/// | response | none | how data react | see [`Response`] |
/// | loss | required | what a prediction costs | see [`Loss`] |
/// | stable_point | none | θ^PS where a part is custom and you know it | one number a coordinate |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// How many clients; from the lists or the table where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Count>,
    /// The clients' weights p_i.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// Weights, means, sensitivities, the shuffle and the partition are drawn from this seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<SeedNumber>,
    /// The data before any model is deployed.
    pub base: Base,
    /// How they react to a deployed model.
    #[serde(default)]
    pub response: Response,
    /// What a prediction costs.
    pub loss: Loss,
    /// θ^PS where a part is custom and its user knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_point: Option<Vec<Real>>,
}

impl Problem {
    /// The key of a part that is a function or a real site.
    pub fn custom_part(&self) -> Option<&'static str> {
        match (&self.base, &self.loss) {
            (Base::Custom(_) | Base::Sites(_), _) => Some("problem.base.kind"),
            (_, Loss::Custom) => Some("problem.loss.kind"),
            _ => None,
        }
    }
}

/// `weights`: `"uniform"`, `"rows"`, a list, `{ by_name = … }` or `{ variance = v }`.
///
/// A list is ≥ 0 and sums to 1 within 1e-9, and so are weights by name. `{ variance = v }` draws
/// p_i ∝ e_i^a with exponentials e_i and the a ≥ 0 at which the variance over clients is v, below 1/N − 1/N².
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Weights {
    /// A rule by name.
    Named(NamedWeights),
    /// One weight per client.
    List(Vec<NonNegative>),
    /// The weight of every client.
    ByName {
        /// By the clients' names.
        by_name: BTreeMap<String, NonNegative>,
    },
    /// Drawn with a given variance over clients.
    Spread {
        /// (1/N) Σ (p_i − 1/N)².
        variance: NonNegative,
    },
}

/// A rule for weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NamedWeights {
    /// 1/N each.
    Uniform,
    /// A client's share of the rows.
    Rows,
}

impl TryFrom<Value> for Weights {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        const ALLOWED: &str = "allowed: \"uniform\", \"rows\", a list of numbers from 0 to 1 that \
                               sum to 1, { by_name = { … } }, { variance = … }";
        match &value {
            Value::String(name) if name == "uniform" => Ok(Weights::Named(NamedWeights::Uniform)),
            Value::String(name) if name == "rows" => Ok(Weights::Named(NamedWeights::Rows)),
            Value::Array(items) => items
                .iter()
                .map(|item| {
                    number(item)
                        .filter(|weight| *weight >= 0.0)
                        .map(NonNegative)
                        .ok_or_else(|| format!("found the weight {}; {ALLOWED}", show(item)))
                })
                .collect::<Result<_, _>>()
                .map(Weights::List),
            Value::Table(table) if table.len() == 1 && table.contains_key("by_name") => {
                let weight = |value: &Value| NonNegative::try_from(value.clone());
                by_name(&table["by_name"], weight).map(|by_name| Weights::ByName { by_name })
            }
            Value::Table(table) if table.len() == 1 && table.contains_key("variance") => {
                let variance = NonNegative::try_from(table["variance"].clone())
                    .map_err(|message| format!("variance: {message}"))?;
                Ok(Weights::Spread { variance })
            }
            other => Err(format!("found {}; {ALLOWED}", show(other))),
        }
    }
}

decode_from_value!(Weights);

/// `[problem.base]`: the data before any model is deployed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Base {
    /// Normal observations.
    Gaussian(GaussianBase),
    /// The rows of a CSV file.
    Table(TableBase),
    /// What a function or a real site observes.
    Custom(CustomBase),
    /// Rows that only their sites can read.
    Sites(SitesBase),
}

impl Base {
    /// Whether the last coordinate is an intercept.
    pub fn has_intercept(&self) -> bool {
        match self {
            Base::Gaussian(_) => false,
            Base::Table(table) => table.intercept,
            Base::Custom(custom) => custom.intercept,
            Base::Sites(sites) => sites.intercept,
        }
    }
}

/// `kind = "gaussian"`: client i draws z0 ~ N(mean_i, noise² I).
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | dim | 1 | coordinates of an observation, and of θ | ≥ 1 |
/// | mean | required | mean_i | see [`PerClient`] |
/// | noise | 1 | standard deviation of every coordinate | ≥ 0 |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GaussianBase {
    /// Coordinates of an observation, and of θ.
    #[serde(default = "one")]
    pub dim: Count,
    /// The clients' means.
    pub mean: PerClient,
    /// The standard deviation of every coordinate.
    #[serde(default = "unit")]
    pub noise: NonNegative,
}

pub(super) fn one() -> Count {
    Count(1)
}

fn unit() -> NonNegative {
    NonNegative(1.0)
}

/// `kind = "table"`: the rows of a CSV file with a header.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | path | this or source | the CSV file, relative to the spec | – |
/// | source | this or path | a table that is known by name | see [`Source`] |
/// | label | none; known by the source | the column to predict | required but for the loss "mean" |
/// | partition | `{ equal = clients }` where `clients` is given | who holds which rows | see [`Partition`] |
/// | shuffle | false | put the rows in a seeded random order first | – |
/// | standardize | false | every feature to mean 0 and sd 1 over all rows | – |
/// | intercept | false | a last coordinate of ones, never standardised, regularised or moved | – |
/// | missing | "error" | empty, NA or NaN cells | "error", "drop", "mean" |
/// | ignore | none | columns that are no features, such as row numbers | names of the table |
/// | one_hot | none | text: a feature of 0 and 1 for every value but the first | names of the table |
/// | holdout | none | rows that are measured on, and not learned from | see [`Holdout`] |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableBase {
    /// The CSV file, relative to the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A table that is known by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The column to predict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Who holds which rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
    /// Put the rows in a random order first.
    #[serde(default)]
    pub shuffle: bool,
    /// Every feature to mean 0 and standard deviation 1 over all rows.
    #[serde(default)]
    pub standardize: bool,
    /// A last coordinate of ones.
    #[serde(default)]
    pub intercept: bool,
    /// What to do about missing cells.
    #[serde(default)]
    pub missing: Missing,
    /// Columns that are no features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Columns of which every value but the first becomes a feature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_hot: Vec<String>,
    /// Rows that are measured on, and not learned from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holdout: Option<Holdout>,
}

/// A table that is known by name, with its columns and its preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The credit data of the paper, see [`crate::credit`]: `fedback data credit` gets them.
    Credit,
}

/// What to do about a missing cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// Refuse the table.
    #[default]
    Error,
    /// Leave the row out.
    Drop,
    /// Put the mean of the feature there; rows without a label or a client are left out.
    Mean,
}

/// `[problem.loss]`: what a prediction costs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Loss {
    /// |θ − z|² / 2.
    Mean,
    /// (y − x·θ)² / 2 + l2/2 |θ|².
    Squared(Penalty),
    /// log(1 + e^(x·θ)) − y x·θ + l2/2 |θ|².
    Logistic(Penalty),
    /// A Python function.
    Custom,
}

/// The penalty of a linear model.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | l2 | 0 | ridge penalty, not on the intercept | ≥ 0 |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Penalty {
    /// Ridge penalty, not on the intercept.
    #[serde(default = "nothing")]
    pub l2: NonNegative,
}

fn nothing() -> NonNegative {
    NonNegative(0.0)
}

/// A kind without keys of its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoKeys {}

/// Implements `Deserialize` of a section by its `kind`; `or` takes one whose kind is none of those.
macro_rules! decode_by_kind {
    ($name:ident { $($kind:literal => $make:expr),+ $(,)? } $(or $other:expr)?) => {
        impl $name {
            /// The kinds that are built in.
            pub(crate) const KINDS: &[&str] = &[$($kind),+];
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
                let mut table = match Value::deserialize(decoder)? {
                    Value::Table(table) => table,
                    other => {
                        let found = show(&other);
                        return Err(D::Error::custom(format!("found {found}; allowed: a section")));
                    }
                };
                $(if let Some(Value::String(kind)) = table.get("kind")
                    && !$name::KINDS.contains(&kind.as_str())
                {
                    return Ok($other(table));
                })?
                let decoded = match take_kind(&mut table, $name::KINDS).map_err(carry)?.as_str() {
                    $($kind => $make(table),)+
                    _ => Err(KeyError::new("kind", "is not known")),
                };
                decoded.map_err(carry)
            }
        }
    };
}
pub(super) use decode_by_kind;

decode_by_kind!(Base {
    "gaussian" => |table| decode(table).map(Base::Gaussian),
    "table" => |table| decode(table).map(Base::Table),
    "custom" => |table| decode(table).map(Base::Custom),
    "sites" => |table| decode(table).map(Base::Sites),
});

decode_by_kind!(Loss {
    "mean" => |table| decode(table).map(|NoKeys {}| Loss::Mean),
    "squared" => |table| decode(table).map(Loss::Squared),
    "logistic" => |table| decode(table).map(Loss::Logistic),
    "custom" => |table| decode(table).map(|NoKeys {}| Loss::Custom),
});
