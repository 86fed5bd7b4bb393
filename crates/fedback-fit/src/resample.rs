//! Plausible other values of estimates, given their uncertainty.

use fedback_core::stream::Draws;
use nalgebra::{DMatrix, DVector};

use crate::contrast::{Joint, eigen};

/// Draws from the multivariate t distribution around some estimates, correlations kept; its degrees
/// of freedom are the least of theirs.
pub struct Resampler {
    centre: DVector<f64>,
    root: DMatrix<f64>,
    degrees: f64,
}

impl Resampler {
    /// The distribution of some estimates.
    pub fn new(joint: &Joint) -> Self {
        let (eigenvectors, eigenvalues) = eigen(joint.covariance());
        let size = eigenvalues.map(|value| libm::sqrt(value.max(0.0)));
        let degrees = (0..joint.values.len()).map(|at| joint.estimate(at).degrees);
        Resampler {
            centre: joint.values.clone(),
            root: eigenvectors * DMatrix::from_diagonal(&size),
            degrees: degrees.fold(f64::INFINITY, f64::min),
        }
    }

    /// The next draw.
    pub fn draw(&self, draws: &mut Draws) -> DVector<f64> {
        let normal = DVector::from_fn(self.centre.len(), |_, _| draws.normal());
        &self.centre + &self.root * normal * spread(self.degrees, draws)
    }
}

/// √(ν / χ²_ν), what turns normal variates into Student's t; one where ν is infinite.
pub(crate) fn spread(degrees: f64, draws: &mut Draws) -> f64 {
    if !degrees.is_finite() {
        return 1.0;
    }
    libm::sqrt(0.5 * degrees / draws.gamma(0.5 * degrees))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Use, draws};
    use fedback_core::stream::Seed;

    #[test]
    fn moments_of_the_draws() {
        let covariance = DMatrix::from_row_slice(2, 2, &[4.0, -1.5, -1.5, 1.0]);
        let joint = Joint {
            values: DVector::from_column_slice(&[3.0, -1.0]),
            parts: vec![(covariance.clone(), 12.0)],
        };
        let resampler = Resampler::new(&joint);
        let mut draws = draws(Seed(1), Use::Resamples, 0);
        let count = 40_000;
        let mut sum = DMatrix::zeros(2, 2);
        let mut mean = DVector::zeros(2);
        for _ in 0..count {
            let apart = resampler.draw(&mut draws) - &joint.values;
            mean += &apart / count as f64;
            sum += &apart * apart.transpose() / count as f64;
        }
        assert!(mean.norm() < 0.04, "{mean}");
        // Student's t is wider than the normal by ν / (ν − 2).
        for (found, expected) in sum.iter().zip((covariance * 1.2).iter()) {
            assert!((found - expected).abs() < 0.15, "{sum}");
        }
    }
}
