//! The division of a table's rows among clients.

use super::raw_table::RawTable;
use super::table::{Preparation, TableError};
use crate::stream::{Draws, Purpose, Seed, Stream};

/// How rows are divided.
#[derive(Clone, Debug, PartialEq)]
pub enum Partition {
    /// Rows with the same value of a column belong together; clients in the order of their values.
    Column,
    /// So many clients with equally many rows (the first ones have one more where it does not
    /// come out even), contiguous.
    Equal(usize),
    /// Within every class of the label, the clients' shares are one Dirichlet draw (Hsu, Qi and
    /// Brown 2019).
    Dirichlet {
        /// All concentrations; small is uneven.
        concentration: f64,
        /// How many clients.
        clients: usize,
    },
}

/// Where contiguous blocks of rows begin that are as equal as can be, and where the last one ends.
pub(super) fn equal(rows: usize, clients: usize) -> Vec<u32> {
    let (each, extra) = (rows / clients, rows % clients);
    (0..=clients).map(|client| (client * each + client.min(extra)) as u32).collect()
}

/// Dirichlet shares of every class. A client left without rows gets one of the largest client's,
/// since every client must have something to learn from.
pub(super) fn dirichlet(
    classes: &[Vec<u32>],
    concentration: f64,
    clients: usize,
    draws: &mut Draws,
) -> Vec<Vec<u32>> {
    let mut parts = vec![Vec::new(); clients];
    for class in classes {
        let gammas: Vec<f64> = (0..clients).map(|_| draws.gamma(concentration)).collect();
        let total: f64 = gammas.iter().sum();
        let (mut used, mut share) = (0, 0.0);
        for (client, gamma) in gammas.iter().enumerate() {
            share += if total > 0.0 { gamma / total } else { 1.0 / clients as f64 };
            let end = if client + 1 == clients {
                class.len()
            } else {
                ((share * class.len() as f64).round() as usize).clamp(used, class.len())
            };
            parts[client].extend_from_slice(&class[used..end]);
            used = end;
        }
    }
    while let Some(empty) = parts.iter().position(Vec::is_empty) {
        let row = parts.iter_mut().max_by_key(|part| part.len()).and_then(Vec::pop);
        parts[empty].extend(row);
    }
    parts
}

/// The rows in the order of their clients.
pub(super) struct Division {
    pub(super) order: Vec<u32>,
    /// Where each client's rows begin, and where the last one's end.
    pub(super) starts: Vec<u32>,
    pub(super) client_names: Option<Vec<String>>,
}

impl Division {
    pub(super) fn of_parts(parts: Vec<Vec<u32>>, client_names: Option<Vec<String>>) -> Self {
        let starts = std::iter::once(0)
            .chain(parts.iter().scan(0, |end, part| {
                *end += part.len() as u32;
                Some(*end)
            }))
            .collect();
        Division { order: parts.concat(), starts, client_names }
    }
}

/// Divides the rows, which come in this order.
pub(super) fn divide(
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
            let starts = equal(order.len(), clients);
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
            let parts = dirichlet(&classes, concentration, clients, &mut draws);
            Ok(Division::of_parts(parts, None))
        }
    }
}
