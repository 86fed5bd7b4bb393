//! Who is simulated to arrive first against the probabilities, and specs of latencies.

use std::sync::Arc;

use fedback_core::arrivals::{Arrivals, Latency, Trace};
use fedback_core::protocol::{
    Aggregate, Batch, Deploy, LocalRule, Protocol, Round, Scheme, ServerRule, StepSize,
};
use fedback_core::stream::Seed;
use fedback_engine::cohort::{Cohort, CohortSampler};
use fedback_lab::experiment::Experiment;
use fedback_lab::spec::{Document, Spec};
use fedback_theory::inclusion::{inclusion, pairs};

fn protocol(cohort: usize, correct: bool) -> Protocol {
    Protocol {
        scheme: Scheme::FirstArrivals { cohort, correct },
        local_steps: 1,
        batch: Batch::Sampled(1),
        step_size: StepSize::Constant(0.1),
        deploy: Deploy::Step,
        aggregate: Aggregate::Deltas,
        scale_objectives: false,
        clip: None,
        local: LocalRule::Descent,
        server: ServerRule::Average,
    }
}

/// How often clients, and pairs of them, are among the first is as likely as theory says, and with
/// correct coefficients E[coefficient_i] = p_i, each within 4.5 standard errors.
#[test]
fn arrivals_are_as_likely_as_theory_says() {
    const ROUNDS: u64 = 20_000;
    let records = [vec![1.0, 2.0], vec![2.0], vec![1.0, 3.0], vec![2.0, 2.0, 4.0], vec![3.0, 1.0]];
    let latencies = [
        Latency::Exponential { mean: vec![0.25, 0.5, 1.0, 2.0, 5.0] },
        Latency::Lognormal {
            median: vec![1.0, 1.0, 2.0, 3.0, 1.5],
            sigma: vec![0.2, 1.0, 0.5, 1.5, 0.7],
        },
        Latency::Trace(Trace::new(&records)),
    ];
    let weights = [0.1, 0.15, 0.2, 0.25, 0.3];
    for latency in latencies {
        for (cohort, deadline) in [(1, None), (3, None), (2, Some(1.5))] {
            let arrivals = Arrivals { latency: Arc::new(latency.clone()), deadline };
            let single = inclusion(&arrivals, cohort).unwrap();
            let both = pairs(&arrivals, cohort).unwrap();
            let reachable = single.iter().all(|pi| *pi > 0.0);
            let protocol = protocol(cohort, reachable);
            let sampler = CohortSampler::new(&protocol, weights.into())
                .with_arrivals(arrivals, reachable.then(|| single.clone().into()));
            let mut buffer = Cohort::default();
            let (mut together, mut coefficients) = ([[0u32; 5]; 5], [0.0; 5]);
            for round in 0..ROUNDS {
                sampler.draw(Seed(3), 0, Round(round), &mut buffer);
                for (member, c) in buffer.members.iter().zip(&buffer.coefficients) {
                    let other = |o: &fedback_core::federation::ClientId| o.0 as usize;
                    coefficients[other(member)] += c;
                    buffer.members.iter().for_each(|o| together[other(member)][other(o)] += 1);
                }
            }
            let close = |found: f64, expected: f64, scale: f64, what: &str| {
                let chance = expected / scale;
                let error = scale * (chance * (1.0 - chance) / ROUNDS as f64).sqrt();
                let found = found / ROUNDS as f64;
                assert!(
                    (found - expected).abs() <= 4.5 * error + 1e-12,
                    "{what}: {found} {expected} ± {error} ({latency:?}, {cohort}, {deadline:?})"
                );
            };
            for (i, row) in together.iter().enumerate() {
                for (j, count) in row.iter().enumerate() {
                    close(f64::from(*count), both[(i, j)], 1.0, "probability");
                }
            }
            let all = coefficients.iter().zip(weights).zip(&single);
            // A coefficient is p/π or nothing.
            for ((sum, p), pi) in all.filter(|_| reachable) {
                close(*sum, p, p / pi, "coefficient");
            }
        }
    }
}

#[test]
fn latencies_survive_a_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("seconds.csv"), "0,1\n1.5,2\n,2.5\n").unwrap();
    for rest in [
        "latency = { kind = \"exponential\", mean = { low = 0.5, high = 2.0 } }",
        "latency = { kind = \"lognormal\", median = [1.0, 2.0], sigma = 0.5 }\ncorrect = true",
        "latency = { kind = \"trace\", path = \"seconds.csv\" }\ndeadline = 2",
        "deadline = 30.0",
    ] {
        let text = format!(
            r#"
            rounds = 3
            [problem]
            clients = 2
            base = {{ kind = "gaussian", mean = 1.0 }}
            loss = {{ kind = "mean" }}
            [algorithm]
            kind = "p-fedavg"
            scheme = "first-arrivals"
            cohort = 1
            step_size = {{ constant = 0.1 }}
            {rest}
            "#
        );
        let path = folder.path().join("spec.toml");
        std::fs::write(&path, text).unwrap();
        let plan = Experiment::new(&Document::read(&path).unwrap()).unwrap().plans.remove(0);
        assert_eq!(plan.arrivals.is_some(), rest.contains("latency"));
        let canonical = plan.spec.canonical();
        assert_eq!(Spec::from_canonical(&canonical).unwrap(), plan.spec, "{canonical}");
    }
    // What is new is left out where it is not used: old plans keep their hash.
    let old = Document::parse(
        "rounds = 1\n[problem]\nclients = 1\nbase = { kind = \"gaussian\", mean = 1.0 }\n\
         loss = { kind = \"mean\" }\n[algorithm]\nkind = \"p-fedavg\"\nscheme = \"full\"\n\
         step_size = { constant = 0.1 }",
        "spec",
    );
    let plan = Experiment::new(&old.unwrap()).unwrap().plans.remove(0);
    let canonical = plan.spec.canonical();
    assert!(!canonical.contains("correct") && !canonical.contains("latency"), "{canonical}");
}
