//! Where retraining settles, and the best that could be had.

use std::borrow::Cow;

use fedback_core::protocol::Step;
use fedback_theory::cohort::WeightsThatCount;
use fedback_theory::optimal::{OptimalPoint, optimal_point};
use fedback_theory::rest::{NoRest, Rest, rest};
use fedback_theory::stable::{self, Stability, StableReport, stable_points};
use serde_json::{Value, json};

use crate::check::words::not_linear;
use crate::dynamics::{Dynamics, Speed};
use crate::plan::Plan;
use crate::table_summary::{TableSummary, with_table};
use crate::words::{self, short};

/// The answer of `fedback solve`.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The spec's name.
    pub name: String,
    /// The names of θ's coordinates, where they have any.
    pub coordinates: Option<Vec<String>>,
    /// What the table was found to hold.
    pub table: Option<TableSummary>,
    /// The stable points.
    pub stable: StableReport,
    /// The optimal point.
    pub optimal: Option<OptimalPoint>,
    /// f(θ^PS; θ^PS).
    pub risk_stable: Option<f64>,
    /// Where first arrivals really settle; none for other schemes, the reason where it is not known
    /// who is among them.
    pub arrivals: Option<Result<Settling, String>>,
    /// Where rounds of the plan's algorithm rest at the step size of its last step, or why that is not
    /// known.
    pub rest: Result<Rest, String>,
}

/// Where first arrivals settle.
#[derive(Clone, Debug)]
pub struct Settling {
    /// What speed makes of the weights.
    pub speed: Speed,
    /// Where small steps settle; the reason where that is not known, or where they do not.
    pub settles_at: Result<Vec<f64>, String>,
    /// How far that is from the stable point.
    pub away: Option<f64>,
}

impl Settling {
    fn of(plan: &Plan, stable: Option<&[f64]>) -> Option<Result<Self, String>> {
        let speed = match Speed::of(plan) {
            Ok(speed) => speed?,
            Err(why) => return Some(Err(why)),
        };
        let settles_at = settles_at(plan, &speed, stable);
        let away = settles_at.as_ref().ok().zip(stable).map(|(there, stable)| {
            let square = |(a, b): (&f64, &f64)| (a - b) * (a - b);
            there.iter().zip(stable).map(square).sum::<f64>().sqrt()
        });
        Some(Ok(Settling { speed, settles_at, away }))
    }
}

/// Where small steps of first arrivals settle: at the stable point of the weights that count.
fn settles_at(plan: &Plan, speed: &Speed, stable: Option<&[f64]>) -> Result<Vec<f64>, String> {
    let own = plan.federation.weights();
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
                plan.federation.with_weights(weights).map_err(|misfit| misfit.to_string())?;
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
        let federation = &plan.federation;
        let stable = stable_points(federation, &plan.start);
        let mut starts: Vec<&[f64]> = stable.points.iter().map(|p| p.theta.as_slice()).collect();
        starts.push(&plan.start);
        let optimal = optimal_point(federation, &starts);
        let risk_stable = stable.points.first().map(|p| federation.risk(&p.theta, &p.theta));
        let arrivals =
            Settling::of(plan, starts.first().filter(|_| !stable.points.is_empty()).copied());
        let rest = resting(plan, &stable);
        let (coordinates, table) = (plan.coordinates.clone(), plan.table.clone());
        let name = plan.spec.name.clone();
        Solution { name, coordinates, table, stable, optimal, risk_stable, arrivals, rest }
    }

    /// The spectral radius of repeated minimisation, where it can be told.
    pub fn minimisation_radius(&self) -> Option<f64> {
        self.stable.spectra().0
    }

    /// The margin of small gradient steps, where it can be told.
    pub fn gradient_margin(&self) -> Option<f64> {
        self.stable.spectra().1
    }

    /// The object of the JSON contract.
    pub fn to_json(&self) -> Value {
        let first = self.stable.points.first();
        let mut object = json!({
            "format": 1,
            "name": self.name,
            "coordinates": self.coordinates,
            "stable_point": first.map(|point| &point.theta),
            "stability": words::stability(self.stable.stability()),
            "reason": words::stable(&self.stable),
            "optimal_point": self.optimal.as_ref().map(|point| &point.theta),
            "risk_stable": self.risk_stable,
            "risk_optimal": self.optimal.as_ref().map(|point| point.risk),
            "minimisation_radius": self.minimisation_radius(),
            "minimisation": {
                "settles": self.stable.minimisation.settles,
                "why": words::minimisation(&self.stable.minimisation),
            },
            "gradient_margin": self.gradient_margin(),
            "iterations": first.map(|point| point.iterations),
            "residual": first.map(|point| point.residual),
            "stable_points": self.stable.points.iter().map(|point| &point.theta).collect::<Vec<_>>(),
            "local_optima": self.optimal.as_ref().map(|point| point.minima),
        });
        object["rest"] = json!(self.rest.as_ref().ok().map(|rest| json!({
            "step_size": rest.step_size,
            "point": rest.point,
            "bias": rest.bias,
            "spread": rest.spread,
        })));
        object["rest_reason"] = json!(self.rest.as_ref().err());
        if let Some(arrivals) = &self.arrivals {
            let known = arrivals.as_ref().ok();
            object["inclusion"] = json!(known.map(|known| &known.speed.inclusion));
            object["effective_weights"] = json!(known.map(|known| &known.speed.effective_weights));
            let settles_at = arrivals.as_ref().map_err(|why| why.as_str());
            let settles_at =
                settles_at.and_then(|known| known.settles_at.as_ref().map_err(|why| why.as_str()));
            object["settles_at"] = json!(settles_at.ok());
            object["settles_reason"] = json!(settles_at.err());
        }
        with_table(object, self.table.as_ref())
    }
}
