//! A location shift or best response whose features stay between two numbers:
//! x ← min(max(x + M_i (θ − θ_ref), low), high) in every coordinate, where θ_ref is what was deployed when
//! the rows were recorded.

use super::{Fate, Rows, Shift, Slopes};
use crate::base::Base;
use crate::misfit::Misfit;

/// A shift within bounds.
#[derive(Clone, Debug)]
pub struct Bounded {
    /// M_i.
    pub shift: Shift,
    /// θ_ref.
    pub reference: Vec<f64>,
    /// The least number of every coordinate; −∞ where there is none.
    pub low: Vec<f64>,
    /// The largest; ∞ where there is none.
    pub high: Vec<f64>,
}

impl Bounded {
    /// Writes what M_i (θ − θ_ref) adds before bounds are looked at.
    pub fn push(&self, client: usize, deployed: &[f64], out: &mut [f64]) {
        let since: Vec<f64> = deployed.iter().zip(&self.reference).map(|(t, r)| t - r).collect();
        self.shift.apply(client, &since, out);
    }

    /// A coordinate within its bounds.
    #[inline(always)]
    pub fn within(&self, j: usize, x: f64) -> f64 {
        x.max(self.low[j]).min(self.high[j])
    }

    pub(super) fn fates(
        &self,
        rows: &Rows<'_>,
        deployed: &[f64],
        slopes: bool,
        each: &mut dyn FnMut(&Fate<'_>),
    ) {
        let mut push = vec![0.0; deployed.len()];
        self.push(rows.client, deployed, &mut push);
        let since: Vec<f64> = deployed.iter().zip(&self.reference).map(|(t, r)| t - r).collect();
        let free = self.shift.derivative(rows.client, &since);
        let mut derivatives = Slopes { x: Some(free.clone()), ..Slopes::default() };
        let share = 1.0 / rows.table.block(rows.client).1.len() as f64;
        let mut x = vec![0.0; deployed.len()];
        for (row, (base, label)) in rows.table.rows_of(rows.client).enumerate() {
            for j in 0..x.len() {
                let moved = base[j] + push[j];
                x[j] = self.within(j, moved);
                if slopes && let Some(slope) = &mut derivatives.x {
                    match moved > self.low[j] && moved < self.high[j] {
                        true => slope.row_mut(j).copy_from(&free.row(j)),
                        false => slope.row_mut(j).fill(0.0),
                    }
                }
            }
            each(&Fate { row, share, x: &x, label, slopes: slopes.then_some(&derivatives) });
        }
    }

    pub(super) fn check(&self, base: &Base, dim: usize) -> Result<(), Misfit> {
        let fail = |reason: String| Err(Misfit::new("problem.response.range", reason));
        let Base::Table(table) = base else {
            return fail("normal data have no bounds; allowed: a table".into());
        };
        self.shift.check(base.clients(), base.width(), dim)?;
        if [&self.reference, &self.low, &self.high].iter().any(|list| list.len() != dim) {
            return fail(format!("needed: two numbers for each of {dim} coordinates"));
        }
        for j in 0..dim {
            let (low, high) = (self.low[j], self.high[j]);
            let name = &table.coordinates[j];
            // Not a number is in no order.
            if !matches!(low.partial_cmp(&high), Some(std::cmp::Ordering::Less)) {
                return fail(format!(
                    "{name}: found {low} to {high}; allowed: a smaller, a larger"
                ));
            }
            let outside = |x: f64| x < low || x > high;
            let rows = (0..table.clients()).flat_map(|client| table.rows_of(client));
            if let Some(x) = rows.map(|(row, _)| row[j]).find(|x| outside(*x)) {
                return fail(format!(
                    "{name}: {low} to {high} leaves out {x}, which a row has; widen the range"
                ));
            }
        }
        Ok(())
    }
}
