//! Rows as they were read, before they are divided.

use super::standardization::{Standardization, column_sums};
use super::table::TableError;

/// A table as it was read, before it is divided.
#[derive(Clone, Debug)]
pub struct RawTable {
    /// The names of the features.
    pub features: Vec<String>,
    /// Row after row.
    pub values: Vec<f64>,
    /// One label a row; zeros where the table has none.
    pub labels: Vec<f64>,
    /// One client name a row, where a column gives it.
    pub clients: Option<Vec<String>>,
}

impl RawTable {
    /// The sum of every feature over the rows.
    pub fn sums(&self) -> Vec<f64> {
        let features = self.features.len();
        column_sums(self.values.chunks_exact(features), features, |row, j| row[j])
    }

    /// The sum of every feature's squared distance to a mean.
    pub fn squares(&self, mean: &[f64]) -> Vec<f64> {
        let features = self.features.len();
        let square = |row: &[f64], j: usize| (row[j] - mean[j]) * (row[j] - mean[j]);
        column_sums(self.values.chunks_exact(features), features, square)
    }

    /// Standardises every feature over all rows, for tables of which only some rows are used.
    pub fn standardize(&mut self) -> Result<Standardization, TableError> {
        let (features, count) = (self.features.len(), self.labels.len() as f64);
        let rows = || self.values.chunks_exact(features);
        let average = |of: &dyn Fn(&[f64], usize) -> f64| -> Vec<f64> {
            (0..features).map(|j| rows().map(|row| of(row, j)).sum::<f64>() / count).collect()
        };
        let mean = average(&|row, j| row[j]);
        let variance = average(&|row, j| (row[j] - mean[j]) * (row[j] - mean[j]));
        let constants = Standardization::new(mean, variance, &self.features)?;
        self.values.chunks_exact_mut(features).for_each(|row| constants.apply(row));
        Ok(constants)
    }

    /// Some of the rows, in the order given.
    pub(super) fn pick(&self, rows: &[u32]) -> RawTable {
        let features = self.features.len();
        let row = |row: &u32| &self.values[*row as usize * features..][..features];
        RawTable {
            features: self.features.clone(),
            values: rows.iter().flat_map(row).copied().collect(),
            labels: rows.iter().map(|row| self.labels[*row as usize]).collect(),
            clients: None,
        }
    }
}
