//! The loop over local steps for problems whose coordinates mix.
//!
//! A step waits for the one before it, from the model to the margins, the slopes and the gradient;
//! a few clients go through their steps together, so that one works while the other waits. What a
//! client draws does not depend on θ, only what its population makes of it: all of a round is drawn
//! first, in lanes.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Batch, Deploy};
use fedback_core::response::Shift;
use fedback_core::simd::{self, Fours, Kernel, LANES, Path};
use fedback_core::stream::Stream;

use crate::rule::{Coordinate, Rule, StepSizes};
use crate::work::{Order, Task};

/// What a client's observations come from.
pub trait Pool: Copy + Default {
    /// What batches are made of.
    type Draw: Copy + Default;

    /// Where the draws of a round are kept.
    fn room(vectors: &mut Vectors) -> (&mut Vec<Self::Draw>, &mut Local);

    /// How many draws a batch takes where θ has `dim` coordinates.
    fn draws(dim: usize, batch: usize) -> usize;

    /// Writes what the client draws to `out`, in the order of the stream.
    fn draw(self, path: impl Path, stream: Stream, out: &mut [Self::Draw]);

    /// Fills `out` with draws that stand for the whole population, and returns the size of a batch
    /// that is all of it.
    fn everything(self, out: &mut Vec<Self::Draw>) -> usize;
}

/// Gradients and losses of batches at local models, on data shifted by vectors.
pub trait Oracle {
    /// Whether it is worth a kernel of its own for every small dimension.
    const SPECIAL: bool;
    /// What observations come from.
    type Pool: Pool;

    /// What the observations of one client come from.
    fn pool(&self, client: usize) -> Self::Pool;

    /// Writes the gradients without penalty of all members.
    fn gradients<B: Blocks>(
        &self,
        path: impl Path,
        members: &Members<'_, Self::Pool, B>,
        drawn: Drawn<'_, <Self::Pool as Pool>::Draw>,
        local: &mut Local,
    );

    /// The mean loss without penalty over the batch of a single member.
    fn loss<B: Blocks>(
        &self,
        path: impl Path,
        members: &Members<'_, Self::Pool, B>,
        drawn: Drawn<'_, <Self::Pool as Pool>::Draw>,
        local: &mut Local,
    ) -> f64;
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
    pub pools: &'a [S],
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
    /// The models as broadcast, for rules that look back at them.
    anchor: Vec<Block>,
    /// What rules make of what was sent and kept.
    control: Vec<Block>,
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
    fn resize(&mut self, federation: &Federation, size: usize, reads: bool) {
        let dim = federation.dim();
        let blocks = dim.div_ceil(4);
        let zero = Block::default();
        let Local { theta, anchor, control, reaction, shift, gradient, .. } = self;
        // What was there may have filled its last block further.
        for vector in [theta, reaction, shift, gradient] {
            vector.clear();
            vector.resize(size * blocks, zero);
        }
        let read = if reads { size * blocks } else { 0 };
        for vector in [anchor, control] {
            vector.clear();
            vector.resize(read, zero);
        }
        self.ridge.resize(blocks, zero);
        self.mask.resize(blocks, [0; 4]);
        let regularised = dim - usize::from(federation.has_intercept());
        let (penalised, others) = self.ridge.as_flattened_mut().split_at_mut(regularised);
        penalised.fill(federation.loss().l2());
        others.fill(0.0);
        let (real, filling) = self.mask.as_flattened_mut().split_at_mut(dim);
        real.fill(u64::MAX);
        filling.fill(0);
    }
}

/// Clients in small groups.
pub struct Clients<'a, R> {
    /// The problem.
    pub federation: &'a Federation,
    /// What is asked of them.
    pub order: &'a Order<'a>,
    /// Who they are.
    pub tasks: &'a [Task<'a>],
    /// Their updates.
    pub deltas: &'a mut [f64],
    /// What they kept, where the rule keeps something.
    pub kept: &'a [f64],
    /// What they make of gradients.
    pub rule: R,
    /// Room.
    pub vectors: &'a mut Vectors,
}

