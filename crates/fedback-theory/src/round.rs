//! One round, once: what it does to the mean and to the spread of everything that lives between rounds.
//!
//! E local steps make of the state y (the model's error, and what server and clients keep) works
//! δ_k that are affine in it (`client.rs`, `frame.rs`); the cohort's random coefficients z ([`crate::cohort`])
//! decide what they count. With effects C_k y + e_k + noise of covariance N_k, expected coefficients E(z) and
//! what happens without anybody's work,
//!
//! E(y) ← B̄ E(y) + b̄,
//! Cov(y) ← B̄ Cov(y) B̄ᵀ + Σ E(z_k²) N_k + Σ Cov(z_k, z_l) (C_k Cov(y) C_lᵀ + ε_k ε_lᵀ),
//!
//! ε_k = C_k E(y) + e_k. Exact curves are this, round by round; radii, largest steps and places of rest follow
//! from it at one step size (`second.rs`); plans repeat it. Exact where gradients are affine; elsewhere it is the
//! round linearised at a point. Where coordinates do not mix each is a part of its own, in numbers
//! rather than matrices.

mod block;
pub(crate) mod client;
mod frame;
mod grows;
mod leap;
mod part;
mod recall;
mod second;
mod tail;
mod walk;

use std::ops::Range;
use std::sync::Arc;

use fedback_core::federation::Federation;
use fedback_core::memory::Memory;
use fedback_core::misfit::Unsupported;
use fedback_core::protocol::{Deploy, Protocol, ServerRule};
use fedback_core::response::Shift;
use nalgebra::DMatrix;

pub(crate) use block::Block;
use client::{Client, Clients};
use frame::Frame;
pub(crate) use grows::{Moved, rows};
pub(crate) use leap::Leap;
use part::{Part, Rounds};
pub(crate) use recall::Recall;
pub(crate) use second::geometric;
pub(crate) use walk::Walk;

use crate::cohort::{Chance, Cohorts};

/// y ↦ map · y + shift, with noise of a covariance.
#[derive(Clone, Debug)]
pub(crate) struct Affine<J> {
    pub(crate) map: J,
    pub(crate) shift: J,
    pub(crate) noise: J,
}

impl<J: Block> Affine<J> {
    /// The mean value at a mean.
    fn at(&self, mean: &J) -> J {
        self.map.times(mean).plus(1.0, &self.shift)
    }
}

/// The mean of a state, and its spread.
pub(crate) type Moments<'a> = (&'a [f64], &'a [f64]);

/// A problem near a point under a protocol: its rounds, part by part. States are slices with the parts'
/// one after the other, each beginning with the model's error; spreads are their covariances.
pub(crate) struct System {
    pub(crate) parts: Vec<Box<dyn Part>>,
    dim: usize,
    /// The error of what populations remember before the first round.
    past: Option<Vec<f64>>,
    /// What chance does under the scheme that the system was made for.
    pub(crate) chance: Chance,
}

/// Models that populations may remember.
const MOST_REMEMBERED: usize = 500;

