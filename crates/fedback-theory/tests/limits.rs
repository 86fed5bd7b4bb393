//! Radii and largest steps against closed forms.

mod tables;

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Aggregate, Deploy, Protocol, Scheme, StepSize};
use fedback_core::response::{Sensitivity, best_response, location};
use fedback_theory::limit::RoundMap;
use tables::table;

/// A normal problem with a matrix for every client, unequal weights and a constant step of 0.2.
struct Problem {
    sensitivity: Vec<Vec<Vec<f64>>>,
    scheme: Scheme,
    local_steps: usize,
    deploy: Deploy,
    scale_objectives: bool,
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

    fn federation(&self) -> Federation {
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

    fn protocol(&self) -> Protocol {
        let usual = Protocol::p_fedavg(self.scheme, self.local_steps, StepSize::Constant(0.2));
        Protocol { deploy: self.deploy, scale_objectives: self.scale_objectives, ..usual }
    }

    fn map(&self) -> RoundMap {
        let zeros = vec![0.0; self.sensitivity[0].len()];
        RoundMap::new(&self.federation(), &self.protocol(), None, &zeros).unwrap()
    }
}

/// One client with one feature, squared loss and a best response.
fn reacting(
    rows: &[f64],
    labels: &[f64],
    epsilon: f64,
    local_steps: usize,
) -> (Federation, Protocol) {
    let federation = Federation::new(
        vec![1.0],
        Base::Table(table(rows, labels, 1, false)),
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
        let mut map = Problem { scheme, scale_objectives, ..Problem::scalars(&epsilon) }.map();
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
    let protocol = Protocol { aggregate: Aggregate::Iterates, ..problem.protocol() };
    let mut map = RoundMap::new(&problem.federation(), &protocol, None, &[0.0]).unwrap();
    // Coefficients 2/3 and 4/3: the mean square is 10/9 as η vanishes.
    assert!((map.mean_square_radius(1e-9).unwrap() - 10.0 / 9.0).abs() < 1e-6);
    assert_eq!(map.largest_step_in_mean_square(), None);
}

/// One client, two rows x = 1, 3 with squared loss and no reaction, two steps with batches of one:
/// E Π (1 − η x²)² over the four orders of rows.
#[test]
fn batches_that_differ_count() {
    let (federation, protocol) = reacting(&[1.0, 3.0], &[0.0, 0.0], 0.0, 2);
    let mut map = RoundMap::new(&federation, &protocol, None, &[0.0]).unwrap();
    let eta = 0.15;
    let factor = |x: f64| (1.0 - eta * x * x) * (1.0 - eta * x * x);
    let expected = (0.5 * factor(1.0) + 0.5 * factor(3.0)).powi(2);
    assert!((map.mean_square_radius(eta).unwrap() - expected).abs() < 1e-12);
    // (1 − 5η)² + 16η² = 1 at η = 10/41; the mean alone allows η = 2/5.
    assert!((map.largest_step_in_mean_square().unwrap() - 10.0 / 41.0).abs() < 1e-5);
    assert!((map.largest_step().unwrap() - 0.4).abs() < 1e-9);
}

/// A best response: Σ over rows of the squared derivative of the row's own gradient, by finite
/// differences of ℓ′(x̃θ) x̃ with x̃ = x − εθ.
#[test]
fn reacting_rows_count() {
    let (rows, labels, epsilon, theta, eta) = ([1.0, 2.0, -0.5], [1.0, 0.5, 2.0], 0.3, 0.4, 0.1);
    let (federation, protocol) = reacting(&rows, &labels, epsilon, 1);
    let mut map = RoundMap::new(&federation, &protocol, None, &[theta]).unwrap();
    let gradient = |x: f64, y: f64, t: f64| {
        let moved = x - epsilon * t;
        (moved * t - y) * moved
    };
    let h = 1e-5;
    let expected = rows.iter().zip(labels).map(|(x, y)| {
        let slope = (gradient(*x, y, theta + h) - gradient(*x, y, theta - h)) / (2.0 * h);
        (1.0 - eta * slope).powi(2) / 3.0
    });
    let expected: f64 = expected.sum();
    assert!((map.mean_square_radius(eta).unwrap() - expected).abs() < 1e-8);
}
