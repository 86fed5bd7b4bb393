//! Normal data whose coordinates do not mix: one scalar recursion for every coordinate of every
//! client of every repetition, each in a lane of its own.

use std::ops::Range;

use fedback_core::base::Gaussian;
use fedback_core::federation::{ClientId, Federation, range_of};
use fedback_core::lanes::StreamLanes;
use fedback_core::normal;
use fedback_core::protocol::{Batch, Deploy};
use fedback_core::response::Shift;
use fedback_core::simd::{self, Kernel, LANES, Lanes, Path};
use fedback_core::stream::{Key, Purpose, Seed, Streams};

use crate::rule::{Coordinate, Rule, StepSizes};
use crate::work::{Order, Task};

/// Works through all lanes, a block at a time. `kept` is what clients kept, where the rule keeps
/// something.
pub fn work<R: Rule>(
    federation: &Federation,
    base: &Gaussian,
    order: &Order<'_>,
    tasks: &[Task<'_>],
    (deltas, kept): (&mut [f64], &[f64]),
    rule: R,
    block: &mut LaneBlock,
) {
    let recursion = Recursion {
        step_sizes: order.step_sizes,
        // The expectation has no noise.
        noise: base.noise / order.protocol.batch.size().sqrt(),
        drawn: order.protocol.batch != Batch::All,
        // Deployed once a round, the reaction to the broadcast θ is a constant.
        constant_reaction: f64::from(u8::from(order.protocol.deploy == Deploy::Round)),
        dim: base.dim as u64,
        rule,
    };
    let shift = federation.shift().unwrap_or(&Shift::None);
    let filling = Filling { federation, shift, base, order };
    let layout = federation.layout(order.protocol);
    let mut answered = vec![0.0; federation.memory().map_or(0, |_| base.dim)];
    let (mut deltas, mut kept) = (deltas.chunks_mut(BLOCK), kept);
    let mut filled = 0;
    for task in tasks {
        let sent = layout.parts(task.broadcast);
        if let Some(memory) = federation.memory() {
            memory.answer(sent.theta, sent.past, &mut answered);
        }
        let mut rest = Rest { clients: task.clients, coordinate: 0 };
        while !rest.clients.is_empty() {
            let first = filled;
            filled = match base.dim {
                1 => block.fill_clients(filled, &filling, task, &mut rest),
                _ => block.fill_coordinates(filled, &filling, task, &mut rest),
            };
            if R::READS {
                kept = block.control(rule, first..filled, sent.control, kept);
            }
            block.answer(first..filled, &answered);
            if filled == BLOCK {
                let deltas = deltas.next().unwrap_or_default();
                simd::run(Recursions { block, recursion, deltas });
                filled = 0;
            }
        }
    }
    if filled > 0 {
        let deltas = deltas.next().unwrap_or_default();
        simd::run(Recursions { block, recursion, deltas });
    }
}

/// What lanes are filled from.
struct Filling<'a> {
    federation: &'a Federation,
    shift: &'a Shift,
    base: &'a Gaussian,
    order: &'a Order<'a>,
}

/// What of a task is not in lanes yet: clients, and where in the first of them to go on.
struct Rest<'a> {
    clients: &'a [ClientId],
    coordinate: usize,
}

/// Lanes that are filled before they work, so that their cache misses wait together.
const BLOCK: usize = 8 * LANES;
/// Steps whose variates are drawn together: with [`BLOCK`] lanes they fit the first cache.
const STEPS: usize = 8;

/// What each recursion starts from, one in every lane.
#[derive(Clone, Debug)]
pub struct LaneBlock {
    key: [Key; BLOCK],
    coordinate: [u64; BLOCK],
    sensitivity: [f64; BLOCK],
    mean: [f64; BLOCK],
    theta: [f64; BLOCK],
    /// What rules make of what was sent and kept.
    control: [f64; BLOCK],
    scale: [f64; BLOCK],
    local: [f64; BLOCK],
    /// Of every vector of lanes the variates of some steps, and which were not decided.
    normals: [Lanes<f64>; STEPS * BLOCK / LANES],
    rejected: [u8; STEPS * BLOCK / LANES],
    words: [Lanes<u64>; STEPS * BLOCK / LANES],
}

impl Default for LaneBlock {
    fn default() -> Self {
        let zeros = [0.0; BLOCK];
        // Idle lanes draw too: from a stream like any other, which is seldom in the tail.
        let streams = Streams::new(Seed(0), 0, 0, Purpose::Data);
        LaneBlock {
            key: [streams.key(0); BLOCK],
            coordinate: [0; BLOCK],
            sensitivity: zeros,
            mean: zeros,
            theta: zeros,
            control: zeros,
            scale: zeros,
            local: zeros,
            normals: [[0.0; LANES]; STEPS * BLOCK / LANES],
            rejected: [0; STEPS * BLOCK / LANES],
            words: [[0; LANES]; STEPS * BLOCK / LANES],
        }
    }
}