/// What theory cannot write down as an affine round.
pub fn supported(federation: &Federation, protocol: &Protocol) -> Result<(), Unsupported> {
    if federation.weighs() {
        return Err(Unsupported::new(
            "problem.response",
            "clients' weights react here, so that a round is not what its clients do times numbers: \
             there are no certificates or plans (`run` and `solve` know it)",
        ));
    }
    if let Some(Memory::Renewal { .. }) = federation.memory() {
        return Err(Unsupported::new(
            "problem.response.renewal",
            "those who leave come back slowly here, so that shares are remembered, which are no \
             affine function of models: there are no certificates or plans (`run` and `solve` know it)",
        ));
    }
    if let Some(memory) = federation.memory()
        && memory.models() > MOST_REMEMBERED
    {
        let reason = format!(
            "populations remember {} models here; theory carries up to {MOST_REMEMBERED} along, so \
             that there are no exact moments, certificates or plans (`run` knows any number)",
            memory.models()
        );
        return Err(Unsupported::new("problem.response.memory", reason));
    }
    // No `..`: whoever adds a part must say here what a round makes of it.
    let Protocol {
        scheme: _,
        local_steps: _,
        batch: _,
        step_size: _,
        local: _,
        server,
        deploy: _,
        aggregate: _,
        scale_objectives: _,
        clip,
    } = *protocol;
    if clip.is_some() {
        return Err(Unsupported::new(
            "algorithm.clip",
            "updates that are shortened are not linear in the clients' work, so that there are no \
             exact moments, certificates or plans; leave clip out to see what it leaves alone",
        ));
    }
    match server {
        ServerRule::Average | ServerRule::Momentum { .. } => Ok(()),
        ServerRule::Adam { .. } => Err(Unsupported::new(
            "algorithm.server",
            "found \"fedopt\" with a server that adapts its steps (Adam): its rounds are not linear \
             in the clients' work, so that there are no exact moments, certificates or plans (`run` \
             and `solve` know all kinds)",
        )),
    }
}

/// How fast rounds of small steps move, in units of P-FedAvg's with all clients.
pub(crate) fn speed(protocol: &Protocol) -> f64 {
    match protocol.server {
        ServerRule::Average | ServerRule::Adam { .. } => 1.0,
        ServerRule::Momentum { rate, beta } => rate / (1.0 - beta),
    }
}

/// How many rounds later than at once populations answer, on average.
pub(crate) fn late(federation: &Federation, protocol: &Protocol) -> f64 {
    let Some(memory) = federation.memory() else { return 0.0 };
    let age = Recall::of(memory).age();
    match protocol.deploy {
        Deploy::Round => age,
        // A client's own steps are what it remembers.
        Deploy::Step => {
            let rounds = age / protocol.local_steps as f64;
            rounds / Cohorts::of(federation, protocol, None).rarest(federation.clients())
        }
    }
}

impl System {
    /// All clients at `point`; refused where a round is not affine.
    pub(crate) fn new(
        federation: &Federation,
        protocol: &Protocol,
        cohorts: Cohorts,
        point: &[f64],
    ) -> Result<Self, Unsupported> {
        let all: Vec<usize> = (0..federation.clients()).collect();
        System::of_clients(federation, protocol, cohorts, &all, point)
    }

    /// Some clients, whose coefficients `cohorts` has.
    pub(crate) fn of_clients(
        federation: &Federation,
        protocol: &Protocol,
        cohorts: Cohorts,
        clients: &[usize],
        point: &[f64],
    ) -> Result<Self, Unsupported> {
        supported(federation, protocol)?;
        let cohorts = Arc::new(cohorts);
        let frame = |origin: &[f64]| Frame::of(federation, protocol, origin);
        let exact = federation.is_affine();
        let parts = match Clients::of(federation, protocol, clients, point) {
            Clients::Numbers(parts) => {
                let split = parts.into_iter().zip(point);
                let part = |(clients, at): (Vec<Client<f64>>, &f64)| -> Box<dyn Part> {
                    let frame = frame(std::slice::from_ref(at));
                    match frame.is_plain() {
                        true => Rounds::<f64, f64>::part(clients, frame, &cohorts, exact),
                        false => Rounds::<f64, DMatrix<f64>>::part(clients, frame, &cohorts, exact),
                    }
                };
                split.map(part).collect()
            }
            Clients::Matrices(parts) => {
                let each = point.len() / parts.len();
                let split = parts.into_iter().zip(point.chunks_exact(each));
                let part = |(clients, at): (Vec<Client<DMatrix<f64>>>, &[f64])| {
                    Rounds::<_, DMatrix<f64>>::part(clients, frame(at), &cohorts, exact)
                };
                split.map(part).collect()
            }
        };
        let past = federation
            .past()
            .map(|past| past.start.iter().zip(point).map(|(start, point)| start - point).collect());
        let dim = point.len();
        Ok(System { parts, dim, past, chance: cohorts.schemes[0] })
    }