impl<R: Rule> Clients<'_, R> {
    /// Works with one oracle.
    pub fn work<O: Oracle>(self, oracle: &O) {
        let dim = self.federation.dim();
        let size = match self.order.protocol.batch {
            Batch::Sampled(batch) => (CACHED / (dim * batch)).clamp(1, GROUP),
            // Populations differ in size.
            Batch::All => 1,
        };
        match dim.div_ceil(4) {
            1 if O::SPECIAL => simd::run(Steps { clients: self, oracle, size, blocks: Few::<1> }),
            2 if O::SPECIAL => simd::run(Steps { clients: self, oracle, size, blocks: Few::<2> }),
            3 if O::SPECIAL => simd::run(Steps { clients: self, oracle, size, blocks: Few::<3> }),
            4 if O::SPECIAL => simd::run(Steps { clients: self, oracle, size, blocks: Few::<4> }),
            many => simd::run(Steps { clients: self, oracle, size, blocks: Many(many) }),
        }
    }
}

/// Most clients of a group: enough to hide the latency of a step.
pub const GROUP: usize = 4;
/// Numbers in the observations of a group's step that a core's caches keep for their second use.
const CACHED: usize = 1 << 14;

struct Steps<'a, O, R, B> {
    clients: Clients<'a, R>,
    oracle: &'a O,
    size: usize,
    blocks: B,
}

/// The losses of fresh batches, client after client, at one model.
pub struct Losses<'a, O> {
    /// The problem.
    pub federation: &'a Federation,
    /// What observations come from.
    pub oracle: &'a O,
    /// What a loss is taken over.
    pub batch: Batch,
    /// Who they are; their populations react to what was broadcast.
    pub task: &'a Task<'a>,
    /// The model that is judged.
    pub theta: &'a [f64],
    /// Their losses.
    pub out: &'a mut [f64],
    /// Room.
    pub vectors: &'a mut Vectors,
}

impl<O: Oracle> Kernel for Losses<'_, O> {
    type Output = ();

    #[inline(always)]
    fn run<P: Path>(self, path: P) {
        let Losses { federation, oracle, batch, task, theta, out, vectors } = self;
        let (dim, penalty) = (federation.dim(), federation.penalty(theta));
        let blocks = Many(dim.div_ceil(4));
        let (drawn, local) = O::Pool::room(vectors);
        local.resize(federation, 1, false);
        for (&client, out) in task.clients.iter().zip(out) {
            let index = client.0 as usize;
            let pool = oracle.pool(index);
            let (size, count) = match batch {
                Batch::All => (pool.everything(drawn), drawn.len()),
                Batch::Sampled(size) => {
                    let count = O::Pool::draws(dim, size);
                    drawn.resize(count.next_multiple_of(LANES), Default::default());
                    pool.draw(path, task.streams.client(client.0), drawn);
                    (size, count)
                }
            };
            let members = Members { pools: &[pool], batch: size, dim, blocks };
            let shift = federation.shift().unwrap_or(&Shift::None);
            if shift.is_diagonal() {
                let reaction = &mut local.reaction.as_flattened_mut()[..dim];
                shift.diagonal_from(index, 0, reaction);
            }
            let model = &mut local.theta.as_flattened_mut()[..dim];
            model.copy_from_slice(&task.broadcast[..dim]);
            react(path, shift, &members, &[index], local);
            local.theta.as_flattened_mut()[..dim].copy_from_slice(theta);
            let drawn = Drawn { all: drawn, round: count, first: 0, count };
            *out = oracle.loss(path, &members, drawn, local) + penalty;
        }
    }
}

