//! Labels listen to the score (Perdomo 2022, Mendler-Dünner, Ding and Wang 2022: performativity through
//! outcomes).
//!
//! Under the loss `logistic` a label is drawn anew with probability |strength|: it is 1 with probability
//! σ(x·θ) where the strength is positive (a prophecy that fulfils itself), and 1 − σ(x·θ) where it is
//! negative (one that defeats itself). Under `squared` it is y + strength · x·θ.

use super::{Fate, Rows, Slopes, check_each, dot, sigmoid};
use crate::base::{Base, Table};
use crate::loss::Loss;
use crate::misfit::Misfit;

/// How much labels listen.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One number a client.
    pub strength: Vec<f64>,
}

impl Outcome {
    /// The probability that a label of 0 or 1 is 1 once it has listened to a score.
    #[inline(always)]
    pub fn chance(&self, client: usize, label: f64, score: f64) -> f64 {
        let strength = self.strength[client];
        let told = sigmoid(if strength < 0.0 { -score } else { score });
        (1.0 - strength.abs()) * label + strength.abs() * told
    }

    /// A label of 0 or 1 that has listened to a score, by a uniform number: it is kept, or drawn anew.
    #[inline(always)]
    pub fn label(&self, client: usize, label: f64, score: f64, uniform: f64) -> f64 {
        let strength = self.strength[client];
        let kept = 1.0 - strength.abs();
        if uniform < kept {
            return label;
        }
        let told = sigmoid(if strength < 0.0 { -score } else { score });
        f64::from(u8::from(uniform - kept < told * strength.abs()))
    }

    /// |strength| E|x| / 4 where labels are 0 or 1, |strength| E|x| where they are numbers; the larger.
    pub(super) fn sensitivity(&self, table: &Table, client: usize) -> f64 {
        let length = |x: &[f64]| x.iter().map(|v| v * v).sum::<f64>().sqrt();
        let sum: f64 = table.rows_of(client).map(|(x, _)| length(x)).sum();
        self.strength[client].abs() * sum / table.block(client).1.len().max(1) as f64
    }

    pub(super) fn fates(
        &self,
        rows: &Rows<'_>,
        deployed: &[f64],
        slopes: bool,
        each: &mut dyn FnMut(&Fate<'_>),
    ) {
        let Rows { table, client, loss, .. } = *rows;
        let share = 1.0 / table.block(client).1.len() as f64;
        let strength = self.strength[client];
        let mut derivatives = Slopes::default();
        for (row, (x, label)) in table.rows_of(client).enumerate() {
            let score = dot(x, deployed);
            if let Loss::Squared { .. } = loss {
                derivatives.label.clear();
                derivatives.label.extend(x.iter().map(|x| strength * x));
                let slopes = slopes.then_some(&derivatives);
                each(&Fate { row, share, x, label: label + strength * score, slopes });
                continue;
            }
            let told = sigmoid(score);
            let steep = share * strength * told * (1.0 - told);
            let chance = self.chance(client, label, score);
            for (label, chance, sign) in [(0.0, 1.0 - chance, -1.0), (1.0, chance, 1.0)] {
                derivatives.share.clear();
                derivatives.share.extend(x.iter().map(|x| sign * steep * x));
                let slopes = slopes.then_some(&derivatives);
                each(&Fate { row, share: share * chance, x, label, slopes });
            }
        }
    }

    pub(super) fn check(&self, base: &Base, loss: Loss) -> Result<(), Misfit> {
        let kind = |reason: &str| Err(Misfit::new("problem.response.kind", reason));
        let part = "problem.response.strength";
        match (base, loss) {
            (Base::Gaussian(_), _) => {
                kind("\"outcome\" is about labels, which normal data have not; allowed: a table")
            }
            (_, Loss::Mean) => kind(
                "\"outcome\" is about labels, which the loss \"mean\" does not look at; allowed \
                 losses: squared, logistic",
            ),
            (Base::Table(table), Loss::Logistic { .. }) => {
                let fits = |strength: f64| (-1.0..=1.0).contains(&strength);
                check_each(part, &self.strength, table.clients(), "between -1 and 1", fits)
            }
            (Base::Table(table), Loss::Squared { .. }) => {
                check_each(part, &self.strength, table.clients(), "finite numbers", f64::is_finite)
            }
        }
    }
}
