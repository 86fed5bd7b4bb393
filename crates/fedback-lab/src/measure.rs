//! What is recorded of a repetition, and in which order.
//!
//! A record is one flat row of numbers: measurement after measurement, repetition after repetition
//! within each. A repetition that failed, or a number that does not exist, is NaN.

use fedback_core::risk::PerformativeRisk;
use fedback_core::score;
use fedback_engine::simulate::{Repetition, Simulation};

use crate::plan::Plan;

/// One column of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// |θ − θ^PS|².
    Distance,
    /// f(θ; θ).
    Risk,
    /// The consensus error just before the last aggregation.
    Consensus,
    /// The share of rows on the right side.
    Accuracy,
    /// The area under the ROC curve.
    Auc,
    /// f_i(θ; θ) of one client.
    ClientRisk(usize),
}

impl Measurement {
    /// The columns that a plan records.
    pub fn of(plan: &Plan) -> Vec<Measurement> {
        let measure = &plan.spec.measure;
        let fixed = [
            (measure.distance && plan.stable_point.is_some(), Measurement::Distance),
            (measure.risk, Measurement::Risk),
            (measure.consensus, Measurement::Consensus),
            (measure.accuracy, Measurement::Accuracy),
            (measure.auc, Measurement::Auc),
        ];
        let clients = if measure.client_risk { plan.federation.clients() } else { 0 };
        fixed
            .into_iter()
            .filter_map(|(on, measurement)| on.then_some(measurement))
            .chain((0..clients).map(Measurement::ClientRisk))
            .collect()
    }

    /// The name in JSON and CSV; client risks share one.
    pub fn name(self) -> &'static str {
        match self {
            Measurement::Distance => "distance_sq",
            Measurement::Risk => "risk",
            Measurement::Consensus => "consensus",
            Measurement::Accuracy => "accuracy",
            Measurement::Auc => "auc",
            Measurement::ClientRisk(_) => "client_risk",
        }
    }
}

/// Takes records of a simulation.
pub struct Recorder<'a> {
    plan: &'a Plan,
    risk: Option<PerformativeRisk<'a>>,
    columns: Vec<Measurement>,
}

impl<'a> Recorder<'a> {
    /// Prepares what the plan asks for.
    pub fn new(plan: &'a Plan) -> Self {
        let columns = Measurement::of(plan);
        let risk =
            columns.contains(&Measurement::Risk).then(|| PerformativeRisk::new(&plan.federation));
        Recorder { plan, risk, columns }
    }

    /// The columns of a record.
    pub fn columns(&self) -> &[Measurement] {
        &self.columns
    }

    /// One record.
    pub fn record<W: fedback_engine::algorithm::Work>(
        &self,
        simulation: &Simulation<'_, W>,
    ) -> Vec<f64> {
        let rows = simulation.measure(|repetition| {
            self.columns.iter().map(|column| self.value(*column, repetition)).collect::<Vec<_>>()
        });
        (0..self.columns.len()).flat_map(|c| rows.iter().map(move |row| row[c])).collect()
    }

    fn value(&self, column: Measurement, repetition: &Repetition) -> f64 {
        let Plan { federation, stable_point, .. } = self.plan;
        let theta = repetition.theta.as_slice();
        if repetition.failed.is_some() {
            return f64::NAN;
        }
        match column {
            Measurement::Distance => stable_point.as_ref().map_or(f64::NAN, |stable| {
                theta.iter().zip(stable).map(|(t, s)| (t - s) * (t - s)).sum()
            }),
            Measurement::Risk => self.risk.as_ref().map_or(f64::NAN, |risk| risk.at(theta)),
            Measurement::Consensus => repetition.consensus,
            Measurement::Accuracy => score::accuracy(federation, theta).unwrap_or(f64::NAN),
            Measurement::Auc => score::auc(federation, theta).unwrap_or(f64::NAN),
            Measurement::ClientRisk(client) => federation.population(client).risk(theta, theta),
        }
    }
}
