//! Several runs: one figure, one table, what differs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Query, State};
use axum::response::IntoResponse;
use fedback_lab::difference::labels;
use fedback_lab::error::Error;
use fedback_lab::outcome::{Outcome, points_to_csv};
use fedback_lab::plot::{Named, Picture, measurements, picture};
use fedback_lab::recorded::RecordedRun;
use fedback_lab::show::{Shown, differing};
use fedback_lab::store::standing;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, Refusal, beside, csv};
use crate::figure::Asked;
use crate::run::outcome;
use crate::server::App;
use crate::stores::RunKey;

/// Runs that are compared, at most.
const MOST_RUNS: usize = 400;

/// Records of each that are read.
const MOST_RECORDS: usize = 800;
/// How long all of their exact curves together are waited for.
const PATIENCE: Duration = Duration::from_millis(250);

/// A run in a comparison.
struct Compared {
    key: RunKey,
    run: RecordedRun,
    outcome: Outcome,
    label: String,
}

fn read(app: &App, asked: &Asked) -> Result<Vec<Compared>, Refusal> {
    let words =
        asked.runs.as_deref().unwrap_or_default().split(',').filter(|word| !word.is_empty());
    let keys: Result<Vec<RunKey>, String> = words.map(str::parse).collect();
    let keys = keys.map_err(Refusal::question)?;
    if keys.is_empty() || keys.len() > MOST_RUNS {
        let why = format!("found {} runs; allowed: 1 to {MOST_RUNS}", keys.len());
        return Err(Refusal::question(why));
    }
    if keys.iter().collect::<BTreeSet<_>>().len() < keys.len() {
        return Err(Refusal::question("a run is there twice"));
    }
    let runs: Result<Vec<RecordedRun>, Refusal> =
        keys.iter().map(|key| app.stores.read(*key, MOST_RECORDS)).collect();
    let runs = runs?;
    let labels = labels(&runs.iter().collect::<Vec<_>>());
    let all = keys.into_iter().zip(runs).zip(labels);
    let until = Instant::now() + PATIENCE;
    let compared = |((key, mut run), label): ((RunKey, RecordedRun), String)| {
        let (outcome, _) = outcome(app, &run, until);
        // They are in the curve now.
        run.stored.records = Vec::new();
        Compared { key, run, outcome, label }
    };
    Ok(all.map(compared).collect())
}

/// `GET /api/compare?runs=0.1,0.2`.
pub async fn compare(State(app): State<App>, Query(asked): Query<Asked>) -> Answer {
    let answer = beside(move || {
        let runs = read(&app, &asked)?;
        let named =
            runs.iter().map(|one| Named { label: one.label.clone(), outcome: &one.outcome });
        let named: Vec<Named<'_>> = named.collect();
        let shown: Vec<Shown> =
            runs.iter().map(|one| Shown::with(&one.run, &one.outcome)).collect();
        let question = asked.question();
        // A question that cannot be drawn leaves the table, with the reason.
        let drawn = picture(&named, &question).map_err(Error::Question);
        let measured = measurements(&named, &question).unwrap_or_default();
        let differs = differing(&shown).into_iter();
        let differs: Map<String, Value> =
            differs.map(|found| (found.key, json!(found.values))).collect();
        let row = |one: &Compared| {
            let last = measured.iter().filter_map(|&measurement| {
                let value = one.outcome.curve.last(measurement)?;
                let exact = one.outcome.exact().and_then(|exact| exact.curve.last(measurement));
                let exact = exact.map(|exact| exact.mean);
                let entry = json!({ "mean": value.mean, "sd": value.sd, "exact": exact });
                Some((measurement.name().to_string(), entry))
            });
            json!({
                "run": one.key.to_string(), "label": one.label, "name": one.run.spec.name,
                "state": standing(one.run.stored.ending.as_ref()),
                "round": one.run.stored.round(), "final": last.collect::<Map<_, _>>(),
            })
        };
        Ok(json!({
            "format": 1, "runs": runs.iter().map(row).collect::<Vec<_>>(),
            "svg": drawn.as_ref().map(|drawn: &Picture| drawn.to_svg(asked.size())).ok(),
            "problem": drawn.as_ref().err().map(ToString::to_string),
            "differs": differs, "measured": common(&runs),
        }))
    });
    Ok(Json(answer.await?).into_response())
}

/// What all runs measured.
fn common(runs: &[Compared]) -> Vec<&'static str> {
    let columns = runs.first().map_or(&[][..], |first| &first.outcome.curve.columns);
    let in_all = |column: &&fedback_lab::measure::Measurement| {
        !column.is_one_of_many()
            && runs.iter().all(|one| one.outcome.curve.columns.contains(column))
    };
    columns.iter().filter(in_all).map(|column| column.name()).collect()
}

/// `GET /api/compare.csv?runs=0.1,0.2`: one line per run, as the command writes them.
pub async fn table(State(app): State<App>, Query(asked): Query<Asked>) -> Answer {
    let text = beside(move || {
        let runs = read(&app, &asked)?;
        let lines = runs.iter().map(|one| (Some(one.run.stored.id), &one.outcome));
        Ok(points_to_csv(&lines.collect::<Vec<_>>()))
    });
    Ok(csv("compare.csv", text.await?))
}
