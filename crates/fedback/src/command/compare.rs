//! `fedback compare RUN RUN…`.

use crate::lab::difference::labels;
use crate::lab::error::Error;
use crate::lab::figure::Size;
use crate::lab::measure::Measurement;
use crate::lab::outcome::{Outcome, points_to_csv};
use crate::lab::plot::{self, Named, Question};
use crate::lab::recorded::RecordedRun;
use crate::lab::store::standing;
use crate::lab::words::{seconds, short};
use serde_json::{Value, json};

use super::Context;
use crate::args::{CompareArgs, FigureSize, runs};
use crate::output;
use crate::table::table;

/// A recorded run in a comparison.
struct Compared {
    run: RecordedRun,
    outcome: Outcome,
    /// What tells it from the others.
    label: String,
}

pub fn run(context: &Context, args: CompareArgs) -> Result<(), Error> {
    let store = context.existing_store()?;
    let read = |id| RecordedRun::read(&store, id);
    let runs: Vec<RecordedRun> =
        runs(&args.runs).into_iter().map(read).collect::<Result<_, _>>()?;
    let labels = labels(&runs.iter().collect::<Vec<_>>());
    let compared =
        |(run, label): (RecordedRun, String)| Compared { outcome: run.outcome(), run, label };
    let runs: Vec<Compared> = runs.into_iter().zip(labels).map(compared).collect();
    let named = runs.iter().map(|one| Named { label: one.label.clone(), outcome: &one.outcome });
    let named: Vec<Named<'_>> = named.collect();
    let question = Question { x: args.x, y: args.y, panels: args.panels, map: args.map };
    let picture = plot::picture(&named, &question).map_err(Error::Question)?;
    let measured = plot::measurements(&named, &question).map_err(Error::Question)?;
    let size = match args.size {
        FigureSize::Screen => Size::Screen,
        FigureSize::Single => Size::Single,
        FigureSize::Double => Size::Double,
    };
    output::write_svg(&args.out, &picture.to_svg(size))?;
    if args.json {
        return output::print_json(&to_json(&runs));
    }
    if args.csv {
        let lines = runs.iter().map(|one| (Some(one.run.stored.id), &one.outcome));
        return output::print(&points_to_csv(&lines.collect::<Vec<_>>()));
    }
    let text = text(&runs, &measured);
    output::print(&format!("{text}  figure: {}\n", args.out.display()))
}

fn to_json(runs: &[Compared]) -> Value {
    let rows = runs.iter().map(|one| {
        let mut object = serde_json::Map::new();
        object.insert("id".into(), json!(one.run.stored.id.0));
        object.insert("label".into(), json!(one.label));
        object.insert("tags".into(), json!(one.run.stored.tags));
        if let Value::Object(rest) = json!(one.outcome) {
            object.extend(rest);
        }
        Value::Object(object)
    });
    json!({ "format": 1, "runs": rows.collect::<Vec<_>>() })
}

fn text(runs: &[Compared], measured: &[Measurement]) -> String {
    let values = measured.iter().flat_map(|one| [one.name(), "± sd", "exact"]);
    let header = ["run", "name", "state", "step"].into_iter().chain(values).chain(["seconds"]);
    let header: Vec<String> = header.map(String::from).collect();
    let number = |value: Option<f64>| short(value.unwrap_or(f64::NAN));
    let row = |one: &Compared| {
        let (outcome, stored) = (&one.outcome, &one.run.stored);
        let mut row = vec![
            stored.id.to_string(),
            one.label.clone(),
            standing(stored.ending.as_ref()).into(),
            outcome.curve.points.last().map_or(0, |point| point.step).to_string(),
        ];
        for &measurement in measured {
            let value = outcome.curve.last(measurement);
            let known = outcome.exact().and_then(|exact| exact.curve.last(measurement));
            let sd = value.and_then(|value| value.sd);
            row.extend([value.map(|s| s.mean), sd, known.map(|s| s.mean)].map(number));
        }
        row.push(seconds(outcome.seconds));
        row
    };
    table(&header, &runs.iter().map(row).collect::<Vec<_>>())
}
