//! `fedback export RUN --format …`.

use fedback::lab::bundle;
use fedback::lab::chart::{self, Pair};
use fedback::lab::error::Error;
use fedback::lab::outcome::Outcome;
use fedback::lab::recorded::RecordedRun;
use fedback::lab::store::RunId;
use serde_json::{Value, json};

use super::{Context, label_of};
use crate::args::{ExportArgs, ExportFormat};
use crate::output;

pub fn run(context: &Context, args: ExportArgs) -> Result<(), Error> {
    let store = context.existing_store()?;
    let run = RecordedRun::read(&store, RunId(args.run))?;
    let outcome = run.outcome();
    let text = match args.format {
        ExportFormat::Bundle => {
            let needed = || Error::input("--out", "is missing; a bundle is written to a file");
            return bundle::write(&run, args.out.as_deref().ok_or_else(needed)?);
        }
        ExportFormat::Csv => outcome.to_csv(),
        ExportFormat::Json => format!("{}\n", outcome.to_json()),
        ExportFormat::Svg => svg(&run, &outcome)?,
        ExportFormat::Theta => format!("{}\n", theta(&run, &outcome)),
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
        exact: outcome.exact.as_deref(),
    };
    let subtitle = format!(
        "{} clients, {} repetitions; band: two standard errors of the mean",
        outcome.clients, outcome.repetitions
    );
    Ok(chart::chart(&outcome.name, &subtitle, measurement, &[pair]).to_svg())
}

/// The final models, and what is needed to score raw rows with their average.
fn theta(run: &RecordedRun, outcome: &Outcome) -> Value {
    let average = run.average_model();
    let constants = run.facts.standardization();
    let raw = constants.as_ref().zip(average.as_ref()).map(|(constants, average)| {
        let intercept = run.spec.problem.base.has_intercept();
        let (coefficients, constant) = constants.to_raw_units(average, intercept);
        json!({ "coefficients": coefficients, "constant": constant })
    });
    json!({
        "format": 1,
        "name": outcome.name,
        "coordinates": outcome.coordinates,
        "theta": outcome.to_json()["final_theta"],
        "average": average,
        "standardization": constants.map(|c| json!({ "mean": c.mean, "sd": c.sd })),
        "raw_units": raw,
    })
}
