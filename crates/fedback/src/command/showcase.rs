//! `fedback` without a command: the paper's Gaussian problem under the three schemes.

use std::path::Path;

use fedback::lab::chart::{self, Pair};
use fedback::lab::error::Error;
use fedback::lab::exact;
use fedback::lab::experiment::Experiment;
use fedback::lab::measure::Measurement;
use fedback::lab::outcome::Outcome;
use fedback::lab::spec::Document;

use super::{Context, label, run};
use crate::output;

const SPEC: &str = include_str!("../../../../experiments/schemes.toml");
const FOLDER: &str = "fedback-report";

pub fn run(context: &Context) -> Result<(), Error> {
    let experiment = Experiment::new(&Document::parse(SPEC, "experiments/schemes.toml")?)?;
    let store = context.writable_store()?;
    let finished = run::run_all(context, &experiment, store.as_ref())?;
    finished.report(context, &experiment, false)?;
    let exact: Vec<Outcome> =
        experiment.plans.iter().map(exact::exact).collect::<Result<_, _>>()?;
    let pairs: Vec<Pair<'_>> = experiment
        .plans
        .iter()
        .zip(finished.outcomes.iter().zip(&exact))
        .map(|(plan, (outcome, exact))| Pair {
            label: label(plan),
            run: Some(outcome),
            exact: Some(exact),
        })
        .collect();
    let figure = chart::chart(
        "P-FedAvg settles at the performatively stable point",
        "25 clients, mean of 100 runs with two standard errors around it; dashed: exact",
        Measurement::Distance,
        &pairs,
    );
    std::fs::create_dir_all(FOLDER)
        .map_err(|error| Error::Failed(format!("{FOLDER} cannot be made: {error}")))?;
    let path = Path::new(FOLDER).join("schemes.svg");
    output::write_file(&path, &figure.to_svg())?;
    output::print(&format!("  figure: {}\n", path.display()))
}
