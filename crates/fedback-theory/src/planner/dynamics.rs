//! One round of P-FedAvg as the planner sees it: what it does to the mean error and to its spread.
//!
//! The moments of [`crate::exact`], arranged for a search. The E local steps of client i multiply
//! the error at the broadcast by A_i, add b_i and collect noise of covariance Q_i; all three depend
//! on the step sizes alone. The mean follows its own path whatever the cohorts are, and the
//! covariance of an aggregate is
//!
//! V ← Ā V Āᵀ + Σ g² Q + ρ · (Σ w B V Bᵀ + Σ w y yᵀ + N),
//!
//! where ρ (1/K, or (N−K)/(K(N−1)), or 0) is all that the size of the cohort enters by. One path
//! therefore serves every cohort and scheme, for a few multiplications a round each.

use fedback_core::protocol::Scheme;

use super::leap::Rounds;

/// How a cohort is drawn, without its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Nothing is left to chance.
    Full,
    /// By weight.
    With,
    /// Different clients.
    Without,
}

/// A scheme, as the spread sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampling {
    pub(super) family: Family,
    /// ρ.
    pub(super) share: f64,
}

impl Sampling {
    pub(super) fn of(scheme: Scheme, clients: usize) -> Self {
        let n = clients as f64;
        match scheme {
            Scheme::Full => Sampling { family: Family::Full, share: 0.0 },
            Scheme::WithReplacement { cohort } => {
                Sampling { family: Family::With, share: 1.0 / cohort as f64 }
            }
            Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. } => {
                let k = cohort as f64;
                let share = if clients > 1 { (n - k) / (k * (n - 1.0)) } else { 0.0 };
                Sampling { family: Family::Without, share }
            }
        }
    }
}

/// The rounds of one problem with E local steps.
pub(super) trait Dynamics {
    /// Numbers that [`Dynamics::prepare`] touches for each local step, roughly.
    fn step_work(&self) -> f64;
    /// Numbers that a round touches besides, with so many schemes.
    fn round_work(&self, schemes: usize) -> f64;
    /// Forgets the path before.
    fn begin(&mut self) {}
    /// Works out A_i, b_i and Q_i for a round with these local step sizes, and what draws of cohorts
    /// add to them if any scheme draws.
    fn prepare(&mut self, sizes: &[f64], drawing: bool);
    /// Works from a broadcast with this mean error; the clients' means decide what sampling adds.
    fn work(&mut self, mean: &[f64], sizes: &[f64]);
    /// Writes the mean error of the aggregate.
    fn aggregate(&self, mean: &mut [f64]);
    /// The spread of a θ that is known.
    fn no_spread(&self) -> Vec<f64>;
    /// Moves the spread over the round, and returns the total variance.
    fn spread(&self, sampling: Sampling, spread: &mut [f64]) -> f64;
    /// Adds the round's maps of mean and variance, coordinate after coordinate, where these do not mix;
    /// nothing otherwise.
    fn maps(&self, _sampling: Sampling, _maps: &mut Vec<Rounds>) {}
    /// The factor by which the round multiplies a spread in the long run: the mean-square radius.
    fn radius(&self, sampling: Sampling) -> f64;
}
