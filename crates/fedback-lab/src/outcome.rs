//! The curve of a run and what else it leaves, as data, as JSON and as CSV.

mod csv;
mod packed;

pub use csv::points_to_csv;

use std::collections::BTreeMap;

use fedback_engine::cohort::RecordedCohort;
use fedback_engine::incident::Incident;
use fedback_theory::exact::Moments;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::costs::{Costs, Prices};
use crate::event::Ending;
use crate::facts::Facts;
use crate::measure::Measurement;
use crate::plan::Outline;
use crate::spec::Spec;
use crate::table_summary::TableSummary;
use fedback_core::state::{Repetition, State};

/// A mean over repetitions. The standard deviation is the sample's (0 for one repetition), and
/// does not exist for exact expectations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistic {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation.
    pub sd: Option<f64>,
}

impl Statistic {
    /// Of the values of all repetitions.
    pub fn of(values: &[f64]) -> Self {
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

    /// The last value of a column.
    pub fn last(&self, measurement: Measurement) -> Option<Statistic> {
        self.column(measurement).last().map(|(_, statistic)| *statistic)
    }

    /// A record as an object of the JSON contract.
    pub(crate) fn object(&self, point: &CurvePoint) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("round".into(), point.round.into());
        object.insert("step".into(), point.step.into());
        object.insert("costs".into(), json!(point.costs));
        if self.distance_asked && !self.columns.contains(&Measurement::Distance) {
            object.insert("distance_sq".into(), Value::Null);
        }
        for (column, statistic) in self.columns.iter().zip(&point.values) {
            let value = json!(statistic);
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
        object
    }
}

impl Serialize for Curve {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.points.iter().map(|point| self.object(point)))
    }
}

/// What a run leaves.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The version of this contract.
    pub format: u32,
    /// The spec's name.
    pub name: String,
    /// The version of fedback that began it.
    pub version: String,
    /// Everything random came from it.
    pub seed: u64,
    /// What `--set` and a sweep set.
    #[serde(rename = "set")]
    pub all_set: Map<String, Value>,
    /// What a sweep set to get here.
    #[serde(skip)]
    pub set: Map<String, Value>,
    /// How many repetitions.
    pub repetitions: u64,
    /// How many clients.
    pub clients: usize,
    /// Their names.
    pub client_names: Option<Vec<String>>,
    /// Coordinates of θ.
    pub dim: usize,
    /// The names of θ's coordinates.
    pub coordinates: Option<Vec<String>>,
    /// What the table was found to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableSummary>,
    /// θ^PS.
    pub stable_point: Option<Vec<f64>>,
    /// What was measured.
    pub curve: Curve,
    /// What a simulation leaves; none for exact expectations.
    #[serde(flatten)]
    pub simulated: Option<Simulated>,
    /// Repetitions that stopped being finite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Failed>,
    /// What went wrong with clients, where they were real.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<Reported>,
    /// How it ended.
    #[serde(skip)]
    pub ending: Ending,
    /// Seconds spent.
    pub seconds: f64,
    /// Seconds of work by every record; none of exact expectations. The same run again has others.
    #[serde(skip)]
    pub times: Vec<f64>,
    /// The round from which it was resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<u64>,
    /// The spec.
    pub spec: Spec,
    /// What the spec doubts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}
/// What a simulation leaves, and an expectation does not.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    /// Exact expectations at the same rounds, where they were asked for and exist.
    #[serde(serialize_with = "only_curve")]
    pub exact: Option<Box<Outcome>>,
    /// The last θ of every repetition; none of those that failed.
    pub final_theta: Vec<Option<Vec<f64>>>,
}

fn only_curve<S: Serializer>(exact: &Option<Box<Outcome>>, to: S) -> Result<S::Ok, S::Error> {
    exact.as_ref().map(|exact| &exact.curve).serialize(to)
}

/// One kind of trouble with one client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// Its name, or its number from 0.
    pub client: String,
    /// `absent`, `refused` or `claimed`.
    pub trouble: String,
    /// In how many rounds.
    pub rounds: u64,
    /// The first of them, from 1.
    pub first_round: u64,
    /// The last of them.
    pub last_round: u64,
    /// Why, the last time.
    pub reason: String,
}

impl Reported {
    /// In words.
    pub fn words(&self) -> String {
        let Reported { client, trouble, rounds, first_round, last_round, reason } = self;
        let when = match rounds {
            1 => format!("round {last_round}"),
            _ => format!("{rounds} of rounds {first_round} to {last_round}"),
        };
        format!("client {client} {trouble} in {when}: {reason}")
    }

