//! A disk that is full takes nothing that was there before, and leaves nothing behind.
//!
//! A limit on the size of files stands for it: a write beyond it fails as one to a full disk does.
#![cfg(unix)]

mod binary;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the command where no file may grow beyond `blocks` of 512 or 1024 bytes.
fn limited(folder: &Path, blocks: u32, args: &[&str]) -> Output {
    let command = binary::command(folder, args);
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    Command::new("sh")
        .args(["-c", &script])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(folder)
        .output()
        .unwrap()
}

/// The command fails with exit code 1 and says that `file` cannot be written.
fn fails(folder: &Path, blocks: u32, args: &[&str], file: &str) {
    let output = limited(folder, blocks, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert!(said.contains(file), "{args:?}: {said}");
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn new_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fails(folder.path(), 1, &["new"], "experiment.toml cannot be written");
    fails(folder.path(), 1, &["new", "--kind", "table"], "experiment.csv cannot be written");
    assert!(files(folder.path()).is_empty());
}

#[test]
fn export_keeps_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    assert!(binary::command(here, &["new"]).status().unwrap().success());
    let run = ["run", "experiment.toml", "--set", "rounds=40", "--quiet"];
    assert!(binary::command(here, &run).output().unwrap().status.success());
    fs::write(here.join("curve.csv"), "precious").unwrap();
    let before = files(here);
    for format in ["json", "svg"] {
        let args = ["export", "1", "--format", format, "--out", "curve.csv"];
        fails(here, 1, &args, "curve.csv cannot be written");
    }
    let bundle = ["export", "1", "--format", "bundle", "--out", "one.bundle"];
    fails(here, 16, &bundle, "one.bundle");
    assert_eq!(fs::read_to_string(here.join("curve.csv")).unwrap(), "precious");
    // Under the limit SQLite cannot tidy up after reading the store.
    let left = files(here).into_iter().filter(|name| !name.starts_with("fedback.db-"));
    assert_eq!(left.collect::<Vec<_>>(), before);
}
