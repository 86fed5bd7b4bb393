//! Linear combinations of the deployments' means: estimates, intervals and tests.
//!
//! A contrast has fixed coefficients, so its variance is a sum over strata and its degrees of freedom
//! are Satterthwaite's. For several at once the Wald statistic is compared with an F distribution with
//! the degrees of Krishnamoorthy and Yu (2004), which do not depend on the units of the contrasts.

use nalgebra::{DMatrix, DVector, SymmetricEigen};

use crate::distribution::{snedecor_tail, student_quantile, student_two_sided};
use crate::moments::Moments;

/// Degrees of freedom beyond this are as good as infinitely many.
const MOST_DEGREES: f64 = 1e6;
/// Contrasts that depend on the others up to rounding.
const RANK: f64 = 1e-9;

/// An estimate with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Satterthwaite's degrees of freedom.
    pub degrees: f64,
}

impl Estimate {
    /// The interval of Student's t with this confidence.
    pub fn interval(&self, confidence: f64) -> (f64, f64) {
        let reach = student_quantile(0.5 * (1.0 - confidence), self.degrees) * self.standard_error;
        (self.value - reach, self.value + reach)
    }

    /// The two-sided p-value of zero.
    pub fn p_value(&self) -> f64 {
        match (self.value == 0.0, self.standard_error == 0.0) {
            (true, _) => 1.0,
            (_, true) => 0.0,
            _ => student_two_sided(self.value / self.standard_error, self.degrees),
        }
    }
}

/// Eigenvectors and eigenvalues of a symmetric matrix. One that is not finite, or on which the iteration does
/// not end, counts as diagonal.
pub(crate) fn eigen(matrix: DMatrix<f64>) -> (DMatrix<f64>, DVector<f64>) {
    let (size, diagonal) = (matrix.nrows(), matrix.diagonal());
    let finite = matrix.iter().all(|entry| entry.is_finite());
    match finite.then(|| SymmetricEigen::try_new(matrix, f64::EPSILON, 1000 * size.max(1))) {
        Some(Some(found)) => (found.eigenvectors, found.eigenvalues),
        _ => (DMatrix::identity(size, size), diagonal),
    }
}

/// Several contrasts: one row each, a coefficient for every deployment and feature in the order of
/// [`Moments::means`].
#[derive(Clone, Debug)]
pub struct Contrasts(pub DMatrix<f64>);

/// What several contrasts come to.
#[derive(Clone, Debug)]
pub struct Joint {
    /// Their values.
    pub values: DVector<f64>,
    /// The covariance that each stratum gives them, with its degrees of freedom.
    pub parts: Vec<(DMatrix<f64>, f64)>,
}

impl Contrasts {
    /// A single contrast.
    pub fn row(coefficients: &[f64]) -> Self {
        Contrasts(DMatrix::from_row_slice(1, coefficients.len(), coefficients))
    }

    /// Values and covariances of the contrasts.
    pub fn of(&self, moments: &Moments) -> Joint {
        let values = &self.0 * DVector::from_column_slice(&moments.means);
        let parts = moments.strata.iter().map(|stratum| {
            let columns: Vec<usize> = (stratum.deployments.iter())
                .flat_map(|k| k * moments.dim..(k + 1) * moments.dim)
                .collect();
            let own = self.0.select_columns(&columns);
            (&own * &stratum.covariance * own.transpose(), stratum.degrees)
        });
        Joint { parts: parts.collect(), values }
    }
}

impl Joint {
    /// The covariance of the contrasts.
    pub fn covariance(&self) -> DMatrix<f64> {
        let size = self.values.len();
        self.parts.iter().fold(DMatrix::zeros(size, size), |sum, (part, _)| sum + part)
    }

    /// One contrast by itself.
    pub fn estimate(&self, at: usize) -> Estimate {
        let variance: f64 = self.parts.iter().map(|(part, _)| part[(at, at)]).sum();
        // By shares of the variance, whose squares neither overflow nor vanish.
        let share = |part: &DMatrix<f64>| part[(at, at)] / variance;
        let spread: f64 =
            self.parts.iter().map(|(part, degrees)| share(part).powi(2) / degrees).sum();
        let least = self.parts.iter().map(|part| part.1).fold(f64::INFINITY, f64::min);
        let degrees = if spread > 0.0 { 1.0 / spread } else { least };
        Estimate {
            value: self.values[at],
            standard_error: libm::sqrt(variance.max(0.0)),
            degrees: degrees.clamp(1.0, MOST_DEGREES),
        }
    }

    /// The p-value of all contrasts being zero.
    ///
    /// By Wald's statistic while the degrees of freedom allow; by the smallest of the single p-values,
    /// times their number, where contrasts are too many for the rows.
    pub fn p_value(&self) -> f64 {
        let size = self.values.len();
        let single = || {
            let least = (0..size).map(|at| self.estimate(at).p_value()).fold(1.0, f64::min);
            (size as f64 * least).min(1.0)
        };
        if size <= 1 || size > 60 {
            return single();
        }
        let Some((statistic, rank, degrees)) = self.wald() else { return single() };
        let rest = degrees - rank + 1.0;
        if rest < 4.0 * rank.max(5.0) {
            return single();
        }
        snedecor_tail(statistic * rest / (degrees * rank), rank, rest)
    }

