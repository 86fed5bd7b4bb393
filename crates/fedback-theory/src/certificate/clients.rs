//! Who tips the federation over: every client's share, and the certificate without it.
//!
//! A client is left out by giving its weight to the others in proportion to theirs; it stays among the N
//! clients that sampling without replacement draws from. Affine problems are judged again as a
//! whole, others near the stable point. Where clients are many, the most influential ones are left out
//! in turn: those with the largest product of weight and distance of H_i + J_i from the average.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::protocol::Protocol;

use super::elsewhere::local_outlook;
use super::outlook::{Case, outlook};
use super::small_steps::direction;
use super::verdict::Verdict;
use super::why::Answer;
use crate::cohort;
use crate::constants::Constants;
use crate::minimisation::Minimisation;
use crate::stable::{StablePoint, stable_point_near, stable_points};

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

/// All clients' parts, and who tips the federation over.
#[derive(Clone, Debug)]
pub struct Clients {
    /// One a client.
    pub parts: Vec<ClientPart>,
    /// Who tips the federation over.
    pub tips: Tips,
    /// Whether all clients that count were left out in turn, or only the most influential ones.
    pub all: bool,
}

/// Who tips the federation over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tips {
    /// Nobody was left out: among first arrivals the others would then be in it more often.
    Unasked,
    /// No client can be left out.
    Nobody,
    /// Without this client the verdict is better.
    Over {
        /// Which.
        client: usize,
        /// How many there are of this kind.
        of: usize,
    },
    /// Without this client the verdict is worse.
    Holds {
        /// Which.
        client: usize,
    },
    /// Nobody decides; this one pulls hardest.
    Pulls {
        /// Which.
        client: usize,
        /// The margin without it, and with it.
        margins: (f64, f64),
    },
    /// Nobody decides.
    Undecided,
}

pub(super) fn clients(
    federation: &Federation,
    protocol: &Protocol,
    start: &[f64],
    stable: Option<&StablePoint>,
    verdict: Verdict,
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
    if cohort::by_speed(protocol.scheme) {
        return Clients { parts, tips: Tips::Unasked, all: false };
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
    Clients { tips: tips(verdict, stable, &parts), parts, all }
}

/// The clients to leave out, and whether they are all that count.
fn influential(
    federation: &Federation,
    protocol: &Protocol,
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
            let n = counting.len() as f64;
            // What clients keep is a state of its own for each of them.
            let state = if protocol.local.keeps() { 100.0 * n.powi(2) } else { 1.0 };
            (MOST_WORK / (100.0 * each * n * state)) as usize
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
    protocol: &Protocol,
    start: &[f64],
    stable: Option<&StablePoint>,
    average_sensitivity: f64,
) -> Without {
    let (verdict, radius, margin) = match (others.is_affine(), stable) {
        (false, Some(point)) => near(others, protocol, start, point),
        _ => again(others, protocol, start),
    };
    Without { verdict, minimisation_radius: radius, gradient_margin: margin, average_sensitivity }
}

type Judged = (Verdict, Option<f64>, Option<f64>);

/// Judged again as a whole, without naming steps.
fn again(others: &Federation, protocol: &Protocol, start: &[f64]) -> Judged {
    let report = stable_points(others, start);
    let case =
        Case { federation: others, start, points: &report.points, arrived: None, effort: EFFORT };
    let everywhere = report.everywhere.unwrap_or((None, None));
    let nowhere = report.points.is_empty();
    let small = match nowhere {
        true => Answer::nowhere(&report),
        false => direction(&case, protocol).answer,
    };
    let minimised = report.minimisation.settles;
    let own = outlook(&case, protocol).answer.settles;
    let first = report.points.first();
    let radius = first.map_or(everywhere.0, |point| point.minimisation_radius);
    let margin = first.map_or(everywhere.1, |point| point.gradient_margin);
    (Verdict::of(minimised, own, small.settles, nowhere), radius, margin)
}

/// Judged near the stable point, which moves a little.
fn near(others: &Federation, protocol: &Protocol, start: &[f64], point: &StablePoint) -> Judged {
    let Some(moved) = stable_point_near(others, &point.theta) else {
        return (Verdict::Unknown, None, None);
    };
    let points = std::slice::from_ref(&moved);
    let case = Case { federation: others, start, points, arrived: None, effort: EFFORT };
    let (radius, margin) = (moved.minimisation_radius, moved.gradient_margin);
    let minimised = Minimisation::by_radius(radius).settles;
    let own = local_outlook(&case, protocol, &moved).answer.settles;
    let small = margin.map(|margin| margin > 0.0);
    (Verdict::of(minimised, own, small, false), radius, margin)
}

fn tips(verdict: Verdict, stable: Option<&StablePoint>, parts: &[ClientPart]) -> Tips {
    let left = parts.iter().enumerate().filter_map(|(client, part)| Some((client, part.without?)));
    let left: Vec<(usize, Without)> = left.collect();
    if left.is_empty() {
        return Tips::Nobody;
    }
    let margin = |without: &Without| without.gradient_margin.unwrap_or(f64::NEG_INFINITY);
    let known =
        |without: &Without| without.verdict != Verdict::Unknown && verdict != Verdict::Unknown;
    let better = left.iter().filter(|(_, w)| known(w) && w.verdict < verdict);
    let worse = left.iter().filter(|(_, w)| known(w) && w.verdict > verdict);
    let best = better
        .clone()
        .max_by(|(_, a), (_, b)| b.verdict.cmp(&a.verdict).then(margin(a).total_cmp(&margin(b))));
    if let Some((client, _)) = best {
        return Tips::Over { client: *client, of: better.count() };
    }
    if let Some((client, _)) = worse.max_by(|a, b| a.1.verdict.cmp(&b.1.verdict)) {
        return Tips::Holds { client: *client };
    }
    let hardest = left.iter().max_by(|a, b| margin(&a.1).total_cmp(&margin(&b.1)));
    match (hardest, stable.and_then(|point| point.gradient_margin)) {
        (Some((client, without)), Some(full)) if margin(without) > full => {
            Tips::Pulls { client: *client, margins: (margin(without), full) }
        }
        _ => Tips::Undecided,
    }
}
