//! Whether the paper's assumptions A1 to A3 hold: everywhere, on a ball, or not at all.
//!
//! A1: the loss is μ-strongly convex in θ. A2: its gradient is L-Lipschitz in θ and in the observation.
//! A3: deploying θ and φ moves a client's distribution by at most ε_i |θ − φ| in W₁, see [`Reach`].
//! The loss `mean` meets A1 and A2 everywhere with μ = L = 1. For linear models both depend on how far
//! out θ is: rows move with it, and ∂∇ℓ/∂x grows with |θ|. On the ball |θ − θ^PS| ≤ R they hold with
//!
//! L = max over rows of curvature · |x̃|² + l2 and of |slope| + curvature · |x̃| |θ|,
//! |x̃| ≤ |x| + ε_i (|θ^PS| + R), |θ| ≤ |θ^PS| + R,
//!
//! and, for the average over all rows, which is what the paper's proof uses,
//!
//! μ = l2 or c λ, λ the smallest eigenvalue of the averaged covariance of the clients' features, which no
//! shift changes, or c λ / (1 + λ + |mean|²) with a free intercept; c is the smallest curvature of the loss
//! on the ball. Where rows move, are held back or leave one by one that covariance changes, where labels
//! have no bounds the slope does, and nothing is said of the ball.

use fedback_core::base::{Base, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::{Logistic, Loss, MarginLoss};
use fedback_core::response::{Response, Shift};
use nalgebra::{DMatrix, DVector};
use serde::Serialize;

use crate::stable::{distance, norm};

/// What is known of A3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The response is linear, and ε_i the largest singular value of its matrix.
    Linear,
    /// The declared ε_i is a bound.
    AtMost,
    /// No ε_i is known.
    Unbounded,
}

/// A1 to A3. Where neither μ nor L is known there is no stable point to put a ball around, or rows do not
/// move alike.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Assumptions {
    /// R, where the assumptions hold on a ball around the stable point only.
    pub ball: Option<f64>,
    /// μ on that ball, or everywhere; zero where there is none.
    pub mu: Option<f64>,
    /// L on that ball, or everywhere.
    pub smoothness: Option<f64>,
    /// μ of the loss of every single observation, everywhere; none where there is none.
    #[serde(skip)]
    pub single: Option<f64>,
    /// What is known of A3.
    #[serde(skip)]
    pub reach: Reach,
    /// Whether rows keep their covariance and labels their bounds, so that a ball has μ and L.
    #[serde(skip)]
    pub rows_stay_together: bool,
}

impl Assumptions {
    /// Whether ε̄ < μ/L there.
    pub fn condition(&self, average_sensitivity: f64) -> Option<bool> {
        Some(average_sensitivity < self.mu? / self.smoothness?)
    }
}

/// The assumptions on the ball around the stable point that contains the start.
pub(super) fn assumptions(
    federation: &Federation,
    start: &[f64],
    stable: Option<&[f64]>,
) -> Assumptions {
    let reach = reach(federation);
    let rows_stay_together = rows_stay_together(federation);
    let everywhere = Assumptions {
        ball: None,
        mu: Some(1.0),
        smoothness: Some(1.0),
        single: Some(1.0),
        reach,
        rows_stay_together,
    };
    let Base::Table(table) = &federation.base() else { return everywhere };
    if federation.loss() == Loss::Mean {
        return everywhere;
    }
    let l2 = federation.loss().l2();
    let single = (l2 > 0.0 && !federation.has_intercept()).then_some(l2);
    let none = Assumptions { mu: None, smoothness: None, single, ..everywhere };
    let Some(stable) = stable.filter(|_| rows_stay_together) else { return none };
    let radius = distance(start, stable).max(1.0);
    let ball = Ball { federation, table, size: radius + norm(stable) };
    Assumptions {
        ball: Some(radius),
        mu: Some(ball.mu()),
        smoothness: Some(ball.smoothness()),
        ..none
    }
}

fn reach(federation: &Federation) -> Reach {
    let sensitivity = |client| federation.population(client).sensitivity();
    if federation.counting().any(|client| sensitivity(client).is_infinite()) {
        return Reach::Unbounded;
    }
    match federation.response() {
        Response::Shift(Shift::Saturating { .. })
        | Response::Bounded(_)
        | Response::Strategic(_)
        | Response::Outcome(_)
        | Response::Retention(_)
        | Response::Own(_) => Reach::AtMost,
        Response::Shift(
            Shift::None | Shift::Scaled { .. } | Shift::Diagonal { .. } | Shift::Matrix { .. },
        ) => Reach::Linear,
    }
}

fn rows_stay_together(federation: &Federation) -> bool {
    match federation.response() {
        Response::Shift(_) => true,
        Response::Outcome(_) => matches!(federation.loss(), Loss::Logistic { .. }),
        Response::Bounded(_)
        | Response::Strategic(_)
        | Response::Retention(_)
        | Response::Own(_) => false,
    }
}

struct Ball<'a> {
    federation: &'a Federation,
    table: &'a Table,
    /// |θ^PS| + R.
    size: f64,
}

impl Ball<'_> {
    /// How far a client's rows move at most.
    fn shift(&self, client: usize) -> f64 {
        self.federation.population(client).sensitivity() * self.size
    }

    /// The largest |x̃|, over all rows and clients.
    fn longest_row(&self) -> f64 {
        let longest = |client: usize| {
            let rows = self.table.rows_of(client);
            rows.map(|(x, _)| x.iter().map(|v| v * v).sum::<f64>()).fold(0.0, f64::max)
        };
        let moved = |client: usize| libm::sqrt(longest(client)) + self.shift(client);
        self.federation.counting().map(moved).fold(0.0, f64::max)
    }

    fn smoothness(&self) -> f64 {
        let row = self.longest_row();
        let (curvature, slope) = match self.federation.loss() {
            Loss::Logistic { .. } => (0.25, 1.0),
            Loss::Mean | Loss::Squared { .. } => {
                let labels = self.federation.counting().flat_map(|i| self.table.block(i).1);
                let label = labels.fold(0.0f64, |most, y| most.max(y.abs()));
                (1.0, row * self.size + label)
            }
        };
        let in_theta = curvature * row * row + self.federation.loss().l2();
        in_theta.max(slope + curvature * row * self.size)
    }

    fn mu(&self) -> f64 {
        let l2 = self.federation.loss().l2();
        let curvature = match self.federation.loss() {
            Loss::Logistic { .. } => Logistic.curvature(self.longest_row() * self.size, 0.0),
            Loss::Mean | Loss::Squared { .. } => 1.0,
        };
        let features = self.table.dim - usize::from(self.table.intercept);
        let (mut mean, mut within) =
            (DVector::zeros(features), DMatrix::<f64>::zeros(features, features));
        let mut moved = 0.0;
        for client in self.federation.counting() {
            let p = self.federation.weights()[client];
            let (own_mean, own) = self.federation.population(client).base_moments();
            mean += own_mean.rows(0, features) * p;
            within += own.view((0, 0), (features, features)) * p;
            moved += p * self.shift(client);
        }
        let spread =
            if features == 0 { 0.0 } else { within.symmetric_eigenvalues().min().max(0.0) };
        match self.table.intercept {
            false => curvature * spread + l2,
            true => {
                let far = mean.norm() + moved;
                let spread = curvature * spread + l2;
                curvature * spread / (curvature + spread + curvature * far * far)
            }
        }
    }
}
