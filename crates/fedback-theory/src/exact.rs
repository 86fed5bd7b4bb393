//! Exact moments of P-FedAvg on affine problems: no sampling, no bound.
//!
//! Where every client's gradient is affine with noise that does not depend on θ, the iterates have
//! a mean and a covariance that follow a closed recursion. After a broadcast all clients share one
//! random θ and their noises are independent, hence at every step, with x_i the error of client i,
//!
//! E x_i = u_i,  Cov(x_i, x_j) = A_i V A_jᵀ + δ_ij Q_i:
//!
//! the mean, the response to the shared value, and the noise collected since. A step costs O(N). An
//! aggregation folds them: with weights g_i = E(coefficient_i), the new mean is Σ g_i u_i and the
//! new V = (Σ g A) V (Σ g A)ᵀ + Σ g² Q + the variance of the choice of the cohort, for which
//! `sampling_variance` has the formula of each scheme. First arrivals, whose g need not sum to one, keep
//! (1 − Σ g) of the last broadcast as well, and their choice adds Σ Cov(c_k, c_l) E δ_k δ_lᵀ. Coordinates that do not mix are recursions
//! of their own; matrix responses carry full matrices.

mod matrices;
mod scalars;

use std::borrow::Cow;

use crate::p_fedavg::PFedAvg;
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Aggregate, Round, Scheme, Step};
use fedback_core::risk::Quadratic;
use matrices::Matrices;
use scalars::Scalars;

use crate::choice::Choice;

/// Exact expectations after a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Rounds closed.
    pub round: Round,
    /// E|θ − θ^PS|², where there is a stable point.
    pub distance_sq: Option<f64>,
    /// E f(θ; θ).
    pub risk: f64,
    /// E Σ p_i |w_i − w̄|² just before the aggregation that closed the round; 0 at round 0.
    pub consensus: f64,
}

impl Moments {
    /// Whether every number is finite.
    pub fn is_finite(&self) -> bool {
        self.distance_sq.unwrap_or(0.0).is_finite()
            && self.risk.is_finite()
            && self.consensus.is_finite()
    }
}

/// Why there are no exact moments, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAffine(pub String);

/// The recursion, advanced round by round.
pub struct ExactCurve<'a> {
    protocol: &'a PFedAvg,
    quadratic: Quadratic,
    aggregation: Aggregation<'a>,
    /// What errors are measured from: the stable point where there is one.
    centre: Vec<f64>,
    has_stable_point: bool,
    round: Round,
    consensus: f64,
    state: State,
}

enum State {
    Scalars(Scalars),
    Matrices(Matrices),
}

/// The weights and the scheme, as the aggregation sees them.
struct Aggregation<'a> {
    scheme: Scheme,
    aggregate: Aggregate,
    scaled: bool,
    weights: &'a [f64],
    /// E[coefficient_i].
    expected: Cow<'a, [f64]>,
    /// The moments of coefficients that depend on who is fast.
    choice: Option<&'a Choice>,
}

impl<'a> ExactCurve<'a> {
    /// The curve of a problem started at `start`; `stable_point` where there is one.
    pub fn new(
        federation: &'a Federation,
        protocol: &'a PFedAvg,
        start: &[f64],
        stable_point: Option<&[f64]>,
    ) -> Result<Self, NotAffine> {
        ExactCurve::of_choice(federation, protocol, None, start, stable_point)
    }

