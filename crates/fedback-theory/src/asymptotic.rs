//! The law of large t: what (t + γ) E|θ − θ^PS|² tends to on affine problems.
//!
//! Under η_t = β/(t + γ), with A = I − Σ p_i M_i and 2β Re λ > 1 for every eigenvalue λ of A,
//! (t + γ) Cov(θ) tends to the solution Σ of
//!
//! (βA − I/2) Σ + Σ (βA − I/2)ᵀ = β² V,  V = Q + E R,
//!
//! where Q = Σ E(c_k²) S_k is the noise of one step seen through the coefficients c of the cohort and
//! R = Cov(Σ c_k r_k) what the choice of the cohort adds:
//!
//! | scheme | Q | R |
//! |---|---|---|
//! | full | Σ p² S | 0 |
//! | with replacement | Σ [p² + p(1−p)/K] S | (1/K) Σ p r rᵀ |
//! | without replacement | (N/K) Σ p² S | N(N−K)/(K(N−1)) Σ p² r rᵀ |
//!
//! Scaled objectives have the V of sampling without replacement. The mean is of order 1/t where
//! β Re λ > 1, and falls faster than 1/√t as soon as 2β Re λ > 1, so that the limit of
//! (t + γ) E|θ − θ^PS|² is the trace of Σ either way:
//! (βA − I) lim (t + γ) E(x) = β² (E−1)/2 Σ p_i G_i g_i with g_i = −r_i and G_i = I − M_i (I where
//! the model is deployed once a round; N p_i² for p_i where objectives are scaled).

use crate::p_fedavg::PFedAvg;
use fedback_core::federation::Federation;
use fedback_core::protocol::{Aggregate, Deploy, Scheme, StepSize};
use nalgebra::{DMatrix, DVector};

use crate::spectrum;

/// The law of one problem under one protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct LargeTime {
    /// lim (t + γ) E|θ − θ^PS|².
    pub distance: f64,
    /// lim (t + γ) E[θ − θ^PS]; none where the mean falls more slowly than 1/t.
    pub mean: Option<Vec<f64>>,
    /// 2β min Re λ, which must be above one.
    pub twice_rate: f64,
    /// The γ of the step size.
    pub gamma: f64,
}

impl LargeTime {
    /// What the law says of E|θ^t − θ^PS|².
    pub fn at(&self, step: f64) -> f64 {
        self.distance / (step + self.gamma)
    }
}

/// Unknowns of the Lyapunov equation that are solved for densely.
const MOST_COORDINATES: usize = 24;

