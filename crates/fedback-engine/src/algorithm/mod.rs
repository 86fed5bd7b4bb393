//! What a client does with an order. One file an algorithm.

mod p_fedavg;
pub mod plain;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Deploy, Protocol, Round};
use fedback_core::stream::Streams;

/// What the server asks of the clients in one round, the same for all repetitions.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// η_t of every local step of the round.
    pub step_sizes: &'a [f64],
    /// Observations a local step.
    pub batch: usize,
    /// Which θ the populations react to.
    pub deploy: Deploy,
    /// Multiply gradients by N·p_i.
    pub scale_objectives: bool,
}

/// Whose work is wanted in one repetition.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The clients' observations: the streams of this seed, repetition and round for
    /// [`Purpose::Data`](fedback_core::stream::Purpose::Data).
    pub streams: Streams,
    /// The model as broadcast.
    pub theta: &'a [f64],
    /// Who works.
    pub clients: &'a [ClientId],
}

/// Room for a worker's intermediate vectors, kept from round to round.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    vectors: p_fedavg::clients::Vectors,
    block: p_fedavg::gaussian::Block,
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
/// function of the order, the streams, θ and its id.
pub trait Work: Sync {
    /// Coordinates of θ.
    fn dim(&self) -> usize;

    /// Writes the update (local θ after the round − θ broadcast) of every task's clients to
    /// `deltas`, one after the other.
    fn work(
        &self,
        order: &Order<'_>,
        tasks: &[Task<'_>],
        deltas: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<(), WorkError>;
}

/// Writes the step sizes of the round that follows `round` to `out`.
pub fn step_sizes(protocol: &Protocol, round: Round, out: &mut Vec<f64>) {
    let first = protocol.first_step(round).0;
    out.clear();
    out.extend(
        (first..first + protocol.local_steps as u64)
            .map(|t| protocol.step_size.at(fedback_core::protocol::Step(t))),
    );
}
