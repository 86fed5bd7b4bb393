//! The documentation, run: what it tells a reader to type works, and prints what it says.
//!
//! In every page the blocks are taken in their order, in an empty folder of the page's own with
//! `fedback` on the path. A `toml` block that begins with `# name.toml` is written under that name.
//! A `sh` block is run; where a `text` block follows, its output must be that. Rust blocks are
//! doctests, see `src/lib.rs`.
//!
//! With `FEDBACK_RENEW=1` in the environment, `text` blocks and the figure are written anew instead:
//! after a change of the random streams, say. Read the difference before you commit it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fedback::lab::experiment::Experiment;
use fedback::lab::spec::Document;
use serde_json::Value;

/// Commands that cannot run here, each with the reason.
const ELSEWHERE: [(&str, &str); 5] = [
    (
        "cargo run --release",
        "builds the workspace; dev/test runs it, and `figure` below its result",
    ),
    ("./dev/test", "runs this test"),
    ("cargo test -p fedback --test docs", "is this test"),
    ("cargo test -p fedback --doc", "dev/test runs it"),
    ("FEDBACK_RENEW=1 cargo test -p fedback --test docs", "changes the repository"),
];

/// Commands at which the page says to press Ctrl-C: stopped as soon as there is a checkpoint.
const INTERRUPTED: [&str; 1] = ["fedback run experiment.toml --set rounds=100000"];

/// The languages that blocks may have; without one, rustdoc would take a block for Rust.
const LANGUAGES: [&str; 5] = ["sh", "toml", "text", "rust", "tree"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

struct Page {
    /// Relative to the root.
    name: String,
    text: String,
}

struct Block<'a> {
    line: usize,
    language: &'a str,
    text: String,
}

impl Page {
    fn read(name: &str) -> Page {
        let text = fs::read_to_string(root().join(name)).unwrap();
        Page { name: name.into(), text }
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut open: Option<Block<'_>> = None;
        for (line, text) in self.text.lines().enumerate() {
            match (text.strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    open = Some(Block { line: line + 1, language, text: String::new() });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => block.text.push_str(&format!("{text}\n")),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block is not closed", self.name);
        blocks
    }

    /// The lines outside blocks.
    fn prose(&self) -> Vec<&str> {
        let mut inside = false;
        let outside = |line: &&str| {
            let fence = line.starts_with("```");
            inside ^= fence;
            !inside && !fence
        };
        self.text.lines().filter(outside).collect()
    }
}

fn pages() -> Vec<Page> {
    fn collect(folder: &Path, names: &mut Vec<String>) {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                collect(&path, names);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                names.push(path.to_str().unwrap().into());
            }
        }
    }
    let mut names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(String::from).to_vec();
    collect(Path::new("docs"), &mut names);
    names.sort();
    assert!(names.len() >= 15, "pages are missing: {names:?}");
    names.iter().map(|name| Page::read(name)).collect()
}

/// A command with `fedback` first on its path.
fn command(program: &str, folder: &Path) -> Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_fedback")).parent().unwrap();
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(bin.to_path_buf()).chain(std::env::split_paths(&old));
    let mut command = Command::new(program);
    command.current_dir(folder).env("PATH", std::env::join_paths(path).unwrap());
    command
}

