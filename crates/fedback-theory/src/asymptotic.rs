//! The law of large t: what (t + γ) E|θ − θ^PS|² tends to on affine problems.
//!
//! Under η_t = β/(t + γ), with A = I − Σ p_i M_i and 2β Re λ > 1 for every eigenvalue λ of A,
//! (t + γ) Cov(θ) tends to the solution Σ of
//!
//! (βA − I/2) Σ + Σ (βA − I/2)ᵀ = β² V,  V = Q + E R,
//!
//! where Q = Σ E(c_k²) S_k is the noise of one step seen through the coefficients c of the cohort
//! ([`crate::cohort`]) and R = Cov(Σ c_k r_k) what the choice of the cohort adds. The mean is of order 1/t where
//! β Re λ > 1, and falls faster than 1/√t as soon as 2β Re λ > 1, so that the limit of
//! (t + γ) E|θ − θ^PS|² is the trace of Σ either way:
//! (βA − I) lim (t + γ) E(x) = β² (E−1)/2 Σ p_i G_i g_i with g_i = −r_i and G_i = I − M_i (I where
//! the model is deployed once a round; N p_i² for p_i where objectives are scaled).

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, StepSize};
use nalgebra::{DMatrix, DVector, Dyn};

use crate::cohort::{self, Cohorts};
use crate::round::client::{Client, Clients};
use crate::round::{self, Affine, Block};
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

/// Why there is no law of large t.
#[derive(Clone, Debug, PartialEq)]
pub enum NoLaw {
    /// Gradients are not affine.
    NotAffine,
    /// There is no stable point.
    NoStablePoint,
    /// The step size is constant.
    ConstantStep,
    /// Who is fast decides who works.
    FirstArrivals,
    /// Every aggregation rescales θ at random.
    Rescaled,
    /// A matrix response in more dimensions than this.
    TooLarge(usize),
    /// No eigenvalues, or a singular equation.
    NotSolved,
    /// 2β min Re λ is this and not above one; the β that would do.
    TooSlow {
        /// 2β min Re λ.
        twice_rate: f64,
        /// 1/(2 min Re λ).
        beta: f64,
    },
}

/// Unknowns of the Lyapunov equation that are solved for densely.
const MOST_COORDINATES: usize = 24;

/// The law of P-FedAvg, or why there is none.
pub fn large_time(
    federation: &Federation,
    protocol: &Protocol,
    stable_point: Option<&[f64]>,
) -> Result<LargeTime, NoLaw> {
    if !federation.is_affine() {
        return Err(NoLaw::NotAffine);
    }
    let point = stable_point.ok_or(NoLaw::NoStablePoint)?;
    let StepSize::Decaying { beta, gamma } = protocol.step_size else {
        return Err(NoLaw::ConstantStep);
    };
    if cohort::by_speed(protocol.scheme) {
        return Err(NoLaw::FirstArrivals);
    }
    if cohort::rescales(federation, protocol) {
        return Err(NoLaw::Rescaled);
    }
    if !round::is_split(federation) && federation.dim() > MOST_COORDINATES {
        return Err(NoLaw::TooLarge(MOST_COORDINATES));
    }
    let fields = Field::all(federation, protocol, point);
    let margins = fields.iter().map(|field| spectrum::smallest_real_part(&field.derivative));
    let margins: Vec<f64> = margins.collect::<Option<_>>().ok_or(NoLaw::NotSolved)?;
    let margin = margins.into_iter().fold(f64::INFINITY, f64::min);
    let twice_rate = 2.0 * beta * margin;
    if twice_rate <= 1.0 {
        let beta = if margin > 0.0 { 0.5 / margin } else { f64::INFINITY };
        return Err(NoLaw::TooSlow { twice_rate, beta });
    }
    let e = protocol.local_steps as f64;
    let distance: Option<f64> = fields.iter().map(|field| field.spread(beta, e)).sum();
    let means: Option<Vec<_>> = fields.iter().map(|field| field.mean(beta, e)).collect();
    let mean = means.filter(|_| twice_rate > 2.0).map(|parts| parts.concat());
    Ok(LargeTime { distance: distance.ok_or(NoLaw::NotSolved)?, mean, twice_rate, gamma })
}

/// What the law needs of the problem at the stable point.
pub(crate) struct Field {
    /// A.
    derivative: DMatrix<f64>,
    /// Q.
    pub(crate) own: DMatrix<f64>,
    /// R.
    pub(crate) drawn: DMatrix<f64>,
    /// Σ p_i G_i g_i.
    drift: DMatrix<f64>,
}

impl Field {
    /// One for each part of the problem.
    pub(crate) fn all(federation: &Federation, protocol: &Protocol, point: &[f64]) -> Vec<Self> {
        let all: Vec<usize> = (0..federation.clients()).collect();
        let (weights, schemes) = (federation.weights(), [protocol.scheme]);
        let cohorts = Cohorts::of_schemes(weights, protocol, None, &schemes, false);
        match Clients::of(federation, protocol, &all, point) {
            Clients::Numbers(parts) => {
                parts.iter().map(|clients| Field::new(clients, &cohorts)).collect()
            }
            Clients::Matrices(parts) => {
                parts.iter().map(|clients| Field::new(clients, &cohorts)).collect()
            }
        }
    }

    fn new<T: Block>(clients: &[Client<T>], cohorts: &Cohorts) -> Self {
        let dim = clients[0].dim;
        let zeros = || DMatrix::zeros(dim, dim);
        let (mut derivative, mut own, mut drawn) = (zeros(), zeros(), zeros());
        let mut drift = DMatrix::zeros(dim, 1);
        let squares = cohorts.squares(cohorts.schemes[0]);
        for ((client, &g), square) in clients.iter().zip(&cohorts.expected).zip(squares) {
            derivative += client.slope.matrix() * g;
            own += client.noise.matrix() * square;
            drift -= client.drawn_back().times(&client.pull).matrix() * g;
        }
        if let Some((draw, share)) = cohorts.schemes[0] {
            let pull = |client: &Client<T>| {
                let nothing = client.noise.emptied();
                Affine { map: nothing.clone(), shift: client.pull.clone(), noise: nothing }
            };
            let pulls: Vec<Affine<T>> = clients.iter().map(pull).collect();
            let (pairs, _) = cohorts.draws[draw].gather(&pulls);
            drawn = T::source(&pairs, &clients[0].pull.emptied()).matrix() * share;
        }
        Field { derivative, own, drawn, drift }
    }

    /// The trace of Σ.
    fn spread(&self, beta: f64, local_steps: f64) -> Option<f64> {
        let dim = self.drift.nrows();
        let identity = DMatrix::identity(dim, dim);
        let shifted = &self.derivative * beta - &identity * 0.5;
        // vec(XΣ + ΣXᵀ) = (I ⊗ X + X ⊗ I) vec Σ.
        let system = identity.kronecker(&shifted) + shifted.kronecker(&identity);
        let noise = (&self.own + &self.drawn * local_steps) * (beta * beta);
        let source = DVector::from_column_slice(noise.as_slice());
        Some(system.lu().solve(&source)?.reshape_generic(Dyn(dim), Dyn(dim)).trace())
    }

    /// lim (t + γ) E(x).
    fn mean(&self, beta: f64, local_steps: f64) -> Option<Vec<f64>> {
        let dim = self.drift.nrows();
        let system = &self.derivative * beta - DMatrix::identity(dim, dim);
        let source = &self.drift * (beta * beta * (local_steps - 1.0) / 2.0);
        Some(system.lu().solve(&source)?.as_slice().to_vec())
    }
}
