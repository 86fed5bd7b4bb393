//! Local work spelled out, for populations and losses that are not built in.
//!
//! The same rules as in `clients.rs`, one client and one step at a time. Under `deploy = "step"` a
//! batch is drawn at every step, at the local w. Under `deploy = "round"` the observations of all
//! steps are drawn at once, at the θ last broadcast: a real site is asked once a round.

use std::ops::Range;
use std::sync::Arc;

use fedback_core::base::{Base, Table};
use fedback_core::federation::ClientId;
use fedback_core::loss::{Logistic, Loss, MarginLoss, Squared};
use fedback_core::normal;
use fedback_core::protocol::{Batch, Deploy};
use fedback_core::response::Shift;
use fedback_core::stream::{Stream, Streams};

use crate::rule::{Coordinate, Rule, StepSizes, WithRule, clip, keep, with_rule};
use crate::work::{Order, Scratch, Task, Work, WorkError};

/// Observations and gradients of clients, batch by batch.
pub trait Gradients: Sync {
    /// Where in a client's observations of one round a draw goes on.
    type Cursor;
    /// Observations, in whatever form.
    type Batch;

    /// Coordinates of θ.
    fn dim(&self) -> usize;

    /// Prepares the draws of one client in one round.
    fn cursor(&self, streams: Streams, client: ClientId) -> Result<Self::Cursor, WorkError>;

    /// Draws fresh observations that react to `deployed`.
    fn draw(
        &self,
        cursor: &mut Self::Cursor,
        deployed: &[f64],
        count: usize,
    ) -> Result<Self::Batch, WorkError>;

    /// Every observation that a client has, as they react to `deployed`, where they can be listed.
    fn everything(
        &self,
        _client: ClientId,
        _deployed: &[f64],
    ) -> Result<Option<Self::Batch>, WorkError> {
        Ok(None)
    }

    /// Writes the gradient of the mean loss over some of a batch's observations at θ, and returns
    /// that loss; over all of them where `range` is none.
    fn gradient(
        &self,
        client: ClientId,
        theta: &[f64],
        batch: &Self::Batch,
        range: Option<Range<usize>>,
        out: &mut [f64],
    ) -> Result<f64, WorkError>;
}

/// Does the work of clients by their [`Gradients`], one after the other.
#[derive(Clone, Debug)]
pub struct Plain<G> {
    /// Observations and gradients.
    pub gradients: G,
    /// The clients' weights, which scaled objectives need.
    pub weights: Arc<[f64]>,
}

impl<G: Gradients> Work for Plain<G> {
    fn dim(&self) -> usize {
        self.gradients.dim()
    }

    fn work(
        &self,
        order: &Order<'_>,
        tasks: &[Task<'_>],
        deltas: &mut [f64],
        kept: &mut [f64],
        _scratch: &mut Scratch,
    ) -> Result<(), WorkError> {
        let dim = self.dim();
        let mut deltas = deltas.chunks_exact_mut(dim);
        let mut kept = kept.chunks_exact_mut(dim);
        for task in tasks {
            for (&client, delta) in task.clients.iter().zip(deltas.by_ref()) {
                let kept = kept.next().unwrap_or_default();
                let job = Job { plain: self, order, task, client, delta, kept };
                with_rule(order.protocol.local, job)?;
            }
        }
        Ok(())
    }

    fn losses(
        &self,
        order: &Order<'_>,
        task: &Task<'_>,
        theta: &[f64],
        out: &mut [f64],
        _scratch: &mut Scratch,
    ) -> Result<(), WorkError> {
        let deployed = &task.broadcast[..self.dim()];
        let mut unused = vec![0.0; theta.len()];
        for (&client, out) in task.clients.iter().zip(out) {
            let batch = match order.protocol.batch {
                Batch::All => self.everything(client, deployed)?,
                Batch::Sampled(size) => {
                    let mut cursor = self.gradients.cursor(task.streams, client)?;
                    self.gradients.draw(&mut cursor, deployed, size)?
                }
            };
            *out = self.gradients.gradient(client, theta, &batch, None, &mut unused)?;
        }
        Ok(())
    }
}

impl<G: Gradients> Plain<G> {
    fn everything(&self, client: ClientId, deployed: &[f64]) -> Result<G::Batch, WorkError> {
        let reason = || "batch = \"all\" where observations cannot be listed".into();
        let all = self.gradients.everything(client, deployed)?;
        all.ok_or_else(|| WorkError { client: client.0, reason: reason() })
    }
}

/// The work of one client, once the rule is known.
struct Job<'a, G> {
    plain: &'a Plain<G>,
    order: &'a Order<'a>,
    task: &'a Task<'a>,
    client: ClientId,
    delta: &'a mut [f64],
    kept: &'a mut [f64],
}

