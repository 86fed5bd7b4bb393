//! A heat map of final values over two parameters.

use serde_json::Value;

use super::{Drawing, sorted};
use crate::chart;
use crate::difference::Difference;
use crate::figure::{HeatMap, Scale};
use crate::measure::Measurement;
use crate::spec::KeyError;

/// Runs of one cell that differ in nothing else are averaged.
const AVERAGED: [&str; 2] = ["seed", "problem.seed"];

impl Drawing<'_> {
    pub(super) fn heat_map(
        &self,
        across: &str,
        upwards: &str,
        measurement: Measurement,
    ) -> Result<HeatMap, KeyError> {
        let (x, y) = (self.parameter("x", across)?, self.parameter("map", upwards)?);
        if x.key == y.key {
            let why = format!("found \"{upwards}\", which is across already; name another one");
            return Err(KeyError::new("map", why));
        }
        let (columns, rows) = (values(x), values(y));
        let runs_of = |row: &String, column: &String| -> Vec<usize> {
            let is_here = |run: &usize| words(x, *run) == *column && words(y, *run) == *row;
            (0..self.runs.len()).filter(is_here).collect()
        };
        let mut counts = Vec::new();
        let mut cells = vec![vec![f64::NAN; columns.len()]; rows.len()];
        for (cells, row) in cells.iter_mut().zip(&rows) {
            for (cell, column) in cells.iter_mut().zip(&columns) {
                let runs = runs_of(row, column);
                self.check_cell(&runs, x, y)?;
                let ends =
                    runs.iter().filter_map(|&run| self.outcomes[run].curve.last(measurement));
                let ends: Vec<f64> = ends.map(|end| end.mean).collect();
                if !ends.is_empty() {
                    *cell = ends.iter().sum::<f64>() / ends.len() as f64;
                    counts.push(ends.len());
                }
            }
        }
        let value = format!("final {}", chart::axis(measurement).label);
        Ok(HeatMap {
            title: self.title(),
            subtitle: self.subtitle(None),
            value: format!("{value}{}", averaged(&counts)),
            x: (x.key.clone(), columns),
            y: (y.key.clone(), rows),
            scale: if chart::is_log(measurement) { Scale::Log } else { Scale::Linear },
            cells,
        })
    }

    /// Refuses to average what differs in more than its seed.
    fn check_cell(&self, runs: &[usize], x: &Difference, y: &Difference) -> Result<(), KeyError> {
        let differs =
            |one: &&Difference| runs.windows(2).any(|p| one.values[p[0]] != one.values[p[1]]);
        let other = |one: &&Difference| !AVERAGED.contains(&one.key.as_str());
        match self.differing.iter().filter(differs).find(other) {
            None => Ok(()),
            Some(Difference { key, .. }) => Err(KeyError::new(
                "map",
                format!(
                    "runs of {} {} and {} {} differ in {key} too; a cell averages over seeds \
                     alone: choose runs of one {key}, or name it as x or map",
                    x.key,
                    words(x, runs[0]),
                    y.key,
                    words(y, runs[0]),
                ),
            )),
        }
    }
}

/// How many runs a cell is the mean of, where that is not one.
fn averaged(counts: &[usize]) -> String {
    match (counts.iter().min(), counts.iter().max()) {
        (Some(1), Some(1)) | (None, _) | (_, None) => String::new(),
        (Some(fewest), Some(most)) if fewest == most => format!(", mean of {most} runs a cell"),
        (Some(fewest), Some(most)) => format!(", mean of {fewest} to {most} runs a cell"),
    }
}

/// The value of a parameter in a run, in words.
fn words(parameter: &Difference, run: usize) -> String {
    match &parameter.values[run] {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The values of a parameter, each once.
fn values(parameter: &Difference) -> Vec<String> {
    let mut values = Vec::new();
    for run in sorted(parameter) {
        let value = words(parameter, run);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}
