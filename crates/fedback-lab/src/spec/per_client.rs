//! Values that every client has one of.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::{Table, Value};

use super::hint::choices;
use super::value::{NonNegative, Real, decode_from_value, number, show};

/// A value for every client: a number for all of them, a list with one entry per client,
/// `{ by_name, default }`, `{ average, variance }` or `{ low, high }`.
///
/// An entry of a list is a number, a vector (one number a coordinate) or, for sensitivities, a
/// matrix. `{ average, variance }` is drawn, then shifted and scaled so that the p-weighted mean and
/// variance over clients are met exactly. `{ low, high }` is uniform.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PerClient {
    /// The same for every client.
    Same(Real),
    /// One entry per client.
    List(Vec<Entry>),
    /// An entry for every client that is named, another for the rest.
    ByName {
        /// By the clients' names.
        by_name: BTreeMap<String, Entry>,
        /// For those that are not named; without it all must be.
        #[serde(skip_serializing_if = "Option::is_none")]
        default: Option<Entry>,
    },
    /// Drawn with exact weighted moments.
    Moments {
        /// The p-weighted mean: a number, or one a coordinate.
        average: NumberOrVector,
        /// The p-weighted variance of each coordinate.
        variance: NonNegative,
    },
    /// Drawn uniformly.
    Range {
        /// The lower end.
        low: Real,
        /// The upper end.
        high: Real,
    },
}

/// One client's entry.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Entry {
    /// The same for every coordinate.
    Number(f64),
    /// One number a coordinate.
    Vector(Vec<f64>),
    /// Row after row.
    Matrix(Vec<Vec<f64>>),
}

/// A number, or one a coordinate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum NumberOrVector {
    /// The same for every coordinate.
    Number(f64),
    /// One number a coordinate.
    Vector(Vec<f64>),
}

fn vector(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(number).collect()
}

impl TryFrom<&Value> for Entry {
    type Error = String;

    fn try_from(value: &Value) -> Result<Self, String> {
        let matrix = || value.as_array()?.iter().map(vector).collect::<Option<Vec<_>>>();
        number(value)
            .map(Entry::Number)
            .or_else(|| vector(value).map(Entry::Vector))
            .or_else(|| matrix().map(Entry::Matrix))
            .ok_or_else(|| {
                format!("found {}; allowed: a finite number, a vector or a matrix", show(value))
            })
    }
}

impl TryFrom<Value> for PerClient {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        const ALLOWED: &str = "allowed: a finite number, a list with one entry per client, \
                               { by_name = { … } } with or without default = …, \
                               { average = …, variance = … } or { low = …, high = … }";
        if let Some(same) = number(&value) {
            return Ok(PerClient::Same(Real(same)));
        }
        match &value {
            Value::Array(items) => {
                let entries = items.iter().enumerate().map(|(client, item)| {
                    Entry::try_from(item).map_err(|why| format!("entry {client}: {why}"))
                });
                entries.collect::<Result<_, _>>().map(PerClient::List)
            }
            Value::Table(table) => {
                from_table(table)?.ok_or(format!("found {}; {ALLOWED}", show(&value)))
            }
            other => Err(format!("found {}; {ALLOWED}", show(other))),
        }
    }
}

fn from_table(table: &Table) -> Result<Option<PerClient>, String> {
    let real = |key: &str| {
        Real::try_from(table[key].clone()).map_err(|message| format!("{key}: {message}"))
    };
    let has = |keys: [&str; 2]| table.len() == 2 && keys.iter().all(|key| table.contains_key(*key));
    if has(["low", "high"]) {
        let (low, high) = (real("low")?, real("high")?);
        if low.0 > high.0 {
            return Err(format!("low = {} is above high = {}; swap them", low.0, high.0));
        }
        return Ok(Some(PerClient::Range { low, high }));
    }
    if has(["average", "variance"]) {
        let average = match vector(&table["average"]) {
            Some(vector) => NumberOrVector::Vector(vector),
            None => NumberOrVector::Number(real("average")?.0),
        };
        let variance = NonNegative::try_from(table["variance"].clone())
            .map_err(|message| format!("variance: {message}"))?;
        return Ok(Some(PerClient::Moments { average, variance }));
    }
    let known = |key: &String| key == "by_name" || key == "default";
    if table.contains_key("by_name") && table.keys().all(known) {
        let default = table.get("default").map(Entry::try_from).transpose();
        return Ok(Some(PerClient::ByName {
            by_name: by_name(&table["by_name"], |value| Entry::try_from(value))?,
            default: default.map_err(|why| format!("default: {why}"))?,
        }));
    }
    Ok(None)
}

/// A table of values by clients' names.
pub(super) fn by_name<T>(
    value: &Value,
    decode: impl Fn(&Value) -> Result<T, String>,
) -> Result<BTreeMap<String, T>, String> {
    let allowed = "by_name: allowed: a table of values by clients' names";
    let table = value.as_table().ok_or_else(|| format!("{allowed}; found {}", show(value)))?;
    let one = |(name, value): (&String, &Value)| match decode(value) {
        Ok(value) => Ok((name.clone(), value)),
        Err(why) => Err(format!("by_name.{name}: {why}")),
    };
    table.iter().map(one).collect()
}

/// The values of all clients in their order, from values by name; one that is not named has the
/// default.
pub fn in_order<T: Clone>(
    by_name: &BTreeMap<String, T>,
    default: Option<&T>,
    names: Option<&[String]>,
) -> Result<Vec<T>, String> {
    let names = names.ok_or(
        "by_name needs clients with names, which a table with partition = { column = … } has; \
         allowed here: a list",
    )?;
    if let Some(unknown) = by_name.keys().find(|name| !names.contains(name)) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        return Err(format!("by_name: no client \"{unknown}\"; {}", choices(unknown, &names)));
    }
    let value = |name: &String| {
        by_name.get(name).or(default).cloned().ok_or_else(|| {
            format!("by_name: nothing for the client \"{name}\"; name it, or add default = …")
        })
    };
    names.iter().map(value).collect()
}

decode_from_value!(PerClient);
