//! The curve of a run and what else it leaves, as data and as JSON.

use serde_json::{Map, Value, json};

use fedback_theory::exact::Moments;

use crate::event::Ending;
use crate::measure::Measurement;
use crate::plan::Outline;
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
}

impl Curve {
    /// An empty curve with the given columns.
    pub fn new(plan: &Outline, columns: &[Measurement]) -> Self {
        Curve {
            columns: columns.to_vec(),
            points: Vec::new(),
            distance_asked: plan.spec.measure.distance,
            repetitions: plan.spec.repetitions.0 as usize,
            local_steps: plan.protocol.local_steps as u64,
        }
    }

    /// Adds a record: column after column, repetition after repetition.
    pub fn add(&mut self, round: u64, values: &[f64]) {
        let values = values.chunks_exact(self.repetitions).map(Statistic::of).collect();
        self.points.push(CurvePoint { round, step: round * self.local_steps, values });
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
        let (round, values) = (moments.round.0, values.collect());
        self.points.push(CurvePoint { round, step: round * self.local_steps, values });
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
        if self.distance_asked && !self.columns.contains(&Measurement::Distance) {
            object.insert("distance_sq".into(), Value::Null);
        }
        for (column, statistic) in self.columns.iter().zip(&point.values) {
            let value = statistic.to_json();
            match column {
                Measurement::ClientRisk(_) => {
                    let list = object.entry(column.name()).or_insert_with(|| json!([]));
                    list.as_array_mut().into_iter().for_each(|list| list.push(value.clone()));
                }
                _ => {
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
    /// How many repetitions.
    pub repetitions: u64,
    /// How many clients.
    pub clients: usize,
    /// Their names.
    pub client_names: Option<Vec<String>>,
    /// The names of θ's coordinates.
    pub coordinates: Option<Vec<String>>,
    /// Coordinates of θ.
    pub dim: usize,
    /// θ^PS.
    pub stable_point: Option<Vec<f64>>,
    /// What was measured.
    pub curve: Curve,
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
        Outcome {
            name: plan.spec.name.clone(),
            set: plan.set.clone(),
            repetitions: plan.spec.repetitions.0,
            clients: plan.clients(),
            client_names: plan.client_names.clone(),
            coordinates: plan.coordinates.clone(),
            dim: plan.dim,
            stable_point: plan.stable_point.clone(),
            curve,
            final_theta: None,
            failed: Vec::new(),
            ending: Ending::Done,
            seconds,
            resumed_from: None,
        }
    }

    /// The object of the JSON contract.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.into(), value);
        put("format", 1.into());
        put("name", json!(self.name));
        put("repetitions", self.repetitions.into());
        put("clients", self.clients.into());
        put("client_names", json!(self.client_names));
        put("dim", self.dim.into());
        put("coordinates", json!(self.coordinates));
        put("stable_point", json!(self.stable_point));
        put("curve", self.curve.to_json());
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
        Value::Object(object)
    }

    /// The curve as CSV, one line per record.
    pub fn to_csv(&self) -> String {
        let mut header = vec!["round".to_string(), "step".to_string()];
        for column in &self.curve.columns {
            let name = match column {
                Measurement::ClientRisk(client) => {
                    let names = self.client_names.as_ref();
                    let client = names.map_or(client.to_string(), |names| names[*client].clone());
                    format!("client_risk {client}")
                }
                other => other.name().to_string(),
            };
            header.extend(["mean", "sd"].map(|what| quoted(&format!("{name}_{what}"))));
        }
        let mut text = header.join(",") + "\n";
        for point in &self.curve.points {
            let mut line = vec![point.round.to_string(), point.step.to_string()];
            for statistic in &point.values {
                line.extend([Some(statistic.mean), statistic.sd].map(cell));
            }
            text.push_str(&(line.join(",") + "\n"));
        }
        text
    }
}

/// A number, empty where there is none.
fn cell(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or(String::new(), |value| format!("{value:?}"))
}

fn quoted(name: &str) -> String {
    match name.contains([',', '"', '\n']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.into(),
    }
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