impl LaneBlock {
    /// Fills lanes from `filled` on with clients, which have one coordinate each; returns where
    /// the filling ended.
    #[inline(always)]
    fn fill_clients(
        &mut self,
        filled: usize,
        filling: &Filling<'_>,
        task: &Task<'_>,
        rest: &mut Rest<'_>,
    ) -> usize {
        let count = rest.clients.len().min(BLOCK - filled);
        let (clients, later) = rest.clients.split_at(count);
        rest.clients = later;
        let lanes = filled..filled + count;
        for (key, client) in self.key[lanes.clone()].iter_mut().zip(clients) {
            *key = task.streams.key(client.0);
        }
        let mean = &mut self.mean[lanes.clone()];
        match range_of(clients) {
            Some(range) => mean.copy_from_slice(&filling.base.mean[range]),
            None => mean.iter_mut().zip(clients).for_each(|(mean, client)| {
                *mean = filling.base.mean[client.0 as usize];
            }),
        }
        filling.shift.diagonal_of(clients, 0, &mut self.sensitivity[lanes.clone()]);
        self.coordinate[lanes.clone()].fill(0);
        self.theta[lanes.clone()].fill(task.broadcast[0]);
        match filling.order.protocol.scale_objectives {
            false => self.scale[lanes.clone()].fill(1.0),
            true => {
                self.scale[lanes.clone()].iter_mut().zip(clients).for_each(|(scale, &client)| {
                    *scale = filling.order.objective_scale(filling.federation.weights(), client);
                })
            }
        }
        lanes.end
    }

    /// Fills lanes from `filled` on with coordinates of one client; returns where the filling
    /// ended.
    #[inline(always)]
    fn fill_coordinates(
        &mut self,
        filled: usize,
        filling: &Filling<'_>,
        task: &Task<'_>,
        rest: &mut Rest<'_>,
    ) -> usize {
        let (client, theta) = (rest.clients[0], &task.broadcast[..filling.base.dim]);
        let first = rest.coordinate;
        let count = (theta.len() - first).min(BLOCK - filled);
        let lanes = filled..filled + count;
        for (coordinate, j) in self.coordinate[lanes.clone()].iter_mut().zip(first as u64..) {
            *coordinate = j;
        }
        let index = client.0 as usize;
        filling.shift.diagonal_from(index, first, &mut self.sensitivity[lanes.clone()]);
        self.key[lanes.clone()].fill(task.streams.key(client.0));
        self.mean[lanes.clone()].copy_from_slice(&filling.base.mean(index)[first..][..count]);
        self.theta[lanes.clone()].copy_from_slice(&theta[first..][..count]);
        self.scale[lanes.clone()]
            .fill(filling.order.objective_scale(filling.federation.weights(), client));
        rest.coordinate += count;
        if rest.coordinate == theta.len() {
            *rest = Rest { clients: &rest.clients[1..], coordinate: 0 };
        }
        lanes.end
    }
}

/// What all lanes share.
#[derive(Clone, Copy)]
struct Recursion<'a, R> {
    step_sizes: &'a [f64],
    noise: f64,
    /// Whether there is any noise to be drawn.
    drawn: bool,
    constant_reaction: f64,
    dim: u64,
    rule: R,
}

/// The steps of a block along gradients pull·w − drive − noise·ξ: some steps' ξ of all lanes without
/// a branch, then the few that need more than a word, then the steps.
struct Recursions<'a, R> {
    block: &'a mut LaneBlock,
    recursion: Recursion<'a, R>,
    deltas: &'a mut [f64],
}

impl<R: Rule> Kernel for Recursions<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<P: Path>(self, path: P) {
        let Recursions { block, recursion, deltas } = self;
        let groups = deltas.len().div_ceil(LANES);
        block.local = block.theta;
        if !recursion.drawn {
            block.normals.fill([0.0; LANES]);
        }
        for (chunk, step_sizes) in recursion.step_sizes.chunks(STEPS).enumerate() {
            let (steps, dim) = (step_sizes.len(), recursion.dim);
            if recursion.drawn {
                let first = (chunk * STEPS) as u64 * dim;
                for group in 0..groups {
                    block.draw(dim, group, first, steps);
                }
                block.transform(path, groups * steps);
                block.settle(dim, first, groups * steps, steps);
            }
            for group in 0..groups {
                block.step(&recursion, group, step_sizes);
            }
        }
        for ((delta, local), theta) in deltas.iter_mut().zip(&block.local).zip(&block.theta) {
            *delta = local - theta;
        }
    }
}

