//! How far everybody's arrival has come as time goes on.

use fedback_core::arrivals::{Latency, Trace};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::count::Count;
use super::quadrature::gauss_legendre;

/// One moment: how far arrivals have come, and who is about to arrive.
pub(super) struct Clock {
    /// F_i: the probability that client i has arrived.
    pub(super) arrived: Vec<f64>,
    /// How fast that grows.
    pub(super) rate: Vec<f64>,
    /// The clients of whom it does.
    pub(super) moving: Vec<usize>,
}

impl Clock {
    pub(super) fn new(clients: usize) -> Self {
        Clock { arrived: vec![0.0; clients], rate: vec![0.0; clients], moving: Vec::new() }
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

/// Latencies with densities, along log t.
pub(super) struct Smooth<'a> {
    latency: &'a Latency,
    /// Before it K arrivals are impossible, to rounding.
    pub(super) low: f64,
    /// After it fewer than K are, or the deadline.
    pub(super) high: f64,
}

impl<'a> Smooth<'a> {
    pub(super) fn new(latency: &'a Latency, deadline: Option<f64>, cohort: usize) -> Self {
        let (first, last) = support(latency);
        let end = deadline.map_or(last, |deadline| last.min(libm::log(deadline)));
        let mut smooth = Smooth { latency, low: first, high: last };
        let mut now = Clock::new(latency.clients());
        // Only where all must arrive is everybody waited for to the last.
        let impossible = |count: &Count| count.at_least(cohort) < NEGLIGIBLE;
        let mut low = smooth.last_moment(&mut now, NARROW, impossible);
        smooth.set(low, &mut now);
        if Count::of(&now.arrived).at_least(cohort) > ROUNDING {
            low = smooth.last_moment(&mut now, 0.0, impossible);
        }
        let open = |count: &Count| count.at_most(cohort - 1) > NEGLIGIBLE;
        let high = smooth.last_moment(&mut now, NARROW, open);
        smooth.low = low.min(end);
        smooth.high = high.min(end);
        smooth
    }

    /// The last moment at which something holds that ceases to hold in time, or later by `width`.
    fn last_moment(&self, now: &mut Clock, width: f64, holds: impl Fn(&Count) -> bool) -> f64 {
        let (mut low, mut high) = (self.low, self.high);
        for _ in 0..HALVINGS {
            if high - low <= width {
                break;
            }
            let middle = 0.5 * (low + high);
            self.set(middle, now);
            if holds(&Count::of(&now.arrived)) { low = middle } else { high = middle }
        }
        high
    }

    /// The clock at log t = `moment`.
    pub(super) fn set(&self, moment: f64, now: &mut Clock) {
        let clients = self.latency.clients();
        now.moving.clear();
        now.moving.extend(0..clients);
        for client in 0..clients {
            (now.arrived[client], now.rate[client]) = match self.latency {
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
        }
    }
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

/// Up to this many clients that jump together a rule is exact.
const TOGETHER: usize = 48;

/// The distinct latencies of a trace, one after the other.
pub(super) struct Jumps<'a> {
    trace: &'a Trace,
    /// (latency, client) in order, with repetitions.
    values: Vec<(f64, usize)>,
    place: usize,
    /// How many of a client's recorded latencies are over.
    over: Vec<usize>,
    rules: Vec<Vec<(f64, f64)>>,
    moving: usize,
}

impl<'a> Jumps<'a> {
    pub(super) fn new(trace: &'a Trace, deadline: Option<f64>) -> Self {
        let deadline = deadline.unwrap_or(f64::INFINITY);
        let mut values = sorted(trace);
        values.retain(|(latency, _)| *latency <= deadline);
        Jumps {
            trace,
            values,
            place: 0,
            over: vec![0; trace.clients()],
            rules: Vec::new(),
            moving: 0,
        }
    }

    /// Moves the clock to the next jump: what had arrived before it, and by how much it grows.
    pub(super) fn next(&mut self, now: &mut Clock) -> bool {
        let share = |client: usize, count: usize| count as f64 / self.trace.of(client).len() as f64;
        for &client in &now.moving {
            now.arrived[client] = share(client, self.over[client]);
            now.rate[client] = 0.0;
        }
        now.moving.clear();
        let Some(&(latency, _)) = self.values.get(self.place) else { return false };
        let mut counts: Vec<usize> = Vec::new();
        while let Some(&(same, client)) = self.values.get(self.place)
            && same == latency
        {
            // Clients are in order within a latency.
            match counts.last_mut() {
                Some(count) if now.moving.last() == Some(&client) => *count += 1,
                _ => {
                    now.moving.push(client);
                    counts.push(1);
                }
            }
            self.place += 1;
        }
        for (&client, count) in now.moving.iter().zip(counts) {
            self.over[client] += count;
            now.rate[client] = share(client, count);
        }
        self.moving = now.moving.len();
        true
    }

    /// The rule that is exact for the jump: the integrand is a polynomial of a degree below the number
    /// of clients that jump together. None where they are too many.
    pub(super) fn exact_rule(&mut self) -> Option<&[(f64, f64)]> {
        let nodes = self.moving.div_ceil(2);
        if self.moving > TOGETHER {
            return None;
        }
        while self.rules.len() <= nodes {
            self.rules.push(gauss_legendre(self.rules.len()));
        }
        Some(&self.rules[nodes])
    }

    /// Evaluations that a whole trace takes, roughly, and how many clients move in each.
    pub(super) fn cost(trace: &Trace) -> (f64, f64) {
        let values = sorted(trace);
        let jumps = values.chunk_by(|a, b| a.0 == b.0).count() as f64;
        let moving = values.len() as f64 / jumps.max(1.0);
        let moving = moving.min(trace.clients() as f64);
        let evaluations = if moving > TOGETHER as f64 { 100.0 } else { 0.5 * moving + 1.0 };
        (jumps * evaluations, moving)
    }
}

fn sorted(trace: &Trace) -> Vec<(f64, usize)> {
    let values = (0..trace.clients())
        .flat_map(|client| trace.of(client).iter().map(move |latency| (*latency, client)));
    let mut values: Vec<(f64, usize)> = values.collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    values
}
