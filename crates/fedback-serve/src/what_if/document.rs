//! The spec that is asked about: a known one with keys set anew.

use std::path::{Path, PathBuf};

use fedback_lab::spec::Document;
use serde::Deserialize;
use toml::{Table, Value};

use crate::answer::Refusal;
use crate::stores::{RunKey, Stores};

/// The spec to begin with where nothing is there yet.
const EXAMPLE: &str = include_str!("../../assets/example.toml");
/// Multiplies every sensitivity; no key of a spec.
pub const STRENGTH: &str = "strength";
/// Keys that name files, wherever they are.
const FILES: [&str; 2] = ["path", "resamples"];

/// Which spec, and what is set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// `example`, `text`, `file:0` or `run:0.3`.
    pub from: String,
    /// The spec itself, where it is `text`.
    #[serde(default)]
    pub text: String,
    /// `path.to.key=value`, as `--set` takes them; nothing after the = takes the key away.
    #[serde(default)]
    pub set: Vec<String>,
}

impl Described {
    /// The document with all that is set. It may read the files that it read before, and no others:
    /// whoever sees the page sees what is in them.
    pub fn document(&self, stores: &Stores, specs: &[PathBuf]) -> Result<Document, Refusal> {
        let origin = self.origin(stores, specs)?;
        let known = if self.from == "text" { Vec::new() } else { files(origin.table()) };
        let document = changed(origin, &self.set)?;
        match files(document.table()).into_iter().find(|file| !known.contains(file)) {
            None => Ok(document),
            Some(other) => Err(Refusal::question(format!(
                "found \"{other}\": the page reads no file but those of recorded runs and of \
                 `fedback serve --spec FILE`; start it with such a spec"
            ))),
        }
    }

    /// The same without strength, and what that is set to.
    pub fn apart(&self) -> (Described, Vec<String>) {
        let (strength, set) = self.set.iter().cloned().partition(|one| key_of(one) == STRENGTH);
        (Described { set, ..self.clone() }, strength)
    }

    fn origin(&self, stores: &Stores, specs: &[PathBuf]) -> Result<Document, Refusal> {
        let first = |document: Document| match document.table().contains_key("sweep") {
            true => Ok(document.at(0)?),
            false => Ok(document),
        };
        if self.from == "example" {
            return Ok(Document::parse(EXAMPLE, "example")?);
        }
        if self.from == "text" {
            return first(Document::parse(&self.text, "spec")?);
        }
        if let Some(key) = self.from.strip_prefix("run:") {
            let key: RunKey = key.parse().map_err(Refusal::question)?;
            let run = stores.read(key, 0)?;
            let table: Table = toml::from_str(&run.stored.run.spec).unwrap_or_default();
            let directory = PathBuf::from(&run.stored.run.directory);
            return Ok(Document::of(table, &format!("run {}", key.id), directory));
        }
        let place = self.from.strip_prefix("file:").and_then(|at| at.parse::<usize>().ok());
        match place.and_then(|at| specs.get(at)) {
            Some(path) => first(Document::read(path)?),
            None => {
                let found: String = self.from.chars().take(40).collect();
                let why = "allowed: example, text, file:0, run:0.3, as far as they are there";
                Err(Refusal::missing(format!("found spec \"{found}\"; {why}")))
            }
        }
    }
}

/// A document with keys set or taken away, and then its sensitivities multiplied.
pub fn changed(mut document: Document, set: &[String]) -> Result<Document, Refusal> {
    let (strength, keys): (Vec<&String>, Vec<&String>) =
        set.iter().partition(|one| key_of(one) == STRENGTH);
    for assignment in keys {
        match assignment.split_once('=') {
            Some((key, "")) => document = without(document, key.trim()),
            _ => document.set(assignment)?,
        }
    }
    strength.into_iter().try_fold(document, |document, one| strengthened(document, one))
}

/// The document without a key.
fn without(document: Document, key: &str) -> Document {
    let mut table = document.table().clone();
    let mut parts: Vec<&str> = key.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    let below = parts
        .iter()
        .try_fold(&mut table, |table, part| table.get_mut(*part).and_then(Value::as_table_mut));
    below.and_then(|section| section.remove(last));
    Document::of(table, &document.origin, document.directory.clone())
}

