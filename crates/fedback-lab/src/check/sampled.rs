//! The certificate of a problem of which a part is a function, from samples and a trial.
//!
//! *Settles* is said where the margin on samples is beyond doubt and a trial of the run itself, as long as
//! the margin says that it takes, ends near the stable point and is not on its way out. Nothing else is
//! ever certain here: whoever is not seen to settle is unknown.

use std::sync::atomic::{AtomicBool, Ordering};

use fedback_core::protocol::{Aggregate, Protocol, Round, Scheme, Step};
use fedback_engine::backend::Backend;
use fedback_engine::plain::Blocks;
use fedback_engine::simulate::Simulation;
use fedback_theory::certificate;
use fedback_theory::certificate::{LocalTruth, Verdict};
use fedback_theory::degeneracy;
use fedback_theory::stable::Stability;

use super::trial::Trial;
use super::{
    Approximation, Assumptions, Check, Constant, Constants, Degeneracy, OwnSteps, SmallSteps, words,
};
use crate::custom::Custom;
use crate::error::Error;
use crate::runner::Runnable;
use crate::sampled::{Sampling, distance, norm};
use crate::solution::Solution;
use crate::words::short;

/// Repetitions of a trial.
const REPETITIONS: u64 = 16;
/// Local steps of clients that a trial may take, all together, and rounds.
const EFFORT: f64 = 1e6;
const MOST_ROUNDS: u64 = 20_000;
/// What a margin must have shrunk errors by when a trial ends: e⁻⁴.
const TIMES: f64 = 4.0;
/// Near, in units of the problem's scale; growth from the middle of a trial to its end that is chance.
const NEAR: f64 = 0.4;
const CHANCE: f64 = 1.3;
/// Why a constant or a bound is not known.
const UNKNOWN: &str = "not known of functions";

impl Check {
    /// Checks a problem of which a part is a function, on samples.
    pub fn sampled<B: Blocks>(
        custom: &Custom<B>,
        stop: &AtomicBool,
        stage: &mut dyn FnMut(&'static str),
    ) -> Result<Self, Error> {
        stage("sampling");
        let found = Sampling::of(custom, stop)?;
        let solution = Solution::of_samples(custom, &found);
        stage("trying");
        let (own, trial) = own_steps(custom, &found, stop)?;
        let (plan, nowhere) = (&custom.plan, solution.stable_point.is_none());
        let small = SmallSteps {
            // Who settles at steps of some size is certain of no other.
            settles: None,
            why: found.reason().unwrap_or_else(|| "no other step sizes were tried".into()),
            largest_step: None,
            largest_step_in_mean: None,
            constant: None,
            beta: None,
            gamma: None,
        };
        let verdict =
            Verdict::of(solution.minimisation.settles, own.settles, small.settles, nowhere);
        let size = solution.stable_point.as_deref().map_or(0.0, norm);
        let apart = solution.stable_point.as_ref().zip(solution.optimal_point.as_ref());
        let apart = apart.map(|(stable, optimal)| distance(stable, optimal));
        let price = solution.risk_stable.zip(solution.risk_optimal);
        let price = price.map(|(stable, optimal)| stable - optimal);
        let constant = || Constant { value: None, origin: "unknown", how: UNKNOWN };
        let assumptions =
            certificate::Assumptions { ball: None, mu: None, smoothness: None, single: None };
        let degeneracy = degeneracy::Degeneracy {
            reacts: true,
            absorbed: false,
            stable_minus_static: None,
            stable_minus_static_features: None,
            stable_minus_optimal: apart,
            size,
        };
        let first = |place: usize| place == 0;
        let points = solution.stable_points.iter().enumerate().map(|(place, theta)| LocalTruth {
            theta: theta.clone(),
            stability: if first(place) { solution.stability } else { Stability::Unknown },
            risk: if first(place) { solution.risk_stable.unwrap_or(f64::NAN) } else { f64::NAN },
            price_of_stability: price.filter(|_| first(place)),
            minimisation_radius: solution.minimisation_radius.filter(|_| first(place)),
            gradient_margin: solution.gradient_margin.filter(|_| first(place)),
            largest_step: None,
            largest_step_in_mean: None,
            bias: None,
        });
        let mut check = Check {
            verdict,
            reason: String::new(),
            average_sensitivity: None,
            mu: None,
            smoothness: None,
            threshold: None,
            condition: None,
            minimisation_radius: solution.minimisation_radius,
            gradient_margin: solution.gradient_margin,
            largest_step: None,
            price_of_stability: price,
            degenerate: false,
            per_client: Vec::new(),
            tips: "how single clients react is not known of functions".into(),
            minimisation: solution.minimisation.clone(),
            own_steps: own,
            small_steps: small,
            constants: Constants {
                average_sensitivity: constant(),
                mu: constant(),
                smoothness: constant(),
            },
            assumptions: Assumptions {
                found: assumptions,
                condition: None,
                words: ["A1", "A2", "A3"].map(|which| format!("{which}: {UNKNOWN}")),
            },
            stable_points: points.collect(),
            local_optima: None,
            approximation: Approximation {
                distance: apart,
                proposition: None,
                local: None,
                why: "Proposition 2.6: its constants are not known of functions",
            },
            degeneracy: Degeneracy { words: UNKNOWN.into(), found: degeneracy },
            trial,
            first_arrivals: None,
            lying: None,
            confidence: None,
            stable_point: solution.stable_point,
            optimal_point: solution.optimal_point,
            risk_stable: solution.risk_stable,
            risk_optimal: solution.risk_optimal,
            table: solution.table,
            doubts: plan.spec.doubts.clone(),
            sample: solution.sample,
            standard_error: solution.standard_error,
        };
        check.reason = words::reason(&check, &plan.protocol);
        Ok(check)
    }
}

/// What the plan's own steps do, and the trial that was made of them.
fn own_steps<B: Blocks>(
    custom: &Custom<B>,
    found: &Sampling,
    stop: &AtomicBool,
) -> Result<(OwnSteps, Option<Trial>), Error> {
    let plan = &custom.plan;
    let point = found.point();
    let apart = if point.is_empty() { 0.0 } else { distance(&plan.start, &point) };
    let scale = (apart * apart + norm(&point).powi(2) + found.noise * found.noise).sqrt();
    let own = |settles, why: String, rounds: Option<u64>| OwnSteps {
        settles,
        why,
        rounds: rounds.map(|rounds| rounds as f64),
        peak: None,
        floor: None,
        scale,
    };
    let unknown = |why: String| Ok((own(None, why, None), None));
    let margin = match (&found.margin, found.stability()) {
        (Some(margin), Stability::Attracting) => margin.mean,
        _ => return unknown(found.reason().unwrap_or_else(|| "no margin is known".into())),
    };
    if let Some(why) = untold(&plan.protocol) {
        return unknown(why.into());
    }
    let Some(rounds) = rounds(&plan.protocol, margin) else {
        return unknown(format!("convergence would take more than {MOST_ROUNDS} rounds"));
    };
    let working = plan.protocol.scheme.cohort().unwrap_or(plan.clients());
    let steps = (working * plan.protocol.local_steps) as f64 * REPETITIONS as f64;
    if steps * 2.0 * rounds as f64 > EFFORT {
        return unknown(format!(
            "a trial would take {} rounds, which is too much work for functions",
            2 * rounds
        ));
    }
    let trial = run(custom, &point, 2 * rounds, scale, stop)?;
    let (settles, why) = match &trial.objection {
        Some(why) => (None, format!("a trial run did not settle: {why}")),
        None => (
            Some(true),
            format!(
                "the margin of small steps is {} on the samples, and {REPETITIONS} repetitions of {} \
                 rounds ended at a distance of {} from the stable point",
                short(margin),
                trial.rounds,
                trial.distance.map_or_else(String::new, short)
            ),
        ),
    };
    Ok((own(settles, why, Some(rounds)), Some(trial)))
}

/// What a trial cannot show.
fn untold(protocol: &Protocol) -> Option<&'static str> {
    let arrivals = matches!(protocol.scheme, Scheme::FirstArrivals { .. });
    match protocol.aggregate {
        _ if arrivals => Some("which weights count for first arrivals is not known of functions"),
        Aggregate::Iterates => Some("averaging models may rescale them at random"),
        Aggregate::Deltas if protocol.clip.is_some() => {
            Some("algorithm.clip shortens updates, so that nothing is certain")
        }
        Aggregate::Deltas => None,
    }
}

