//! A response that is not built in: somebody's own rule for what becomes of a row.
//!
//! Three functions of a row and of what is deployed say everything: the features that the row has then, the
//! label, and how likely it is to be there still. Each of them is "as it was" where nothing is said. Derivatives
//! are those of central differences, or given. All else (expectations, samplers, stable and optimal points)
//! follows as for responses that are built in. A trait per kind of reaction was weighed: it would have
//! had to choose between them, where people move *and* leave.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use nalgebra::DMatrix;

use super::{Fate, Rows, Slopes};
use crate::base::{Base, Table};
use crate::loss::Loss;
use crate::misfit::Misfit;

/// A row before anything is deployed.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Whose it is.
    pub client: usize,
    /// Its features; the last is the 1 of the intercept, where there is one.
    pub x: &'a [f64],
    /// Its label.
    pub label: f64,
    /// What a prediction costs.
    pub loss: Loss,
}

impl Row<'_> {
    /// x·φ.
    pub fn score(&self, deployed: &[f64]) -> f64 {
        super::dot(self.x, deployed)
    }

    /// What φ costs the row as it is, without penalty.
    pub fn cost(&self, deployed: &[f64]) -> f64 {
        self.loss.value(deployed, self.x, self.label)
    }
}

/// What becomes of rows where φ is deployed. All of it must be a function of its arguments alone.
pub trait OwnResponse: fmt::Debug + Send + Sync {
    /// Writes the features that the row has then. An intercept must stay 1.
    fn features(&self, row: &Row<'_>, deployed: &[f64], out: &mut [f64]) {
        let _ = deployed;
        out.copy_from_slice(row.x);
    }

    /// Under the loss `logistic` the probability that its label is 1 then, under `squared` the label.
    fn label(&self, row: &Row<'_>, deployed: &[f64]) -> f64 {
        let _ = deployed;
        row.label
    }

    /// The probability that it is still there. It is asked only where rows [leave](Self::leaves).
    fn stays(&self, row: &Row<'_>, deployed: &[f64]) -> f64 {
        let _ = (row, deployed);
        1.0
    }

    /// Whether [`stays`](Self::stays) is anything but 1: then risk is shown beside how many remain.
    fn leaves(&self) -> bool {
        false
    }

    /// Adds the derivatives in φ to zeros: of the features, of the label, and as `share` that of
    /// [`stays`](Self::stays); false where they are to be found by differences.
    fn slopes(&self, row: &Row<'_>, deployed: &[f64], out: &mut Slopes) -> bool {
        let _ = (row, deployed, out);
        false
    }

    /// Whether derivatives may jump somewhere. Optima are then searched by the risk alone besides, which
    /// takes longer.
    fn has_kinks(&self) -> bool {
        true
    }

    /// ε_i, the smallest known number with W₁(D_i(θ), D_i(φ)) ≤ ε_i |θ − φ|; infinite where there is none.
    fn sensitivity(&self, client: usize) -> f64 {
        let _ = client;
        f64::INFINITY
    }
}

/// Somebody's own rule, under its name.
#[derive(Clone, Debug)]
pub struct Own {
    name: String,
    rule: Arc<dyn OwnResponse>,
}

impl Deref for Own {
    type Target = dyn OwnResponse;

    fn deref(&self) -> &Self::Target {
        &*self.rule
    }
}

/// Rows of a client that are tried before a rule is taken.
const TRIED: usize = 50;
/// How far derivatives that are given may be from differences, in units of their size.
const TOLERANCE: f64 = 1e-4;

