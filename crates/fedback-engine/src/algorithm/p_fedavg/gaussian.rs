//! Normal data whose coordinates do not mix: one scalar recursion for every coordinate of every
//! client of every repetition, each in a lane of its own.

use fedback_core::base::Gaussian;
use fedback_core::federation::{ClientId, Federation, range_of};
use fedback_core::lanes::StreamLanes;
use fedback_core::normal;
use fedback_core::protocol::Deploy;
use fedback_core::simd::{self, Kernel, LANES, Lanes, Path};
use fedback_core::stream::{Key, Purpose, Seed, Streams};

use super::objective_scale;
use crate::algorithm::{Order, Task};

/// Works through all lanes, a block at a time.
pub fn work(
    federation: &Federation,
    base: &Gaussian,
    order: &Order<'_>,
    tasks: &[Task<'_>],
    deltas: &mut [f64],
    block: &mut Block,
) {
    let rule = Rule {
        step_sizes: order.step_sizes,
        noise: base.noise / (order.batch as f64).sqrt(),
        // Deployed once a round, the reaction to the broadcast θ is a constant.
        constant_reaction: f64::from(u8::from(order.deploy == Deploy::Round)),
        dim: base.dim as u64,
    };
    let source = Source { federation, base, order };
    let mut deltas = deltas.chunks_mut(BLOCK);
    let mut filled = 0;
    for task in tasks {
        let mut place = Place { clients: task.clients, coordinate: 0 };
        while !place.clients.is_empty() {
            filled = match base.dim {
                1 => block.fill_clients(filled, &source, task, &mut place),
                _ => block.fill_coordinates(filled, &source, task, &mut place),
            };
            if filled == BLOCK {
                simd::run(Recursions { block, rule, deltas: deltas.next().unwrap_or_default() });
                filled = 0;
            }
        }
    }
    if filled > 0 {
        simd::run(Recursions { block, rule, deltas: deltas.next().unwrap_or_default() });
    }
}

/// What lanes are filled from.
struct Source<'a> {
    federation: &'a Federation,
    base: &'a Gaussian,
    order: &'a Order<'a>,
}

/// What of a task is not in lanes yet: clients, and where in the first of them to go on.
struct Place<'a> {
    clients: &'a [ClientId],
    coordinate: usize,
}

/// Lanes that are filled before they work, so that their cache misses wait together.
const BLOCK: usize = 8 * LANES;
/// Steps whose variates are drawn together: with [`BLOCK`] lanes they fit the first cache.
const STEPS: usize = 8;

/// What each recursion starts from, one in every lane.
#[derive(Clone, Debug)]
pub struct Block {
    key: [Key; BLOCK],
    coordinate: [u64; BLOCK],
    sensitivity: [f64; BLOCK],
    mean: [f64; BLOCK],
    theta: [f64; BLOCK],
    scale: [f64; BLOCK],
    local: [f64; BLOCK],
    /// Of every vector of lanes the variates of some steps, and which were not decided.
    normals: [Lanes<f64>; STEPS * BLOCK / LANES],
    rejected: [u8; STEPS * BLOCK / LANES],
    words: [Lanes<u64>; STEPS * BLOCK / LANES],
}

impl Default for Block {
    fn default() -> Self {
        let zeros = [0.0; BLOCK];
        // Idle lanes draw too: from a stream like any other, which is seldom in the tail.
        let streams = Streams::new(Seed(0), 0, 0, Purpose::Data);
        Block {
            key: [streams.key(0); BLOCK],
            coordinate: [0; BLOCK],
            sensitivity: zeros,
            mean: zeros,
            theta: zeros,
            scale: zeros,
            local: zeros,
            normals: [[0.0; LANES]; STEPS * BLOCK / LANES],
            rejected: [0; STEPS * BLOCK / LANES],
            words: [[0; LANES]; STEPS * BLOCK / LANES],
        }
    }
}

impl Block {
    /// Fills lanes from `filled` on with clients, which have one coordinate each; returns where
    /// the filling ended.
    fn fill_clients(
        &mut self,
        filled: usize,
        source: &Source<'_>,
        task: &Task<'_>,
        place: &mut Place<'_>,
    ) -> usize {
        let count = place.clients.len().min(BLOCK - filled);
        let (clients, later) = place.clients.split_at(count);
        place.clients = later;
        let lanes = filled..filled + count;
        for (key, client) in self.key[lanes.clone()].iter_mut().zip(clients) {
            *key = task.streams.key(client.0);
        }
        let mean = &mut self.mean[lanes.clone()];
        match range_of(clients) {
            Some(range) => mean.copy_from_slice(&source.base.mean[range]),
            None => mean.iter_mut().zip(clients).for_each(|(mean, client)| {
                *mean = source.base.mean[client.0 as usize];
            }),
        }
        let response = &source.federation.response;
        response.diagonal_of(clients, 0, &mut self.sensitivity[lanes.clone()]);
        self.coordinate[lanes.clone()].fill(0);
        self.theta[lanes.clone()].fill(task.theta[0]);
        match source.order.scale_objectives {
            false => self.scale[lanes.clone()].fill(1.0),
            true => {
                self.scale[lanes.clone()].iter_mut().zip(clients).for_each(|(scale, &client)| {
                    *scale = objective_scale(source.federation, source.order, client);
                })
            }
        }
        lanes.end
    }

