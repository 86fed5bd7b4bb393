//! `[sweep]`: lists of values by dotted key, and what they make of a spec.

use toml::{Table, Value};

use super::algorithm::RoundKeys;
use super::value::{self, KeyError};

const NO_KEY: &str =
    "is no key; allowed: names joined by dots, as in rounds or algorithm.local_steps";
/// More runs than this are planned in parts.
const MOST_POINTS: usize = 10_000;

/// Every combination of the lists of a sweep, the last key fastest. A key that names several, with
/// commas between them, has a list of values for each place: these vary together.
pub(super) fn combinations(sweep: &Value) -> Result<Vec<Table>, KeyError> {
    let lists = sweep.as_table().ok_or_else(|| {
        KeyError::new("sweep", format!("found {}; allowed: a section", value::show(sweep)))
    })?;
    let mut all = vec![Table::new()];
    for (names, values) in lists {
        let places = places(names, values)?;
        if all.len().saturating_mul(places.len()) > MOST_POINTS {
            let message = format!("more than {MOST_POINTS} combinations; sweep fewer values");
            return Err(KeyError::new("sweep", message));
        }
        if let Some(twice) = places[0].keys().find(|key| all[0].contains_key(*key)) {
            let message = format!("{twice} is swept twice; name it once");
            return Err(KeyError::new(format!("sweep.\"{names}\""), message));
        }
        let with = |set: Table| {
            places.iter().map(move |place| {
                let mut set = set.clone();
                set.extend(place.clone());
                set
            })
        };
        all = all.into_iter().flat_map(with).collect();
    }
    Ok(all)
}

/// What each value of one list sets.
fn places(names: &str, values: &Value) -> Result<Vec<Table>, KeyError> {
    let fail = |message: String| KeyError::new(format!("sweep.\"{names}\""), message);
    if names.trim().is_empty() {
        let message = "is empty; name a key, as in rounds = [10, 20], or several that vary together, as in \
                       \"rounds, algorithm.local_steps\" = [[10, 1], [2, 5]]";
        return Err(fail(message.into()));
    }
    let keys: Vec<&str> = match key_path(names) {
        Some(_) => vec![names],
        None => names.split(',').map(str::trim).collect(),
    };
    for key in &keys {
        let path = key_path(key).ok_or_else(|| fail(NO_KEY.into()))?;
        if matches!(path[0].as_str(), "format" | "sweep") {
            return Err(fail("cannot be swept; allowed: the other keys of the spec".into()));
        }
    }
    if (1..keys.len()).any(|k| keys[..k].contains(&keys[k])) {
        return Err(fail("names a key twice".into()));
    }
    let values = values.as_array().filter(|values| !values.is_empty()).ok_or_else(|| {
        fail(format!("found {}; allowed: a list of one or more values", value::show(values)))
    })?;
    let set = |value: &Value| match (keys.len(), value) {
        (1, value) => Ok(Table::from_iter([(keys[0].to_string(), value.clone())])),
        (count, Value::Array(each)) if each.len() == count => {
            let pairs = keys.iter().zip(each);
            Ok(pairs.map(|(key, value)| (key.to_string(), value.clone())).collect())
        }
        (count, other) => Err(fail(format!(
            "found {} in the list; allowed: lists of {count} values, one for each key",
            value::show(other)
        ))),
    };
    values.iter().map(set).collect()
}

/// Puts a value at a dotted key; a table is merged into the section it meets.
pub(super) fn assign(table: &mut Table, key: &str, value: Value) -> Result<(), KeyError> {
    let path = key_path(key).ok_or_else(|| KeyError::new(key, NO_KEY))?;
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let (last, sections) = parts.split_last().unwrap_or((&key, &[]));
    if parts.starts_with(&["problem", "response", "sensitivity"]) {
        // What is asked for rather than fitted has no resamples.
        let response = table.get_mut("problem").and_then(|problem| problem.get_mut("response"));
        response.and_then(Value::as_table_mut).map(|response| response.remove("resamples"));
    }
    let mut here = table;
    for section in sections {
        let entry = here.entry(section.to_string()).or_insert_with(|| Value::Table(Table::new()));
        here = entry
            .as_table_mut()
            .ok_or_else(|| KeyError::new(key, format!("{section} is a value, not a section")))?;
    }
    match (here.get_mut(*last), value) {
        (Some(Value::Table(existing)), Value::Table(new)) if is_section(&parts) => {
            // Another kind has other keys: it replaces the section, or what of it is not shared.
            if new.get("kind").is_some_and(|kind| existing.get("kind") != Some(kind)) {
                existing.retain(|key, _| parts == ["algorithm"] && RoundKeys::has(key));
            }
            existing.extend(new);
        }
        (_, value) => {
            here.insert(last.to_string(), value);
        }
    }
    Ok(())
}

/// The parts of a dotted key, quoted where they hold dots, as TOML reads them.
fn key_path(key: &str) -> Option<Vec<String>> {
    let mut table: Table = toml::from_str(&format!("{key} = 0")).ok()?;
    let mut path = Vec::new();
    loop {
        let (name, value) = table.into_iter().next()?;
        path.push(name);
        match value {
            Value::Table(inner) => table = inner,
            _ => return Some(path).filter(|path| path.iter().all(|part| !part.is_empty())),
        }
    }
}

/// Sections are merged; values such as `step_size` that happen to be tables are replaced.
fn is_section(parts: &[&str]) -> bool {
    matches!(
        parts,
        ["problem" | "algorithm" | "measure"] | ["problem", "base" | "response" | "loss"]
    )
}
