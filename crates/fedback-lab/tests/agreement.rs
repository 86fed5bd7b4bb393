//! What is simulated against what mathematics says, and runs that stop against runs that do not.

use std::sync::atomic::{AtomicBool, Ordering};

use fedback_lab::error::Error;
use fedback_lab::event::{Ending, Event, Sink};
use fedback_lab::exact::exact;
use fedback_lab::experiment::{self, Experiment, begin, reopen};
use fedback_lab::outcome::Outcome;
use fedback_lab::plan::Plan;
use fedback_lab::runner;
use fedback_lab::solution::Solution;
use fedback_lab::spec::{Document, Spec};
use fedback_lab::store::Store;

fn plan(text: &str) -> Plan {
    let document = Document::parse(text, "spec").unwrap();
    Experiment::new(&document).unwrap_or_else(|error| panic!("{error}\n{text}")).plans.remove(0)
}

fn run(plan: &Plan) -> Outcome {
    runner::run(plan, None, &mut [], &AtomicBool::new(false)).unwrap()
}

fn spec(sensitivity: &str, dim: usize, algorithm: &str) -> String {
    format!(
        r#"
        seed = 3
        repetitions = 4000
        rounds = 4
        [problem]
        weights = [0.5, 0.1, 0.25, 0.15]
        base = {{ kind = "gaussian", dim = {dim}, mean = [3.0, -1.0, 2.0, 6.0], noise = 0.8 }}
        response = {{ kind = "location", sensitivity = {sensitivity} }}
        loss = {{ kind = "mean" }}
        [measure]
        consensus = true
        [algorithm]
        kind = "p-fedavg"
        step_size = {{ beta = 1.0, gamma = 4.0 }}
        start = 7.0
        {algorithm}
        "#
    )
}

/// Every scheme, rule, deployment and form of sensitivity: means of 4,000 repetitions within 4.5
/// standard errors of the exact moments, at every round.
#[test]
fn simulation_agrees_with_exact_moments() {
    let schemes = [
        "scheme = \"full\"",
        "scheme = \"with-replacement\"\ncohort = 3",
        "scheme = \"without-replacement\"\ncohort = 2",
        "scheme = \"without-replacement\"\ncohort = 3\naggregate = \"iterates\"",
        "scheme = \"without-replacement\"\ncohort = 2\nscale_objectives = true",
        "scheme = \"first-arrivals\"\ncohort = 2\n\
         latency = { kind = \"exponential\", mean = [0.5, 1.0, 2.0, 8.0] }",
        "scheme = \"first-arrivals\"\ncohort = 3\ncorrect = true\n\
         latency = { kind = \"lognormal\", median = [1.0, 1.5, 2.0, 2.0], sigma = 0.6 }",
        "scheme = \"first-arrivals\"\ncohort = 2\ncorrect = true\ndeadline = 2.0\n\
         latency = { kind = \"exponential\", mean = [0.5, 1.0, 2.0, 3.0] }",
        "scheme = \"first-arrivals\"\ncohort = 3\ndeadline = 0.7\n\
         latency = { kind = \"lognormal\", median = 1.0, sigma = [0.2, 0.5, 1.0, 2.0] }",
    ];
    let sensitivities = [
        ("[0.4, -1.2, 0.9, 1.1]", 1),
        ("[[0.4, 0.0], [-1.2, 0.5], [0.9, 0.9], [1.1, -0.3]]", 2),
        (
            "[[[0.4, 0.5], [-0.5, 0.4]], [[0.0, 1.0], [0.2, -0.3]], [[0.9, 0.0], [0.0, 0.9]], 0.3]",
            2,
        ),
    ];
    let mut worst = 0.0f64;
    for scheme in schemes {
        for (sensitivity, dim) in sensitivities {
            for rest in ["local_steps = 3", "local_steps = 2\nbatch = 4\ndeploy = \"round\""] {
                let plan = plan(&spec(sensitivity, dim, &format!("{scheme}\n{rest}")));
                let (sampled, exact) = (run(&plan), exact(&plan).unwrap());
                for (s, e) in sampled.curve.points.iter().zip(&exact.curve.points).skip(1) {
                    for (s, e) in s.values.iter().zip(&e.values) {
                        let error = s.sd.unwrap() / (4000f64).sqrt();
                        let z = (s.mean - e.mean) / error;
                        assert!(z.abs() < 4.5, "{scheme} {sensitivity} {rest}: {s:?} {e:?}");
                        worst = worst.max(z.abs());
                    }
                }
            }
        }
    }
    assert!(worst > 1.0, "standard errors that are never reached are not standard errors");
}

