//! Where retraining settles, and the best that could be had.

use fedback_theory::optimal::{OptimalPoint, optimal_point};
use fedback_theory::stable::{StableReport, stable_points};
use serde_json::{Value, json};

use crate::plan::Plan;

/// The answer of `fedback solve`.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The stable points.
    pub stable: StableReport,
    /// The optimal point.
    pub optimal: Option<OptimalPoint>,
    /// f(θ^PS; θ^PS).
    pub risk_stable: Option<f64>,
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
        Solution { stable, optimal, risk_stable }
    }

    /// The spectral radius of repeated minimisation, where it can be told.
    pub fn minimisation_radius(&self) -> Option<f64> {
        let first = self.stable.points.first();
        let everywhere = self.stable.everywhere.and_then(|(radius, _)| radius);
        first.map_or(everywhere, |point| point.minimisation_radius)
    }

    /// The margin of small gradient steps, where it can be told.
    pub fn gradient_margin(&self) -> Option<f64> {
        let first = self.stable.points.first();
        let everywhere = self.stable.everywhere.and_then(|(_, margin)| margin);
        first.map_or(everywhere, |point| point.gradient_margin)
    }

    /// The object of the JSON contract.
    pub fn to_json(&self) -> Value {
        let first = self.stable.points.first();
        json!({
            "stable_point": first.map(|point| &point.theta),
            "stability": self.stable.stability.as_str(),
            "reason": self.stable.reason,
            "optimal_point": self.optimal.as_ref().map(|point| &point.theta),
            "risk_stable": self.risk_stable,
            "risk_optimal": self.optimal.as_ref().map(|point| point.risk),
            "minimisation_radius": self.minimisation_radius(),
            "gradient_margin": self.gradient_margin(),
            "iterations": first.map(|point| point.iterations),
            "residual": first.map(|point| point.residual),
            "stable_points": self.stable.points.iter().map(|point| &point.theta).collect::<Vec<_>>(),
            "local_optima": self.optimal.as_ref().map(|point| point.minima),
        })
    }
}
