//! How to set E, K, the scheme and the step sizes: a search by theory, checked by simulation.
//!
//! The word plan is taken (a checked spec); what a plan should have been is an [`Advice`].

mod answer;
mod apart;
mod planned_spec;
mod question;
mod rival;
mod verify;

use std::sync::atomic::AtomicBool;

use fedback_core::protocol::{Aggregate, Protocol, Scheme, Step, StepSize};
use fedback_theory::bounds::{self, Bound, Bounds, Cost};
use fedback_theory::constants::{Constant, Constants};
use fedback_theory::planner::{self, Prices, Proposal, Task};
use fedback_theory::stable::{Stability, stable_points};
use serde::Serialize;

use crate::error::Error;
use crate::event::Sink;
use crate::plan::Plan;
use crate::spec::{
    Count, KeyError, Measure, Positive, RoundKeys, SchemeName, StepSize as SpecStep,
};
use crate::words;

pub use answer::scheme_label;
pub use planned_spec::planned_spec;
pub use question::{Question, latency};
pub use rival::Rival;
pub use verify::Verified;

/// The share of A that is planned for where moments are exact: room for the noise of a simulation.
pub const EXACT: f64 = 0.92;
/// The same where the spread is linearised, which is right to 5 to 14 percent.
pub const APPROXIMATE: f64 = 0.8;

/// The most steps that are looked at to say how many would be needed.
const MOST_STEPS: u64 = 1_000_000_000_000;

/// The share of all E at once in the whole search; the rest is each E on its own.
const SEARCHING: f64 = 0.5;

/// Why nothing was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Binding {
    /// `budget`, `accuracy` or `stability`.
    pub constraint: &'static str,
    /// In words.
    pub reason: String,
    /// The fewest steps found that reach A, where the budget binds.
    pub needed_steps: Option<u64>,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The question.
    pub question: Question,
    /// What was planned for, at most A.
    pub target: f64,
    /// Whether the moments are exact.
    pub exact: bool,
    /// |θ⁰ − θ^PS|².
    pub start_distance_sq: Option<f64>,
    /// The cheapest way, or why there is none.
    pub best: Result<Proposal, Binding>,
    /// The algorithm of the cheapest way.
    pub rival: Rival,
    /// The cheapest way of every algorithm that was asked for.
    pub rivals: Vec<(Rival, Option<Proposal>)>,
    /// The cheapest way for each E and scheme that was looked at; where they are drawn, for each E that
    /// is, searched on its own.
    pub alternatives: Vec<Proposal>,
    /// Whether the search ended before everything was looked at, because it took too long.
    pub search_cut: bool,
    /// When the spec's own setting reaches the target for good, if it does within ten times the
    /// budget.
    pub own: Option<Proposal>,
    /// Why the spec's own setting was not chosen although it is cheaper.
    pub own_excluded: Option<String>,
    /// What the paper's theorem says of the planned setting: printed, corrected.
    pub paper: Option<(Option<Cost>, Option<Cost>)>,
    /// √(C Q/R).
    pub noise_limited_local_steps: Option<f64>,
    /// What simulation says of the planned setting; none where that would take too long.
    pub verified: Option<Verified>,
    /// What the spec doubts.
    pub doubts: Vec<String>,
}

/// What was searched with, and what for.
struct Ready<'a> {
    task: Task<'a>,
    question: planner::Question,
}

