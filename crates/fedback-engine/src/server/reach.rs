//! How far honest work can move a client's model, where the server knows the populations.
//!
//! Every local step is at most η times the longest gradient at any θ that the steps before can have
//! led to: with |x| ≤ `row`, |y| ≤ `label` and a response of norm `response`, that is a number. Normal
//! data have no longest row; [`DEVIATIONS`] beyond the mean stand for it.

use fedback_core::base::Base;
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::memory::Memory;
use fedback_core::protocol::{Deploy, LocalRule, Protocol};
use fedback_core::response::Response;
use fedback_core::state::Layout;

use crate::rule::length;

/// Standard deviations beyond which no normal variate is expected in the life of a federation: its
/// chance is below 1e-32.
const DEVIATIONS: f64 = 12.0;
/// Smoothings beyond its budget that no row is expected to go: its chance is below 1e-32.
const SMOOTHINGS: f64 = 75.0;

/// How far honest clients can get in a round.
#[derive(Clone, Debug)]
pub struct Reach {
    clients: Vec<Extent>,
    loss: Loss,
    memory: Option<Memory>,
    dim: usize,
}

/// The largest numbers of a client's population.
#[derive(Clone, Copy, Debug)]
struct Extent {
    row: f64,
    label: f64,
    /// How much further rows are under a longer model.
    response: f64,
    /// How far they go whatever the model.
    push: f64,
    /// How much labels listen.
    strength: f64,
    /// What gradients are multiplied with where objectives are scaled: N p_i.
    scale: f64,
}

impl Reach {
    /// Of the clients of a problem.
    pub fn of(federation: &Federation) -> Self {
        let (dim, count) = (federation.dim(), federation.clients());
        let extent = |client: usize| {
            let (row, label) = match federation.base() {
                Base::Gaussian(base) => {
                    let noise = base.noise * ((dim as f64).sqrt() + DEVIATIONS);
                    (length(base.mean(client)) + noise, 0.0)
                }
                Base::Table(table) => {
                    table.rows_of(client).fold((0.0, 0.0), |(row, label), next| {
                        (f64::max(row, length(next.0)), f64::max(label, next.1.abs()))
                    })
                }
            };
            let (response, push, strength) = match federation.response() {
                Response::Shift(shift) => (shift.sensitivity(client, dim), 0.0, 0.0),
                Response::Bounded(bounded) => {
                    let reference = length(&bounded.reference);
                    let response = bounded.shift.sensitivity(client, dim);
                    (response, response * reference, 0.0)
                }
                Response::Strategic(strategic) => {
                    (0.0, strategic.budget + SMOOTHINGS * strategic.smoothing, 0.0)
                }
                Response::Outcome(outcome) => (0.0, 0.0, outcome.strength[client].abs()),
                Response::Retention(_) => (0.0, 0.0, 0.0),
                // Nobody knows how far it goes.
                Response::Own(_) => (0.0, f64::INFINITY, 0.0),
            };
            // Weights that react are at most one.
            let share = if federation.weighs() { 1.0 } else { federation.weights()[client] };
            let scale = count as f64 * share;
            Extent { row, label, response, push, strength, scale }
        };
        let (loss, memory) = (federation.loss(), federation.memory());
        Reach { clients: (0..count).map(extent).collect(), loss, memory, dim }
    }

    /// How long an honest delta of a client that kept something can be in a round of steps of these
    /// sizes, from a model and what is sent with it.
    pub fn longest(
        &self,
        protocol: &Protocol,
        sizes: &[f64],
        broadcast: &[f64],
        (client, kept): (ClientId, &[f64]),
    ) -> f64 {
        let Some(extent) = self.clients.get(client.0 as usize) else { return 0.0 };
        let scale = if protocol.scale_objectives { extent.scale } else { 1.0 };
        let layout = Layout::new(protocol, self.memory, self.dim, self.clients.len());
        let sent = layout.parts(broadcast);
        let (kept, own) = kept.split_at(layout.control);
        let start = length(sent.theta);
        let control = length(sent.control) + length(kept);
        let past = sent.past.chunks_exact(self.dim).chain(own.chunks_exact(self.dim));
        let remembered = past.map(length).fold(0.0, f64::max);
        let mut moved = 0.0;
        for size in sizes {
            let theta = start + moved;
            let deployed = match protocol.deploy {
                Deploy::Step => theta,
                Deploy::Round => start,
            };
            let deployed = deployed.max(remembered);
            let row = extent.row + extent.push + extent.response * deployed;
            let label = extent.label + extent.strength * row * deployed;
            let gradient = match self.loss {
                Loss::Mean => theta + row,
                Loss::Squared { l2 } => row * (row * theta + label) + l2 * theta,
                Loss::Logistic { l2 } => row + l2 * theta,
            };
            let rule = match protocol.local {
                LocalRule::Descent => 0.0,
                LocalRule::Proximal { proximal } => proximal * moved,
                LocalRule::Scaffold => control,
            };
            moved += size * (scale * gradient + rule);
        }
        moved
    }
}
