//! The rows of a table, divided among clients.
//!
//! Rows of one client lie together, features first and the intercept's one last. What happened to
//! the features on the way in is kept in [`Standardization`], so that a fitted θ can score raw
//! rows.

use super::partition::{self, Partition};
use super::standardization::{Standardization, average_of_sums, column_sums};
use crate::misfit::Misfit;
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
    /// All rows, and [`SLACK`] zeros.
    rows: Vec<f64>,
    labels: Vec<f64>,
    /// Where each client's rows begin, and where the last one's end.
    starts: Vec<u32>,
    /// Whether clients may be without rows, because these lie elsewhere.
    partial: bool,
}

/// Numbers that may be read beyond the last row, so that rows can be read in whole vectors.
const SLACK: usize = 3;

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
    /// There is no feature, or the numbers are not one per feature and row.
    Misshapen {
        /// Features.
        features: usize,
        /// Rows, by the labels.
        rows: usize,
        /// Numbers there are.
        values: usize,
    },
    /// Fewer rows than clients, or no clients.
    TooFewRows {
        /// Rows there are.
        rows: usize,
        /// Clients asked for.
        clients: usize,
    },
}

impl Table {
    /// Prepares and divides a table, in the memory that it came in. Draws come from `seed`.
    pub fn new(raw: RawTable, how: &Preparation, seed: Seed) -> Result<Self, TableError> {
        let count = raw.labels.len();
        let (features, values) = (raw.features.len(), raw.values.len());
        let named = raw.clients.as_ref().is_none_or(|names| names.len() == count);
        if features == 0 || values != count * features || !named {
            return Err(TableError::Misshapen { features, rows: count, values });
        }
        let mut order: Vec<u32> = (0..count as u32).collect();
        if how.shuffle {
            Stream::for_problem(seed, Purpose::Shuffle).draws().shuffle(&mut order);
        }
        let Division { order, starts, client_names } = divide(&raw, how, order, seed)?;
        let RawTable { features: mut coordinates, values: mut rows, mut labels, .. } = raw;
        if how.intercept {
            widen(&mut rows, coordinates.len(), count);
            coordinates.push("intercept".to_string());
        }
        let dim = coordinates.len();
        rows.reserve_exact(SLACK);
        rearrange(&mut labels, &mut rows, dim, order);
        let mut table = Table {
            dim,
            intercept: how.intercept,
            coordinates,
            client_names,
            standardization: None,
            rows,
            labels,
            starts,
            partial: false,
        };
        if how.standardize {
            table.standardize()?;
        }
        table.rows.extend([0.0; SLACK]);
        Ok(table)
    }

    /// Standardises by per-client sums folded in client order, which is what a federation whose
    /// rows stay at the sites can do as well.
    fn standardize(&mut self) -> Result<(), TableError> {
        let count = self.labels.len() as f64;
        let features = self.dim - usize::from(self.intercept);
        let mean = self.average(features, count, |row, j| row[j]);
        let variance =
            self.average(features, count, |row, j| (row[j] - mean[j]) * (row[j] - mean[j]));
        let constants = Standardization::new(mean, variance, &self.coordinates)?;
        self.rows.chunks_exact_mut(self.dim).for_each(|row| constants.apply(row));
        self.standardization = Some(constants);
        Ok(())
    }

    fn average(&self, features: usize, count: f64, of: impl Fn(&[f64], usize) -> f64) -> Vec<f64> {
        let sums = |client| {
            let rows = self.block(client).0.chunks_exact(self.dim);
            column_sums(rows, features, &of)
        };
        average_of_sums((0..self.clients()).map(sums), features, count)
    }

