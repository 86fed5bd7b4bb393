//! The parts of an answer, each what the command says of the same spec.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use fedback_lab::advice::{Advice, Question, latency, planned_spec};
use fedback_lab::chart::{self, BAND, Pair};
use fedback_lab::check::{Check, picture};
use fedback_lab::error::Error;
use fedback_lab::event::{Event, Sink};
use fedback_lab::exact;
use fedback_lab::figure::Size;
use fedback_lab::measure::Measurement;
use fedback_lab::outcome::Outcome;
use fedback_lab::plan::Plan;
use fedback_lab::runner;
use fedback_lab::solution::Solution;
use fedback_lab::spec::{Count, Document, SchemeName};
use fedback_theory::planner::Prices;
use serde_json::{Value, json};

use crate::answer::Refusal;

/// Records of a curve, at most.
const MOST_RECORDS: u64 = 400;
/// Repetitions of a curve that is sampled for a look at it.
const MOST_REPETITIONS: u64 = 20;

/// Where retraining settles: as `fedback solve --json`.
pub fn points(plan: &Plan) -> Value {
    json!(Solution::of(plan))
}

/// Whether it settles: as `fedback check --json`, and the factor per round over the step size.
pub fn check(plan: &Plan) -> Result<Value, Refusal> {
    let check = Check::of(plan, &mut |_| {})?;
    let drawn = picture(&[(plan, check.clone())]).map(|figure| figure.to_svg());
    Ok(json!({ "check": check, "svg": drawn }))
}

/// What is known exactly, and how it was before anything was set.
pub struct Exact {
    pub now: Outcome,
    pub before: Option<Outcome>,
}

/// Exact expectations at some of the rounds of `fedback exact`.
pub fn exact(plan: &Plan) -> Result<Outcome, Refusal> {
    let thinned = exact::thinned(plan, MOST_RECORDS);
    Ok(exact::exact(thinned.as_ref().unwrap_or(plan))?)
}

/// The curves as a figure, and what could be drawn instead.
pub fn curves(exact: Option<&Exact>, sampled: Option<&Outcome>, y: Option<&str>) -> Value {
    let now = exact.map(|exact| &exact.now);
    let before = exact.and_then(|exact| exact.before.as_ref());
    let mut pairs = vec![Pair { label: "now".into(), run: sampled, exact: now }];
    if let Some(before) = before {
        pairs.push(Pair { label: "as it was, exact".into(), run: None, exact: Some(before) });
    }
    let all: Vec<&Outcome> = sampled.into_iter().chain(now).chain(before).collect();
    let columns = all.first().map_or(&[][..], |first| &first.curve.columns);
    let common = |column: &&Measurement| {
        !column.is_one_of_many() && all.iter().all(|one| one.curve.columns.contains(column))
    };
    let columns: Vec<Measurement> = columns.iter().filter(common).copied().collect();
    let named = columns.iter().copied().find(|column| Some(column.name()) == y);
    let chosen = named.or_else(|| chart::main_measurement(&all)).or(columns.first().copied());
    let first = all.first();
    let subtitle = match sampled {
        Some(run) => format!("{} repetitions; {BAND}", run.repetitions),
        None => "exact expectations".into(),
    };
    let figure = chosen.map(|measurement| {
        let title = first.map_or("", |first| &first.name);
        chart::chart(title, &subtitle, measurement, &pairs).to_svg_of(Size::Screen)
    });
    let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    json!({
        "svg": figure, "measured": names, "shown": chosen.map(Measurement::name),
        "exact": now.map(|now| &now.curve), "sampled": sampled.map(|run| &run.curve),
    })
}

/// Runs the spec in memory; nothing is recorded.
pub fn sampled(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<Outcome, Refusal> {
    let thinned = exact::thinned(plan, MOST_RECORDS);
    let plan = thinned.as_ref().unwrap_or(plan);
    let repetitions = plan.spec.repetitions.0.min(MOST_REPETITIONS);
    let plan = plan.with(|spec| spec.repetitions = Count(repetitions))?;
    let mut advance = Advance { rounds: plan.spec.rounds.0, progress, told: Instant::now() };
    Ok(runner::run(&plan, None, &mut [&mut advance], stop)?)
}

/// Tells how far a run has come, a few times a second.
struct Advance<'a> {
    rounds: u64,
    progress: &'a mut dyn FnMut(f64),
    told: Instant,
}

impl Sink for Advance<'_> {
    fn take(&mut self, event: &Event<'_>) -> Result<(), Error> {
        if let Event::Advanced { round } = event
            && self.told.elapsed().as_millis() > 250
        {
            (self.progress)(*round as f64 / self.rounds as f64);
            self.told = Instant::now();
        }
        Ok(())
    }
}

/// The cheapest setting that reaches an accuracy: as `fedback plan --json`, and its spec.
pub fn planned(
    plan: &Plan,
    document: &Document,
    accuracy: f64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<Value, Refusal> {
    let question = Question {
        accuracy,
        prices: Prices {
            communication: 1.0,
            straggler: 0.0,
            latency: latency("exponential").map_err(Error::Question)?,
        },
        budget: 1_000_000,
        local_steps: None,
        schemes: vec![
            SchemeName::Full,
            SchemeName::WithReplacement,
            SchemeName::WithoutReplacement,
        ],
        algorithms: Vec::new(),
        most_clients: None,
        safety: None,
        smoothness: None,
        repetitions: None,
        drawn: false,
    };
    let advice = Advice::of(plan, question, progress, &mut (), stop)?;
    let set = advice.best.as_ref().ok().map(|best| {
        let text = planned_spec(document, best, advice.rival, &document.directory);
        settings(&text)
    });
    let why = advice.best.as_ref().err().map(|binding| binding.reason.clone());
    Ok(json!({
        "plan": advice.to_json(plan.clients()), "set": set, "problem": why,
    }))
}

/// What a planned spec sets, as assignments.
fn settings(text: &str) -> Vec<String> {
    let table: toml::Table = toml::from_str(text).unwrap_or_default();
    let algorithm = table.get("algorithm").and_then(toml::Value::as_table);
    let keys = ["scheme", "cohort", "local_steps", "step_size"];
    let own =
        keys.iter().filter_map(|key| Some(format!("algorithm.{key}={}", algorithm?.get(*key)?)));
    let rounds = table.get("rounds").map(|rounds| format!("rounds={rounds}"));
    rounds.into_iter().chain(own).collect()
}
