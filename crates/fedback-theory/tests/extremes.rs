//! Numbers at the ends of what can be represented: every question has an end, and an answer in words
//! where there is no number.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use fedback_core::arrivals::{Arrivals, Latency};
use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Protocol, Scheme, StepSize};
use fedback_core::response::{Sensitivity, location};
use fedback_theory::bounds::{Bound, Bounds, Undefined, Value};
use fedback_theory::constants::{Constant, Constants};
use fedback_theory::degeneracy::degeneracy;
use fedback_theory::inclusion::{inclusion, pairs};
use fedback_theory::optimal::optimal_point;
use fedback_theory::stable::{stable_point, stable_points};

/// The result of work that ends; fails where it does not.
fn ending<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    let most = Duration::from_secs(30);
    result.recv_timeout(most).unwrap_or_else(|_| panic!("{what}: no end within {most:?}"))
}

fn gaussian(mean: [f64; 2], noise: f64, sensitivity: [f64; 2]) -> Federation {
    Federation::new(
        [0.5, 0.5],
        Base::Gaussian(Gaussian { dim: 1, mean: mean.to_vec(), noise }),
        location(&Sensitivity::Scalar(sensitivity.to_vec()), 1, false),
        Loss::Mean,
    )
    .unwrap()
}

fn protocol(scheme: Scheme, local_steps: usize, step_size: StepSize) -> Protocol {
    Protocol::p_fedavg(scheme, local_steps, step_size)
}

fn bounds(federation: &Federation, protocol: &Protocol, start: f64) -> Bounds {
    let point = stable_point(federation, &[start]);
    let point = point.as_deref();
    let constants = Constants::of(federation, protocol, &[start], point);
    Bounds::new(federation, protocol, &[start], point, &constants, None, 5)
}

/// Every number of a version, the alternative's and the protocol's own.
fn values(found: &Bounds) -> Vec<Value> {
    let of = |bound: &Bound| {
        let Bound { mu_tilde, c, eta0, b, beta, gamma, upsilon } = *bound;
        [&c[..], &[mu_tilde, eta0, b, beta, gamma, upsilon]].concat()
    };
    let alternative = &found.alternative;
    let others =
        [alternative.gradient_bound, alternative.printed, alternative.corrected, found.own_step];
    [&of(&found.printed)[..], &of(&found.corrected), &others].concat()
}

const DECAYING: StepSize = StepSize::Decaying { beta: 4.0, gamma: 1e3 };

/// The search for the first step multiplied zero by infinity for ever.
#[test]
fn bounds_have_an_end() {
    for (mean, start) in [([1e77, 2e77], 0.0), ([1.0, 2.0], 1e308)] {
        let found = ending("bounds", move || {
            bounds(&gaussian(mean, 0.1, [0.2, 0.3]), &protocol(Scheme::Full, 5, DECAYING), start)
        });
        assert_eq!(found.corrected.gamma, Err(Undefined::TooLarge), "{mean:?} {start}");
    }
}

/// An L so small that c2 = L² (1 + ε_max)² is zero times infinity.
#[test]
fn nothing_times_infinity_has_an_end() {
    let found = ending("bounds", || {
        let (federation, protocol) =
            (gaussian([1.0, 2.0], 0.1, [1e200, 0.0]), protocol(Scheme::Full, 5, DECAYING));
        let mut constants = Constants::of(&federation, &protocol, &[0.0], Some(&[1.0]));
        constants.smoothness = Constant::given(1e-300);
        Bounds::new(&federation, &protocol, &[0.0], Some(&[1.0]), &constants, Some(1e-9), 5)
    });
    assert_eq!(found.corrected.gamma, Err(Undefined::TooLarge));
}

