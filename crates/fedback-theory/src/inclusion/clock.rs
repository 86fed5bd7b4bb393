//! How far everybody's arrival has come as time goes on.

use fedback_core::arrivals::{Latency, Trace};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::count::Count;

/// One moment: how far arrivals have come, and who is about to arrive.
pub(super) struct Clock {
    /// F_i: the probability that client i has arrived.
    pub(super) arrived: Vec<f64>,
    /// How fast that grows.
    pub(super) rate: Vec<f64>,
}

impl Clock {
    /// The clients whose arrival is under way.
    pub(super) fn moving(&self) -> impl Iterator<Item = usize> {
        (0..self.rate.len()).filter(|client| self.rate[*client] != 0.0)
    }

    /// How many have arrived.
    pub(super) fn count(&self) -> Count {
        Count::of(&self.arrived)
    }
}

/// Probabilities below this count as nothing.
const NEGLIGIBLE: f64 = 1e-19;
/// What may be certain already where K arrivals are called impossible.
const ROUNDING: f64 = 1e-16;
/// How exactly ends are looked for, unless latencies are sharper.
const NARROW: f64 = 1e-3;
/// How often the time between the first and the last arrival is halved at most.
const HALVINGS: usize = 60;

/// The clock of latencies with densities at log t = `moment`.
pub(super) fn smooth(latency: &Latency, moment: f64) -> Clock {
    let one = |client: usize| match latency {
        Latency::Exponential { mean } => {
            let (time, mean) = (libm::exp(moment), mean[client]);
            let waited = match time.is_normal() && mean.is_normal() {
                true => time / mean,
                false => libm::exp(moment - libm::log(mean)),
            };
            (-libm::expm1(-waited), waited.min(f64::MAX) * libm::exp(-waited))
        }
        Latency::Lognormal { median, sigma } => {
            let sigma = sigma[client];
            let z = (moment - libm::log(median[client])) / sigma;
            let density = libm::exp(-0.5 * z * z) / (sigma * libm::sqrt(2.0 * PI));
            (0.5 * libm::erfc(-z * FRAC_1_SQRT_2), density)
        }
        Latency::Trace(_) => (0.0, 0.0),
    };
    let (arrived, rate) = (0..latency.clients()).map(one).unzip();
    Clock { arrived, rate }
}

/// log t before which K arrivals are impossible, to rounding, and after which fewer than K are, or the
/// deadline.
pub(super) fn ends(latency: &Latency, deadline: Option<f64>, cohort: usize) -> (f64, f64) {
    let (first, last) = support(latency);
    let count = |moment: f64| smooth(latency, moment).count();
    // The last moment at which something holds that ceases to hold in time, or later by `width`.
    let last_moment = |width: f64, holds: &dyn Fn(Count) -> bool| {
        let (mut low, mut high) = (first, last);
        for _ in 0..HALVINGS {
            if high - low <= width {
                break;
            }
            let middle = 0.5 * (low + high);
            if holds(count(middle)) { low = middle } else { high = middle }
        }
        high
    };
    // Only where all must arrive is everybody waited for to the last.
    let impossible = |count: Count| count.at_least(cohort) < NEGLIGIBLE;
    let mut low = last_moment(NARROW, &impossible);
    if count(low).at_least(cohort) > ROUNDING {
        low = last_moment(0.0, &impossible);
    }
    let high = last_moment(NARROW, &|count| count.at_most(cohort - 1) > NEGLIGIBLE);
    let end = deadline.map_or(last, |deadline| last.min(libm::log(deadline)));
    (low.min(end), high.min(end))
}

/// Before the first of these logarithms of t nobody has arrived, after the second everybody has, to
/// far below rounding.
fn support(latency: &Latency) -> (f64, f64) {
    let ends = |client: usize| match latency {
        Latency::Exponential { mean } => {
            let scale = libm::log(mean[client]);
            (scale - 50.0, scale + 4.0)
        }
        Latency::Lognormal { median, sigma } => {
            let (scale, reach) = (libm::log(median[client]), 10.0 * sigma[client]);
            (scale - reach, scale + reach)
        }
        Latency::Trace(_) => (0.0, 0.0),
    };
    let wider = |a: (f64, f64), b: (f64, f64)| (a.0.min(b.0), a.1.max(b.1));
    (0..latency.clients()).map(ends).fold((f64::INFINITY, f64::NEG_INFINITY), wider)
}

/// Clients of a trace that may arrive at the same moment, each with by how much F grows, and F after it.
pub(super) struct Jump(Vec<(usize, f64, f64)>);

impl Jump {
    /// All of a trace up to a deadline, in order.
    pub(super) fn all(trace: &Trace, deadline: Option<f64>) -> Vec<Self> {
        let deadline = deadline.unwrap_or(f64::INFINITY);
        let of = |client: usize| trace.of(client).iter().map(move |latency| (*latency, client));
        let records = (0..trace.clients()).flat_map(of);
        let mut records: Vec<(f64, usize)> = records.filter(|one| one.0 <= deadline).collect();
        records.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut over = vec![0; trace.clients()];
        let mut grown = |client: usize, count: usize| {
            let share = |count: usize| count as f64 / trace.of(client).len() as f64;
            over[client] += count;
            (client, share(count), share(over[client]))
        };
        let mut jump = |together: &[(f64, usize)]| {
            let own = together.chunk_by(|a, b| a.1 == b.1);
            Jump(own.map(|own| grown(own[0].1, own.len())).collect())
        };
        records.chunk_by(|a, b| a.0 == b.0).map(&mut jump).collect()
    }

    /// How many clients jump.
    pub(super) fn clients(&self) -> usize {
        self.0.len()
    }

    /// The clock after a part of the jump, given who had arrived before it.
    pub(super) fn at(&self, part: f64, arrived: &[f64]) -> Clock {
        let mut now = Clock { arrived: arrived.to_vec(), rate: vec![0.0; arrived.len()] };
        for &(client, rate, _) in &self.0 {
            now.arrived[client] += part * rate;
            now.rate[client] = rate;
        }
        now
    }

    /// Goes past the jump.
    pub(super) fn close(&self, arrived: &mut [f64]) {
        self.0.iter().for_each(|&(client, _, after)| arrived[client] = after);
    }
}
