//! `fedback export RUN --format …`.

use crate::lab::bundle;
use crate::lab::chart::{self, Pair};
use crate::lab::error::Error;
use crate::lab::npz;
use crate::lab::outcome::Outcome;
use crate::lab::recorded::RecordedRun;
use crate::lab::store::RunId;
use serde_json::json;

use super::{Context, label_of};
use crate::args::{ExportArgs, ExportFormat};
use crate::output;

pub fn run(context: &Context, args: ExportArgs) -> Result<(), Error> {
    let store = context.existing_store()?;
    let run = RecordedRun::read(&store, RunId(args.run))?;
    let outcome = run.outcome();
    let file = |what: &str| match args.out.as_deref() {
        Some(path) => Ok(path),
        None => Err(Error::input("--out", format!("is missing; {what} written to a file"))),
    };
    let text = match args.format {
        ExportFormat::Bundle => return bundle::write(&run, file("a bundle is")?),
        ExportFormat::Npz => {
            return output::write_file(file("arrays are")?, npz::of(&run, &outcome)?);
        }
        ExportFormat::Csv => outcome.to_csv(),
        ExportFormat::Json => format!("{}\n", json!(outcome)),
        ExportFormat::Svg => svg(&run, &outcome)?,
        ExportFormat::Theta => format!("{}\n", json!(run.theta())),
    };
    match &args.out {
        Some(path) if args.format == ExportFormat::Svg => output::write_svg(path, &text),
        Some(path) => output::write_file(path, &text),
        None => output::print(&text),
    }
}

fn svg(run: &RecordedRun, outcome: &Outcome) -> Result<String, Error> {
    let measurement = chart::main_measurement(&[outcome]).ok_or_else(|| {
        Error::input(format!("run {}", run.stored.id), "nothing was measured that could be drawn")
    })?;
    let pair = Pair {
        label: label_of(&run.spec.name, &run.set),
        run: Some(outcome),
        exact: outcome.exact(),
    };
    let subtitle = format!(
        "{} clients, {} repetitions; band: two standard errors of the mean",
        outcome.clients, outcome.repetitions
    );
    Ok(chart::chart(&outcome.name, &subtitle, measurement, &[pair]).to_svg())
}