impl Advice {
    /// Searches, and checks what was found by simulation. `progress` hears of the search.
    pub fn of(
        plan: &Plan,
        question: Question,
        progress: &mut dyn FnMut(f64),
        listener: &mut dyn Sink,
        stop: &AtomicBool,
    ) -> Result<Self, Error> {
        question.check(plan)?;
        let exact = plan.federation().is_affine();
        let safety = question.safety.unwrap_or(if exact { EXACT } else { APPROXIMATE });
        let target = safety * question.accuracy;
        let mut advice = Advice {
            target,
            exact,
            start_distance_sq: None,
            best: Err(Binding {
                constraint: "stability",
                reason: String::new(),
                needed_steps: None,
            }),
            rival: Rival::of(plan),
            rivals: Vec::new(),
            alternatives: Vec::new(),
            search_cut: false,
            own: None,
            own_excluded: None,
            paper: None,
            noise_limited_local_steps: None,
            verified: None,
            doubts: plan.spec.doubts.clone(),
            question,
        };
        let report = stable_points(plan.federation(), &plan.start);
        let attracting = report.points.first().filter(|p| p.stability() == Stability::Attracting);
        let Some((point, margin)) = attracting.and_then(|p| Some((&p.theta, p.gradient_margin?)))
        else {
            let why = words::stable(&report);
            let why = why.unwrap_or_else(|| "no stable point was found".into());
            advice.best = Err(Binding {
                constraint: "stability",
                reason: format!("no step sizes settle: {why}"),
                needed_steps: None,
            });
            return Ok(advice);
        };
        let ready = advice.ready(plan, &plan.protocol, point, margin)?;
        advice.start_distance_sq = Some(square_distance(&plan.start, point));
        let asked = advice.question.algorithms.clone();
        let own = vec![Rival::of(plan)];
        let rivals = if asked.is_empty() { own } else { asked };
        let each = SEARCHING / rivals.len() as f64;
        let mut unproved = false;
        for (place, rival) in rivals.into_iter().enumerate() {
            let protocol = rival.protocol(&plan.protocol);
            let task = Task { protocol: &protocol, ..ready.task };
            let mut hear = |share: f64| progress(each * (place as f64 + share));
            let found = planner::search(&task, &ready.question, &mut hear);
            advice.rivals.push((rival, found.best));
            advice.search_cut |= found.cut;
            unproved |= found.unproved;
            let least = advice.best.as_ref().map_or(f64::INFINITY, Proposal::total);
            if let Some(best) = found.best.filter(|best| best.total() < least) {
                (advice.best, advice.rival) = (Ok(best), rival);
                advice.alternatives = found.alternatives;
            } else if place == 0 {
                advice.alternatives = found.alternatives;
            }
        }
        if advice.best.is_err() {
            advice.best = Err(match unproved {
                true => unproved_binding(),
                false => binding(&ready, &advice.question),
            });
        }
        let far = ready.question.budget.saturating_mul(10);
        advice.own = planner::own(&ready.task, target, &ready.question.prices, far);
        let Ok(mut best) = advice.best.clone() else {
            progress(1.0);
            return Ok(advice);
        };
        if !advice.search_cut {
            let protocol = advice.rival.protocol(&plan.protocol);
            let task = Task { protocol: &protocol, ..ready.task };
            let looked_at = &advice.alternatives;
            let mut hear = |share: f64| progress(SEARCHING + (1.0 - SEARCHING) * share);
            let found = apart::search(&task, &ready.question, looked_at, &best, &mut hear);
            // This was searched more closely; the answer is the same whether it is drawn or not.
            let cheaper = found.iter().filter(|one| one.total() < best.total());
            best = cheaper.min_by(|a, b| a.total().total_cmp(&b.total())).copied().unwrap_or(best);
            if advice.question.drawn {
                advice.alternatives = found;
            }
            advice.best = Ok(best);
            let own = advice.rivals.iter_mut().filter(|(rival, _)| *rival == advice.rival);
            own.for_each(|(_, found)| *found = Some(best));
        }
        let cheaper = advice.own.filter(|own| own.total() < best.total() * (1.0 - 1e-9));
        advice.own_excluded = cheaper.map(|own| excluded(&ready, &own));
        progress(1.0);
        advice.noise_limited_local_steps =
            planner::noise_limited_local_steps(&ready.task, best.scheme, best.communication);
        let planned = planned(plan, &best, advice.rival)?;
        advice.paper = theorem(&planned, &advice.question, &best);
        advice.verified = verify::verify(&planned, best.reach.watched, &advice, listener, stop)?;
        Ok(advice)
    }

    fn ready<'a>(
        &self,
        plan: &'a Plan,
        protocol: &'a Protocol,
        point: &'a [f64],
        margin: f64,
    ) -> Result<Ready<'a>, Error> {
        let (federation, start) = (plan.federation(), &plan.start);
        let derived = || {
            let constants = Constants::of(federation, protocol, start, Some(point));
            constants.smoothness.value
        };
        let smoothness = self
            .question
            .smoothness
            .or_else(derived)
            .filter(|value| value.is_finite() && *value > 0.0)
            .ok_or_else(|| {
                Error::Question(KeyError::new("smoothness", "L was not found; give it"))
            })?;
        let clients = federation.clients();
        let cohort = self.question.most_clients.unwrap_or(clients);
        let allowed = [
            (SchemeName::Full, Scheme::Full),
            (SchemeName::WithoutReplacement, Scheme::WithoutReplacement { cohort }),
            (SchemeName::WithReplacement, Scheme::WithReplacement { cohort }),
        ];
        let allowed = allowed.into_iter().filter(|(name, _)| self.question.schemes.contains(name));
        let question = planner::Question {
            target: self.target,
            prices: self.question.prices,
            budget: self.question.budget,
            local_steps: self.question.local_steps.clone(),
            schemes: allowed.map(|(_, scheme)| scheme).collect(),
            largest_cohort: cohort,
        };
        let task = Task { federation, protocol, start, stable_point: point, margin, smoothness };
        Ok(Ready { task, question })
    }
}

/// Settings come close enough, but nothing says that they stay.
fn unproved_binding() -> Binding {
    Binding {
        constraint: "accuracy",
        reason:
            "settings were found that come this close, but none that is certain to stay; a larger \
                 accuracy, or other schemes, may do"
                .into(),
        needed_steps: None,
    }
}

