//! The curve of a run and what else it leaves, as data, as JSON and as CSV.

mod csv;

pub use csv::points_to_csv;

use std::collections::BTreeMap;

use fedback_engine::cohort::RecordedCohort;
use fedback_theory::exact::Moments;
use serde_json::{Map, Value, json};

use crate::costs::{Costs, Prices};
use crate::event::Ending;
use crate::facts::Facts;
use crate::measure::Measurement;
use crate::plan::Outline;
use crate::spec::Spec;
use crate::table_summary::TableSummary;
use fedback_core::state::State;

/// A mean over repetitions. The standard deviation is the sample's (0 for one repetition), and
/// does not exist for exact expectations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistic {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation.
    pub sd: Option<f64>,
}

impl Statistic {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        // Deviations from the first value: repetitions that agree have no spread, not a rounded one.
        let first = values.first().copied().unwrap_or(f64::NAN);
        let mean = first + values.iter().map(|v| v - first).sum::<f64>() / count;
        // In units of the largest deviation, so that its square cannot overflow.
        let largest = values.iter().map(|v| (v - mean).abs()).fold(0.0 * mean, f64::max);
        let unit = if largest > 0.0 { largest } else { 1.0 };
        let squares: f64 = values.iter().map(|v| ((v - mean) / unit).powi(2)).sum();
        let spread = (squares / (count - 1.0).max(1.0)).sqrt() * unit;
        let sd = if values.len() > 1 { spread } else { 0.0 * mean };
        Statistic { mean, sd: Some(sd) }
    }

    /// The standard error of the mean; none of a single repetition, nor of an expectation.
    pub fn standard_error(self, repetitions: u64) -> Option<f64> {
        self.sd.filter(|_| repetitions > 1).map(|sd| sd / (repetitions as f64).sqrt())
    }

    fn to_json(self) -> Value {
        json!({ "mean": self.mean, "sd": self.sd })
    }
}

/// All that was measured after one round.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePoint {
    /// Rounds closed.
    pub round: u64,
    /// Local steps made by then.
    pub step: u64,
    /// What it took to get there.
    pub costs: Costs,
    /// One statistic per column.
    pub values: Vec<Statistic>,
}

/// What was measured, round by round.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What the columns are.
    pub columns: Vec<Measurement>,
    /// Records in the order of rounds.
    pub points: Vec<CurvePoint>,
    /// Distance was asked for; where there is no column of it, there is no stable point.
    distance_asked: bool,
    repetitions: usize,
    local_steps: u64,
    prices: Prices,
    /// Updates that are missing, on average over repetitions, by the round that lacked them.
    absent: BTreeMap<u64, f64>,
    /// Those of them that lie before the last record.
    missing: f64,
}

impl Curve {
    /// An empty curve with the given columns.
    pub fn new(spec: &Spec, clients: usize, columns: &[Measurement]) -> Self {
        let keys = spec.algorithm.rounds();
        Curve {
            columns: columns.to_vec(),
            points: Vec::new(),
            distance_asked: spec.measure.distance,
            repetitions: spec.repetitions.0 as usize,
            local_steps: keys.local_steps.0,
            prices: Prices::of(keys, clients),
            absent: BTreeMap::new(),
            missing: 0.0,
        }
    }

    /// Adds a record: column after column, repetition after repetition.
    pub fn add(&mut self, round: u64, values: &[f64]) {
        let values = values.chunks_exact(self.repetitions).map(Statistic::of).collect();
        self.push(round, values);
    }

    /// Counts a cohort that the seed alone does not tell, before the records after it.
    pub fn count(&mut self, cohort: &RecordedCohort) {
        let missing = self.prices.missing(cohort) / self.repetitions as f64;
        *self.absent.entry(cohort.round.0).or_default() += missing;
    }

    fn push(&mut self, round: u64, values: Vec<Statistic>) {
        let later = self.absent.split_off(&round);
        self.missing += std::mem::replace(&mut self.absent, later).values().sum::<f64>();
        let costs = self.prices.after(round as f64, self.missing);
        self.points.push(CurvePoint { round, step: round * self.local_steps, costs, values });
    }

