//! Rounds of every algorithm against brute force: exact moments and radii, by enumeration.

mod literal;

use fedback_core::protocol::{
    Aggregate, Batch, Deploy, LocalRule, Protocol, Scheme, ServerRule, Step, StepSize,
};
use fedback_theory::exact::ExactCurve;
use fedback_theory::limit::RoundMap;
use literal::{Affine, CLIENTS, Problem, WEIGHTS, arrived, cohorts};
use nalgebra::{DMatrix, DVector};

/// FedAvg, and all that came after it.
fn algorithms() -> [(LocalRule, ServerRule); 6] {
    let (proximal, scaffold) = (LocalRule::Proximal { proximal: 0.7 }, LocalRule::Scaffold);
    let (average, momentum) = (ServerRule::Average, ServerRule::Momentum { rate: 0.8, beta: 0.6 });
    [
        (LocalRule::Descent, average),
        (LocalRule::Descent, momentum),
        (proximal, average),
        (proximal, momentum),
        (scaffold, average),
        (scaffold, momentum),
    ]
}

/// Schemes with what is averaged and whether objectives are scaled.
fn schemes() -> [(Scheme, Aggregate, bool); 8] {
    let (deltas, iterates) = (Aggregate::Deltas, Aggregate::Iterates);
    let without = Scheme::WithoutReplacement { cohort: 2 };
    [
        (Scheme::Full, deltas, false),
        (Scheme::WithReplacement { cohort: 2 }, deltas, false),
        (Scheme::WithReplacement { cohort: 3 }, deltas, false),
        (without, deltas, false),
        (without, iterates, false),
        (without, deltas, true),
        (Scheme::FirstArrivals { cohort: 2, correct: false }, deltas, false),
        (Scheme::FirstArrivals { cohort: 2, correct: true }, deltas, false),
    ]
}

/// All of them, deployed at every step and once a round.
fn protocols() -> Vec<Protocol> {
    let usual = Protocol {
        batch: Batch::Sampled(2),
        ..Protocol::p_fedavg(Scheme::Full, 3, StepSize::Decaying { beta: 3.0, gamma: 10.0 })
    };
    let mut all = Vec::new();
    for (local, server) in algorithms() {
        for (scheme, aggregate, scale_objectives) in schemes() {
            for deploy in [Deploy::Step, Deploy::Round] {
                let parts = Protocol { local, server, scheme, aggregate, ..usual };
                let protocol = Protocol { deploy, scale_objectives, ..parts };
                protocol.check(CLIENTS).unwrap();
                all.push(protocol);
            }
        }
    }
    all
}

/// Moments of the whole state by brute force.
struct Moments {
    mean: DVector<f64>,
    covariance: DMatrix<f64>,
    consensus: f64,
}

impl Moments {
    fn at(theta: &[f64]) -> Self {
        let width = theta.len() * (2 + CLIENTS);
        let mut mean = DVector::zeros(width);
        mean.rows_mut(0, theta.len()).copy_from_slice(theta);
        Moments { mean, covariance: DMatrix::zeros(width, width), consensus: 0.0 }
    }

    /// E y yᵀ of an affine function of the state.
    fn second(&self, of: &Affine) -> DMatrix<f64> {
        let mean = &of.map * &self.mean + &of.shift;
        &of.map * &self.covariance * of.map.transpose()
            + &mean * mean.transpose()
            + &of.noise * of.noise.transpose()
    }

    fn advance(&mut self, problem: &Problem, protocol: &Protocol, sizes: &[f64]) {
        let width = self.mean.len();
        let (mut mean, mut second) = (DVector::zeros(width), DMatrix::zeros(width, width));
        let all = cohorts(protocol);
        for cohort in &all {
            let round = problem.affine(protocol, sizes, cohort, |after| after.state);
            mean += (&round.map * &self.mean + &round.shift) * cohort.probability;
            second += self.second(&round) * cohort.probability;
        }
        // Whoever is chosen, all clients could have worked.
        let apart = |client: usize| {
            problem.affine(protocol, sizes, &all[0], |after| {
                let middle: DVector<f64> =
                    after.locals.iter().zip(WEIGHTS).map(|(w, p)| w * p).sum();
                &after.locals[client] - middle
            })
        };
        self.consensus = (0..CLIENTS).map(|i| WEIGHTS[i] * self.second(&apart(i)).trace()).sum();
        self.covariance = second - &mean * mean.transpose();
        self.mean = mean;
    }

    fn distance_sq(&self, centre: &[f64]) -> f64 {
        let square = |j: usize| (self.mean[j] - centre[j]).powi(2) + self.covariance[(j, j)];
        (0..centre.len()).map(square).sum()
    }
}

