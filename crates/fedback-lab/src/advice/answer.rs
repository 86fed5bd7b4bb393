//! An advice as JSON and as a chart.

use fedback_core::protocol::{Scheme, StepSize};
use fedback_theory::bounds::Cost;
use fedback_theory::planner::{Latency, Proposal};
use serde_json::{Value, json};

use super::{Advice, scheme_and_cohort};
use crate::figure::{Axis, Figure, Mark, Series};
use crate::words::short;

impl Advice {
    /// The object of the JSON contract; `clients` is N.
    pub fn to_json(&self, clients: usize) -> Value {
        let best = self.best.as_ref().ok();
        let step = best.map(|best| step_numbers(best.step_size));
        let cohort = best.map(|best| scheme_and_cohort(best.scheme).1.unwrap_or(clients));
        let cost = |cost: &Option<Cost>| {
            cost.map(|cost| json!({"steps": cost.steps, "total_time": cost.total_time}))
        };
        let mut object = json!({
            "algorithm": best.map(|_| self.rival.keys()),
            "algorithms": self.rivals.iter().map(|(rival, best)| json!({
                "algorithm": rival.keys(),
                "total_time": best.as_ref().map(Proposal::total),
                "local_steps": best.as_ref().map(|best| best.local_steps),
                "rounds": best.as_ref().map(|best| best.reach.rounds),
            })).collect::<Vec<_>>(),
            "local_steps": best.map(|best| best.local_steps),
            "cohort": cohort,
            "scheme": best.map(|best| scheme_and_cohort(best.scheme).0),
            "beta": step.and_then(|step| step[0]),
            "gamma": step.and_then(|step| step[1]),
            "steps": best.map(Proposal::steps),
            "total_time": best.map(Proposal::total),
            "verified": self.verified,
            "rounds": best.map(|best| best.reach.rounds),
            "time_parts": best.map(|best| json!({
                "local_steps": best.steps(),
                "communication": best.reach.rounds as f64 * best.communication,
            })),
            "predicted": best.map(|best| json!({
                "distance_sq": best.reach.distance_sq,
                "worst_after": best.reach.worst_after,
                "exact": self.exact,
            })),
            "accuracy": self.question.accuracy,
            "planned_for": self.target,
            "start_distance_sq": self.start_distance_sq,
            "communication_cost": self.question.prices.communication,
            "straggler": self.question.prices.straggler,
            "latency": latency_name(self.question.prices.latency),
            "budget": self.question.budget,
            "binding": self.best.as_ref().err(),
            "search_cut": self.search_cut,
            "own_setting": self.own.as_ref().map(|own| brief(own, clients)),
            "own_excluded": self.own_excluded,
            "mirrored_start": Value::Null,
            "paper": self.paper.as_ref().map(|(printed, corrected)| json!({
                "printed": cost(printed),
                "corrected": cost(corrected),
            })),
            "noise_limited_local_steps": self.noise_limited_local_steps,
            "alternatives": self.alternatives.iter().map(|a| brief(a, clients)).collect::<Vec<_>>(),
        });
        if !self.doubts.is_empty() {
            object["doubts"] = json!(self.doubts);
        }
        object
    }

    /// The cheapest alternative for each E.
    fn cheapest(&self) -> Vec<Proposal> {
        let mut all = self.alternatives.clone();
        all.sort_by(|a, b| {
            (a.local_steps.cmp(&b.local_steps)).then(a.total().total_cmp(&b.total()))
        });
        all.dedup_by_key(|proposal| proposal.local_steps);
        all
    }

