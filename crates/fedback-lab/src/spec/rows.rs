//! Who holds which rows of a table, and which are held out.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

use super::value::{Count, Positive, decode_from_value, number, show};

/// Who holds which rows: `{ column = "bank" }`, `{ equal = 10 }` or
/// `{ dirichlet = 0.5, clients = 10 }`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Partition {
    /// One client for every value of a column, sorted by code point.
    Column {
        /// The column.
        column: String,
    },
    /// Contiguous parts of equal size.
    Equal {
        /// How many.
        equal: Count,
    },
    /// Dirichlet shares within every class of the label.
    Dirichlet {
        /// All concentrations.
        dirichlet: Positive,
        /// How many clients.
        clients: Count,
    },
}

impl TryFrom<Value> for Partition {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let error = || {
            format!(
                "found {}; allowed: {{ column = \"…\" }}, {{ equal = … }} or {{ dirichlet = …, \
                 clients = … }}",
                show(&value)
            )
        };
        let table = value.as_table().ok_or_else(error)?;
        let keys: Vec<&str> = table.keys().map(String::as_str).collect();
        let count = |key: &str| {
            Count::try_from(table[key].clone()).map_err(|message| format!("{key}: {message}"))
        };
        match keys[..] {
            ["column"] => match &table["column"] {
                Value::String(column) => Ok(Partition::Column { column: column.clone() }),
                other => Err(format!("column: found {}; allowed: a column's name", show(other))),
            },
            ["equal"] => Ok(Partition::Equal { equal: count("equal")? }),
            ["dirichlet", "clients"] | ["clients", "dirichlet"] => {
                let dirichlet = Positive::try_from(table["dirichlet"].clone())
                    .map_err(|message| format!("dirichlet: {message}"))?;
                Ok(Partition::Dirichlet { dirichlet, clients: count("clients")? })
            }
            _ => Err(error()),
        }
    }
}

/// Rows that are measured on, and not learned from: a share of every client's rows, drawn from the
/// seed of the problem, or `{ column = "part", value = "test" }`, the rows with that value.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Holdout {
    /// A share of every client's rows.
    Share(f64),
    /// Rows with a value in a column, which is no feature.
    Column {
        /// The column.
        column: String,
        /// The value of the rows that are held out.
        value: String,
    },
}

impl TryFrom<Value> for Holdout {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        const ALLOWED: &str = "allowed: a number above 0 and below 1, or { column = \"…\", value = \
                               \"…\" }";
        let error = || format!("found {}; {ALLOWED}", show(&value));
        if let Some(share) = number(&value) {
            let inside = share > 0.0 && share < 1.0;
            return inside.then_some(Holdout::Share(share)).ok_or_else(error);
        }
        let table = value.as_table().filter(|table| table.len() == 2).ok_or_else(error)?;
        match (table.get("column"), table.get("value")) {
            (Some(Value::String(column)), Some(Value::String(value))) => {
                Ok(Holdout::Column { column: column.clone(), value: value.clone() })
            }
            (Some(Value::String(_)), Some(other)) => {
                Err(format!("value: found {}; write it as text: \"{other}\"", show(other)))
            }
            _ => Err(error()),
        }
    }
}

decode_from_value!(Partition, Holdout);
