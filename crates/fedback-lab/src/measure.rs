//! What is recorded of a repetition, and in which order.
//!
//! A record is one flat row of numbers: measurement after measurement, repetition after repetition
//! within each. A repetition that failed, or a number that does not exist, is NaN.

mod cause;
mod group;

use fedback_core::federation::Federation;
use fedback_core::groups::{GroupScore, by_group};
use fedback_core::protocol::Round;
use fedback_core::risk::PerformativeRisk;
use fedback_core::score;
use fedback_core::state::{Repetition, State};
use fedback_engine::work::WorkError;
use rayon::prelude::*;

use cause::{UNKNOWN_CAUSE, likely_cause};
pub use group::{MOST_GROUPS, Part, Rate};

use crate::plan::{Outline, Plan};
use crate::spec::{Loss, Response, Spec};
use crate::table_summary::TableSummary;

/// One column of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// |θ − θ^PS|².
    Distance,
    /// f(θ; θ).
    Risk,
    /// How many of all people stay.
    Retained,
    /// What the risk would be if nobody had left.
    BaseRisk,
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
    /// f(θ; θ) over the rows that are held out.
    HoldoutRisk,
    /// The share of them on the right side.
    HoldoutAccuracy,
    /// The area under their ROC curve.
    HoldoutAuc,
    /// f_i(θ; θ) over those of one client.
    HoldoutClientRisk(usize),
    /// Of one group of rows.
    Group {
        /// Which rows.
        part: Part,
        /// What.
        rate: Rate,
        /// Of which group.
        group: usize,
    },
    /// The largest less the smallest of all groups.
    Gap {
        /// Which rows.
        part: Part,
        /// What.
        rate: Rate,
    },
}

impl Measurement {
    /// The columns that a plan records.
    pub fn of(plan: &Outline) -> Vec<Measurement> {
        let known = plan.stable_point.is_some();
        Measurement::asked(&plan.spec, known, plan.clients(), plan.table.as_ref())
    }

    /// The columns that a spec asks for, where the stable point is `known`, of so many clients.
    pub(crate) fn asked(
        spec: &Spec,
        known: bool,
        clients: usize,
        table: Option<&TableSummary>,
    ) -> Vec<Measurement> {
        let measure = &spec.measure;
        let held = table.is_some_and(|table| table.held_out > 0);
        let leave = matches!(spec.problem.response, Response::Retention(_));
        let fixed = [
            (measure.distance && known, Measurement::Distance),
            (measure.risk, Measurement::Risk),
            (held && measure.risk, Measurement::HoldoutRisk),
            (measure.retained.unwrap_or(leave), Measurement::Retained),
            (measure.base_risk.unwrap_or(leave), Measurement::BaseRisk),
            (measure.consensus, Measurement::Consensus),
            (measure.accuracy, Measurement::Accuracy),
            (held && measure.accuracy, Measurement::HoldoutAccuracy),
            (measure.auc, Measurement::Auc),
            (held && measure.auc, Measurement::HoldoutAuc),
        ];
        let fixed = fixed.into_iter().filter_map(|(on, measurement)| on.then_some(measurement));
        let mut all: Vec<Measurement> = fixed.collect();
        if measure.client_risk {
            all.extend((0..clients).map(Measurement::ClientRisk));
        }
        if held && measure.client_risk {
            all.extend((0..clients).map(Measurement::HoldoutClientRisk));
        }
        let groups = table.map_or(0, |table| table.groups.len());
        if measure.group.is_some() && groups > 0 {
            let logistic = matches!(spec.problem.loss, Loss::Logistic(_));
            for part in [Some(Part::Training), held.then_some(Part::Holdout)].into_iter().flatten()
            {
                for &rate in Rate::all(logistic) {
                    let group = |group| Measurement::Group { part, rate, group };
                    all.extend((0..groups).map(group));
                    all.push(Measurement::Gap { part, rate });
                }
            }
        }
        all.extend(spec.until.map(|_| Measurement::Movement));
        all
    }

    /// Whether exact expectations have it.
    pub(crate) fn is_expected(self) -> bool {
        matches!(self, Measurement::Distance | Measurement::Risk | Measurement::Consensus)
    }

