//! What tells runs apart: the keys in which their specs differ, and names made of them.

use serde_json::{Map, Value, json};

use crate::outcome::Outcome;
use crate::recorded::RecordedRun;

/// A dotted key whose value is not the same in all of several objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The key.
    pub key: String,
    /// Its value in each of them; none where an object does not have it.
    pub values: Vec<Option<Value>>,
}

/// The differences of objects, in the order of their keys.
pub fn differences(objects: &[Value]) -> Vec<Difference> {
    let differs = |one: &Difference| one.values.windows(2).any(|pair| pair[0] != pair[1]);
    all_keys(objects).into_iter().filter(differs).collect()
}

/// The parameters of runs: what was set or swept, in that order, then what differs besides. Names
/// are none.
pub fn parameters(runs: &[&Outcome]) -> Vec<Difference> {
    let specs: Vec<Value> = runs.iter().map(|run| json!(run.spec)).collect();
    let set: Vec<String> = runs.iter().flat_map(|run| run.all_set.keys().cloned()).collect();
    let differing: Vec<String> = differences(&specs).into_iter().map(|one| one.key).collect();
    let place = |one: &Difference| set.iter().position(|key| covers(key, &one.key));
    let asked = |one: &Difference| place(one).is_some() || differing.contains(&one.key);
    let mut found: Vec<Difference> = all_keys(&specs).into_iter().filter(asked).collect();
    found.retain(|one| one.key != "name");
    found.sort_by_key(|one| place(one).unwrap_or(usize::MAX));
    found
}

/// Whether a key that was set is this key, or the section that it is in.
pub(crate) fn covers(set: &str, key: &str) -> bool {
    key.strip_prefix(set).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Every key of some objects, with its values.
fn all_keys(objects: &[Value]) -> Vec<Difference> {
    let mut found = Vec::new();
    gather("", &objects.iter().map(Some).collect::<Vec<_>>(), &mut found);
    found
}

/// Takes in every key below one. What is a section wherever it is given is looked into; lists stay
/// whole, and so does what is a section here and a value there.
fn gather(key: &str, values: &[Option<&Value>], found: &mut Vec<Difference>) {
    let given = || values.iter().flatten();
    if !given().all(|value| value.is_object()) {
        let values = values.iter().map(|value| value.cloned()).collect();
        return found.push(Difference { key: key.into(), values });
    }
    let mut names: Vec<&String> = Vec::new();
    for name in given().filter_map(|value| value.as_object()).flat_map(Map::keys) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let below: Vec<_> = values.iter().map(|value| value.and_then(|v| v.get(name))).collect();
        let dot = if key.is_empty() { "" } else { "." };
        gather(&format!("{key}{dot}{name}"), &below, found);
    }
}

/// Differing parameters in a name, at most.
const MOST_PARTS: usize = 3;

/// Short names for runs, all different: the spec's name where that tells them apart, else with
/// tags, else with the parameters that differ, those that were set or swept before others.
pub fn labels(runs: &[&RecordedRun]) -> Vec<String> {
    let specs: Vec<Value> = runs.iter().map(|run| json!(run.spec)).collect();
    let mut found = differences(&specs);
    let named = found.iter().position(|one| one.key == "name").map(|place| found.remove(place));
    let tags: Vec<Value> =
        runs.iter().map(|run| json!({ "": run.stored.tags.join(" ") })).collect();
    let keys = |run: &&RecordedRun| -> Vec<String> {
        run.set.keys().chain(run.facts.assigned.keys()).cloned().collect()
    };
    let keys: Vec<String> = runs.iter().flat_map(keys).collect();
    let place = |one: &Difference| keys.iter().position(|key| covers(key, &one.key));
    let (mut set, others): (Vec<_>, _) = found.into_iter().partition(|one| place(one).is_some());
    set.sort_by_key(place);
    let mut labels: Vec<Vec<String>> = vec![Vec::new(); runs.len()];
    for group in [named.into_iter().collect(), differences(&tags), set, others] {
        if are_distinct(&labels) {
            break;
        }
        for difference in group.iter().take(MOST_PARTS) {
            for (label, value) in labels.iter_mut().zip(&difference.values) {
                label.extend(value.as_ref().and_then(|value| part(&difference.key, value)));
            }
        }
    }
    let distinct = are_distinct(&labels);
    let label = |(parts, run): (Vec<String>, &&RecordedRun)| match (parts.join(", "), distinct) {
        (text, _) if text.is_empty() => format!("{} (run {})", run.spec.name, run.stored.id),
        (text, true) => text,
        (text, false) => format!("{text} (run {})", run.stored.id),
    };
    labels.into_iter().zip(runs).map(label).collect()
}

fn are_distinct(labels: &[Vec<String>]) -> bool {
    let mut sorted: Vec<&Vec<String>> = labels.iter().collect();
    sorted.sort();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// A parameter in a name: schemes, kinds and names speak for themselves.
pub(crate) fn part(key: &str, value: &Value) -> Option<String> {
    let short = key.rsplit('.').next().unwrap_or(key);
    match value {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) if matches!(short, "" | "name" | "scheme" | "kind") => {
            Some(text.clone())
        }
        Value::String(text) => Some(format!("{short} {text}")),
        other => Some(format!("{short} {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_found_by_dotted_key() {
        let one = json!({ "rounds": 10, "algorithm": { "scheme": "full", "start": [0.0, 1.0] } });
        let two = json!({ "rounds": 10, "algorithm": { "scheme": "x", "cohort": 2, "start": [] } });
        let found = differences(&[one.clone(), two]);
        let keys: Vec<&str> = found.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["algorithm.scheme", "algorithm.start", "algorithm.cohort"]);
        assert_eq!(found[2].values, [None, Some(json!(2))]);
        assert!(differences(&[one.clone(), one]).is_empty());
    }

    #[test]
    fn a_section_that_is_a_value_elsewhere_stays_whole() {
        let column = json!({ "column": "part", "value": "test" });
        let found = differences(&[json!({ "holdout": 0.2 }), json!({ "holdout": column })]);
        let values = vec![Some(json!(0.2)), Some(column)];
        assert_eq!(found, [Difference { key: "holdout".into(), values }]);
    }
}
