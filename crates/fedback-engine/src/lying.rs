//! A client that lies, within what a server believes: for trials of what that does.
//!
//! Everybody else works as always, on the same draws: what two runs, one with and one without the liar,
//! differ by is its doing.

use std::sync::atomic::{AtomicU64, Ordering};

use fedback_core::federation::{ClientId, Federation};

use crate::rule::{keep_by_rule, length};
use crate::server::Reach;
use crate::work::{Order, Scratch, Task, Work, WorkError};

/// How much of the longest delta that is believed a lie takes: less than a rounding error from it.
const NEARLY: f64 = 1.0 - 1e-12;

/// The clients of a problem, one of whom may lie.
pub struct Lying<'a> {
    honest: &'a Federation,
    reach: &'a Reach,
    /// Who lies, and in which direction, a vector of length 1.
    liar: Option<(ClientId, &'a [f64])>,
    updates: AtomicU64,
    shortened: AtomicU64,
}

impl<'a> Lying<'a> {
    /// The clients of a problem, of whom `liar` says always the same, as long as it is believed.
    pub fn new(
        honest: &'a Federation,
        reach: &'a Reach,
        liar: Option<(ClientId, &'a [f64])>,
    ) -> Self {
        let (updates, shortened) = Default::default();
        Lying { honest, reach, liar, updates, shortened }
    }

    /// The share of honest updates that were as long as the protocol's clip allows.
    pub fn shortened(&self) -> f64 {
        let updates = self.updates.load(Ordering::Relaxed);
        self.shortened.load(Ordering::Relaxed) as f64 / updates.max(1) as f64
    }

    /// The longest delta that a server would believe of a client: what the clip says or, without
    /// one, what honest work can come to. A server that knows the populations has both, one of real
    /// sites the clip alone.
    fn believed(&self, order: &Order<'_>, broadcast: &[f64], client: (ClientId, &[f64])) -> f64 {
        let honest = || self.reach.longest(order.protocol, order.step_sizes, broadcast, client);
        order.longest().unwrap_or_else(honest)
    }
}

impl Work for Lying<'_> {
    fn dim(&self) -> usize {
        Work::dim(self.honest)
    }

    fn work(
        &self,
        order: &Order<'_>,
        tasks: &[Task<'_>],
        deltas: &mut [f64],
        kept: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<(), WorkError> {
        let before = kept.to_vec();
        self.honest.work(order, tasks, deltas, kept, scratch)?;
        let layout = self.honest.layout(order.protocol);
        let (dim, each) = (layout.dim, layout.kept);
        let longest = order.longest().map_or(f64::INFINITY, |clip| clip * NEARLY);
        let pairs = tasks.iter().flat_map(|task| task.clients.iter().map(move |c| (task, *c)));
        let mut shortened = 0;
        for (place, ((task, client), delta)) in pairs.zip(deltas.chunks_exact_mut(dim)).enumerate()
        {
            let Some((_, push)) = self.liar.filter(|liar| liar.0 == client) else {
                shortened += u64::from(length(delta) >= longest);
                continue;
            };
            let own = before.get(place * each..(place + 1) * each).unwrap_or_default();
            let length = NEARLY * self.believed(order, task.broadcast, (client, own));
            delta.iter_mut().zip(push).for_each(|(delta, push)| *delta = length * push);
            if let Some(kept) = kept.get_mut(place * each..(place + 1) * each) {
                kept.copy_from_slice(own);
                let kept = &mut kept[..layout.control];
                let sent = layout.parts(task.broadcast).control;
                keep_by_rule(order.protocol.local, order.total_step(), sent, kept, delta);
            }
        }
        self.updates.fetch_add((deltas.len() / dim.max(1)) as u64, Ordering::Relaxed);
        self.shortened.fetch_add(shortened, Ordering::Relaxed);
        Ok(())
    }

    fn losses(
        &self,
        order: &Order<'_>,
        task: &Task<'_>,
        theta: &[f64],
        out: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<(), WorkError> {
        self.honest.losses(order, task, theta, out, scratch)
    }
}