    /// Total cost over E: the cheapest for each, then a handful of cohorts and schemes to compare with.
    pub fn figure(&self, name: &str) -> Figure {
        let mut series = Vec::new();
        let closely = self.question.drawn && !self.search_cut && self.best.is_ok();
        let cheapest = self.cheapest();
        let one_scheme = cheapest.windows(2).all(|pair| pair[0].scheme == pair[1].scheme);
        let named = cheapest.first().filter(|_| one_scheme && closely).map(|best| best.scheme);
        if closely && !cheapest.is_empty() {
            let label = named.map_or("cheapest for each E".into(), scheme_label);
            series.push(Series::line(label, 0, over_local_steps(&cheapest)));
        }
        let mut schemes: Vec<Scheme> = Vec::new();
        for alternative in &self.alternatives {
            if !schemes.contains(&alternative.scheme) {
                schemes.push(alternative.scheme);
            }
        }
        let chosen = self.best.as_ref().ok().map(|best| best.scheme);
        for (place, scheme) in handful(schemes, chosen).into_iter().enumerate() {
            let own = self.alternatives.iter().filter(|a| a.scheme == scheme);
            let own: Vec<Proposal> = own.copied().collect();
            // A lone point is no line.
            if own.len() < 2 || named == Some(scheme) {
                continue;
            }
            let line = Series::line(scheme_label(scheme), place + 1, over_local_steps(&own));
            series.push(line.with_mark(Mark::Dashed));
        }
        let compared = series.iter().any(|line| line.mark == Mark::Dashed);
        if let Ok(best) = &self.best {
            let point = vec![(best.local_steps as f64, best.total())];
            series.push(Series::line("planned", 7, point).with_mark(Mark::Dots));
        }
        let prices = &self.question.prices;
        let waiting = match prices.straggler > 0.0 {
            true => format!(", {} of it waiting", prices.straggler),
            false => String::new(),
        };
        Figure {
            title: format!("{name}: what reaching and keeping the accuracy costs"),
            subtitle: format!(
                "squared distance {}; a communication costs {} local steps{waiting}{}",
                short(self.question.accuracy),
                short(prices.communication),
                if compared { "; dashed: not searched closely" } else { "" }
            ),
            x: Axis::log("local steps per round E"),
            y: Axis::log("total cost, in local steps"),
            series,
        }
    }
}

/// Costs over E, in their order.
fn over_local_steps(proposals: &[Proposal]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> =
        proposals.iter().map(|one| (one.local_steps as f64, one.total())).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// At most seven schemes: the first (full participation), the chosen one, others evenly spaced.
fn handful(schemes: Vec<Scheme>, chosen: Option<Scheme>) -> Vec<Scheme> {
    const MOST: usize = 7;
    let every = schemes.len().div_ceil(MOST - 1).max(1);
    let keep = |(place, scheme): &(usize, Scheme)| place % every == 0 || Some(*scheme) == chosen;
    schemes.into_iter().enumerate().filter(keep).map(|(_, scheme)| scheme).collect()
}

/// A scheme for a legend.
pub fn scheme_label(scheme: Scheme) -> String {
    match scheme {
        Scheme::Full => "full".into(),
        Scheme::WithReplacement { cohort } => format!("with replacement, K = {cohort}"),
        Scheme::WithoutReplacement { cohort } => format!("without replacement, K = {cohort}"),
        Scheme::FirstArrivals { cohort, .. } => format!("first arrivals, K = {cohort}"),
    }
}

/// β and γ, or the constant step.
fn step_numbers(step_size: StepSize) -> [Option<f64>; 3] {
    match step_size {
        StepSize::Decaying { beta, gamma } => [Some(beta), Some(gamma), None],
        StepSize::Constant(size) => [None, None, Some(size)],
    }
}

fn latency_name(latency: Latency) -> String {
    match latency {
        Latency::Constant => "constant".into(),
        Latency::Exponential => "exponential".into(),
        Latency::Lognormal { sigma } => format!("lognormal:{sigma}"),
    }
}

fn brief(proposal: &Proposal, clients: usize) -> Value {
    let (scheme, cohort) = scheme_and_cohort(proposal.scheme);
    let [beta, gamma, constant] = step_numbers(proposal.step_size);
    json!({
        "local_steps": proposal.local_steps,
        "cohort": cohort.unwrap_or(clients),
        "scheme": scheme,
        "beta": beta,
        "gamma": gamma,
        "constant": constant,
        "steps": proposal.steps(),
        "total_time": proposal.total(),
    })
}
