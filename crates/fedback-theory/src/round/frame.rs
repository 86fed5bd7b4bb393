//! What lives between rounds, and what a client's work does to it.
//!
//! The state y is the error x of the model, what a server with momentum keeps (v ← βv + Δ, x ← x + rate · v),
//! and what clients keep (c_i ← c_i − c − δ_i/Ση of those who take part, c = Σ w_i c_i). A client's work
//!
//! δ_k = F_k (c_k − c − g_k − (H_k + J_k) x) + noise
//!
//! is affine in y, and so is what it does to y if it counts once: R δ_k for the server, with R = rate on x
//! and 1 on v, and −c − δ_k/Ση for what it keeps itself. Where models rather than updates are averaged and
//! the coefficients of a cohort do not sum to one, the server gets δ_k + θ of each, less θ.
//! With c_i measured from g_i − g, g = Σ w_i g_i, nothing changes but that g stands for g_k: at a stable point it is
//! zero, and everything that is kept comes to rest at zero.
//!
//! What populations remember ([`Recall`]) is measured from the same point as the model. Where a deployment is
//! a broadcast it is one past of all, which takes in x whoever works. Where it is a local step every client
//! has a past of its own, whose change is part of the client's work.

use std::ops::Range;

use fedback_core::federation::Federation;
use fedback_core::protocol::{Deploy, Protocol, ServerRule};
use nalgebra::DMatrix;

use super::Affine;
use super::block::Block;
use super::client::{Client, Local};
use super::recall::Recall;
use crate::cohort::rescales;

/// The shape of the state, and what happens to it without anybody's work.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The length of x.
    pub(crate) dim: usize,
    /// rate and β.
    pub(crate) momentum: Option<(f64, f64)>,
    /// The past of all populations, where they share one.
    pub(crate) shared: Option<Recall>,
    /// The pasts of so many clients, where each has its own, and how many models each remembers.
    pub(crate) own: Option<(usize, usize)>,
    /// The weights w_i of c, where clients keep something by their rule.
    pub(crate) kept: Option<Vec<f64>>,
    /// The point that x is measured from, where models are rescaled at random.
    pub(crate) origin: Option<DMatrix<f64>>,
}

/// A state that is a block of type `Self` where clients' maps are blocks of type `T`.
pub(crate) trait Joint<T>: Block {
    /// What the state becomes where nobody comes.
    fn idle(frame: &Frame) -> Self;
    /// What the state becomes without anybody's work.
    fn stay(frame: &Frame) -> Affine<Self>;
    /// δ_k, and by how much its own past changes, as a function of the state.
    fn work(frame: &Frame, k: usize, client: &Client<T>, local: &Local<T>) -> Affine<Self>;
    /// What a work that counts `count` times does to the state, and with steps of a total size what the
    /// client keeps.
    fn effect(
        frame: &Frame,
        work: &Affine<Self>,
        count: f64,
        kept: Option<(usize, f64)>,
    ) -> Affine<Self>;
}

/// A single coordinate of a server that averages, with clients that keep nothing and nothing remembered.
impl Joint<f64> for f64 {
    fn idle(_: &Frame) -> f64 {
        1.0
    }

    fn stay(frame: &Frame) -> Affine<f64> {
        match &frame.origin {
            None => Affine { map: 1.0, shift: 0.0, noise: 0.0 },
            Some(origin) => Affine { map: 0.0, shift: -origin[0], noise: 0.0 },
        }
    }

    #[inline(always)]
    fn work(_: &Frame, _: usize, client: &Client<f64>, local: &Local<f64>) -> Affine<f64> {
        let reply = local.reply;
        Affine { map: -reply * client.slope, shift: reply * client.pull, noise: local.noise }
    }

    #[inline(always)]
    fn effect(frame: &Frame, work: &Affine<f64>, _: f64, _: Option<(usize, f64)>) -> Affine<f64> {
        match &frame.origin {
            None => work.clone(),
            Some(origin) => {
                Affine { map: work.map + 1.0, shift: work.shift + origin[0], noise: work.noise }
            }
        }
    }
}

