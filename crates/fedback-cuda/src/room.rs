//! How a round is laid out on the device: what a repetition needs, and how many share a block.

use crate::driver::Shape;
use crate::layout::Room;

/// What a round of a repetition consists of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) clients: usize,
    pub(crate) dim: usize,
    /// Draws of a cohort; none where everybody takes part.
    pub(crate) draws: usize,
    /// Most who work.
    pub(crate) workers: usize,
    /// Numbers in the server's block.
    pub(crate) server: usize,
    /// Whether it is worked out how far clients are apart.
    pub(crate) watched: bool,
    /// Threads that a worker can keep busy.
    pub(crate) threads: usize,
    /// Bytes that every block shares beside its rooms.
    pub(crate) table: usize,
    /// Whether workers have blocks of their own, so that rooms are shared by several.
    pub(crate) apart: bool,
}

/// Most threads a block: with so many, every kernel finds the registers that it wants.
pub(crate) const MOST_THREADS: usize = 256;
/// Bytes that a block shares on every device without being asked; with them, several blocks find room
/// on a multiprocessor.
const SHARED: usize = 48 << 10;
/// Threads that go in step.
const WARP: usize = 32;
/// Blocks a multiprocessor that are worth more than larger ones.
const BLOCKS_EACH: usize = 4;

/// How all repetitions go through a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) room: Room,
    pub(crate) together: usize,
    pub(crate) shape: Shape,
    /// Bytes of memory that rooms take where blocks cannot share them.
    pub(crate) memory: usize,
}

impl Extent {
    /// The same in a round in which all clients work, and it is worked out how far they are apart.
    pub(crate) fn watched(self) -> Self {
        Extent { workers: self.clients, watched: true, ..self }
    }

    /// What is where.
    fn room(&self) -> Room {
        let mut end = 0;
        let mut take = |bytes: usize| {
            let at = end;
            end += bytes.next_multiple_of(8) as u64;
            at
        };
        let words = if self.draws > 0 { self.clients.div_ceil(64) } else { 0 };
        let means = if self.watched { self.dim + self.clients } else { 0 };
        let mut room = Room {
            stride: 0,
            streams: take(32),
            count: take(16),
            bits: take(8 * words),
            upto: take(4 * words),
            drawn: take(4 * self.draws),
            chosen: take(4 * self.draws),
            members: take(4 * self.draws),
            times: take(4 * self.draws),
            deltas: take(8 * self.workers * self.dim),
            next: take(8 * self.server),
            mean: take(8 * means),
        };
        room.stride = end;
        room
    }

    /// How so many repetitions go through a round: as many in a block as keep its threads busy, but
    /// no fewer blocks than keep the device busy.
    pub(crate) fn plan(&self, multiprocessors: usize, repetitions: usize) -> Plan {
        let room = self.room();
        let stride = room.stride as usize;
        let busy = self.workers * self.threads;
        let few = repetitions.div_ceil(BLOCKS_EACH * multiprocessors);
        let mut together = (MOST_THREADS / busy.max(1)).clamp(1, few.max(1));
        let left = SHARED - self.table;
        let is_shared = stride <= left && !self.apart;
        if is_shared {
            together = together.min(left / stride);
        }
        let threads = (busy * together).next_multiple_of(WARP).min(MOST_THREADS);
        let rooms = if is_shared { together * stride } else { 0 };
        let blocks = repetitions.div_ceil(together);
        let shape = Shape { blocks, threads, shared: self.table + rooms };
        let memory = if is_shared { 0 } else { repetitions * stride };
        Plan { room, together, shape, memory }
    }
}
