//! Where rounds of a constant step size end: the floor against the exact recursion.

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{
    Aggregate, Deploy, LocalRule, Protocol, Scheme, ServerRule, StepSize,
};
use fedback_core::response::{Sensitivity, location};
use fedback_theory::cohort::Arrived;
use fedback_theory::exact::ExactCurve;
use fedback_theory::limit::RoundMap;
use fedback_theory::stable::stable_point;
use nalgebra::DMatrix;

const SIZE: f64 = 0.2;

/// Three clients of unequal weights in two coordinates that mix.
fn federation() -> Federation {
    let sensitivity = vec![
        vec![vec![0.4, 0.5], vec![-0.5, 0.4]],
        vec![vec![0.0, -1.0], vec![0.5, 0.3]],
        vec![vec![-0.5, 0.0], vec![0.7, -1.0]],
    ];
    let mean = vec![1.0, 2.0, 5.0, 5.0, 2.0, 1.0];
    Federation::new(
        vec![1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0],
        Base::Gaussian(Gaussian { dim: 2, mean, noise: 1.0 }),
        location(&Sensitivity::Matrix(sensitivity), 2, false),
        Loss::Mean,
    )
    .unwrap()
}

/// Four steps a round.
fn protocol(scheme: Scheme) -> Protocol {
    Protocol::p_fedavg(scheme, 4, StepSize::Constant(SIZE))
}

/// The floor is where the recursion ends, and the radius the rate at which the rest vanishes.
fn ends_at_the_floor(federation: &Federation, protocol: &Protocol, arrived: Option<&Arrived>) {
    let point = stable_point(federation, &[0.0, 0.0]).unwrap();
    let mut map = RoundMap::new(federation, protocol, arrived, &point).unwrap();
    let floor = map.floor(SIZE).unwrap().distance_sq();
    let curve = |start: &[f64]| {
        ExactCurve::new(federation, protocol, arrived, start, Some(&point)).unwrap()
    };
    let mut near = curve(&[3.0, -2.0]);
    (0..400).for_each(|_| near.advance());
    let end = near.moments().distance_sq.unwrap();
    assert!((floor - end).abs() < 1e-9 * end, "{protocol:?}: {floor} {end}");
    let mut far = curve(&[1e100, 3e99]);
    (0..40).for_each(|_| far.advance());
    let early = far.moments().distance_sq.unwrap();
    (0..20).for_each(|_| far.advance());
    let rate = (far.moments().distance_sq.unwrap() / early).powf(0.05);
    let radius = map.mean_square_radius(SIZE).unwrap();
    assert!((rate - radius).abs() < 0.05 * radius, "{protocol:?}: {rate} {radius}");
}

#[test]
fn exact_moments_end_at_the_floor() {
    let (deltas, iterates) = (Aggregate::Deltas, Aggregate::Iterates);
    let without = Scheme::WithoutReplacement { cohort: 2 };
    for (scheme, scale_objectives, aggregate) in [
        (Scheme::Full, false, deltas),
        (Scheme::WithReplacement { cohort: 2 }, false, deltas),
        (without, false, deltas),
        (without, false, iterates),
        (without, true, deltas),
    ] {
        for deploy in [Deploy::Step, Deploy::Round] {
            let usual = protocol(scheme);
            let protocol = Protocol { deploy, scale_objectives, aggregate, ..usual };
            ends_at_the_floor(&federation(), &protocol, None);
        }
    }
}

/// The same for algorithms whose server or clients keep something.
#[test]
fn other_algorithms_end_at_the_floor() {
    let proximal = LocalRule::Proximal { proximal: 0.5 };
    let momentum = ServerRule::Momentum { rate: 0.7, beta: 0.3 };
    for (local, server) in [
        (proximal, ServerRule::Average),
        (LocalRule::Descent, momentum),
        (LocalRule::Scaffold, ServerRule::Average),
        (LocalRule::Scaffold, momentum),
    ] {
        for scheme in [Scheme::Full, Scheme::WithReplacement { cohort: 2 }] {
            let protocol = Protocol { local, server, ..protocol(scheme) };
            ends_at_the_floor(&federation(), &protocol, None);
        }
    }
}

/// The same for first arrivals of unequal speed, corrected and not, at the effective weights. The
/// pairs are of latencies whose order is known: rates 4, 2 and 1 race for two places.
#[test]
fn first_arrivals_end_at_the_floor() {
    let race = |first: f64, second: f64, third: f64| {
        let total = first + second + third;
        first / total * second / (second + third) + second / total * first / (first + third)
    };
    let (a, b, c) = (race(4.0, 2.0, 1.0), race(4.0, 1.0, 2.0), race(2.0, 1.0, 4.0));
    let pairs = DMatrix::from_row_slice(3, 3, &[a + b, a, b, a, a + c, c, b, c, b + c]);
    for correct in [false, true] {
        for deploy in [Deploy::Step, Deploy::Round] {
            let federation = federation();
            let usual = protocol(Scheme::FirstArrivals { cohort: 2, correct });
            let protocol = Protocol { deploy, ..usual };
            let arrived = Arrived::new(federation.weights(), pairs.clone(), 2, correct);
            let federation = federation.with_weights(arrived.effective_weights()).unwrap();
            ends_at_the_floor(&federation, &protocol, Some(&arrived));
        }
    }
}
