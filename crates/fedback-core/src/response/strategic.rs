//! Rows that would rather be on the other side of a threshold move there, if that pays (Hardt, Megiddo,
//! Papadimitriou and Wootters 2016).
//!
//! A row x with the score x·φ lacks m = max(0, s (τ − x·φ)), s = 1 where a high score is wanted and −1
//! where a low one is. Over the features S it can change, the boundary is d = m/|φ_S| away. It moves there
//! and no further, by Δ = s m φ_S / |φ_S|², with probability share · σ((budget − d)/smoothing), or where
//! d ≤ budget without smoothing. Labels stay.

use nalgebra::DMatrix;

use super::{Fate, Rows, Slopes, dot, sigmoid};
use crate::base::Base;
use crate::loss::Loss;
use crate::misfit::Misfit;

/// What rows want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// A score of the threshold or more.
    Positive,
    /// A score of the threshold or less.
    Negative,
}

/// Moves to a threshold.
#[derive(Clone, Debug)]
pub struct Strategic {
    /// S: the coordinates that rows can change.
    pub features: Vec<usize>,
    /// What they want.
    pub wants: Wants,
    /// τ.
    pub threshold: f64,
    /// How far a row goes at most.
    pub budget: f64,
    /// How many of those for whom it pays do it.
    pub share: f64,
    /// How blurred the budget is.
    pub smoothing: f64,
}

/// What φ asks of rows.
#[derive(Clone, Debug)]
pub struct Lure {
    sign: f64,
    /// φ_S, and zero elsewhere.
    pub towards: Vec<f64>,
    /// |φ_S|².
    square: f64,
}

impl Strategic {
    /// Whether no row ever moves.
    pub(super) fn is_still(&self) -> bool {
        self.share == 0.0 || self.budget == 0.0 && self.smoothing == 0.0
    }

    /// What a deployed φ asks of rows; nothing where it does not look at what they can change.
    pub fn lure(&self, deployed: &[f64]) -> Option<Lure> {
        let mut towards = vec![0.0; deployed.len()];
        self.features.iter().for_each(|&j| towards[j] = deployed[j]);
        let square = dot(&towards, &towards);
        let sign = match self.wants {
            Wants::Positive => 1.0,
            Wants::Negative => -1.0,
        };
        (square > 0.0 && square.is_finite()).then_some(Lure { sign, towards, square })
    }

    /// The probability that a row of this score moves, and the multiple of φ_S by which it does.
    #[inline(always)]
    pub fn moves(&self, lure: &Lure, score: f64) -> (f64, f64) {
        let lacking = lure.sign * (self.threshold - score);
        if lacking <= 0.0 {
            return (0.0, 0.0);
        }
        let distance = lacking / lure.square.sqrt();
        let pays = match self.smoothing > 0.0 {
            true => sigmoid((self.budget - distance) / self.smoothing),
            false => f64::from(u8::from(distance <= self.budget)),
        };
        (self.share * pays, lure.sign * lacking / lure.square)
    }

    pub(super) fn fates(
        &self,
        rows: &Rows<'_>,
        deployed: &[f64],
        slopes: bool,
        each: &mut dyn FnMut(&Fate<'_>),
    ) {
        let (table, client) = (rows.table, rows.client);
        let share = 1.0 / table.block(client).1.len() as f64;
        let nothing = Slopes::default();
        let (mut stays, mut goes) = (Slopes::default(), Slopes::default());
        let mut moved = vec![0.0; deployed.len()];
        let lure = self.lure(deployed);
        for (row, (x, label)) in table.rows_of(client).enumerate() {
            let score = dot(x, deployed);
            let (chance, times) = lure.as_ref().map_or((0.0, 0.0), |lure| self.moves(lure, score));
            let Some(lure) = lure.as_ref().filter(|_| chance > 0.0) else {
                each(&Fate { row, share, x, label, slopes: slopes.then_some(&nothing) });
                continue;
            };
            for ((moved, x), towards) in moved.iter_mut().zip(x).zip(&lure.towards) {
                *moved = x + times * towards;
            }
            if slopes {
                self.slopes(lure, x, score, &mut goes);
                goes.share.iter_mut().for_each(|slope| *slope *= share);
                stays.share.clear();
                stays.share.extend(goes.share.iter().map(|slope| -slope));
            }
            let own = slopes.then_some(&stays);
            each(&Fate { row, share: share * (1.0 - chance), x, label, slopes: own });
            let own = slopes.then_some(&goes);
            each(&Fate { row, share: share * chance, x: &moved, label, slopes: own });
        }
    }

    /// The derivatives of the probability to move, and of where to.
    fn slopes(&self, lure: &Lure, x: &[f64], score: f64, out: &mut Slopes) {
        let Lure { sign, towards, square } = lure;
        let (length, dim) = (square.sqrt(), x.len());
        let lacking = sign * (self.threshold - score);
        let steep = match self.smoothing > 0.0 {
            true => {
                let pays = sigmoid((self.budget - lacking / length) / self.smoothing);
                -self.share * pays * (1.0 - pays) / self.smoothing
            }
            false => 0.0,
        };
        out.share.clear();
        out.share.extend(x.iter().zip(towards).map(|(x, towards)| {
            steep * (-sign * x / length - lacking * towards / (square * length))
        }));
        let mut slope = DMatrix::zeros(dim, dim);
        for &j in &self.features {
            for k in 0..dim {
                slope[(j, k)] = -towards[j] * x[k] / square
                    - 2.0 * sign * lacking * towards[j] * towards[k] / (square * square);
            }
            slope[(j, j)] += sign * lacking / square;
        }
        out.x = Some(slope);
    }

    pub(super) fn check(&self, base: &Base, loss: Loss) -> Result<(), Misfit> {
        let part = |key, reason: String| Err(Misfit::new(key, reason));
        if let Base::Gaussian(_) = base {
            let why = "\"strategic\" is about scores of rows; normal data have none: give a table";
            return part("problem.response.kind", why.into());
        }
        if loss == Loss::Mean {
            let why = "\"strategic\" is about scores, which the loss \"mean\" has not; allowed \
                       losses: squared, logistic";
            return part("problem.response.kind", why.into());
        }
        if self.features.is_empty() || self.features.iter().any(|&j| j >= base.width()) {
            let why = "name the columns that rows can change";
            return part("problem.response.features", why.into());
        }
        let numbers = [
            ("problem.response.threshold", self.threshold, "a finite number", true),
            ("problem.response.budget", self.budget, "0 or more", self.budget >= 0.0),
            ("problem.response.smoothing", self.smoothing, "0 or more", self.smoothing >= 0.0),
            (
                "problem.response.share",
                self.share,
                "between 0 and 1",
                (0.0..=1.0).contains(&self.share),
            ),
        ];
        match numbers.iter().find(|(_, found, _, fits)| !(found.is_finite() && *fits)) {
            None => Ok(()),
            Some((key, found, allowed, _)) => {
                part(key, format!("found {found}; allowed: {allowed}"))
            }
        }
    }
}
