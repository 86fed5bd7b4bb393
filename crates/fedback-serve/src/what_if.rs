//! What if: a spec with keys set anew, and what theory says of it.
//!
//! A question is answered in parts, the quick ones first, one line of JSON each as soon as it is ready.
//! Who asks the next question closes the connection of the last: what is still to be worked out of
//! that is then left undone, so that a slider may be pulled as fast as one likes.

mod boundary;
mod document;
mod parts;

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use fedback_lab::experiment::Experiment;
use fedback_lab::outcome::Outcome;
use fedback_lab::plan::Plan;
use fedback_lab::spec::Document;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::answer::{Answer, Refusal, beside};
use crate::server::App;
use boundary::Map;
use document::Described;
use parts::Exact;

/// Questions that are worked on at once; each may use all cores for a part of its time.
const PLACES: usize = 2;
/// Parts that may wait for somebody who does not read. There are fewer, but for progress.
const WAITING: usize = 64;

/// Where questions wait for their turn.
pub struct Desk {
    specs: Vec<PathBuf>,
    places: Arc<Semaphore>,
}

impl Desk {
    pub fn new(specs: Vec<PathBuf>) -> Self {
        Desk { specs, places: Arc::new(Semaphore::new(PLACES)) }
    }
}

/// A part of an answer.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Part {
    Points,
    Exact,
    Check,
    Sampled,
    Map,
    Plan,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Points => "points",
            Part::Exact => "exact",
            Part::Check => "check",
            Part::Sampled => "sampled",
            Part::Map => "map",
            Part::Plan => "plan",
        }
    }
}

/// A question.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    spec: Described,
    parts: Vec<Part>,
    /// The measurement of curves.
    #[serde(default)]
    y: Option<String>,
    #[serde(default)]
    map: Option<Map>,
    /// What a plan is to reach.
    #[serde(default)]
    accuracy: Option<f64>,
}

/// `GET /api/specs`: what one can begin with.
pub async fn specs(State(app): State<App>) -> Json<Value> {
    let named = app.desk.specs.iter().enumerate();
    let files = named.map(
        |(at, path)| json!({ "from": format!("file:{at}"), "name": path.display().to_string() }),
    );
    let example = json!({ "from": "example", "name": "an example: 25 clients that react" });
    let mut all: Vec<Value> = files.collect();
    all.push(example);
    Json(json!({ "format": 1, "specs": all }))
}

/// `POST /api/what-if/spec`: the spec as a file.
pub async fn spec(State(app): State<App>, Json(described): Json<Described>) -> Answer {
    let text = beside(move || {
        let document = described.document(&app.stores, &app.desk.specs)?;
        // One that `fedback run` would refuse is not handed out.
        Experiment::new(&document)?;
        Ok(document::text(&document))
    });
    Ok(([(header::CONTENT_TYPE, "application/toml; charset=utf-8")], text.await?).into_response())
}

/// `POST /api/what-if`: part after part, a line each.
pub async fn answer(State(app): State<App>, Json(asked): Json<Asked>) -> Answer {
    let (tell, hear) = mpsc::channel::<Bytes>(WAITING);
    let stop = Arc::new(AtomicBool::new(false));
    let (gone, stopping) = (tell.clone(), stop.clone());
    tokio::spawn(async move {
        let place = tokio::select! {
            place = app.desk.places.clone().acquire_owned() => place,
            () = tell.closed() => return,
        };
        let working = tokio::task::spawn_blocking(move || {
            let say = Say { tell, stop };
            let work = AssertUnwindSafe(|| work(&app, &asked, &say));
            if catch_unwind(work).is_err() {
                let why = "fedback stopped working on this, which is its own mistake: please \
                           report the spec";
                say.line(json!({ "part": "end", "error": why }));
            }
            drop(place);
        });
        tokio::select! {
            () = gone.closed() => stopping.store(true, Ordering::Relaxed),
            _ = working => {}
        }
    });
    let lines = stream::unfold(hear, |mut hear| async move {
        Some((Ok::<_, Infallible>(hear.recv().await?), hear))
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

/// Whom the parts are told.
struct Say {
    tell: mpsc::Sender<Bytes>,
    stop: Arc<AtomicBool>,
}

impl Say {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.tell.is_closed()
    }

    /// Progress is left out where nobody reads, a part is not.
    fn line(&self, line: Value) {
        let _ = self.tell.try_send(format!("{line}\n").into());
    }

    fn part(&self, part: Part, began: Instant, found: Result<Value, Refusal>) {
        let seconds = began.elapsed().as_secs_f64();
        self.line(match found {
            Ok(answer) => json!({ "part": part.name(), "answer": answer, "seconds": seconds }),
            Err(refusal) => {
                json!({ "part": part.name(), "error": refusal.words(), "seconds": seconds })
            }
        });
    }
}

fn planned(app: &App, described: &Described) -> Result<(Document, Plan), Refusal> {
    let document = described.document(&app.stores, &app.desk.specs)?;
    let plan = Experiment::only(&document)?;
    Ok((document, plan))
}

fn work(app: &App, asked: &Asked, say: &Say) {
    let began = Instant::now();
    let (document, plan) = match planned(app, &asked.spec) {
        Ok(found) => found,
        Err(refusal) => return say.line(json!({ "part": "end", "error": refusal.words() })),
    };
    let about = json!({
        "name": plan.spec.name, "clients": plan.clients(), "client_names": plan.client_names,
        "coordinates": plan.coordinates, "spec": plan.spec, "start": plan.start,
    });
    say.line(json!({ "part": "spec", "answer": about, "seconds": began.elapsed().as_secs_f64() }));
    let mut known: Option<Exact> = None;
    let y = asked.y.as_deref();
    for &part in &asked.parts {
        if say.is_over() {
            return;
        }
        let began = Instant::now();
        let mut progress = |share: f64| {
            if say.tell.capacity() > WAITING / 2 {
                say.line(json!({ "part": part.name(), "progress": share }));
            }
        };
        let found = match part {
            Part::Points => Ok(parts::points(&plan)),
            Part::Check => parts::check(&plan),
            Part::Exact => exact(app, asked, &plan).map(|exact| {
                let drawn = parts::curves(Some(&exact), None, y);
                known = Some(exact);
                drawn
            }),
            Part::Sampled => parts::sampled(&plan, &say.stop, &mut progress)
                .map(|run| parts::curves(known.as_ref(), Some(&run), y)),
            Part::Map => match &asked.map {
                Some(map) => {
                    let read =
                        |described: &Described| described.document(&app.stores, &app.desk.specs);
                    boundary::map(&asked.spec, map, &read, &|| say.is_over())
                }
                None => Err(Refusal::question("map: is missing; it has x and y")),
            },
            Part::Plan => match asked.accuracy {
                Some(a) => parts::planned(&plan, &document, a, &say.stop, &mut progress),
                None => Err(Refusal::question("accuracy: is missing; allowed: a number above 0")),
            },
        };
        say.part(part, began, found);
    }
    say.line(json!({ "part": "end" }));
}

/// Exact curves now, and before anything was set.
fn exact(app: &App, asked: &Asked, plan: &Plan) -> Result<Exact, Refusal> {
    let now = parts::exact(plan)?;
    let before: Option<Outcome> = (!asked.spec.set.is_empty())
        .then(|| Described { set: Vec::new(), ..asked.spec.clone() })
        .and_then(|first| planned(app, &first).ok())
        .and_then(|(_, plan)| parts::exact(&plan).ok());
    Ok(Exact { now, before })
}
