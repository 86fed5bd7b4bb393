//! Up to which step size a round shrinks errors, on average and in mean square.
//!
//! Near a point the mean error of a noise-free round is multiplied by Σ g_i B_i(η), where client i's
//! E local steps multiply by B_i = (I − η G_i)^E with G_i = H_i + J_i; with the model deployed once a
//! round, by (I − η H_i)^E − η Σ_{k<E} (I − η H_i)^k J_i. Errors shrink on average while the spectral
//! radius is below one. The choice of a cohort and, on tables, the choice of a batch make the map of a
//! round itself random; then squared errors may grow although their mean error shrinks, and the
//! radius that decides is that of the round acting on second moments.

mod floor;
mod gradient_noise;
mod second_moment;

use crate::p_fedavg::PFedAvg;
use fedback_core::federation::Federation;
use fedback_core::protocol::{Aggregate, Deploy, Scheme};
use nalgebra::DMatrix;

pub use floor::Floor;
use gradient_noise::Multiplicative;
pub(crate) use gradient_noise::observation_noise;
use second_moment::SecondMoment;

use crate::choice::Choice;
use crate::spectrum;

/// The round map of a problem near one point.
pub struct RoundMap {
    clients: Vec<LocalMap>,
    local_steps: usize,
    deploy: Deploy,
    dim: usize,
    /// The factor of (Σ E(c_k) D_k) ⊗ (Σ E(c_k) D_k) in the covariance of the cohort.
    pairs: f64,
    /// L with Cov(c_k, c_l) = (L Lᵀ)_kl, where the covariance is none of one number for all pairs.
    factor: Option<DMatrix<f64>>,
    /// Whether aggregation rescales the whole model at random.
    rescales: bool,
    sampled: bool,
}

struct LocalMap {
    /// The client's number.
    number: usize,
    /// E(c): the expected coefficient.
    expected: f64,
    /// The factor of D ⊗ D in the covariance of the cohort.
    choice: f64,
    /// E(c²).
    square: f64,
    /// What its gradients are multiplied with.
    scale: f64,
    curvature: DMatrix<f64>,
    reaction: DMatrix<f64>,
    noise: Option<Multiplicative>,
}

/// Multiplications that one radius may cost: a scan asks for a few hundred.
const BUDGET: f64 = 4e6;
/// The same where only a few radii are asked for.
const LARGE_BUDGET: f64 = 4e8;

impl RoundMap {
    /// Linearises the rounds of a protocol at `theta`. Where clients are too many for a scan, evenly
    /// spaced ones stand for all; none where the dimension alone is too high.
    pub fn new(federation: &Federation, protocol: &PFedAvg, theta: &[f64]) -> Option<Self> {
        RoundMap::within(BUDGET, federation, protocol, None, theta)
    }

    /// The same where the moments of a cohort's coefficients are given, as first arrivals need.
    pub fn of_choice(
        federation: &Federation,
        protocol: &PFedAvg,
        choice: Option<&Choice>,
        theta: &[f64],
    ) -> Option<Self> {
        RoundMap::within(BUDGET, federation, protocol, choice, theta)
    }

    /// The same for a few radii rather than a scan: up to a hundred times as many clients are taken
    /// each for itself.
    pub fn thorough(
        federation: &Federation,
        protocol: &PFedAvg,
        choice: Option<&Choice>,
        theta: &[f64],
    ) -> Option<Self> {
        RoundMap::within(LARGE_BUDGET, federation, protocol, choice, theta)
    }

    fn within(
        budget: f64,
        federation: &Federation,
        protocol: &PFedAvg,
        choice: Option<&Choice>,
        theta: &[f64],
    ) -> Option<Self> {
        let relevant: Vec<usize> =
            (0..federation.clients()).filter(|&i| federation.weights()[i] > 0.0).collect();
        let (dim, local_steps) = (theta.len(), protocol.local_steps);
        let each = (2.0 * dim as f64).powi(3) * (2.0 + (local_steps as f64).log2());
        let affordable = (budget / each).floor() as usize;
        if affordable == 0 {
            return None;
        }
        let every = relevant.len().div_ceil(affordable);
        let total: f64 = relevant.iter().map(|&i| federation.weights()[i]).sum();
        let chosen: Vec<usize> = relevant.into_iter().step_by(every).collect();
        // What the chosen ones stand for; one where nobody is left out.
        let stands_for = match every {
            1 => 1.0,
            _ => total / chosen.iter().map(|&i| federation.weights()[i]).sum::<f64>(),
        };
        // Nobody stands for others where pairs differ.
        if choice.is_some() && every > 1 {
            return None;
        }
        let factor = choice.map(|choice| choice.factor(&chosen));
        let cohort = Coefficients::new(federation, protocol, choice)?;
        let clients = chosen
            .into_iter()
            .map(|number| {
                let p = federation.weights()[number];
                let expansion = federation.population(number).expand(theta, theta);
                let (expected, choice, square) = cohort.of(number, p);
                LocalMap {
                    number,
                    expected: expected * stands_for,
                    choice: choice * stands_for,
                    square: square * stands_for,
                    scale: if protocol.scale_objectives { cohort.clients * p } else { 1.0 },
                    curvature: expansion.curvature,
                    reaction: expansion.reaction,
                    noise: Multiplicative::of(federation, protocol, number, theta),
                }
            })
            .collect();
        Some(RoundMap {
            clients,
            local_steps,
            deploy: protocol.deploy,
            dim,
            pairs: cohort.pairs,
            factor,
            rescales: rescales(federation, protocol),
            sampled: every > 1,
        })
    }

