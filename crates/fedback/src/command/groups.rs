//! The table of groups that a finished run leaves on a terminal.

use fedback::lab::measure::{Measurement, Part, Rate};
use fedback::lab::outcome::Outcome;
use fedback::lab::words::short;

use crate::table::table;

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
    let groups = outcome.table.as_ref().map_or(&[][..], |table| &table.groups);
    let last =
        |measurement: Measurement| outcome.curve.column(measurement).last().map(|(_, s)| s.mean);
    let mut text = String::new();
    for (part, rows) in [(Part::Training, ""), (Part::Holdout, ", held-out rows")] {
        let gap = |rate: Rate| last(Measurement::Gap { part, rate });
        let rates = RATES.iter().filter(|(rate, _)| gap(*rate).is_some());
        let rates: Vec<&(Rate, &str)> = rates.collect();
        if rates.is_empty() {
            continue;
        }
        let mut head = vec![format!("by {column}{rows}")];
        head.extend(rates.iter().map(|(_, name)| name.to_string()));
        let line = |name: &str, value: &dyn Fn(Rate) -> Option<f64>| {
            let cells = rates.iter().map(|(rate, _)| short(value(*rate).unwrap_or(f64::NAN)));
            std::iter::once(name.to_string()).chain(cells).collect::<Vec<String>>()
        };
        let of = |(group, name): (usize, &String)| {
            line(name, &|rate| last(Measurement::Group { part, rate, group }))
        };
        let mut lines: Vec<Vec<String>> = groups.iter().enumerate().map(of).collect();
        lines.push(line("gap", &gap));
        text += &table(&head, &lines);
    }
    text
}
