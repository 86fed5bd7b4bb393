//! Repeated minimisation, judged against as many plain minimisations as it takes to see.

mod tables;

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Protocol, Scheme, StepSize};
use fedback_core::response::{Sensitivity, best_response};
use fedback_core::stream::{Purpose, Seed, Stream};
use fedback_theory::certificate::Certificate;
use fedback_theory::minimisation::{Minimisation, Why};
use fedback_theory::stable::stable_points;
use nalgebra::DVector;
use tables::table;

/// Three clients with thirty rows each whose sensitivities are multiples of `scale`.
fn rows(loss: Loss, seed: u64, scale: f64) -> Federation {
    let mut draws = Stream::for_problem(Seed(seed), Purpose::Means).draws();
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..90 {
        let x: [f64; 3] = std::array::from_fn(|_| draws.normal());
        let score = x[0] - 0.7 * x[1] + 0.4 + draws.normal();
        let label = (score > 0.0) as u8 as f64;
        labels.push(if matches!(loss, Loss::Squared { .. }) { score } else { label });
        values.extend(x);
    }
    let table = table(&values, &labels, 3, true);
    let sensitivity = Sensitivity::Scalar([1.0, -0.4, 0.2].map(|e| e * scale).to_vec());
    let response = best_response(&sensitivity, &[0, 1], table.dim);
    Federation::new([0.5, 0.3, 0.2], Base::Table(table), response, loss).unwrap()
}

fn radius(federation: &Federation) -> f64 {
    let report = stable_points(federation, &vec![0.0; federation.dim()]);
    report.points[0].minimisation_radius.unwrap()
}

/// The rows with the smallest scale whose radius is the given one.
fn with_radius(loss: Loss, seed: u64, wanted: f64) -> Federation {
    let (mut low, mut high) = (0.0, 1.0);
    while radius(&rows(loss, seed, high)) < wanted {
        (low, high) = (high, 1.3 * high);
        assert!(high < 1e3, "no such radius");
    }
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if radius(&rows(loss, seed, middle)) < wanted { low = middle } else { high = middle }
    }
    rows(loss, seed, high)
}

/// What solve and check say, which must be the same.
fn judged(federation: &Federation, start: &[f64]) -> Minimisation {
    let protocol = Protocol::p_fedavg(Scheme::Full, 1, StepSize::Constant(0.01));
    let solved = stable_points(federation, start).minimisation;
    let checked = Certificate::of(federation, &protocol, None, start, 10, &mut |_| ());
    assert_eq!(checked.judgement.minimisation.settles, solved.settles);
    solved
}

const LOSSES: [Loss; 2] = [Loss::Logistic { l2: 0.02 }, Loss::Squared { l2: 0.02 }];

/// A plain minimisation: Newton's method on a convex risk, its steps halved until the risk falls.
fn minimised(federation: &Federation, deployed: &DVector<f64>) -> DVector<f64> {
    let mut theta = deployed.clone();
    for _ in 0..50 {
        let field = federation.mean_field(theta.as_slice(), deployed.as_slice());
        let mut step = field.curvature.lu().solve(&field.gradient).unwrap();
        if step.norm() < 1e-13 {
            break;
        }
        let risk = |at: &DVector<f64>| federation.risk(at.as_slice(), deployed.as_slice());
        while step.norm() > 1e-6 && risk(&(&theta - &step)) > field.risk {
            step *= 0.5;
        }
        theta -= step;
    }
    theta
}

/// The model after many plain minimisations, and how far the last of them moved it.
fn after(federation: &Federation, start: &[f64], minimisations: usize) -> (DVector<f64>, f64) {
    let mut theta = DVector::from_column_slice(start);
    let mut moved = f64::NAN;
    for _ in 0..minimisations {
        let next = minimised(federation, &theta);
        moved = (&next - &theta).norm();
        theta = next;
    }
    (theta, moved)
}

/// A hundred minimisations show nothing of these radii; thousands do.
#[test]
fn radii_below_one_settle() {
    for (loss, seed) in LOSSES.into_iter().flat_map(|loss| [1, 2, 3].map(|seed| (loss, seed))) {
        for wanted in [0.5, 0.96, 0.9915, 0.9999] {
            let federation = with_radius(loss, seed, wanted);
            for start in [[0.0; 4], [1.0, -1.0, 0.5, 0.0]] {
                let found = judged(&federation, &start);
                assert_eq!(found.settles, Some(true), "{loss:?} {seed} {wanted}: {found:?}");
                let Why::Radius(radius) = found.why else { panic!("{found:?}") };
                assert!((radius - wanted).abs() < 1e-6);
                if wanted < 0.9999 {
                    let (theta, _) = after(&federation, &start, 3000);
                    let apart = (theta - DVector::from_vec(found.end.unwrap())).norm();
                    assert!(apart < 1e-8, "{loss:?} {seed} {wanted}: {apart}");
                }
            }
        }
    }
}

#[test]
fn radii_above_one_do_not() {
    let mut cycles = 0;
    for (loss, seed) in LOSSES.into_iter().flat_map(|loss| [1, 2, 3].map(|seed| (loss, seed))) {
        for wanted in [1.01, 1.3] {
            let federation = with_radius(loss, seed, wanted);
            let found = judged(&federation, &[0.0; 4]);
            assert_eq!(found.settles, Some(false), "{loss:?} {seed} {wanted}: {found:?}");
            let (theta, moved) = after(&federation, &[0.0; 4], 2000);
            assert!(moved > 1e-2, "{loss:?} {seed} {wanted}: {moved}");
            if found.why == Why::Cycle {
                cycles += 1;
                let end = DVector::from_vec(found.end.unwrap());
                let apart =
                    (&theta - &end).norm().min((minimised(&federation, &theta) - end).norm());
                assert!(apart < 1e-6, "{loss:?} {seed} {wanted}: {apart}");
            }
            // It rests where it starts there, and would leave if anything pushed it.
            let point = stable_points(&federation, &[0.0; 4]).points[0].theta.clone();
            let Why::Rests(radius) = judged(&federation, &point).why else { panic!() };
            assert!((radius - wanted).abs() < 1e-6);
        }
    }
    assert!(cycles >= 6, "{cycles}");
}