/// The law, or why there is none.
pub fn large_time(
    federation: &Federation,
    protocol: &PFedAvg,
    stable_point: Option<&[f64]>,
) -> Result<LargeTime, String> {
    if !federation.is_affine() {
        return Err("the law is computed for affine problems (the loss \"mean\") only".into());
    }
    let point = stable_point.ok_or("there is no stable point")?;
    let StepSize::Decaying { beta, gamma } = protocol.step_size else {
        return Err(
            "with a constant step size the error does not vanish: it tends to a bias and a \
                    noise floor, not to a law of order 1/t"
                .into(),
        );
    };
    if matches!(protocol.scheme, Scheme::FirstArrivals { .. }) {
        return Err("the law is not computed for first arrivals of unequal speed".into());
    }
    let (n, dim) = (federation.clients() as f64, federation.dim());
    let uneven = federation.weights().iter().any(|p| (p * n - 1.0).abs() > 1e-9);
    let without = matches!(protocol.scheme, Scheme::WithoutReplacement { .. });
    if without && uneven && protocol.aggregate == Aggregate::Iterates && !protocol.scale_objectives
    {
        return Err(
            "unequal weights without replacement, aggregating iterates: every aggregation \
                    rescales θ at random, and the error does not vanish"
                .into(),
        );
    }
    if !federation.response().is_diagonal() && dim > MOST_COORDINATES {
        return Err(format!(
            "matrix responses in more than {MOST_COORDINATES} dimensions are too many unknowns"
        ));
    }
    let field = Field::new(federation, protocol, point);
    let diagonal = federation.response().is_diagonal();
    let margin = match diagonal {
        true => field.derivative.diagonal().min(),
        false => spectrum::smallest_real_part(&field.derivative)
            .ok_or("the eigenvalues were not found")?,
    };
    let twice_rate = 2.0 * beta * margin;
    if twice_rate <= 1.0 {
        return Err(format!(
            "2 · beta · (smallest real part of an eigenvalue of I − Σ p_i M_i) is {twice_rate:.4}, \
             not above 1: the error falls more slowly than 1/t; beta above {:.4} would do",
            if margin > 0.0 { 0.5 / margin } else { f64::INFINITY }
        ));
    }
    let identity = DMatrix::identity(dim, dim);
    let shifted = &field.derivative * beta - &identity * 0.5;
    let source = &field.noise * (beta * beta);
    let distance = match diagonal {
        true => (0..dim).map(|j| source[(j, j)] / (2.0 * shifted[(j, j)])).sum(),
        false => {
            // vec(XΣ + ΣXᵀ) = (I ⊗ X + X ⊗ I) vec Σ.
            let system = identity.kronecker(&shifted) + shifted.kronecker(&identity);
            let flat = DVector::from_column_slice(source.as_slice());
            let solved = system.lu().solve(&flat).ok_or("the Lyapunov equation is singular")?;
            DMatrix::from_column_slice(dim, dim, solved.as_slice()).trace()
        }
    };
    let local = (protocol.local_steps as f64 - 1.0) / 2.0;
    let mean = (twice_rate > 2.0)
        .then(|| {
            let system = &field.derivative * beta - &identity;
            let drift = &field.drift * (beta * beta * local);
            system.lu().solve(&drift).map(|mean| mean.as_slice().to_vec())
        })
        .flatten();
    Ok(LargeTime { distance, mean, twice_rate, gamma })
}

/// What the law needs of the problem at the stable point.
struct Field {
    /// A.
    derivative: DMatrix<f64>,
    /// V.
    noise: DMatrix<f64>,
    /// Σ p_i G_i g_i.
    drift: DVector<f64>,
}

impl Field {
    fn new(federation: &Federation, protocol: &PFedAvg, point: &[f64]) -> Self {
        let (n, dim) = (federation.clients() as f64, federation.dim());
        let mut derivative = DMatrix::identity(dim, dim);
        let mut noise = DMatrix::zeros(dim, dim);
        let mut drift = DVector::zeros(dim);
        let theta = DVector::from_column_slice(point);
        let local_steps = protocol.local_steps as f64;
        for (i, &p) in federation.weights().iter().enumerate().filter(|(_, p)| **p > 0.0) {
            let population = federation.population(i);
            let matrix = population.shift_matrix();
            let (mean, covariance) = population.base_moments();
            let drive = mean + &matrix * &theta - &theta;
            let (own, spread) = match protocol.scheme {
                Scheme::Full => (p * p, 0.0),
                Scheme::WithReplacement { cohort } => {
                    let k = cohort as f64;
                    (p * p + p * (1.0 - p) / k, p / k)
                }
                Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. } => {
                    let k = cohort as f64;
                    let finite = if n > 1.0 { (n - k) / (n - 1.0) } else { 0.0 };
                    (n / k * p * p, n / k * finite * p * p)
                }
            };
            noise += covariance * (own / protocol.batch.size());
            noise += &drive * drive.transpose() * (spread * local_steps);
            let weight = if protocol.scale_objectives { n * p * p } else { p };
            drift -= match protocol.deploy {
                Deploy::Step => (&drive - &matrix * &drive) * weight,
                Deploy::Round => &drive * weight,
            };
            derivative -= matrix * p;
        }
        Field { derivative, noise, drift }
    }
}
