//! The division of a table's rows among clients.

use crate::stream::Draws;

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
