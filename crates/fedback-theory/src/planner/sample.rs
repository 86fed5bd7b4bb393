//! Some rows of a client, eight side by side.

use fedback_core::loss::MarginLoss;
use fedback_core::simd::{self, Kernel, LANES, Lanes, Path};

/// Evenly spaced rows of one client.
pub(super) struct Sample {
    dim: usize,
    /// Eight rows at a time, feature after feature; the last rows are filled up with zeros.
    features: Vec<Lanes<f64>>,
    labels: Vec<Lanes<f64>>,
    /// One for each row, zero for what was filled up.
    present: Vec<Lanes<f64>>,
    count: usize,
}

/// Sums over rows x with margins ⟨x, θ⟩ + `moved`.
struct Slopes<'a, L> {
    sample: &'a Sample,
    loss: L,
    theta: &'a [f64],
    moved: f64,
}

impl Sample {
    pub(super) fn new<'a>(rows: impl Iterator<Item = (&'a [f64], f64)>, dim: usize) -> Self {
        let (mut features, mut labels, mut present) = (Vec::new(), Vec::new(), Vec::new());
        let mut count = 0;
        for (row, label) in rows {
            let (block, lane) = (count / LANES, count % LANES);
            if lane == 0 {
                features.resize((block + 1) * dim, [0.0; LANES]);
                labels.push([0.0; LANES]);
                present.push([0.0; LANES]);
            }
            for (j, x) in row.iter().enumerate() {
                features[block * dim + j][lane] = *x;
            }
            (labels[block][lane], present[block][lane]) = (label, 1.0);
            count += 1;
        }
        Sample { dim, features, labels, present, count }
    }

    /// The mean over rows x of ℓ′(⟨x, θ⟩ + `moved`) x, and that of ℓ′ itself.
    pub(super) fn mean_slopes(
        &self,
        loss: impl MarginLoss,
        theta: &[f64],
        moved: f64,
    ) -> (Vec<f64>, f64) {
        let (mut sums, total) = simd::run(Slopes { sample: self, loss, theta, moved });
        let count = self.count as f64;
        sums.iter_mut().for_each(|sum| *sum /= count);
        (sums, total / count)
    }
}

impl<L: MarginLoss> Kernel for Slopes<'_, L> {
    type Output = (Vec<f64>, f64);

    #[inline(always)]
    fn run<P: Path>(self, _path: P) -> (Vec<f64>, f64) {
        let Slopes { sample, loss, theta, moved } = self;
        let mut sums = vec![[0.0; LANES]; sample.dim];
        let mut total = [0.0; LANES];
        let blocks = sample.features.chunks_exact(sample.dim);
        for ((block, labels), present) in blocks.zip(&sample.labels).zip(&sample.present) {
            let mut slopes = [moved; LANES];
            for (features, theta) in block.iter().zip(theta) {
                for lane in 0..LANES {
                    slopes[lane] += features[lane] * theta;
                }
            }
            for lane in 0..LANES {
                slopes[lane] = loss.slope(slopes[lane], labels[lane]) * present[lane];
                total[lane] += slopes[lane];
            }
            for (features, sum) in block.iter().zip(&mut sums) {
                for lane in 0..LANES {
                    sum[lane] += features[lane] * slopes[lane];
                }
            }
        }
        (sums.iter().map(|lanes| lanes.iter().sum()).collect(), total.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedback_core::loss::Logistic;

    #[test]
    fn as_row_by_row() {
        let dim = 3;
        let entry = |k: usize| libm::sin(1.7 * k as f64);
        let rows: Vec<Vec<f64>> =
            (0..21).map(|i| (0..dim).map(|j| entry(i * dim + j)).collect()).collect();
        let label = |i: usize| f64::from(u8::from(i.is_multiple_of(3)));
        let sample = Sample::new(rows.iter().enumerate().map(|(i, row)| (&row[..], label(i))), dim);
        let (theta, moved) = ([0.4, -1.1, 2.0], 0.3);
        let (means, total) = sample.mean_slopes(Logistic, &theta, moved);
        let (mut expected, mut slopes) = ([0.0; 3], 0.0);
        for (i, row) in rows.iter().enumerate() {
            let margin = moved + row.iter().zip(theta).map(|(x, t)| x * t).sum::<f64>();
            let slope = Logistic.slope(margin, label(i)) / 21.0;
            (0..dim).for_each(|j| expected[j] += slope * row[j]);
            slopes += slope;
        }
        assert!((total - slopes).abs() < 1e-15, "{total} {slopes}");
        (0..dim).for_each(|j| assert!((means[j] - expected[j]).abs() < 1e-15));
    }
}
