//! `fedback exact SPEC`.

use crate::lab::chart::{self, Pair};
use crate::lab::error::Error;
use crate::lab::exact;
use crate::lab::outcome::{self, Outcome};
use crate::lab::words::short;

use super::{Context, label_of};
use crate::args::SpecArgs;
use crate::output::{self, short_vector};
use crate::screen;
use crate::table::table;

pub fn run(context: &Context, args: SpecArgs) -> Result<(), Error> {
    let experiment = super::experiment(&args)?;
    let mut outcomes = Vec::new();
    for plan in &experiment.plans {
        if plan.stable_point.is_none() && plan.spec.measure.distance {
            context.warn("there is no stable point (`fedback solve` says why)");
        }
        outcomes.push(exact::exact(plan).map_err(super::in_spec(&args))?);
    }
    match args.json {
        true => output::print_json(&outcome::to_json(&outcomes, experiment.swept)),
        false => output::print(&text(&outcomes)),
    }
}

fn text(outcomes: &[Outcome]) -> String {
    use std::io::IsTerminal;
    let mut text = String::new();
    for outcome in outcomes {
        let name = label_of(&outcome.name, &outcome.set);
        text.push_str(&format!("{name} · exact expectations\n"));
        let mut header = vec!["round".to_string(), "step".to_string()];
        header.extend(outcome.curve.columns.iter().map(|column| column.name().to_string()));
        let points = &outcome.curve.points;
        let every = points.len().div_ceil(20).max(1);
        let shown = points.iter().enumerate();
        let shown = shown.filter(|(k, _)| k % every == 0 || k + 1 == points.len());
        let rows: Vec<Vec<String>> = shown
            .map(|(_, point)| {
                let counts = [point.round.to_string(), point.step.to_string()];
                counts.into_iter().chain(point.values.iter().map(|v| short(v.mean))).collect()
            })
            .collect();
        text.push_str(&table(&header, &rows));
        if let Some(stable) = &outcome.stable_point {
            text.push_str(&format!("  stable point {}\n", short_vector(stable)));
        }
    }
    let all: Vec<&Outcome> = outcomes.iter().collect();
    if let Some(measurement) = chart::main_measurement(&all)
        && std::io::stdout().is_terminal()
    {
        let pairs: Vec<Pair<'_>> = outcomes
            .iter()
            .take(4)
            .map(|exact| Pair {
                label: label_of(&exact.name, &exact.set),
                run: None,
                exact: Some(exact),
            })
            .collect();
        let figure = chart::chart("", "", measurement, &pairs);
        let (columns, rows) = screen::chart();
        text.push_str(&format!("\n{}\n", figure.to_text(columns, rows)));
    }
    text
}
