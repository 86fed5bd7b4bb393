//! The documentation, run: what it tells a reader to type works, and prints what it says.
//!
//! In every page the blocks are taken in their order, in an empty folder of the page's own with
//! `fedback` on the path. A `toml` block that begins with `# name.toml` is written under that name.
//! A `sh` block is run; where a `text` block follows, its output must be that. Rust blocks are
//! doctests, see `src/lib.rs`.
//!
//! A picture `images/banks-plan.svg` in a page is what the page's commands left in `banks/plan.svg`; a table
//! `experiments/banks.csv` that it links to is what they left in `banks.csv`.
//!
//! With `FEDBACK_RENEW=1` in the environment, `text` blocks and pictures are written anew instead:
//! after a change of the random streams, say. Read the difference before you commit it.

#[path = "docs/drawn.rs"]
mod drawn;
#[path = "docs/names.rs"]
mod names;
#[path = "docs/page.rs"]
mod page;
#[path = "docs/reference.rs"]
mod reference;
#[path = "docs/shown.rs"]
mod shown;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fedback::lab::credit;
use fedback::lab::experiment::Experiment;
use fedback::lab::spec::Document;
use fedback::site::Policy;
use serde_json::Value;

use page::{Page, pages, root};
use shown::{matches_shown, shortened, tidy};

/// Commands that cannot run here, each with the reason.
const ELSEWHERE: [(&str, &str); 19] = [
    ("fedback serve", "serves until it is stopped; tests/browser opens it"),
    ("fedback serve --spec banks.toml", "serves until it is stopped"),
    ("fedback serve --listen 0.0.0.0:7878", "serves until it is stopped"),
    ("ssh -L 7878:localhost:7878 server", "needs another machine"),
    ("fedback data credit", "needs a network; tests/data.rs has the way from a file"),
    ("python3 -m pip download --no-deps whynot==0.12.0", "needs a network"),
    ("fedback data credit --from whynot-0.12.0-py3-none-any.whl", "needs the credit data"),
    ("fedback data credit --from cs-training.csv", "needs the credit data"),
    ("fedback run experiments/paper/credit.toml", "needs the credit data, and minutes"),
    (
        "cargo run --release",
        "builds the workspace; dev/test runs it, and `figure` below its result",
    ),
    ("./dev/test", "runs this test"),
    ("cargo test -p fedback --test docs", "is this test"),
    ("cargo test -p fedback --doc", "dev/test runs it"),
    ("cargo test -p fedback-engine --test rules --test plain", "dev/test runs it"),
    ("cargo test -p fedback --test docs every_", "is part of this test"),
    ("FEDBACK_RENEW=1 cargo test -p fedback --test docs", "changes the repository"),
    ("FEDBACK_RENEW_BITS=1 cargo test -p fedback --test bits", "changes the repository"),
    (
        "cd crates/fedback-py && FEDBACK_RENEW=1 python -m pytest tests/test_gallery.py",
        "changes the repository",
    ),
    ("FEDBACK_RENEW_ANSWERS=1 cargo test -p fedback --test answers", "changes the repository"),
];

/// Pages whose commands another test runs, and which.
const OTHERS: [(&str, &str); 5] = [
    ("docs/how-to/deploy.md", "crates/fedback-py/tests/flower/test_deploy_page.py"),
    ("docs/how-to/drill.md", "crates/fedback-py/tests/flower/test_deploy_page.py"),
    ("docs/how-to/operate.md", "crates/fedback-py/tests/flower/test_operate_page.py"),
    ("docs/how-to/own-response.md", "docs/examples/own-response/tests/commands.rs"),
    ("docs/how-to/simulate-on-flower.md", "crates/fedback-py/tests/flower/test_simulation.py"),
];

/// Commands at which the page says to press Ctrl-C: stopped as soon as there is a checkpoint.
const INTERRUPTED: [&str; 1] = ["fedback run experiment.toml --set rounds=100000"];

/// The languages that blocks may have; without one, rustdoc would take a block for Rust.
const LANGUAGES: [&str; 6] = ["sh", "toml", "text", "rust", "python", "tree"];

