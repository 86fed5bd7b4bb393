//! What a client does with an order: the interface between those who ask and those who work.

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Protocol, Round};
use fedback_core::state::Repetition;
use fedback_core::stream::Streams;

use crate::oracle;
use crate::plain::Member;

/// What the server asks of the clients in one round, the same for all repetitions.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The algorithm.
    pub protocol: &'a Protocol,
    /// η_t of every local step of the round.
    pub step_sizes: &'a [f64],
}

impl Order<'_> {
    /// Σ η_t over the round.
    pub fn total_step(&self) -> f64 {
        self.step_sizes.iter().sum()
    }

    /// How long a delta may be.
    pub fn longest(&self) -> Option<f64> {
        self.protocol.longest(self.total_step())
    }

    /// What a client's gradients are multiplied with.
    pub fn objective_scale(&self, weights: &[f64], client: ClientId) -> f64 {
        match self.protocol.scale_objectives {
            true => weights.len() as f64 * weights[client.0 as usize],
            false => 1.0,
        }
    }
}

/// Whose work is wanted in one repetition.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The clients' observations: the streams of this seed, repetition and round for
    /// [`Purpose::Data`](fedback_core::stream::Purpose::Data).
    pub streams: Streams,
    /// The model as broadcast, and what is sent with it.
    pub broadcast: &'a [f64],
    /// Who works.
    pub clients: &'a [ClientId],
}

impl Task<'_> {
    /// Who works, one by one.
    pub fn members(&self) -> impl Iterator<Item = Member> {
        self.clients.iter().map(|&client| Member { streams: self.streams, client })
    }
}

/// Room for a worker's intermediate vectors, kept from round to round.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    pub(crate) vectors: oracle::Vectors,
    pub(crate) lanes: oracle::LaneBlock,
}

/// Why clients could not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("client {client}: {reason}")]
pub struct WorkError {
    /// The client that failed.
    pub client: u32,
    /// What happened, in words.
    pub reason: String,
}

/// Something that can do the work of clients: a built-in problem, or a real site.
///
/// One call serves the clients of several repetitions, so that an implementation is free to put
/// repetitions, clients, coordinates or draws into SIMD lanes. The work of a client is a pure
/// function of the order, the streams, what was broadcast, what the client kept and its id.
pub trait Work: Sync {
    /// Coordinates of θ.
    fn dim(&self) -> usize;

    /// Whether a round's work should come in one piece, rather than divided for caches and threads:
    /// a call costs much, and threads would wait for each other.
    fn wants_all(&self) -> bool {
        false
    }

    /// What was broadcast is deployed: what is remembered of those who leave becomes what is left of them.
    fn renew(&self, _repetition: &mut Repetition) {}

    /// What clients count for where a repetition's model is broadcast, if that reacts.
    fn weights(&self, _repetition: &Repetition) -> Option<Vec<f64>> {
        None
    }

    /// Writes the update (local θ after the round − θ broadcast) of every task's clients to
    /// `deltas`, one after the other. `kept` has what each of them kept, one after the other, and
    /// takes what each keeps now; it is empty where the rule keeps nothing.
    fn work(
        &self,
        order: &Order<'_>,
        tasks: &[Task<'_>],
        deltas: &mut [f64],
        kept: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<(), WorkError>;

    /// Writes the mean loss at `theta` over a fresh batch of every client of a task, whose population
    /// reacts to the model that was broadcast; penalty included. Asks for losses where [`Work::work`]
    /// asks for gradients, and draws the same observations as its first step.
    fn losses(
        &self,
        order: &Order<'_>,
        task: &Task<'_>,
        theta: &[f64],
        out: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<(), WorkError>;
}

/// Writes the step sizes of the round that follows `round` to `out`.
pub fn step_sizes(protocol: &Protocol, round: Round, out: &mut Vec<f64>) {
    out.clear();
    out.extend(protocol.sizes(round));
}
