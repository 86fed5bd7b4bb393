//! Who tips the federation over: every client's share, and the certificate without it.
//!
//! A client is left out by giving its weight to the others in proportion to theirs; it stays among the N
//! clients that sampling without replacement draws from. Affine problems are judged again as a
//! whole, others near the stable point. Where clients are many, the most influential ones are left out
//! in turn: those with the largest product of weight and distance of H_i + J_i from the average.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::protocol::Protocol;
use fedback_core::response::Shift;
use serde::Serialize;

use super::elsewhere::local_outlook;
use super::outlook::Case;
use super::small_steps::direction;
use super::verdict::Verdict;
use crate::cohort;
use crate::constants::Constants;
use crate::stable::{StablePoint, StableReport, stable_points};

/// Up to so many clients all are left out in turn.
const MOST_CLIENTS: usize = 200;
/// Of more clients so many.
const MOST_INFLUENTIAL: usize = 20;
/// Operations on rows that leaving clients out may cost.
const MOST_WORK: f64 = 4e9;
/// Numbers that a path without one client may touch.
const EFFORT: f64 = 1e6;

/// One client's part.
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Copy, Debug, Serialize)]
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
    Holds(usize),
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
    for client in chosen {
        let rest = 1.0 - federation.weights()[client];
        let mut weights: Vec<f64> = federation.weights().iter().map(|p| p / rest).collect();
        weights[client] = 0.0;
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
    let counting: Vec<usize> = federation.counting().collect();
    let (n, dim) = (counting.len() as f64, federation.dim() as f64);
    let work = match federation.base() {
        Base::Table(table) if !federation.is_affine() => {
            let entries = (dim * dim).min(256.0);
            let rows = table.len() as f64 * (entries * entries + 60.0 * dim * dim);
            rows + n * protocol.local_steps as f64 * dim.powi(6)
        }
        Base::Table(_) | Base::Gaussian(_) => {
            let diagonal = federation.shift().is_some_and(Shift::is_diagonal);
            let each = if diagonal { dim } else { dim.powi(3) };
            // What clients keep is a state of its own for each of them.
            let state = if protocol.local.keeps() { 100.0 * n.powi(2) } else { 1.0 };
            100.0 * each * n * state
        }
    };
    let affordable = (MOST_WORK / work) as usize;
    if counting.len() <= affordable.min(MOST_CLIENTS) {
        return (counting, true);
    }
    let most = MOST_INFLUENTIAL.min(affordable.max(3));
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
    ranked.truncate(most);
    let mut chosen: Vec<usize> = ranked.into_iter().map(|(_, client)| client).collect();
    chosen.sort_unstable();
    let all = chosen.len() == counting.len();
    (chosen, all)
}

/// Judged again as a whole, without naming steps, where the problem is affine or there was no stable
/// point; near the stable point, which moves a little, otherwise.
fn without(
    others: &Federation,
    protocol: &Protocol,
    start: &[f64],
    stable: Option<&StablePoint>,
    average_sensitivity: f64,
) -> Without {
    let near = stable.filter(|_| !others.is_affine());
    let report = match near {
        Some(point) => StableReport::near(others, &point.theta),
        None => stable_points(others, start),
    };
    let case = Case { effort: EFFORT, ..Case::new(others, None, start, &report) };
    let (minimisation_radius, gradient_margin) = report.spectra();
    let (own, small) = match (near, report.points.first()) {
        (Some(_), Some(moved)) => {
            let own = local_outlook(&case, protocol, moved).answer.settles;
            (own, gradient_margin.map(|margin| margin > 0.0))
        }
        (Some(_), None) => (None, None),
        (None, _) => {
            let small = direction(&case, protocol).answer.settles;
            (case.outlook(protocol).answer.settles, small)
        }
    };
    let (minimised, nowhere) = (report.minimisation.settles, report.points.is_empty());
    Without {
        verdict: Verdict::of(minimised, own, small, nowhere),
        minimisation_radius,
        gradient_margin,
        average_sensitivity,
    }
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
        return Tips::Holds(*client);
    }
    let hardest = left.iter().max_by(|a, b| margin(&a.1).total_cmp(&margin(&b.1)));
    match (hardest, stable.and_then(|point| point.gradient_margin)) {
        (Some((client, without)), Some(full)) if margin(without) > full => {
            Tips::Pulls { client: *client, margins: (margin(without), full) }
        }
        _ => Tips::Undecided,
    }
}
