//! When a reaction is absorbed by the intercept, and when it is not.

mod tables;

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::response::{Sensitivity, best_response, location};
use fedback_core::stream::{Purpose, Seed, Stream};
use fedback_theory::degeneracy::{self, Degeneracy};
use fedback_theory::optimal::optimal_point;
use fedback_theory::stable::stable_point;
use tables::table;

fn people(loss: Loss, sensitivity: &[f64], intercept: bool) -> Federation {
    let mut draws = Stream::for_problem(Seed(11), Purpose::Means).draws();
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..240 {
        let x: [f64; 3] = std::array::from_fn(|_| draws.normal());
        labels.push(f64::from(x[0] - 0.7 * x[1] + 0.4 + draws.normal() > 0.0));
        values.extend(x);
    }
    let table = table(&values, &labels, 3, intercept);
    let response = best_response(&Sensitivity::Scalar(sensitivity.to_vec()), &[0, 2], table.dim);
    Federation::new([0.2, 0.5, 0.3], Base::Table(table), response, loss).unwrap()
}

/// Of the stable point that a run from a start settles at, and the optimal one.
fn degeneracy(federation: &Federation, start: &[f64]) -> Degeneracy {
    let stable = stable_point(federation, start);
    let starts: Vec<&[f64]> = stable.iter().map(Vec::as_slice).collect();
    let optimal = optimal_point(federation, &starts).map(|point| point.theta);
    degeneracy::degeneracy(federation, stable.as_deref(), optimal.as_deref())
}

const LOGISTIC: Loss = Loss::Logistic { l2: 0.01 };

/// One ε for all: PS is the static point with its intercept moved by ε |θ_S|², however large ε.
#[test]
fn a_common_sensitivity_is_absorbed() {
    for loss in [LOGISTIC, Loss::Squared { l2: 0.01 }] {
        for strength in [0.5, 5.0] {
            let federation = people(loss, &[strength; 3], true);
            let found = degeneracy(&federation, &[0.0; 4]);
            assert!(found.absorbed && found.is_degenerate(), "{found:?}");
            assert!(found.stable_minus_static_features.unwrap() < 1e-7, "{found:?}");
            assert!(found.stable_minus_optimal.unwrap() < 1e-6, "{found:?}");
            let stable = stable_point(&federation, &[0.0; 4]).unwrap();
            let moved = strength * (stable[0] * stable[0] + stable[2] * stable[2]);
            assert!((found.stable_minus_static.unwrap() - moved).abs() < 1e-7, "{found:?}");
        }
    }
}

#[test]
fn different_sensitivities_are_not() {
    let found = degeneracy(&people(LOGISTIC, &[0.0, 0.5, 4.0], true), &[0.0; 4]);
    assert!(found.reacts && !found.is_degenerate(), "{found:?}");
    assert!(found.stable_minus_static_features.unwrap() > 0.01);
    assert!(found.stable_minus_optimal.unwrap() > 0.01);
}

#[test]
fn nearly_common_sensitivities_hardly_matter() {
    let found = degeneracy(&people(LOGISTIC, &[0.1, 0.11, 0.105], true), &[0.0; 4]);
    assert!(found.reacts && !found.absorbed && found.is_small(), "{found:?}");
}

/// Without an intercept nothing absorbs the shift, and the loss `mean` has no intercept.
#[test]
fn no_intercept_absorbs_nothing() {
    let found = degeneracy(&people(LOGISTIC, &[1.0; 3], false), &[0.0; 3]);
    assert!(!found.absorbed && found.stable_minus_static_features.unwrap() > 0.01, "{found:?}");
    let gaussian = Federation::new(
        vec![0.5, 0.5],
        Base::Gaussian(Gaussian { dim: 1, mean: vec![1.0, 3.0], noise: 1.0 }),
        location(&Sensitivity::Scalar(vec![0.5; 2]), 1, false),
        Loss::Mean,
    )
    .unwrap();
    let found = degeneracy(&gaussian, &[0.0]);
    assert!(!found.absorbed);
    assert!((found.stable_minus_static.unwrap() - 2.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn no_reaction_is_said_to_be_none() {
    let found = degeneracy(&people(LOGISTIC, &[0.0; 3], true), &[0.0; 4]);
    assert!(!found.absorbed && !found.reacts && found.is_degenerate());
    assert!(found.stable_minus_static.unwrap() < 1e-9);
    // A client without weight does not count.
    let federation = people(LOGISTIC, &[0.5, 0.5, 9.0], true);
    let federation = federation.with_weights([0.4, 0.6, 0.0]).unwrap();
    assert!(degeneracy(&federation, &[0.0; 4]).absorbed);
}
