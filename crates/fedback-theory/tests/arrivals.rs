//! What the first to arrive count, by enumeration.

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Protocol, Scheme, StepSize};
use fedback_core::response::{Sensitivity, location};
use fedback_theory::cohort::{Arrived, effective_weights};
use fedback_theory::limit::RoundMap;
use nalgebra::DMatrix;

const WEIGHTS: [f64; 3] = [0.2, 0.3, 0.5];
/// Two of three clients, with given probabilities of every pair.
const CHANCE: [([usize; 2], f64); 3] = [([0, 1], 0.6), ([0, 2], 0.3), ([1, 2], 0.1)];

fn pairs() -> DMatrix<f64> {
    let mut pairs = DMatrix::zeros(3, 3);
    for ([k, l], p) in CHANCE {
        [(k, k), (l, l), (k, l), (l, k)].into_iter().for_each(|place| pairs[place] += p);
    }
    pairs
}

fn share(client: usize, correct: bool) -> f64 {
    WEIGHTS[client] * if correct { 1.0 / pairs()[(client, client)] } else { 3.0 / 2.0 }
}

#[test]
fn means_by_enumeration() {
    for correct in [false, true] {
        let arrived = Arrived::new(&WEIGHTS, pairs(), 2, correct);
        let mut mean = [0.0; 3];
        for (pair, p) in CHANCE {
            pair.into_iter().for_each(|i| mean[i] += p * share(i, correct));
        }
        let found = arrived.expected();
        found.iter().zip(mean).for_each(|(a, b)| assert!((a - b).abs() < 1e-15));
        assert!((arrived.speed() - mean.iter().sum::<f64>()).abs() < 1e-15);
        let expected = match correct {
            true => WEIGHTS.to_vec(),
            false => effective_weights(&WEIGHTS, pairs().diagonal().as_slice()),
        };
        let found = arrived.effective_weights();
        found.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-15));
    }
}

/// One step in one dimension multiplies errors by 1 − η Σ c_k (1 − ε_k): its mean square has all
/// variances and covariances in it, each with a factor of its own.
#[test]
fn covariances_by_enumeration() {
    let (epsilon, eta) = ([0.9, -0.3, 0.5], 0.7);
    let federation = Federation::new(
        WEIGHTS.to_vec(),
        Base::Gaussian(Gaussian { dim: 1, mean: vec![1.0; 3], noise: 1.0 }),
        location(&Sensitivity::Scalar(epsilon.to_vec()), 1, false),
        Loss::Mean,
    )
    .unwrap();
    for correct in [false, true] {
        let arrived = Arrived::new(&WEIGHTS, pairs(), 2, correct);
        let scheme = Scheme::FirstArrivals { cohort: 2, correct };
        let protocol = Protocol::p_fedavg(scheme, 1, StepSize::Constant(eta));
        let mut map = RoundMap::new(&federation, &protocol, Some(&arrived), &[0.0]).unwrap();
        let square = |(pair, p): ([usize; 2], f64)| {
            let slope: f64 = pair.map(|i| share(i, correct) * (1.0 - epsilon[i])).iter().sum();
            p * (1.0 - eta * slope).powi(2)
        };
        let expected: f64 = CHANCE.map(square).iter().sum();
        let found = map.mean_square_radius(eta).unwrap();
        assert!((found - expected).abs() < 1e-14, "{found} {expected}");
    }
}
