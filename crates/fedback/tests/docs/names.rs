//! What the pages for contributors name exists: files, types, functions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::page::{Page, root};

const PAGES: [&str; 2] = ["docs/architecture.md", "CONTRIBUTING.md"];

/// All files below a folder, but for what a build leaves.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        match entry.is_dir() {
            true if name == "target" || name.starts_with('.') => {}
            true => files(&entry, found),
            false => found.push(entry),
        }
    }
}

/// What is defined in Rust: functions, types, traits, constants, macros, variants.
fn defined(sources: &str) -> BTreeSet<&str> {
    let words = sources.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let keywords = ["fn", "struct", "enum", "trait", "type", "const", "mod", "macro_rules"];
    words.windows(2).filter(|pair| keywords.contains(&pair[0])).map(|pair| pair[1]).collect()
}

/// What stands in single backticks outside of blocks.
fn quoted(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split('`').skip(1).step_by(2)).collect()
}

fn is_path(word: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    (word.contains('/') || word.ends_with(".rs")) && word.chars().all(plain)
}

/// `Federation::new`, `with_rule`, `decode_by_kind!`, but neither `mean` nor `--set`.
fn is_name(word: &str) -> bool {
    let bare = word.trim_end_matches('!').replace("::", "_");
    let identifier = bare.chars().all(|c| c.is_alphanumeric() || c == '_');
    let tells = word.contains("::") || word.ends_with('!') || word.starts_with(char::is_uppercase);
    identifier && tells && bare.len() > 3
}

#[test]
fn what_contributors_are_told_of_exists() {
    let mut all = Vec::new();
    files(&root(), &mut all);
    let rust = all.iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let sources: String = rust.map(|path| fs::read_to_string(path).unwrap()).collect();
    let defined = defined(&sources);
    // What chores make, and git does not know.
    let ignored = fs::read_to_string(root().join(".gitignore")).unwrap();
    let made: Vec<&str> = ignored.lines().collect();
    let mut missing = Vec::new();
    for name in PAGES {
        let page = Page::read(name);
        for word in quoted(&page.text) {
            let exists = match word {
                word if is_path(word) => {
                    made.contains(&format!("/{}", word.trim_end_matches('/')).as_str())
                        || root().join(word).exists()
                        || all.iter().any(|path| path.ends_with(word))
                }
                word if is_name(word) => {
                    let last = word.trim_end_matches('!').rsplit("::").next().unwrap_or(word);
                    defined.contains(last) || last.chars().all(|c| c.is_uppercase() || c == '_')
                }
                _ => true,
            };
            if !exists {
                missing.push(format!("{name}: {word}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The tree names every module of every crate, and nothing else.
#[test]
fn the_tree_is_the_tree() {
    let page = Page::read("docs/architecture.md");
    let tree = page.text.split("```tree").nth(1).unwrap().split("```").next().unwrap();
    let mut folder = PathBuf::new();
    let mut named: BTreeSet<PathBuf> = BTreeSet::new();
    for line in tree.lines() {
        if let Some(name) = line.strip_prefix("  fedback").filter(|_| !line.starts_with("   ")) {
            let name = name.split('/').next().unwrap();
            folder = root().join(format!("crates/fedback{name}/src"));
            continue;
        }
        let words = line.split(|c: char| c.is_whitespace() || ",;:".contains(c));
        let is_file = |word: &&str| word.ends_with(".rs") || word.ends_with('/');
        for word in words.filter(|word| line.starts_with("    ") && is_file(word)) {
            let path = folder.join(word);
            assert!(path.exists(), "docs/architecture.md names {}", path.display());
            named.insert(path.with_extension(""));
        }
    }
    for krate in ["core", "engine", "cuda", "theory", "fit", "lab", "paper", "serve"] {
        for entry in fs::read_dir(root().join(format!("crates/fedback-{krate}/src"))).unwrap() {
            let module = entry.unwrap().path().with_extension("");
            let own = module.file_name().unwrap() != "lib";
            let told = named.contains(&module) || named.contains(&module.join(""));
            assert!(!own || told, "docs/architecture.md says nothing of {}", module.display());
        }
    }
}
