//! One run: what it was, how it stands, its curves.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::IntoResponse;
use fedback_lab::chart::label_of;
use fedback_lab::error::Error;
use fedback_lab::outcome::{Outcome, Statistic};
use fedback_lab::plot::{Named, picture};
use fedback_lab::recorded::RecordedRun;
use fedback_lab::show::Shown;
use serde_json::{Value, json};

use crate::answer::{Answer, Refusal, beside, csv, svg};
use crate::figure::Asked;
use crate::server::App;
use crate::stores::RunKey;

/// Records of a run that are read for a picture: several for every pixel across.
const MOST_RECORDS: usize = 6000;
/// How long a picture waits for its exact curve, before it is drawn without.
const PATIENCE: Duration = Duration::from_millis(120);

/// A run with what is exact of it, and whether that is still being worked out.
pub fn outcome(app: &App, run: &RecordedRun, until: Instant) -> (Outcome, bool) {
    let (exact, pending) = app.exacts.of(run, until);
    (run.measured().with_exact(exact), pending)
}

fn seen(app: &App, key: RunKey) -> Result<(RecordedRun, Outcome, bool), Refusal> {
    let run = app.stores.read(key, MOST_RECORDS)?;
    let (outcome, pending) = outcome(app, &run, Instant::now() + PATIENCE);
    Ok((run, outcome, pending))
}

/// `GET /api/runs/{run}`: all about it but its curve.
pub async fn about(State(app): State<App>, Path(key): Path<RunKey>) -> Answer {
    let answer = beside(move || {
        let (run, outcome, pending) = seen(&app, key)?;
        let shown = Shown::with(&run, &outcome);
        let mut names: Vec<&str> = outcome
            .curve
            .columns
            .iter()
            .filter(|column| !column.is_one_of_many())
            .map(|column| column.name())
            .collect();
        names.dedup();
        let groups = run.facts.table.as_ref().map_or(&[][..], |table| &table.groups);
        Ok(json!({
            "format": 1, "run": key.to_string(), "shown": shown, "measured": names,
            "client_names": run.facts.client_names, "groups": groups, "theta": theta(&run),
            "stable_point": run.facts.stable_point, "exact_pending": pending,
            "store": app.stores.paths[key.store].display().to_string(),
            "text": run.stored.run.spec, "cohorts": cohorts(&run),
        }))
    });
    Ok(Json(answer.await?).into_response())
}

/// The models at the last checkpoint, coordinate by coordinate.
fn theta(run: &RecordedRun) -> Value {
    let models: Vec<Vec<f64>> = run.final_models().into_iter().flatten().collect();
    let coordinate = |at: usize| {
        let values: Vec<f64> = models.iter().map(|model| model[at]).collect();
        let name = run.facts.coordinates.as_ref().and_then(|names| names.get(at));
        let name = name.cloned().unwrap_or_else(|| at.to_string());
        let stable = run.facts.stable_point.as_ref().and_then(|point| point.get(at));
        json!({ "name": name, "theta": Statistic::of(&values), "stable": stable })
    };
    match models.is_empty() {
        true => json!([]),
        false => json!((0..run.facts.dim).map(coordinate).collect::<Vec<_>>()),
    }
}

/// Rounds of the last cohorts that are shown one by one.
const MOST_ROUNDS: usize = 60;

/// Who worked in the last rounds whose cohorts were recorded, where clients are real.
fn cohorts(run: &RecordedRun) -> Value {
    let recorded = &run.stored.cohorts;
    let last = recorded.len().saturating_sub(MOST_ROUNDS);
    let rounds = recorded[last..].iter().map(|cohort| {
        let members: Vec<u32> = cohort.members.iter().map(|member| member.0).collect();
        json!({
            "round": cohort.round.0 + 1, "repetition": cohort.repetition, "members": members,
        })
    });
    json!(rounds.collect::<Vec<_>>())
}

/// `GET /api/runs/{run}/figure.svg`: its curves.
pub async fn figure(
    State(app): State<App>,
    Path(key): Path<RunKey>,
    Query(asked): Query<Asked>,
) -> Answer {
    let drawn = beside(move || {
        let (run, outcome, _) = seen(&app, key)?;
        let label = match run.set.is_empty() {
            true => "simulated".into(),
            false => label_of(&run.spec.name, &run.set),
        };
        let named = [Named { label, outcome: &outcome }];
        let drawn = picture(&named, &asked.question()).map_err(Error::Question)?;
        Ok::<_, Refusal>(drawn.to_svg(asked.size()))
    });
    Ok(svg(drawn.await?))
}

/// `GET /api/runs/{run}/curve.csv`: every record, as `fedback export` writes them.
pub async fn curve(State(app): State<App>, Path(key): Path<RunKey>) -> Answer {
    let name = format!("run-{}.csv", key.id);
    let text =
        beside(move || Ok::<_, Refusal>(app.stores.read(key, usize::MAX)?.outcome().to_csv()));
    Ok(csv(&name, text.await?))
}
