//! Who answers first: latencies, drawn from a stream of every client's own.

use std::cmp::Ordering;

use fedback_core::arrivals::{Arrivals, Latency};
use fedback_core::normal;
use fedback_core::stream::{Stream, Streams};

/// When one client answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocked {
    latency: f64,
    /// Decides between equals.
    lot: u64,
    pub(crate) client: u32,
}

/// Fills `arrived` with the first `cohort` clients to arrive before the deadline, in no order.
/// Everybody's latency is drawn, but they are not sorted.
pub(crate) fn first(
    arrivals: &Arrivals,
    streams: Streams,
    cohort: usize,
    arrived: &mut Vec<Clocked>,
) {
    let deadline = arrivals.deadline.unwrap_or(f64::INFINITY);
    arrived.clear();
    arrived.extend((0..arrivals.latency.clients() as u32).filter_map(|client| {
        let stream = streams.client(client);
        let latency = draw(&arrivals.latency, client as usize, stream);
        (latency <= deadline).then(|| Clocked { latency, lot: stream.word(1), client })
    }));
    if arrived.len() > cohort {
        arrived.select_nth_unstable_by(cohort - 1, order);
        arrived.truncate(cohort);
    }
}

/// The order of arrival. Equals, which a trace may have, are ordered by lot, so that clients who are
/// equally fast are equally likely to be first; by id only if even lots are equal.
fn order(a: &Clocked, b: &Clocked) -> Ordering {
    a.latency.total_cmp(&b.latency).then(a.lot.cmp(&b.lot)).then(a.client.cmp(&b.client))
}

/// A client's latency, from the first word of its stream.
fn draw(latency: &Latency, client: usize, stream: Stream) -> f64 {
    match latency {
        Latency::Exponential { mean } => -mean[client] * libm::log(1.0 - stream.uniform(0)),
        Latency::Lognormal { median, sigma } => {
            median[client] * libm::exp(sigma[client] * stream.normal(normal::ziggurat(), 0))
        }
        Latency::Trace(trace) => {
            let recorded = trace.of(client);
            recorded[stream.index(0, recorded.len())]
        }
    }
}
