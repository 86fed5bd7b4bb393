//! P-FedAvg's local work (Jin et al., "Performative Federated Learning", section 2.4).
//!
//! Client i starts at the broadcast θ and makes E steps w ← w − η_t ∇ℓ(w; Z), where Z is a fresh
//! batch from D_i. Under `deploy = "step"` the population reacts to the local w of that very
//! step; under `deploy = "round"` to the θ last broadcast. Requires nothing of the problem but
//! gradients; converges to the stable point where `fedback solve` calls it attracting, for steps
//! that are small enough.
//!
//! Three kernels. Where coordinates do not mix (normal data, diagonal response) every coordinate
//! of every client is a lane of its own. Matrix responses work a client at a time. Tables never
//! copy a row to shift it: a linear shift enters as one number added to the margin and one multiple
//! of the shift added to the gradient. The mean of a normal batch is drawn as such, N(mean,
//! noise²/batch), since the gradient depends on the batch through it alone.

pub(super) mod gaussian;

use fedback_core::base::{Base, Gaussian, Table};
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::{Logistic, Loss, MarginLoss, Squared};
use fedback_core::normal;
use fedback_core::protocol::Deploy;
use fedback_core::stream::Stream;

use super::{Order, Scratch, Task, Work, WorkError};

impl Work for Federation {
    fn dim(&self) -> usize {
        self.base.dim()
    }

    fn work(
        &self,
        order: &Order<'_>,
        tasks: &[Task<'_>],
        deltas: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<(), WorkError> {
        match &self.base {
            Base::Gaussian(base) if self.response.is_diagonal() => {
                gaussian::work(self, base, order, tasks, deltas, &mut scratch.block);
            }
            Base::Gaussian(base) => {
                each_client(self, order, tasks, deltas, scratch, &GaussianBatch(base));
            }
            Base::Table(table) => match self.loss {
                Loss::Mean => {
                    each_client(self, order, tasks, deltas, scratch, &RowMean(table));
                }
                Loss::Squared { .. } => {
                    each_client(self, order, tasks, deltas, scratch, &Margin(table, Squared));
                }
                Loss::Logistic { .. } => {
                    each_client(self, order, tasks, deltas, scratch, &Margin(table, Logistic));
                }
            },
        }
        Ok(())
    }
}

/// What a client's gradients are multiplied with.
fn objective_scale(federation: &Federation, order: &Order<'_>, client: ClientId) -> f64 {
    match order.scale_objectives {
        true => federation.clients() as f64 * federation.weights[client.0 as usize],
        false => 1.0,
    }
}

/// The gradient of a batch at local θ, on data shifted by a vector.
trait BatchGradient {
    /// Writes the gradient without penalty to `out`; `first` counts the observations drawn before
    /// in this round.
    fn gradient(&self, at: &At<'_>, stream: Stream, first: u64, batch: usize, out: &mut [f64]);
}

/// Where a batch gradient is taken.
struct At<'a> {
    client: usize,
    theta: &'a [f64],
    shift: &'a [f64],
}

/// The loop over local steps, a client at a time.
fn each_client(
    federation: &Federation,
    order: &Order<'_>,
    tasks: &[Task<'_>],
    deltas: &mut [f64],
    scratch: &mut Scratch,
    kernel: &impl BatchGradient,
) {
    let dim = federation.base.dim();
    let regularised = dim - usize::from(federation.has_intercept());
    let l2 = federation.loss.l2();
    let Scratch { local, shift, gradient, .. } = scratch;
    shift.resize(dim, 0.0);
    gradient.resize(dim, 0.0);
    let mut rest = deltas;
    for task in tasks {
        let (deltas, later) = rest.split_at_mut(task.clients.len() * dim);
        rest = later;
        for (&client, delta) in task.clients.iter().zip(deltas.chunks_exact_mut(dim)) {
            let index = client.0 as usize;
            let stream = task.streams.client(client.0);
            let scale = objective_scale(federation, order, client);
            local.clear();
            local.extend_from_slice(task.theta);
            federation.response.apply(index, task.theta, shift);
            for (step, &size) in order.step_sizes.iter().enumerate() {
                if step > 0 && order.deploy == Deploy::Step {
                    federation.response.apply(index, local, shift);
                }
                let first = (step * order.batch) as u64;
                let at = At { client: index, theta: local, shift };
                kernel.gradient(&at, stream, first, order.batch, gradient);
                let size = size * scale;
                for (w, g) in local[..regularised].iter_mut().zip(gradient.iter()) {
                    *w -= size * (g + l2 * *w);
                }
                for (w, g) in local[regularised..].iter_mut().zip(&gradient[regularised..]) {
                    *w -= size * g;
                }
            }
            for ((delta, w), start) in delta.iter_mut().zip(local.iter()).zip(task.theta) {
                *delta = w - start;
            }
        }
    }
}

/// Normal data whose coordinates mix through the response.
struct GaussianBatch<'a>(&'a Gaussian);

impl BatchGradient for GaussianBatch<'_> {
    fn gradient(&self, at: &At<'_>, stream: Stream, first: u64, batch: usize, out: &mut [f64]) {
        let ziggurat = normal::ziggurat();
        let noise = self.0.noise / (batch as f64).sqrt();
        let mean = self.0.mean(at.client);
        let n = first / batch as u64 * out.len() as u64;
        for (j, g) in out.iter_mut().enumerate() {
            let z = mean[j] + at.shift[j] + noise * stream.normal(ziggurat, n + j as u64);
            *g = at.theta[j] - z;
        }
    }
}

/// Rows under the loss `mean`.
struct RowMean<'a>(&'a Table);

impl BatchGradient for RowMean<'_> {
    fn gradient(&self, at: &At<'_>, stream: Stream, first: u64, batch: usize, out: &mut [f64]) {
        let (rows, labels) = self.0.block(at.client);
        out.fill(0.0);
        for k in 0..batch as u64 {
            let row = &rows[stream.index(first + k, labels.len()) * out.len()..][..out.len()];
            out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        let share = 1.0 / batch as f64;
        for (j, g) in out.iter_mut().enumerate() {
            *g = at.theta[j] - at.shift[j] - *g * share;
        }
    }
}

/// Rows under a loss of the margin.
struct Margin<'a, L>(&'a Table, L);

impl<L: MarginLoss> BatchGradient for Margin<'_, L> {
    #[inline]
    fn gradient(&self, at: &At<'_>, stream: Stream, first: u64, batch: usize, out: &mut [f64]) {
        let (rows, labels) = self.0.block(at.client);
        let dim = out.len();
        let moved = dot(at.shift, at.theta);
        let mut slopes = 0.0;
        out.fill(0.0);
        for k in 0..batch as u64 {
            let row = stream.index(first + k, labels.len());
            let x = &rows[row * dim..][..dim];
            let slope = self.1.slope(dot(x, at.theta) + moved, labels[row]);
            slopes += slope;
            out.iter_mut().zip(x).for_each(|(sum, x)| *sum += slope * x);
        }
        let share = 1.0 / batch as f64;
        for (g, shift) in out.iter_mut().zip(at.shift) {
            *g = (*g + slopes * shift) * share;
        }
    }
}

/// The inner product in four interleaved sums, so that its order does not depend on the width of
/// the machine's vectors.
#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_blocks, a_rest) = a.as_chunks::<4>();
    let (b_blocks, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for l in 0..4 {
            sums[l] += a[l] * b[l];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest
}
