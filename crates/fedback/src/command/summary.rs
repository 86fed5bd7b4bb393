//! The text that a finished run leaves on a terminal: a table, and a small chart.

use std::io::IsTerminal;

use crate::lab::chart::{self, Pair};
use crate::lab::measure::Measurement;
use crate::lab::outcome::{Outcome, Statistic};
use crate::lab::store::RunId;
use crate::lab::words::{seconds, short};

use super::{groups, label_of};
use crate::output::{plural, short_vector};
use crate::screen;
use crate::table::table;

/// Rows of the table of one run.
const ROWS: usize = 11;

/// A readable report of finished runs.
pub fn text(outcomes: &[Outcome], ids: &[RunId]) -> String {
    let recorded = match ids {
        [] => "not recorded".into(),
        [id] => format!("recorded as run {id}"),
        [first, .., last] => format!("recorded as runs {first} to {last}"),
    };
    noted(outcomes, &recorded)
}

/// The same, with a note on what became of them.
pub fn noted(outcomes: &[Outcome], note: &str) -> String {
    let mut text = match outcomes {
        [only] => single(only),
        _ => several(outcomes),
    };
    if std::io::stdout().is_terminal() {
        text.push_str(&terminal_chart(outcomes));
    }
    let spent: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
    text.push_str(&format!("  {} s, {note}\n", seconds(spent)));
    text
}

fn heading(outcome: &Outcome) -> String {
    format!(
        "{} · {} · {}\n",
        outcome.name,
        plural(outcome.clients as u64, "client", "clients"),
        plural(outcome.repetitions, "repetition", "repetitions")
    )
}

fn columns(outcome: &Outcome) -> Vec<Measurement> {
    let shown = |column: &Measurement| {
        !column.is_one_of_many() && !matches!(column, Measurement::Gap { .. })
    };
    outcome.curve.columns.iter().copied().filter(shown).collect()
}

/// A measured mean with its spread, and beside it, where there is a column for it, the exact value.
fn cells(statistic: Statistic, exact: Option<Option<Statistic>>, spread: bool) -> Vec<String> {
    let mut cells = vec![short(statistic.mean)];
    cells.extend(spread.then(|| short(statistic.sd.unwrap_or(f64::NAN))));
    cells.extend(exact.map(|exact| short(exact.map_or(f64::NAN, |exact| exact.mean))));
    cells
}

fn header(column: Measurement, spread: bool, exact: bool) -> Vec<String> {
    let mut header = vec![column.name().to_string()];
    header.extend(spread.then(|| "± sd".to_string()));
    header.extend(exact.then(|| "exact".to_string()));
    header
}

fn single(outcome: &Outcome) -> String {
    let spread = outcome.repetitions > 1;
    let points = &outcome.curve.points;
    let columns = columns(outcome);
    let exact_column =
        |column| outcome.exact().map(|exact| exact.curve.column(column)).unwrap_or_default();
    let mut head = vec!["round".to_string(), "step".to_string()];
    for &column in &columns {
        head.extend(header(column, spread, !exact_column(column).is_empty()));
    }
    let rows: Vec<Vec<String>> = sample(points.len(), ROWS)
        .into_iter()
        .map(|place| {
            let mut row = vec![points[place].round.to_string(), points[place].step.to_string()];
            for &column in &columns {
                let known = exact_column(column);
                let exact = known.get(place).map(|(_, statistic)| Some(*statistic));
                row.extend(cells(outcome.curve.column(column)[place].1, exact, spread));
            }
            row
        })
        .collect();
    let mut text = heading(outcome) + &table(&head, &rows) + &groups::text(outcome);
    if let Some(stable) = &outcome.stable_point {
        text.push_str(&format!("  stable point {}\n", short_vector(stable)));
    }
    text.push_str(&format!("  took {}\n", outcome.curve.costs().words()));
    text
}

fn several(outcomes: &[Outcome]) -> String {
    let Some(first) = outcomes.first() else { return String::new() };
    let columns = columns(first);
    let mut head = vec!["".to_string(), "step".to_string()];
    let exact = || outcomes.iter().filter_map(Outcome::exact);
    let known = |column| exact().any(|exact| !exact.curve.column(column).is_empty());
    for &column in &columns {
        head.extend(header(column, true, known(column)));
    }
    let rows: Vec<Vec<String>> = outcomes
        .iter()
        .map(|outcome| {
            let step = outcome.curve.points.last().map_or(0, |point| point.step);
            let mut row = vec![label_of(&outcome.name, &outcome.set), step.to_string()];
            for &column in &columns {
                let missing = Statistic { mean: f64::NAN, sd: None };
                let exact = outcome.exact().and_then(|exact| exact.curve.last(column));
                let exact = known(column).then_some(exact);
                row.extend(cells(outcome.curve.last(column).unwrap_or(missing), exact, true));
            }
            row
        })
        .collect();
    heading(first) + &table(&head, &rows)
}

/// Places of at most `most` of `count` rows, the first and the last among them.
fn sample(count: usize, most: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|k| k * (count - 1) / (most - 1)).collect()
}

fn terminal_chart(outcomes: &[Outcome]) -> String {
    let runs: Vec<&Outcome> = outcomes.iter().collect();
    let Some(measurement) = chart::main_measurement(&runs) else { return String::new() };
    // A curve more than a few cannot be told apart in characters.
    let shown = if outcomes.len() > 4 { 4 } else { outcomes.len() };
    let pairs: Vec<Pair<'_>> = (0..shown)
        .map(|k| Pair {
            label: label_of(&outcomes[k].name, &outcomes[k].set),
            run: Some(&outcomes[k]),
            exact: outcomes[k].exact().filter(|_| outcomes.len() == 1),
        })
        .collect();
    let figure = chart::chart("", "", measurement, &pairs);
    let (columns, rows) = screen::chart();
    format!("\n{}\n", figure.to_text(columns, rows))
}
