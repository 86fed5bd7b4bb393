//! The first clients to arrive: who they are, how often, and what their updates count.

use std::sync::Arc;

use fedback_core::arrivals::{Arrivals, Latency, Trace};
use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Protocol, Round, Scheme, StepSize};
use fedback_core::response::{Sensitivity, location};
use fedback_core::stream::Seed;
use fedback_engine::backend::{Backend, Course};
use fedback_engine::cohort::{Cohort, CohortSampler};
use fedback_engine::simulate::Simulation;

fn protocol(scheme: Scheme) -> Protocol {
    Protocol::p_fedavg(scheme, 2, StepSize::Constant(0.1))
}

fn sampler(scheme: Scheme, weights: &[f64]) -> CohortSampler {
    CohortSampler::new(&protocol(scheme), weights.into())
}

/// Latencies of exponential, log-normal and traced clients, the last with ties.
fn latencies() -> [Latency; 3] {
    let trace = [vec![1.0, 2.0], vec![2.0], vec![1.0, 3.0], vec![2.0, 2.0, 4.0], vec![3.0]];
    [
        Latency::Exponential { mean: vec![1.0, 2.0, 0.5, 4.0, 1.0] },
        Latency::Lognormal { median: vec![1.0, 2.0, 0.5, 1.0, 1.0], sigma: vec![0.7; 5] },
        Latency::Trace(Trace::new(&trace)),
    ]
}

fn first_arrivals(
    (cohort, correct): (usize, bool),
    latency: Latency,
    deadline: Option<f64>,
    weights: &[f64],
) -> CohortSampler {
    let arrivals = Arrivals { latency: Arc::new(latency), deadline };
    let scheme = Scheme::FirstArrivals { cohort, correct };
    sampler(scheme, weights).with_arrivals(arrivals, None)
}

#[test]
fn first_arrivals_are_pinned() {
    let mut cohort = Cohort::default();
    let drawn = latencies().map(|latency| {
        let sampler = first_arrivals((2, false), latency, None, &[0.2; 5]);
        [0, 1, 2].map(|round| {
            sampler.draw(Seed(7), 0, Round(round), &mut cohort);
            assert!(cohort.coefficients.iter().all(|c| *c == 0.2 * 2.5));
            [cohort.members[0].0, cohort.members[1].0]
        })
    });
    assert_eq!(drawn, PINNED_FIRST);
}

const PINNED_FIRST: [[[u32; 2]; 3]; 3] =
    [[[2, 4], [0, 2], [2, 4]], [[2, 4], [2, 3], [2, 4]], [[1, 2], [0, 2], [0, 2]]];

/// Equal latencies, ties included: every pair of four clients equally often, by a chi-square of
/// five degrees of freedom (20.5 is exceeded once in a thousand times).
#[test]
fn equally_fast_clients_are_drawn_without_replacement() {
    let equal = [
        Latency::Exponential { mean: vec![3.0; 4] },
        Latency::Lognormal { median: vec![2.0; 4], sigma: vec![1.5; 4] },
        Latency::Trace(Trace::new(&vec![vec![1.0, 1.0, 5.0]; 4])),
    ];
    for latency in equal {
        let sampler = first_arrivals((2, false), latency, None, &[0.25; 4]);
        let mut counts = [[0.0; 4]; 4];
        let mut cohort = Cohort::default();
        let rounds = 12_000;
        for round in 0..rounds {
            sampler.draw(Seed(11), 2, Round(round), &mut cohort);
            counts[cohort.members[0].0 as usize][cohort.members[1].0 as usize] += 1.0;
        }
        let expected = rounds as f64 / 6.0;
        let pairs = (0..4).flat_map(|i| (i + 1..4).map(move |j| (i, j)));
        let square: f64 =
            pairs.map(|(i, j)| (counts[i][j] - expected) * (counts[i][j] - expected)).sum();
        assert!(square / expected < 20.5, "{counts:?}");
    }
}

