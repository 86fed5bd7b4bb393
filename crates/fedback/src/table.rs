//! Tables: numbers to the right, words to the left. Where a table is wider than the screen its words
//! are broken into lines, and if that is not enough its columns are put below each other.

use crate::lab::words::NOTHING;

use crate::screen;

/// Spaces before the first column.
const INDENT: usize = 2;
/// Spaces between columns.
const GAP: usize = 3;
/// No column of words is made narrower.
const NARROWEST: usize = 10;

/// A table that fits the screen.
pub fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let columns: Vec<Column> = (0..header.len()).map(|at| Column::of(header, rows, at)).collect();
    match screen::columns() {
        None => drawn(&columns),
        Some(room) => fitted(columns, room),
    }
}

struct Column {
    cells: Vec<String>,
    width: usize,
    words: bool,
}

impl Column {
    fn of(header: &[String], rows: &[Vec<String>], at: usize) -> Self {
        let below = rows.iter().map(|row| row.get(at).cloned().unwrap_or_default());
        let cells: Vec<String> = std::iter::once(header[at].clone()).chain(below).collect();
        let word = |cell: &String| !cell.is_empty() && cell.parse::<f64>().is_err();
        let words = cells[1..].iter().any(|cell| word(cell) && cell != NOTHING);
        let width = cells.iter().map(|cell| length(cell)).max().unwrap_or(0);
        Column { cells, width, words }
    }

    /// The narrowest it can be without breaking within a piece of a word.
    fn least(&self) -> usize {
        match self.words {
            true => {
                self.cells.iter().flat_map(|c| pieces(c)).map(length).fold(NARROWEST, usize::max)
            }
            false => self.width,
        }
        .min(self.width)
    }

    /// A cell as lines of the column's width.
    fn lines(&self, row: usize) -> Vec<String> {
        let mut lines = vec![String::new()];
        for piece in pieces(&self.cells[row]) {
            let last = lines.last_mut().expect("starts with one");
            match length(last) + length(piece.trim_end()) > self.width && !last.is_empty() {
                true => lines.push(piece.into()),
                false => last.push_str(piece),
            }
        }
        let padded = |line: String| {
            let line = line.trim_end();
            let padding = " ".repeat(self.width.saturating_sub(length(line)));
            if self.words { format!("{line}{padding}") } else { format!("{padding}{line}") }
        };
        lines.into_iter().map(padded).collect()
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Where a cell may be broken: after spaces and hyphens.
fn pieces(cell: &str) -> impl Iterator<Item = &str> {
    cell.split_inclusive([' ', '-'])
}

fn total(columns: &[Column]) -> usize {
    let widths: usize = columns.iter().map(|column| column.width).sum();
    INDENT + widths + GAP * columns.len().saturating_sub(1)
}

fn fitted(mut columns: Vec<Column>, room: usize) -> String {
    while total(&columns) > room {
        let widest = columns.iter_mut().filter(|column| column.width > column.least());
        let Some(widest) = widest.max_by_key(|column| column.width) else { break };
        widest.width -= 1;
    }
    let mut text = String::new();
    let mut rest = columns.into_iter();
    let Some(first) = rest.next() else { return text };
    let mut block = vec![first];
    for group in together(rest.collect()) {
        let width: usize = group.iter().map(|column| GAP + column.width).sum();
        if block.len() > 1 && total(&block) + width > room {
            text.push_str(&drawn(&block));
            text.push('\n');
            block.truncate(1);
        }
        block.extend(group);
    }
    text + &drawn(&block)
}

/// Columns with those that say more of them: a spread, or what is exact.
fn together(columns: Vec<Column>) -> Vec<Vec<Column>> {
    let mut groups: Vec<Vec<Column>> = Vec::new();
    for column in columns {
        let says_more = column.cells[0].starts_with('±') || column.cells[0] == "exact";
        match groups.last_mut().filter(|_| says_more) {
            Some(group) => group.push(column),
            None => groups.push(vec![column]),
        }
    }
    groups
}

fn drawn(columns: &[Column]) -> String {
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let mut text = String::new();
    for row in 0..rows {
        let cells: Vec<Vec<String>> = columns.iter().map(|column| column.lines(row)).collect();
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let parts = cells.iter().zip(columns).map(|(cell, column)| {
                cell.get(line).cloned().unwrap_or_else(|| " ".repeat(column.width))
            });
            let parts: Vec<String> = parts.collect();
            let whole = format!("{}{}", " ".repeat(INDENT), parts.join(&" ".repeat(GAP)));
            text.push_str(&format!("{}\n", whole.trim_end()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(rows: &[&[&str]]) -> Vec<Column> {
        let owned = |row: &&[&str]| row.iter().map(|cell| cell.to_string()).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(owned).collect();
        (0..rows[0].len()).map(|at| Column::of(&rows[0], &rows[1..], at)).collect()
    }

    #[test]
    fn words_are_broken_before_columns_are_moved() {
        let table = columns(&[
            &["run", "name", "state"],
            &["1", "banks (with-replacement, cohort 20)", "done"],
        ]);
        let name = |text: &str| format!("{text:<16}");
        assert_eq!(
            fitted(table, 32),
            format!(
                "  run   {}   state\n    1   {}   done\n        replacement,\n        cohort 20)\n",
                name("name"),
                name("banks (with-")
            )
        );
    }

    #[test]
    fn columns_that_do_not_fit_are_put_below() {
        let table = columns(&[&["E", "distance", "risk", "seconds"], &["1", "0.5", "0.25", "3"]]);
        let text = fitted(table, 22);
        assert_eq!(
            text,
            "  E   distance   risk\n  1        0.5   0.25\n\n  E   seconds\n  1         3\n"
        );
    }

    #[test]
    fn a_spread_stays_with_its_value() {
        let table = columns(&[&["E", "risk", "auc", "± sd"], &["1", "0.25", "0.75", "0.5"]]);
        assert_eq!(
            fitted(table, 20),
            "  E   risk\n  1   0.25\n\n  E    auc   ± sd\n  1   0.75    0.5\n"
        );
    }

    #[test]
    fn wide_screens_change_nothing() {
        let table = || columns(&[&["run", "a name of words"], &["1", "two words"]]);
        assert_eq!(fitted(table(), 200), drawn(&table()));
    }
}