impl<T: Block> Joint<T> for DMatrix<f64> {
    fn idle(frame: &Frame) -> Self {
        let (dim, width) = (frame.dim, frame.width());
        let mut map = DMatrix::identity(width, width);
        if let Some(recall) = &frame.shared {
            for (row, weights) in recall.taken.row_iter().enumerate() {
                let row = frame.past_of(0, row);
                for j in 0..dim {
                    map[(row + j, row + j)] = 0.0;
                    map[(row + j, j)] = weights[0];
                    for (model, weight) in weights.iter().skip(1).enumerate() {
                        map[(row + j, frame.past_of(0, model) + j)] = *weight;
                    }
                }
            }
        }
        map
    }

    fn stay(frame: &Frame) -> Affine<Self> {
        let (dim, width) = (frame.dim, frame.width());
        let mut map = <Self as Joint<T>>::idle(frame);
        if let Some((rate, beta)) = frame.momentum {
            for j in 0..dim {
                map[(j, dim + j)] = rate * beta;
                map[(dim + j, dim + j)] = beta;
            }
        }
        let mut shift = DMatrix::zeros(width, 1);
        if let Some(origin) = &frame.origin {
            let server = frame.server(1.0);
            map -= &server * frame.model();
            shift -= server * origin;
        }
        Affine { map, shift, noise: DMatrix::zeros(width, width) }
    }

    fn work(frame: &Frame, k: usize, client: &Client<T>, local: &Local<T>) -> Affine<Self> {
        let (dim, reply) = (frame.dim, local.reply.matrix());
        let mut map = DMatrix::zeros(reply.nrows(), frame.width());
        map.columns_mut(0, dim).copy_from(&-(&reply * client.slope.matrix()));
        for (other, weight) in frame.kept.iter().flatten().enumerate() {
            let own = if other == k { 1.0 } else { 0.0 };
            map.columns_mut(frame.place_of(other), dim).copy_from(&(&reply * (own - weight)));
        }
        if let Some(recall) = &frame.shared {
            let answer = &reply * client.reaction.matrix();
            for (model, weight) in recall.weights().into_iter().skip(1).enumerate() {
                frame.add_past(&mut map, 0, model, &(&answer * -weight));
            }
        }
        if let Some((_, models)) = frame.own {
            let power = local.power.matrix();
            for model in 0..models {
                let from = dim * (1 + model);
                let mut moved = power.columns(from, dim).into_owned();
                (0..dim).for_each(|j| moved[(from + j, j)] -= 1.0);
                frame.add_past(&mut map, k, model, &moved);
            }
        }
        Affine { map, shift: reply * client.pull.matrix(), noise: local.noise.matrix() }
    }

    fn effect(
        frame: &Frame,
        work: &Affine<Self>,
        count: f64,
        kept: Option<(usize, f64)>,
    ) -> Affine<Self> {
        let reach = frame.reach(count, kept);
        let (mut map, mut shift) = (&reach * &work.map, &reach * &work.shift);
        if let Some(origin) = &frame.origin {
            let server = frame.server(count);
            map += &server * frame.model();
            shift += server * origin;
        }
        if let (Some((client, _)), Some(weights)) = (kept, &frame.kept) {
            let dim = frame.dim;
            for (other, weight) in weights.iter().enumerate() {
                for j in 0..dim {
                    map[(frame.place_of(client) + j, frame.place_of(other) + j)] -= weight;
                }
            }
        }
        Affine { map, shift, noise: reach.around(&work.noise) }
    }
}

impl Frame {
    /// Of a protocol, for a part of the problem whose errors are measured from `origin`.
    pub(crate) fn of(federation: &Federation, protocol: &Protocol, origin: &[f64]) -> Self {
        let (dim, weights) = (origin.len(), federation.weights());
        let kept = || (0..federation.clients()).map(|i| protocol.weight(weights, i)).collect();
        let memory = federation.memory();
        let (shared, own) = match protocol.deploy {
            Deploy::Round => (memory.map(Recall::of), None),
            Deploy::Step => (None, memory.map(|own| (federation.clients(), own.models()))),
        };
        Frame {
            dim,
            momentum: match protocol.server {
                ServerRule::Average | ServerRule::Adam { .. } => None,
                ServerRule::Momentum { rate, beta } => Some((rate, beta)),
            },
            shared,
            own,
            kept: protocol.local.keeps().then(kept),
            origin: rescales(federation, protocol)
                .then(|| DMatrix::from_column_slice(dim, 1, origin)),
        }
    }

