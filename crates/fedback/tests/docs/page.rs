//! The pages of the documentation and their blocks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A page of the documentation.
pub struct Page {
    /// Relative to the root.
    pub name: String,
    pub text: String,
}

/// A fenced block.
pub struct Block<'a> {
    pub line: usize,
    pub language: &'a str,
    pub text: String,
}

impl Page {
    pub fn read(name: &str) -> Page {
        let text = fs::read_to_string(root().join(name)).unwrap();
        Page { name: name.into(), text }
    }

    pub fn blocks(&self) -> Vec<Block<'_>> {
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
    pub fn prose(&self) -> Vec<&str> {
        let mut inside = false;
        let outside = |line: &&str| {
            let fence = line.starts_with("```");
            inside ^= fence;
            !inside && !fence
        };
        self.text.lines().filter(outside).collect()
    }
}

/// All pages, by name.
pub fn pages() -> Vec<Page> {
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
                let there = Page { name: target.clone(), text };
                assert!(anchors(&there).contains(anchor), "{}: no heading for {target}", page.name);
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
