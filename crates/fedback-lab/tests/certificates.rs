//! Certificates of random federations against simulation: *settles* is never wrong.
//!
//! `FEDBACK_CERTIFICATES=2000` checks as many instead of the few of every day, and
//! `FEDBACK_CERTIFICATES_FROM` others.

mod random;

use std::collections::BTreeMap;

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Round, StepSize};
use fedback_core::stream::Seed;
use fedback_engine::backend::{Course, assemble};
use fedback_lab::check::Check;
use fedback_lab::plan::Plan;
use fedback_theory::certificate::Verdict;
use fedback_theory::cohort::rescales;
use rayon::prelude::*;

const REPETITIONS: u64 = 24;

/// √ of the mean squared distances to `point` at a few rounds up to the last, infinite where a repetition
/// failed.
fn distances(plan: &Plan, protocol: &Protocol, point: &[f64], rounds: u64) -> Vec<f64> {
    let federation: &Federation = plan.federation();
    let weights = federation.weights().clone();
    let course = Course::new(*protocol, weights, Seed(99), &plan.start, REPETITIONS);
    let mut backend = assemble(federation, course).unwrap();
    [rounds / 2, 3 * rounds / 4, rounds]
        .map(|until| {
            backend.advance(Round(until), false).unwrap();
            if !backend.state().failed().is_empty() {
                return f64::INFINITY;
            }
            let square = |theta: &[f64]| -> f64 {
                theta.iter().zip(point).map(|(a, b)| (a - b) * (a - b)).sum()
            };
            let total: f64 = backend.state().repetitions.iter().map(|r| square(r.theta())).sum();
            (total / REPETITIONS as f64).sqrt()
        })
        .to_vec()
}

/// Rounds that a test can afford.
fn affordable(plan: &Plan) -> f64 {
    let each = plan.federation().clients() * plan.protocol.local_steps * plan.federation().dim();
    (3e5 / each as f64).max(50.0)
}

enum Outcome {
    Held,
    Undecided,
    Wrong(String),
}

/// What simulation says of a verdict.
fn verify(plan: &Plan, check: &Check) -> Outcome {
    let Some(truth) = check.stable_points.first() else { return Outcome::Undecided };
    let point = &truth.theta;
    let apart = |a: &[f64]| a.iter().zip(point).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    let start = apart(&plan.start);
    match check.verdict {
        Verdict::Settles => settles(plan, &plan.protocol, check, check.own_steps.rounds),
        Verdict::SettlesWithSmallSteps => {
            let Some(size) = check.small_steps.constant else { return Outcome::Undecided };
            let protocol = Protocol { step_size: StepSize::Constant(size), ..plan.protocol };
            settles(plan, &protocol, check, Some(3.0 / (size * truth.gradient_margin.unwrap())))
        }
        Verdict::DoesNotSettle | Verdict::MinimisationOnly => {
            // Away from the stable point, at its own steps and at small ones; models that are averaged
            // scatter too slowly to be seen.
            let rescales = rescales(plan.federation(), &plan.protocol);
            if rescales || start < 0.1 * check.own_steps.scale {
                return Outcome::Undecided;
            }
            let rounds = affordable(plan) as u64;
            let found = distances(plan, &plan.protocol, point, rounds);
            let small = Protocol { step_size: StepSize::Constant(1e-3), ..plan.protocol };
            let slowly = distances(plan, &small, point, rounds);
            // Decaying steps may rest beside the point for long while they are large.
            let constant = matches!(plan.protocol.step_size, StepSize::Constant(_));
            match (constant && found[2] < 0.25 * start) || slowly[2] < 0.25 * start {
                true => Outcome::Wrong(format!("{start} -> {found:?}, small steps {slowly:?}")),
                false => Outcome::Held,
            }
        }
        Verdict::Unknown => Outcome::Undecided,
    }
}

fn settles(plan: &Plan, protocol: &Protocol, check: &Check, expected: Option<f64>) -> Outcome {
    let scale = check.own_steps.scale;
    let point = &check.stable_points[0].theta;
    let wanted = 2.0 * expected.unwrap_or(0.0) + 100.0;
    let rounds = wanted.min(affordable(plan));
    let found = distances(plan, protocol, point, rounds as u64);
    // Before it is expected to be near, it must only be bounded.
    let allowed = if rounds >= wanted { 0.75 * scale } else { 2.0 * scale };
    match found.iter().all(|far| *far <= allowed) {
        true if rounds >= wanted => Outcome::Held,
        true => Outcome::Undecided,
        false => Outcome::Wrong(format!("{found:?} after {rounds} rounds, scale {scale}")),
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn settles_is_never_wrong() {
    let count = number("FEDBACK_CERTIFICATES").unwrap_or(60);
    let from = number("FEDBACK_CERTIFICATES_FROM").unwrap_or(0);
    let results: Vec<(u64, Check, Outcome)> = (from..from + count)
        .into_par_iter()
        .map(|seed| {
            let plan = random::plan(seed);
            let check = Check::of(&plan, &mut |_| ()).unwrap();
            let outcome = verify(&plan, &check);
            (seed, check, outcome)
        })
        .collect();
    let mut tally: BTreeMap<(bool, Verdict, &str), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (seed, check, outcome) in &results {
        let word = match outcome {
            Outcome::Held => "held",
            Outcome::Undecided => "undecided",
            Outcome::Wrong(why) => {
                wrong.push(format!("{seed} {}: {why}\n  {}", check.verdict.name(), check.reason));
                "wrong"
            }
        };
        *tally.entry((random::is_table(*seed), check.verdict, word)).or_default() += 1;
    }
    if number("FEDBACK_CERTIFICATES").is_some() {
        for (seed, check, _) in &results {
            if check.verdict == Verdict::Unknown {
                println!("{seed} unknown: {}", check.reason);
            }
        }
        for ((table, verdict, word), count) in &tally {
            println!("table {table:5} {:26}{word:10} {count}", verdict.name());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A test that certifies nothing could not fail.
    for table in [false, true] {
        let held = |verdict| tally.get(&(table, verdict, "held")).copied().unwrap_or(0) as f64;
        let share = count as f64 / 2.0;
        assert!(held(Verdict::Settles) > 0.15 * share, "{tally:?}");
        assert!(held(Verdict::SettlesWithSmallSteps) > 0.05 * share, "{tally:?}");
    }
    assert!(
        tally
            .keys()
            .any(|(_, verdict, word)| { *verdict == Verdict::DoesNotSettle && *word == "held" })
    );
}
