//! Rows to learn from and rows that are held out, of the same clients.
//!
//! Only the former decide what missing values are filled with and features standardised by.

use std::collections::BTreeSet;

use super::partition::Division;
use super::raw_table::RawTable;
use super::table::{Preparation, Table, TableError};
use crate::stream::{Purpose, Seed, Stream};

/// What is known of rows besides features, label and client.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// One group a row.
    pub groups: Option<Vec<String>>,
    /// What a row leaves with.
    pub cells: Option<Vec<String>>,
    /// Whether a row is held out.
    pub held: Option<Vec<bool>>,
    /// The share of every client's rows that is held out.
    pub share: Option<Share>,
    /// Whether missing values, which are NaN, are filled with the mean of their feature.
    pub fill: bool,
}

/// So many rows of every client, drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Between 0 and 1.
    pub of_rows: f64,
    /// The draws come from it.
    pub seed: Seed,
}

/// A table in two parts with the same clients and coordinates.
#[derive(Clone, Debug)]
pub struct Split {
    /// The rows to learn from.
    pub training: Table,
    /// The rows to judge by; clients may have none.
    pub held: Option<Table>,
}

/// The groups of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// Their names, in the order of code points.
    pub names: Vec<String>,
    /// The group of every row.
    pub of_rows: Vec<u32>,
}

impl Marks {
    /// Whether there is a mark for every row.
    pub(super) fn fit(&self, rows: usize) -> bool {
        [&self.groups, &self.cells].into_iter().flatten().all(|names| names.len() == rows)
            && self.held.as_ref().is_none_or(|held| held.len() == rows)
    }

    /// The rows to learn from and those held out, client by client; none where nothing is.
    fn parts(&self, division: &Division) -> Option<[Vec<Vec<u32>>; 2]> {
        let blocks = division.starts.windows(2);
        let blocks = blocks.map(|w| &division.order[w[0] as usize..w[1] as usize]);
        if let Some(held) = &self.held {
            let is_held = |row: &u32| held[*row as usize];
            return Some(blocks.map(|rows| rows.iter().partition(|row| !is_held(row))).unzip())
                .map(|(training, held)| [training, held]);
        }
        let Share { of_rows, seed } = self.share?;
        let mut draws = Stream::for_problem(seed, Purpose::Holdout).draws();
        let (training, held) = blocks
            .map(|rows| {
                // Of the rows in the order of the file, so that a shuffle changes nothing.
                let mut chosen = rows.to_vec();
                chosen.sort_unstable();
                draws.shuffle(&mut chosen);
                let count = (of_rows * rows.len() as f64).round() as usize;
                chosen.truncate(count.min(rows.len() - 1));
                let chosen: BTreeSet<u32> = chosen.into_iter().collect();
                rows.iter().partition::<Vec<u32>, _>(|row| !chosen.contains(row))
            })
            .unzip();
        Some([training, held])
    }
}

impl Groups {
    fn new(of_rows: &[String]) -> Self {
        let names: Vec<&String> = of_rows.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let place = |name: &String| names.binary_search(&name).unwrap_or(0) as u32;
        Groups {
            of_rows: of_rows.iter().map(place).collect(),
            names: names.into_iter().cloned().collect(),
        }
    }

    /// How many rows every group has.
    pub fn rows(&self) -> Vec<u64> {
        let mut rows = vec![0; self.names.len()];
        self.of_rows.iter().for_each(|group| rows[*group as usize] += 1);
        rows
    }

    /// Row `order[k]` in place k.
    pub(super) fn arranged(&self, order: &[u32]) -> Self {
        let of_rows = order.iter().map(|row| self.of_rows[*row as usize]).collect();
        Groups { names: self.names.clone(), of_rows }
    }
}

