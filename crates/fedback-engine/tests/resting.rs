//! Where rules come to rest without noise, and how fast: ten local steps of size 0.1.
//!
//! The first problem has weights 0.5, 0.3, 0.2, means 1, 2, 4 and sensitivities 0.2, 0.5, 0.9; its
//! stable point is 1.9/0.57 = 10/3. Clients drift, so that averages rest beside it; SCAFFOLD does not.

use std::sync::Arc;

use fedback_core::arrivals::{Arrivals, Latency};
use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{
    Batch, Deploy, LocalRule, Protocol, Round, Scheme, ServerRule, StepSize,
};
use fedback_core::response::{Sensitivity, location};
use fedback_core::stream::Seed;
use fedback_engine::backend::{Backend, Course};
use fedback_engine::cohort::CohortSampler;
use fedback_engine::simulate::Simulation;

fn problem(weights: &[f64], means: &[f64], sensitivities: &[f64]) -> Federation {
    let base = Base::Gaussian(Gaussian { dim: 1, mean: means.to_vec(), noise: 0.0 });
    let response = location(&Sensitivity::Scalar(sensitivities.to_vec()), 1, false);
    Federation::new(weights, base, response, Loss::Mean).unwrap()
}

fn drifting() -> Federation {
    problem(&[0.5, 0.3, 0.2], &[1.0, 2.0, 4.0], &[0.2, 0.5, 0.9])
}

fn protocol(scheme: Scheme, local: LocalRule, server: ServerRule) -> Protocol {
    Protocol { local, server, ..Protocol::p_fedavg(scheme, 10, StepSize::Constant(0.1)) }
}

/// θ after every one of some rounds. Where the first to arrive make cohorts, there are three clients,
/// each twice as fast as the next.
fn path(federation: &Federation, protocol: Protocol, start: f64, rounds: u64) -> Vec<f64> {
    let weights = federation.weights().clone();
    let latency = Latency::Exponential { mean: vec![1.0, 2.0, 4.0] };
    let arrivals = Arrivals { latency: Arc::new(latency), deadline: None };
    let sampler = CohortSampler::new(&protocol, weights.clone()).with_arrivals(arrivals, None);
    let course = Course::new(protocol, weights, Seed(1), &[start], 1);
    let course = Course { sampler: Arc::new(sampler), ..course };
    let mut simulation = Simulation::new(federation, course);
    (1..=rounds)
        .map(|round| {
            simulation.advance(Round(round), false).unwrap();
            simulation.state().repetitions[0].theta()[0]
        })
        .collect()
}

/// How far from 10/3 the first problem comes to rest: it is there and stays there.
fn error_at_rest(protocol: Protocol) -> f64 {
    let path = path(&drifting(), protocol, 0.5, 2000);
    let end = path[1999];
    assert!(path[1900..].iter().all(|theta| (theta - end).abs() < 1e-10), "{protocol:?}");
    (end - 10.0 / 3.0).abs()
}

/// What the server makes of Δ does not move the point where Δ is zero.
#[test]
fn averages_rest_beside_the_stable_point() {
    for server in [
        ServerRule::Average,
        ServerRule::Momentum { rate: 0.5, beta: 0.8 },
        ServerRule::Adam { rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 0.1 },
    ] {
        let error = error_at_rest(protocol(Scheme::Full, LocalRule::Descent, server));
        assert!((error - 0.4552883).abs() < 1e-7, "{server:?}: {error}");
    }
}

/// A spring makes the drift less, never none.
#[test]
fn springs_hold_the_drift_back() {
    for (proximal, expected) in [(0.0, 0.4552883), (0.5, 0.4276893), (5.0, 0.1817348)] {
        let local = LocalRule::Proximal { proximal };
        let error = error_at_rest(protocol(Scheme::Full, local, ServerRule::Average));
        assert!((error - expected).abs() < 1e-7, "{proximal}: {error}");
    }
}

/// SCAFFOLD rests on the stable point, whoever takes part, also where the fast ones take part more
/// often, whichever θ is deployed, and whatever the server makes of Δ.
#[test]
fn scaffold_rests_on_the_stable_point() {
    let momentum = ServerRule::Momentum { rate: 0.5, beta: 0.8 };
    let adam = ServerRule::Adam { rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 0.1 };
    for scheme in [
        Scheme::Full,
        Scheme::WithReplacement { cohort: 2 },
        Scheme::WithoutReplacement { cohort: 2 },
        Scheme::FirstArrivals { cohort: 2, correct: false },
    ] {
        let usual = protocol(scheme, LocalRule::Scaffold, ServerRule::Average);
        for (deploy, batch) in [
            (Deploy::Step, Batch::Sampled(1)),
            (Deploy::Step, Batch::All),
            (Deploy::Round, Batch::Sampled(1)),
        ] {
            let error = error_at_rest(Protocol { deploy, batch, ..usual });
            assert!(error < 1e-9, "{scheme:?} {deploy:?}: {error}");
        }
    }
    for server in [momentum, adam] {
        let error = error_at_rest(protocol(Scheme::Full, LocalRule::Scaffold, server));
        assert!(error < 1e-9, "{server:?}: {error}");
    }
    let scheme = Scheme::WithoutReplacement { cohort: 2 };
    let scaled = protocol(scheme, LocalRule::Scaffold, ServerRule::Average);
    let error = error_at_rest(Protocol { scale_objectives: true, ..scaled });
    assert!(error < 1e-9, "{error}");
}

/// Weights 0.8 and 0.2, means 1, sensitivities 0 and 3: the second client runs away from every model,
/// by (1 + 0.1 · 2)^10 a round. Errors of averages grow by 0.8 · 0.9^10 + 0.2 · 1.2^10 = 1.5173.
#[test]
fn averages_may_run_away() {
    let federation = problem(&[0.8, 0.2], &[1.0, 1.0], &[0.0, 3.0]);
    let usual = protocol(Scheme::Full, LocalRule::Descent, ServerRule::Average);
    let (one, other) = (path(&federation, usual, 0.0, 30), path(&federation, usual, 1.0, 30));
    for round in 1..30 {
        let apart = |round: usize| other[round] - one[round];
        let factor = apart(round) / apart(round - 1);
        assert!((factor - 1.5173).abs() < 1e-4, "{round}: {factor}");
    }
}

/// Where averages run away, SCAFFOLD settles on the stable point 1/0.4 = 2.5, in the end by 0.9^10 =
/// 0.3487 a round.
#[test]
fn scaffold_settles_where_averages_run_away() {
    let federation = problem(&[0.8, 0.2], &[1.0, 1.0], &[0.0, 3.0]);
    let scaffold = protocol(Scheme::Full, LocalRule::Scaffold, ServerRule::Average);
    let path = path(&federation, scaffold, 0.0, 60);
    assert!((path[59] - 2.5).abs() < 1e-12, "{}", path[59]);
    for round in 14..18 {
        let factor = (path[round] - 2.5) / (path[round - 1] - 2.5);
        assert!((factor - 0.3486784401).abs() < 1e-7, "{round}: {factor}");
    }
}