/// First arrivals of equal latencies have the law of sampling without replacement: their simulated
/// curve is within 4.5 standard errors of its exact one, and their own exact curve is the same.
#[test]
fn equally_fast_clients_are_sampled_without_replacement() {
    let drawn = spec("[0.4, -1.2, 0.9, 1.1]", 1, "scheme = \"without-replacement\"\ncohort = 2");
    let expected = exact(&plan(&drawn)).unwrap();
    for (latency, correct) in [
        ("{ kind = \"exponential\", mean = 3.0 }", false),
        ("{ kind = \"lognormal\", median = 1.0, sigma = 2.0 }", true),
    ] {
        let first = drawn.replace(
            "\"without-replacement\"",
            &format!("\"first-arrivals\"\ncorrect = {correct}\nlatency = {latency}"),
        );
        let first = plan(&first);
        let found = exact(&first).unwrap();
        // A deadline that never comes is computed by the integral.
        let late = drawn.replace(
            "\"without-replacement\"",
            &format!(
                "\"first-arrivals\"\ndeadline = 1e12\ncorrect = {correct}\nlatency = {latency}"
            ),
        );
        let late = exact(&plan(&late)).unwrap();
        let sampled = run(&first);
        for (place, point) in expected.curve.points.iter().enumerate().skip(1) {
            for (column, value) in point.values.iter().enumerate() {
                assert_eq!(found.curve.points[place].values[column].mean, value.mean);
                let integrated = late.curve.points[place].values[column].mean;
                assert!((integrated - value.mean).abs() < 1e-11 * value.mean, "{integrated}");
                let simulated = &sampled.curve.points[place].values[column];
                let error = simulated.sd.unwrap() / (4000f64).sqrt();
                assert!(
                    (simulated.mean - value.mean).abs() < 4.5 * error,
                    "{simulated:?} {value:?}"
                );
            }
        }
    }
}

/// Where first arrivals settle: the mean of many repetitions at a small constant step is at the
/// stable point of the effective weights, or of the problem where speed is corrected for.
#[test]
fn first_arrivals_settle_where_theory_says() {
    for (correct, expected) in [(false, 3.393_415_543), (true, 5.982_905_983)] {
        let text = format!(
            r#"
            seed = 5
            repetitions = 400
            rounds = 1500
            [problem]
            weights = [0.1, 0.1, 0.15, 0.15, 0.2, 0.3]
            base = {{ kind = "gaussian", mean = [1.0, 2.0, 3.0, 3.0, 4.0, 5.0] }}
            response = {{ kind = "location", sensitivity = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6] }}
            loss = {{ kind = "mean" }}
            [measure]
            every = 1500
            [algorithm]
            kind = "p-fedavg"
            scheme = "first-arrivals"
            cohort = 2
            correct = {correct}
            step_size = {{ constant = 0.01 }}
            latency = {{ kind = "exponential", mean = [0.25, 0.5, 1.0, 1.0, 2.0, 5.0] }}
            "#
        );
        let plan = plan(&text);
        let settles_at = Solution::of(&plan).arrivals.unwrap().settles_at.unwrap();
        assert!((settles_at[0] - expected).abs() < 1e-9, "{settles_at:?}");
        let outcome = run(&plan);
        let ends: Vec<f64> = outcome.final_theta().iter().flatten().map(|t| t[0]).collect();
        let mean = ends.iter().sum::<f64>() / 400.0;
        let variance = ends.iter().map(|t| (t - mean) * (t - mean)).sum::<f64>() / 399.0;
        let z = (mean - expected) / (variance / 400.0).sqrt();
        assert!(z.abs() < 4.5, "{mean} {expected} {z}");
    }
}

/// The drift of P-FedAvg's fixed point with a constant step, by its own formula: for one client per
/// site and small η the mean settles at θ^PS + η (E−1)/2 · Σ p r ε / (1 − ε̄), to first order.
#[test]
fn constant_steps_settle_beside_the_stable_point() {
    let text = r#"
        rounds = 40000
        [problem]
        weights = [0.5, 0.5]
        base = { kind = "gaussian", mean = [1.0, 3.0], noise = 0.0 }
        response = { kind = "location", sensitivity = [0.2, 0.8] }
        loss = { kind = "mean" }
        [measure]
        every = 40000
        [algorithm]
        kind = "p-fedavg"
        scheme = "full"
        local_steps = 5
        step_size = { constant = 0.001 }
    "#;
    let outcome = run(&plan(text));
    let theta = outcome.final_theta()[0].as_ref().unwrap()[0];
    // θ^PS = 2 / 0.5 = 4, residual drives r = (1 − 3.2, 3 − 0.8) = (−2.2, 2.2).
    let drift = 0.001 * 2.0 * (0.5 * -2.2 * 0.2 + 0.5 * 2.2 * 0.8) / 0.5;
    assert!((theta - 4.0 - drift).abs() < 0.02 * drift, "{theta}");
}

#[test]
fn canonical_specs_round_trip() {
    for text in [
        spec("[0.4, -1.2, 0.9, 1.1]", 1, "scheme = \"full\""),
        spec("{ average = 0.5, variance = 0.1 }", 2, "scheme = \"with-replacement\"\ncohort = 3"),
        spec("{ low = -0.5, high = 0.1 }", 3, "scheme = \"full\"\nlocal_steps = 7"),
    ] {
        let spec = plan(&text).spec.clone();
        let again = Spec::from_canonical(&spec.canonical()).unwrap();
        assert_eq!(spec, again);
        assert_eq!(spec.canonical(), again.canonical());
    }
}