    /// Whether more of it is better.
    pub fn is_gain(self) -> bool {
        match self {
            Measurement::Accuracy
            | Measurement::Auc
            | Measurement::Retained
            | Measurement::HoldoutAccuracy
            | Measurement::HoldoutAuc => true,
            Measurement::Group { rate, .. } => matches!(rate, Rate::Accuracy | Rate::TruePositive),
            Measurement::Distance
            | Measurement::Risk
            | Measurement::BaseRisk
            | Measurement::Consensus
            | Measurement::ClientRisk(_)
            | Measurement::HoldoutRisk
            | Measurement::HoldoutClientRisk(_)
            | Measurement::Gap { .. }
            | Measurement::Movement => false,
        }
    }

    /// Whether it is one of many with the same name, told apart by client or group.
    pub fn is_one_of_many(self) -> bool {
        match self {
            Measurement::ClientRisk(_)
            | Measurement::HoldoutClientRisk(_)
            | Measurement::Group { .. } => true,
            Measurement::Distance
            | Measurement::Risk
            | Measurement::Retained
            | Measurement::BaseRisk
            | Measurement::Consensus
            | Measurement::Accuracy
            | Measurement::Auc
            | Measurement::HoldoutRisk
            | Measurement::HoldoutAccuracy
            | Measurement::HoldoutAuc
            | Measurement::Gap { .. }
            | Measurement::Movement => false,
        }
    }

    /// The name with the client or the group that it is about.
    pub fn full_name(self, clients: Option<&[String]>, groups: &[String]) -> String {
        let whose = match self {
            Measurement::ClientRisk(client) | Measurement::HoldoutClientRisk(client) => {
                clients.map_or(client.to_string(), |names| names[client].clone())
            }
            Measurement::Group { group, .. } => {
                groups.get(group).map_or(group.to_string(), String::clone)
            }
            _ => return self.name().into(),
        };
        format!("{} {whose}", self.name())
    }

    /// The name of an array with it alone: `client_risk[3]`, `accuracy_by_group[young]`.
    pub fn key(self, groups: &[String]) -> String {
        let of = |whose: &dyn std::fmt::Display| format!("{}[{whose}]", self.name());
        match self {
            Measurement::ClientRisk(client) | Measurement::HoldoutClientRisk(client) => of(&client),
            Measurement::Group { group, .. } => match groups.get(group) {
                Some(name) => of(name),
                None => of(&group),
            },
            _ => self.name().into(),
        }
    }

