//! What a careful programmer would write for one problem: one generator, one client after the
//! other, nothing copied. The peer that shares our compiler.

use fedback_core::base::{Base, Gaussian, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Protocol, Step};
use fedback_core::response::Shift;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;

/// Runs full participation; the final θ of every repetition.
pub fn run(
    federation: &Federation,
    protocol: &Protocol,
    seed: u64,
    rounds: u64,
    repetitions: usize,
) -> Vec<Vec<f64>> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut repetition = || match (federation.base(), federation.loss()) {
        (Base::Gaussian(base), _) => vec![gaussian(federation, base, protocol, rounds, &mut rng)],
        (Base::Table(table), Loss::Logistic { .. }) => {
            let slope = |margin: f64, label: f64| 1.0 / (1.0 + (-margin).exp()) - label;
            rows(federation, table, protocol, rounds, &mut rng, slope)
        }
        (Base::Table(table), _) => {
            rows(federation, table, protocol, rounds, &mut rng, |margin, label| margin - label)
        }
    };
    (0..repetitions).map(|_| repetition()).collect()
}

/// The first coordinate of normal data under a location shift.
fn gaussian(
    federation: &Federation,
    base: &Gaussian,
    protocol: &Protocol,
    rounds: u64,
    rng: &mut SmallRng,
) -> f64 {
    let shift = federation.shift().unwrap_or(&Shift::None);
    let sensitivity: Vec<f64> =
        (0..federation.clients()).map(|client| shift.diagonal(client, 0)).collect();
    let local_steps = protocol.local_steps as u64;
    let noise = base.noise / protocol.batch.size().sqrt();
    let mut theta = 0.0;
    for round in 0..rounds {
        let mut next = 0.0;
        for (client, weight) in federation.weights().iter().enumerate() {
            let mut local = theta;
            for step in round * local_steps..(round + 1) * local_steps {
                let size = protocol.step_size.at(Step(step));
                let xi: f64 = rng.sample(StandardNormal);
                let z = base.mean[client] + sensitivity[client] * local + noise * xi;
                local -= size * (local - z);
            }
            next += weight * local;
        }
        theta = next;
    }
    theta
}

/// Rows under a loss of the margin: one pass for the margin, one for the gradient.
fn rows(
    federation: &Federation,
    table: &Table,
    protocol: &Protocol,
    rounds: u64,
    rng: &mut SmallRng,
    slope: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    let dim = table.dim;
    let (local_steps, batch) = (protocol.local_steps as u64, protocol.batch.size() as usize);
    let penalty = federation.ridge();
    let response = federation.shift().unwrap_or(&Shift::None);
    let mut theta = vec![0.0; dim];
    let (mut next, mut local) = (vec![0.0; dim], vec![0.0; dim]);
    let (mut shift, mut gradient) = (vec![0.0; dim], vec![0.0; dim]);
    for round in 0..rounds {
        next.fill(0.0);
        for (client, weight) in federation.weights().iter().enumerate() {
            let (rows, labels) = table.block(client);
            local.copy_from_slice(&theta);
            for step in round * local_steps..(round + 1) * local_steps {
                let size = protocol.step_size.at(Step(step));
                response.apply(client, &local, &mut shift);
                let moved: f64 = shift.iter().zip(&local).map(|(s, t)| s * t).sum();
                gradient.fill(0.0);
                let mut slopes = 0.0;
                for _ in 0..batch {
                    let row = rng.random_range(0..labels.len());
                    let x = &rows[row * dim..][..dim];
                    let margin: f64 = x.iter().zip(&local).map(|(x, t)| x * t).sum();
                    let slope = slope(margin + moved, labels[row]);
                    slopes += slope;
                    gradient.iter_mut().zip(x).for_each(|(g, x)| *g += slope * x);
                }
                for j in 0..dim {
                    let mean = (gradient[j] + slopes * shift[j]) / batch as f64;
                    local[j] -= size * (mean + penalty[j] * local[j]);
                }
            }
            next.iter_mut().zip(&local).for_each(|(next, local)| *next += weight * local);
        }
        theta.copy_from_slice(&next);
    }
    theta
}