    /// The table of a federation as one of its sites sees it: rows of the clients that it holds, by
    /// their numbers, and none of the others. What was gathered from all sites standardises them.
    pub fn at_site(
        held: Vec<(usize, RawTable)>,
        clients: usize,
        coordinates: Vec<String>,
        intercept: bool,
        standardization: Option<Standardization>,
    ) -> Self {
        let dim = coordinates.len();
        let (mut rows, mut labels, mut ends) = (Vec::new(), Vec::new(), vec![0; clients]);
        let mut held = held;
        held.sort_by_key(|(client, _)| *client);
        for (client, mut raw) in held {
            if intercept {
                widen(&mut raw.values, dim - 1, raw.labels.len());
            }
            if let Some(constants) = &standardization {
                raw.values.chunks_exact_mut(dim).for_each(|row| constants.apply(row));
            }
            rows.append(&mut raw.values);
            labels.append(&mut raw.labels);
            ends[client..].fill(labels.len() as u32);
        }
        rows.extend([0.0; SLACK]);
        let starts = std::iter::once(0).chain(ends).collect();
        Table {
            dim,
            intercept,
            coordinates,
            client_names: None,
            standardization,
            rows,
            labels,
            starts,
            partial: true,
        }
    }

    /// Of every client each `every`-th row, the first one included.
    pub(crate) fn thinned(&self, every: usize) -> Self {
        let (mut rows, mut labels, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for client in 0..self.clients() {
            for (row, label) in self.rows_of(client).step_by(every) {
                rows.extend_from_slice(row);
                labels.push(label);
            }
            starts.push(labels.len() as u32);
        }
        rows.extend([0.0; SLACK]);
        Table {
            dim: self.dim,
            intercept: self.intercept,
            coordinates: self.coordinates.clone(),
            client_names: self.client_names.clone(),
            standardization: self.standardization.clone(),
            rows,
            labels,
            starts,
            partial: self.partial,
        }
    }

    pub(super) fn check(&self) -> Result<(), Misfit> {
        let fail = |reason: String| Err(Misfit::new("problem.base", reason));
        if self.dim == 0 || self.is_empty() || self.rows.len() != self.len() * self.dim + SLACK {
            return fail("the table has no features, no rows, or rows of another length".into());
        }
        if let Some(place) = self.rows.iter().chain(&self.labels).position(|x| !x.is_finite()) {
            return fail(format!("number {place} of the table is not finite"));
        }
        match (0..self.clients()).find(|client| self.block(*client).1.is_empty()) {
            Some(client) if !self.partial => fail(format!("client {client} has no rows")),
            _ => Ok(()),
        }
    }

    /// Whether clients may be without rows, because these lie elsewhere.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// The labels of all rows, client after client.
    pub fn labels(&self) -> &[f64] {
        &self.labels
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
        let (from, to) = (self.starts[client] as usize, self.starts[client + 1] as usize);
        (&self.rows[from * self.dim..to * self.dim], &self.labels[from..to])
    }

    /// The rows of one client and everything behind them, to be read a few numbers beyond the end
    /// of a row.
    #[inline]
    pub fn rows_from(&self, client: usize) -> &[f64] {
        &self.rows[self.starts[client] as usize * self.dim..]
    }

    /// The rows of one client with their labels.
    pub fn rows_of(&self, client: usize) -> impl Iterator<Item = (&[f64], f64)> {
        let (rows, labels) = self.block(client);
        rows.chunks_exact(self.dim).zip(labels.iter().copied())
    }

    /// Moves all rows of one client by the same vector.
    pub(super) fn translate(&mut self, client: usize, shift: &[f64]) {
        let (from, to) = (self.starts[client] as usize, self.starts[client + 1] as usize);
        for row in self.rows[from * self.dim..to * self.dim].chunks_exact_mut(self.dim) {
            row.iter_mut().zip(shift).for_each(|(value, shift)| *value += shift);
        }
    }

    /// Every client's share of the rows.
    pub fn row_shares(&self) -> Vec<f64> {
        self.starts.windows(2).map(|w| (w[1] - w[0]) as f64 / self.len() as f64).collect()
    }
}

/// Appends a constant one to every row.
fn widen(rows: &mut Vec<f64>, features: usize, count: usize) {
    rows.resize(count * (features + 1), 1.0);
    for row in (0..count).rev() {
        rows.copy_within(row * features..(row + 1) * features, row * (features + 1));
        rows[row * (features + 1) + features] = 1.0;
    }
}

/// Puts row `order[k]` into place k, cycle by cycle.
fn rearrange(labels: &mut [f64], rows: &mut [f64], dim: usize, mut order: Vec<u32>) {
    let mut first_row = vec![0.0; dim];
    for first in 0..order.len() {
        let first_label = labels[first];
        first_row.copy_from_slice(&rows[first * dim..][..dim]);
        let mut place = first;
        loop {
            // A place that is done points at itself.
            let from = std::mem::replace(&mut order[place], place as u32) as usize;
            if from == first {
                labels[place] = first_label;
                rows[place * dim..][..dim].copy_from_slice(&first_row);
                break;
            }
            labels[place] = labels[from];
            rows.copy_within(from * dim..(from + 1) * dim, place * dim);
            place = from;
        }
    }
}

/// The rows in the order of their clients.
struct Division {
    order: Vec<u32>,
    starts: Vec<u32>,
    client_names: Option<Vec<String>>,
}

impl Division {
    fn of_parts(parts: Vec<Vec<u32>>, client_names: Option<Vec<String>>) -> Self {
        let starts = std::iter::once(0)
            .chain(parts.iter().scan(0, |end, part| {
                *end += part.len() as u32;
                Some(*end)
            }))
            .collect();
        Division { order: parts.concat(), starts, client_names }
    }
}

fn divide(
    raw: &RawTable,
    how: &Preparation,
    order: Vec<u32>,
    seed: Seed,
) -> Result<Division, TableError> {
    let enough = |clients: usize| match (1..=order.len()).contains(&clients) {
        true => Ok(()),
        false => Err(TableError::TooFewRows { rows: order.len(), clients }),
    };
    match how.partition {
        Partition::Column => {
            let names = raw.clients.as_deref().unwrap_or_default();
            let mut by_name = std::collections::BTreeMap::<&str, Vec<u32>>::new();
            for &row in &order {
                by_name.entry(&names[row as usize]).or_default().push(row);
            }
            let names = by_name.keys().map(|name| name.to_string()).collect();
            Ok(Division::of_parts(by_name.into_values().collect(), Some(names)))
        }
        Partition::Equal(clients) => {
            enough(clients)?;
            let starts = partition::equal(order.len(), clients);
            Ok(Division { order, starts, client_names: None })
        }
        Partition::Dirichlet { concentration, clients } => {
            enough(clients)?;
            let mut classes = std::collections::BTreeMap::<u64, Vec<u32>>::new();
            for &row in &order {
                let class = if how.by_class { raw.labels[row as usize].to_bits() } else { 0 };
                classes.entry(class).or_default().push(row);
            }
            let classes: Vec<_> = classes.into_values().collect();
            let mut draws = Stream::for_problem(seed, Purpose::Partition).draws();
            let parts = partition::dirichlet(&classes, concentration, clients, &mut draws);
            Ok(Division::of_parts(parts, None))
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
        let table = Table::new(raw(31), &preparation(Partition::Column), Seed(1)).unwrap();
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
            let table = Table::new(raw(50), &how, Seed(3)).unwrap();
            assert_eq!(table.clients(), 7);
            assert!(table.row_shares().iter().all(|&share| share > 0.0));
            let sum: f64 = (0..7).flat_map(|c| table.rows_of(c)).map(|(row, _)| row[0]).sum();
            assert_eq!(sum, raw(50).values.iter().step_by(2).sum::<f64>());
        }
    }

    #[test]
    fn equal_parts_differ_by_one_row_at_most() {
        assert_eq!(partition::equal(23, 5), [0, 5, 10, 15, 19, 23]);
    }

    #[test]
    fn rows_are_rearranged_in_place() {
        let order = [3, 0, 4, 1, 2, 5u32];
        let mut labels: Vec<f64> = (0..6).map(f64::from).collect();
        let mut rows: Vec<f64> = (0..12).map(f64::from).collect();
        rearrange(&mut labels, &mut rows, 2, order.to_vec());
        assert_eq!(labels, order.map(f64::from));
        assert_eq!(
            rows,
            order.map(|row| [2.0 * row as f64, 2.0 * row as f64 + 1.0]).as_flattened()
        );
    }

    #[test]
    fn standardised_theta_scores_raw_rows() {
        let raw = raw(40);
        let table = Table::new(raw.clone(), &preparation(Partition::Column), Seed(1)).unwrap();
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
        let error = Table::new(raw, &preparation(Partition::Column), Seed(1)).unwrap_err();
        assert_eq!(error, TableError::ConstantColumn("b".into()));
    }
}