    /// Adds exact expectations.
    pub fn add_exact(&mut self, moments: &Moments) {
        let values = self.columns.iter().map(|column| {
            let mean = match column {
                Measurement::Distance => moments.distance_sq.unwrap_or(f64::NAN),
                Measurement::Risk => moments.risk,
                Measurement::Consensus => moments.consensus,
                _ => f64::NAN,
            };
            Statistic { mean, sd: None }
        });
        self.push(moments.round.0, values.collect());
    }

    /// What all rounds up to the last record took.
    pub fn costs(&self) -> Costs {
        self.points.last().map_or(self.prices.after(0.0, 0.0), |point| point.costs)
    }

    /// One column as (step, statistic), empty where it was not measured.
    pub fn column(&self, measurement: Measurement) -> Vec<(u64, Statistic)> {
        let Some(place) = self.columns.iter().position(|column| *column == measurement) else {
            return Vec::new();
        };
        self.points.iter().map(|point| (point.step, point.values[place])).collect()
    }

    fn to_json(&self) -> Value {
        self.points.iter().map(|point| self.point_to_json(point)).collect()
    }

    fn point_to_json(&self, point: &CurvePoint) -> Value {
        let mut object = Map::new();
        object.insert("round".into(), point.round.into());
        object.insert("step".into(), point.step.into());
        object.insert("costs".into(), point.costs.to_json());
        if self.distance_asked && !self.columns.contains(&Measurement::Distance) {
            object.insert("distance_sq".into(), Value::Null);
        }
        for (column, statistic) in self.columns.iter().zip(&point.values) {
            let value = statistic.to_json();
            match column.is_one_of_many() {
                true => {
                    let list = object.entry(column.name()).or_insert_with(|| json!([]));
                    list.as_array_mut().into_iter().for_each(|list| list.push(value.clone()));
                }
                false => {
                    object.insert(column.name().into(), value);
                }
            }
        }
        Value::Object(object)
    }
}

/// What a run leaves.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The spec's name.
    pub name: String,
    /// What a sweep set to get here.
    pub set: Map<String, Value>,
    /// What `--set` set.
    pub assigned: Map<String, Value>,
    /// The spec.
    pub spec: Spec,
    /// The version of fedback that began it.
    pub version: String,
    /// What the spec doubts.
    pub doubts: Vec<String>,
    /// How many repetitions.
    pub repetitions: u64,
    /// How many clients.
    pub clients: usize,
    /// Their names.
    pub client_names: Option<Vec<String>>,
    /// The names of θ's coordinates.
    pub coordinates: Option<Vec<String>>,
    /// What the table was found to hold.
    pub table: Option<TableSummary>,
    /// Coordinates of θ.
    pub dim: usize,
    /// θ^PS.
    pub stable_point: Option<Vec<f64>>,
    /// What was measured.
    pub curve: Curve,
    /// Exact expectations of the same run, where they were asked for and exist.
    pub exact: Option<Box<Outcome>>,
    /// The last θ of every repetition; none for exact expectations.
    pub final_theta: Option<Vec<Vec<f64>>>,
    /// Repetitions that stopped being finite, with the round in which they did.
    pub failed: Vec<(u64, u64)>,
    /// How it ended.
    pub ending: Ending,
    /// Seconds spent.
    pub seconds: f64,
    /// The round from which it was resumed.
    pub resumed_from: Option<u64>,
}

impl Outcome {
    pub(crate) fn of_run(
        plan: &Outline,
        curve: Curve,
        state: &State,
        seconds: f64,
        ending: Ending,
        resumed_from: Option<u64>,
    ) -> Self {
        Outcome {
            final_theta: Some(state.repetitions.iter().map(|one| one.theta().to_vec()).collect()),
            failed: state.failed().into_iter().map(|(number, round)| (number, round.0)).collect(),
            ending,
            seconds,
            resumed_from,
            ..Outcome::of_exact(plan, curve, 0.0)
        }
    }

    pub(crate) fn of_exact(plan: &Outline, curve: Curve, seconds: f64) -> Self {
        Outcome { seconds, ..Outcome::new(&plan.spec, plan.set.clone(), Facts::of(plan), curve) }
    }

