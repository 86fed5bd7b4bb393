//! The arithmetic that closes a round: the state takes in what a cohort has done.
//!
//! The server and the simulation both call [`fold`], so that they come to the same bits. Sums go in
//! cohort order. θ moves by the combined work Δ as the server's rule says:
//!
//! | rule | θ takes in Δ = Σ coefficient · delta |
//! |---|---|
//! | average | θ += Δ |
//! | momentum | v ← β v + Δ, θ += rate · v |
//! | adam | m ← β₁ m + (1 − β₁) Δ, v ← β₂ v + (1 − β₂) Δ², θ += rate · m / (√v + τ) |
//!
//! A round to which nobody came changes nothing but what populations remember: they have seen its broadcast. Under `aggregate = "iterates"`, Δ is Σ coefficient · (θ + delta) − θ. Where clients keep something,
//! what is sent to all follows what they keep: it moves by Σ p_i (kept now − kept before).

use fedback_core::federation::range_of;
use fedback_core::protocol::{Aggregate, Protocol, Round, ServerRule};
use fedback_core::state::Repetition;
use rayon::prelude::*;

use crate::cohort::Cohort;

/// What a cohort has done in a round.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// Who, and how much each counts.
    pub cohort: &'a Cohort,
    /// Their updates, one after the other.
    pub deltas: &'a [f64],
    /// What they keep now, one after the other.
    pub kept: &'a [f64],
}

/// How rounds are closed, and room for it that is kept from round to round.
#[derive(Clone, Debug, Default)]
pub struct Folding {
    /// Whether long sums are divided among threads, by coordinates.
    pub divided: bool,
    before: Vec<f64>,
    delta: Vec<f64>,
    change: Vec<f64>,
    shares: Vec<f64>,
}

/// A repetition takes in what a cohort has done in the round that follows `round`, or stays what it
/// was and has failed, where that is not finite.
#[inline(always)]
pub fn fold(
    protocol: &Protocol,
    weights: &[f64],
    round: Round,
    repetition: &mut Repetition,
    done: Done<'_>,
    folding: &mut Folding,
) {
    folding.before.clear();
    folding.before.extend_from_slice(&repetition.server);
    repetition.remember(&folding.before);
    if done.cohort.members.is_empty() {
        return;
    }
    folding.combine(protocol, repetition, done);
    if protocol.local.keeps() {
        folding.follow(protocol, weights, repetition, done);
    }
    if !repetition.server.iter().all(|number| number.is_finite()) {
        repetition.server.clone_from(&folding.before);
        repetition.failed = Some(Round(round.0 + 1));
        repetition.consensus = None;
        return;
    }
    if repetition.layout().kept > 0 {
        repetition.keep_all(&done.cohort.members, done.kept);
    }
}

impl Folding {
    /// θ and what the server keeps to itself take in the combined work.
    #[inline(always)]
    fn combine(&mut self, protocol: &Protocol, repetition: &mut Repetition, done: Done<'_>) {
        let coefficients = done.cohort.coefficients.as_slice();
        let dim = repetition.dim();
        if let ServerRule::Average = protocol.server {
            let theta = &mut repetition.server[..dim];
            if protocol.aggregate == Aggregate::Iterates {
                let total = coefficients.iter().sum::<f64>();
                theta.iter_mut().for_each(|t| *t *= total);
            }
            return self.add(theta, coefficients, done.deltas);
        }
        self.optimise(protocol, repetition, done);
    }

    /// The same by a server that makes more of it than an average.
    fn optimise(&mut self, protocol: &Protocol, repetition: &mut Repetition, done: Done<'_>) {
        let (layout, dim) = (repetition.layout(), repetition.dim());
        let coefficients = done.cohort.coefficients.as_slice();
        let (broadcast, own) = repetition.server.split_at_mut(layout.broadcast());
        let theta = &mut broadcast[..dim];
        let mut delta = std::mem::take(&mut self.delta);
        delta.clear();
        match protocol.aggregate {
            Aggregate::Deltas => delta.resize(dim, 0.0),
            Aggregate::Iterates => {
                let more = coefficients.iter().sum::<f64>() - 1.0;
                delta.extend(theta.iter().map(|t| more * t));
            }
        }
        self.add(&mut delta, coefficients, done.deltas);
        match protocol.server {
            ServerRule::Average => {}
            ServerRule::Momentum { rate, beta } => {
                for ((theta, v), delta) in theta.iter_mut().zip(own).zip(&delta) {
                    *v = beta * *v + delta;
                    *theta += rate * *v;
                }
            }
            ServerRule::Adam { rate, beta1, beta2, tau } => {
                let (first, second) = own.split_at_mut(dim);
                let moments = first.iter_mut().zip(second);
                for ((theta, (m, v)), delta) in theta.iter_mut().zip(moments).zip(&delta) {
                    *m = beta1 * *m + (1.0 - beta1) * delta;
                    *v = beta2 * *v + (1.0 - beta2) * delta * delta;
                    *theta += rate * *m / (v.sqrt() + tau);
                }
            }
        }
        self.delta = delta;
    }

