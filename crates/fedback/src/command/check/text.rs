//! A check in words: the verdict first, then what it rests on.

use crate::lab::check::words::algorithm;
use crate::lab::check::{Check, Client, Confidence, FirstArrivals, Lie};
use crate::lab::plan::Plan;
use crate::lab::words::{self, NOTHING, short};
use crate::theory::certificate::{ClientPart, Verdict};

use super::label;
use crate::output::{plural, short_vector};
use crate::page::Page;
use crate::table::table;

/// Clients that a table shows.
const MOST_CLIENTS: usize = 12;
/// Coordinates whose names are shown.
const MOST_NAMES: usize = 12;
/// Where values begin.
const COLUMN: usize = 32;

pub fn text(plan: &Plan, check: &Check) -> String {
    let heading = format!("{}: {}", label(plan), headline(check.verdict));
    let mut page = Page::new(&heading, COLUMN);
    page.paragraph(&check.reason);
    if let Some(confidence) = &check.confidence {
        page.paragraph(&confidence_words(confidence, check.verdict));
    }
    if let Some(arrivals) = &check.first_arrivals {
        page.paragraph(&speed_words(arrivals));
    }
    retraining(&mut page, plan, check);
    place(&mut page, plan, check);
    condition(&mut page, plan, check);
    clients(&mut page, check);
    lies(&mut page, check);
    page.section("does the reaction matter?");
    page.paragraph(&check.degeneracy.words);
    page.text
}

fn headline(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Settles => "settles",
        Verdict::SettlesWithSmallSteps => "settles with small steps",
        Verdict::MinimisationOnly => "only repeated risk minimisation settles",
        Verdict::DoesNotSettle => "does not settle",
        Verdict::Unknown => "unknown",
    }
}

/// How often resamples of a fitted response agree, and what the others say.
fn confidence_words(confidence: &Confidence, verdict: Verdict) -> String {
    let percent = |verdict| format!("{} %", short(100.0 * confidence.share(verdict)));
    let others = Verdict::ALL.into_iter().filter(|v| *v != verdict && confidence.share(*v) > 0.0);
    let others = others.map(|other| format!("; {} in {}", headline(other), percent(other)));
    format!(
        "The same in {} of {} resamples of the fitted response{}.",
        percent(verdict),
        confidence.resamples,
        others.collect::<String>()
    )
}

/// What the certificate is about where cohorts are the first to arrive.
fn speed_words(arrivals: &FirstArrivals) -> String {
    match (arrivals.speed.correct, arrivals.away_from_stable_point) {
        (true, _) => "First arrivals, corrected for speed: rounds move, on average, as the clients' own \
                      weights say."
            .into(),
        (false, Some(away)) if away > 1e-9 => format!(
            "First arrivals: fast clients count more. Everything below is about the effective weights, \
             in proportion to weight times the probability of being among the first; their stable \
             point is at a distance of {} from the problem's own. correct = true removes that bias.",
            short(away)
        ),
        (false, Some(_)) => {
            "First arrivals: speed does not move the stable point.".into()
        }
        (false, None) => "First arrivals: fast clients count more. Everything below is about the \
                          effective weights, in proportion to weight times the probability of being \
                          among the first."
            .into(),
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or(NOTHING.into(), short)
}

fn yes(value: Option<bool>) -> &'static str {
    match value {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not known",
    }
}