#[test]
fn the_hash_names_what_decides_the_bits() {
    let base = spec("0.5", 1, "scheme = \"full\"");
    let hash = |text: &str| plan(text).hash.clone();
    assert_eq!(hash(&base), hash(&base.replace("seed = 3", "seed  =  3 # the same")));
    assert_ne!(hash(&base), hash(&base.replace("seed = 3", "seed = 4")));
    assert_ne!(hash(&base), hash(&base.replace("noise = 0.8", "noise = 0.9")));
}

/// Stops a run after some rounds, as Ctrl-C would.
struct StopAfter<'a> {
    round: u64,
    stop: &'a AtomicBool,
}

impl Sink for StopAfter<'_> {
    fn take(&mut self, event: &Event<'_>) -> Result<(), Error> {
        if let Event::Advanced { round } = event
            && *round >= self.round
        {
            self.stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[test]
fn resumed_runs_end_as_undisturbed_ones() {
    let text = spec("[0.4, -1.2, 0.9, 1.1]", 1, "scheme = \"with-replacement\"\ncohort = 2")
        .replace("repetitions = 4000", "repetitions = 7")
        .replace("rounds = 4", "rounds = 60")
        .replace("consensus = true", "consensus = true\nevery = 7");
    let plan = plan(&text);
    let whole = run(&plan);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("runs.db")).unwrap();
    let id = begin(&store, &plan, Vec::new()).unwrap();
    let mut resumed_from = Vec::new();
    let ended = loop {
        let again = reopen(&store, id).unwrap();
        let stop = AtomicBool::new(false);
        let round = again.stored.round();
        resumed_from.push(round);
        let mut sink = StopAfter { round: round + 17, stop: &stop };
        let (plan, from) = (again.whole().unwrap(), Some(&again.stored));
        let outcome = experiment::run(plan, Some((&store, id)), from, &mut sink, &stop).unwrap();
        if outcome.ending == Ending::Done {
            break outcome;
        }
    };
    assert!(resumed_from.len() > 2 && resumed_from[1] > 0, "{resumed_from:?}");
    let strip = |outcome: &Outcome| {
        let mut json = serde_json::json!(outcome);
        let object = json.as_object_mut().unwrap();
        // Exact expectations are added when a run is read.
        for key in ["seconds", "resumed_from", "exact"] {
            object.remove(key);
        }
        json.to_string()
    };
    assert_eq!(strip(&whole), strip(&ended));
    let stored = reopen(&store, id).unwrap();
    assert_eq!(stored.stored.ending, Some(Ending::Done));
    assert_eq!(strip(&whole), strip(&stored.outcome()));
}

#[test]
fn a_diverging_repetition_is_named_with_its_cause() {
    let text = spec("0.5", 1, "scheme = \"full\"\nlocal_steps = 5")
        .replace("repetitions = 4000", "repetitions = 3")
        .replace("rounds = 4", "rounds = 400")
        .replace("{ beta = 1.0, gamma = 4.0 }", "{ constant = 9.0 }");
    let plan = plan(&text);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("runs.db")).unwrap();
    let id = begin(&store, &plan, Vec::new()).unwrap();
    let stop = AtomicBool::new(false);
    let outcome = experiment::run(&plan, Some((&store, id)), None, &mut (), &stop).unwrap();
    let Ending::Failed(why) = &outcome.ending else { panic!("{:?}", outcome.ending) };
    for part in ["repetition 0", "round", "step size", "9", "algorithm.step_size"] {
        assert!(why.contains(part), "{why}");
    }
    // (1 − η/2)⁵ leaves [-1, 1] at η = 4.
    assert!(why.contains("is above about 4,"), "{why}");
    assert_eq!(outcome.failed.len(), 3);
    assert!(matches!(store.load(id).unwrap().ending, Some(Ending::Failed(_))));
    assert!(!store.load(id).unwrap().records.is_empty());
    assert!(matches!(exact(&plan), Err(Error::Failed(_))));
}

/// A changed data file changes the bits: such a run is not continued.
#[test]
fn changed_data_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, "a,y\n1,0\n2,1\n3,0\n4,1\n").unwrap();
    let text = r#"
        rounds = 5
        [problem]
        base = { kind = "table", path = "rows.csv", label = "y", partition = { equal = 2 } }
        loss = { kind = "logistic", l2 = 0.1 }
        [algorithm]
        kind = "p-fedavg"
        scheme = "full"
        step_size = { constant = 0.1 }
    "#;
    std::fs::write(folder.path().join("spec.toml"), text).unwrap();
    let experiment = Experiment::read(&folder.path().join("spec.toml")).unwrap();
    let store = Store::open(&folder.path().join("runs.db")).unwrap();
    let id = begin(&store, &experiment.plans[0], Vec::new()).unwrap();
    assert!(reopen(&store, id).is_ok());
    std::fs::write(&file, "a,y\n1,0\n2,1\n3,0\n4,0\n").unwrap();
    let error = reopen(&store, id).err().unwrap();
    assert!(
        matches!(&error, Error::Input(why) if why.contains("data file has changed")),
        "{error}"
    );
}