/// Runs `fedback` and returns what it printed.
fn fedback(folder: &Path, arguments: &[&str]) -> String {
    let output = command("fedback", folder).args(arguments).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "fedback {arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a block with both outputs in one, as a terminal shows them.
fn run_block(text: &str, folder: &Path) -> Output {
    let script = format!("exec 2>&1\nset -eu\n{text}");
    command("sh", folder).arg("-c").arg(script).stdin(Stdio::null()).output().unwrap()
}

/// Runs a command until it has written a checkpoint, then stops it as Ctrl-C does.
fn interrupt(line: &str, folder: &Path) -> Output {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut child = command(words[0], folder);
    let child = child.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let began = Instant::now();
    loop {
        let runs: Value = serde_json::from_str(&fedback(folder, &["runs", "--json"])).unwrap();
        let newest = &runs[0];
        if newest["state"] == "running" && newest["round"].as_u64() > Some(0) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no checkpoint: {runs}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let mut output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "the run was over before it could be stopped");
    output.stdout.append(&mut output.stderr);
    output
}

/// Lines with what differs from time to time masked and spaces made single, since the width of a
/// column depends on what is masked.
fn tidy(text: &str) -> Vec<String> {
    let mut seconds_column = false;
    let mut tidied = Vec::new();
    for line in text.trim_end().lines() {
        let mut words: Vec<String> = line.split_whitespace().map(mask).collect();
        for place in 1..words.len() {
            let is_unit = matches!(words[place].as_str(), "s" | "s,");
            let is_stop = place >= 3 && words[place - 3..place] == ["record", "of", "round"];
            if is_unit && words[place - 1].parse::<f64>().is_ok() {
                words[place - 1] = "SECONDS".into();
            } else if is_stop {
                words[place] = "ROUND;".into();
            }
        }
        let last = words.last_mut();
        let numeric = last.as_ref().is_some_and(|word| word.parse::<f64>().is_ok());
        let header = last.as_ref().is_some_and(|word| *word == "seconds");
        if let Some(last) = last.filter(|_| seconds_column && numeric) {
            *last = "SECONDS".into();
        }
        seconds_column = header || (seconds_column && numeric);
        tidied.push(words.join(" "));
    }
    tidied
}

/// One word with dates and the seconds of JSON masked.
fn mask(word: &str) -> String {
    let is_date = word.len() == 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
    if is_date {
        return "DATE".into();
    }
    let Some((before, after)) = word.split_once("\"seconds\":") else { return word.into() };
    let end = after.find([',', '}']).unwrap_or(after.len());
    format!("{before}\"seconds\":SECONDS{}", mask(&after[end..]))
}

/// Whether lines are as shown, where a line `…` stands for any lines and a `…` at the end of one
/// for the rest of it.
fn matches_shown(shown: &[String], found: &[String]) -> bool {
    match shown.split_first() {
        None => found.is_empty(),
        Some((line, rest)) if line == "…" => {
            (0..=found.len()).any(|skipped| matches_shown(rest, &found[skipped..]))
        }
        Some((line, rest)) => found.split_first().is_some_and(|(first, others)| {
            let same = match line.strip_suffix('…') {
                Some(beginning) => first.starts_with(beginning.trim_end()),
                None => first == line,
            };
            same && matches_shown(rest, others)
        }),
    }
}

/// The name in the first line `# name.toml` of a block.
fn file_name(text: &str) -> Option<&str> {
    let name = text.lines().next()?.strip_prefix("# ")?;
    (name.ends_with(".toml") && !name.contains(' ')).then_some(name)
}

/// Whether to write what is shown instead of comparing it.
fn renewing() -> bool {
    std::env::var_os("FEDBACK_RENEW").is_some()
}

#[test]
fn what_pages_show_is_what_happens() {
    for page in pages() {
        let folder = tempfile::tempdir().unwrap();
        let mut printed: Option<String> = None;
        let mut renewed = page.text.clone();
        for block in page.blocks() {
            let place = format!("{}:{}", page.name, block.line);
            let before = printed.take();
            match block.language {
                "sh" => printed = Some(type_in(&block.text, folder.path(), &place)),
                "text" => {
                    let found = before.unwrap_or_else(|| panic!("{place}: no sh block before"));
                    let same = matches_shown(&tidy(&block.text), &tidy(&found));
                    if renewing() && !same {
                        renewed = renewed.replacen(&block.text, &shortened(&found, &block.text), 1);
                        continue;
                    }
                    assert!(same, "{place}: shown is\n{}--- but found was\n{found}", block.text);
                }
                "toml" => plan(&block.text, folder.path(), &place),
                "rust" | "tree" => {}
                other => panic!("{place}: language {other:?}; allowed: {LANGUAGES:?}"),
            }
        }
        if renewing() {
            fs::write(root().join(&page.name), renewed).unwrap();
        }
    }
}

/// What was found with as many lines left out as in what is shown.
fn shortened(found: &str, shown: &str) -> String {
    let found: Vec<&str> = found.trim_end().lines().collect();
    let shown: Vec<&str> = shown.lines().collect();
    let Some(gap) = shown.iter().position(|line| line.trim() == "…") else {
        return found.join("\n") + "\n";
    };
    let after = found.len() - (shown.len() - gap - 1);
    [&found[..gap], &["…"], &found[after..]].concat().join("\n") + "\n"
}

/// What a reader does with a block of commands.
fn type_in(text: &str, folder: &Path, place: &str) -> String {
    let lines: Vec<&str> =
        text.lines().map(|line| line.split('#').next().unwrap().trim()).collect();
    let elsewhere = |line: &&&str| ELSEWHERE.iter().any(|(known, _)| known == *line);
    let count = lines.iter().filter(elsewhere).count();
    if count > 0 {
        assert_eq!(
            count,
            lines.len(),
            "{place}: mixes commands that run here with ones that cannot"
        );
        return String::new();
    }
    let output = match lines.as_slice() {
        [only] if INTERRUPTED.contains(only) => interrupt(only, folder),
        _ => {
            let output = run_block(text, folder);
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{place}: {:?}\n{printed}", output.status);
            output
        }
    };
    String::from_utf8(output.stdout).unwrap()
}

/// A TOML block is a spec that can be planned, or a fragment of one.
fn plan(text: &str, folder: &Path, place: &str) {
    let document = match file_name(text) {
        Some(name) => {
            fs::write(folder.join(name), text).unwrap();
            Document::read(&folder.join(name))
        }
        None if text.contains("[problem]") => Document::parse(text, place),
        None => {
            let parsed: Result<toml::Table, _> = toml::from_str(text);
            parsed.unwrap_or_else(|error| panic!("{place}: {error}"));
            return;
        }
    };
    let planned = document.and_then(|document| Experiment::new(&document));
    planned.unwrap_or_else(|error| panic!("{place}: {error}"));
}

#[test]
fn exceptions_are_used() {
    let pages = pages();
    let mentioned = |command: &str| {
        let sh = |page: &Page| {
            page.blocks().iter().any(|b| b.language == "sh" && b.text.contains(command))
        };
        pages.iter().any(sh)
    };
    for command in ELSEWHERE.iter().map(|(command, _)| *command).chain(INTERRUPTED) {
        assert!(mentioned(command), "no page has `{command}`: take it off the list");
    }
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let folder = root().join(&page.name).parent().unwrap().to_path_buf();
        for target in targets(&page) {
            if target.starts_with("https://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { root().join(&page.name) } else { folder.join(file) };
            assert!(path.exists(), "{}: broken link {target}", page.name);
            if !anchor.is_empty() {
                let text = fs::read_to_string(&path).unwrap();
                let page = Page { name: target.clone(), text };
                assert!(anchors(&page).contains(anchor), "{}: no heading for {target}", page.name);
            }
        }
    }
}

fn targets(page: &Page) -> Vec<String> {
    let prose = page.prose().join("\n");
    let marked = |mark: &str, end: char| -> Vec<String> {
        let parts = prose.split(mark).skip(1);
        parts.filter_map(|rest| rest.split(end).next().map(String::from)).collect()
    };
    [marked("](", ')'), marked("src=\"", '"')].concat()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &Page) -> BTreeSet<String> {
    let headings = page.prose().into_iter().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        text.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    };
    headings.map(anchor).collect()
}

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

