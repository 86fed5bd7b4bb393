//! The rows of a table, divided among clients.
//!
//! Rows of one client lie together, features first and the intercept's one last. What happened to
//! the features on the way in is kept in [`Standardization`], so that a fitted θ can score raw
//! rows.

use super::partition::{Division, Partition, divide};
use super::raw_table::RawTable;
use super::split::{Groups, Marks, Split};
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
    /// What stands in the place of missing values, before features are standardised.
    pub fill: Option<Vec<f64>>,
    /// The groups of the rows, client after client.
    pub groups: Option<Box<Groups>>,
    /// What leaves together, by the values of a column.
    pub cells: Option<Box<Groups>>,
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
    /// A feature of which nothing is known cannot be filled.
    NothingKnown(String),
    /// A client of whom all rows are held out.
    NothingToLearnFrom(String),
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
        Ok(Table::split(raw, Marks::default(), how, seed)?.training)
    }

    /// The same, with rows that are held out, groups, and missing values filled where marks say so.
    pub fn split(
        raw: RawTable,
        marks: Marks,
        how: &Preparation,
        seed: Seed,
    ) -> Result<Split, TableError> {
        let count = raw.labels.len();
        let (features, values) = (raw.features.len(), raw.values.len());
        let named = raw.clients.as_ref().is_none_or(|names| names.len() == count);
        if features == 0 || values != count * features || !named || !marks.fit(count) {
            return Err(TableError::Misshapen { features, rows: count, values });
        }
        let mut order: Vec<u32> = (0..count as u32).collect();
        if how.shuffle {
            Stream::for_problem(seed, Purpose::Shuffle).draws().shuffle(&mut order);
        }
        let division = divide(&raw, how, order, seed)?;
        Split::new(raw, marks, how, division)
    }

    /// The rows in the order of a division, not yet standardised.
    pub(super) fn arranged(
        raw: RawTable,
        division: Division,
        [groups, cells]: [Option<Groups>; 2],
        intercept: bool,
    ) -> Self {
        let Division { order, starts, client_names } = division;
        let RawTable { features: mut coordinates, values: mut rows, mut labels, .. } = raw;
        if intercept {
            widen(&mut rows, coordinates.len(), labels.len());
            coordinates.push("intercept".to_string());
        }
        let dim = coordinates.len();
        rows.reserve_exact(SLACK);
        let [groups, cells] =
            [groups, cells].map(|groups| groups.map(|groups| Box::new(groups.arranged(&order))));
        rearrange(&mut labels, &mut rows, dim, order);
        rows.extend([0.0; SLACK]);
        Table {
            dim,
            intercept,
            coordinates,
            client_names,
            standardization: None,
            fill: None,
            groups,
            cells,
            rows,
            labels,
            starts,
            partial: false,
        }
    }

    /// The same table, of which clients may be without rows.
    pub(super) fn made_partial(self) -> Self {
        Table { partial: true, ..self }
    }

    /// Puts the mean of a feature in the place of values that are missing.
    pub(super) fn fill(&mut self) -> Result<(), TableError> {
        let features = self.features();
        let known = |row: &[f64], j: usize| f64::from(u8::from(!row[j].is_nan()));
        let value = |row: &[f64], j: usize| if row[j].is_nan() { 0.0 } else { row[j] };
        let (counts, sums) =
            (self.average(features, 1.0, known), self.average(features, 1.0, value));
        if let Some(j) = counts.iter().position(|count| *count == 0.0) {
            return Err(TableError::NothingKnown(self.coordinates[j].clone()));
        }
        self.fill_with(sums.iter().zip(&counts).map(|(sum, count)| sum / count).collect());
        Ok(())
    }

    /// Puts these in the place of values that are missing.
    pub(super) fn fill_with(&mut self, means: Vec<f64>) {
        for row in self.filled_rows() {
            for (value, mean) in row.iter_mut().zip(&means).filter(|(value, _)| value.is_nan()) {
                *value = *mean;
            }
        }
        self.fill = Some(means);
    }

    /// Standardises by constants that are known.
    pub(super) fn standardize_with(&mut self, constants: Standardization) {
        self.filled_rows().for_each(|row| constants.apply(row));
        self.standardization = Some(constants);
    }

    fn features(&self) -> usize {
        self.dim - usize::from(self.intercept)
    }

    fn filled_rows(&mut self) -> impl Iterator<Item = &mut [f64]> {
        let end = self.labels.len() * self.dim;
        self.rows[..end].chunks_exact_mut(self.dim)
    }

    /// Standardises by per-client sums folded in client order, which is what a federation whose
    /// rows stay at the sites can do as well.
    pub(super) fn standardize(&mut self) -> Result<(), TableError> {
        let (count, features) = (self.labels.len() as f64, self.features());
        let mean = self.average(features, count, |row, j| row[j]);
        let variance =
            self.average(features, count, |row, j| (row[j] - mean[j]) * (row[j] - mean[j]));
        let constants = Standardization::new(mean, variance, &self.coordinates)?;
        self.standardize_with(constants);
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
            fill: None,
            groups: None,
            cells: None,
            rows,
            labels,
            starts,
            partial: true,
        }
    }

    /// Of every client each `every`-th row, the first one included.
    pub(crate) fn thinned(&self, every: usize) -> Self {
        let (mut rows, mut labels, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        let mut kept = Vec::new();
        for client in 0..self.clients() {
            kept.extend((self.starts[client]..self.starts[client + 1]).step_by(every));
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
            fill: self.fill.clone(),
            groups: None,
            cells: self.cells.as_ref().map(|cells| Box::new(cells.arranged(&kept))),
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

#[cfg(test)]
mod tests;
