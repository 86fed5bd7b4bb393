//! The path without noise: every client works with its averaged gradient, whatever that is a function of.
//!
//! The state is laid out as in [`super::frame`]: the model, the server's velocity, what is remembered, what
//! clients keep.

use std::ops::Range;

use fedback_core::federation::Federation;
use fedback_core::memory::{Memory, Past};
use fedback_core::protocol::{Deploy, Protocol};

use super::client;
use super::frame::Frame;
use crate::cohort::{Arrived, Cohorts};

/// A protocol, as a path without noise sees it.
pub(crate) struct Walk {
    frame: Frame,
    deploy: Deploy,
    past: Option<Past>,
    proximal: f64,
    scales: Vec<f64>,
    /// E(c_k): what a client's work counts.
    counts: Vec<f64>,
    /// E(b_k): how often it changes what it keeps.
    taking: Vec<f64>,
    /// How often nobody comes, and nothing changes.
    empty: f64,
}

impl Walk {
    pub(crate) fn new(
        federation: &Federation,
        protocol: &Protocol,
        arrived: Option<&Arrived>,
    ) -> Self {
        let clients = federation.clients();
        let cohorts = Cohorts::of(federation, protocol, arrived);
        let taking = cohorts.expected[..clients].to_vec();
        let counts = match &cohorts.counts {
            None => taking.clone(),
            Some(counts) => counts.iter().zip(&taking).map(|(count, b)| count * b).collect(),
        };
        Walk {
            frame: Frame::of(federation, protocol, &vec![0.0; federation.dim()]),
            deploy: protocol.deploy,
            past: federation.past().cloned(),
            proximal: client::proximal(protocol),
            scales: (0..clients).map(|i| client::scale(federation, protocol, i)).collect(),
            counts,
            taking,
            empty: if cohorts.idle { cohorts.expected[clients] } else { 0.0 },
        }
    }

    /// The state in which the model is at `theta` before the first round.
    pub(crate) fn begin(&self, theta: &[f64]) -> Vec<f64> {
        self.remembering(theta, self.past.as_ref().map_or(&[], |past| &past.start))
    }

    /// The state in which the model has been at `theta` all along.
    pub(crate) fn long_at(&self, theta: &[f64]) -> Vec<f64> {
        self.remembering(theta, theta)
    }

    fn remembering(&self, theta: &[f64], past: &[f64]) -> Vec<f64> {
        let (mut state, pasts) = (theta.to_vec(), self.frame.pasts());
        state.resize(self.frame.width(), 0.0);
        let models = state[pasts].chunks_exact_mut(theta.len());
        models.for_each(|model| model.copy_from_slice(past));
        state
    }

    /// The norm of the model, or of the largest model that is remembered.
    pub(crate) fn farthest(&self, state: &[f64]) -> f64 {
        let dim = self.frame.dim;
        let models = state[self.frame.pasts()].chunks_exact(dim).chain([&state[..dim]]);
        models.map(|model| model.iter().map(|x| x * x).sum::<f64>().sqrt()).fold(0.0, f64::max)
    }

    /// How populations remember, where they do.
    fn memory(&self) -> Option<Memory> {
        self.past.as_ref().map(|past| past.memory)
    }