    /// Whether some clients stand for others, so that radii are approximate.
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// Whether the noise of batches grows with the error and is bounded rather than exact.
    pub fn is_bounded(&self) -> bool {
        self.clients.iter().any(|client| matches!(client.noise, Some(Multiplicative::Bound(_))))
    }

    /// The spectral radius of the round at step size η: below one the mean error shrinks.
    pub fn radius(&self, size: f64) -> Option<f64> {
        spectrum::radius(&self.gain(size))
    }

    /// What a round multiplies the mean error with.
    fn gain(&self, size: f64) -> DMatrix<f64> {
        let identity = DMatrix::identity(self.dim, self.dim);
        let mut sum = identity.clone();
        for client in &self.clients {
            sum += (self.local(client, size * client.scale) - &identity) * client.expected;
        }
        sum
    }

    /// The spectral radius of the round on second moments at step size η: below one the squared error
    /// shrinks to a floor, and its square root by √radius a round at last.
    pub fn mean_square_radius(&self, size: f64) -> Option<f64> {
        SecondMoment::new(self, size).radius()
    }

    /// One local step acting on the local error, and with it on that of the deployed model where
    /// the two are not the same.
    fn step(&self, client: &LocalMap, size: f64) -> DMatrix<f64> {
        let dim = self.dim;
        let (curvature, reaction) = (&client.curvature * size, &client.reaction * size);
        match self.deploy {
            Deploy::Step => DMatrix::identity(dim, dim) - curvature - reaction,
            Deploy::Round => {
                let mut step = DMatrix::identity(2 * dim, 2 * dim);
                let mut kept = step.view_mut((0, 0), (dim, dim));
                kept -= curvature;
                step.view_mut((0, dim), (dim, dim)).copy_from(&-reaction);
                step
            }
        }
    }

    /// What E local steps multiply an error with.
    fn local(&self, client: &LocalMap, size: f64) -> DMatrix<f64> {
        let dim = self.dim;
        let steps = self.step(client, size).pow(self.local_steps as u32);
        match self.deploy {
            Deploy::Step => steps,
            Deploy::Round => steps.view((0, 0), (dim, dim)) + steps.view((0, dim), (dim, dim)),
        }
    }

    /// The largest η such that every smaller one shrinks mean errors: the first crossing of radius one
    /// on a geometric scan, refined by bisection. None where even tiny steps do not shrink them, or
    /// no step within the scan fails to.
    pub fn largest_step(&self) -> Option<f64> {
        self.first_crossing(1.05, |size| self.radius(size))
    }

    /// The same for squared errors. Where batches make the map itself random a radius is expensive and
    /// the scan is coarser.
    pub fn largest_step_in_mean_square(&self) -> Option<f64> {
        let ratio = match self.clients.iter().any(|client| client.noise.is_some()) {
            true => 1.25,
            false => 1.05,
        };
        self.first_crossing(ratio, |size| self.mean_square_radius(size))
    }

    fn first_crossing(&self, ratio: f64, radius: impl Fn(f64) -> Option<f64>) -> Option<f64> {
        let steepest = self
            .clients
            .iter()
            .map(|client| {
                let (h, j) = (&client.curvature, &client.reaction);
                client.scale * (h + j).norm().max(h.norm())
            })
            .fold(f64::MIN_POSITIVE, f64::max);
        let shrinks = |size: f64| radius(size).is_some_and(|radius| radius < 1.0);
        let mut below = 1e-4 / (steepest * self.local_steps as f64);
        if !shrinks(below) {
            return None;
        }
        let widest = below * 1.05f64.powi(600);
        while below < widest {
            let mut above = below * ratio;
            if shrinks(above) {
                below = above;
                continue;
            }
            // As finely as the scan is coarse: to a millionth, or to rounding.
            let halvings = if ratio > 1.1 { 16 } else { 50 };
            for _ in 0..halvings {
                let middle = 0.5 * (below + above);
                if shrinks(middle) { below = middle } else { above = middle }
            }
            return Some(below);
        }
        None
    }
}

