//! How well a deployed θ classifies the rows that reacted to it.

use crate::base::{Base, Table};
use crate::federation::Federation;
use crate::loss::{Logistic, Loss, MarginLoss, Squared};

/// The share of rows whose margin has the right sign, every client weighted by p_i.
pub fn accuracy(federation: &Federation, theta: &[f64]) -> Option<f64> {
    let Base::Table(table) = federation.base() else { return None };
    let turnout = federation.weighs().then(|| federation.turnout(theta, false).shares);
    let weights = turnout.as_deref().unwrap_or(federation.weights());
    let mut total = 0.0;
    for client in federation.counting() {
        let p = weights[client];
        let scored = scored(federation, table, client, theta);
        let right = |one: &&Scored| (one.margin > 0.0) == (one.label > 0.5);
        let right: f64 = scored.iter().filter(right).map(|one| one.rows).sum();
        total += p * right / table.block(client).1.len() as f64;
    }
    Some(total)
}

/// The area under the ROC curve over all rows: the probability that a positive row scores above a
/// negative one, ties counted half. None where the rows have one class only.
pub fn auc(federation: &Federation, theta: &[f64]) -> Option<f64> {
    let Base::Table(table) = federation.base() else { return None };
    let mut all: Vec<Scored> = Vec::with_capacity(table.len());
    for client in 0..table.clients() {
        all.extend(scored(federation, table, client, theta));
    }
    all.sort_unstable_by(|a, b| a.margin.total_cmp(&b.margin));
    let positive = |some: &[Scored]| {
        some.iter().filter(|one| one.label > 0.5).map(|one| one.rows).sum::<f64>()
    };
    let count = |some: &[Scored]| some.iter().map(|one| one.rows).sum::<f64>();
    let positives = positive(&all);
    let negatives = count(&all) - positives;
    let (mut below, mut wins) = (0.0, 0.0);
    for tied in all.chunk_by(|a, b| a.margin == b.margin) {
        let ones = positive(tied);
        let zeros = count(tied) - ones;
        wins += ones * (below + 0.5 * zeros);
        below += zeros;
    }
    (positives > 0.0 && negatives > 0.0).then(|| wins / (positives * negatives))
}

/// A row after its reaction, or one of the things that may have become of it.
#[derive(Clone, Copy)]
pub(crate) struct Scored {
    /// Its place among the client's rows.
    pub(crate) row: usize,
    /// How many rows it stands for: one, where it is certain.
    pub(crate) rows: f64,
    pub(crate) margin: f64,
    pub(crate) label: f64,
    /// What it costs, without penalty.
    pub(crate) cost: f64,
}

/// One client's rows after their reaction.
pub(crate) fn scored(
    federation: &Federation,
    table: &Table,
    client: usize,
    theta: &[f64],
) -> Vec<Scored> {
    let dot = |x: &[f64]| x.iter().zip(theta).map(|(x, t)| x * t).sum::<f64>();
    let Some(shift) = federation.shift() else {
        let count = table.block(client).1.len() as f64;
        let mut all = Vec::new();
        let Some(rows) = federation.rows(client) else { return all };
        federation.response().fates(&rows, theta, false, &mut |fate| {
            let (x, label) = (fate.x, fate.label);
            let cost = rows.loss.value(theta, x, label);
            let rows = fate.share * count;
            all.push(Scored { row: fate.row, rows, margin: dot(x), label, cost });
        });
        return all;
    };
    let mut moved = vec![0.0; theta.len()];
    shift.apply(client, theta, &mut moved);
    let lifted = dot(&moved);
    let one = |(row, (x, label)): (usize, (&[f64], f64))| {
        let margin = dot(x) + lifted;
        let cost = match federation.loss() {
            Loss::Squared { .. } => Squared.value(margin, label),
            Loss::Logistic { .. } => Logistic.value(margin, label),
            Loss::Mean => {
                let away = |j: usize| theta[j] - x[j] - moved[j];
                0.5 * (0..theta.len()).map(|j| away(j).powi(2)).sum::<f64>()
            }
        };
        Scored { row, rows: 1.0, margin, label, cost }
    };
    table.rows_of(client).enumerate().map(one).collect()
}
