//! Where retraining settles, and the best that could be had.

use std::borrow::Cow;

use fedback_core::federation::Federation;
use fedback_core::protocol::Step;
use fedback_core::response::By;
use fedback_theory::cohort::WeightsThatCount;
use fedback_theory::minimisation;
use fedback_theory::optimal::{Optimum, optimum};
use fedback_theory::rest::{NoRest, Rest, rest};
use fedback_theory::stable::{self, Stability, StablePoint, StableReport, stable_points};
use serde::Serialize;

use crate::check::words::not_linear;
use crate::dynamics::{Dynamics, Speed};
use crate::plan::Plan;
use crate::sampled::{Samples, StandardErrors};
use crate::table_summary::TableSummary;
use crate::words::{self, short};

/// The answer of `fedback solve`.
#[derive(Clone, Debug, Serialize)]
pub struct Solution {
    /// The version of this contract.
    pub format: u32,
    /// The spec's name.
    pub name: String,
    /// The names of θ's coordinates, where they have any.
    pub coordinates: Option<Vec<String>>,
    /// θ^PS; of several, the one that small steps from the start reach.
    pub stable_point: Option<Vec<f64>>,
    /// What small steps do near it.
    pub stability: Stability,
    /// Why there is none, why it repels, how many there are; none where all is well.
    pub reason: Option<String>,
    /// θ^PO.
    pub optimal_point: Option<Vec<f64>>,
    /// Why there is none, where that is known.
    pub optimal_reason: Option<String>,
    /// f(θ^PS; θ^PS).
    pub risk_stable: Option<f64>,
    /// f(θ^PO; θ^PO).
    pub risk_optimal: Option<f64>,
    /// The spectral radius of repeated minimisation, where it can be told.
    pub minimisation_radius: Option<f64>,
    /// What repeated minimisation does from the start.
    pub minimisation: Minimisation,
    /// The margin of small gradient steps, where it can be told.
    pub gradient_margin: Option<f64>,
    /// Newton iterations that the stable point took; 1 for a closed form.
    pub iterations: Option<usize>,
    /// |F(θ^PS)|.
    pub residual: Option<f64>,
    /// All stable points found.
    pub stable_points: Vec<Vec<f64>>,
    /// What is known of each of them.
    pub stable_point_details: Vec<Details>,
    /// Which of them the noise-free path of small steps from the start reaches, by its place; none where
    /// that is not known.
    pub reached_from_start: Option<usize>,
    /// Where that path ends at a place at which the averaged gradient changes sign without a root.
    pub jump: Option<Jump>,
    /// How many local minima of the risk the starts led to.
    pub local_optima: Option<usize>,
    /// Where rounds of the plan's algorithm rest at the step size of its last step.
    pub rest: Option<Rest>,
    /// Why that is not known.
    pub rest_reason: Option<String>,
    /// Where first arrivals really settle; none for other schemes.
    #[serde(flatten)]
    pub arrivals: Option<Settling>,
    /// What the table was found to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableSummary>,
    /// What the answer rests on, where a part of the problem is a function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Samples>,
    /// How far its numbers may be off, then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<StandardErrors>,
}

/// A place at which the averaged gradient changes sign without a root.
#[derive(Clone, Debug, Serialize)]
pub struct Jump {
    /// Where.
    pub theta: Vec<f64>,
    /// The averaged gradient on one side.
    pub gradient_before: Vec<f64>,
    /// The averaged gradient on the other side.
    pub gradient_behind: Vec<f64>,
}

impl Jump {
    fn of(found: &stable::Jump) -> Self {
        let stable::Jump { theta, before, behind } = found.clone();
        Jump { theta, gradient_before: before, gradient_behind: behind }
    }
}

/// One stable point.
#[derive(Clone, Debug, Serialize)]
pub struct Details {
    /// θ^PS.
    pub theta: Vec<f64>,
    /// What small steps do near it.
    pub stability: Stability,
    /// The margin of small gradient steps.
    pub gradient_margin: Option<f64>,
    /// The spectral radius of repeated minimisation.
    pub minimisation_radius: Option<f64>,
    /// f(θ^PS; θ^PS), of those who are there.
    pub risk: f64,
    /// Who is left, where people leave.
    #[serde(flatten)]
    pub left: Option<Left>,
}

/// Who is left at a stable point.
#[derive(Clone, Debug, Serialize)]
pub struct Left {
    /// What cells count for: clients where whole clients leave, client after client where others do;
    /// nothing where rows leave alone.
    pub shares: Option<Vec<Vec<f64>>>,
    /// How many of all people stay.
    pub retained: f64,
    /// The risk that it would be if nobody had left.
    pub base_risk: f64,
    /// Cells of which hardly anybody is left, by name.
    pub driven_away: Vec<String>,
}

