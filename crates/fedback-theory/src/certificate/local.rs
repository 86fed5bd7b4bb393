//! The local truth at one stable point: what small errors do there, and where rounds really end.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Step};
use nalgebra::DVector;
use serde::Serialize;

use super::outlook::Case;
use crate::limit::Floor;
use crate::optimal::OptimalPoint;
use crate::stable::{Stability, StablePoint};

/// One stable point.
#[derive(Clone, Debug, Serialize)]
pub struct LocalTruth {
    /// θ^PS.
    pub theta: Vec<f64>,
    /// What small steps do near it.
    pub stability: Stability,
    /// f(θ^PS; θ^PS).
    pub risk: f64,
    /// f(θ^PS; θ^PS) − f(θ^PO; θ^PO), where an optimal point is known.
    pub price_of_stability: Option<f64>,
    /// The spectral radius of H⁻¹J; none where H is singular.
    pub minimisation_radius: Option<f64>,
    /// The smallest real part of an eigenvalue of H + J.
    pub gradient_margin: Option<f64>,
    /// The largest constant step size up to which squared errors shrink.
    pub largest_step: Option<f64>,
    /// The same for mean errors.
    pub largest_step_in_mean: Option<f64>,
    /// Where rounds end beside the point, at the step size of the run's last step.
    pub bias: Option<Bias>,
}

/// Where rounds of one step size end, less the stable point.
#[derive(Clone, Debug, Serialize)]
pub struct Bias {
    /// The step size.
    pub step_size: f64,
    /// What E local steps do: exact where the problem is affine, to first order otherwise.
    pub local_steps: Vec<f64>,
    /// What a noisy model does on a curved gradient field, −½ A⁻¹ F″[Cov θ]; zero where the problem is
    /// affine.
    pub noise: Vec<f64>,
    /// √trace Cov θ.
    pub spread: f64,
}

impl LocalTruth {
    /// `known` are largest steps that were found already.
    pub(super) fn of(
        case: &Case<'_>,
        protocol: &Protocol,
        point: &StablePoint,
        optimal: Option<&OptimalPoint>,
        rounds: u64,
        known: Option<(Option<f64>, Option<f64>)>,
    ) -> Self {
        let stability = point.stability();
        let attracting = stability == Stability::Attracting;
        let mut map = attracting.then(|| case.scan(protocol, &point.theta).ok()).flatten();
        let (largest_step_in_mean, largest_step) = known.unwrap_or_else(|| match &mut map {
            Some(map) => (map.largest_step(), map.largest_step_in_mean_square()),
            None => (None, None),
        });
        let last = rounds.saturating_mul(protocol.local_steps as u64).saturating_sub(1);
        let step_size = protocol.step_size.at(Step(last));
        let floor = map.and_then(|mut map| map.floor(step_size));
        let risk = case.federation.risk(&point.theta, &point.theta);
        // Less than rounding is nothing.
        let price = |price: f64| if price.abs() > 1e-13 * risk.abs() { price } else { 0.0 };
        LocalTruth {
            risk,
            price_of_stability: optimal.map(|optimal| price(risk - optimal.risk)),
            minimisation_radius: point.minimisation_radius,
            gradient_margin: point.gradient_margin,
            largest_step,
            largest_step_in_mean,
            bias: floor.map(|floor| bias(case.federation, point, &floor, step_size)),
            theta: point.theta.clone(),
            stability,
        }
    }
}

fn bias(federation: &Federation, point: &StablePoint, floor: &Floor, step_size: f64) -> Bias {
    let noise = match federation.is_affine() {
        true => DVector::zeros(point.theta.len()),
        false => curvature_bias(federation, point, floor),
    };
    Bias {
        step_size,
        local_steps: floor.bias.as_slice().to_vec(),
        noise: noise.as_slice().to_vec(),
        spread: libm::sqrt(floor.covariance.trace().max(0.0)),
    }
}

/// −½ A⁻¹ F″[Cov], the second derivative by central differences along the axes of Cov.
fn curvature_bias(federation: &Federation, point: &StablePoint, floor: &Floor) -> DVector<f64> {
    let dim = point.theta.len();
    let theta = DVector::from_column_slice(&point.theta);
    let field = federation.mean_field(&point.theta, &point.theta);
    let cloud = floor.covariance.clone().symmetric_eigen();
    let apart = 1e-3 * (1.0 + theta.norm());
    let gradient = |at: DVector<f64>| federation.mean_field(at.as_slice(), at.as_slice()).gradient;
    let mut second = DVector::zeros(dim);
    for (axis, &variance) in cloud.eigenvalues.iter().enumerate().filter(|(_, v)| **v > 0.0) {
        let out = cloud.eigenvectors.column(axis) * apart;
        let both = gradient(&theta + &out) + gradient(&theta - &out) - &field.gradient * 2.0;
        second += both * (variance / (apart * apart));
    }
    let derivative = field.curvature + field.reaction;
    derivative.lu().solve(&(second * -0.5)).unwrap_or_else(|| DVector::from_element(dim, f64::NAN))
}
