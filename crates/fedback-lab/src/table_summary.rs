//! What a table was found to hold, in numbers and in a line or two.

use fedback_core::base::{Groups, Split, Table};
use serde::{Deserialize, Serialize};

use crate::table_file::{Encoding, MissingCells};

/// What a table was found to hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableSummary {
    /// The file.
    pub file: String,
    /// Rows in the file.
    pub rows: u64,
    /// Rows that are learned from.
    pub used: u64,
    /// Rows that are measured on, and not learned from.
    pub held_out: u64,
    /// Rows that were left out because a cell is missing.
    pub dropped: u64,
    /// Columns with missing cells.
    pub missing: Vec<MissingCells>,
    /// What missing cells of every feature are filled with, where they are.
    pub fill: Option<Vec<f64>>,
    /// What became of the columns that are features.
    pub encodings: Vec<Encoding>,
    /// The features.
    pub features: Vec<String>,
    /// How many clients.
    pub clients: usize,
    /// Rows of the smallest client that are learned from.
    pub fewest_rows: u64,
    /// Rows of the largest.
    pub most_rows: u64,
    /// The column to predict.
    pub label: Option<String>,
    /// The share of labels that are 1, where they are 0 or 1.
    pub label_rate: Option<f64>,
    /// The groups that are measured.
    pub groups: Vec<String>,
    /// Rows of every group that are learned from; none in runs of older versions.
    pub group_rows: Vec<u64>,
    /// Rows of every group that are held out; none where no rows are.
    pub group_rows_held_out: Vec<u64>,
}

impl TableSummary {
    /// What is known of rows that were divided.
    pub(crate) fn new(split: &Split, label: Option<&str>, binary: bool) -> Self {
        let table = &split.training;
        let sizes = || (0..table.clients()).map(|client| table.block(client).1.len() as u64);
        let features = table.dim - usize::from(table.intercept);
        let ones = |table: &Table| table.labels().iter().sum::<f64>();
        let held = split.held.as_ref();
        let rows = table.len() + held.map_or(0, Table::len);
        let positives = ones(table) + held.map_or(0.0, ones);
        let groups = table.groups.as_deref();
        let group_rows = |table: Option<&Table>| {
            table.and_then(|table| table.groups.as_deref()).map(Groups::rows).unwrap_or_default()
        };
        TableSummary {
            used: table.len() as u64,
            held_out: held.map_or(0, Table::len) as u64,
            fill: table.fill.clone(),
            features: table.coordinates[..features].to_vec(),
            clients: table.clients(),
            fewest_rows: sizes().min().unwrap_or(0),
            most_rows: sizes().max().unwrap_or(0),
            label: label.map(String::from),
            label_rate: binary.then_some(positives / rows as f64),
            groups: groups.map(|groups| groups.names.clone()).unwrap_or_default(),
            group_rows: group_rows(Some(table)),
            group_rows_held_out: group_rows(held),
            ..TableSummary::default()
        }
    }

    /// The same in a sentence.
    pub fn sentence(&self) -> String {
        let missing = (self.missing.iter()).map(|one| format!("{} {}", one.column, one.cells));
        let missing = missing.collect::<Vec<_>>().join(", ");
        let filled = self.fill.is_some() && !missing.is_empty();
        let dropped = match self.dropped {
            0 if filled => format!(", missing cells filled with means ({missing})"),
            0 => String::new(),
            rows if filled => {
                format!(", {rows} left out, other missing cells filled (missing in all: {missing})")
            }
            rows => format!(", {rows} left out for missing cells ({missing})"),
        };
        let others = match self.rows.saturating_sub(self.used + self.held_out + self.dropped) {
            0 => String::new(),
            rows => format!(", {rows} not chosen"),
        };
        let held = match self.held_out {
            0 => String::new(),
            rows => format!(", {rows} held out"),
        };
        let each = match self.fewest_rows == self.most_rows {
            true => format!("{} rows each", self.most_rows),
            false => format!("{} to {} rows each", self.fewest_rows, self.most_rows),
        };
        let rate = self.label.as_ref().zip(self.label_rate);
        let rate = rate.map_or(String::new(), |(label, rate)| {
            let rows = if self.held_out == 0 { "them" } else { "the rows in use" };
            format!("; {label} is 1 in {:.1} % of {rows}", 100.0 * rate)
        });
        format!(
            "{}: {} of {} rows are learned from{held}{dropped}{others}{rate}; {}; {}, {each}",
            self.file,
            self.used,
            self.rows,
            listed(&self.features, "feature"),
            counted(self.clients, "client"),
        )
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// How many there are and which, shortened in the middle.
fn listed(names: &[String], noun: &str) -> String {
    let shown = match names {
        [first, second, third, .., last] if names.len() > 8 => {
            format!("{first}, {second}, {third}, …, {last}")
        }
        _ => names.join(", "),
    };
    format!("{}: {shown}", counted(names.len(), noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> TableSummary {
        TableSummary {
            file: "t.csv".into(),
            rows: 10,
            used: 10,
            features: vec!["a".into()],
            clients: 2,
            fewest_rows: 4,
            most_rows: 6,
            ..TableSummary::default()
        }
    }

    #[test]
    fn what_was_read_is_said() {
        let said = summary().sentence();
        assert_eq!(
            said,
            "t.csv: 10 of 10 rows are learned from; 1 feature: a; 2 clients, 4 to 6 rows each"
        );
        let missing = vec![MissingCells { column: "a".into(), cells: 3 }];
        let label = Some("y".to_string());
        let less = TableSummary {
            used: 5,
            held_out: 2,
            dropped: 3,
            missing: missing.clone(),
            label,
            label_rate: Some(0.25),
            ..summary()
        };
        let said = less.sentence();
        let begins = "t.csv: 5 of 10 rows are learned from, 2 held out, 3 left out for missing \
                      cells (a 3); y is 1 in 25.0 % of the rows in use; 1 feature: a;";
        assert!(said.starts_with(begins), "{said}");
        let filled = TableSummary { missing, fill: Some(vec![1.0]), ..summary() };
        assert!(filled.sentence().contains("missing cells filled with means (a 3)"));
    }
}