fn close(found: f64, expected: f64, tolerance: f64, what: &dyn std::fmt::Debug) {
    let gap = (found - expected).abs();
    assert!(gap <= tolerance * expected.abs(), "{what:?}: {found}, enumerated {expected}");
}

/// Follows some rounds both ways. Where nothing but the place that errors are measured from depends
/// on it any point will do for the stable one.
fn follow(problem: &Problem, protocol: &Protocol, rounds: u64) {
    let federation = problem.federation();
    let (start, centre) = (&[3.0, -2.0][..problem.dim()], &[0.7, 1.9][..problem.dim()]);
    let arrived = arrived(protocol.scheme);
    let curve = ExactCurve::new(&federation, protocol, arrived.as_ref(), start, Some(centre));
    let (mut curve, mut moments) = (curve.unwrap(), Moments::at(start));
    for round in 0..rounds {
        let first = round * protocol.local_steps as u64;
        let steps = first..first + protocol.local_steps as u64;
        let sizes: Vec<f64> = steps.map(|t| protocol.step_size.at(Step(t))).collect();
        moments.advance(problem, protocol, &sizes);
        curve.advance();
        let found = curve.moments();
        let what = (round, problem.dim(), protocol);
        close(found.distance_sq.unwrap(), moments.distance_sq(centre), 1e-10, &what);
        close(found.consensus, moments.consensus, 1e-10, &what);
    }
}

#[test]
fn exact_moments_of_every_algorithm() {
    for problem in Problem::all() {
        protocols().iter().for_each(|protocol| follow(&problem, protocol, 4));
    }
}

/// So many steps of one size that their powers are taken by doubling.
#[test]
fn many_steps_of_one_size() {
    let many = |protocol: Protocol| Protocol {
        local_steps: 21,
        step_size: StepSize::Constant(0.04),
        ..protocol
    };
    let with = |p: &Protocol| p.scheme == Scheme::WithReplacement { cohort: 2 };
    for problem in Problem::all() {
        for protocol in protocols().into_iter().filter(with).map(many) {
            follow(&problem, &protocol, 2);
        }
    }
}

/// The spectral radius, as |Aⁿ|^(1/n) of n = 2³⁰: nilpotent parts, of which there are many here, keep
/// algorithms that look for eigenvalues from converging.
fn radius(matrix: &DMatrix<f64>) -> f64 {
    let (mut power, mut logarithm) = (matrix.clone(), 0.0);
    for doubling in 0..30 {
        let norm = power.norm();
        logarithm += norm.ln() / f64::from(1u32 << doubling);
        power /= norm;
        power = &power * &power;
    }
    logarithm.exp()
}

/// X ↦ E(B X Bᵀ) on symmetric matrices, written out.
fn on_second_moments(rounds: &[(f64, DMatrix<f64>)], width: usize) -> DMatrix<f64> {
    let places: Vec<(usize, usize)> =
        (0..width).flat_map(|k| (0..=k).map(move |j| (j, k))).collect();
    let column = |&(j, k): &(usize, usize)| {
        let mut unit = DMatrix::zeros(width, width);
        (unit[(j, k)], unit[(k, j)]) = (1.0, 1.0);
        let image: DMatrix<f64> =
            rounds.iter().map(|(p, map)| map * &unit * map.transpose() * *p).sum();
        DVector::from_iterator(places.len(), places.iter().map(|&place| image[place]))
    };
    DMatrix::from_columns(&places.iter().map(column).collect::<Vec<_>>())
}

#[test]
fn radii_of_every_algorithm() {
    for problem in Problem::all() {
        let federation = problem.federation();
        let width = problem.dim() * (2 + CLIENTS);
        for protocol in protocols() {
            let arrived = arrived(protocol.scheme);
            let theta = vec![0.0; problem.dim()];
            let map = RoundMap::new(&federation, &protocol, arrived.as_ref(), &theta);
            let mut map = map.unwrap();
            for size in [0.05, 0.4] {
                let sizes = vec![size; protocol.local_steps];
                let round = |cohort| problem.affine(&protocol, &sizes, cohort, |after| after.state);
                let rounds: Vec<(f64, DMatrix<f64>)> = cohorts(&protocol)
                    .iter()
                    .map(|cohort| (cohort.probability, round(cohort).map))
                    .collect();
                let expected: DMatrix<f64> = rounds.iter().map(|(p, map)| map * *p).sum();
                let what = (size, problem.dim(), &protocol);
                close(map.radius(size).unwrap(), radius(&expected), 1e-7, &what);
                let square = radius(&on_second_moments(&rounds, width));
                close(map.mean_square_radius(size).unwrap(), square, 1e-7, &what);
            }
        }
    }
}