fn retraining(page: &mut Page, plan: &Plan, check: &Check) {
    let (own, small) = (&check.own_steps, &check.small_steps);
    page.section("does retraining settle?");
    page.row("repeated risk minimisation", yes(check.minimisation.settles));
    let e = plan.protocol.local_steps as f64;
    let steps = words::steps(plan.protocol.step_size, plan.spec.rounds.0 as f64 * e);
    let about = match (own.settles, own.rounds) {
        (Some(true), Some(rounds)) => {
            let rounds = plural(rounds.ceil() as u64, "round", "rounds");
            format!(", near the stable point after about {rounds}")
        }
        _ => String::new(),
    };
    let own_words = format!("{} (steps {steps}{about})", yes(own.settles));
    let name = algorithm(&plan.protocol);
    page.row(&format!("{name} at its own steps"), &own_words);
    page.row(&format!("{name} with small steps"), yes(small.settles));
    if let Some(largest) = small.largest_step {
        let words = format!("{} (times E: {})", short(largest), short(largest * e));
        page.row("largest step, squared errors", &words);
    }
    if let Some(largest) = small.largest_step_in_mean {
        let words = format!("{} (times E: {})", short(largest), short(largest * e));
        page.row("largest step, mean errors", &words);
    }
    if let Some(constant) = small.constant {
        page.row("a constant step that works", &short(constant));
    }
    if let (Some(beta), Some(gamma)) = (small.beta, small.gamma) {
        page.row("a decaying one", &format!("beta = {}, gamma = {}", short(beta), short(gamma)));
    }
    if let Some(floor) = own.floor {
        page.row("stationary squared error", &short(floor * floor));
    }
    if let Some(trial) = &check.trial {
        let far = trial.distance.map(|far| format!("mean squared error {}", short(far * far)));
        let far = far.unwrap_or_else(|| "a failure".into());
        let words =
            format!("{far} after {} rounds, {} repetitions", trial.rounds, trial.repetitions);
        page.row("simulated", &words);
    }
}

fn place(page: &mut Page, plan: &Plan, check: &Check) {
    page.section("where it settles, and at what risk");
    if let Some(names) = plan.federation().coordinates().filter(|names| names.len() <= MOST_NAMES) {
        page.row("coordinates", &names.join(", "));
    }
    let (radius_of, settling) = match plan.federation().memory() {
        None => ("  radius of H⁻¹J", "small steps settle"),
        Some(_) => ("  radius with memory", "steps that are small enough settle"),
    };
    for (index, truth) in check.stable_points.iter().enumerate() {
        let name = if index == 0 { "stable point" } else { "another stable point" };
        let stability = truth.stability.name();
        page.row(name, &format!("{} ({stability})", short_vector(&truth.theta)));
        let (radius, margin) = (number(truth.minimisation_radius), number(truth.gradient_margin));
        page.row(radius_of, &format!("{radius} (minimisation settles below 1)"));
        page.row("  margin of H + J", &format!("{margin} ({settling} above 0)"));
        let price = truth.price_of_stability.map(|p| format!(", {} above the optimum", short(p)));
        page.row("  risk", &format!("{}{}", short(truth.risk), price.unwrap_or_default()));
        if let Some(bias) = &truth.bias {
            let size = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
            let mut words = String::new();
            // One local step leaves none but for rounding.
            for (part, of) in [(&bias.local_steps, "local steps"), (&bias.noise, "noise")] {
                if size(part) > 1e-12 {
                    words += &format!("{} from {of}, ", short(size(part)));
                }
            }
            words += &format!("spread {}", short(bias.spread));
            page.row(&format!("  bias at step {}", short(bias.step_size)), &words);
        }
    }
    if check.stable_points.is_empty() {
        page.row("stable point", "none found");
        page.row(radius_of, &number(check.minimisation_radius));
        page.row("  margin of H + J", &number(check.gradient_margin));
    }
    match &check.optimal_point {
        Some(optimal) => {
            let minima = check.local_optima.filter(|minima| *minima != 1);
            let found = minima.map(|minima| format!(" (best of {minima} found)"));
            let found = found.unwrap_or_default();
            page.row("optimal point", &format!("{}{found}", short_vector(optimal)));
            page.row("  risk", &number(check.risk_optimal));
        }
        None => page.row("optimal point", "none, or not a single one"),
    }
    let approximation = &check.approximation;
    if let Some(distance) = approximation.distance {
        page.row("|stable − optimal|", &short(distance));
        if let Some(bound) = approximation.proposition {
            page.row("  by Proposition 2.6", &format!("at most {}", short(bound)));
        }
        if let Some(bound) = approximation.local {
            page.row("  by its local repair", &format!("at most {}", short(bound)));
        }
    }
    page.paragraph(approximation.why);
}