impl Split {
    pub(super) fn new(
        raw: RawTable,
        marks: Marks,
        how: &Preparation,
        division: Division,
    ) -> Result<Self, TableError> {
        let named = [&marks.groups, &marks.cells].map(|names| names.as_deref().map(Groups::new));
        let (mut training, mut held) = match marks.parts(&division) {
            None => (Table::arranged(raw, division, named, how.intercept), None),
            Some([training, held]) => {
                if let Some(client) = training.iter().position(Vec::is_empty) {
                    let names = division.client_names.as_ref();
                    let name = names.map_or(client.to_string(), |names| names[client].clone());
                    return Err(TableError::NothingToLearnFrom(name));
                }
                let part = |parts: Vec<Vec<u32>>| {
                    let names = division.client_names.clone();
                    let Division { order, starts, client_names } = Division::of_parts(parts, names);
                    let own = |groups: &Option<Groups>| Some(groups.as_ref()?.arranged(&order));
                    let named = [own(&named[0]), own(&named[1])];
                    let in_order = (0..order.len() as u32).collect();
                    let division = Division { order: in_order, starts, client_names };
                    Table::arranged(raw.pick(&order), division, named, how.intercept)
                };
                (part(training), Some(part(held).made_partial()))
            }
        };
        if marks.fill {
            training.fill()?;
        }
        if how.standardize {
            training.standardize()?;
        }
        if let Some(held) = &mut held {
            training.fill.clone().into_iter().for_each(|means| held.fill_with(means));
            let constants = training.standardization.clone();
            constants.into_iter().for_each(|constants| held.standardize_with(constants));
        }
        let held = held.filter(|held| !held.is_empty());
        Ok(Split { training, held })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Partition;
    use super::*;

    fn raw(rows: usize) -> RawTable {
        RawTable {
            features: vec!["a".into()],
            values: (0..rows).map(|k| k as f64).collect(),
            labels: (0..rows).map(|k| (k % 2) as f64).collect(),
            clients: Some((0..rows).map(|k| ["x", "y"][usize::from(k % 4 == 0)].into()).collect()),
        }
    }

    fn how(shuffle: bool) -> Preparation {
        let partition = Partition::Column;
        Preparation { shuffle, standardize: false, intercept: false, partition, by_class: false }
    }

    fn share(of_rows: f64, seed: u64) -> Marks {
        Marks { share: Some(Share { of_rows, seed: Seed(seed) }), ..Marks::default() }
    }

    fn values(table: &Table) -> BTreeSet<u64> {
        let rows = (0..table.clients()).flat_map(|client| table.rows_of(client));
        rows.map(|(row, _)| row[0] as u64).collect()
    }

    #[test]
    fn every_client_gives_its_share_whatever_the_shuffle() {
        let split =
            |marks, shuffle, seed| Table::split(raw(40), marks, &how(shuffle), Seed(seed)).unwrap();
        let one = split(share(0.25, 7), false, 1);
        let held = one.held.as_ref().unwrap();
        assert_eq!((held.block(0).1.len(), held.block(1).1.len()), (8, 3));
        assert_eq!((one.training.len(), held.len()), (29, 11));
        assert!(values(&one.training).is_disjoint(&values(held)));
        let again = split(share(0.25, 7), true, 2);
        assert_eq!(values(again.held.as_ref().unwrap()), values(held));
        assert_ne!(values(split(share(0.25, 8), false, 1).held.as_ref().unwrap()), values(held));
        assert!(split(share(0.01, 7), false, 1).held.is_none());
        assert_eq!(split(share(0.99, 7), false, 1).training.len(), 2);
    }

    /// Means, fills and deviations are those of the rows that are learned from.
    #[test]
    fn only_rows_to_learn_from_are_looked_at() {
        let mut table = raw(8);
        (table.values[1], table.values[7]) = (f64::NAN, 1000.0);
        (table.values[6], table.clients) = (f64::NAN, Some(vec!["x".into(); 8]));
        let held = Some((0..8).map(|row| row >= 6).collect());
        let marks = Marks { held, fill: true, ..Marks::default() };
        let how = Preparation { standardize: true, ..how(false) };
        let split = Table::split(table, marks, &how, Seed(0)).unwrap();
        let mean = (0.0 + 2.0 + 3.0 + 4.0 + 5.0) / 5.0;
        assert_eq!(split.training.fill, Some(vec![mean]));
        let constants = split.training.standardization.as_ref().unwrap();
        assert!((constants.mean[0] - mean).abs() < 1e-15);
        let held = split.held.unwrap();
        assert!(held.block(0).0[0].abs() < 1e-15);
        assert_eq!(held.block(0).0[1], (1000.0 - constants.mean[0]) / constants.sd[0]);
    }

    #[test]
    fn groups_go_with_their_rows() {
        let groups = Some((0..12).map(|k| ["m", "f", "d"][k % 3].to_string()).collect());
        let marks = Marks { groups, ..share(0.5, 3) };
        let split = Table::split(raw(12), marks, &how(true), Seed(4)).unwrap();
        for table in [Some(split.training), split.held].into_iter().flatten() {
            let groups = table.groups.as_ref().unwrap();
            assert_eq!(groups.names, ["d", "f", "m"]);
            let rows = (0..2).flat_map(|client| table.rows_of(client));
            for ((row, _), group) in rows.zip(&groups.of_rows) {
                assert_eq!([2, 1, 0][row[0] as usize % 3], *group);
            }
        }
    }

    #[test]
    fn what_cannot_be_learned_from_is_refused() {
        let held = Some((0..12).map(|k| k % 4 == 0).collect());
        let marks = Marks { held, ..Marks::default() };
        let error = Table::split(raw(12), marks, &how(false), Seed(0)).unwrap_err();
        assert_eq!(error, TableError::NothingToLearnFrom("y".into()));
        let mut empty = raw(4);
        empty.values.fill(f64::NAN);
        let marks = Marks { fill: true, ..Marks::default() };
        let error = Table::split(empty, marks, &how(false), Seed(0)).unwrap_err();
        assert_eq!(error, TableError::NothingKnown("a".into()));
    }
}
