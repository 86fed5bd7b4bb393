//! The path without noise: every client works with its averaged gradient, whatever that is a function of.
//!
//! The state is laid out as in [`super::frame`]: the model, the server's velocity, what clients keep.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Deploy, Protocol};

use super::client;
use super::frame::Frame;
use crate::cohort::{Arrived, Cohorts};

/// A protocol, as a path without noise sees it.
pub(crate) struct Walk {
    frame: Frame,
    deploy: Deploy,
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
        let (clients, weights) = (federation.clients(), federation.weights());
        let cohorts = Cohorts::of(weights, protocol, arrived);
        let taking = cohorts.expected[..clients].to_vec();
        let counts = match &cohorts.counts {
            None => taking.clone(),
            Some(counts) => counts.iter().zip(&taking).map(|(count, b)| count * b).collect(),
        };
        Walk {
            frame: Frame::of(federation, protocol, &vec![0.0; federation.dim()]),
            deploy: protocol.deploy,
            proximal: client::proximal(protocol),
            scales: (0..clients).map(|i| client::scale(federation, protocol, i)).collect(),
            counts,
            taking,
            empty: if cohorts.idle { cohorts.expected[clients] } else { 0.0 },
        }
    }

    /// The state in which the model is at `theta` and nothing else is there.
    pub(crate) fn begin(&self, theta: &[f64]) -> Vec<f64> {
        let mut state = theta.to_vec();
        state.resize(self.frame.width(), 0.0);
        state
    }

    /// Every client's work from a state; `gradient` writes ∇f_i(w; φ) for a client, w and φ.
    pub(crate) fn works(
        &self,
        state: &[f64],
        sizes: &[f64],
        mut gradient: impl FnMut(usize, &[f64], &[f64], &mut [f64]),
    ) -> Vec<f64> {
        let dim = self.frame.dim;
        let theta = &state[..dim];
        let control = self.control(state);
        let mut works = vec![0.0; self.scales.len() * dim];
        let (mut local, mut slope) = (vec![0.0; dim], vec![0.0; dim]);
        for (client, work) in works.chunks_exact_mut(dim).enumerate() {
            if self.counts[client] == 0.0 && self.taking[client] == 0.0 {
                continue;
            }
            local.copy_from_slice(theta);
            for size in sizes {
                match self.deploy {
                    Deploy::Step => gradient(client, &local, &local, &mut slope),
                    Deploy::Round => gradient(client, &local, theta, &mut slope),
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
        }
        works
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
        for j in 0..dim {
            let counted = self.counts.iter().enumerate();
            let moved: f64 = counted.map(|(k, count)| count * works[k * dim + j]).sum();
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
                    state[place] -= share * (average[j] + works[k * dim + j] / total);
                }
            }
        }
    }
}