impl<O: Oracle, R: Rule, B: Blocks> Kernel for Steps<'_, O, R, B> {
    type Output = ();

    #[inline(always)]
    fn run<P: Path>(self, path: P) {
        let Clients { federation, order, tasks, deltas, kept, rule, vectors } = self.clients;
        let (dim, steps) = (federation.dim(), order.step_sizes.len());
        let shift = federation.shift().unwrap_or(&Shift::None);
        let blocks = self.blocks.count();
        let (drawn, local) = O::Pool::room(vectors);
        let (whole, deploy) = (order.protocol.batch == Batch::All, order.protocol.deploy);
        // Draws a step, and of a member in the round: whole vectors of lanes, of which what is too
        // much is not used.
        let (mut count, mut batch, mut round) = (0, 0, 0);
        if let Batch::Sampled(size) = order.protocol.batch {
            (count, batch) = (O::Pool::draws(dim, size), size);
            round = (count * steps).next_multiple_of(LANES);
            drawn.resize(round * self.size, Default::default());
        }
        // All of a population is the same at every step.
        let each = count;
        local.resize(federation, self.size, R::READS);
        let mut everyone =
            tasks.iter().flat_map(|task| task.clients.iter().map(move |client| (task, client)));
        let (mut clients, mut scales) = ([0; GROUP], [0.0; GROUP]);
        let mut pools = [O::Pool::default(); GROUP];
        let mut place = 0;
        for deltas in deltas.chunks_mut(self.size * dim) {
            let mut size = 0;
            for (task, &client) in everyone.by_ref().take(self.size) {
                let index = client.0 as usize;
                clients[size] = index;
                scales[size] = order.objective_scale(federation.weights(), client);
                pools[size] = self.oracle.pool(index);
                if whole {
                    batch = pools[size].everything(drawn);
                    (count, round) = (drawn.len(), drawn.len());
                } else {
                    let drawn = &mut drawn[size * round..][..round];
                    pools[size].draw(path, task.streams.client(client.0), drawn);
                }
                let at = size * blocks..(size + 1) * blocks;
                let (theta, sent) = task.broadcast.split_at(dim);
                local.theta[at.clone()].as_flattened_mut()[..dim].copy_from_slice(theta);
                if R::READS {
                    let anchor = &mut local.anchor[at.clone()].as_flattened_mut()[..dim];
                    anchor.copy_from_slice(theta);
                    let control = local.control[at.clone()].as_flattened_mut().iter_mut();
                    let kept = kept.iter().skip(place * dim);
                    for ((control, sent), kept) in control.zip(sent).zip(kept) {
                        *control = rule.control(*sent, *kept);
                    }
                }
                if shift.is_diagonal() {
                    let reaction = &mut local.reaction[at].as_flattened_mut()[..dim];
                    shift.diagonal_from(index, 0, reaction);
                }
                deltas[size * dim..][..dim].copy_from_slice(theta);
                size += 1;
                place += 1;
            }
            let members = Members { pools: &pools[..size], batch, dim, blocks: self.blocks };
            let all = drawn.as_slice();
            for (step, &step_size) in order.step_sizes.iter().enumerate() {
                if step == 0 || deploy == Deploy::Step {
                    react(path, shift, &members, &clients[..size], local);
                }
                let drawn = Drawn { all, round, first: step * each, count };
                self.oracle.gradients(path, &members, drawn, local);
                local.step(path, &members, rule, step_size, &scales);
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
    maps: &Shift,
    members: &Members<'_, impl Copy, B>,
    clients: &[usize],
    local: &mut Local,
) {
    let dim = members.dim;
    let vectors = members.each(&local.theta).zip(members.each_mut(&mut local.shift));
    let vectors = vectors.zip(members.each(&local.reaction));
    for (&client, ((theta, shift), reaction)) in clients.iter().zip(vectors) {
        if maps.is_diagonal() {
            for j in 0..members.blocks.count() {
                let moved = path.mul(path.load(&reaction[j]), path.load(&theta[j]));
                path.store(moved, &mut shift[j]);
            }
        } else {
            let (theta, shift) = (theta.as_flattened(), shift.as_flattened_mut());
            maps.apply(client, &theta[..dim], &mut shift[..dim]);
        }
    }
}

impl Local {
    /// A step of every member, along the gradient and the penalty's.
    #[inline(always)]
    fn step<B: Blocks, R: Rule>(
        &mut self,
        path: impl Path,
        members: &Members<'_, impl Copy, B>,
        rule: R,
        step_size: f64,
        scales: &[f64; GROUP],
    ) {
        let blocks = members.blocks.count();
        let (ridge, mask) = (&self.ridge[..blocks], &self.mask[..blocks]);
        let vectors = members.each_mut(&mut self.theta).zip(members.each(&self.gradient));
        let vectors = vectors.zip(scales).take(members.pools.len());
        let (mut anchors, mut controls) = (members.each(&self.anchor), members.each(&self.control));
        for ((theta, gradient), scale) in vectors {
            let size = StepSizes {
                plain: Fours(path, path.splat(step_size)),
                gradient: Fours(path, path.splat(step_size * scale)),
            };
            // Empty where the rule does not read them.
            let anchor = anchors.next().unwrap_or_default();
            let control = controls.next().unwrap_or_default();
            for j in 0..blocks {
                let w = Fours::load(path, &theta[j]);
                let mut at = Coordinate { w, theta: w, control: w };
                if R::READS {
                    at.theta = Fours::load(path, &anchor[j]);
                    at.control = Fours::load(path, &control[j]);
                }
                let slope = Fours::load(path, &gradient[j]) + Fours::load(path, &ridge[j]) * w;
                let moved = rule.step(at, slope, size);
                path.store(path.mask(moved.1, &mask[j]), &mut theta[j]);
            }
        }
    }
}