    /// Of all incidents of a run.
    pub(crate) fn all<'a>(
        names: Option<&[String]>,
        incidents: impl IntoIterator<Item = &'a Incident>,
    ) -> Vec<Self> {
        let report = |one: &Incident| {
            let number = one.client.0 as usize;
            Reported {
                client: match names.and_then(|names| names.get(number)) {
                    Some(name) => name.clone(),
                    None => number.to_string(),
                },
                trouble: one.trouble.word().into(),
                rounds: one.rounds,
                first_round: one.first.0 + 1,
                last_round: one.last.0 + 1,
                reason: one.reason.clone(),
            }
        };
        incidents.into_iter().map(report).collect()
    }
}

/// A repetition that stopped being finite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// Its number, from 0.
    pub repetition: u64,
    /// The round in which it did.
    pub round: u64,
}

impl Outcome {
    pub(crate) fn of_run(
        plan: &Outline,
        curve: Curve,
        state: &State,
        seconds: f64,
        ending: Ending,
    ) -> Self {
        let theta = |one: &Repetition| one.failed.is_none().then(|| one.theta().to_vec());
        let final_theta = state.repetitions.iter().map(theta).collect();
        let failed = state.failed().into_iter();
        Outcome {
            simulated: Some(Simulated { exact: None, final_theta }),
            failed: failed
                .map(|(repetition, round)| Failed { repetition, round: round.0 })
                .collect(),
            ending,
            seconds,
            ..Outcome::of_exact(plan, curve, 0.0)
        }
    }

    pub(crate) fn of_exact(plan: &Outline, curve: Curve, seconds: f64) -> Self {
        Outcome { seconds, ..Outcome::new(&plan.spec, plan.set.clone(), Facts::of(plan), curve) }
    }

    /// The outcome of a spec of which so much is known, without its models.
    pub(crate) fn new(spec: &Spec, set: Map<String, Value>, facts: Facts, curve: Curve) -> Self {
        Outcome {
            format: 1,
            name: spec.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            seed: spec.seed.0,
            all_set: facts.assigned.into_iter().chain(set.clone()).collect(),
            set,
            repetitions: spec.repetitions.0,
            clients: facts.clients,
            client_names: facts.client_names,
            dim: facts.dim,
            coordinates: facts.coordinates,
            table: facts.table,
            stable_point: facts.stable_point,
            curve,
            simulated: None,
            failed: Vec::new(),
            incidents: Vec::new(),
            ending: Ending::Done,
            seconds: 0.0,
            times: Vec::new(),
            resumed_from: None,
            spec: spec.clone(),
            doubts: spec.doubts.clone(),
        }
    }

    /// The same with exact expectations, as far as it got.
    pub fn with_exact(mut self, exact: Option<Outcome>) -> Self {
        let last = self.curve.points.last().map_or(0, |point| point.round);
        if let (Some(simulated), Some(mut exact)) = (&mut self.simulated, exact) {
            exact.curve.points.retain(|point| point.round <= last);
            simulated.exact = Some(Box::new(exact));
        }
        self
    }

    /// Exact expectations beside a simulation.
    pub fn exact(&self) -> Option<&Outcome> {
        self.simulated.as_ref()?.exact.as_deref()
    }

    /// What is measured, by name: see [`Measurement::key`].
    pub fn keys(&self) -> Vec<String> {
        let groups = self.table.as_ref().map_or(&[][..], |table| &table.groups);
        self.curve.columns.iter().map(|column| column.key(groups)).collect()
    }

    /// The last θ of every repetition, none of those that failed; empty for exact expectations.
    pub fn final_theta(&self) -> &[Option<Vec<f64>>] {
        self.simulated.as_ref().map_or(&[], |run| &run.final_theta)
    }
}

/// One object, or the object of a sweep.
pub fn to_json(outcomes: &[Outcome], swept: bool) -> Value {
    points_to_json(outcomes.iter().map(|outcome| (&outcome.set, outcome)), swept)
}

/// The object of the only point, or of a sweep: each point's object after what was set to get there.
pub fn points_to_json<'a>(
    points: impl Iterator<Item = (&'a Map<String, Value>, impl Serialize)>,
    swept: bool,
) -> Value {
    let mut points: Vec<_> = points.map(|(set, point)| (set, json!(point))).collect();
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
