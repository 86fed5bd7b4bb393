//! The probability of being among the first to arrive.
//!
//! All clients start a round together; F_i is the distribution of client i's latency. Among the first
//! K it is with probability
//!
//! π_i = ∫ P(at most K − 1 of the others have arrived by t) dF_i(t),
//!
//! and two clients are with
//!
//! π_ij = ∫ P(at most K − 2 of the others have arrived by t) (F_j dF_i + F_i dF_j)(t),
//!
//! where whichever of them is later arrives at t; a deadline ends the integral. How many of the others
//! have arrived is Poisson-binomial. Where latencies have densities the
//! integral goes along log t, from where the K-th arrival is impossible to where it is certain. A trace
//! has jumps, and clients who jump together are ordered by lot: as if each of them arrived at a
//! uniform moment of the jump, which makes the integrand a polynomial there, and the rule exact.

mod clock;
mod count;
mod quadrature;

use fedback_core::arrivals::{Arrivals, Latency};
use nalgebra::DMatrix;

use clock::{Clock, Jump};
use count::Count;
use quadrature::gauss_legendre;

/// More multiplications than these take more than some seconds: about 2,200 clients.
const MOST_WORK: f64 = 4e9;
/// The same for pairs, which are asked for after every run: about 130 clients.
const MOST_WORK_FOR_PAIRS: f64 = 1e9;
/// How many panels, halves and nodes a smooth integral takes, roughly.
const EVALUATIONS: f64 = 400.0;
/// Up to this many clients that jump together a rule is exact.
const TOGETHER: usize = 48;

/// Why there are no inclusion probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoInclusion {
    /// They take too long to compute.
    TooMany {
        /// N.
        clients: usize,
        /// Whether a shorter trace would help.
        trace: bool,
    },
    /// Latencies of such different sizes, or so sharp, that the integral is not certain to rounding.
    TooSharp,
}

/// π_i of every client for a cohort of K.
pub fn inclusion(arrivals: &Arrivals, cohort: usize) -> Result<Vec<f64>, NoInclusion> {
    let clients = arrivals.latency.clients();
    if arrivals.is_uniform() {
        return Ok(vec![cohort.min(clients) as f64 / clients as f64; clients]);
    }
    affordable(arrivals, false)?;
    // Before the K-th arrival is possible everybody who arrives is in.
    let early = |arrived: &[f64]| arrived.to_vec();
    let at = |now: &Clock, weight: f64, sum: &mut [f64]| {
        let count = now.count();
        for client in now.moving() {
            let others = count.at_most_without(now.arrived[client], cohort - 1);
            sum[client] += weight * now.rate[client] * others;
        }
    };
    let total = |count: &Count| count.expected(|arrived| arrived.min(cohort) as f64);
    integrate(arrivals, cohort, early, at, total)
}

/// π_ij of every pair of clients for a cohort of K, with π_i on the diagonal.
pub fn pairs(arrivals: &Arrivals, cohort: usize) -> Result<DMatrix<f64>, NoInclusion> {
    let clients = arrivals.latency.clients();
    let single = inclusion(arrivals, cohort)?;
    let mut matrix = DMatrix::zeros(clients, clients);
    if arrivals.is_uniform() {
        let (n, k) = (clients as f64, cohort as f64);
        matrix.fill((k * (k - 1.0) / (n * (n - 1.0)).max(1.0)).min(1.0));
    } else if cohort > 1 {
        affordable(arrivals, true)?;
        let early = |arrived: &[f64]| {
            let both = |i: usize, j: usize| if i == j { 0.0 } else { arrived[i] * arrived[j] };
            (0..clients * clients).map(|place| both(place / clients, place % clients)).collect()
        };
        let at = |now: &Clock, weight: f64, sum: &mut [f64]| {
            let count = now.count();
            for late in now.moving() {
                let others = count.without(now.arrived[late]);
                for soon in (0..clients).filter(|soon| *soon != late && now.arrived[*soon] > 0.0) {
                    let q = now.arrived[soon];
                    let both = weight * now.rate[late] * q * others.at_most_without(q, cohort - 2);
                    sum[late * clients + soon] += both;
                    sum[soon * clients + late] += both;
                }
            }
        };
        let total = |count: &Count| {
            count.expected(|arrived| {
                let members = arrived.min(cohort) as f64;
                members * (members - 1.0)
            })
        };
        matrix.copy_from_slice(&integrate(arrivals, cohort, early, at, total)?);
    }
    matrix.set_diagonal(&single.into());
    Ok(matrix)
}

