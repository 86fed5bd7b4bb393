//! Where rounds of populations that remember end up, and whether they do.

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::memory::Memory;
use fedback_core::protocol::{Batch, Deploy, LocalRule, Protocol, Scheme, StepSize};
use fedback_core::response::{Sensitivity, location};
use fedback_theory::asymptotic::large_time;
use fedback_theory::certificate::{Certificate, Verdict};
use fedback_theory::limit::RoundMap;
use fedback_theory::stable::{stable_point, stable_points};

use super::unrolled::distances;
use super::{ALGORITHMS, MEMORIES, SCHEMES, clients, curve};

/// One client whose data move by a matrix, [[a, −b], [b, a]].
fn turning(a: f64, b: f64, memory: Option<Memory>) -> Federation {
    let base = Gaussian { dim: 2, mean: vec![1.0, 0.5], noise: 0.1 };
    let moves = Sensitivity::Matrix(vec![vec![vec![a, -b], vec![b, a]]]);
    let shift = location(&moves, 2, false);
    let problem = Federation::new(vec![1.0], Base::Gaussian(base), shift, Loss::Mean).unwrap();
    match memory {
        None => problem,
        Some(memory) => problem.remembering(memory, &[0.0, 0.0]).unwrap(),
    }
}

fn steps(local_steps: usize, size: f64, deploy: Deploy) -> Protocol {
    let usual = Protocol::p_fedavg(Scheme::Full, local_steps, StepSize::Constant(size));
    Protocol { deploy, ..usual }
}

#[test]
fn runs_end_at_their_rest() {
    for memory in MEMORIES {
        let problem = clients(true, memory);
        let federation = problem.federation();
        let point = stable_point(&federation, &[0.0, 0.0]).unwrap();
        for (scheme, (local, server)) in
            SCHEMES.into_iter().flat_map(|s| ALGORITHMS.map(|rules| (s, rules)))
        {
            for deploy in [Deploy::Step, Deploy::Round] {
                let usual = Protocol::p_fedavg(scheme, 3, StepSize::Constant(0.15));
                let protocol = Protocol { local, server, deploy, ..usual };
                let mut map = RoundMap::new(&federation, &protocol, None, &point).unwrap();
                let floor = map.floor(0.15).unwrap().distance_sq();
                let [found] = curve(&federation, &protocol, [400]);
                assert!(
                    (found - floor).abs() < 1e-8 * floor,
                    "{memory:?} {protocol:?} {found} {floor}"
                );
            }
        }
    }
}

/// A broadcast that no longer changes is what everybody remembers.
#[test]
fn memory_of_broadcasts_moves_no_rest_and_scaffold_rests_at_the_stable_point() {
    let bias = |memory, local, deploy| {
        let federation = clients(true, memory).federation();
        let point = stable_point(&federation, &[0.0, 0.0]).unwrap();
        let protocol = Protocol { local, ..steps(5, 0.1, deploy) };
        RoundMap::new(&federation, &protocol, None, &point).unwrap().floor(0.1).unwrap().bias
    };
    let proximal = LocalRule::Proximal { proximal: 0.7 };
    for memory in MEMORIES {
        // Curvatures agree, so that what is deployed once a round rests at the stable point.
        for local in [LocalRule::Descent, proximal, LocalRule::Scaffold] {
            let found = bias(memory, local, Deploy::Round).norm();
            assert!(found < 1e-12, "{memory:?} {local:?} {found}");
        }
        assert!(bias(memory, LocalRule::Scaffold, Deploy::Step).norm() < 1e-10, "{memory:?}");
        let drift = bias(memory, LocalRule::Descent, Deploy::Step).norm();
        assert!(drift > 1e-3, "{memory:?} {drift}");
    }
}

/// Averaging over a client's own steps is what a filter of weight one leaves alone: to first order in
/// the step size, drift does not depend on memory.
#[test]
fn small_steps_drift_as_without_memory() {
    for memory in &MEMORIES[1..] {
        let bias = |memory| {
            let federation = clients(true, memory).federation();
            let point = stable_point(&federation, &[0.0, 0.0]).unwrap();
            let protocol = Protocol { batch: Batch::All, ..steps(4, 1e-4, Deploy::Step) };
            RoundMap::new(&federation, &protocol, None, &point).unwrap().floor(1e-4).unwrap().bias
        };
        let (with, without) = (bias(*memory), bias(None));
        let apart = (&with - &without).norm();
        assert!(apart < 1e-2 * without.norm(), "{memory:?} {with} {without}");
        assert!(apart > 1e-9 * without.norm(), "{memory:?}: no memory at all?");
    }
}

#[test]
fn repeated_minimisation_is_helped_by_inertia_and_hurt_by_delay() {
    let radius = |kappa: f64, memory| {
        let federation = turning(kappa, 0.0, memory);
        stable_points(&federation, &[0.0, 0.0]).points[0].minimisation_radius.unwrap()
    };
    for (rate, expected) in [(1.0, 2.5), (0.5, 0.75), (0.2, 0.3)] {
        let found = radius(-2.5, Some(Memory::Inertia { rate }));
        assert!((found - expected).abs() < 1e-7, "{rate}: {found}");
    }
    // λ^(K + 1) = κ: slower where it contracts, and no cure where it does not.
    for deployments in [1, 4] {
        let late = Some(Memory::Delay { deployments });
        let root = |kappa: f64| kappa.abs().powf(1.0 / (deployments + 1) as f64);
        assert!((radius(-0.5, late) - root(0.5)).abs() < 1e-7);
        assert!((radius(-2.0, late) - root(2.0)).abs() < 1e-7);
    }
    // 4 λ⁴ = κ (λ³ + λ² + λ + 1): settles for −4 < κ < 1.
    let parts = Some(Memory::Staggered { parts: 4 });
    assert!(radius(-3.99, parts) < 1.0 && radius(-4.01, parts) > 1.0);
    assert!(radius(0.99, parts) < 1.0 && radius(1.01, parts) > 1.0);
    assert!((radius(-2.5, Some(Memory::Staggered { parts: 1 })) - 2.5).abs() < 1e-12);
}

