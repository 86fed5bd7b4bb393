//! The table of groups that a finished run leaves on a terminal.

use crate::lab::measure::{Measurement, Part, Rate};
use crate::lab::outcome::Outcome;
use crate::lab::words::{NOTHING, short};

const RATES: [(Rate, &str); 5] = [
    (Rate::Risk, "risk"),
    (Rate::Accuracy, "accuracy"),
    (Rate::Positive, "positive rate"),
    (Rate::TruePositive, "true positive"),
    (Rate::FalsePositive, "false positive"),
];

/// The last values of every group and their gaps; empty where groups were not measured.
pub fn text(outcome: &Outcome) -> String {
    let Some(column) = &outcome.spec.measure.group else { return String::new() };
    let Some(table) = &outcome.table else { return String::new() };
    let last =
        |measurement: Measurement| outcome.curve.column(measurement).last().map(|(_, s)| s.mean);
    let mut text = String::new();
    for (part, rows, counts) in [
        (Part::Training, "", &table.group_rows),
        (Part::Holdout, ", held-out rows", &table.group_rows_held_out),
    ] {
        let gap = |rate: Rate| last(Measurement::Gap { part, rate });
        let rates = RATES.iter().filter(|(rate, _)| gap(*rate).is_some());
        let rates: Vec<&(Rate, &str)> = rates.collect();
        if rates.is_empty() {
            continue;
        }
        let mut head = vec![format!("by {column}{rows}"), "rows".into()];
        head.extend(rates.iter().map(|(_, name)| name.to_string()));
        let line = |name: &str, count: String, value: &dyn Fn(Rate) -> Option<f64>| {
            let cells = rates.iter().map(|(rate, _)| short(value(*rate).unwrap_or(f64::NAN)));
            [name.to_string(), count].into_iter().chain(cells).collect::<Vec<String>>()
        };
        let of = |(group, name): (usize, &String)| {
            let count = counts.get(group).map_or(NOTHING.into(), u64::to_string);
            line(name, count, &|rate| last(Measurement::Group { part, rate, group }))
        };
        let mut lines: Vec<Vec<String>> = table.groups.iter().enumerate().map(of).collect();
        lines.push(line("gap", String::new(), &gap));
        text += &crate::table::table(&head, &lines);
    }
    text
}
