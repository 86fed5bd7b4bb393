//! What is recorded of a repetition, and in which order.
//!
//! A record is one flat row of numbers: measurement after measurement, repetition after repetition
//! within each. A repetition that failed, or a number that does not exist, is NaN.

use fedback_core::protocol::{Aggregate, Round, Scheme, Step};
use fedback_core::risk::PerformativeRisk;
use fedback_core::score;
use fedback_core::state::{Repetition, State};
use fedback_engine::work::WorkError;
use fedback_theory::limit::RoundMap;
use rayon::prelude::*;

use crate::plan::{Outline, Plan};
use crate::spec::Spec;
use crate::words::short;

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
    /// |θ − θ at the record before|, where a run may end by it.
    Movement,
}

impl Measurement {
    /// The columns that a plan records.
    pub fn of(plan: &Outline) -> Vec<Measurement> {
        Measurement::asked(&plan.spec, plan.stable_point.is_some(), plan.clients())
    }

    /// The columns that a spec asks for, where the stable point is `known` and of so many clients.
    pub(crate) fn asked(spec: &Spec, known: bool, clients: usize) -> Vec<Measurement> {
        let measure = &spec.measure;
        let fixed = [
            (measure.distance && known, Measurement::Distance),
            (measure.risk, Measurement::Risk),
            (measure.consensus, Measurement::Consensus),
            (measure.accuracy, Measurement::Accuracy),
            (measure.auc, Measurement::Auc),
        ];
        let clients = if measure.client_risk { clients } else { 0 };
        fixed
            .into_iter()
            .filter_map(|(on, measurement)| on.then_some(measurement))
            .chain((0..clients).map(Measurement::ClientRisk))
            .chain(spec.until.map(|_| Measurement::Movement))
            .collect()
    }

    /// Whether more of it is better.
    pub fn is_gain(self) -> bool {
        match self {
            Measurement::Accuracy | Measurement::Auc => true,
            Measurement::Distance
            | Measurement::Risk
            | Measurement::Consensus
            | Measurement::ClientRisk(_)
            | Measurement::Movement => false,
        }
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
            Measurement::Movement => "movement",
        }
    }
}

/// A model to be judged: θ of a repetition after so many rounds.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    /// The repetition.
    pub repetition: u64,
    /// Rounds closed.
    pub round: u64,
    /// θ.
    pub theta: &'a [f64],
}

/// Says how good a model is. A number that does not exist is NaN.
pub trait Judge: Sync {
    /// f(θ; θ).
    fn risk(&self, model: Model<'_>) -> Result<f64, WorkError>;
    /// f_i(θ; θ) of one client.
    fn client_risk(&self, model: Model<'_>, client: usize) -> Result<f64, WorkError>;
    /// The share of rows on the right side.
    fn accuracy(&self, _model: Model<'_>) -> f64 {
        f64::NAN
    }
    /// The area under the ROC curve.
    fn auc(&self, _model: Model<'_>) -> f64 {
        f64::NAN
    }
    /// Whether the judge has data to judge by. Without, a NaN says nothing of the model.
    fn has_data(&self) -> bool {
        true
    }
    /// What probably made a repetition stop being finite in the round after `round`.
    fn likely_cause(&self, _round: Round) -> String {
        UNKNOWN_CAUSE.into()
    }
}

/// What to say of a run that blew up where nothing is known of its rounds.
const UNKNOWN_CAUSE: &str =
    "likely cause: steps too large or a response too strong; try smaller steps";

/// The judge of a problem that is built in: exact.
pub struct Exactly<'a> {
    plan: &'a Plan,
    risk: Option<PerformativeRisk<'a>>,
}

impl<'a> Exactly<'a> {
    /// Prepares what the plan asks for.
    pub fn new(plan: &'a Plan) -> Self {
        let risk = plan.spec.measure.risk.then(|| PerformativeRisk::new(&plan.federation));
        Exactly { plan, risk }
    }
}

impl Judge for Exactly<'_> {
    fn risk(&self, model: Model<'_>) -> Result<f64, WorkError> {
        Ok(self.risk.as_ref().map_or(f64::NAN, |risk| risk.at(model.theta)))
    }

    fn client_risk(&self, model: Model<'_>, client: usize) -> Result<f64, WorkError> {
        Ok(self.plan.federation.population(client).risk(model.theta, model.theta))
    }

    fn accuracy(&self, model: Model<'_>) -> f64 {
        score::accuracy(&self.plan.federation, model.theta).unwrap_or(f64::NAN)
    }

    fn auc(&self, model: Model<'_>) -> f64 {
        score::auc(&self.plan.federation, model.theta).unwrap_or(f64::NAN)
    }