/// A share below this is nobody.
const NOBODY: f64 = 1e-6;

impl Details {
    fn of(federation: &Federation, point: &StablePoint) -> Self {
        let theta = &point.theta;
        let left = federation.response().leaves().then(|| Left {
            shares: shares(federation, theta),
            retained: federation.turnout(theta, false).retained,
            base_risk: federation.base_risk(theta),
            driven_away: driven_away(federation, shares(federation, theta).unwrap_or_default()),
        });
        Details {
            theta: theta.clone(),
            stability: point.stability(),
            gradient_margin: point.gradient_margin,
            minimisation_radius: point.minimisation_radius,
            risk: federation.risk(theta, theta),
            left,
        }
    }
}

/// The names of cells that are empty now, and were not.
fn driven_away(federation: &Federation, shares: Vec<Vec<f64>>) -> Vec<String> {
    let names = federation.client_names();
    let client = |client: usize| match names {
        Some(names) => names[client].clone(),
        None => format!("client {client}"),
    };
    let Some(cells) = federation.cells() else {
        let weights = federation.weights();
        let gone = |client: &usize| weights[*client] > 0.0 && shares[0][*client] < NOBODY;
        let shares = shares.first().map_or(0, Vec::len);
        return (0..shares).filter(gone).map(client).collect();
    };
    let mut gone = Vec::new();
    for (place, own) in shares.iter().enumerate() {
        for (cell, share) in own.iter().enumerate() {
            if *share < NOBODY && !cells.rows(place, cell).is_empty() {
                gone.push(format!("{} of {}", federation.cell_name(cell), client(place)));
            }
        }
    }
    gone
}

/// What cells count for where θ is deployed.
fn shares(federation: &Federation, theta: &[f64]) -> Option<Vec<Vec<f64>>> {
    if federation.retention()?.by == By::Client {
        return Some(vec![federation.turnout(theta, false).shares]);
    }
    federation.cells()?;
    (0..federation.clients()).map(|client| federation.shares(client, theta)).collect()
}

/// What repeated minimisation does from the start.
#[derive(Clone, Debug, Serialize)]
pub struct Minimisation {
    /// Yes, no, or not known.
    pub settles: Option<bool>,
    /// In words.
    pub why: String,
}

impl Minimisation {
    pub(crate) fn of(found: &minimisation::Minimisation) -> Self {
        Minimisation { settles: found.settles, why: words::minimisation(found) }
    }
}

/// Where first arrivals settle.
#[derive(Clone, Debug, Serialize)]
pub struct Settling {
    /// π_i: the probability of being among the first, where that is known.
    pub inclusion: Option<Vec<f64>>,
    /// The weights that rounds effectively use.
    pub effective_weights: Option<Vec<f64>>,
    /// Where small steps settle.
    pub settles_at: Option<Vec<f64>>,
    /// Why that is not known, or why they do not.
    pub settles_reason: Option<String>,
    /// How far it is from the stable point.
    #[serde(skip)]
    pub away: Option<f64>,
    /// Whether coefficients make up for speed.
    #[serde(skip)]
    pub correct: bool,
}

impl Settling {
    fn of(plan: &Plan, stable: Option<&[f64]>) -> Option<Self> {
        let speed = Speed::of(plan).transpose()?;
        let found = speed.as_ref().map_err(String::clone);
        let (settles_at, settles_reason) =
            apart(found.and_then(|speed| settles_at(plan, speed, stable)));
        let away = settles_at.as_ref().zip(stable).map(|(there, stable)| {
            let square = |(a, b): (&f64, &f64)| (a - b) * (a - b);
            there.iter().zip(stable).map(square).sum::<f64>().sqrt()
        });
        let correct = speed.as_ref().is_ok_and(|speed| speed.correct);
        let weights = speed.ok().map(|speed| (speed.inclusion, speed.effective_weights));
        let (inclusion, effective_weights) = weights.unzip();
        Some(Settling { inclusion, effective_weights, settles_at, settles_reason, away, correct })
    }
}

/// What is known, or why it is not.
fn apart<T>(found: Result<T, String>) -> (Option<T>, Option<String>) {
    match found {
        Ok(known) => (Some(known), None),
        Err(why) => (None, Some(why)),
    }
}