    /// Wald's statistic, the rank of the covariance, and the degrees of Krishnamoorthy and Yu:
    /// (q + q²) / Σ_P [tr((V_P V⁻¹)²) + tr(V_P V⁻¹)²] / ν_P. None where a contrast has no variance.
    fn wald(&self) -> Option<(f64, f64, f64)> {
        let covariance = self.covariance();
        let scale = covariance.diagonal().map(|variance| 1.0 / libm::sqrt(variance));
        if scale.iter().any(|scale| !scale.is_finite()) {
            return None;
        }
        let scaled = |matrix: &DMatrix<f64>| {
            DMatrix::from_fn(matrix.nrows(), matrix.ncols(), |a, b| {
                scale[a] * scale[b] * matrix[(a, b)]
            })
        };
        let (eigenvectors, eigenvalues) = eigen(scaled(&covariance));
        let kept: Vec<usize> =
            (0..eigenvalues.len()).filter(|&at| eigenvalues[at] > RANK).collect();
        let mut whitening = eigenvectors.select_columns(&kept);
        for (mut column, &at) in whitening.column_iter_mut().zip(&kept) {
            column /= libm::sqrt(eigenvalues[at]);
        }
        let white = whitening.transpose() * self.values.component_mul(&scale);
        let spread: f64 = (self.parts.iter())
            .map(|(part, degrees)| {
                let part = whitening.transpose() * scaled(part) * &whitening;
                (part.norm_squared() + part.trace().powi(2)) / degrees
            })
            .sum();
        let rank = kept.len() as f64;
        let degrees = ((rank + rank * rank) / spread).min(MOST_DEGREES);
        Some((white.norm_squared(), rank, degrees))
    }
}

/// Holm's adjusted p-values: rejecting those below α errs anywhere with probability at most α.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest = 0.0f64;
    for (rank, &at) in order.iter().enumerate() {
        largest = largest.max((p_values[at] * (p_values.len() - rank) as f64).min(1.0));
        adjusted[at] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::{Observations, Sample};

    fn observations(samples: [&[f64]; 2], dim: usize) -> Observations {
        let sample = |values: &[f64]| Sample { values: values.to_vec(), individuals: None };
        Observations { dim, samples: samples.map(sample).to_vec() }
    }

    /// Welch's t by hand.
    #[test]
    fn a_difference_is_welch() {
        let moments =
            Moments::new(&observations([&[1.0, 2.0, 3.0, 6.0], &[4.0, 9.0, 8.0, 7.0, 2.0]], 1));
        let found = Contrasts(DMatrix::from_row_slice(1, 2, &[-1.0, 1.0])).of(&moments).estimate(0);
        let (va, vb) = (14.0 / 3.0 / 4.0, 34.0 / 4.0 / 5.0);
        assert!((found.value - 3.0).abs() < 1e-14);
        assert!((found.standard_error - f64::sqrt(va + vb)).abs() < 1e-14);
        let degrees = (va + vb).powi(2) / (va * va / 3.0 + vb * vb / 4.0);
        assert!((found.degrees - degrees).abs() < 1e-12);
        let (low, high) = found.interval(0.95);
        assert!((high + low - 6.0).abs() < 1e-12 && found.p_value() > 0.1);
        assert!((student_two_sided((high - 3.0) / found.standard_error, degrees) - 0.05) < 1e-9);
    }

    /// One sample: Hotelling's T², whatever the units of the contrasts.
    #[test]
    fn wald_is_hotelling_for_one_stratum() {
        let rows: Vec<f64> = (0..60).map(|i| ((i * i * 7 + i) % 23) as f64 / 7.0 - 0.5).collect();
        let sample = Sample { values: rows.clone(), individuals: Some((0..30).collect()) };
        let moments = Moments::new(&Observations { dim: 2, samples: vec![sample] });
        let plain = Contrasts(DMatrix::identity(2, 2)).of(&moments);
        let mixed = Contrasts(DMatrix::from_row_slice(2, 2, &[3.0, -1.0, 100.0, 50.0]));
        let (statistic, rank, degrees) = plain.wald().unwrap();
        let mean = DVector::from_column_slice(&moments.means);
        let inverse = plain.covariance().try_inverse().unwrap();
        let hotelling = (mean.transpose() * inverse * &mean)[(0, 0)];
        assert!((statistic - hotelling).abs() < 1e-10 * hotelling);
        assert!((degrees - 29.0).abs() < 1e-9 && rank == 2.0);
        assert!((plain.p_value() - mixed.of(&moments).p_value()).abs() < 1e-12);
        // A contrast said twice adds nothing.
        let twice = Contrasts(DMatrix::from_row_slice(3, 2, &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]));
        assert!((twice.of(&moments).wald().unwrap().0 - statistic).abs() < 1e-8 * statistic);
    }

    #[test]
    fn holm_steps_down() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-15);
        }
    }
}
