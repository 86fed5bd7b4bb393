//! The loop over local steps for problems whose coordinates mix.
//!
//! A step waits for the one before it, from the model to the margins, the slopes and the gradient;
//! a few clients go through their steps together, so that one works while the other waits. What a
//! client draws does not depend on θ, only what its population makes of it: all of a round is drawn
//! first, in lanes.

use fedback_core::federation::Federation;
use fedback_core::protocol::Deploy;
use fedback_core::simd::{self, Kernel, LANES, Path};
use fedback_core::stream::Stream;

use super::objective_scale;
use crate::algorithm::{Order, Task};

/// What a client's observations come from.
pub trait Source: Copy + Default {
    /// What batches are made of.
    type Draw: Copy + Default;

    /// Where the draws of a round are kept.
    fn room(vectors: &mut Vectors) -> (&mut Vec<Self::Draw>, &mut Local);

    /// How many draws a batch takes where θ has `dim` coordinates.
    fn draws(dim: usize, batch: usize) -> usize;

    /// Writes what the client draws to `out`, in the order of the stream.
    fn draw(self, path: impl Path, stream: Stream, out: &mut [Self::Draw]);
}

/// The gradients of batches at local models, on data shifted by vectors.
pub trait BatchGradient {
    /// Whether it is worth a kernel of its own for every small dimension.
    const SPECIAL: bool;
    /// What observations come from.
    type Source: Source;

    /// What the observations of one client come from.
    fn source(&self, client: usize) -> Self::Source;

    /// Writes the gradients without penalty of all members.
    fn gradients<B: Blocks>(
        &self,
        path: impl Path,
        members: &Members<'_, Self::Source, B>,
        drawn: Drawn<'_, <Self::Source as Source>::Draw>,
        local: &mut Local,
    );
}

/// How many blocks a vector has: a constant where there are few, so that loops over them vanish.
pub trait Blocks: Copy {
    /// Whether vectors are so long that it pays to ask for them ahead of time.
    const LONG: bool;
    /// The number.
    fn count(self) -> usize;
}

#[derive(Clone, Copy)]
struct Few<const COUNT: usize>;

impl<const COUNT: usize> Blocks for Few<COUNT> {
    const LONG: bool = false;

    #[inline(always)]
    fn count(self) -> usize {
        COUNT
    }
}

#[derive(Clone, Copy)]
struct Many(usize);

impl Blocks for Many {
    const LONG: bool = true;

    #[inline(always)]
    fn count(self) -> usize {
        self.0
    }
}

/// Clients that go through their steps together.
pub struct Members<'a, S, B> {
    /// What the observations of each come from.
    pub sources: &'a [S],
    /// Observations a step.
    pub batch: usize,
    /// Coordinates of θ.
    pub dim: usize,
    /// Blocks of a vector.
    pub blocks: B,
}

impl<S, B: Blocks> Members<'_, S, B> {
    /// The vectors of all members.
    #[inline(always)]
    pub fn each<'a>(&self, vectors: &'a [Block]) -> std::slice::ChunksExact<'a, Block> {
        vectors.chunks_exact(self.blocks.count())
    }

    /// The vectors of all members, to be written.
    #[inline(always)]
    pub fn each_mut<'a>(&self, vectors: &'a mut [Block]) -> std::slice::ChunksExactMut<'a, Block> {
        vectors.chunks_exact_mut(self.blocks.count())
    }
}

/// What the members have drawn for one step.
#[derive(Clone, Copy)]
pub struct Drawn<'a, D> {
    all: &'a [D],
    /// Draws of a member in the whole round.
    round: usize,
    first: usize,
    count: usize,
}

impl<'a, D> Drawn<'a, D> {
    /// What one member has drawn.
    #[inline(always)]
    pub fn of(self, member: usize) -> &'a [D] {
        &self.all[member * self.round + self.first..][..self.count]
    }

    /// What one member has drawn for this step and those after it.
    #[inline(always)]
    pub fn from(self, member: usize) -> &'a [D] {
        &self.all[member * self.round..][self.first..self.round]
    }
}