    /// Fills lanes from `filled` on with coordinates of one client; returns where the filling
    /// ended.
    fn fill_coordinates(
        &mut self,
        filled: usize,
        source: &Source<'_>,
        task: &Task<'_>,
        place: &mut Place<'_>,
    ) -> usize {
        let (client, theta) = (place.clients[0], task.theta);
        let first = place.coordinate;
        let count = (theta.len() - first).min(BLOCK - filled);
        let lanes = filled..filled + count;
        for (coordinate, j) in self.coordinate[lanes.clone()].iter_mut().zip(first as u64..) {
            *coordinate = j;
        }
        let response = &source.federation.response;
        let index = client.0 as usize;
        response.diagonal_from(index, first, &mut self.sensitivity[lanes.clone()]);
        self.key[lanes.clone()].fill(task.streams.key(client.0));
        self.mean[lanes.clone()].copy_from_slice(&source.base.mean(index)[first..][..count]);
        self.theta[lanes.clone()].copy_from_slice(&theta[first..][..count]);
        self.scale[lanes.clone()].fill(objective_scale(source.federation, source.order, client));
        place.coordinate += count;
        if place.coordinate == theta.len() {
            *place = Place { clients: &place.clients[1..], coordinate: 0 };
        }
        lanes.end
    }
}

/// What all lanes share.
#[derive(Clone, Copy)]
struct Rule<'a> {
    step_sizes: &'a [f64],
    noise: f64,
    constant_reaction: f64,
    dim: u64,
}

/// The recursions w ← w − η (pull·w − drive − noise·ξ) of a block: some steps' ξ of all lanes
/// without a branch, then the few that need more than a word, then the steps.
struct Recursions<'a> {
    block: &'a mut Block,
    rule: Rule<'a>,
    deltas: &'a mut [f64],
}

impl Kernel for Recursions<'_> {
    type Output = ();

    #[inline(always)]
    fn run<P: Path>(self, path: P) {
        let Recursions { block, rule, deltas } = self;
        let groups = deltas.len().div_ceil(LANES);
        block.local = block.theta;
        for (chunk, step_sizes) in rule.step_sizes.chunks(STEPS).enumerate() {
            let first = (chunk * STEPS) as u64 * rule.dim;
            for group in 0..groups {
                block.draw(&rule, group, first, step_sizes.len());
            }
            block.transform(path, groups * step_sizes.len());
            block.settle(&rule, first, groups * step_sizes.len(), step_sizes.len());
            for group in 0..groups {
                block.step(&rule, group, step_sizes);
            }
        }
        for ((delta, local), theta) in deltas.iter_mut().zip(&block.local).zip(&block.theta) {
            *delta = local - theta;
        }
    }
}

impl Block {
    /// The words of one vector of lanes.
    #[inline(always)]
    fn draw(&mut self, rule: &Rule<'_>, group: usize, first: u64, steps: usize) {
        let mut streams = StreamLanes::new(lanes(&self.key, group), lanes(&self.coordinate, group));
        streams.advance(first);
        for words in &mut self.words[group * steps..][..steps] {
            *words = streams.words();
            streams.advance(rule.dim);
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
    fn settle(&mut self, rule: &Rule<'_>, first: u64, drawn: usize, steps: usize) {
        let eights = drawn.div_ceil(8);
        self.rejected[drawn..8 * eights].fill(0);
        for (eight, bits) in self.rejected.as_chunks::<8>().0[..eights].iter().enumerate() {
            let mut bits = u64::from_le_bytes(*bits);
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let (place, l) = (8 * eight + bit / LANES, bit % LANES);
                let lane = place / steps * LANES + l;
                let n = self.coordinate[lane] + first + (place % steps) as u64 * rule.dim;
                self.normals[place][l] = self.key[lane].stream().normal(normal::ziggurat(), n);
            }
        }
    }

    #[inline(always)]
    fn step(&mut self, rule: &Rule<'_>, group: usize, step_sizes: &[f64]) {
        let (scale, sensitivity) = (lanes(&self.scale, group), lanes(&self.sensitivity, group));
        let (mean, theta) = (lanes(&self.mean, group), lanes(&self.theta, group));
        let (mut pull, mut drive, mut noise) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for l in 0..LANES {
            let reaction = rule.constant_reaction * sensitivity[l];
            pull[l] = scale[l] * (1.0 - (sensitivity[l] - reaction));
            drive[l] = scale[l] * (mean[l] + reaction * theta[l]);
            noise[l] = scale[l] * rule.noise;
        }
        let mut w = *lanes(&self.local, group);
        let normals = &self.normals[group * step_sizes.len()..];
        for (size, xi) in step_sizes.iter().zip(normals) {
            for l in 0..LANES {
                w[l] -= size * (pull[l] * w[l] - drive[l] - noise[l] * xi[l]);
            }
        }
        self.local.as_chunks_mut::<LANES>().0[group] = w;
    }
}

#[inline(always)]
fn lanes<T>(all: &[T; BLOCK], group: usize) -> &Lanes<T> {
    &all.as_chunks::<LANES>().0[group]
}
