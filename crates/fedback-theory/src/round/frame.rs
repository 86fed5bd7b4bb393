//! What lives between rounds, and what a client's work does to it.
//!
//! The state y is the error x of the model, what a server with momentum keeps (v ← βv + Δ, x ← x + rate · v),
//! and what clients keep (c_i ← c_i − c − δ_i/Ση of those who take part, c = Σ w_i c_i). A client's work
//!
//! δ_k = F_k (c_k − c − g_k − (H_k + J_k) x) + noise
//!
//! With c_i measured from g_i − g, g = Σ w_i g_i, nothing changes but that g stands for g_k: at a stable point it is
//! zero, and everything that is kept comes to rest at zero.
//! is affine in y, and so is what it does to y if it counts once: R δ_k for the server, with R = rate on x
//! and 1 on v, and −c − δ_k/Ση for what it keeps itself. Where models rather than updates are averaged and
//! the coefficients of a cohort do not sum to one, the server gets δ_k + θ of each, less θ.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, ServerRule};
use nalgebra::DMatrix;

use super::Affine;
use super::block::Block;
use super::client::{Client, Local};
use crate::cohort::rescales;

/// The shape of the state, and what happens to it without anybody's work.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The length of x.
    pub(crate) dim: usize,
    /// rate and β.
    pub(crate) momentum: Option<(f64, f64)>,
    /// The weights w_i of c, where clients keep something.
    pub(crate) kept: Option<Vec<f64>>,
    /// The point that x is measured from, where models are rescaled at random.
    pub(crate) origin: Option<DMatrix<f64>>,
}

/// A state that is a block of type `Self` where clients' maps are blocks of type `T`.
pub(crate) trait Joint<T>: Block {
    /// What the state becomes without anybody's work.
    fn stay(frame: &Frame) -> Affine<Self>;
    /// δ_k as a function of the state.
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

/// A single coordinate of a server that averages, with clients that keep nothing.
impl Joint<f64> for f64 {
    fn stay(frame: &Frame) -> Affine<f64> {
        match &frame.origin {
            None => Affine { map: 1.0, shift: 0.0, noise: 0.0 },
            Some(origin) => Affine { map: 0.0, shift: -origin[0], noise: 0.0 },
        }
    }

    #[inline(always)]
    fn work(_: &Frame, _: usize, client: &Client<f64>, local: &Local<f64>) -> Affine<f64> {
        let reply = local.reply;
        Affine { map: -reply * client.slope(), shift: reply * client.pull, noise: local.noise }
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
    fn stay(frame: &Frame) -> Affine<Self> {
        let (dim, width) = (frame.dim, frame.width());
        let mut map = DMatrix::identity(width, width);
        if let Some((rate, beta)) = frame.momentum {
            for j in 0..dim {
                map[(j, dim + j)] = rate * beta;
                map[(dim + j, dim + j)] = beta;
            }
        }
        let mut shift = DMatrix::zeros(width, 1);
        if let Some(origin) = &frame.origin {
            let reach = frame.reach(1.0, None);
            map -= &reach * frame.model();
            shift -= reach * origin;
        }
        Affine { map, shift, noise: DMatrix::zeros(width, width) }
    }

    fn work(frame: &Frame, k: usize, client: &Client<T>, local: &Local<T>) -> Affine<Self> {
        let (dim, reply) = (frame.dim, local.reply.matrix());
        let mut map = DMatrix::zeros(dim, frame.width());
        map.columns_mut(0, dim).copy_from(&-(&reply * client.slope().matrix()));
        for (other, weight) in frame.kept.iter().flatten().enumerate() {
            let own = if other == k { 1.0 } else { 0.0 };
            map.columns_mut(frame.place_of(other), dim).copy_from(&(&reply * (own - weight)));
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
            let server = frame.reach(count, None);
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
        Frame {
            dim,
            momentum: match protocol.server {
                ServerRule::Average | ServerRule::Adam { .. } => None,
                ServerRule::Momentum { rate, beta } => Some((rate, beta)),
            },
            kept: protocol.local.keeps().then(kept),
            origin: rescales(federation, protocol)
                .then(|| DMatrix::from_column_slice(dim, 1, origin)),
        }
    }

    /// The length of the state.
    pub(crate) fn width(&self) -> usize {
        self.place_of(self.kept.as_ref().map_or(0, Vec::len))
    }

    /// Where c_i begins.
    pub(crate) fn place_of(&self, client: usize) -> usize {
        self.dim * (1 + usize::from(self.momentum.is_some()) + client)
    }

    /// Whether the state is the model alone.
    pub(crate) fn is_plain(&self) -> bool {
        self.momentum.is_none() && self.kept.is_none()
    }

    /// The model's error out of the state.
    fn model(&self) -> DMatrix<f64> {
        DMatrix::identity(self.dim, self.width())
    }

    /// Where a work that counts so often goes: `count` · R, and −1/Ση to what the client keeps.
    pub(crate) fn reach(&self, count: f64, kept: Option<(usize, f64)>) -> DMatrix<f64> {
        let dim = self.dim;
        let mut reach = DMatrix::zeros(self.width(), dim);
        for j in 0..dim {
            reach[(j, j)] = count * self.momentum.map_or(1.0, |(rate, _)| rate);
            if self.momentum.is_some() {
                reach[(dim + j, j)] = count;
            }
            if let Some((client, total)) = kept {
                reach[(self.place_of(client) + j, j)] -= 1.0 / total;
            }
        }
        reach
    }

    /// What a client's local work starts from, out of the state: x, and c_k − c where it is kept.
    pub(crate) fn start(&self, client: usize) -> DMatrix<f64> {
        let dim = self.dim;
        let blocks = 1 + usize::from(self.kept.is_some());
        let mut start = DMatrix::zeros(blocks * dim, self.width());
        for j in 0..dim {
            start[(j, j)] = 1.0;
            for (other, weight) in self.kept.iter().flatten().enumerate() {
                let own = if other == client { 1.0 } else { 0.0 };
                start[(dim + j, self.place_of(other) + j)] = own - weight;
            }
        }
        start
    }
}