/// Rounds until a margin has shrunk errors.
fn rounds(protocol: &Protocol, margin: f64) -> Option<u64> {
    let mut shrunk = 0.0;
    (1..=MOST_ROUNDS).find(|round| {
        let first = (round - 1) * protocol.local_steps as u64;
        let steps = (first..first + protocol.local_steps as u64).map(Step);
        shrunk += margin * steps.map(|step| protocol.step_size.at(step)).sum::<f64>();
        shrunk >= TIMES
    })
}

/// Runs the plan for so many rounds, looking at it in the middle.
fn run<B: Blocks>(
    custom: &Custom<B>,
    point: &[f64],
    rounds: u64,
    scale: f64,
    stop: &AtomicBool,
) -> Result<Trial, Error> {
    let plan = custom.outline();
    let state = plan.beginning_of(&plan.protocol, REPETITIONS);
    let mut trial =
        Trial { repetitions: REPETITIONS, rounds, distance: None, astray: 0, objection: None };
    let mut simulation = Simulation::new(custom.clients(), plan.course(state, &[]));
    let mut middle = None;
    for round in 1..=rounds {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted("interrupted".into()));
        }
        simulation
            .advance(Round(round), false)
            .map_err(|error| Error::Failed(error.to_string()))?;
        if round != rounds / 2 && round != rounds {
            continue;
        }
        let repetitions = &simulation.state().repetitions;
        let squares: f64 = repetitions.iter().map(|one| distance(one.theta(), point).powi(2)).sum();
        let far = (squares / REPETITIONS as f64).sqrt();
        if !far.is_finite() {
            trial.objection = Some(format!("a model stopped being finite within {round} rounds"));
            return Ok(trial);
        }
        let before = middle.replace(far);
        trial.distance = Some(far);
        trial.objection = match before {
            _ if round < rounds => None,
            _ if far > NEAR * scale => {
                Some(format!("after {rounds} rounds the distance is {}", short(far)))
            }
            Some(before) if far > CHANCE * before + 0.01 * scale => Some(format!(
                "the distance grew from {} after {} rounds to {} after {rounds}",
                short(before),
                rounds / 2,
                short(far)
            )),
            _ => None,
        };
    }
    Ok(trial)
}
