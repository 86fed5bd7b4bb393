//! A batch of rows as they have become, its loss and its gradient.

use fedback_core::loss::Loss;
use fedback_core::simd::LANES;

/// A batch of rows as they have become.
#[derive(Default)]
pub(super) struct Drawn {
    pub(super) features: Vec<f64>,
    pub(super) labels: Vec<f64>,
    slopes: Vec<f64>,
}

impl Drawn {
    pub(super) fn loss(&self, loss: Loss, theta: &[f64]) -> f64 {
        let rows = self.features.chunks_exact(theta.len()).zip(&self.labels);
        rows.map(|(x, label)| loss.value(theta, x, *label)).sum::<f64>() / self.labels.len() as f64
    }

    /// Writes the mean gradient at θ, without penalty.
    pub(super) fn gradient(&mut self, loss: Loss, theta: &[f64], out: &mut [f64]) {
        let share = 1.0 / self.labels.len() as f64;
        let rows = self.features.chunks_exact(theta.len());
        out.fill(0.0);
        if let Loss::Mean = loss {
            for x in rows {
                out.iter_mut().zip(x).for_each(|(out, x)| *out += x);
            }
            out.iter_mut().zip(theta).for_each(|(out, theta)| *out = theta - *out * share);
            return;
        }
        self.slopes.clear();
        self.slopes.extend(rows.clone().map(|x| dot(x, theta)));
        // Slopes of whole vectors of lanes at a time.
        self.slopes.resize(self.labels.len().next_multiple_of(LANES), 0.0);
        self.labels.resize(self.slopes.len(), 0.0);
        let lanes = self.slopes.as_chunks_mut::<LANES>().0.iter_mut();
        for (slopes, labels) in lanes.zip(self.labels.as_chunks::<LANES>().0) {
            loss.slopes(slopes, labels);
        }
        for (x, slope) in rows.zip(&self.slopes) {
            out.iter_mut().zip(x).for_each(|(out, x)| *out += slope * x);
        }
        out.iter_mut().for_each(|out| *out *= share);
    }
}

/// x·θ.
#[inline(always)]
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