    /// The length of a spread.
    pub(crate) fn spread_width(&self) -> usize {
        self.parts.iter().map(|part| part.width() * part.width()).sum()
    }

    /// Every part with its places in a state and in a spread.
    fn places(&self) -> impl Iterator<Item = (&dyn Part, Range<usize>, Range<usize>)> {
        self.parts.iter().scan((0, 0), |(done, from), part| {
            let (width, square) = (part.width(), part.width() * part.width());
            let places = (*done..*done + width, *from..*from + square);
            (*done, *from) = (places.0.end, places.1.end);
            Some((&**part, places.0, places.1))
        })
    }

    /// Every part with its own of some moments.
    fn split<'a>(&'a self, all: Moments<'a>) -> impl Iterator<Item = (&'a dyn Part, Moments<'a>)> {
        self.places().map(move |(part, own, square)| (part, (&all.0[own], &all.1[square])))
    }

    /// The state before the first round, where only the model and what is remembered have errors.
    pub(crate) fn state_of(&self, error: &[f64]) -> Vec<f64> {
        let (mut state, mut done) = (Vec::new(), 0);
        for part in &self.parts {
            let (own, pasts) = (done..done + part.dim(), part.pasts());
            state.extend_from_slice(&error[own.clone()]);
            state.resize(state.len() + pasts.start - part.dim(), 0.0);
            for _ in pasts.step_by(part.dim()) {
                state.extend_from_slice(self.past.as_ref().map_or(&[], |past| &past[own.clone()]));
            }
            state.extend_from_slice(part.kept_first());
            done = own.end;
        }
        state
    }

    /// The model's error out of a state.
    pub(crate) fn error_of(&self, state: &[f64]) -> impl Iterator<Item = f64> {
        self.places().flat_map(|(part, own, _)| &state[own][..part.dim()]).copied()
    }

    /// |x|² out of a state.
    pub(crate) fn square_of(&self, state: &[f64]) -> f64 {
        self.error_of(state).map(|x| x * x).sum()
    }

    /// Cov(x_j, x_k) out of a spread.
    pub(crate) fn covariance_of(&self, spread: &[f64]) -> DMatrix<f64> {
        let mut covariance = DMatrix::zeros(self.dim, self.dim);
        let mut first = 0;
        for (part, _, own) in self.places() {
            let (dim, width) = (part.dim(), part.width());
            let all = DMatrix::from_column_slice(width, width, &spread[own]);
            covariance
                .view_mut((first, first), (dim, dim))
                .copy_from(&all.view((0, 0), (dim, dim)));
            first += dim;
        }
        covariance
    }

    /// Numbers that working out a round with these step sizes and moving moments over it touches.
    pub(crate) fn work(&self, sizes: &[f64]) -> f64 {
        let works = self.parts.iter().map(|part| part.work());
        works.map(|work| work.of_steps(sizes) + 2.0 * work.of_move(self.chance)).sum()
    }

    /// Numbers that were touched so far.
    pub(crate) fn worked(&self) -> f64 {
        self.parts.iter().map(|part| part.work().done.get()).sum()
    }

    /// Works out a round.
    pub(crate) fn prepare(&mut self, sizes: &[f64], drawing: bool) {
        self.parts.iter_mut().for_each(|part| part.prepare(sizes, drawing));
    }

    /// Moves a mean over the prepared round.
    pub(crate) fn mean(&self, mean: &[f64], after: &mut [f64]) {
        for (part, own, _) in self.places() {
            part.mean(&mean[own.clone()], &mut after[own]);
        }
    }

    /// Moves a spread, and returns the model's total variance.
    pub(crate) fn spread(
        &self,
        chance: Chance,
        (mean, spread): Moments<'_>,
        works: Option<&[f64]>,
        after: &mut [f64],
    ) -> f64 {
        let mut total = 0.0;
        for (part, own, square) in self.places() {
            let (now, after) = ((&mean[own], &spread[square.clone()]), &mut after[square]);
            part.spread(chance, now, works, after);
            total += (0..part.dim()).map(|j| after[j * part.width() + j]).sum::<f64>();
        }
        total
    }

    /// Where rounds like the prepared one end: the mean of the state, and its spread.
    pub(crate) fn rest(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let (mut mean, mut spread) = (Vec::new(), Vec::new());
        for part in &self.parts {
            let (own, square) = part.rest(self.chance)?;
            mean.extend(own);
            spread.extend(square);
        }
        Some((mean, spread))
    }

    /// Twice as many rounds, part after part.
    pub(crate) fn doubled(&self, leaps: &[Leap]) -> Vec<Leap> {
        let both = self.parts.iter().zip(leaps);
        both.for_each(|(part, leap)| part.work().touch(leap.count().powi(3)));
        leaps.iter().map(Leap::doubled).collect()
    }

    /// Moves a mean and a spread over many rounds, part after part, and returns the model's total variance.
    pub(crate) fn leap(
        &self,
        leaps: &[Leap],
        (mean, spread): Moments<'_>,
        (mean_after, spread_after): (&mut [f64], &mut [f64]),
    ) -> f64 {
        let mut total = 0.0;
        for ((part, own, square), leap) in self.places().zip(leaps) {
            part.work().touch(leap.count() * leap.count());
            let before = (&mean[own.clone()], &spread[square.clone()]);
            total += leap.apply(before, (&mut mean_after[own], &mut spread_after[square]));
        }
        total
    }

    /// By how much of itself the second moment of a state, with what clients keep times `total`, has moved.
    pub(crate) fn moved(
        &self,
        (mean, spread): Moments<'_>,
        (mean_after, spread_after): Moments<'_>,
        total: f64,
    ) -> f64 {
        let (mut moved, mut whole) = (0.0, 0.0);
        for (part, own, square) in self.places() {
            let width = part.width();
            let (before, after) = (&mean[own.clone()], &mean_after[own]);
            let (narrow, wide) = (&spread[square.clone()], &spread_after[square]);
            for j in 0..width {
                let unit = if j < part.kept_from() { 1.0 } else { total * total };
                let (size, diagonal) = (before[j].abs() + after[j].abs(), j * width + j);
                moved += unit * (after[j] - before[j]).abs() * size;
                moved += unit * (wide[diagonal] - narrow[diagonal]).abs();
                whole += unit * (after[j] * after[j] + wide[diagonal]);
            }
        }
        moved / whole
    }

    /// E Σ w_i |δ_i − Σ w δ|² of the prepared round.
    pub(crate) fn consensus(&self, weights: &[f64], now: Moments<'_>) -> f64 {
        self.split(now).map(|(part, own)| part.consensus(weights, own)).sum()
    }

    /// max E|∇ℓ_i|² over clients and the local steps of the prepared round.
    pub(crate) fn largest_gradient(&self, now: Moments<'_>) -> f64 {
        let parts = self.split(now).map(|(part, own)| part.gradients(own));
        let add = |sum: Vec<f64>, own: Vec<f64>| sum.iter().zip(own).map(|(a, b)| a + b).collect();
        parts.reduce(add).into_iter().flatten().fold(0.0, f64::max)
    }

    /// The largest of a number of the parts; none where one has none.
    pub(crate) fn largest(&self, of: impl Fn(&dyn Part) -> Option<f64>) -> Option<f64> {
        self.parts.iter().try_fold(0.0, |most: f64, part| Some(most.max(of(&**part)?)))
    }
}

/// The length of the largest part of a state.
pub(crate) fn width(federation: &Federation, protocol: &Protocol) -> usize {
    let dim = if is_split(federation) { 1 } else { federation.dim() };
    Frame::of(federation, protocol, &vec![0.0; dim]).width()
}

/// Whether coordinates are affine and do not mix.
pub(crate) fn is_split(federation: &Federation) -> bool {
    let diagonal = federation.shift().is_some_and(Shift::is_diagonal);
    federation.is_affine() && (diagonal || federation.dim() == 1)
}