impl<G: Gradients> WithRule for Job<'_, G> {
    type Output = Result<(), WorkError>;

    fn with<R: Rule>(self, rule: R) -> Result<(), WorkError> {
        let Job { plain, order, task, client, delta, kept } = self;
        let Plain { gradients, weights } = plain;
        let scale = order.objective_scale(weights, client);
        let (theta, sent) = task.broadcast.split_at(gradients.dim());
        let mut control = vec![0.0; theta.len()];
        for ((control, sent), kept) in control.iter_mut().zip(sent).zip(&*kept) {
            *control = rule.control(*sent, *kept);
        }
        let mut local = theta.to_vec();
        let mut gradient = vec![0.0; local.len()];
        let mut cursor = gradients.cursor(task.streams, client)?;
        let steps = order.step_sizes.len();
        let round = match (order.protocol.deploy, order.protocol.batch) {
            (Deploy::Step, _) => None,
            (Deploy::Round, Batch::All) => Some(plain.everything(client, theta)?),
            (Deploy::Round, Batch::Sampled(size)) => {
                Some(gradients.draw(&mut cursor, theta, steps * size)?)
            }
        };
        for (step, &step_size) in order.step_sizes.iter().enumerate() {
            match (&round, order.protocol.batch) {
                (Some(batch), Batch::Sampled(size)) => {
                    let range = step * size..(step + 1) * size;
                    let range = if steps == 1 { None } else { Some(range) };
                    gradients.gradient(client, &local, batch, range, &mut gradient)?;
                }
                (Some(all), Batch::All) => {
                    gradients.gradient(client, &local, all, None, &mut gradient)?;
                }
                (None, batch) => {
                    let batch = match batch {
                        Batch::All => plain.everything(client, &local)?,
                        Batch::Sampled(size) => gradients.draw(&mut cursor, &local, size)?,
                    };
                    gradients.gradient(client, &local, &batch, None, &mut gradient)?;
                }
            }
            let size = StepSizes { plain: step_size, gradient: step_size * scale };
            for (j, w) in local.iter_mut().enumerate() {
                let at = Coordinate { w: *w, theta: theta[j], control: control[j] };
                *w = rule.step(at, gradient[j], size);
            }
        }
        for ((delta, local), theta) in delta.iter_mut().zip(&local).zip(theta) {
            *delta = local - theta;
        }
        if let Some(longest) = order.longest() {
            clip(delta, gradients.dim(), longest);
        }
        if order.protocol.local.keeps() {
            keep(rule, sent, kept, delta, order.total_step());
        }
        Ok(())
    }
}

/// Observations as numbers: features row after row, and labels where there are any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// Features.
    pub features: Vec<f64>,
    /// One label a row, or none at all.
    pub labels: Vec<f64>,
}

/// Where in a client's built-in observations of one round a draw goes on.
#[derive(Clone, Debug)]
pub struct BuiltInCursor {
    client: usize,
    stream: Stream,
    next: u64,
}

impl BuiltInCursor {
    /// The draws of a client from its stream.
    pub fn new(streams: Streams, client: ClientId) -> Self {
        BuiltInCursor { client: client.0 as usize, stream: streams.client(client.0), next: 0 }
    }

