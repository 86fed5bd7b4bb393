//! The constants of the paper's assumptions A1 to A5 for a problem, each with where it came from.
//!
//! With the loss `mean` all of them are known: the loss is 1-strongly convex and 1-smooth, the noise
//! does not depend on θ, and ∇f − ∇f_i is affine, (M_i − M̄) x + r_i with x = θ − θ^PS, so that
//! |∇f − ∇f_i|² ≤ ς² (1 + |x|²) holds for ς the largest singular value of the matrices
//! [M_i − M̄, r_i], and for nothing smaller. In one dimension that is ς² = max (ε_i − ε̄)² + r_i².
//! Linear models on a table meet the assumptions on no unbounded set; what is said of them is
//! measured at the stable point and called estimated.

use fedback_core::base::{Base, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::{Logistic, Loss, MarginLoss, Squared};
use fedback_core::protocol::Protocol;
use nalgebra::{DMatrix, DVector};

/// Where the value of a constant came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user said so.
    Given,
    /// It follows from the problem and holds for every θ.
    Derived,
    /// Measured at the stable point; the assumption asks for more.
    Estimated,
}

impl Origin {
    /// The word of the JSON contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Given => "given",
            Origin::Derived => "derived",
            Origin::Estimated => "estimated",
        }
    }
}

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

    /// Where its value came from.
    pub fn origin(&self) -> Origin {
        match self.how {
            How::Given => Origin::Given,
            How::FlattestHessian | How::SteepestRow | How::BatchNoise | How::LargestGradient => {
                Origin::Estimated
            }
            How::NoStablePoint
            | How::StartToStable
            | How::IdentityHessian
            | How::IdentityGradient
            | How::Observations
            | How::AverageSensitivity
            | How::LargestSensitivity
            | How::OneDimension
            | How::SingularValue
            | How::UpperBound
            | How::SingularHessian => Origin::Derived,
        }
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
        let clients = 0..federation.clients();
        let sensitivities: Vec<f64> =
            clients.map(|i| federation.population(i).sensitivity()).collect();
        let counted = || federation.weights().iter().zip(&sensitivities).filter(|(p, _)| **p > 0.0);
        let average = counted().map(|(p, e)| p * e).sum();
        let largest = counted().map(|(_, e)| *e).fold(0.0, f64::max);
        let delta_0 = match stable_point {
            None => Constant::none(How::NoStablePoint),
            Some(point) => {
                let apart = start.iter().zip(point).map(|(a, b)| (a - b) * (a - b)).sum();
                Constant::new(apart, How::StartToStable)
            }
        };
        let batch = protocol.batch.size();
        let [mu, smoothness, sigma, varsigma] = match (federation.loss(), federation.base()) {
            (Loss::Squared { .. }, Base::Table(table)) => {
                Rows { federation, table, loss: Squared, batch }.estimate(stable_point)
            }
            (Loss::Logistic { .. }, Base::Table(table)) => {
                Rows { federation, table, loss: Logistic, batch }.estimate(stable_point)
            }
            (Loss::Mean, Base::Table(_))
            | (Loss::Mean | Loss::Squared { .. } | Loss::Logistic { .. }, Base::Gaussian(_)) => [
                Constant::new(1.0, How::IdentityHessian),
                Constant::new(1.0, How::IdentityGradient),
                Constant::new((largest_noise(federation) / batch).sqrt(), How::Observations),
                stable_point.map_or_else(
                    || Constant::none(How::NoStablePoint),
                    |point| heterogeneity(federation, point),
                ),
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

/// The clients that count.
fn relevant(federation: &Federation) -> impl Iterator<Item = usize> + Clone {
    (0..federation.clients()).filter(|&i| federation.weights()[i] > 0.0)
}

/// The largest trace of the covariance of a client's observations.
fn largest_noise(federation: &Federation) -> f64 {
    let trace = |i: usize| federation.population(i).base_variance().iter().sum::<f64>();
    match &federation.base() {
        Base::Gaussian(base) => base.dim as f64 * base.noise * base.noise,
        Base::Table(_) => relevant(federation).map(trace).fold(0.0, f64::max),
    }
}

/// Up to here a singular value decomposition for every client is cheap.
const MOST_EXACT: usize = 32;

/// The smallest ς of A5 for the loss `mean`.
fn heterogeneity(federation: &Federation, point: &[f64]) -> Constant {
    let dim = federation.dim();
    let response = &federation.response();
    let diagonal = response.is_diagonal();
    let entry = |i: usize, j: usize| response.diagonal(i, j);
    let average: Vec<f64> = (0..dim)
        .map(|j| relevant(federation).map(|i| federation.weights()[i] * entry(i, j)).sum())
        .collect();
    let mean_matrix = (!diagonal).then(|| {
        relevant(federation)
            .map(|i| response.matrix(i, dim) * federation.weights()[i])
            .fold(DMatrix::zeros(dim, dim), |sum, matrix| sum + matrix)
    });
    let mut exact = true;
    let mut moved = vec![0.0; dim];
    let mut largest: f64 = 0.0;
    for i in relevant(federation) {
        response.apply(i, point, &mut moved);
        let mean = federation.population(i).base_mean();
        let drive: Vec<f64> = (0..dim).map(|j| mean[j] + moved[j] - point[j]).collect();
        let far: f64 = drive.iter().map(|r| r * r).sum();
        let apart = |j: usize| entry(i, j) - average[j];
        let alike = diagonal && (1..dim).all(|j| apart(j) == apart(0));
        let square = if alike {
            apart(0) * apart(0) + far
        } else if dim > MOST_EXACT {
            exact = false;
            let own = match &mean_matrix {
                None => (0..dim).map(|j| apart(j) * apart(j)).fold(0.0, f64::max),
                Some(mean) => (response.matrix(i, dim) - mean).norm_squared(),
            };
            own + far
        } else {
            let own = match &mean_matrix {
                None => DMatrix::from_fn(dim, dim, |j, k| if j == k { apart(j) } else { 0.0 }),
                Some(mean) => response.matrix(i, dim) - mean,
            };
            let mut wide = own.resize_horizontally(dim + 1, 0.0);
            wide.set_column(dim, &DVector::from_vec(drive));
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

/// A linear model on the rows of a table.
struct Rows<'a, L> {
    federation: &'a Federation,
    table: &'a Table,
    loss: L,
    batch: f64,
}

impl<L: MarginLoss> Rows<'_, L> {
    /// μ, L, σ and ς.
    fn estimate(&self, stable_point: Option<&[f64]>) -> [Constant; 4] {
        let Some(point) = stable_point else {
            return std::array::from_fn(|_| Constant::none(How::NoStablePoint));
        };
        let theta = DVector::from_column_slice(point);
        let (mut steepest, mut noise, mut heterogeneity) = (0.0f64, 0.0f64, 0.0f64);
        for i in relevant(self.federation) {
            let own = self.federation.population(i).expand(point, point);
            heterogeneity = heterogeneity.max(own.gradient.norm());
            let (smoothness, spread) = self.client(i, &theta, &own.gradient);
            steepest = steepest.max(smoothness);
            noise = noise.max(spread / self.batch);
        }
        let field = self.federation.mean_field(point, point);
        let flattest = field.curvature.symmetric_eigenvalues().min();
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

    /// The largest derivative of a row's gradient, and the total variance of the gradient.
    fn client(&self, client: usize, theta: &DVector<f64>, mean: &DVector<f64>) -> (f64, f64) {
        let ridge = self.federation.ridge();
        let mut shift = vec![0.0; theta.len()];
        self.federation.response().apply(client, theta.as_slice(), &mut shift);
        let shift = DVector::from_vec(shift);
        let penalty = ridge.component_mul(theta);
        let (mut steepest, mut spread, mut count) = (0.0f64, 0.0, 0.0);
        for (row, label) in self.table.rows_of(client) {
            let x = DVector::from_column_slice(row) + &shift;
            let margin = x.dot(theta);
            let (slope, curvature) =
                (self.loss.slope(margin, label), self.loss.curvature(margin, label));
            spread += (&x * slope + &penalty - mean).norm_squared();
            count += 1.0;
            // ∂∇ℓ/∂θ = ℓ″ x xᵀ + ridge and ∂∇ℓ/∂x = ℓ′ I + ℓ″ x θᵀ, by the triangle inequality.
            let in_theta = curvature * x.norm_squared() + ridge.max();
            let in_row = slope.abs() + curvature * x.norm() * theta.norm();
            steepest = steepest.max(in_theta).max(in_row);
        }
        (steepest, spread / count)
    }
}