    /// The name in JSON and CSV; those of clients and groups share one.
    pub fn name(self) -> &'static str {
        match self {
            Measurement::Distance => "distance_sq",
            Measurement::Risk => "risk",
            Measurement::Retained => "retained",
            Measurement::BaseRisk => "base_risk",
            Measurement::Consensus => "consensus",
            Measurement::Accuracy => "accuracy",
            Measurement::Auc => "auc",
            Measurement::ClientRisk(_) => "client_risk",
            Measurement::Movement => "movement",
            Measurement::HoldoutRisk => "risk_holdout",
            Measurement::HoldoutAccuracy => "accuracy_holdout",
            Measurement::HoldoutAuc => "auc_holdout",
            Measurement::HoldoutClientRisk(_) => "client_risk_holdout",
            Measurement::Group { part, rate, .. } => rate.name(part),
            Measurement::Gap { part, rate } => rate.gap_name(part),
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
    /// How many of all people stay.
    fn retained(&self, _model: Model<'_>) -> f64 {
        f64::NAN
    }
    /// What the risk would be if nobody had left.
    fn base_risk(&self, _model: Model<'_>) -> f64 {
        f64::NAN
    }
    /// f(θ; θ), or anything else but groups, over the rows that are held out.
    fn held_out(&self, _model: Model<'_>, _measurement: Measurement) -> f64 {
        f64::NAN
    }
    /// What θ does to every group of rows.
    fn groups(&self, _model: Model<'_>, _part: Part) -> Vec<GroupScore> {
        Vec::new()
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

/// The judge of a problem that is built in: exact.
pub struct Exactly<'a> {
    plan: &'a Plan,
    risk: Option<PerformativeRisk<'a>>,
}

impl<'a> Exactly<'a> {
    /// Prepares what the plan asks for.
    pub fn new(plan: &'a Plan) -> Self {
        let risk = plan.spec.measure.risk.then(|| PerformativeRisk::new(plan.federation()));
        Exactly { plan, risk }
    }
}

impl Judge for Exactly<'_> {
    fn risk(&self, model: Model<'_>) -> Result<f64, WorkError> {
        Ok(self.risk.as_ref().map_or(f64::NAN, |risk| risk.at(model.theta)))
    }

    fn client_risk(&self, model: Model<'_>, client: usize) -> Result<f64, WorkError> {
        Ok(self.plan.federation().population(client).risk(model.theta, model.theta))
    }

    fn accuracy(&self, model: Model<'_>) -> f64 {
        score::accuracy(self.plan.federation(), model.theta).unwrap_or(f64::NAN)
    }

    fn auc(&self, model: Model<'_>) -> f64 {
        score::auc(self.plan.federation(), model.theta).unwrap_or(f64::NAN)
    }

    fn retained(&self, model: Model<'_>) -> f64 {
        self.plan.federation().turnout(model.theta, false).retained
    }

    fn base_risk(&self, model: Model<'_>) -> f64 {
        self.plan.federation().base_risk(model.theta)
    }

    fn held_out(&self, model: Model<'_>, measurement: Measurement) -> f64 {
        let Some(held) = self.plan.holdout() else { return f64::NAN };
        let theta = model.theta;
        match measurement {
            Measurement::HoldoutRisk => held.risk(theta, theta),
            Measurement::HoldoutAccuracy => score::accuracy(held, theta).unwrap_or(f64::NAN),
            Measurement::HoldoutAuc => score::auc(held, theta).unwrap_or(f64::NAN),
            Measurement::HoldoutClientRisk(client) => held.population(client).risk(theta, theta),
            _ => f64::NAN,
        }
    }

    fn groups(&self, model: Model<'_>, part: Part) -> Vec<GroupScore> {
        let federation: Option<&Federation> = match part {
            Part::Training => Some(self.plan.federation()),
            Part::Holdout => self.plan.holdout(),
        };
        federation.and_then(|rows| by_group(rows, model.theta)).unwrap_or_default()
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
            let theta = repetition.theta();
            let model = Model { repetition: repetition.number, round, theta };
            if repetition.failed.is_some() {
                return Ok(vec![f64::NAN; self.columns.len()]);
            }
            // One pass over the rows serves all groups and rates.
            let [training, held] =
                [Part::Training, Part::Holdout].map(|part| self.groups(model, part));
            let groups = |part: Part| match part {
                Part::Training => &training,
                Part::Holdout => &held,
            };
            let value = |column: &Measurement| match *column {
                Measurement::Group { part, rate, group } => {
                    Ok(groups(part).get(group).map_or(f64::NAN, |score| rate.of(score)))
                }
                Measurement::Gap { part, rate } => Ok(rate.gap(groups(part))),
                _ => self.value(*column, repetition, before, model),
            };
            self.columns.iter().map(value).collect::<Result<Vec<_>, _>>()
        };
        let rows: Vec<_> = state.repetitions.par_iter().zip(before).map(row).collect();
        let rows: Vec<Vec<f64>> = rows.into_iter().collect::<Result<_, _>>()?;
        Ok((0..self.columns.len()).flat_map(|c| rows.iter().map(move |row| row[c])).collect())
    }

    /// The scores of all groups; none where they are not asked for.
    fn groups(&self, model: Model<'_>, part: Part) -> Vec<GroupScore> {
        let of_part = |column: &Measurement| match column {
            Measurement::Group { part: own, .. } => *own == part,
            _ => false,
        };
        match self.columns.iter().any(of_part) {
            true => self.judge.groups(model, part),
            false => Vec::new(),
        }
    }

    fn value(
        &self,
        column: Measurement,
        repetition: &Repetition,
        before: &[f64],
        model: Model<'_>,
    ) -> Result<f64, WorkError> {
        match column {
            Measurement::Distance => {
                Ok(self.plan.stable_point.as_ref().map_or(f64::NAN, |stable| {
                    model.theta.iter().zip(stable).map(|(t, s)| (t - s) * (t - s)).sum()
                }))
            }
            Measurement::Risk => self.judge.risk(model),
            Measurement::Retained => Ok(self.judge.retained(model)),
            Measurement::BaseRisk => Ok(self.judge.base_risk(model)),
            Measurement::Consensus => Ok(repetition.consensus.unwrap_or(f64::NAN)),
            Measurement::Accuracy => Ok(self.judge.accuracy(model)),
            Measurement::Auc => Ok(self.judge.auc(model)),
            Measurement::ClientRisk(client) => self.judge.client_risk(model, client),
            Measurement::Movement => {
                let squares =
                    model.theta.iter().zip(before).map(|(now, then)| (now - then) * (now - then));
                Ok(squares.sum::<f64>().sqrt())
            }
            other => Ok(self.judge.held_out(model, other)),
        }
    }
}
