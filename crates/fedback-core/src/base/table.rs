//! The rows of a table, divided among clients.
//!
//! Rows of one client lie together, features first and the intercept's one last. What happened to
//! the features on the way in is kept in [`Standardization`], so that a fitted θ can score raw
//! rows.

use super::partition::{self, Partition};
use crate::stream::{Purpose, Seed, Stream};

/// The rows of a table, divided among clients.
#[derive(Clone, Debug)]
pub struct Table {
    /// Coordinates of a row, the intercept included.
    pub dim: usize,
    /// Whether the last coordinate is a constant one.
    pub intercept: bool,
    /// The names of the coordinates.
    pub coordinates: Vec<String>,
    /// The clients' names, where a column gave them.
    pub client_names: Option<Vec<String>>,
    /// What was subtracted from and divided out of the features.
    pub standardization: Option<Standardization>,
    rows: Vec<f64>,
    labels: Vec<f64>,
    starts: Vec<usize>,
}

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
    fn new(mean: Vec<f64>, variance: Vec<f64>, names: &[String]) -> Result<Self, TableError> {
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

    /// Standardises the features of a row, and leaves alone what follows them.
    fn apply(&self, row: &mut [f64]) {
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
}

/// What is done to a table before use.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// Put the rows in a random order first.
    pub shuffle: bool,
    /// Standardise every feature over all rows.
    pub standardize: bool,
    /// Append a constant one.
    pub intercept: bool,
    /// How rows are divided.
    pub partition: Partition,
    /// Whether Dirichlet shares are drawn for every value of the label or once for all rows.
    pub by_class: bool,
}

/// Why a table cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub enum TableError {
    /// A feature that never changes cannot be standardised.
    ConstantColumn(String),
    /// A feature whose squares overflow cannot be standardised.
    TooLarge(String),
    /// Fewer rows than clients.
    TooFewRows {
        /// Rows there are.
        rows: usize,
        /// Clients asked for.
        clients: usize,
    },
}

impl Table {
    /// Prepares and divides a table. Draws come from `seed`.
    pub fn new(raw: &RawTable, how: &Preparation, seed: Seed) -> Result<Self, TableError> {
        let features = raw.features.len();
        let count = raw.labels.len();
        let mut order: Vec<usize> = (0..count).collect();
        if how.shuffle {
            Stream::for_problem(seed, Purpose::Shuffle).draws().shuffle(&mut order);
        }
        let (parts, client_names) = divide(raw, how, &order, seed)?;
        let dim = features + usize::from(how.intercept);
        let (mut rows, mut labels, mut starts) =
            (Vec::with_capacity(count * dim), Vec::with_capacity(count), vec![0]);
        for part in &parts {
            for &row in part {
                rows.extend_from_slice(&raw.values[row * features..][..features]);
                rows.extend(how.intercept.then_some(1.0));
                labels.push(raw.labels[row]);
            }
            starts.push(labels.len());
        }
        let mut coordinates = raw.features.clone();
        coordinates.extend(how.intercept.then(|| "intercept".to_string()));
        let mut table = Table {
            dim,
            intercept: how.intercept,
            coordinates,
            client_names,
            standardization: None,
            rows,
            labels,
            starts,
        };
        if how.standardize {
            table.standardize()?;
        }
        Ok(table)
    }

    /// Standardises by per-client sums folded in client order, which is what a federation whose
    /// rows stay at the sites can do as well.
    fn standardize(&mut self) -> Result<(), TableError> {
        let count = self.labels.len() as f64;
        let features = self.dim - usize::from(self.intercept);
        let fold = |of: &dyn Fn(&[f64], usize) -> f64| -> Vec<f64> {
            (0..features)
                .map(|j| {
                    let sums = (0..self.clients())
                        .map(|client| self.rows_of(client).map(|(row, _)| of(row, j)).sum::<f64>());
                    sums.sum::<f64>() / count
                })
                .collect()
        };
        let mean = fold(&|row, j| row[j]);
        let variance = fold(&|row, j| (row[j] - mean[j]) * (row[j] - mean[j]));
        let constants = Standardization::new(mean, variance, &self.coordinates)?;
        self.rows.chunks_exact_mut(self.dim).for_each(|row| constants.apply(row));
        self.standardization = Some(constants);
        Ok(())
    }