impl LaneBlock {
    /// What a rule makes of what was sent to the clients of some lanes and what they kept; returns
    /// what those after them kept.
    fn control<'k, R: Rule>(
        &mut self,
        rule: R,
        lanes: Range<usize>,
        sent: &[f64],
        kept: &'k [f64],
    ) -> &'k [f64] {
        let (own, others) = kept.split_at(lanes.len().min(kept.len()));
        if let [sent] = sent {
            for (control, kept) in self.control[lanes].iter_mut().zip(own) {
                *control = rule.control(*sent, *kept);
            }
            return others;
        }
        let coordinates = &self.coordinate[lanes.clone()];
        for ((control, j), kept) in self.control[lanes].iter_mut().zip(coordinates).zip(own) {
            *control = rule.control(sent[*j as usize], *kept);
        }
        others
    }

    /// The populations of some lanes answer to another model than the one broadcast, for the whole round:
    /// they have moved, and react no more.
    #[inline(always)]
    fn answer(&mut self, lanes: Range<usize>, answered: &[f64]) {
        if answered.is_empty() {
            return;
        }
        for lane in lanes {
            let moved = self.sensitivity[lane] * answered[self.coordinate[lane] as usize];
            self.mean[lane] += moved;
            self.sensitivity[lane] = 0.0;
        }
    }

    /// The words of one vector of lanes.
    #[inline(always)]
    fn draw(&mut self, dim: u64, group: usize, first: u64, steps: usize) {
        let mut streams = StreamLanes::new(lanes(&self.key, group), lanes(&self.coordinate, group));
        streams.advance(first);
        for words in &mut self.words[group * steps..][..steps] {
            *words = streams.words();
            streams.advance(dim);
        }
    }

    /// Turns words into variates, most of them for good.
    #[inline(always)]
    fn transform(&mut self, path: impl Path, drawn: usize) {
        let ziggurat = normal::ziggurat();
        let out = self.normals[..drawn].iter_mut().zip(&mut self.rejected[..drawn]);
        for ((normals, rejected), words) in out.zip(&self.words[..drawn]) {
            (*normals, *rejected) = path.candidates(ziggurat, words);
        }
    }

    /// Draws anew what one word did not decide: one in 250.
    #[inline(never)]
    fn settle(&mut self, dim: u64, first: u64, drawn: usize, steps: usize) {
        let eights = drawn.div_ceil(8);
        self.rejected[drawn..8 * eights].fill(0);
        for (eight, bits) in self.rejected.as_chunks::<8>().0[..eights].iter().enumerate() {
            let mut bits = u64::from_le_bytes(*bits);
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let (place, l) = (8 * eight + bit / LANES, bit % LANES);
                let lane = place / steps * LANES + l;
                let n = self.coordinate[lane] + first + (place % steps) as u64 * dim;
                self.normals[place][l] = self.key[lane].stream().normal(normal::ziggurat(), n);
            }
        }
    }

    #[inline(always)]
    fn step<R: Rule>(&mut self, of: &Recursion<'_, R>, group: usize, step_sizes: &[f64]) {
        let (scale, sensitivity) = (lanes(&self.scale, group), lanes(&self.sensitivity, group));
        let (mean, theta) = (lanes(&self.mean, group), lanes(&self.theta, group));
        let control = lanes(&self.control, group);
        let (mut pull, mut drive, mut noise) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for l in 0..LANES {
            let reaction = of.constant_reaction * sensitivity[l];
            pull[l] = scale[l] * (1.0 - (sensitivity[l] - reaction));
            drive[l] = scale[l] * (mean[l] + reaction * theta[l]);
            noise[l] = scale[l] * of.noise;
        }
        let mut w = *lanes(&self.local, group);
        let normals = &self.normals[group * step_sizes.len()..];
        for (&size, xi) in step_sizes.iter().zip(normals) {
            // Gradients are scaled already.
            let size = StepSizes { plain: size, gradient: size };
            for l in 0..LANES {
                let gradient = pull[l] * w[l] - drive[l] - noise[l] * xi[l];
                let at = Coordinate { w: w[l], theta: theta[l], control: control[l] };
                w[l] = of.rule.step(at, gradient, size);
            }
        }
        self.local.as_chunks_mut::<LANES>().0[group] = w;
    }
}

#[inline(always)]
fn lanes<T>(all: &[T; BLOCK], group: usize) -> &Lanes<T> {
    &all.as_chunks::<LANES>().0[group]
}
