//! Expectations over rows that react one by one: sums over what may become of each.

use nalgebra::{DMatrix, DVector};

use super::{Expansion, Population};
use crate::loss::{Logistic, Loss, MarginLoss, Squared};
use crate::response::{Fate, Rows};

/// The loss of one observation at θ, as far as derivatives need it.
struct Cost {
    value: f64,
    /// ℓ′ and ℓ″ of the margin; the loss `mean` has neither.
    margin: Option<(f64, f64)>,
}

impl Cost {
    fn of(loss: Loss, theta: &[f64], fate: &Fate<'_>) -> Self {
        let score = || fate.x.iter().zip(theta).map(|(x, t)| x * t).sum::<f64>();
        let by_margin = |loss: &dyn Fn(f64) -> (f64, f64, f64)| {
            let (value, slope, curvature) = loss(score());
            Cost { value, margin: Some((slope, curvature)) }
        };
        let label = fate.label;
        match loss {
            Loss::Mean => Cost { value: loss.value(theta, fate.x, label), margin: None },
            Loss::Squared { .. } => by_margin(&|m| {
                (Squared.value(m, label), Squared.slope(m, label), Squared.curvature(m, label))
            }),
            Loss::Logistic { .. } => by_margin(&|m| {
                (Logistic.value(m, label), Logistic.slope(m, label), Logistic.curvature(m, label))
            }),
        }
    }

    /// ∇ℓ.
    fn gradient(&self, theta: &DVector<f64>, x: &DVector<f64>) -> DVector<f64> {
        match self.margin {
            Some((slope, _)) => x * slope,
            None => theta - x,
        }
    }
}

impl Population<'_> {
    /// The client's rows, where these react one by one.
    pub(super) fn reacting(&self) -> Option<Rows<'_>> {
        match self.federation.shift() {
            Some(_) => None,
            None => self.federation.rows(self.client),
        }
    }

    /// Calls `each` with everything that may become of the rows where θ is deployed, with derivatives;
    /// never where these do not react one by one.
    pub fn fates(&self, theta: &[f64], each: &mut dyn FnMut(&Fate<'_>)) {
        if let Some(rows) = self.reacting() {
            self.federation.response().fates(&rows, theta, true, each);
        }
    }

    pub(super) fn risk_of_fates(&self, rows: &Rows<'_>, theta: &[f64], deployed: &[f64]) -> f64 {
        let mut sum = 0.0;
        self.federation.response().fates(rows, deployed, false, &mut |fate| {
            sum += fate.share * rows.loss.value(theta, fate.x, fate.label);
        });
        sum + self.federation.penalty(theta)
    }

    pub(super) fn gradient_of_fates(
        &self,
        rows: &Rows<'_>,
        theta: &[f64],
        deployed: &[f64],
        out: &mut [f64],
    ) {
        out.fill(0.0);
        self.federation.response().fates(rows, deployed, false, &mut |fate| {
            rows.loss.add_gradient(theta, fate.x, fate.label, fate.share, out);
        });
        let ridge = self.federation.ridge();
        out.iter_mut().zip(theta).zip(&ridge).for_each(|((out, t), ridge)| *out += ridge * t);
    }

    pub(super) fn covariance_of_fates(&self, rows: &Rows<'_>, theta: &[f64]) -> DMatrix<f64> {
        let dim = theta.len();
        let (mut mean, mut square) = (DVector::zeros(dim), DMatrix::zeros(dim, dim));
        let mut own = DVector::zeros(dim);
        self.federation.response().fates(rows, theta, false, &mut |fate| {
            own.fill(0.0);
            rows.loss.add_gradient(theta, fate.x, fate.label, 1.0, own.as_mut_slice());
            square.ger(fate.share, &own, &own, 1.0);
            mean.axpy(fate.share, &own, 1.0);
        });
        square - &mean * mean.transpose()
    }

    pub(super) fn expand_fates(
        &self,
        rows: &Rows<'_>,
        theta: &[f64],
        deployed: &[f64],
    ) -> Expansion {
        let dim = theta.len();
        let at = DVector::from_column_slice(theta);
        let mut sum = Expansion {
            risk: 0.0,
            gradient: DVector::zeros(dim),
            curvature: DMatrix::zeros(dim, dim),
            reaction: DMatrix::zeros(dim, dim),
            cost: DVector::zeros(dim),
        };
        self.federation.response().fates(rows, deployed, true, &mut |fate| {
            let (x, share) = (DVector::from_column_slice(fate.x), fate.share);
            let cost = Cost::of(rows.loss, theta, fate);
            let gradient = cost.gradient(&at, &x);
            sum.risk += share * cost.value;
            sum.gradient.axpy(share, &gradient, 1.0);
            match cost.margin {
                Some((_, curvature)) => sum.curvature.ger(share * curvature, &x, &x, 1.0),
                None => (0..dim).for_each(|j| sum.curvature[(j, j)] += share),
            }
            let Some(slopes) = fate.slopes else { return };
            if !slopes.share.is_empty() {
                let slope = DVector::from_column_slice(&slopes.share);
                sum.reaction.ger(1.0, &gradient, &slope, 1.0);
                sum.cost.axpy(cost.value, &slope, 1.0);
            }
            if let Some(moves) = &slopes.x {
                match cost.margin {
                    Some((slope, curvature)) => {
                        let score = moves.tr_mul(&at);
                        sum.reaction.ger(share * curvature, &x, &score, 1.0);
                        sum.reaction += moves * (share * slope);
                        sum.cost.axpy(share * slope, &score, 1.0);
                    }
                    None => {
                        sum.reaction -= moves * share;
                        sum.cost.axpy(-share, &moves.tr_mul(&gradient), 1.0);
                    }
                }
            }
            if !slopes.label.is_empty()
                && let Some((slope, _)) = cost.margin
            {
                // ∂ℓ′/∂y = −1 for both losses; ∂ℓ/∂y is −ℓ′ for the only one whose labels are numbers.
                let label = DVector::from_column_slice(&slopes.label);
                sum.reaction.ger(-share, &x, &label, 1.0);
                sum.cost.axpy(-share * slope, &label, 1.0);
            }
        });
        let ridge = self.federation.ridge();
        sum.risk += self.federation.penalty(theta);
        sum.gradient += ridge.component_mul(&at);
        sum.curvature += DMatrix::from_diagonal(&ridge);
        sum
    }
}
