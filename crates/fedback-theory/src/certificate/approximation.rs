//! How far the stable point is from the optimal one: the paper's Proposition 2.6 and what replaces it.
//!
//! The proposition says |θ^PS − θ^PO| ≤ 2 L_z ε̄ / μ for a loss that is L_z-Lipschitz in the observation.
//! Its proof needs no more than that the risk of θ^PO under the two deployments differs by at most
//! Σ p_i ε_i L_i |θ^PS − θ^PO|. For the loss `mean`, which is Lipschitz in z nowhere as a whole, that
//! difference is exactly (M_i(θ^PO − θ^PS)) · (θ^PO − m_i − M_i(θ^PS + θ^PO)/2), so that
//! L_i = |θ^PO − m_i − M_i(θ^PS + θ^PO)/2| does, with μ = 1.

use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::response::Shift;
use nalgebra::DVector;

use crate::stable::{distance, norm};

/// The distance between the stable and the optimal point, and what bounds it.
#[derive(Clone, Debug)]
pub struct Approximation {
    /// |θ^PS − θ^PO|.
    pub distance: Option<f64>,
    /// 2 L_z ε̄ / μ, or why the proposition does not apply.
    pub proposition: Result<f64, Inapplicable>,
    /// 2/μ Σ p_i ε_i L_i for the loss `mean`.
    pub local: Option<f64>,
}

/// Why Proposition 2.6 does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inapplicable {
    /// The loss `mean` is not Lipschitz in the observation.
    Mean,
    /// The loss `squared` is not Lipschitz in the features.
    Squared,
    /// Without l2, or with a free intercept, the logistic loss is not strongly convex everywhere.
    NotConvex,
    /// There is no optimal point to compare.
    NoOptimum,
}

pub(super) fn approximation(
    federation: &Federation,
    average_sensitivity: f64,
    stable: Option<&[f64]>,
    optimal: Option<&[f64]>,
) -> Approximation {
    let both = stable.zip(optimal);
    let proposition = match (federation.loss(), optimal) {
        (Loss::Mean, _) => Err(Inapplicable::Mean),
        (Loss::Squared { .. }, _) => Err(Inapplicable::Squared),
        (Loss::Logistic { .. }, None) => Err(Inapplicable::NoOptimum),
        (Loss::Logistic { l2 }, Some(optimal)) if l2 > 0.0 && !federation.has_intercept() => {
            // At θ^PO the logistic loss is |θ^PO|-Lipschitz in x.
            Ok(2.0 * norm(optimal) * average_sensitivity / l2)
        }
        (Loss::Logistic { .. }, Some(_)) => Err(Inapplicable::NotConvex),
    };
    Approximation {
        distance: both.map(|(stable, optimal)| distance(stable, optimal)),
        proposition,
        local: both
            .filter(|_| federation.is_affine())
            .map(|(stable, optimal)| local(federation, stable, optimal)),
    }
}

/// 2 Σ p_i ε_i L_i.
fn local(federation: &Federation, stable: &[f64], optimal: &[f64]) -> f64 {
    let (stable, optimal) =
        (DVector::from_column_slice(stable), DVector::from_column_slice(optimal));
    let middle = (&stable + &optimal) * 0.5;
    let terms = federation.counting().map(|client| {
        let population = federation.population(client);
        let mean = DVector::from_column_slice(&population.base_mean());
        let mut moved = DVector::zeros(middle.len());
        let shift = federation.shift().unwrap_or(&Shift::None);
        shift.apply(client, middle.as_slice(), moved.as_mut_slice());
        federation.weights()[client] * population.sensitivity() * (&optimal - mean - moved).norm()
    });
    2.0 * terms.sum::<f64>()
}