/// Whether an aggregation multiplies the whole model by a random number: the coefficients of a cohort
/// do not sum to one, and models rather than updates are averaged.
pub fn rescales(federation: &Federation, protocol: &PFedAvg) -> bool {
    let n = federation.clients() as f64;
    let uneven = federation.weights().iter().any(|p| (p * n - 1.0).abs() > 1e-9);
    let partial = matches!(protocol.scheme, Scheme::WithoutReplacement { cohort }
        if cohort < federation.clients());
    protocol.aggregate == Aggregate::Iterates && partial && uneven && !protocol.scale_objectives
}

/// The moments of a cohort's coefficients.
struct Coefficients<'a> {
    choice: Option<&'a Choice>,
    scheme: Scheme,
    scaled: bool,
    clients: f64,
    /// Cov(c_k, c_l) for k ≠ l in units of E(c_k) E(c_l).
    pairs: f64,
}

impl<'a> Coefficients<'a> {
    /// None for first arrivals of whom nothing is known.
    fn new(
        federation: &Federation,
        protocol: &PFedAvg,
        choice: Option<&'a Choice>,
    ) -> Option<Self> {
        let n = federation.clients() as f64;
        let pairs = match protocol.scheme {
            Scheme::Full => 0.0,
            Scheme::WithReplacement { cohort } => -1.0 / cohort as f64,
            Scheme::WithoutReplacement { cohort } if n > 1.0 => {
                -(n - cohort as f64) / (cohort as f64 * (n - 1.0))
            }
            Scheme::WithoutReplacement { .. } => 0.0,
            Scheme::FirstArrivals { .. } => choice.map(|_| 0.0)?,
        };
        Some(Coefficients {
            choice,
            scheme: protocol.scheme,
            scaled: protocol.scale_objectives,
            clients: n,
            pairs,
        })
    }