/// Where small steps of first arrivals settle: at the stable point of the weights that count.
fn settles_at(plan: &Plan, speed: &Speed, stable: Option<&[f64]>) -> Result<Vec<f64>, String> {
    let own = plan.federation().weights();
    let weights: Vec<f64> = match WeightsThatCount::of(&plan.protocol) {
        Err(unsupported) => return Err(unsupported.reason),
        Ok(WeightsThatCount::Effective) => speed.effective_weights.clone(),
        // Who never comes keeps nothing, and counts for nothing.
        Ok(WeightsThatCount::Own) => {
            let comes =
                own.iter().zip(&speed.inclusion).map(|(p, pi)| if *pi > 0.0 { *p } else { 0.0 });
            let comes: Vec<f64> = comes.collect();
            let total: f64 = comes.iter().sum();
            comes.iter().map(|p| p / total).collect()
        }
    };
    let found = match weights.iter().zip(own.iter()).all(|(one, other)| one == other) {
        true => stable.map(<[f64]>::to_vec),
        false => {
            let federation =
                plan.federation().with_weights(weights).map_err(|misfit| misfit.to_string())?;
            stable::stable_point(&federation, &plan.start)
        }
    };
    found.ok_or_else(|| "the weights that count have no stable point".into())
}

/// Where rounds rest at the step size of the plan's last step.
fn resting(plan: &Plan, stable: &StableReport) -> Result<Rest, String> {
    let dynamics = Dynamics::of(plan).map_err(|error| error.to_string())?;
    if let Some(why) = dynamics.unknown {
        return Err(why);
    }
    let federation = dynamics.federation.as_ref();
    let point = match &dynamics.federation {
        Cow::Borrowed(_) => stable.points.first().cloned(),
        Cow::Owned(federation) => stable_points(federation, &plan.start).points.into_iter().next(),
    };
    let point = point.ok_or("there is no stable point")?;
    if point.stability() != Stability::Attracting {
        return Err("small steps lead away from the stable point".into());
    }
    let protocol = &dynamics.protocol;
    let steps = plan.spec.rounds.0.saturating_mul(protocol.local_steps as u64);
    let size = protocol.step_size.at(Step(steps.saturating_sub(1)));
    rest(federation, protocol, dynamics.arrived.as_ref(), &point.theta, size).map_err(|no| match no
    {
        NoRest::NoMap(no) => not_linear(&no),
        NoRest::Grows { size, by: Some(by) } => {
            let (size, by) = (short(size), words::factor(by));
            format!("at step size {size} each round multiplies squared errors by {by}: they grow")
        }
        NoRest::Grows { size, by: None } => {
            format!("a round at step size {} is not finite", short(size))
        }
        NoRest::NotFound => "the rounds' fixed point was not found".into(),
    })
}

impl Solution {
    /// Solves a plan's problem.
    pub fn of(plan: &Plan) -> Self {
        let federation = plan.federation();
        let found = stable_points(federation, &plan.start);
        let first = found.points.first();
        let thetas: Vec<Vec<f64>> = found.points.iter().map(|point| point.theta.clone()).collect();
        let starts = thetas.iter().chain([&plan.start]).map(Vec::as_slice);
        let (optimal, optimal_reason) = match optimum(federation, &starts.collect::<Vec<_>>()) {
            Optimum::At(point) => (Some(point), None),
            Optimum::AtInfinity(far) => (None, Some(words::at_infinity(&far))),
            Optimum::Unknown => (None, None),
        };
        let (minimisation_radius, gradient_margin) = found.spectra();
        let (rest, rest_reason) = apart(resting(plan, &found));
        let details = found.points.iter().map(|point| Details::of(federation, point));
        Solution {
            format: 1,
            name: plan.spec.name.clone(),
            coordinates: plan.coordinates.clone(),
            stable_point: thetas.first().cloned(),
            stability: found.stability(),
            reason: words::stable(&found),
            risk_stable: first.map(|point| federation.risk(&point.theta, &point.theta)),
            risk_optimal: optimal.as_ref().map(|point| point.risk),
            minimisation_radius,
            minimisation: Minimisation::of(&found.minimisation),
            gradient_margin,
            iterations: first.map(|point| point.iterations),
            residual: first.map(|point| point.residual),
            local_optima: optimal.as_ref().map(|point| point.minima),
            optimal_point: optimal.map(|point| point.theta),
            optimal_reason,
            rest,
            rest_reason,
            arrivals: Settling::of(plan, thetas.first().map(Vec::as_slice)),
            stable_point_details: details.collect(),
            reached_from_start: found.reached,
            jump: found.jump.as_ref().map(Jump::of),
            stable_points: thetas,
            table: plan.table.clone(),
            sample: None,
            standard_error: None,
        }
    }
}
