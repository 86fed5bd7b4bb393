//! The constants of the paper's assumptions A1 to A5 for a problem, each with where it came from.
//!
//! With the loss `mean` all of them are known: the loss is 1-strongly convex and 1-smooth, the noise
//! does not depend on θ, and ∇f − ∇f_i is affine, (M_i − M̄) x + r_i with x = θ − θ^PS, so that
//! |∇f − ∇f_i|² ≤ ς² (1 + |x|²) holds for ς the largest singular value of the matrices
//! [M_i − M̄, r_i], and for nothing smaller. In one dimension that is ς² = max (ε_i − ε̄)² + r_i².
//! Linear models on a table meet the assumptions on no unbounded set; what is said of them is
//! measured at the stable point and called estimated.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::Protocol;
use fedback_core::response::Shift;
use nalgebra::{DMatrix, DVector};

use crate::round::{Moved, rows};

/// One constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constant {
    /// Its value; none where it does not exist.
    pub value: Option<f64>,
    /// How it was obtained, or why it does not exist.
    pub how: How,
}

/// How a constant was obtained, or why it does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The user gave it.
    Given,
    /// There is no stable point to measure from.
    NoStablePoint,
    /// Δ₀: from the start to the stable point.
    StartToStable,
    /// μ of the loss `mean`: its Hessian is I.
    IdentityHessian,
    /// L of the loss `mean`: its gradient is θ − z.
    IdentityGradient,
    /// σ: the largest total standard deviation of a client's observations, by the root of the batch.
    Observations,
    /// ε̄: the average of absolute sensitivities.
    AverageSensitivity,
    /// The largest absolute sensitivity.
    LargestSensitivity,
    /// ς in one dimension, the smallest possible.
    OneDimension,
    /// ς as a largest singular value, the smallest possible.
    SingularValue,
    /// An upper bound of the smallest possible ς.
    UpperBound,
    /// μ: the smallest eigenvalue of the averaged Hessian at the stable point.
    FlattestHessian,
    /// There is no μ: that Hessian is singular.
    SingularHessian,
    /// L: the largest derivative of a row's gradient at the stable point.
    SteepestRow,
    /// σ: the largest batch noise at the stable point.
    BatchNoise,
    /// ς: the largest gradient of a client at the stable point.
    LargestGradient,
}

impl Constant {
    /// A constant that the user gave.
    pub fn given(value: f64) -> Self {
        Constant::new(value, How::Given)
    }

    fn new(value: f64, how: How) -> Self {
        Constant { value: Some(value), how }
    }

    fn none(how: How) -> Self {
        Constant { value: None, how }
    }
}

/// The constants of A1 to A5.
#[derive(Clone, Debug)]
pub struct Constants {
    /// A1: strong convexity μ.
    pub mu: Constant,
    /// A2: joint smoothness L of ∇ℓ(θ; z) in θ and z.
    pub smoothness: Constant,
    /// A3: ε_i of every client.
    pub sensitivities: Vec<f64>,
    /// ε̄ = Σ p_i ε_i.
    pub average_sensitivity: Constant,
    /// The largest ε_i.
    pub largest_sensitivity: Constant,
    /// A4: σ, of a batch.
    pub sigma: Constant,
    /// A5: ς.
    pub varsigma: Constant,
    /// Δ₀ = |θ⁰ − θ^PS|².
    pub delta_0: Constant,
}

impl Constants {
    /// The constants of a problem under a protocol's batches, seen from its stable point.
    pub fn of(
        federation: &Federation,
        protocol: &Protocol,
        start: &[f64],
        stable_point: Option<&[f64]>,
    ) -> Self {
        let sensitivity = |i: usize| federation.population(i).sensitivity();
        let sensitivities: Vec<f64> = (0..federation.clients()).map(sensitivity).collect();
        let weighted = |i: usize| federation.weights()[i] * sensitivities[i];
        let average = federation.counting().map(weighted).sum();
        let largest = federation.counting().map(|i| sensitivities[i]).fold(0.0, f64::max);
        let missing = Constant::none(How::NoStablePoint);
        let delta_0 = stable_point.map_or(missing, |point| {
            let apart = start.iter().zip(point).map(|(a, b)| (a - b) * (a - b)).sum();
            Constant::new(apart, How::StartToStable)
        });
        let batch = protocol.batch.size();
        let [mu, smoothness, sigma, varsigma] = match (federation.loss(), federation.base()) {
            (Loss::Squared { .. } | Loss::Logistic { .. }, Base::Table(_)) => {
                stable_point.map_or([missing; 4], |point| of_rows(federation, batch, point))
            }
            (Loss::Mean, Base::Table(_))
            | (Loss::Mean | Loss::Squared { .. } | Loss::Logistic { .. }, Base::Gaussian(_)) => [
                Constant::new(1.0, How::IdentityHessian),
                Constant::new(1.0, How::IdentityGradient),
                Constant::new((largest_noise(federation) / batch).sqrt(), How::Observations),
                stable_point.map_or(missing, |point| heterogeneity(federation, point)),
            ],
        };
        Constants {
            mu,
            smoothness,
            average_sensitivity: Constant::new(average, How::AverageSensitivity),
            largest_sensitivity: Constant::new(largest, How::LargestSensitivity),
            sensitivities,
            sigma,
            varsigma,
            delta_0,
        }
    }
}

