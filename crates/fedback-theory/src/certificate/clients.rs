//! Who tips the federation over: every client's share, and the certificate without it.
//!
//! A client is left out by giving its weight to the others in proportion to theirs; it stays among the N
//! clients that sampling without replacement draws from. Affine problems are judged again as a
//! whole, others near the stable point. Where clients are many, the most influential ones are left out
//! in turn: those with the largest product of weight and distance of H_i + J_i from the average.

use crate::p_fedavg::PFedAvg;
use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::protocol::Scheme;

use super::outlook::{Case, local_outlook, outlook, short};
use super::small_steps::{SmallSteps, direction};
use super::verdict::{Answer, Verdict, combine, small_steps_nowhere};
use super::{Judgement, minimisation};
use crate::constants::Constants;
use crate::stable::{StablePoint, StableReport, stable_point_near, stable_points};

/// Up to so many clients all are left out in turn.
const MOST_CLIENTS: usize = 200;
/// Of more clients so many.
const MOST_INFLUENTIAL: usize = 20;
/// Operations on rows that leaving clients out may cost.
const MOST_WORK: f64 = 4e9;
/// Numbers that a path without one client may touch.
const EFFORT: f64 = 1e6;

/// One client's part.
#[derive(Clone, Debug)]
pub struct ClientPart {
    /// p_i.
    pub weight: f64,
    /// ε_i, absolute.
    pub sensitivity: f64,
    /// p_i ε_i / ε̄; none where nothing reacts.
    pub share: Option<f64>,
    /// f_i(θ^PS; θ^PS), where there is a stable point.
    pub risk: Option<f64>,
    /// The certificate without it, where it was left out.
    pub without: Option<Without>,
}

/// The certificate without one client.
#[derive(Clone, Copy, Debug)]
pub struct Without {
    /// The verdict.
    pub verdict: Verdict,
    /// The radius of repeated minimisation.
    pub minimisation_radius: Option<f64>,
    /// The margin of small steps.
    pub gradient_margin: Option<f64>,
    /// ε̄ of the others.
    pub average_sensitivity: f64,
}

/// All clients' parts, and who tips the federation over in one sentence.
#[derive(Clone, Debug)]
pub struct Clients {
    /// One a client.
    pub parts: Vec<ClientPart>,
    /// Who tips the federation over, in one sentence.
    pub words: String,
}

pub(super) fn clients(
    federation: &Federation,
    protocol: &PFedAvg,
    start: &[f64],
    stable: Option<&StablePoint>,
    judgement: &Judgement,
    constants: &Constants,
) -> Clients {
    let average = constants.average_sensitivity.value.unwrap_or(f64::NAN);
    let mut parts: Vec<ClientPart> = federation
        .weights()
        .iter()
        .zip(&constants.sensitivities)
        .enumerate()
        .map(|(client, (&weight, &sensitivity))| ClientPart {
            weight,
            sensitivity,
            share: (average > 0.0).then(|| weight * sensitivity / average),
            risk: stable.map(|p| federation.population(client).risk(&p.theta, &p.theta)),
            without: None,
        })
        .collect();
    if matches!(protocol.scheme, Scheme::FirstArrivals { .. }) {
        let words =
            "nobody was left out: among first arrivals the others would then be in it more often";
        return Clients { parts, words: words.into() };
    }
    let (chosen, all) = influential(federation, protocol, stable);
    for &client in &chosen {
        let rest = 1.0 - federation.weights()[client];
        if rest <= 1e-12 {
            continue;
        }
        let shares = federation.weights().iter().enumerate();
        let weights: Vec<f64> =
            shares.map(|(i, weight)| if i == client { 0.0 } else { weight / rest }).collect();
        let Ok(others) = federation.with_weights(weights) else { continue };
        let average =
            others.weights().iter().zip(&constants.sensitivities).map(|(p, e)| p * e).sum();
        parts[client].without = Some(without(&others, protocol, start, stable, average));
    }
    let words = words(federation, judgement.verdict, stable, &parts, all);
    Clients { parts, words }
}

