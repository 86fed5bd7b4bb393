//! How far an answer is from the stored one.
//!
//! The specs have numbers of order one. To change means, sensitivities and rows by some units in the
//! last place moved no answer by more than [`CLOSE`] but for those of [`LOOSER`], and for those of
//! `boundary-…`, whose averages are exactly ±1 however they are summed.

use std::fmt;

use serde_json::Value;

/// When a number is the stored one.
#[derive(Clone, Copy)]
enum Agreement {
    /// |found − stored| ≤ relative · |stored| + absolute.
    Within { relative: f64, absolute: f64 },
    /// found ≤ 1.01 · stored.
    NoDearer,
    /// Always.
    Free,
}

/// The absolute part is for what would be zero but for rounding.
const CLOSE: Agreement = Agreement::Within { relative: 1e-12, absolute: 1e-14 };

/// The numbers that are compared otherwise: the beginning of the spec's name, the end of the path
/// without places in lists, and how.
const LOOSER: [(&str, &str, Agreement); 8] = [
    // A search may do better, and how many rounds it takes is a whole number.
    ("", "plan.total_time", Agreement::NoDearer),
    ("", "plan.binding.needed_steps", Agreement::NoDearer),
    // Newton's last steps only polish, and how many there are is decided by rounding.
    ("", ".iterations", Agreement::Free),
    // What rounding leaves of a gradient that is zero.
    ("", ".residual", Agreement::Within { relative: 0.0, absolute: 1e-12 }),
    // Zero but for that rounding where there is no bias, divided by a margin and by step sizes.
    ("", ".bias.local_steps", Agreement::Within { relative: 1e-12, absolute: 1e-12 }),
    ("", ".mean_limit", Agreement::Within { relative: 1e-12, absolute: 1e-12 }),
    // A second derivative by differences of a thousandth: of sixteen digits ten are left, fewer where
    // it is small.
    ("table-", ".bias.noise", Agreement::Within { relative: 1e-6, absolute: 1e-12 }),
    // Where batches make the map of a round random, it is bisected to 0.25/2¹⁶ of itself.
    ("table-", ".largest_step", Agreement::Within { relative: 4e-6, absolute: 0.0 }),
];

/// A place where an answer is not the stored one.
pub struct Difference {
    pub spec: String,
    pub path: String,
    stored: String,
    found: String,
}

impl Difference {
    pub fn new(spec: &str, path: &str, stored: &Value, found: &Value) -> Self {
        let (stored, found) = (stored.to_string(), found.to_string());
        Difference { spec: spec.to_owned(), path: path.to_owned(), stored, found }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { spec, path, stored, found } = self;
        write!(out, "{spec}: {path}: stored {stored}, found {found}")
    }
}

/// Everything of the stored answer to `command` that is not so in the found one, which may have
/// more.
pub fn differences(
    spec: &str,
    command: &str,
    stored: Option<&Value>,
    found: &Value,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    match stored {
        Some(stored) => gather(spec, command, stored, found, &mut differences),
        None => differences.push(Difference::new(spec, command, &"nothing".into(), found)),
    }
    differences
}

fn gather(spec: &str, path: &str, stored: &Value, found: &Value, into: &mut Vec<Difference>) {
    match (stored, found) {
        (Value::Object(fields), Value::Object(others)) => {
            for (key, value) in fields {
                let path = format!("{path}.{key}");
                match others.get(key) {
                    Some(other) => gather(spec, &path, value, other, into),
                    None => into.push(Difference::new(spec, &path, value, &"nothing".into())),
                }
            }
        }
        (Value::Array(entries), Value::Array(others)) if entries.len() == others.len() => {
            for (k, (value, other)) in entries.iter().zip(others).enumerate() {
                gather(spec, &format!("{path}[{k}]"), value, other, into);
            }
        }
        (Value::Number(number), Value::Number(other)) => {
            let (a, b) = (number.as_f64().unwrap(), other.as_f64().unwrap());
            if !agrees(agreement(spec, path), a, b) {
                into.push(Difference::new(spec, path, stored, found));
            }
        }
        _ if stored == found => {}
        _ => into.push(Difference::new(spec, path, stored, found)),
    }
}

fn agreement(spec: &str, path: &str) -> Agreement {
    let kind: String = path.split(['[', ']']).step_by(2).collect();
    let looser = LOOSER
        .iter()
        .find(|(beginning, end, _)| spec.starts_with(beginning) && kind.ends_with(end));
    looser.map_or(CLOSE, |(_, _, agreement)| *agreement)
}

fn agrees(agreement: Agreement, stored: f64, found: f64) -> bool {
    match agreement {
        Agreement::Within { relative, absolute } => {
            (found - stored).abs() <= relative * stored.abs() + absolute
        }
        Agreement::NoDearer => found <= 1.01 * stored,
        Agreement::Free => true,
    }
}