/// Four coordinates. Vectors end in zeros where θ does not fill its last block, so that no loop has
/// a remainder.
pub type Block = [f64; 4];

/// Vectors of a worker, kept from round to round.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    pub(super) rows: Vec<u32>,
    pub(super) normals: Vec<f64>,
    pub(super) local: Local,
}

/// Vectors of all members, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Local {
    /// Local models.
    pub theta: Vec<Block>,
    /// The diagonals of the members' responses, where they have no more than that.
    reaction: Vec<Block>,
    /// How far the populations have moved.
    pub shift: Vec<Block>,
    /// Gradients; what stands behind the last coordinate is not used.
    pub gradient: Vec<Block>,
    /// The penalty's curvature of every coordinate.
    ridge: Vec<Block>,
    /// All bits of what is a coordinate, none of what fills a block.
    mask: Vec<[u64; 4]>,
    /// Margins of the observations, and then the slopes of their losses.
    pub slopes: Vec<f64>,
    /// Labels of the observations.
    pub labels: Vec<f64>,
}

impl Local {
    fn resize(&mut self, federation: &Federation, size: usize) {
        let dim = federation.dim();
        let blocks = dim.div_ceil(4);
        let zero = Block::default();
        // What was there may have filled its last block further.
        for vector in [&mut self.theta, &mut self.reaction, &mut self.shift, &mut self.gradient] {
            vector.clear();
            vector.resize(size * blocks, zero);
        }
        self.ridge.resize(blocks, zero);
        self.mask.resize(blocks, [0; 4]);
        let regularised = dim - usize::from(federation.has_intercept());
        let (penalised, others) = self.ridge.as_flattened_mut().split_at_mut(regularised);
        penalised.fill(federation.loss.l2());
        others.fill(0.0);
        let (real, filling) = self.mask.as_flattened_mut().split_at_mut(dim);
        real.fill(u64::MAX);
        filling.fill(0);
    }
}

/// Clients in small groups.
pub struct EachClient<'a> {
    /// The problem.
    pub federation: &'a Federation,
    /// What is asked of them.
    pub order: &'a Order<'a>,
    /// Who they are.
    pub tasks: &'a [Task<'a>],
    /// Their updates.
    pub deltas: &'a mut [f64],
    /// Room.
    pub vectors: &'a mut Vectors,
}

impl EachClient<'_> {
    /// Works with one kind of gradient.
    pub fn work<G: BatchGradient>(self, gradient: &G) {
        let dim = self.federation.dim();
        let size = (CACHED / (dim * self.order.batch)).clamp(1, GROUP);
        match dim.div_ceil(4) {
            1 if G::SPECIAL => simd::run(Steps { clients: self, gradient, size, blocks: Few::<1> }),
            2 if G::SPECIAL => simd::run(Steps { clients: self, gradient, size, blocks: Few::<2> }),
            3 if G::SPECIAL => simd::run(Steps { clients: self, gradient, size, blocks: Few::<3> }),
            4 if G::SPECIAL => simd::run(Steps { clients: self, gradient, size, blocks: Few::<4> }),
            many => simd::run(Steps { clients: self, gradient, size, blocks: Many(many) }),
        }
    }
}

/// Most clients of a group: enough to hide the latency of a step.
pub const GROUP: usize = 4;
/// Numbers in the observations of a group's step that a core's caches keep for their second use.
const CACHED: usize = 1 << 14;

struct Steps<'a, G, B> {
    clients: EachClient<'a>,
    gradient: &'a G,
    size: usize,
    blocks: B,
}