    /// The length of the state.
    pub(crate) fn width(&self) -> usize {
        self.place_of(self.kept.as_ref().map_or(0, Vec::len))
    }

    /// Where a remembered model begins: of a client, or of all.
    pub(crate) fn past_of(&self, client: usize, model: usize) -> usize {
        let each = self.own.map_or(0, |(_, models)| models);
        self.dim * (1 + usize::from(self.momentum.is_some()) + client * each + model)
    }

    /// Where c_i begins.
    pub(crate) fn place_of(&self, client: usize) -> usize {
        let (clients, shared) = (self.own.map_or(0, |(clients, _)| clients), self.shared.as_ref());
        self.past_of(clients, shared.map_or(0, Recall::count)) + self.dim * client
    }

    /// Where what populations remember is.
    pub(crate) fn pasts(&self) -> Range<usize> {
        self.past_of(0, 0)..self.place_of(0)
    }

    /// Whether the state is the model alone.
    pub(crate) fn is_plain(&self) -> bool {
        self.width() == self.dim
    }

    /// Adds what a remembered model, measured from that broadcast, makes of a row of blocks.
    fn add_past(&self, map: &mut DMatrix<f64>, client: usize, model: usize, own: &DMatrix<f64>) {
        let mut past = map.columns_mut(self.past_of(client, model), self.dim);
        past += own;
        let mut broadcast = map.columns_mut(0, self.dim);
        broadcast -= own;
    }

    /// The model's error out of the state.
    fn model(&self) -> DMatrix<f64> {
        DMatrix::identity(self.dim, self.width())
    }

    /// Where a δ that counts so often goes at the server: `count` · R.
    fn server(&self, count: f64) -> DMatrix<f64> {
        let dim = self.dim;
        let mut server = DMatrix::zeros(self.width(), dim);
        for j in 0..dim {
            server[(j, j)] = count * self.momentum.map_or(1.0, |(rate, _)| rate);
            if self.momentum.is_some() {
                server[(dim + j, j)] = count;
            }
        }
        server
    }

    /// Where a work that counts so often goes: to the server, −1/Ση of it to what the client keeps by its rule,
    /// and what changes of its own past to that.
    pub(crate) fn reach(&self, count: f64, kept: Option<(usize, f64)>) -> DMatrix<f64> {
        let dim = self.dim;
        let models = self.own.map_or(0, |(_, models)| models);
        let mut reach = self.server(count).resize_horizontally(dim * (1 + models), 0.0);
        let Some((client, total)) = kept else { return reach };
        for j in 0..dim {
            if self.kept.is_some() {
                reach[(self.place_of(client) + j, j)] -= 1.0 / total;
            }
            for model in 0..models {
                reach[(self.past_of(client, model) + j, dim * (1 + model) + j)] = 1.0;
            }
        }
        reach
    }

    /// What a client's local work starts from, out of the state: x, what its population remembers, and
    /// c_k − c where it is kept.
    pub(crate) fn start(&self, client: usize) -> DMatrix<f64> {
        let dim = self.dim;
        let models = match (&self.shared, self.own) {
            (Some(recall), _) => recall.count(),
            (None, own) => own.map_or(0, |(_, models)| models),
        };
        let blocks = 1 + models + usize::from(self.kept.is_some());
        let mut start = DMatrix::zeros(blocks * dim, self.width());
        for j in 0..dim {
            start[(j, j)] = 1.0;
            for model in 0..models {
                start[((1 + model) * dim + j, self.past_of(client, model) + j)] = 1.0;
            }
            for (other, weight) in self.kept.iter().flatten().enumerate() {
                let own = if other == client { 1.0 } else { 0.0 };
                start[((1 + models) * dim + j, self.place_of(other) + j)] = own - weight;
            }
        }
        start
    }
}
