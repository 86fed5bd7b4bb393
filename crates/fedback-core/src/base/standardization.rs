//! What was subtracted from features and divided out of them, from sums per client: the same whether all rows
//! lie in one place or at many sites.

use super::table::TableError;

/// Feature j was replaced by (feature − mean_j) / sd_j, over all rows (population sd).
#[derive(Clone, Debug, PartialEq)]
pub struct Standardization {
    /// One mean a feature.
    pub mean: Vec<f64>,
    /// One standard deviation a feature.
    pub sd: Vec<f64>,
}

impl Standardization {
    /// Checks that every feature varies, and not too much.
    pub(super) fn new(
        mean: Vec<f64>,
        variance: Vec<f64>,
        names: &[String],
    ) -> Result<Self, TableError> {
        let sd: Vec<f64> = variance.into_iter().map(f64::sqrt).collect();
        for j in 0..mean.len() {
            if !sd[j].is_finite() {
                return Err(TableError::TooLarge(names[j].clone()));
            }
            if sd[j] <= 1e-12 * mean[j].abs() || sd[j] == 0.0 {
                return Err(TableError::ConstantColumn(names[j].clone()));
            }
        }
        Ok(Standardization { mean, sd })
    }

    /// The constants from what every client says of its rows: their sums, and then the sums of squared
    /// distances to the mean that came of these (see [`average_of_sums`]).
    pub fn of_sums(
        mean: Vec<f64>,
        squares: impl IntoIterator<Item = Vec<f64>>,
        count: f64,
        names: &[String],
    ) -> Result<Self, TableError> {
        let variance = average_of_sums(squares, mean.len(), count);
        Standardization::new(mean, variance, names)
    }

    /// Standardises the features of a row, and leaves alone what follows them.
    pub(super) fn apply(&self, row: &mut [f64]) {
        for j in 0..self.mean.len() {
            row[j] = (row[j] - self.mean[j]) / self.sd[j];
        }
    }

    /// θ in the units of the raw rows, and the constant that goes with it:
    /// x·θ = raw·coefficients + constant.
    pub fn to_raw_units(&self, theta: &[f64], intercept: bool) -> (Vec<f64>, f64) {
        let coefficients: Vec<f64> = theta.iter().zip(&self.sd).map(|(t, sd)| t / sd).collect();
        let shift: f64 = coefficients.iter().zip(&self.mean).map(|(c, mean)| c * mean).sum();
        let own = if intercept { theta[self.mean.len()] } else { 0.0 };
        (coefficients, own - shift)
    }
}

/// Sums per client, folded in client order: what all rows have on average, whether they lie in one
/// place or at many.
pub fn average_of_sums(
    sums: impl IntoIterator<Item = Vec<f64>>,
    features: usize,
    count: f64,
) -> Vec<f64> {
    let mut total = vec![0.0; features];
    for sums in sums {
        total.iter_mut().zip(&sums).for_each(|(total, sum)| *total += sum);
    }
    total.into_iter().map(|total| total / count).collect()
}

pub(super) fn column_sums<'a>(
    rows: impl Iterator<Item = &'a [f64]>,
    features: usize,
    of: impl Fn(&[f64], usize) -> f64,
) -> Vec<f64> {
    let mut sums = vec![0.0; features];
    for row in rows {
        (0..features).for_each(|j| sums[j] += of(row, j));
    }
    sums
}