/// No number that is none, whatever goes in.
#[test]
fn bounds_are_finite_or_in_words() {
    let sizes = [0.0, 5e-324, 1e-200, 1e-9, 1.0, 1e77, 1e150, 1e300, 1.7e308];
    for (mean, start) in sizes.iter().flat_map(|m| sizes.map(|s| (*m, s))) {
        for noise in [0.0, 1.0, 1e200] {
            for scheme in [Scheme::Full, Scheme::WithoutReplacement { cohort: 1 }] {
                for sensitivity in [[0.0, 0.0], [0.2, 0.3], [1e-300, 0.9], [1e200, 0.0]] {
                    let what = format!("{mean} {start} {noise} {scheme:?} {sensitivity:?}");
                    let found = ending(&what, move || {
                        let federation = gaussian([mean, 0.5 * mean], noise, sensitivity);
                        bounds(&federation, &protocol(scheme, 2, DECAYING), start)
                    });
                    for value in values(&found) {
                        assert!(
                            value.as_ref().map_or(true, |n| n.is_finite()),
                            "{what}: {value:?}"
                        );
                    }
                }
            }
        }
    }
}

/// Latencies and deadlines of all sizes: probabilities, or a reason.
#[test]
fn arrivals_have_an_end() {
    let sizes = [5e-324, 1e-300, 1e-12, 1.0, 1e12, 1.7e308];
    let mut latencies = Vec::new();
    for (one, other) in sizes.iter().flat_map(|one| sizes.map(|other| (*one, other))) {
        latencies.push(Latency::Exponential { mean: vec![one, other, one] });
        let (median, sigma) = (vec![1.0, one, 1.0], vec![other, 1.0, 1e-3]);
        latencies.push(Latency::Lognormal { median, sigma });
    }
    for (latency, deadline) in latencies
        .iter()
        .flat_map(|l| sizes.map(Some).into_iter().chain([None]).map(move |d| (l, d)))
    {
        let arrivals = Arrivals { latency: Arc::new(latency.clone()), deadline };
        for cohort in 1..=3 {
            let what = format!("{arrivals:?} {cohort}");
            let own = arrivals.clone();
            let (single, both) =
                ending(&what, move || (inclusion(&own, cohort), pairs(&own, cohort)));
            let probabilities = single.iter().flatten().chain(both.iter().flat_map(|m| m.iter()));
            assert!({ probabilities }.all(|p| (0.0..=1.0).contains(p)), "{what}");
            let sum: f64 = single.iter().flatten().sum();
            let certain = deadline.is_none() && single.is_ok();
            assert!(!certain || (sum - cohort as f64).abs() < 1e-9, "{what}: {sum}");
        }
    }
}

/// A problem of two coordinates that mix, with entries of the given sizes.
fn mixing(mean: f64, entries: [f64; 4]) -> Federation {
    let [a, b, c, d] = entries;
    let one = vec![vec![a, b], vec![c, d]];
    let other = vec![vec![d, 0.0], vec![b, a]];
    Federation::new(
        [0.5, 0.5],
        Base::Gaussian(Gaussian { dim: 2, mean: vec![mean, -mean, mean, 1.0], noise: 1.0 }),
        location(&Sensitivity::Matrix(vec![one, other]), 2, false),
        Loss::Mean,
    )
    .unwrap()
}

const SIZES: [f64; 10] = [0.0, 5e-324, 1e-310, 1e-160, 1.0, 1e77, 1e150, 1e200, 1e300, f64::MAX];

/// Matrices of all sizes.
#[test]
fn points_have_an_end() {
    for (large, small) in SIZES.iter().flat_map(|a| SIZES.map(|b| (*a, b))) {
        for entries in [[large, small, -small, large], [small, large, -large, small], [large; 4]] {
            for mean in [1.0, 1e200] {
                let what = format!("{mean:e} {entries:?}");
                ending(&what, move || {
                    let federation = mixing(mean, entries);
                    let report = stable_points(&federation, &[0.0, 1.0]);
                    let point = report.points.first().map(|point| point.theta.as_slice());
                    let finite = |theta: &[f64]| theta.iter().all(|t| t.is_finite());
                    assert!(point.is_none_or(finite));
                    let optimal = optimal_point(&federation, &[]);
                    assert!(optimal.is_none_or(|found| finite(&found.theta)));
                    let protocol = protocol(Scheme::Full, 2, DECAYING);
                    let constants = Constants::of(&federation, &protocol, &[0.0, 1.0], point);
                    assert_eq!(constants.sensitivities.len(), 2);
                    degeneracy(&federation, point, None)
                });
            }
        }
    }
}