/// Every key of a JSON document, without those of a sweep's `set`.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                found.insert(key.clone());
                if key != "set" {
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
    let failing = ["--set", "algorithm.step_size={constant=1e300}", "--store", "failing.db"];
    let failed =
        command("fedback", folder).args(with(&["run", "gaussian.toml"], &failing)).output();
    let mut printed = vec![
        String::from_utf8(failed.unwrap().stdout).unwrap(),
        fedback(folder, &with(&["run", "gaussian.toml"], &[])),
        fedback(folder, &with(&["run", "banks.toml"], &client_risk)),
        fedback(folder, &with(&["run", "gaussian.toml"], &sweep)),
        fedback(folder, &with(&["exact", "gaussian.toml"], &[])),
        fedback(folder, &with(&["solve", "gaussian.toml"], &[])),
        fedback(folder, &with(&["solve", "banks.toml"], &sweep)),
    ];
    for arguments in [
        vec!["runs", "--json"],
        vec!["resume", "1", "--json"],
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
    assert!(found.contains("failed") && found.contains("raw_units"), "{found:?}");
    let page = Page::read("docs/reference/json.md");
    let missing: Vec<&String> =
        found.iter().filter(|key| !page.text.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/json.md says nothing of {missing:?}");
}

#[test]
fn every_experiment_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in fs::read_dir(root().join("experiments")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        Experiment::read(&path).unwrap_or_else(|error| panic!("{error}"));
        let short = ["--set", "rounds=4", "--set", "repetitions=2", "--store", "none", "--json"];
        let arguments = [&["run", path.to_str().unwrap()], &short[..]].concat();
        let _: Value = serde_json::from_str(&fedback(folder.path(), &arguments)).unwrap();
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn figure() {
    let folder = tempfile::tempdir().unwrap();
    fedback(folder.path(), &[]);
    let made = fs::read(folder.path().join("fedback-report/schemes.svg")).unwrap();
    let place = root().join("docs/images/schemes.svg");
    if renewing() {
        fs::write(&place, &made).unwrap();
    }
    let kept = fs::read(place).unwrap();
    let how = "FEDBACK_RENEW=1 cargo test -p fedback --test docs";
    assert!(made == kept, "docs/images/schemes.svg is not what the command draws; renew it: {how}");
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
            let known = name.starts_with("fedback-") || page.text.contains(&format!("`{name}`"));
            assert!(known, "docs/dependencies.md says nothing of {name} ({})", manifest.display());
        }
    }
}

#[test]
fn masks_hide_time_and_nothing_else() {
    let a =
        "  run   seconds\n    1   0.08213\n  0.1998 s, recorded as run 4\n x 2026-11-15T09:21:34Z";
    let b = "  run    seconds\n    1   0.1\n  12 s, recorded as run 4\nx 2027-01-01T00:00:00Z";
    assert_eq!(tidy(a), tidy(b));
    assert_ne!(tidy("stable point [5.000]"), tidy("stable point [5.001]"));
    assert_ne!(tidy("run risk\n1 0.5"), tidy("run risk\n1 0.6"));
    assert_eq!(mask("{\"a\":1,\"seconds\":0.25}"), "{\"a\":1,\"seconds\":SECONDS}");
    let lines = |text: &str| tidy(text);
    assert!(matches_shown(&lines("a\n…\nd"), &lines("a\nb\nc\nd")));
    assert!(!matches_shown(&lines("a\n…\nd"), &lines("a\nb\nc")));
    assert!(matches_shown(&lines("a b…"), &lines("a bc")));
    assert!(!matches_shown(&lines("a"), &lines("a\nb")));
}
