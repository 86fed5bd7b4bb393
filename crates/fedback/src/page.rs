//! A page of words: sections, paragraphs and named values, broken into lines that fit the screen.

use crate::screen;

/// A page that grows downwards.
pub struct Page {
    pub text: String,
    /// Where values begin.
    column: usize,
}

impl Page {
    /// A page with its first line; values begin at a column.
    pub fn new(heading: &str, column: usize) -> Self {
        let mut page = Page { text: String::new(), column };
        let (first, others) = heading.split_once(' ').unwrap_or((heading, ""));
        page.lines(first.into(), 3, others);
        page
    }

    /// The title of a part, after an empty line.
    pub fn section(&mut self, title: &str) {
        self.text.push_str(&format!("\n{title}\n"));
    }

    /// A value with its name.
    pub fn row(&mut self, name: &str, value: &str) {
        let name = format!("  {name:<0$}", self.column.saturating_sub(3));
        self.lines(name, self.column.saturating_sub(1), value);
    }

    /// Words by themselves.
    pub fn paragraph(&mut self, words: &str) {
        self.lines(" ".into(), 1, words);
    }

    /// One of a list.
    pub fn item(&mut self, words: &str) {
        self.lines("    -".into(), 5, words);
    }

    /// Words after a beginning, broken into lines that are indented.
    fn lines(&mut self, beginning: String, indent: usize, words: &str) {
        let (mut line, room) = (beginning, screen::line());
        for word in words.split_whitespace() {
            let fits = line.chars().count() + 1 + word.chars().count() <= room;
            if !fits && line.chars().count() > indent {
                self.text.push_str(&format!("{}\n", line.trim_end()));
                line = " ".repeat(indent);
            }
            line.push(' ');
            line.push_str(word);
        }
        self.text.push_str(&format!("{}\n", line.trim_end()));
    }
}