/// A command with `fedback` first on its path, or the one that the variable `FEDBACK_BINARY` names.
fn command(program: &str, folder: &Path) -> Command {
    let built = env!("CARGO_BIN_EXE_fedback").into();
    let fedback = PathBuf::from(std::env::var_os("FEDBACK_BINARY").unwrap_or(built));
    let bin = fedback.parent().unwrap();
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(bin.to_path_buf()).chain(std::env::split_paths(&old));
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .env_remove("COLUMNS")
        .env("PATH", std::env::join_paths(path).unwrap());
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
        if let Some((_, test)) = OTHERS.iter().find(|(name, _)| *name == page.name) {
            assert!(root().join(test).exists(), "{}: {test} is gone", page.name);
            continue;
        }
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
                        let fenced = |text: &str| format!("```text\n{text}");
                        let found = shortened(&found, &block.text);
                        renewed = renewed.replacen(&fenced(&block.text), &fenced(&found), 1);
                        continue;
                    }
                    assert!(same, "{place}: shown is\n{}--- but found was\n{found}", block.text);
                }
                "toml" => plan(&block.text, folder.path(), &place),
                "rust" | "python" | "tree" => {}
                other => panic!("{place}: language {other:?}; allowed: {LANGUAGES:?}"),
            }
        }
        if renewing() {
            fs::write(root().join(&page.name), renewed).unwrap();
        }
        pictures(&page, folder.path());
        tables(&page, folder.path());
    }
}

/// The pictures of a page are what its commands drew.
fn pictures(page: &Page, folder: &Path) {
    let text = page.text.replace("](../images/", "](images/");
    let names = text.split("](images/").skip(1).filter_map(|rest| rest.split(')').next());
    for name in names {
        let Some((place, file)) = name.split_once('-') else { continue };
        compare_picture(name, &folder.join(place).join(file));
    }
}

/// Compares a picture of the documentation with what a command drew, or renews it.
fn compare_picture(name: &str, drawn: &Path) {
    let made = fs::read(drawn).unwrap_or_else(|error| panic!("{}: {error}", drawn.display()));
    compare_made(&Path::new("docs/images").join(name), &made);
}

/// The same of one that was drawn here.
fn compare_drawing(name: &str, drawn: &str) {
    compare_made(&Path::new("docs/images").join(name), drawn.as_bytes());
}

/// Compares a file of the repository with what was made, or renews it.
fn compare_made(name: &Path, made: &[u8]) {
    let place = root().join(name);
    if renewing() {
        fs::write(&place, made).unwrap();
    }
    let kept = fs::read(place).unwrap_or_default();
    let how = "FEDBACK_RENEW=1 cargo test -p fedback --test docs";
    assert!(made == kept, "{} is not what is made; renew it: {how}", name.display());
}

/// The tables of experiments that a page links to are what its commands wrote.
fn tables(page: &Page, folder: &Path) {
    let names = page.text.split("experiments/").skip(1).filter_map(|rest| rest.split(')').next());
    for name in names.filter(|name| name.ends_with(".csv") && !name.contains(char::is_whitespace)) {
        let made = fs::read(folder.join(name));
        let made = made.unwrap_or_else(|error| panic!("{}: {name}: {error}", page.name));
        compare_made(&Path::new("experiments").join(name), &made);
    }
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

/// A TOML block is a spec that can be planned or a fragment of one, or a site's policy.
fn plan(text: &str, folder: &Path, place: &str) {
    if text.contains("[limits]") {
        let policy = Policy::parse(text, Path::new(place));
        policy.unwrap_or_else(|error| panic!("{error}"));
        return;
    }
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

/// The specs in a folder and in the folders in it.
fn specs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| match path.is_dir() {
        true => specs(&path),
        false if path.extension().is_some_and(|extension| extension == "toml") => vec![path],
        false => Vec::new(),
    });
    found.collect()
}

#[test]
fn every_experiment_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    let here = credit::is_there();
    for path in specs(&root().join("experiments")) {
        let text = fs::read_to_string(&path).unwrap();
        if text.contains("source = \"credit\"") && !here {
            eprintln!("skipped {}: no data; get them with `fedback data credit`", path.display());
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
    fedback(folder.path(), &["reproduce", "convergence"]);
    compare_picture("convergence.svg", &folder.path().join("fedback-report/convergence.svg"));
}