#[test]
fn a_delay_of_24_steps_is_too_long_for_steps_of_a_twentieth() {
    let radius = |deployments| {
        let federation = turning(-2.0, 0.0, Some(Memory::Delay { deployments }));
        let protocol = steps(1, 0.05, Deploy::Step);
        RoundMap::new(&federation, &protocol, None, &[0.0, 0.0]).unwrap().radius(0.05).unwrap()
    };
    assert!(radius(23) < 1.0 && radius(24) > 1.0, "{} {}", radius(23), radius(24));
}

/// b² < (1 − a)(1 + r)²/r with r = ρ/(ηE): a model and a population that are equally fast swing each
/// other up, although both limits settle.
#[test]
fn inertia_resonates_with_steps_of_its_own_speed() {
    let (a, b) = (0.5, 2.0);
    let radius = |rate: f64, size: f64| {
        let federation = turning(a, b, Some(Memory::Inertia { rate }));
        let protocol = steps(1, size, Deploy::Round);
        RoundMap::new(&federation, &protocol, None, &[0.0, 0.0]).unwrap().radius(size).unwrap()
    };
    let size = 1e-4;
    for r in [0.01, 0.1, 0.17, 0.18, 1.0, 5.5, 5.9, 6.0, 10.0, 100.0] {
        let settles = b * b < (1.0 - a) * (1.0 + r) * (1.0 + r) / r;
        let found = radius(r * size, size);
        assert_eq!(found < 1.0, settles, "{r}: {found}");
    }
}

/// The margin of H + J says that small steps settle; the run's own do not, in the resonance, and the
/// certificate says so.
#[test]
fn certificates_know_the_resonance() {
    let slow = Some(Memory::Inertia { rate: 0.05 });
    let verdict = |memory, size| {
        let federation = turning(0.5, 2.0, memory);
        let protocol = steps(1, size, Deploy::Round);
        let found = Certificate::of(&federation, &protocol, None, &[0.0, 0.0], 100, &mut |_| {});
        let limit = found.judgement.small_steps.largest_step.unwrap();
        (found.judgement.own_steps.answer.settles, limit, found.judgement.verdict())
    };
    let (own, free, _) = verdict(None, 0.05);
    assert!(own == Some(true) && free > 0.05, "{free}");
    let (own, limit, found) = verdict(slow, 0.05);
    assert_eq!((own, found), (Some(false), Verdict::SettlesWithSmallSteps));
    // r = ρ/η at the edge: (1 + r)²/r = b²/(1 − a) = 8.
    let edge = 0.05 / (3.0 + 8f64.sqrt());
    assert!((limit / edge - 1.0).abs() < 0.05, "{limit} {edge}");
    assert_eq!(verdict(slow, 0.5 * limit).0, Some(true));
}

#[test]
fn what_is_remembered_is_where_a_run_begins() {
    let problem = clients(false, Some(Memory::Delay { deployments: 2 }));
    let far = super::Problem { past: vec![30.0], ..clients(false, problem.memory) };
    let protocol = steps(3, 0.15, Deploy::Round);
    let point = stable_point(&problem.federation(), &[0.0]).unwrap();
    let [near] = curve(&problem.federation(), &protocol, [2]);
    let [found] = curve(&far.federation(), &protocol, [2]);
    let expected = distances(&far, &protocol, &[0.0], &point, &[2])[0];
    assert!((found - expected).abs() < 1e-10 * expected && found > 2.0 * near);
}

/// Steps that vanish are slow beside any memory: the law of large t does not know of it.
#[test]
fn the_law_of_large_t_is_that_without_memory() {
    for memory in MEMORIES {
        for deploy in [Deploy::Step, Deploy::Round] {
            for noise in [1.0, 0.0] {
                let problem = super::Problem { noise, ..clients(false, memory) };
                let federation = problem.federation();
                let point = stable_point(&federation, &[0.0]).unwrap();
                let step_size = StepSize::Decaying { beta: 3.0, gamma: 30.0 };
                let protocol = Protocol { step_size, ..steps(3, 0.1, deploy) };
                let law = large_time(&federation, &protocol, Some(&point)).unwrap();
                let [found] = curve(&federation, &protocol, [4000]);
                let time = 12_000.0 + law.gamma;
                let mean = law.mean.as_ref().unwrap()[0];
                let expected = match noise > 0.0 {
                    true => law.at(12_000.0),
                    false => (mean / time).powi(2),
                };
                let apart = (found - expected).abs();
                assert!(
                    apart < 0.02 * expected + 1e-14,
                    "{memory:?} {deploy:?} {noise} {found} {expected}"
                );
            }
        }
    }
}
