//! The reference is complete: every key, option, field and dependency is in it.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::page::{Page, root};
use super::{command, fedback};

/// Every key and word of the schema.
fn schema_words(schema: &Value, words: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            let keys = map.get("properties").and_then(Value::as_object);
            words.extend(keys.into_iter().flat_map(|keys| keys.keys().cloned()));
            words
                .extend(map.get("const").and_then(Value::as_str).map(|word| format!("\"{word}\"")));
            map.values().for_each(|value| schema_words(value, words));
        }
        Value::Array(items) => items.iter().for_each(|item| schema_words(item, words)),
        _ => {}
    }
}

#[test]
fn every_key_of_a_spec_is_documented() {
    let folder = tempfile::tempdir().unwrap();
    let schema: Value = serde_json::from_str(&fedback(folder.path(), &["schema"])).unwrap();
    let mut words = BTreeSet::new();
    schema_words(&schema, &mut words);
    assert!(words.len() > 50, "{words:?}");
    let page = Page::read("docs/reference/spec.md");
    let missing: Vec<&String> =
        words.iter().filter(|word| !page.text.contains(&format!("`{word}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/spec.md says nothing of {missing:?}");
}

/// The names in a section of a help text.
fn listed(help: &str, section: &str) -> Vec<String> {
    let after = help.split(&format!("\n{section}:\n")).nth(1).unwrap_or_default();
    let lines = after.lines().take_while(|line| line.is_empty() || line.starts_with(' '));
    let names = lines.filter_map(|line| {
        let indent = line.len() - line.trim_start().len();
        let word = match section {
            // Descriptions may name options too, on lines that do not begin with one.
            "Options" if line.trim_start().starts_with("- ") => return None,
            "Options" if !line.trim_start().starts_with('-') => return None,
            "Options" => line.split_whitespace().find(|word| word.starts_with("--"))?,
            _ if indent == 2 => line.split_whitespace().next()?,
            _ => return None,
        };
        Some(word.trim_matches(|c| matches!(c, ',' | '<' | '>' | '[' | ']' | '.')).to_string())
    });
    names.collect()
}

#[test]
fn every_command_and_option_is_documented() {
    let folder = tempfile::tempdir().unwrap();
    let page = Page::read("docs/reference/cli.md");
    let section = |heading: &str| -> String {
        let mut parts = page.text.split("\n## ").skip(1);
        let found = parts.find(|part| part.lines().next() == Some(heading));
        found.unwrap_or_else(|| panic!("docs/reference/cli.md has no heading {heading}")).into()
    };
    let help = fedback(folder.path(), &["--help"]);
    let (commands, everywhere) = (listed(&help, "Commands"), listed(&help, "Options"));
    assert!(commands.len() >= 10 && everywhere.len() >= 5, "{commands:?} {everywhere:?}");
    let options = section("Options of every command");
    for option in &everywhere {
        assert!(options.contains(&format!("`{option}")), "{option} is not documented");
    }
    for name in commands {
        let text = section(&format!("fedback {name}"));
        if name == "help" {
            continue;
        }
        let help = fedback(folder.path(), &[&name, "--help"]);
        let own =
            listed(&help, "Options").into_iter().filter(|option| !everywhere.contains(option));
        let arguments = listed(&help, "Arguments").into_iter();
        for word in own.chain(arguments) {
            assert!(text.contains(&format!("`{word}")), "fedback {name}: {word} is not documented");
        }
    }
}

/// Every key of a JSON document, without those of specs: a sweep's `set`, `spec`, what `differs`.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                found.insert(key.clone());
                if !["set", "spec", "differs"].contains(&key.as_str()) {
                    keys(value, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn every_field_of_json_is_documented() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    fedback(folder, &["new", "gaussian.toml"]);
    fedback(folder, &["new", "banks.toml", "--kind", "table"]);
    let short = ["--set", "rounds=2", "--json", "--set", "measure.consensus=true"];
    let with = |first: &[&'static str], rest: &[&'static str]| [first, &short, rest].concat();
    let sweep = ["--set", "sweep={\"algorithm.local_steps\"=[1,2]}"];
    let client_risk = ["--set", "measure.client_risk=true"];
    let parts = ["--set", "measure.group=bank", "--set", "problem.base.holdout=0.2"];
    let parts = [&client_risk[..], &parts].concat();
    let first_arrivals = [
        "--set",
        "algorithm.scheme=first-arrivals",
        "--set",
        "algorithm.latency={kind=\"exponential\",mean={low=1.0,high=2.0}}",
    ];
    let leaving = ["--set", "problem.response={kind=\"retention\",by=\"client\",rate=1.0}"];
    let failing = ["--set", "algorithm.step_size={constant=1e300}", "--store", "failing.db"];
    let failed =
        command("fedback", folder).args(with(&["run", "gaussian.toml"], &failing)).output();
    let mut printed = vec![
        String::from_utf8(failed.unwrap().stdout).unwrap(),
        fedback(folder, &with(&["run", "gaussian.toml"], &[])),
        fedback(folder, &with(&["run", "banks.toml"], &client_risk)),
        fedback(folder, &with(&["run", "banks.toml"], &parts)),
        fedback(folder, &with(&["run", "gaussian.toml"], &sweep)),
        fedback(folder, &with(&["exact", "gaussian.toml"], &[])),
        fedback(folder, &with(&["solve", "gaussian.toml"], &[])),
        fedback(folder, &with(&["solve", "banks.toml"], &sweep)),
        fedback(folder, &with(&["run", "gaussian.toml"], &leaving)),
        fedback(folder, &with(&["solve", "gaussian.toml"], &leaving)),
        fedback(folder, &with(&["check", "gaussian.toml"], &[])),
        fedback(folder, &with(&["check", "banks.toml"], &sweep)),
        fedback(folder, &with(&["solve", "gaussian.toml"], &first_arrivals)),
        fedback(folder, &with(&["check", "gaussian.toml"], &first_arrivals)),
        fedback(folder, &with(&["bounds", "gaussian.toml"], &[])),
        fedback(folder, &with(&["bounds", "banks.toml"], &sweep)),
        fedback(folder, &with(&["plan", "gaussian.toml", "--accuracy", "1"], &[])),
    ];
    for arguments in [
        vec!["runs", "--json"],
        vec!["show", "1", "--json"],
        vec!["show", "1", "2", "--json"],
        vec!["resume", "1", "--json"],
        vec!["replay", "1", "--json"],
        vec!["compare", "1", "2", "--json"],
        vec!["export", "2", "--format", "theta"],
        vec!["export", "2", "--format", "json"],
    ] {
        printed.push(fedback(folder, &arguments));
    }
    let mut found = BTreeSet::new();
    for text in &printed {
        keys(&serde_json::from_str(text).unwrap(), &mut found);
    }
    let special = ["failed", "raw_units", "driven_away", "base_risk"];
    assert!(special.iter().all(|key| found.contains(*key)), "{found:?}");
    let page = Page::read("docs/reference/json.md");
    let missing: Vec<&String> =
        found.iter().filter(|key| !page.text.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/json.md says nothing of {missing:?}");
}

#[test]
fn every_dependency_is_accounted_for() {
    let page = Page::read("docs/dependencies.md");
    let mut manifests = vec![root().join("Cargo.toml"), root().join("bench/Cargo.toml")];
    let crates = fs::read_dir(root().join("crates")).unwrap();
    manifests.extend(crates.map(|entry| entry.unwrap().path().join("Cargo.toml")));
    for manifest in manifests.into_iter().filter(|manifest| manifest.exists()) {
        let table: toml::Table = toml::from_str(&fs::read_to_string(&manifest).unwrap()).unwrap();
        let workspace = table.get("workspace").and_then(|w| w.as_table()).unwrap_or(&table);
        let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
        let tables = sections.iter().filter_map(|s| workspace.get(*s)?.as_table());
        for name in tables.flat_map(|table| table.keys()) {
            let own = name == "fedback" || name.starts_with("fedback-");
            let known = own || page.text.contains(&format!("`{name}`"));
            assert!(known, "docs/dependencies.md says nothing of {name} ({})", manifest.display());
        }
    }
}
