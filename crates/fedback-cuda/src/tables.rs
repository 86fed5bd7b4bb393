//! What of a problem lies on the device while it is run, and how large all of it is.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::normal::ziggurat;
use fedback_core::protocol::{Batch, Protocol};
use fedback_engine::cohort::CohortSampler;
use fedback_engine::work::Order;

use crate::driver::{Buffer, Gpu};
use crate::error::DeviceError;
use crate::layout::Problem;

/// The numbers of a problem that no round changes.
pub(crate) struct Tables {
    edge: Buffer<f64>,
    density: Buffer<f64>,
    weights: Buffer<f64>,
    scales: Buffer<f64>,
    means: Buffer<f64>,
    reactions: Buffer<f64>,
    rows: Buffer<f64>,
    labels: Buffer<f64>,
    starts: Buffer<u64>,
    alias_keep: Buffer<f64>,
    alias_other: Buffer<u64>,
}

/// Numbers from one row to the next: whole blocks of four, so that four threads read a row together.
pub(crate) fn pitch(dim: usize) -> usize {
    dim.next_multiple_of(4)
}

/// How many numbers [`Tables`] are.
pub(crate) fn numbers(problem: &Federation) -> usize {
    let (clients, dim) = (problem.clients(), problem.dim());
    let rows = match problem.base() {
        Base::Gaussian(_) => clients * dim,
        Base::Table(table) => table.len() * (pitch(dim) + 1),
    };
    rows + clients * dim + 5 * clients + 2 * ziggurat().edges().len() + 1
}

impl Tables {
    /// Copies them to the device.
    pub(crate) fn of(
        gpu: &Gpu,
        problem: &Federation,
        protocol: &Protocol,
        sampler: &CohortSampler,
    ) -> Result<Self, DeviceError> {
        let (clients, dim) = (problem.clients(), problem.dim());
        let order = Order { protocol, step_sizes: &[] };
        let every = || (0..clients as u32).map(fedback_core::federation::ClientId);
        let scale = |client| order.objective_scale(problem.weights(), client);
        let scales: Vec<f64> = every().map(scale).collect();
        let mut reactions = vec![0.0; clients * dim];
        if let Some(shift) = problem.shift() {
            for (client, reaction) in reactions.chunks_exact_mut(dim).enumerate() {
                shift.diagonal_from(client, 0, reaction);
            }
        }
        let (mut rows, mut labels, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        let means = match problem.base() {
            Base::Gaussian(base) => base.mean.as_slice(),
            Base::Table(table) => {
                for client in 0..clients {
                    let (own, all) = (table.block(client).1, table.rows_from(client));
                    // What fills a row's last block is what lies behind it, as in the engine, whose
                    // products with zero these are.
                    for row in 0..own.len() {
                        rows.extend_from_slice(&all[row * dim..][..pitch(dim)]);
                    }
                    labels.extend_from_slice(own);
                    starts.push(labels.len() as u64);
                }
                &[]
            }
        };
        let (alias_keep, alias_other) = sampler.alias();
        let alias_other: Vec<u64> = alias_other.iter().map(|client| u64::from(*client)).collect();
        Ok(Tables {
            edge: Buffer::of(gpu, ziggurat().edges())?,
            density: Buffer::of(gpu, ziggurat().densities())?,
            weights: Buffer::of(gpu, problem.weights())?,
            scales: Buffer::of(gpu, &scales)?,
            means: Buffer::of(gpu, means)?,
            reactions: Buffer::of(gpu, &reactions)?,
            rows: Buffer::of(gpu, &rows)?,
            labels: Buffer::of(gpu, &labels)?,
            starts: Buffer::of(gpu, &starts)?,
            alias_keep: Buffer::of(gpu, alias_keep)?,
            alias_other: Buffer::of(gpu, &alias_other)?,
        })
    }

    /// Says where they are, and what the problem is.
    pub(crate) fn describe(&self, of: &Federation, protocol: &Protocol, problem: &mut Problem) {
        let (loss, logistic) = match of.loss() {
            Loss::Mean => (0.0, 0),
            Loss::Squared { l2 } => (l2, 0),
            Loss::Logistic { l2 } => (l2, 1),
        };
        *problem = Problem {
            clients: of.clients() as u64,
            dim: of.dim() as u64,
            loss: logistic,
            l2: loss,
            penalised: (of.dim() - usize::from(of.has_intercept())) as u64,
            pitch: pitch(of.dim()) as u64,
            noise: match of.base() {
                Base::Gaussian(base) => base.noise / protocol.batch.size().sqrt(),
                Base::Table(_) => 0.0,
            },
            batch: match protocol.batch {
                Batch::Sampled(size) => size as u64,
                Batch::All => 0,
            },
            edge: self.edge.at(),
            density: self.density.at(),
            weights: self.weights.at(),
            scales: self.scales.at(),
            means: self.means.at(),
            reactions: self.reactions.at(),
            rows: self.rows.at(),
            labels: self.labels.at(),
            starts: self.starts.at(),
            alias_keep: self.alias_keep.at(),
            alias_other: self.alias_other.at(),
            ..*problem
        };
    }
}