    /// Draws observations of a built-in population one by one.
    pub fn draw(
        &mut self,
        base: &Base,
        response: &Shift,
        deployed: &[f64],
        count: usize,
    ) -> Observations {
        let shift = shift(response, self.client, deployed);
        let mut rows = Observations::default();
        match base {
            Base::Gaussian(base) => {
                let ziggurat = normal::ziggurat();
                for _ in 0..count {
                    for (mean, shift) in base.mean(self.client).iter().zip(&shift) {
                        let noise = base.noise * self.stream.normal(ziggurat, self.next);
                        rows.features.push(mean + shift + noise);
                        self.next += 1;
                    }
                }
            }
            Base::Table(table) => {
                let (_, labels) = table.block(self.client);
                for _ in 0..count {
                    let row = self.stream.index(self.next, labels.len());
                    rows.add(table, self.client, row, &shift);
                    self.next += 1;
                }
            }
        }
        rows
    }
}

impl Observations {
    /// All rows that a client has in a table, as they react to `deployed`.
    pub fn everything(table: &Table, response: &Shift, client: usize, deployed: &[f64]) -> Self {
        let shift = shift(response, client, deployed);
        let mut rows = Observations::default();
        (0..table.block(client).1.len()).for_each(|row| rows.add(table, client, row, &shift));
        rows
    }

    fn add(&mut self, table: &Table, client: usize, row: usize, shift: &[f64]) {
        let (features, labels) = table.block(client);
        let features = &features[row * shift.len()..][..shift.len()];
        self.features.extend(features.iter().zip(shift).map(|(x, shift)| x + shift));
        self.labels.extend(labels.get(row));
    }

    /// Some of the rows, of `dim` features each.
    pub fn part(&self, range: Range<usize>, dim: usize) -> Observations {
        let labels = if self.labels.is_empty() { &[] } else { &self.labels[range.clone()] };
        Observations {
            features: self.features[range.start * dim..range.end * dim].to_vec(),
            labels: labels.to_vec(),
        }
    }

    /// Writes the gradient of a built-in loss's mean over some rows at θ, and returns that mean. The
    /// penalty leaves an intercept alone.
    pub fn gradient(
        &self,
        loss: Loss,
        intercept: bool,
        theta: &[f64],
        range: Option<Range<usize>>,
        out: &mut [f64],
    ) -> f64 {
        let dim = theta.len();
        let range = range.unwrap_or(0..self.features.len() / dim);
        out.fill(0.0);
        let count = range.len() as f64;
        let rows = self.features[range.start * dim..range.end * dim].chunks_exact(dim);
        let sum: f64 = match loss {
            Loss::Mean => rows.map(|z| add_mean(theta, z, out)).sum(),
            Loss::Squared { .. } => {
                rows.zip(&self.labels[range]).map(|row| add_margin(Squared, theta, row, out)).sum()
            }
            Loss::Logistic { .. } => {
                rows.zip(&self.labels[range]).map(|row| add_margin(Logistic, theta, row, out)).sum()
            }
        };
        let penalised = dim - usize::from(intercept);
        let mut penalty = 0.0;
        for (j, (out, theta)) in out.iter_mut().zip(theta).enumerate() {
            *out /= count;
            if j < penalised {
                *out += loss.l2() * theta;
                penalty += 0.5 * loss.l2() * theta * theta;
            }
        }
        sum / count + penalty
    }
}

fn shift(response: &Shift, client: usize, deployed: &[f64]) -> Vec<f64> {
    let mut shift = vec![0.0; deployed.len()];
    response.apply(client, deployed, &mut shift);
    shift
}

/// Adds the gradient of |θ − z|²/2, which it returns.
fn add_mean(theta: &[f64], z: &[f64], out: &mut [f64]) -> f64 {
    let mut value = 0.0;
    for ((out, theta), z) in out.iter_mut().zip(theta).zip(z) {
        *out += theta - z;
        value += 0.5 * (theta - z) * (theta - z);
    }
    value
}

/// Adds the gradient of a loss of the margin, which it returns.
fn add_margin(loss: impl MarginLoss, theta: &[f64], row: (&[f64], &f64), out: &mut [f64]) -> f64 {
    let (features, &label) = row;
    let margin: f64 = features.iter().zip(theta).map(|(x, theta)| x * theta).sum();
    let slope = loss.slope(margin, label);
    out.iter_mut().zip(features).for_each(|(out, x)| *out += slope * x);
    loss.value(margin, label)
}
