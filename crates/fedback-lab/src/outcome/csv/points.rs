//! Several runs as one CSV, a line each: what they were, what they took, what they came to.

use super::super::{CurvePoint, Outcome, Statistic};
use super::{number, quoted, text};
use crate::costs::Costs;
use crate::difference::parameters;
use crate::measure::Measurement;
use crate::store::RunId;

/// Runs, with their numbers where they are recorded, as a tidy table: run, name, state and seed; the
/// parameters that were set or differ; rounds and costs; of every measurement the final value, the
/// best record, their standard errors and the exact final value; seconds and version.
pub fn points_to_csv(runs: &[(Option<RunId>, &Outcome)]) -> String {
    let outcomes: Vec<&Outcome> = runs.iter().map(|(_, outcome)| *outcome).collect();
    let mut parameters = parameters(&outcomes);
    parameters.retain(|one| !matches!(one.key.as_str(), "seed" | "rounds"));
    let measured = measured(&outcomes);
    let mut header: Vec<String> = ["run", "name", "state", "seed"].map(String::from).to_vec();
    header.extend(parameters.iter().map(|one| one.key.clone()));
    header.extend(["repetitions", "rounds"].map(String::from));
    header.extend(Costs::NAMES.map(String::from));
    for name in &measured {
        header.extend(ENDINGS.map(|ending| format!("{name}_{ending}")));
    }
    header.extend(["seconds", "version"].map(String::from));
    let mut table = line(&header);
    for (place, (id, outcome)) in runs.iter().enumerate() {
        let points = &outcome.curve.points;
        let mut cells = vec![id.map(|id| id.to_string()).unwrap_or_default()];
        cells.extend([outcome.name.clone(), outcome.ending.word().into()]);
        cells.push(outcome.spec.seed.0.to_string());
        let values = parameters.iter().map(|one| one.values[place].as_ref());
        cells.extend(values.map(|value| value.map(text).unwrap_or_default()));
        cells.push(outcome.repetitions.to_string());
        cells.push(points.last().map_or(0, |point| point.round).to_string());
        cells.extend(outcome.curve.costs().values().map(|count| count.to_string()));
        cells.extend(measured.iter().flat_map(|name| came_to(outcome, name)));
        cells.extend([number(Some(outcome.seconds)), outcome.version.clone()]);
        table.push_str(&line(&cells));
    }
    table
}

/// What is said of every measurement.
const ENDINGS: [&str; 6] = ["final", "final_se", "best", "best_se", "best_round", "exact"];

/// The names of all measurements, in the order of the first run that has them.
fn measured(outcomes: &[&Outcome]) -> Vec<String> {
    let mut names = Vec::new();
    for outcome in outcomes {
        for column in &outcome.curve.columns {
            let name = outcome.column_name(*column);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The cells of one measurement; empty where the run does not have it.
fn came_to(outcome: &Outcome, name: &str) -> [String; ENDINGS.len()] {
    let columns = &outcome.curve.columns;
    let Some(place) = columns.iter().position(|column| outcome.column_name(*column) == name) else {
        return Default::default();
    };
    let mean = |point: &&CurvePoint| point.values[place].mean;
    let better = |a: &&CurvePoint, b: &&CurvePoint| match columns[place].is_gain() {
        true => mean(b).total_cmp(&mean(a)),
        false => mean(a).total_cmp(&mean(b)),
    };
    let finite = outcome.curve.points.iter().filter(|point| mean(point).is_finite());
    let best = finite.min_by(better);
    let last = outcome.curve.points.last().map(|point| point.values[place]);
    let best_value = best.map(|point| point.values[place]);
    let error = |one: Option<Statistic>| {
        number(one.and_then(|one| one.standard_error(outcome.repetitions)))
    };
    [
        number(last.map(|one| one.mean)),
        error(last),
        number(best_value.map(|one| one.mean)),
        error(best_value),
        best.map(|point| point.round.to_string()).unwrap_or_default(),
        number(exact(outcome, columns[place])),
    ]
}

fn exact(outcome: &Outcome, column: Measurement) -> Option<f64> {
    Some(outcome.exact()?.curve.last(column)?.mean)
}

fn line(cells: &[String]) -> String {
    cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n"
}