/// The probability that nobody arrives before the deadline.
pub fn nobody(arrivals: &Arrivals) -> f64 {
    let Some(deadline) = arrivals.deadline else { return 0.0 };
    let Latency::Trace(trace) = arrivals.latency.as_ref() else {
        let arrived = clock::smooth(&arrivals.latency, libm::log(deadline)).arrived;
        return arrived.iter().map(|arrived| 1.0 - arrived).product();
    };
    let late = |client: usize| {
        let own = trace.of(client);
        own.iter().filter(|latency| **latency > deadline).count() as f64 / own.len() as f64
    };
    (0..trace.clients()).map(late).product()
}

/// ∫ of `at` along the clock of the arrivals, after `early`, what is certain before it starts; `total`
/// is what all values must sum to, given how many have arrived.
fn integrate(
    arrivals: &Arrivals,
    cohort: usize,
    early: impl Fn(&[f64]) -> Vec<f64>,
    at: impl Fn(&Clock, f64, &mut [f64]),
    total: impl Fn(&Count) -> f64,
) -> Result<Vec<f64>, NoInclusion> {
    let Arrivals { latency, deadline } = arrivals;
    let (mut sum, mut certain);
    if let Latency::Trace(trace) = latency.as_ref() {
        let mut arrived = vec![0.0; trace.clients()];
        (sum, certain) = (early(&arrived), true);
        for jump in Jump::all(trace, *deadline) {
            let integrand = |part: f64, weight: f64, sum: &mut [f64]| {
                at(&jump.at(part, &arrived), weight, sum);
            };
            if jump.clients() <= TOGETHER {
                // A polynomial of a degree below the number of clients that jump together.
                let nodes = gauss_legendre(jump.clients().div_ceil(2));
                quadrature::rule(&nodes, (0.0, 1.0), &integrand, &mut sum);
            } else {
                certain &= quadrature::adaptive((0.0, 1.0), &integrand, None, &mut sum);
            }
            jump.close(&mut arrived);
        }
    } else {
        let ends = clock::ends(latency, *deadline, cohort);
        let total = |moment: f64| total(&clock::smooth(latency, moment).count());
        sum = early(&clock::smooth(latency, ends.0).arrived);
        certain = quadrature::is_whole(sum.iter().sum(), 0.0, total(ends.0));
        let integrand = |moment: f64, weight: f64, sum: &mut [f64]| {
            at(&clock::smooth(latency, moment), weight, sum);
        };
        if ends.0 < ends.1 {
            certain &= quadrature::adaptive(ends, &integrand, Some(&total), &mut sum);
        }
    }
    sum.iter_mut().for_each(|probability| *probability = probability.clamp(0.0, 1.0));
    certain.then_some(sum).ok_or(NoInclusion::TooSharp)
}

/// Refuses what would take minutes.
fn affordable(arrivals: &Arrivals, pairs: bool) -> Result<(), NoInclusion> {
    let clients = arrivals.latency.clients();
    let n = clients as f64;
    // Each evaluation counts all arrivals, and leaves everybody who moves out of the count.
    let (evaluations, moving, trace) = match arrivals.latency.as_ref() {
        Latency::Trace(trace) => {
            let records: usize = (0..clients).map(|client| trace.of(client).len()).sum();
            let jumps = Jump::all(trace, None).len() as f64;
            let moving = (records as f64 / jumps).min(n);
            let each = if moving > TOGETHER as f64 { 100.0 } else { 0.5 * moving + 1.0 };
            (jumps * each, moving, true)
        }
        Latency::Exponential { .. } | Latency::Lognormal { .. } => (EVALUATIONS, n, false),
    };
    let each = n * n + moving * n * if pairs { n } else { 1.0 };
    let most = if pairs { MOST_WORK_FOR_PAIRS } else { MOST_WORK };
    match evaluations * each <= most {
        true => Ok(()),
        false => Err(NoInclusion::TooMany { clients, trace }),
    }
}
