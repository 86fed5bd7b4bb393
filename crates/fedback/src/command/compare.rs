//! `fedback compare RUN RUN…`.

use fedback::lab::chart::{self, Pair};
use fedback::lab::error::Error;
use fedback::lab::experiment::{Reopened, reopen};
use fedback::lab::measure::Measurement;
use fedback::lab::outcome::Outcome;
use fedback::lab::store::RunId;
use fedback::lab::words::{seconds, short};
use serde_json::{Value, json};

use super::{Context, label};
use crate::args::CompareArgs;
use crate::output;
use crate::table::table;

pub fn run(context: &Context, args: CompareArgs) -> Result<(), Error> {
    let store = context.existing_store()?;
    let runs: Vec<(i64, Reopened)> = args
        .runs
        .iter()
        .map(|&id| reopen(&store, RunId(id)).map(|run| (id, run)))
        .collect::<Result<_, _>>()?;
    let outcomes: Vec<Outcome> = runs.iter().map(|(_, run)| run.outcome()).collect();
    let exact: Vec<Option<Outcome>> = runs.iter().map(|(_, run)| run.exact()).collect();
    let all: Vec<&Outcome> = outcomes.iter().collect();
    let measurement = chart::main_measurement(&all).ok_or_else(|| {
        Error::input("compare", "these runs have no measurement in common; choose others")
    })?;
    let pairs: Vec<Pair<'_>> = runs
        .iter()
        .zip(outcomes.iter().zip(&exact))
        .map(|((id, run), (outcome, exact))| Pair {
            label: format!("{} (run {id})", label(&run.plan)),
            run: Some(outcome),
            exact: exact.as_ref(),
        })
        .collect();
    let figure =
        chart::chart("Runs compared", "band: two standard errors of the mean", measurement, &pairs);
    output::write_file(&args.out, &figure.to_svg())?;
    if args.json {
        return output::print_json(&to_json(&runs, &outcomes));
    }
    let text = text(&runs, &outcomes, &exact, measurement);
    output::print(&format!("{text}  figure: {}\n", args.out.display()))
}

fn to_json(runs: &[(i64, Reopened)], outcomes: &[Outcome]) -> Value {
    let rows = runs.iter().zip(outcomes).map(|((id, _), outcome)| {
        let mut object = serde_json::Map::new();
        object.insert("id".into(), json!(id));
        object.insert("set".into(), Value::Object(outcome.set.clone()));
        if let Value::Object(rest) = outcome.to_json() {
            object.extend(rest);
        }
        Value::Object(object)
    });
    json!({ "format": 1, "runs": rows.collect::<Vec<_>>() })
}

fn text(
    runs: &[(i64, Reopened)],
    outcomes: &[Outcome],
    exact: &[Option<Outcome>],
    main: Measurement,
) -> String {
    let last = |outcome: &Outcome, column| outcome.curve.column(column).last().map(|(_, s)| *s);
    let header: Vec<String> =
        ["run", "name", "state", "step", main.name(), "± sd", "exact", "seconds"]
            .map(String::from)
            .to_vec();
    let rows: Vec<Vec<String>> = runs
        .iter()
        .zip(outcomes.iter().zip(exact))
        .map(|((id, run), (outcome, exact))| {
            let value = last(outcome, main);
            let known = exact.as_ref().and_then(|exact| last(exact, main));
            let number = |value: Option<f64>| short(value.unwrap_or(f64::NAN));
            vec![
                id.to_string(),
                label(&run.plan),
                run.stored.state.as_str().into(),
                outcome.curve.points.last().map_or(0, |point| point.step).to_string(),
                number(value.map(|s| s.mean)),
                number(value.and_then(|s| s.sd)),
                number(known.map(|s| s.mean)),
                seconds(outcome.seconds),
            ]
        })
        .collect();
    table(&header, &rows)
}