/// Who is too late is not in it, and if everybody is, nobody is.
#[test]
fn a_deadline_cuts_off() {
    let mut cohort = Cohort::default();
    let trace = || Latency::Trace(Trace::new(&[vec![1.0], vec![2.0], vec![3.0]]));
    for (deadline, expected) in [(0.5, vec![]), (2.0, vec![0, 1]), (9.0, vec![0, 1, 2])] {
        let sampler = first_arrivals((3, false), trace(), Some(deadline), &[0.2, 0.3, 0.5]);
        sampler.draw(Seed(1), 0, Round(0), &mut cohort);
        assert_eq!(cohort.members.iter().map(|c| c.0).collect::<Vec<_>>(), expected);
        assert_eq!(cohort.coefficients.len(), expected.len());
    }
}

/// Arrivals that really happened get the coefficients of those that were drawn.
#[test]
fn real_arrivals_have_the_same_coefficients() {
    let weights = [0.2, 0.3, 0.5];
    let (mut drawn, mut given) = (Cohort::default(), Cohort::default());
    for correct in [false, true] {
        let latency = Latency::Exponential { mean: vec![1.0, 2.0, 3.0] };
        let arrivals = Arrivals { latency: Arc::new(latency), deadline: None };
        let scheme = Scheme::FirstArrivals { cohort: 2, correct };
        let sampler =
            sampler(scheme, &weights).with_arrivals(arrivals, Some([0.9, 0.6, 0.5].into()));
        sampler.draw(Seed(5), 0, Round(3), &mut drawn);
        sampler.of_arrivals(&drawn.members.clone(), &mut given);
        assert_eq!(drawn.members, given.members);
        assert_eq!(drawn.coefficients, given.coefficients);
    }
    // The last one was corrected.
    let first = given.members[0].0 as usize;
    assert_eq!(given.coefficients[0], weights[first] / [0.9, 0.6, 0.5][first]);
}

/// Without a description of arrivals nobody is known to come.
#[test]
fn nobody_arrives_unless_described() {
    let scheme = Scheme::FirstArrivals { cohort: 1, correct: false };
    let mut cohort = Cohort::default();
    sampler(scheme, &[0.5, 0.5]).draw(Seed(1), 0, Round(0), &mut cohort);
    assert!(cohort.members.is_empty() && cohort.coefficients.is_empty());
}

fn simulate(deadline: f64, threads: usize, stops: &[u64]) -> Vec<u64> {
    let clients = 40;
    let federation = Federation::new(
        vec![1.0 / clients as f64; clients],
        Base::Gaussian(Gaussian {
            dim: 1,
            mean: (0..clients).map(|i| i as f64).collect(),
            noise: 1.0,
        }),
        location(&Sensitivity::Scalar(vec![0.3; clients]), 1, false),
        Loss::Mean,
    )
    .unwrap();
    let latency = Latency::Exponential { mean: (1..=clients).map(|i| i as f64).collect() };
    let arrivals = Arrivals { latency: Arc::new(latency), deadline: Some(deadline) };
    let protocol = protocol(Scheme::FirstArrivals { cohort: 7, correct: false });
    let weights = federation.weights().clone();
    let sampler = CohortSampler::new(&protocol, weights.clone()).with_arrivals(arrivals, None);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let course = Course::new(protocol, weights, Seed(4), &[2.0], 9);
    let mut course = Course { sampler: Arc::new(sampler), ..course };
    for &stop in stops {
        course.state = pool.install(|| {
            let mut simulation = Simulation::new(&federation, course.clone());
            simulation.advance(Round(stop), false).unwrap();
            simulation.state().clone()
        });
    }
    course.state.servers().map(f64::to_bits).collect()
}

/// Deadlines that leave few or nobody: cohorts of all sizes.
#[test]
fn bits_do_not_depend_on_threads_or_resumes() {
    for deadline in [0.5, 3.0, 1e9] {
        let one = simulate(deadline, 1, &[30]);
        assert_eq!(one, simulate(deadline, 3, &[30]));
        assert_eq!(one, simulate(deadline, 2, &[1, 17, 30]));
    }
}

#[test]
fn a_round_without_arrivals_leaves_the_model() {
    assert_eq!(simulate(1e-300, 1, &[5]), vec![2.0f64.to_bits(); 9]);
}
