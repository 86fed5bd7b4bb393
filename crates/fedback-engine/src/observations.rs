//! Observations as numbers, and those of built-in populations one by one, for problems of which a part
//! is not built in.

use std::ops::Range;

use fedback_core::base::{Base, Table};
use fedback_core::federation::ClientId;
use fedback_core::loss::{Logistic, Loss, MarginLoss, Squared};
use fedback_core::normal;
use fedback_core::response::Shift;
use fedback_core::stream::{Stream, Streams};

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
    /// Rows of so many features, each with a last one of 1 where there is an intercept.
    pub fn of_rows(
        features: Vec<f64>,
        labels: Vec<f64>,
        each: usize,
        intercept: bool,
    ) -> Observations {
        let features = match intercept {
            false => features,
            true => {
                let rows = features.chunks_exact(each);
                rows.flat_map(|row| row.iter().copied().chain([1.0])).collect()
            }
        };
        Observations { features, labels }
    }

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

    /// The features of some rows, of `dim` each.
    pub fn features_of(&self, range: &Range<usize>, dim: usize) -> &[f64] {
        &self.features[range.start * dim..range.end * dim]
    }

    /// The labels of some rows, where there are any.
    pub fn labels_of(&self, range: &Range<usize>) -> &[f64] {
        if self.labels.is_empty() { &[] } else { &self.labels[range.clone()] }
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