    /// The number of clients.
    pub fn clients(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of rows of all clients.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The rows of one client as one slice, and their labels.
    #[inline]
    pub fn block(&self, client: usize) -> (&[f64], &[f64]) {
        let (from, to) = (self.starts[client], self.starts[client + 1]);
        (&self.rows[from * self.dim..to * self.dim], &self.labels[from..to])
    }

    /// The rows of one client with their labels.
    pub fn rows_of(&self, client: usize) -> impl Iterator<Item = (&[f64], f64)> {
        let (rows, labels) = self.block(client);
        rows.chunks_exact(self.dim).zip(labels.iter().copied())
    }

    /// Moves all rows of one client by the same vector.
    pub(super) fn translate(&mut self, client: usize, shift: &[f64]) {
        let (from, to) = (self.starts[client], self.starts[client + 1]);
        for row in self.rows[from * self.dim..to * self.dim].chunks_exact_mut(self.dim) {
            row.iter_mut().zip(shift).for_each(|(value, shift)| *value += shift);
        }
    }

    /// Every client's share of the rows.
    pub fn row_shares(&self) -> Vec<f64> {
        self.starts.windows(2).map(|w| (w[1] - w[0]) as f64 / self.len() as f64).collect()
    }
}

type Divided = (Vec<Vec<usize>>, Option<Vec<String>>);

fn divide(
    raw: &RawTable,
    how: &Preparation,
    order: &[usize],
    seed: Seed,
) -> Result<Divided, TableError> {
    let enough = |clients: usize| match clients <= order.len() {
        true => Ok(()),
        false => Err(TableError::TooFewRows { rows: order.len(), clients }),
    };
    match how.partition {
        Partition::Column => {
            let names = raw.clients.as_deref().unwrap_or_default();
            let mut by_name = std::collections::BTreeMap::<&str, Vec<usize>>::new();
            for &row in order {
                by_name.entry(&names[row]).or_default().push(row);
            }
            let names = by_name.keys().map(|name| name.to_string()).collect();
            Ok((by_name.into_values().collect(), Some(names)))
        }
        Partition::Equal(clients) => {
            enough(clients)?;
            Ok((partition::equal(order, clients), None))
        }
        Partition::Dirichlet { concentration, clients } => {
            enough(clients)?;
            let mut classes = std::collections::BTreeMap::<u64, Vec<usize>>::new();
            for &row in order {
                let class = if how.by_class { raw.labels[row].to_bits() } else { 0 };
                classes.entry(class).or_default().push(row);
            }
            let classes: Vec<_> = classes.into_values().collect();
            let mut draws = Stream::for_problem(seed, Purpose::Partition).draws();
            Ok((partition::dirichlet(&classes, concentration, clients, &mut draws), None))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(rows: usize) -> RawTable {
        RawTable {
            features: vec!["a".into(), "b".into()],
            values: (0..2 * rows).map(|k| (k * k % 17) as f64).collect(),
            labels: (0..rows).map(|k| (k % 3 == 0) as u8 as f64).collect(),
            clients: Some((0..rows).map(|k| ["north", "east", "west"][k % 3].into()).collect()),
        }
    }

    fn preparation(partition: Partition) -> Preparation {
        Preparation { shuffle: true, standardize: true, intercept: true, partition, by_class: true }
    }

    #[test]
    fn columns_divide_by_sorted_value() {
        let table = Table::new(&raw(31), &preparation(Partition::Column), Seed(1)).unwrap();
        assert_eq!(table.client_names.as_deref().unwrap(), ["east", "north", "west"]);
        assert_eq!(table.row_shares(), [10.0 / 31.0, 11.0 / 31.0, 10.0 / 31.0]);
        assert!(table.rows_of(0).all(|(row, _)| row[2] == 1.0));
    }

    #[test]
    fn every_row_goes_to_one_client() {
        for partition in
            [Partition::Equal(7), Partition::Dirichlet { concentration: 0.2, clients: 7 }]
        {
            let mut how = preparation(partition);
            how.standardize = false;
            let table = Table::new(&raw(50), &how, Seed(3)).unwrap();
            assert_eq!(table.clients(), 7);
            assert!(table.row_shares().iter().all(|&share| share > 0.0));
            let sum: f64 = (0..7).flat_map(|c| table.rows_of(c)).map(|(row, _)| row[0]).sum();
            assert_eq!(sum, raw(50).values.iter().step_by(2).sum::<f64>());
        }
    }

    #[test]
    fn equal_parts_differ_by_one_row_at_most() {
        let parts = partition::equal(&(0..23).collect::<Vec<_>>(), 5);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5, 5, 4, 4]);
    }

    #[test]
    fn standardised_theta_scores_raw_rows() {
        let raw = raw(40);
        let table = Table::new(&raw, &preparation(Partition::Column), Seed(1)).unwrap();
        let theta = [0.7, -1.3, 0.25];
        let (coefficients, constant) =
            table.standardization.as_ref().unwrap().to_raw_units(&theta, true);
        let mut scores: Vec<f64> = (0..3)
            .flat_map(|c| table.rows_of(c))
            .map(|(row, _)| row.iter().zip(theta).map(|(x, t)| x * t).sum())
            .collect();
        let mut raw_scores: Vec<f64> = raw
            .values
            .chunks(2)
            .map(|row| row[0] * coefficients[0] + row[1] * coefficients[1] + constant)
            .collect();
        scores.sort_by(f64::total_cmp);
        raw_scores.sort_by(f64::total_cmp);
        for (a, b) in scores.iter().zip(&raw_scores) {
            assert!((a - b).abs() < 1e-12);
        }
    }

    #[test]
    fn constant_columns_cannot_be_standardised() {
        let mut raw = raw(10);
        raw.values.iter_mut().skip(1).step_by(2).for_each(|v| *v = 0.1);
        let error = Table::new(&raw, &preparation(Partition::Column), Seed(1)).unwrap_err();
        assert_eq!(error, TableError::ConstantColumn("b".into()));
    }
}