    /// E(c), Var(c) − Cov(c, c′) · E(c)/E(c′) and E(c²) of a client of weight p; the second is
    /// nothing where the covariance has a factor.
    fn of(&self, client: usize, p: f64) -> (f64, f64, f64) {
        if let Some(choice) = self.choice {
            let (expected, own) = (choice.expected[client], choice.covariance[(client, client)]);
            return (expected, 0.0, expected * expected + own);
        }
        match self.scheme {
            Scheme::Full => (p, 0.0, p * p),
            Scheme::WithReplacement { cohort } => {
                let k = cohort as f64;
                (p, p / k, p * p + p * (1.0 - p) / k)
            }
            Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. } => {
                let expected = if self.scaled { 1.0 / self.clients } else { p };
                let square = expected * expected * self.clients / cohort as f64;
                let choice = -self.pairs * self.clients * expected * expected;
                (expected, choice, square)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
    use fedback_core::loss::Loss;
    use fedback_core::protocol::{Batch, StepSize};
    use fedback_core::response::{Sensitivity, best_response, location};
    use fedback_core::stream::Seed;

    /// A normal problem with a matrix for every client, unequal weights and a constant step of 0.2.
    #[derive(Clone)]
    pub(super) struct Problem {
        pub(super) sensitivity: Vec<Vec<Vec<f64>>>,
        pub(super) scheme: Scheme,
        pub(super) local_steps: usize,
        pub(super) deploy: Deploy,
        pub(super) scale_objectives: bool,
    }

    impl Default for Problem {
        fn default() -> Self {
            Problem {
                sensitivity: vec![vec![vec![0.0]]],
                scheme: Scheme::Full,
                local_steps: 1,
                deploy: Deploy::Step,
                scale_objectives: false,
            }
        }
    }

    impl Problem {
        fn scalars(sensitivity: &[f64]) -> Self {
            let sensitivity = sensitivity.iter().map(|e| vec![vec![*e]]).collect();
            Problem { sensitivity, ..Problem::default() }
        }

        pub(super) fn federation(&self) -> Federation {
            let (n, dim) = (self.sensitivity.len(), self.sensitivity[0].len());
            let total = (n * (n + 1) / 2) as f64;
            let mean = (0..n * dim).map(|k| 1.0 + (k * k % 5) as f64).collect();
            Federation::new(
                (0..n).map(|i| (i + 1) as f64 / total).collect::<Vec<f64>>(),
                Base::Gaussian(Gaussian { dim, mean, noise: 1.0 }),
                location(&Sensitivity::Matrix(self.sensitivity.clone()), dim, false),
                Loss::Mean,
            )
            .unwrap()
        }

        pub(super) fn protocol(&self) -> PFedAvg {
            PFedAvg {
                scheme: self.scheme,
                local_steps: self.local_steps,
                batch: Batch::Sampled(1),
                step_size: StepSize::Constant(0.2),
                deploy: self.deploy,
                aggregate: Aggregate::Deltas,
                scale_objectives: self.scale_objectives,
            }
        }

        pub(super) fn map(&self) -> RoundMap {
            let zeros = vec![0.0; self.sensitivity[0].len()];
            RoundMap::new(&self.federation(), &self.protocol(), &zeros).unwrap()
        }
    }

    /// One client with one feature, squared loss and a best response.
    pub(super) fn table(
        rows: &[f64],
        labels: &[f64],
        epsilon: f64,
        local_steps: usize,
    ) -> (Federation, PFedAvg) {
        let raw = RawTable {
            features: vec!["x".into()],
            values: rows.to_vec(),
            labels: labels.to_vec(),
            clients: None,
        };
        let how = Preparation {
            shuffle: false,
            standardize: false,
            intercept: false,
            partition: Partition::Equal(1),
            by_class: false,
        };
        let federation = Federation::new(
            vec![1.0],
            Base::Table(Table::new(raw, &how, Seed(1)).unwrap()),
            best_response(&Sensitivity::Scalar(vec![epsilon]), &[0], 1),
            Loss::Squared { l2: 0.0 },
        )
        .unwrap();
        (federation, Problem { local_steps, ..Problem::default() }.protocol())
    }

    #[test]
    fn closed_forms() {
        let limit = |problem: Problem| problem.map().largest_step();
        // One step: |1 − η(1 − ε)| < 1, ε̄ = 0.2/3 + 2 · 0.4/3.
        let close = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-9;
        assert!(close(limit(Problem::scalars(&[0.2, 0.4])), 2.0 / (1.0 - 1.0 / 3.0)));
        // One client, two steps deployed at once: (1−η)² + η(2−η)ε with ε = −2 reaches −1 where
        // 3η² − 6η + 2 = 0.
        let round = Problem { local_steps: 2, deploy: Deploy::Round, ..Problem::scalars(&[-2.0]) };
        assert!(close(limit(round), 1.0 - (1.0f64 / 3.0).sqrt()));
        // A repelling stable point has no limit to speak of.
        assert_eq!(limit(Problem::scalars(&[1.5])), None);
        assert_eq!(Problem::scalars(&[1.5]).map().largest_step_in_mean_square(), None);
    }

    /// One step, one dimension: (1 − ηa)² + ρ η² Var(ε) with the variance that the scheme sees.
    #[test]
    fn mean_square_closed_forms() {
        let epsilon = [0.9, -0.3, 0.5];
        let p = [1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0];
        let mean: f64 = p.iter().zip(epsilon).map(|(p, e)| p * (1.0 - e)).sum();
        let eta = 0.7;
        let close = |scheme: Scheme, scale_objectives: bool, variance: f64| {
            let map = Problem { scheme, scale_objectives, ..Problem::scalars(&epsilon) }.map();
            let expected = (1.0 - eta * mean).powi(2) + eta * eta * variance;
            let found = map.mean_square_radius(eta).unwrap();
            assert!((found - expected).abs() < 1e-12, "{scheme:?}: {found} {expected}");
            assert!(map.mean_square_radius(eta).unwrap() >= map.radius(eta).unwrap().powi(2));
        };
        close(Scheme::Full, false, 0.0);
        let weighted: f64 = p.iter().zip(epsilon).map(|(p, e)| p * (1.0 - e - mean).powi(2)).sum();
        close(Scheme::WithReplacement { cohort: 2 }, false, weighted / 2.0);
        // Two of three: the mean of 3 p_k (1 − ε_k) over pairs, by enumeration. Scaled objectives have
        // the same products.
        let values: Vec<f64> = p.iter().zip(epsilon).map(|(p, e)| 3.0 * p * (1.0 - e)).collect();
        let pairs = [(0, 1), (0, 2), (1, 2)].map(|(k, l)| (values[k] + values[l]) / 2.0);
        let enumerated = pairs.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 3.0;
        close(Scheme::WithoutReplacement { cohort: 2 }, false, enumerated);
        close(Scheme::WithoutReplacement { cohort: 2 }, true, enumerated);
        close(Scheme::WithoutReplacement { cohort: 3 }, false, 0.0);
    }

    /// Averaging models of unequal weights multiplies them at random even where steps are tiny.
    #[test]
    fn averaged_models_never_settle() {
        let problem = Problem {
            scheme: Scheme::WithoutReplacement { cohort: 1 },
            ..Problem::scalars(&[0.1, 0.2])
        };
        let protocol = PFedAvg { aggregate: Aggregate::Iterates, ..problem.protocol() };
        let map = RoundMap::new(&problem.federation(), &protocol, &[0.0]).unwrap();
        // Coefficients 2/3 and 4/3: the mean square is 10/9 as η vanishes.
        assert!((map.mean_square_radius(1e-9).unwrap() - 10.0 / 9.0).abs() < 1e-6);
        assert_eq!(map.largest_step_in_mean_square(), None);
    }
}
