//! What a deployed θ does to the groups of a table.

use crate::base::Base;
use crate::federation::Federation;
use crate::score::{Scored, scored};

/// Averages over the rows of one group after their reaction.
///
/// Every row counts p_i / n_i, its part of its client's weight, so that the groups' risks average to
/// f(θ; θ). What a group has no rows for is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupScore {
    /// What its rows cost, the penalty included.
    pub risk: f64,
    /// The share of rows on the right side.
    pub accuracy: f64,
    /// The share of rows that are predicted to be 1.
    pub positive_rate: f64,
    /// The same of the rows whose label is 1.
    pub true_positive_rate: f64,
    /// The same of the rows whose label is 0.
    pub false_positive_rate: f64,
}

/// Sums of weights over rows.
#[derive(Clone, Copy, Default)]
struct Sums {
    all: f64,
    cost: f64,
    ones: f64,
    true_positives: f64,
    false_positives: f64,
}

impl Sums {
    fn score(self, penalty: f64) -> GroupScore {
        let Sums { all, cost, ones, true_positives, false_positives } = self;
        let zeros = all - ones;
        GroupScore {
            risk: cost / all + penalty,
            accuracy: (true_positives + zeros - false_positives) / all,
            positive_rate: (true_positives + false_positives) / all,
            true_positive_rate: true_positives / ones,
            // Rounding must not make a share of nothing.
            false_positive_rate: if zeros > 1e-12 * all {
                false_positives / zeros
            } else {
                f64::NAN
            },
        }
    }
}

/// The scores of every group; none where rows have no groups.
pub fn by_group(federation: &Federation, theta: &[f64]) -> Option<Vec<GroupScore>> {
    let Base::Table(table) = federation.base() else { return None };
    let groups = table.groups.as_ref()?;
    let turnout = federation.weighs().then(|| federation.turnout(theta, false).shares);
    let weights = turnout.as_deref().unwrap_or(federation.weights());
    let mut sums = vec![Sums::default(); groups.names.len()];
    let mut before = 0;
    for client in 0..table.clients() {
        let count = table.block(client).1.len();
        let own = &groups.of_rows[before..][..count];
        before += count;
        if weights[client] == 0.0 {
            continue;
        }
        for Scored { row, rows, margin, label, cost } in scored(federation, table, client, theta) {
            let weight = weights[client] / count as f64 * rows;
            let sum = &mut sums[own[row] as usize];
            sum.all += weight;
            sum.cost += weight * cost;
            let (predicted, label) = (margin > 0.0, label > 0.5);
            sum.ones += if label { weight } else { 0.0 };
            sum.true_positives += if predicted && label { weight } else { 0.0 };
            sum.false_positives += if predicted && !label { weight } else { 0.0 };
        }
    }
    let penalty = federation.penalty(theta);
    Some(sums.into_iter().map(|sums| sums.score(penalty)).collect())
}
