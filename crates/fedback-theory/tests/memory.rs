//! Rounds of populations that remember, against numbers derived elsewhere.

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::memory::Memory;
use fedback_core::protocol::{Deploy, Protocol, Scheme, StepSize};
use fedback_core::response::{Sensitivity, location};
use fedback_theory::exact::ExactCurve;
use fedback_theory::stable::stable_point;

/// Three clients of one coordinate.
fn three(memory: Memory) -> Federation {
    Federation::new(
        vec![0.5, 0.3, 0.2],
        Base::Gaussian(Gaussian { dim: 1, mean: vec![1.0, 2.0, 4.0], noise: 1.0 }),
        location(&Sensitivity::Scalar(vec![0.2, 0.5, 0.9]), 1, false),
        Loss::Mean,
    )
    .unwrap()
    .remembering(memory, &[0.0])
    .unwrap()
}

/// E|θ − θ^PS|² after these rounds from a start at zero.
fn curve<const N: usize>(
    federation: &Federation,
    protocol: &Protocol,
    rounds: [u64; N],
) -> [f64; N] {
    let point = stable_point(federation, &vec![0.0; federation.dim()]).unwrap();
    let start = vec![0.0; federation.dim()];
    let mut curve = ExactCurve::new(federation, protocol, None, &start, Some(&point)).unwrap();
    let mut done = 0;
    rounds.map(|round| {
        (done..round).for_each(|_| curve.advance());
        done = round;
        curve.moments().distance_sq.unwrap()
    })
}

fn close(found: &[f64], expected: &[f64], within: f64) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < within * (1.0 + expected), "{found} {expected}");
    }
}

#[test]
fn moments_under_inertia_are_those_of_another_derivation() {
    let federation = three(Memory::Inertia { rate: 0.3 });
    for (scheme, expected) in [
        (Scheme::Full, [7.9529376, 2.7017509, 0.1105136, 0.0278800]),
        (Scheme::WithReplacement { cohort: 2 }, [8.0079520, 2.8678188, 0.5079168, 0.5024276]),
        (Scheme::WithoutReplacement { cohort: 2 }, [7.9601937, 2.7454720, 0.2819214, 0.2480973]),
    ] {
        let usual = Protocol::p_fedavg(scheme, 3, StepSize::Constant(0.1));
        let protocol = Protocol { deploy: Deploy::Round, ..usual };
        let found = curve(&federation, &protocol, [1, 5, 20, 400]);
        close(&found, &expected, 6e-8);
    }
}