    /// The same where the moments of a cohort's coefficients are given, as first arrivals need.
    pub fn of_choice(
        federation: &'a Federation,
        protocol: &'a PFedAvg,
        choice: Option<&'a Choice>,
        start: &[f64],
        stable_point: Option<&[f64]>,
    ) -> Result<Self, NotAffine> {
        if !federation.is_affine() {
            let name = match federation.loss() {
                Loss::Mean => "mean",
                Loss::Squared { .. } => "squared",
                Loss::Logistic { .. } => "logistic",
            };
            return Err(NotAffine(format!(
                "found \"{name}\", but exact moments need the loss \"mean\": affine gradients with \
                 noise that does not depend on the model"
            )));
        }
        if choice.is_none() && matches!(protocol.scheme, Scheme::FirstArrivals { .. }) {
            return Err(NotAffine(
                "exact moments of first arrivals need the latencies of all clients".into(),
            ));
        }
        let clients = federation.clients();
        let centre = stable_point.map_or_else(|| vec![0.0; federation.dim()], <[f64]>::to_vec);
        let scale: Vec<f64> = match protocol.scale_objectives {
            true => federation.weights().iter().map(|p| clients as f64 * p).collect(),
            false => vec![1.0; clients],
        };
        let state = match federation.response().is_diagonal() {
            true => State::Scalars(Scalars::new(federation, protocol, scale, start, &centre)),
            false => State::Matrices(Matrices::new(federation, protocol, scale, start, &centre)),
        };
        let expected = match choice {
            Some(choice) => Cow::Borrowed(&*choice.expected),
            None if protocol.scale_objectives => Cow::Owned(vec![1.0 / clients as f64; clients]),
            None => Cow::Borrowed(&**federation.weights()),
        };
        let aggregation = Aggregation {
            scheme: protocol.scheme,
            aggregate: protocol.aggregate,
            scaled: protocol.scale_objectives,
            weights: federation.weights(),
            expected,
            choice,
        };
        Ok(ExactCurve {
            protocol,
            quadratic: Quadratic::new(federation),
            aggregation,
            centre,
            has_stable_point: stable_point.is_some(),
            round: Round(0),
            consensus: 0.0,
            state,
        })
    }

    /// Closes one more round.
    pub fn advance(&mut self) {
        self.advance_with(|_| ());
    }

    /// Closes one more round and returns the largest E|∇ℓ|² that a client met in it.
    pub fn advance_watching_gradients(&mut self) -> f64 {
        let mut largest: f64 = 0.0;
        self.advance_with(|state| {
            largest = largest.max(match state {
                State::Scalars(scalars) => scalars.largest_gradient(),
                State::Matrices(matrices) => matrices.largest_gradient(),
            });
        });
        largest
    }

    fn advance_with(&mut self, mut before_step: impl FnMut(&State)) {
        let first = self.protocol.first_step(self.round).0;
        for step in first..first + self.protocol.local_steps as u64 {
            let size = self.protocol.step_size.at(Step(step));
            before_step(&self.state);
            match &mut self.state {
                State::Scalars(scalars) => scalars.step(size, self.protocol.deploy),
                State::Matrices(matrices) => matrices.step(size, self.protocol.deploy),
            }
        }
        self.consensus = match &mut self.state {
            State::Scalars(scalars) => scalars.aggregate(&self.aggregation, &self.centre),
            State::Matrices(matrices) => matrices.aggregate(&self.aggregation, &self.centre),
        };
        self.round.0 += 1;
    }

    /// The moments after the last closed round.
    pub fn moments(&self) -> Moments {
        let mean = match &self.state {
            State::Scalars(scalars) => scalars.shared_mean.as_slice(),
            State::Matrices(matrices) => matrices.shared_mean.as_slice(),
        };
        let covariance = |j: usize, k: usize| match &self.state {
            State::Scalars(scalars) => scalars.shared[j],
            State::Matrices(matrices) => matrices.shared[(j, k)],
        };
        let variance: f64 = (0..mean.len()).map(|j| covariance(j, j)).sum();
        let distance = mean.iter().map(|u| u * u).sum::<f64>() + variance;
        let theta: Vec<f64> = mean.iter().zip(&self.centre).map(|(u, c)| u + c).collect();
        let spread = self.quadratic.cost_of_variance(covariance);
        Moments {
            round: self.round,
            distance_sq: self.has_stable_point.then_some(distance),
            risk: self.quadratic.at(&theta) + spread,
            consensus: self.consensus,
        }
    }
}

impl Aggregation<'_> {
    /// (N−K)/(K(N−1)), the variance of a mean of K of N values without replacement in units of
    /// theirs.
    fn finite_population(&self, cohort: usize) -> f64 {
        let (n, k) = (self.weights.len() as f64, cohort as f64);
        if n > 1.0 { (n - k) / (k * (n - 1.0)) } else { 0.0 }
    }

    /// What the θ last broadcast keeps of itself: nothing where coefficients sum to one on average.
    fn kept(&self) -> f64 {
        self.choice.map_or(0.0, |choice| 1.0 - choice.speed())
    }

    /// Whether the coefficients of every cohort sum to one, so that it does not matter what the
    /// aggregated values are measured from.
    fn sums_to_one(&self) -> bool {
        self.scaled || !matches!(self.scheme, Scheme::WithoutReplacement { .. })
    }
}