    fn likely_cause(&self, round: Round) -> String {
        likely_cause(self.plan, round)
    }
}

/// The judge of a live run whose data never leave their sites: it knows nothing of risks.
pub struct WithoutData;

impl Judge for WithoutData {
    fn risk(&self, _model: Model<'_>) -> Result<f64, WorkError> {
        Ok(f64::NAN)
    }

    fn client_risk(&self, _model: Model<'_>, _client: usize) -> Result<f64, WorkError> {
        Ok(f64::NAN)
    }

    fn has_data(&self) -> bool {
        false
    }
}

/// Takes records of a run.
pub struct Recorder<'a> {
    plan: &'a Outline,
    pub(crate) judge: &'a dyn Judge,
    columns: Vec<Measurement>,
}

impl<'a> Recorder<'a> {
    /// Prepares what the plan asks for.
    pub fn new(plan: &'a Outline, judge: &'a dyn Judge) -> Self {
        Recorder { plan, judge, columns: Measurement::of(plan) }
    }

    /// The columns of a record.
    pub fn columns(&self) -> &[Measurement] {
        &self.columns
    }

    /// One record; `before` is every repetition's θ at the last one.
    pub fn record(&self, state: &State, before: &[Vec<f64>]) -> Result<Vec<f64>, WorkError> {
        let round = state.round.0;
        let row = |(repetition, before): (&Repetition, &Vec<f64>)| {
            let value = |column: &Measurement| self.value(*column, repetition, before, round);
            self.columns.iter().map(value).collect::<Result<Vec<_>, _>>()
        };
        let rows: Vec<_> = state.repetitions.par_iter().zip(before).map(row).collect();
        let rows: Vec<Vec<f64>> = rows.into_iter().collect::<Result<_, _>>()?;
        Ok((0..self.columns.len()).flat_map(|c| rows.iter().map(move |row| row[c])).collect())
    }

    fn value(
        &self,
        column: Measurement,
        repetition: &Repetition,
        before: &[f64],
        round: u64,
    ) -> Result<f64, WorkError> {
        let theta = repetition.theta();
        if repetition.failed.is_some() {
            return Ok(f64::NAN);
        }
        let model = Model { repetition: repetition.number, round, theta };
        match column {
            Measurement::Distance => {
                Ok(self.plan.stable_point.as_ref().map_or(f64::NAN, |stable| {
                    theta.iter().zip(stable).map(|(t, s)| (t - s) * (t - s)).sum()
                }))
            }
            Measurement::Risk => self.judge.risk(model),
            Measurement::Consensus => Ok(repetition.consensus.unwrap_or(f64::NAN)),
            Measurement::Accuracy => Ok(self.judge.accuracy(model)),
            Measurement::Auc => Ok(self.judge.auc(model)),
            Measurement::ClientRisk(client) => self.judge.client_risk(model, client),
            Measurement::Movement => {
                let squares =
                    theta.iter().zip(before).map(|(now, then)| (now - then) * (now - then));
                Ok(squares.sum::<f64>().sqrt())
            }
        }
    }
}

/// The step size against the stability limit, or what else can make a run blow up.
fn likely_cause(plan: &Plan, round: Round) -> String {
    let place = plan.stable_point.as_deref().unwrap_or(&plan.start);
    let map = RoundMap::new(&plan.federation, &plan.protocol, None, place).ok();
    let Some(mut map) = map else { return UNKNOWN_CAUSE.into() };
    let first = plan.protocol.step_size.at(Step(0));
    let now = plan.protocol.step_size.at(plan.protocol.first_step(round));
    match map.largest_step() {
        None => {
            "likely cause: no step size is small enough, the average response is stronger than \
                 the loss (`fedback solve` says more)"
                .into()
        }
        Some(limit) if first > limit => format!(
            "likely cause: the step size, {} at the start and {} then, is above about {}, the \
             largest with which an average round shrinks errors; choose algorithm.step_size below it",
            short(first),
            short(now),
            short(limit)
        ),
        Some(_)
            if plan.protocol.aggregate == Aggregate::Iterates
                && matches!(plan.protocol.scheme, Scheme::WithoutReplacement { .. }) =>
        {
            "likely cause: coefficients that do not sum to one rescale the model at random; use \
             aggregate = \"deltas\""
                .into()
        }
        Some(limit) => format!(
            "the step size, {} at the start, is below the limit of an average round, {}; likely \
             cause: the variance of cohorts or batches, or a start too far out: try smaller steps or \
             a larger cohort",
            short(first),
            short(limit)
        ),
    }
}