fn condition(page: &mut Page, plan: &Plan, check: &Check) {
    let (constants, assumptions) = (&check.constants, &check.assumptions);
    page.section("the paper's condition: average sensitivity < mu/L");
    for (name, constant) in [
        ("average sensitivity", &constants.average_sensitivity),
        ("mu", &constants.mu),
        ("L", &constants.smoothness),
    ] {
        let value = number(constant.value);
        page.row(name, &format!("{value} ({}: {})", constant.origin, constant.how));
    }
    let holds = match check.condition {
        Some(true) => "met",
        Some(false) => "not met; it is sufficient, not necessary",
        None => "cannot be read",
    };
    page.row("mu/L", &format!("{}: {holds}", number(check.threshold)));
    if plan.federation().memory().is_some() {
        page.paragraph(
            "The condition is about populations that answer to the model deployed last. These remember: \
             met or not, what settles is said above.",
        );
    }
    assumptions.words.iter().for_each(|words| page.paragraph(words));
    if let (Some(_), Some(holds)) = (assumptions.found.ball, assumptions.condition) {
        let holds = if holds { "met" } else { "not met" };
        page.paragraph(&format!("On that ball the condition is {holds}."));
    }
}

/// What clients could do by lying, where updates have a bound.
fn lies(page: &mut Page, check: &Check) {
    let Some(tried) = &check.lying else { return };
    page.section("what could one client do by lying?");
    page.paragraph(&format!(
        "An update is as long as algorithm.clip allows. One round is what a client that is drawn once \
         moves θ by at most. Tried is how far it moved θ in {} of {}, pushing where the others give \
         way most; other lies may lead farther. Of honest updates the clip shortened {} %.",
        plural(tried.rounds, "round", "rounds"),
        plural(tried.repetitions, "repetition", "repetitions"),
        short(100.0 * tried.shortened),
    ));
    let header = ["client", "weight", "one round", "tried"].map(String::from).to_vec();
    let mut parts: Vec<&Client> = check.per_client.iter().collect();
    parts.sort_by(|a, b| b.part.weight.total_cmp(&a.part.weight));
    let row = |one: &Client| {
        let Lie { one_round, tried } = one.lying;
        vec![one.client.clone(), short(one.part.weight), number(one_round), number(tried)]
    };
    let rows: Vec<Vec<String>> = parts.into_iter().take(MOST_CLIENTS).map(row).collect();
    page.text.push_str(&table(&header, &rows));
}

fn clients(page: &mut Page, check: &Check) {
    page.section("which clients drive it?");
    page.paragraph(&check.tips);
    let header: Vec<String> = [
        "client",
        "weight",
        "sensitivity",
        "share",
        "risk",
        "without it:",
        "radius",
        "margin",
        "average",
    ]
    .map(String::from)
    .to_vec();
    let mut parts: Vec<&Client> = check.per_client.iter().collect();
    let count = parts.len();
    parts.sort_by(|Client { part: a, .. }, Client { part: b, .. }| {
        let share = |part: &ClientPart| part.weight * part.sensitivity;
        b.without.is_some().cmp(&a.without.is_some()).then(share(b).total_cmp(&share(a)))
    });
    let rows: Vec<Vec<String>> = parts
        .into_iter()
        .take(MOST_CLIENTS)
        .map(|one| {
            let (part, without) = (&one.part, one.part.without.as_ref());
            vec![
                one.client.clone(),
                short(part.weight),
                short(one.sensitivity()),
                number(part.share),
                number(part.risk),
                without.map_or(NOTHING.into(), |w| w.verdict.name().into()),
                number(without.and_then(|w| w.minimisation_radius)),
                number(without.and_then(|w| w.gradient_margin)),
                number(without.map(|w| w.average_sensitivity)),
            ]
        })
        .collect();
    page.text.push_str(&table(&header, &rows));
    if count > MOST_CLIENTS {
        let more = count - MOST_CLIENTS;
        page.text.push_str(&format!("  … and {more} more, all of them in --json\n"));
    }
}