fn key_of(assignment: &str) -> &str {
    assignment.split_once('=').map_or(assignment, |(key, _)| key).trim()
}

/// Every file that a spec names.
fn files(table: &Table) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(below) => found.extend(files(below)),
            Value::String(text) if FILES.contains(&key.as_str()) => found.push(text.clone()),
            Value::Array(items) => {
                found.extend(items.iter().filter_map(Value::as_table).flat_map(files));
            }
            _ => {}
        }
    }
    found
}

/// The document with every sensitivity multiplied.
fn strengthened(document: Document, assignment: &str) -> Result<Document, Refusal> {
    let text = assignment.split_once('=').map_or("", |(_, value)| value).trim();
    let Some(factor) = text.parse::<f64>().ok().filter(|factor| factor.is_finite()) else {
        return Err(Refusal::question(format!("strength: found {text}; allowed: a number")));
    };
    if factor == 1.0 {
        return Ok(document);
    }
    let mut table = document.table().clone();
    let response = table.get_mut("problem").and_then(|problem| problem.get_mut("response"));
    let Some(sensitivity) = response.and_then(|response| response.get_mut("sensitivity")) else {
        return Err(Refusal::question("strength: this response has no sensitivity to multiply"));
    };
    multiply(sensitivity, factor);
    // What was found of fitted sensitivities says nothing of others.
    let response = table.get_mut("problem").and_then(|problem| problem.get_mut("response"));
    response.and_then(Value::as_table_mut).map(|response| response.remove("resamples"));
    table.remove("doubts");
    Ok(Document::of(table, &document.origin, document.directory.clone()))
}

/// Numbers, lists and ranges are multiplied; a variance by the square.
fn multiply(value: &mut Value, by: f64) {
    match value {
        Value::Float(number) => *number *= by,
        Value::Integer(number) => *value = Value::Float(*number as f64 * by),
        Value::Array(items) => items.iter_mut().for_each(|item| multiply(item, by)),
        Value::Table(table) => {
            for (key, value) in table.iter_mut() {
                multiply(value, if key == "variance" { by * by } else { by });
            }
        }
        Value::String(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

/// The document as a file that finds its data from anywhere.
pub fn text(document: &Document) -> String {
    document.rewritten(|table| anchor(table, &document.directory))
}

fn anchor(table: &mut Table, directory: &Path) {
    for (key, value) in table.iter_mut() {
        match value {
            Value::Table(below) => anchor(below, directory),
            Value::String(path) if FILES.contains(&key.as_str()) => {
                *path = directory.join(&*path).display().to_string();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(from: &str, text: &str, set: &[&str]) -> Result<Document, Refusal> {
        let set = set.iter().map(ToString::to_string).collect();
        let described = Described { from: from.into(), text: text.into(), set };
        described.document(&Stores { paths: Vec::new() }, &[])
    }

    #[test]
    fn no_file_is_read_that_the_spec_did_not_read_before() {
        let table = "[problem.base]\nkind = \"table\"\npath = \"/etc/passwd\"\n";
        let refused = [
            described("text", table, &[]),
            described("example", "", &["problem.base={kind=\"table\",path=\"/etc/passwd\"}"]),
            described("example", "", &["problem.response.resamples=/etc/passwd"]),
            described("example", "", &["algorithm.latency={kind=\"trace\",path=\"/etc/passwd\"}"]),
        ];
        for one in refused {
            assert!(one.is_err_and(|refusal| refusal.words().contains("reads no file")));
        }
    }

    #[test]
    fn strength_multiplies_every_kind_of_sensitivity() {
        let mut kinds: Table = toml::from_str(
            "a = 2\nb = [1.0, [2.0]]\nc = { average = 1.0, variance = 3.0 }\nd = { low = 1.0 }",
        )
        .unwrap();
        kinds.iter_mut().for_each(|(_, value)| multiply(value, 2.0));
        let wanted: Table = toml::from_str(
            "a = 4.0\nb = [2.0, [4.0]]\nc = { average = 2.0, variance = 12.0 }\nd = { low = 2.0 }",
        )
        .unwrap();
        assert_eq!(kinds, wanted);
    }
}