/// The largest trace of the covariance of a client's observations.
fn largest_noise(federation: &Federation) -> f64 {
    let trace = |i: usize| federation.population(i).base_variance().iter().sum::<f64>();
    federation.counting().map(trace).fold(0.0, f64::max)
}

/// Up to here a singular value decomposition for every client is cheap.
const MOST_EXACT: usize = 32;

/// The smallest ς of A5 for the loss `mean`.
fn heterogeneity(federation: &Federation, point: &[f64]) -> Constant {
    let dim = federation.dim();
    let response = federation.shift().unwrap_or(&Shift::None);
    let diagonal = response.is_diagonal();
    // M_i, or its diagonal where there is nothing else.
    let map = |i: usize| match diagonal {
        true => DMatrix::from_fn(dim, 1, |j, _| response.diagonal(i, j)),
        false => response.matrix(i, dim),
    };
    let mean: DMatrix<f64> = federation.counting().map(|i| map(i) * federation.weights()[i]).sum();
    let mut exact = true;
    let mut moved = vec![0.0; dim];
    let mut largest: f64 = 0.0;
    for i in federation.counting() {
        response.apply(i, point, &mut moved);
        let base = federation.population(i).base_mean();
        let drive = DVector::from_fn(dim, |j, _| base[j] + moved[j] - point[j]);
        let apart = map(i) - &mean;
        let alike = diagonal && apart.iter().all(|entry| *entry == apart[0]);
        let square = if alike || dim > MOST_EXACT {
            exact &= alike;
            let own = if diagonal { apart.amax().powi(2) } else { apart.norm_squared() };
            own + drive.norm_squared()
        } else {
            let own = if diagonal { DMatrix::from_diagonal(&apart.column(0)) } else { apart };
            let mut wide = own.resize_horizontally(dim + 1, 0.0);
            wide.set_column(dim, &drive);
            match wide.iter().all(|entry| entry.is_finite()) {
                true => wide.singular_values().max().powi(2),
                false => f64::INFINITY,
            }
        };
        largest = largest.max(square);
    }
    let how = match (exact, dim) {
        (true, 1) => How::OneDimension,
        (true, _) => How::SingularValue,
        (false, _) => How::UpperBound,
    };
    Constant::new(largest.sqrt(), how)
}

/// μ, L, σ and ς of a linear model on the rows of a table.
fn of_rows(federation: &Federation, batch: f64, point: &[f64]) -> [Constant; 4] {
    let theta = DVector::from_column_slice(point);
    let ridge = federation.ridge();
    let penalty = ridge.component_mul(&theta);
    let (mut steepest, mut noise, mut heterogeneity) = (0.0f64, 0.0f64, 0.0f64);
    for i in federation.counting() {
        let mean = federation.population(i).expand(point, point).gradient;
        heterogeneity = heterogeneity.max(mean.norm());
        let (mut spread, mut count) = (0.0, 0.0);
        for row in rows(federation, i, &theta).into_iter().flatten() {
            let Moved { weight, x, slope, curvature, .. } = row;
            spread += weight * (&x * slope + &penalty - &mean).norm_squared();
            count += weight;
            // ∂∇ℓ/∂θ = ℓ″ x xᵀ + ridge and ∂∇ℓ/∂x = ℓ′ I + ℓ″ x θᵀ, by the triangle inequality.
            let in_theta = curvature * x.norm_squared() + ridge.max();
            let in_row = slope.abs() + curvature * x.norm() * theta.norm();
            steepest = steepest.max(in_theta).max(in_row);
        }
        noise = noise.max(spread / count / batch);
    }
    let flattest = federation.mean_field(point, point).curvature.symmetric_eigenvalues().min();
    let mu = match flattest > 0.0 {
        true => Constant::new(flattest, How::FlattestHessian),
        false => Constant::none(How::SingularHessian),
    };
    [
        mu,
        Constant::new(steepest, How::SteepestRow),
        Constant::new(noise.sqrt(), How::BatchNoise),
        Constant::new(heterogeneity, How::LargestGradient),
    ]
}
