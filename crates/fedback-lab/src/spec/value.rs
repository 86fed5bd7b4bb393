//! The values a spec is made of, each with its range, and the errors that name what was found.
//!
//! Every value is decoded from a [`toml::Value`] by hand where serde's own message would not name
//! what is allowed.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use toml::{Table, Value};

use super::hint;

/// Separates a key path from the message in errors that cross a decoder by hand.
const MARK: char = '\u{1}';

/// A wrong entry of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyError {
    /// The dotted key.
    pub key: String,
    /// What was found, what is allowed, and the fix where there is one.
    pub message: String,
}

impl KeyError {
    /// An error at a dotted key.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        KeyError { key: key.into(), message: message.into() }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.is_empty() {
            true => write!(f, "{}", self.message),
            false => write!(f, "{}: {}", self.key, self.message),
        }
    }
}

/// Decodes a table, naming the key of whatever is wrong.
pub(super) fn decode<T: DeserializeOwned>(table: Table) -> Result<T, KeyError> {
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        let message = error.inner().message().to_string();
        match message.strip_prefix(MARK).and_then(|rest| rest.split_once(MARK)) {
            Some((inner, message)) => KeyError::new(join(&path, inner), message),
            None => plain(&path, &message),
        }
    })
}

fn join(path: &str, key: &str) -> String {
    match (path.is_empty(), key.is_empty()) {
        (true, _) => key.to_string(),
        (_, true) => path.to_string(),
        _ => format!("{path}.{key}"),
    }
}

/// serde's wording turned into ours.
fn plain(path: &str, message: &str) -> KeyError {
    let quoted = |from: &str| from.split('`').nth(1).unwrap_or_default().to_string();
    if message.starts_with("missing field") {
        return KeyError::new(join(path, &quoted(message)), "is missing; it is required");
    }
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let key = quoted(rest);
        let allowed: Vec<&str> = rest.split('`').skip(3).step_by(2).collect();
        let path = path.strip_suffix(&key).map_or(path, |p| p.trim_end_matches('.'));
        return KeyError::new(
            join(path, &key),
            format!("unknown key; {}", hint::keys(&key, &allowed)),
        );
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let found = quoted(rest);
        let allowed: Vec<&str> = rest.split('`').skip(3).step_by(2).collect();
        return KeyError::new(
            path,
            format!("found \"{found}\"; {}", hint::choices(&found, &allowed)),
        );
    }
    let (found, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let found = found.replace("invalid type: ", "found ").replace("invalid value: ", "found ");
    let allowed = match expected {
        "" => String::new(),
        section if section.starts_with("struct") => "; allowed: a section".into(),
        "a sequence" => "; allowed: a list".into(),
        other => format!("; allowed: {other}"),
    };
    KeyError::new(path, found.replace("found map", "found a table") + &allowed)
}

/// Takes `kind` out of a section.
pub(super) fn take_kind(table: &mut Table, allowed: &[&str]) -> Result<String, KeyError> {
    match table.remove("kind") {
        Some(Value::String(kind)) if allowed.contains(&kind.as_str()) => Ok(kind),
        Some(Value::String(kind)) => {
            let choices = hint::choices(&kind, allowed);
            Err(KeyError::new("kind", format!("found \"{kind}\"; {choices}")))
        }
        Some(other) => {
            let allowed = allowed.join(", ");
            Err(KeyError::new("kind", format!("found {}; allowed: {allowed}", show(&other))))
        }
        None => Err(KeyError::new("kind", format!("is missing; allowed: {}", allowed.join(", ")))),
    }
}

/// Carries a key through serde.
pub(super) fn carry<E: serde::de::Error>(error: KeyError) -> E {
    E::custom(format!("{MARK}{}{MARK}{}", error.key, error.message))
}

/// A value as its writer would recognise it, with its kind.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the text \"{}\"", shortened(text)),
        Value::Table(_) => format!("the table {}", shortened(&value.to_string())),
        Value::Array(items) if items.len() > 6 => format!("a list of {} entries", items.len()),
        other => shortened(&other.to_string()),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// Implements `Deserialize` by a conversion from [`Value`] with a message.
macro_rules! decode_from_value {
    ($($name:ty),+) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
                <$name>::try_from(Value::deserialize(decoder)?).map_err(D::Error::custom)
            }
        }
    )+};
}
pub(super) use decode_from_value;

/// A finite number.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Float(number) if number.is_finite() => Some(*number),
        _ => None,
    }
}

macro_rules! number_type {
    ($(#[$doc:meta])* $name:ident, $allowed:literal, $holds:expr, $schema:tt) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Serialize)]
        pub struct $name(pub f64);

        impl TryFrom<Value> for $name {
            type Error = String;

            fn try_from(value: Value) -> Result<Self, String> {
                number(&value)
                    .filter(|number| ($holds)(*number))
                    .map($name)
                    .ok_or_else(|| format!("found {}; allowed: {}", show(&value), $allowed))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }

        decode_from_value!($name);
    };
}

number_type!(
    /// A finite number.
    Real,
    "a finite number",
    |_: f64| true,
    { "type": "number" }
);
number_type!(
    /// A finite number of at least zero.
    NonNegative,
    "a finite number, 0 or more",
    |number: f64| number >= 0.0,
    { "type": "number", "minimum": 0 }
);
number_type!(
    /// A finite number above zero.
    Positive,
    "a finite number above 0",
    |number: f64| number > 0.0,
    { "type": "number", "exclusiveMinimum": 0 }
);

number_type!(
    /// A number of at least zero and below one.
    Fraction,
    "a number, 0 or more and below 1",
    |number: f64| (0.0..1.0).contains(&number),
    { "type": "number", "minimum": 0, "exclusiveMaximum": 1 }
);

/// A whole number of at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count(pub u64);

impl TryFrom<Value> for Count {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::Integer(whole) if whole >= 1 => Ok(Count(whole as u64)),
            other => Err(format!("found {}; allowed: a whole number, 1 or more", show(&other))),
        }
    }
}

/// A whole number of at least zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Whole(pub u64);

impl TryFrom<Value> for Whole {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::Integer(whole) if whole >= 0 => Ok(Whole(whole as u64)),
            other => Err(format!("found {}; allowed: a whole number, 0 or more", show(&other))),
        }
    }
}

/// A seed: a whole number of at least zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SeedNumber(pub u64);

impl TryFrom<Value> for SeedNumber {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::Integer(whole) if whole >= 0 => Ok(SeedNumber(whole as u64)),
            other => Err(format!(
                "found {}; allowed: a whole number from 0 to {}",
                show(&other),
                i64::MAX
            )),
        }
    }
}

decode_from_value!(Count, Whole, SeedNumber);

impl JsonSchema for Count {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 1 })
    }
}

impl JsonSchema for Whole {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Whole".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 0 })
    }
}

impl JsonSchema for SeedNumber {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Seed".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 0 })
    }
}