    /// The outcome of a spec of which so much is known, without its models.
    pub(crate) fn new(spec: &Spec, set: Map<String, Value>, facts: Facts, curve: Curve) -> Self {
        Outcome {
            name: spec.name.clone(),
            set,
            doubts: spec.doubts.clone(),
            assigned: facts.assigned,
            spec: spec.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            repetitions: spec.repetitions.0,
            clients: facts.clients,
            client_names: facts.client_names,
            coordinates: facts.coordinates,
            table: facts.table,
            dim: facts.dim,
            stable_point: facts.stable_point,
            curve,
            exact: None,
            final_theta: None,
            failed: Vec::new(),
            ending: Ending::Done,
            seconds: 0.0,
            resumed_from: None,
        }
    }

    /// The same with exact expectations, as far as it got.
    pub fn with_exact(self, exact: Option<Outcome>) -> Self {
        let last = self.curve.points.last().map_or(0, |point| point.round);
        let exact = exact.map(|mut exact| {
            exact.curve.points.retain(|point| point.round <= last);
            Box::new(exact)
        });
        Outcome { exact, ..self }
    }

    /// What `--set` and a sweep set.
    pub fn all_set(&self) -> Map<String, Value> {
        let set = self.set.iter().map(|(key, value)| (key.clone(), value.clone()));
        self.assigned.clone().into_iter().chain(set).collect()
    }

    /// The object of the JSON contract.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.into(), value);
        put("format", 1.into());
        put("name", json!(self.name));
        put("version", json!(self.version));
        put("seed", self.spec.seed.0.into());
        put("set", Value::Object(self.all_set()));
        put("repetitions", self.repetitions.into());
        put("clients", self.clients.into());
        put("client_names", json!(self.client_names));
        put("dim", self.dim.into());
        put("coordinates", json!(self.coordinates));
        if let Some(table) = &self.table {
            put("table", json!(table));
        }
        put("stable_point", json!(self.stable_point));
        put("curve", self.curve.to_json());
        if self.final_theta.is_some() {
            put("exact", self.exact.as_ref().map_or(Value::Null, |exact| exact.curve.to_json()));
        }
        if let Some(thetas) = &self.final_theta {
            let failed = |n: usize| self.failed.iter().any(|(number, _)| *number == n as u64);
            let row = |(n, theta): (usize, &Vec<f64>)| match failed(n) {
                true => Value::Null,
                false => json!(theta),
            };
            put("final_theta", thetas.iter().enumerate().map(row).collect());
        }
        if !self.failed.is_empty() {
            let list = self.failed.iter();
            let list = list.map(|(n, round)| json!({ "repetition": n, "round": round }));
            put("failed", list.collect());
        }
        put("seconds", json!(self.seconds));
        if let Some(round) = self.resumed_from {
            put("resumed_from", round.into());
        }
        put("spec", json!(self.spec));
        with_doubts(Value::Object(object), &self.doubts)
    }
}

/// An object with what the spec doubts, where it doubts anything.
pub(crate) fn with_doubts(mut object: Value, doubts: &[String]) -> Value {
    if !doubts.is_empty() {
        object["doubts"] = json!(doubts);
    }
    object
}

/// One object, or the object of a sweep.
pub fn to_json(outcomes: &[Outcome], swept: bool) -> Value {
    let points = outcomes.iter().map(|outcome| (&outcome.set, outcome.to_json())).collect();
    points_to_json(points, swept)
}

/// The object of the only point, or of a sweep: each point's object after what was set to get there.
pub fn points_to_json(mut points: Vec<(&Map<String, Value>, Value)>, swept: bool) -> Value {
    if let (1, false, Some((_, only))) = (points.len(), swept, points.first_mut()) {
        return only.take();
    }
    let points = points.into_iter().map(|(set, point)| {
        let mut object = Map::new();
        object.insert("set".into(), Value::Object(set.clone()));
        if let Value::Object(rest) = point {
            object.extend(rest);
        }
        Value::Object(object)
    });
    json!({ "format": 1, "points": points.collect::<Vec<_>>() })
}