/// The clients to leave out, and whether they are all that count.
fn influential(
    federation: &Federation,
    protocol: &PFedAvg,
    stable: Option<&StablePoint>,
) -> (Vec<usize>, bool) {
    let mut counting: Vec<usize> =
        (0..federation.clients()).filter(|&i| federation.weights()[i] > 0.0).collect();
    let dim = federation.dim() as f64;
    let affordable = match federation.base() {
        Base::Table(table) if !federation.is_affine() => {
            let entries = (dim * dim).min(256.0);
            let rows = table.len() as f64 * (entries * entries + 60.0 * dim * dim);
            let steps = counting.len() as f64 * protocol.local_steps as f64 * dim.powi(6);
            (MOST_WORK / (rows + steps)) as usize
        }
        Base::Table(_) | Base::Gaussian(_) => {
            let each = if federation.response().is_diagonal() { dim } else { dim.powi(3) };
            (MOST_WORK / (100.0 * each * counting.len() as f64)) as usize
        }
    };
    let most = match counting.len() <= MOST_CLIENTS && counting.len() <= affordable {
        true => return (counting, true),
        false => MOST_INFLUENTIAL.min(affordable.max(3)),
    };
    let zeros = vec![0.0; federation.dim()];
    let at = stable.map_or(zeros.as_slice(), |point| &point.theta);
    let average = federation.mean_field(at, at);
    let average = average.curvature + average.reaction;
    let influence = |&client: &usize| {
        let own = federation.population(client).expand(at, at);
        let p = federation.weights()[client];
        p / (1.0 - p).max(1e-12) * (own.curvature + own.reaction - &average).norm()
    };
    let mut ranked: Vec<(f64, usize)> = counting.iter().map(|i| (influence(i), *i)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let all = ranked.len() <= most;
    ranked.truncate(most);
    counting = ranked.into_iter().map(|(_, client)| client).collect();
    counting.sort_unstable();
    (counting, all)
}

fn without(
    others: &Federation,
    protocol: &PFedAvg,
    start: &[f64],
    stable: Option<&StablePoint>,
    average_sensitivity: f64,
) -> Without {
    let (judgement, radius, margin) = match (others.is_affine(), stable) {
        (false, Some(point)) => near(others, protocol, start, point),
        _ => again(others, protocol, start),
    };
    Without {
        verdict: judgement.verdict,
        minimisation_radius: radius,
        gradient_margin: margin,
        average_sensitivity,
    }
}

type Judged = (Judgement, Option<f64>, Option<f64>);

/// Judged again as a whole, without naming steps.
fn again(others: &Federation, protocol: &PFedAvg, start: &[f64]) -> Judged {
    let report = stable_points(others, start);
    let case =
        Case { federation: others, start, points: &report.points, choice: None, effort: EFFORT };
    let everywhere = report.everywhere.unwrap_or((None, None));
    let small = match report.points.is_empty() {
        true => small_steps_nowhere(&report),
        false => direction(&case, protocol),
    };
    let minimised = minimisation::minimisation(&case, everywhere.0);
    let judgement = combine(&report, protocol, minimised, outlook(&case, protocol), small);
    let first = report.points.first();
    let radius = first.map_or(everywhere.0, |point| point.minimisation_radius);
    let margin = first.map_or(everywhere.1, |point| point.gradient_margin);
    (judgement, radius, margin)
}

/// Judged near the stable point, which moves a little.
fn near(others: &Federation, protocol: &PFedAvg, start: &[f64], point: &StablePoint) -> Judged {
    let moved: Vec<StablePoint> = stable_point_near(others, &point.theta).into_iter().collect();
    let report = StableReport {
        stability: moved.first().map_or(crate::stable::Stability::Unknown, |p| p.stability()),
        points: moved,
        reason: None,
        everywhere: None,
        line: false,
    };
    let case =
        Case { federation: others, start, points: &report.points, choice: None, effort: EFFORT };
    let Some(moved) = report.points.first() else {
        let lost = Answer::unknown("no stable point was found nearby");
        let small = small_steps_nowhere(&report);
        let judgement = combine(&report, protocol, lost, outlook(&case, protocol), small);
        return (judgement, None, None);
    };
    let (radius, margin) = (moved.minimisation_radius, moved.gradient_margin);
    let minimised = match radius {
        Some(radius) => minimisation::by_radius(radius),
        None => Answer::unknown("the curvature is singular"),
    };
    let small = SmallSteps {
        answer: Answer { settles: margin.map(|margin| margin > 0.0), why: String::new() },
        ..small_steps_nowhere(&report)
    };
    let own = local_outlook(&case, protocol, moved);
    (combine(&report, protocol, minimised, own, small), radius, margin)
}

fn words(
    federation: &Federation,
    verdict: Verdict,
    stable: Option<&StablePoint>,
    parts: &[ClientPart],
    all: bool,
) -> String {
    let name = |client: usize| match federation.client_names() {
        Some(names) => format!("\"{}\"", names[client]),
        None => format!("client {client}"),
    };
    let left: Vec<(usize, &ClientPart, Without)> = parts
        .iter()
        .enumerate()
        .filter_map(|(client, part)| Some((client, part, part.without?)))
        .collect();
    if left.is_empty() {
        return "no client can be left out".into();
    }
    let margin = |without: &Without| without.gradient_margin.unwrap_or(f64::NEG_INFINITY);
    let describe = |(client, part, _): &(usize, &ClientPart, Without)| {
        let (weight, epsilon) = (short(part.weight), short(part.sensitivity));
        format!("{} (weight {weight}, sensitivity {epsilon})", name(*client))
    };
    let known = |without: &Without| without.verdict != Verdict::Unknown;
    let decided = verdict != Verdict::Unknown;
    let better: Vec<_> = left
        .iter()
        .filter(|(_, _, w)| known(w) && w.verdict < verdict && decided)
        .copied()
        .collect();
    let worse: Vec<_> = left
        .iter()
        .filter(|(_, _, w)| known(w) && w.verdict > verdict && decided)
        .copied()
        .collect();
    let looked = if all { "" } else { " among the most influential" };
    if let Some(most) = better.iter().max_by(|a, b| {
        (std::cmp::Reverse(a.2.verdict), margin(&a.2))
            .partial_cmp(&(std::cmp::Reverse(b.2.verdict), margin(&b.2)))
            .unwrap_or(std::cmp::Ordering::Equal)
    }) {
        let alone = match better.len() {
            1 => String::new(),
            more => {
                format!(" ({more} clients{looked} are such that without one of them it is better)")
            }
        };
        return format!(
            "{} tips the federation over: without it the verdict is {}{alone}",
            describe(most),
            most.2.verdict.as_str()
        );
    }
    if let Some(most) = worse.iter().max_by(|a, b| a.2.verdict.cmp(&b.2.verdict)) {
        return format!(
            "{} holds the federation: without it the verdict is {}",
            describe(most),
            most.2.verdict.as_str()
        );
    }
    let full = stable.and_then(|point| point.gradient_margin);
    let hardest = left.iter().max_by(|a, b| margin(&a.2).total_cmp(&margin(&b.2)));
    match (hardest, full) {
        (Some(most), Some(full)) if margin(&most.2) > full => format!(
            "no single client{looked} decides; {} pulls hardest: without it the margin of small steps \
             is {} instead of {}",
            describe(most),
            short(margin(&most.2)),
            short(full)
        ),
        _ => format!("no single client{looked} decides"),
    }
}