    /// What is sent to all clients stays the average of what they keep.
    fn follow(
        &mut self,
        protocol: &Protocol,
        weights: &[f64],
        repetition: &mut Repetition,
        done: Done<'_>,
    ) {
        let (layout, members) = (repetition.layout(), done.cohort.members.as_slice());
        let mut change = std::mem::take(&mut self.change);
        let mut shares = std::mem::take(&mut self.shares);
        change.clear();
        match range_of(members) {
            // Everybody's numbers lie together.
            Some(range) if layout.kept == layout.control => {
                let before = &repetition.kept[range.start * layout.kept..range.end * layout.kept];
                change.extend(done.kept.iter().zip(before).map(|(now, before)| now - before));
            }
            Some(_) | None => {
                for (member, now) in members.iter().zip(done.kept.chunks_exact(layout.kept)) {
                    let both = now.iter().zip(repetition.kept_by(*member)).take(layout.control);
                    change.extend(both.map(|(now, before)| now - before));
                }
            }
        }
        shares.clear();
        shares.extend(members.iter().map(|one| protocol.weight(weights, one.0 as usize)));
        let sent = &mut repetition.server[layout.dim..][..layout.control];
        self.add(sent, &shares, &change);
        (self.change, self.shares) = (change, shares);
    }

    /// `sum` += Σ coefficient · vector.
    fn add(&self, sum: &mut [f64], coefficients: &[f64], vectors: &[f64]) {
        match self.divided && vectors.len() >= WORTH_DIVIDING {
            true => sum.par_chunks_mut(COORDINATES).enumerate().for_each(|(part, sum)| {
                add_part(part * COORDINATES, sum, coefficients, vectors);
            }),
            false => add_part(0, sum, coefficients, vectors),
        }
    }
}

/// Numbers in the vectors of a sum that is divided among threads.
const WORTH_DIVIDING: usize = 1 << 17;
/// Coordinates that are summed together.
const COORDINATES: usize = 256;

/// The coordinates of a sum from `first` on: in order, four vectors at a time, so that the additions
/// do not wait for each other. Coordinates do not mix: parts may be summed side by side.
fn add_part(first: usize, sum: &mut [f64], coefficients: &[f64], vectors: &[f64]) {
    let dim = vectors.len() / coefficients.len().max(1);
    if dim == 1 {
        return sum.iter_mut().for_each(|sum| add_scalars(sum, coefficients, vectors));
    }
    let count = sum.len();
    let part = |member: usize| &vectors[member * dim + first..][..count];
    let (fours, rest) = coefficients.as_chunks::<4>();
    for (four, c) in fours.iter().enumerate() {
        let [a, b, d, e] = [0, 1, 2, 3].map(|k| part(4 * four + k));
        for (j, t) in sum.iter_mut().enumerate() {
            *t += (c[0] * a[j] + c[1] * b[j]) + (c[2] * d[j] + c[3] * e[j]);
        }
    }
    for (member, c) in (4 * fours.len()..).zip(rest) {
        sum.iter_mut().zip(part(member)).for_each(|(t, d)| *t += c * d);
    }
}

/// The same for a single coordinate, without the loops over coordinates.
fn add_scalars(sum: &mut f64, coefficients: &[f64], numbers: &[f64]) {
    let (fours, rest) = coefficients.as_chunks::<4>();
    let (four_numbers, rest_numbers) = numbers.as_chunks::<4>();
    for (c, d) in fours.iter().zip(four_numbers) {
        *sum += (c[0] * d[0] + c[1] * d[1]) + (c[2] * d[2] + c[3] * d[3]);
    }
    rest.iter().zip(rest_numbers).for_each(|(c, d)| *sum += c * d);
}

/// Σ p_i |δ_i − δ̄|² with δ̄ = Σ p_i δ_i, in client order.
pub(crate) fn spread(weights: &[f64], deltas: &[f64], mean: &mut Vec<f64>, dim: usize) -> f64 {
    mean.clear();
    mean.resize(dim, 0.0);
    for (p, delta) in weights.iter().zip(deltas.chunks_exact(dim)) {
        mean.iter_mut().zip(delta).for_each(|(mean, d)| *mean += p * d);
    }
    let away = |delta: &[f64]| -> f64 {
        delta.iter().zip(mean.iter()).map(|(d, mean)| (d - mean) * (d - mean)).sum()
    };
    weights.iter().zip(deltas.chunks_exact(dim)).map(|(p, delta)| p * away(delta)).sum()
}