    /// Every client's work from a state, and after it how its own past changes; `gradient` writes ∇f_i(w; φ) for a
    /// client, w and φ.
    pub(crate) fn works(
        &self,
        state: &[f64],
        sizes: &[f64],
        mut gradient: impl FnMut(usize, &[f64], &[f64], &mut [f64]),
    ) -> Vec<f64> {
        let dim = self.frame.dim;
        let theta = &state[..dim];
        let control = self.control(state);
        let own = self.frame.own.map_or(0, |(_, models)| models) * dim;
        let mut works = vec![0.0; self.scales.len() * (dim + own)];
        let (mut local, mut slope, mut part) = (vec![0.0; dim], vec![0.0; dim], vec![0.0; dim]);
        let mut answered = vec![0.0; self.memory().map_or(0, Memory::answers) * dim];
        for (client, work) in works.chunks_exact_mut(dim + own).enumerate() {
            if self.counts[client] == 0.0 && self.taking[client] == 0.0 {
                continue;
            }
            local.copy_from_slice(theta);
            let before = &state[self.past_of(client)];
            let mut past = before.to_vec();
            for size in sizes {
                let deployed = match self.deploy {
                    Deploy::Step => &local[..],
                    Deploy::Round => theta,
                };
                match self.memory() {
                    None => gradient(client, &local, deployed, &mut slope),
                    Some(memory) => {
                        memory.answer(deployed, &past, &mut answered);
                        slope.fill(0.0);
                        let share = 1.0 / memory.answers() as f64;
                        for model in answered.chunks_exact(dim) {
                            gradient(client, &local, model, &mut part);
                            slope.iter_mut().zip(&part).for_each(|(all, own)| *all += share * own);
                        }
                        if self.deploy == Deploy::Step {
                            memory.take_in(&local, &mut past);
                        }
                    }
                }
                for j in 0..dim {
                    let kept = match &control {
                        Some(average) => average[j] - state[self.frame.place_of(client) + j],
                        None => 0.0,
                    };
                    let spring = self.proximal * (local[j] - theta[j]);
                    local[j] -= size * (self.scales[client] * slope[j] + spring + kept);
                }
            }
            (0..dim).for_each(|j| work[j] = local[j] - theta[j]);
            let changes = work[dim..].iter_mut().zip(past.iter().zip(before));
            changes.for_each(|(change, (now, before))| *change = now - before);
        }
        works
    }

    /// Where what a client's population remembers is.
    fn past_of(&self, client: usize) -> Range<usize> {
        match self.frame.own {
            None => self.frame.pasts(),
            Some(_) => self.frame.past_of(client, 0)..self.frame.past_of(client + 1, 0),
        }
    }

    /// Moves a state over one round in which gradients are the clients' own.
    pub(crate) fn round(&self, federation: &Federation, state: &mut [f64], sizes: &[f64]) {
        let works = self.works(state, sizes, |client, local, deployed, gradient| {
            federation.population(client).gradient(local, deployed, gradient);
        });
        self.close(state, &works, sizes.iter().sum());
    }

    /// c.
    fn control(&self, state: &[f64]) -> Option<Vec<f64>> {
        let weights = self.frame.kept.as_ref()?;
        let entry = |j: usize| {
            let parts = weights.iter().enumerate();
            parts.map(|(i, w)| w * state[self.frame.place_of(i) + j]).sum()
        };
        Some((0..self.frame.dim).map(entry).collect())
    }

    /// What the expected cohort makes of the state; `total` is the sum of the round's step sizes.
    pub(crate) fn close(&self, state: &mut [f64], works: &[f64], total: f64) {
        let dim = self.frame.dim;
        let control = self.control(state);
        let width = works.len() / self.counts.len();
        match self.frame.own {
            None => {
                let (before, rest) = state.split_at_mut(dim);
                let pasts = self.frame.pasts();
                let past = &mut rest[pasts.start - dim..pasts.end - dim];
                self.memory().into_iter().for_each(|memory| memory.take_in(before, past));
            }
            Some(_) => {
                for (k, work) in works.chunks_exact(width).enumerate() {
                    let past = state[self.past_of(k)].iter_mut().zip(&work[dim..]);
                    past.for_each(|(past, change)| *past += self.taking[k] * change);
                }
            }
        }
        for j in 0..dim {
            let counted = self.counts.iter().enumerate();
            let moved: f64 = counted.map(|(k, count)| count * works[k * width + j]).sum();
            match self.frame.momentum {
                None => state[j] += moved,
                Some((rate, beta)) => {
                    let before = state[dim + j];
                    let kept = self.empty * before;
                    state[dim + j] = kept + (1.0 - self.empty) * beta * before + moved;
                    state[j] += rate * (state[dim + j] - kept);
                }
            }
            if let Some(average) = &control {
                for (k, share) in self.taking.iter().enumerate() {
                    let place = self.frame.place_of(k) + j;
                    state[place] -= share * (average[j] + works[k * width + j] / total);
                }
            }
        }
    }
}