impl<G: BatchGradient, B: Blocks> Kernel for Steps<'_, G, B> {
    type Output = ();

    #[inline(always)]
    fn run<P: Path>(self, path: P) {
        let EachClient { federation, order, tasks, deltas, vectors } = self.clients;
        let (dim, steps) = (federation.dim(), order.step_sizes.len());
        let blocks = self.blocks.count();
        let count = G::Source::draws(dim, order.batch);
        // Whole vectors of lanes are drawn; what is too much is not used.
        let round = (count * steps).next_multiple_of(LANES);
        let (drawn, local) = G::Source::room(vectors);
        drawn.resize(round * self.size, Default::default());
        local.resize(federation, self.size);
        let mut everyone =
            tasks.iter().flat_map(|task| task.clients.iter().map(move |client| (task, client)));
        let (mut clients, mut scales) = ([0; GROUP], [0.0; GROUP]);
        let mut sources = [G::Source::default(); GROUP];
        for deltas in deltas.chunks_mut(self.size * dim) {
            let mut size = 0;
            for (task, &client) in everyone.by_ref().take(self.size) {
                let index = client.0 as usize;
                clients[size] = index;
                scales[size] = objective_scale(federation, order, client);
                let drawn = &mut drawn[size * round..][..round];
                sources[size] = self.gradient.source(index);
                sources[size].draw(path, task.streams.client(client.0), drawn);
                let at = size * blocks..(size + 1) * blocks;
                local.theta[at.clone()].as_flattened_mut()[..dim].copy_from_slice(task.theta);
                if federation.response.is_diagonal() {
                    let reaction = &mut local.reaction[at].as_flattened_mut()[..dim];
                    federation.response.diagonal_from(index, 0, reaction);
                }
                deltas[size * dim..][..dim].copy_from_slice(task.theta);
                size += 1;
            }
            let members =
                Members { sources: &sources[..size], batch: order.batch, dim, blocks: self.blocks };
            for (step, &step_size) in order.step_sizes.iter().enumerate() {
                if step == 0 || order.deploy == Deploy::Step {
                    react(path, federation, &members, &clients[..size], local);
                }
                let drawn = Drawn { all: drawn, round, first: step * count, count };
                self.gradient.gradients(path, &members, drawn, local);
                local.step(path, &members, step_size, &scales);
            }
            for (member, delta) in deltas.chunks_exact_mut(dim).enumerate() {
                let w = local.theta[member * blocks..].as_flattened();
                for (delta, w) in delta.iter_mut().zip(w) {
                    *delta = w - *delta;
                }
            }
        }
    }
}

/// Moves the populations to where they react to the local models.
#[inline(always)]
fn react<B: Blocks>(
    path: impl Path,
    federation: &Federation,
    members: &Members<'_, impl Copy, B>,
    clients: &[usize],
    local: &mut Local,
) {
    let dim = members.dim;
    let vectors = members.each(&local.theta).zip(members.each_mut(&mut local.shift));
    let vectors = vectors.zip(members.each(&local.reaction));
    for (&client, ((theta, shift), reaction)) in clients.iter().zip(vectors) {
        if federation.response.is_diagonal() {
            for j in 0..members.blocks.count() {
                let moved = path.mul(path.load(&reaction[j]), path.load(&theta[j]));
                path.store(moved, &mut shift[j]);
            }
        } else {
            let (theta, shift) = (theta.as_flattened(), shift.as_flattened_mut());
            federation.response.apply(client, &theta[..dim], &mut shift[..dim]);
        }
    }
}

impl Local {
    /// w ← w − η · scale (gradient + penalty) of every member.
    #[inline(always)]
    fn step<B: Blocks>(
        &mut self,
        path: impl Path,
        members: &Members<'_, impl Copy, B>,
        step_size: f64,
        scales: &[f64; GROUP],
    ) {
        let blocks = members.blocks.count();
        let (ridge, mask) = (&self.ridge[..blocks], &self.mask[..blocks]);
        let vectors = members.each_mut(&mut self.theta).zip(members.each(&self.gradient));
        for ((theta, gradient), scale) in vectors.zip(scales).take(members.sources.len()) {
            let step_size = path.splat(step_size * scale);
            for j in 0..blocks {
                let w = path.load(&theta[j]);
                let penalty = path.mul(path.load(&ridge[j]), w);
                let slope = path.add(path.load(&gradient[j]), penalty);
                let moved = path.sub(w, path.mul(step_size, slope));
                path.store(path.mask(moved, &mask[j]), &mut theta[j]);
            }
        }
    }
}