impl Own {
    /// A rule under a name.
    pub fn new(name: impl Into<String>, rule: impl OwnResponse + 'static) -> Self {
        Own { name: name.into(), rule: Arc::new(rule) }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is wrong with what became of a row, in words.
    pub fn wrong(&self, row: &Row<'_>, x: &[f64], label: f64, stays: f64) -> Option<String> {
        let kind = &self.name;
        if let Some(found) = x.iter().find(|x| !x.is_finite()) {
            return Some(format!("\"{kind}\" makes the feature {found} of a row; needed: numbers"));
        }
        let chance = |p: f64| (0.0..=1.0).contains(&p);
        if !chance(stays) {
            return Some(format!(
                "\"{kind}\" lets a row stay with probability {stays}; allowed: 0 to 1"
            ));
        }
        let (fits, allowed) = match row.loss {
            Loss::Logistic { .. } => (chance(label), "a probability, 0 to 1"),
            Loss::Mean | Loss::Squared { .. } => (label.is_finite(), "finite numbers"),
        };
        (!fits).then(|| format!("\"{kind}\" makes the label {label} of a row; allowed: {allowed}"))
    }

    /// Writes how all of it changes with φ.
    fn slopes_of(&self, row: &Row<'_>, deployed: &[f64], out: &mut Slopes) {
        clear(out, deployed.len());
        if !self.slopes(row, deployed, out) {
            clear(out, deployed.len());
            self.differences(row, deployed, out);
        }
    }

    fn differences(&self, row: &Row<'_>, deployed: &[f64], out: &mut Slopes) {
        let dim = deployed.len();
        let mut aside = deployed.to_vec();
        let (mut up, mut down) = (vec![0.0; dim], vec![0.0; dim]);
        for k in 0..dim {
            // About the cube root of a rounding error, where truncation and rounding meet.
            let apart = 1e-5 * (1.0 + deployed[k].abs());
            let mut at = |by: f64, x: &mut [f64]| {
                aside[k] = deployed[k] + by;
                self.features(row, &aside, x);
                let stays = if self.leaves() { self.stays(row, &aside) } else { 1.0 };
                (self.label(row, &aside), stays)
            };
            let (above, below) = (at(apart, &mut up), at(-apart, &mut down));
            aside[k] = deployed[k];
            let by = 0.5 / apart;
            out.label[k] = (above.0 - below.0) * by;
            out.share[k] = (above.1 - below.1) * by;
            if let Some(slope) = &mut out.x {
                for j in 0..dim {
                    slope[(j, k)] = (up[j] - down[j]) * by;
                }
            }
        }
    }

    pub(super) fn fates(
        &self,
        rows: &Rows<'_>,
        deployed: &[f64],
        slopes: bool,
        each: &mut dyn FnMut(&Fate<'_>),
    ) {
        let (dim, count) = (deployed.len(), rows.table.block(rows.client).1.len());
        let all = || rows_of(rows.table, rows.client, rows.loss).enumerate();
        let mut own = Slopes::default();
        let (mut staying, mut total, mut gone) = (Vec::new(), count as f64, vec![0.0; dim]);
        if self.leaves() {
            staying.extend(all().map(|(_, row)| self.stays(&row, deployed)));
            total = staying.iter().sum();
            for (_, row) in all().filter(|_| slopes) {
                self.slopes_of(&row, deployed, &mut own);
                gone.iter_mut().zip(&own.share).for_each(|(gone, slope)| *gone += slope);
            }
        }
        let (mut x, mut known) = (vec![0.0; dim], Slopes::default());
        for (place, row) in all() {
            self.features(&row, deployed, &mut x);
            let label = self.label(&row, deployed);
            let share = staying.get(place).copied().unwrap_or(1.0) / total;
            if slopes {
                self.slopes_of(&row, deployed, &mut own);
                match self.leaves() {
                    true => own.share.iter_mut().zip(&gone).for_each(|(slope, gone)| {
                        *slope = (*slope - share * gone) / total;
                    }),
                    false => own.share.fill(0.0),
                }
            }
            if !matches!(rows.loss, Loss::Logistic { .. }) {
                let slopes = slopes.then_some(&own);
                each(&Fate { row: place, share, x: &x, label, slopes });
                continue;
            }
            // Of a probability, each label is a fate.
            for (value, chance, sign) in [(0.0, 1.0 - label, -1.0), (1.0, label, 1.0)] {
                if slopes {
                    known.x.clone_from(&own.x);
                    known.share.clear();
                    known.share.extend(
                        own.share
                            .iter()
                            .zip(&own.label)
                            .map(|(s, l)| s * chance + sign * share * l),
                    );
                }
                let (share, slopes) = (share * chance, slopes.then_some(&known));
                each(&Fate { row: place, share, x: &x, label: value, slopes });
            }
        }
    }

    /// How many of a client's rows stay, as a share of all.
    pub(crate) fn retained(&self, rows: &Rows<'_>, deployed: &[f64]) -> f64 {
        let all = rows_of(rows.table, rows.client, rows.loss);
        let sum: f64 = all.map(|row| self.stays(&row, deployed)).sum();
        sum / rows.table.block(rows.client).1.len() as f64
    }

    /// Refuses a rule by what it makes of some rows under some models.
    pub(super) fn check(&self, base: &Base, loss: Loss) -> Result<(), Misfit> {
        let fail = |reason: String| Err(Misfit::new("problem.response.kind", reason));
        let Base::Table(table) = base else {
            let kind = &self.name;
            return fail(format!("\"{kind}\" is about rows; normal data have none: give a table"));
        };
        let dim = loss.dim(table.dim);
        let golden = |k: usize| (k as f64 * 0.618_034).fract() - 0.5;
        let probes = [0, 1, dim + 1].map(|first| match first {
            0 => vec![0.0; dim],
            _ => (first..first + dim).map(golden).collect::<Vec<f64>>(),
        });
        for client in 0..table.clients() {
            let every = table.block(client).1.len().div_ceil(TRIED).max(1);
            let tried = rows_of(table, client, loss).enumerate().step_by(every);
            if let Some((place, why)) = tried
                .into_iter()
                .find_map(|(place, row)| Some((place, self.refused(&row, &probes, table)?)))
            {
                return fail(format!("{why} (row {place} of client {client})"));
            }
        }
        Ok(())
    }

    /// What is wrong with what becomes of one row under some models.
    fn refused(&self, row: &Row<'_>, probes: &[Vec<f64>], table: &Table) -> Option<String> {
        let (dim, kind) = (row.x.len(), &self.name);
        let mut x = vec![0.0; dim];
        for at in probes {
            self.features(row, at, &mut x);
            let stays = self.stays(row, at);
            let wrong = self.wrong(row, &x, self.label(row, at), stays);
            if wrong.is_some() {
                return wrong;
            }
            if table.intercept && x[dim - 1] != row.x[dim - 1] {
                return Some(format!("\"{kind}\" moves the intercept, which must stay 1"));
            }
            if stays != 1.0 && !self.leaves() {
                return Some(format!(
                    "\"{kind}\" lets a row stay with probability {stays} and says that no row \
                     leaves; `leaves` must say so"
                ));
            }
        }
        // Where derivatives jump, differences miss them; not at two models alike.
        let (mut given, mut found) = (Slopes::default(), Slopes::default());
        let apart = |at: &Vec<f64>| {
            clear(&mut given, dim);
            if !self.slopes(row, at, &mut given) {
                return false;
            }
            clear(&mut found, dim);
            self.differences(row, at, &mut found);
            flat(&given).zip(flat(&found)).any(|(a, b)| {
                // Not a number is near nothing.
                !matches!((a - b).abs().partial_cmp(&(TOLERANCE * (1.0 + b.abs()))), Some(o) if o.is_le())
            })
        };
        let wrong = probes[1..].iter().all(apart);
        wrong.then(|| format!("the derivatives that \"{kind}\" gives are not those of differences"))
    }
}

/// Zeros of the right sizes.
fn clear(slopes: &mut Slopes, dim: usize) {
    for vector in [&mut slopes.share, &mut slopes.label] {
        vector.clear();
        vector.resize(dim, 0.0);
    }
    match &mut slopes.x {
        Some(matrix) if matrix.nrows() == dim => matrix.fill(0.0),
        matrix => *matrix = Some(DMatrix::zeros(dim, dim)),
    }
}

/// All numbers.
fn flat(slopes: &Slopes) -> impl Iterator<Item = f64> + '_ {
    let x = slopes.x.iter().flat_map(|matrix| matrix.iter());
    slopes.share.iter().chain(&slopes.label).chain(x).copied()
}

/// A client's rows as rules see them.
fn rows_of(table: &Table, client: usize, loss: Loss) -> impl Iterator<Item = Row<'_>> {
    table.rows_of(client).map(move |(x, label)| Row { client, x, label, loss })
}