fn square_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Which constraint keeps the accuracy out of reach.
fn binding(ready: &Ready<'_>, question: &Question) -> Binding {
    let budget = question.budget;
    let unhurried = planner::Question {
        budget: budget.saturating_mul(1000).clamp(1_000_000, MOST_STEPS),
        prices: Prices { communication: 0.0, ..question.prices },
        local_steps: Some(match &question.local_steps {
            Some(list) => list.clone(),
            None => vec![1, 2, 4],
        }),
        ..ready.question.clone()
    };
    let found = planner::search(&ready.task, &unhurried, &mut |_| ());
    let needed = found.best.map(|found| found.steps()).or_else(|| {
        // Steps that decay reach every accuracy in the end, unless θ itself is rescaled at random.
        let full = ready.question.schemes.contains(&Scheme::Full);
        let scheme = ready.task.protocol.scheme;
        let arrives = full || ready.task.protocol.aggregate == Aggregate::Deltas;
        let scheme = if full { Scheme::Full } else { scheme };
        let law = planner::noise_limited_steps(&ready.task, scheme, ready.question.target);
        (arrives && law > budget as f64 && law < u64::MAX as f64).then_some(law as u64)
    });
    match needed {
        Some(steps) => Binding {
            constraint: "budget",
            reason: format!(
                "the budget of {budget} steps is too small: at least about {steps} are needed"
            ),
            needed_steps: Some(steps),
        },
        None => Binding {
            constraint: "accuracy",
            reason: format!(
                "no setting comes this close and stays within {} steps",
                unhurried.budget
            ),
            needed_steps: None,
        },
    }
}

/// Why a setting may not be chosen.
fn excluded(ready: &Ready<'_>, own: &Proposal) -> String {
    let (first, longest) = (own.step_size.at(Step(0)), 1.0 / ready.task.smoothness);
    let question = &ready.question;
    let listed = |list: &Vec<usize>| list.contains(&own.local_steps);
    if first > longest {
        format!(
            "its first step {} is longer than 1/L = {}",
            words::short(first),
            words::short(longest)
        )
    } else if !question.allows(own.scheme, ready.task.federation.clients()) {
        "its scheme or its cohort is not among those to choose from".into()
    } else if !question.local_steps.as_ref().is_none_or(listed) {
        format!("E = {} is not among those to choose from", own.local_steps)
    } else if own.steps() > question.budget {
        format!("its {} steps are more than the budget", own.steps())
    } else {
        "its first round enlarges errors in mean square".into()
    }
}

/// The plan with the proposed setting.
fn planned(plan: &Plan, best: &Proposal, rival: Rival) -> Result<Plan, Error> {
    plan.with(|spec| {
        if let Some(section) = rival.section(spec.algorithm.rounds().clone()) {
            spec.algorithm = section;
        }
        rewrite(spec.algorithm.rounds_mut(), best);
        spec.rounds = Count(best.reach.rounds);
        spec.until = None;
        spec.measure = Measure { every: spec.rounds, risk: false, ..Measure::default() };
    })
}

/// Writes a proposed setting into an algorithm's section.
fn rewrite(algorithm: &mut RoundKeys, best: &Proposal) {
    let (scheme, cohort) = scheme_and_cohort(best.scheme);
    algorithm.scheme = scheme;
    algorithm.cohort = cohort.map(|cohort| Count(cohort as u64));
    algorithm.local_steps = Count(best.local_steps as u64);
    algorithm.step_size = spec_step(best.step_size);
    algorithm.scale_objectives &= scheme == SchemeName::WithoutReplacement;
}

fn spec_step(step_size: StepSize) -> SpecStep {
    match step_size {
        StepSize::Constant(size) => SpecStep::Constant { constant: Positive(size) },
        StepSize::Decaying { beta, gamma } => {
            SpecStep::Decaying { beta: Positive(beta), gamma: Positive(gamma) }
        }
    }
}

/// A scheme as a spec says it.
pub fn scheme_and_cohort(scheme: Scheme) -> (SchemeName, Option<usize>) {
    match scheme {
        Scheme::Full => (SchemeName::Full, None),
        Scheme::WithReplacement { cohort } => (SchemeName::WithReplacement, Some(cohort)),
        Scheme::WithoutReplacement { cohort } => (SchemeName::WithoutReplacement, Some(cohort)),
        Scheme::FirstArrivals { cohort, .. } => (SchemeName::FirstArrivals, Some(cohort)),
    }
}

/// What the paper's theorem says that the planned E, K and scheme cost, under its own step sizes.
fn theorem(
    planned: &Plan,
    question: &Question,
    best: &Proposal,
) -> Option<(Option<Cost>, Option<Cost>)> {
    let (federation, protocol, start) = (planned.federation(), &planned.protocol, &planned.start);
    if !bounds::are_about(protocol) {
        return None;
    }
    let (stable, rounds) = (planned.stable_point.as_deref(), best.reach.rounds);
    let mut constants = Constants::of(federation, protocol, start, stable);
    if let Some(given) = question.smoothness {
        constants.smoothness = Constant::given(given);
    }
    let found = Bounds::new(federation, protocol, start, stable, &constants, None, rounds);
    let (accuracy, e) = (question.accuracy, best.local_steps);
    let cost = |bound: &Bound| bound.cost(accuracy, best.communication, e);
    Some((cost(&found.printed), cost(&found.corrected)))
}
