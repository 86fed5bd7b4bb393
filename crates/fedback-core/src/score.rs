//! How well a deployed θ classifies the rows that reacted to it.

use crate::base::{Base, Table};
use crate::federation::Federation;

/// The share of rows whose margin has the right sign, every client weighted by p_i.
pub fn accuracy(federation: &Federation, theta: &[f64]) -> Option<f64> {
    let Base::Table(table) = federation.base() else { return None };
    let mut total = 0.0;
    for client in federation.counting() {
        let p = federation.weights()[client];
        let (margins, labels) = margins(federation, table, client, theta);
        let right = margins.iter().zip(labels).filter(|(m, y)| (**m > 0.0) == (**y > 0.5)).count();
        total += p * right as f64 / labels.len() as f64;
    }
    Some(total)
}

/// The area under the ROC curve over all rows: the probability that a positive row scores above a
/// negative one, ties counted half. None where the rows have one class only.
pub fn auc(federation: &Federation, theta: &[f64]) -> Option<f64> {
    let Base::Table(table) = federation.base() else { return None };
    let mut scored: Vec<(f64, bool)> = Vec::with_capacity(table.len());
    for client in 0..table.clients() {
        let (margins, labels) = margins(federation, table, client, theta);
        scored.extend(margins.into_iter().zip(labels.iter().map(|y| *y > 0.5)));
    }
    scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let positives = scored.iter().filter(|(_, positive)| *positive).count() as f64;
    let negatives = scored.len() as f64 - positives;
    let (mut below, mut wins) = (0.0, 0.0);
    for tied in scored.chunk_by(|a, b| a.0 == b.0) {
        let ones = tied.iter().filter(|(_, positive)| *positive).count() as f64;
        let zeros = tied.len() as f64 - ones;
        wins += ones * (below + 0.5 * zeros);
        below += zeros;
    }
    (positives > 0.0 && negatives > 0.0).then(|| wins / (positives * negatives))
}

/// The margins of one client's rows after their reaction, and their labels.
pub(crate) fn margins<'a>(
    federation: &Federation,
    table: &'a Table,
    client: usize,
    theta: &[f64],
) -> (Vec<f64>, &'a [f64]) {
    let mut shift = vec![0.0; theta.len()];
    federation.response().apply(client, theta, &mut shift);
    let moved: f64 = shift.iter().zip(theta).map(|(s, t)| s * t).sum();
    let margins = table
        .rows_of(client)
        .map(|(row, _)| row.iter().zip(theta).map(|(x, t)| x * t).sum::<f64>() + moved)
        .collect();
    (margins, table.block(client).1)
}
