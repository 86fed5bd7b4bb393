//! How coefficients vary together, and what that makes of the works that they multiply.

use nalgebra::DMatrix;

use crate::round::{Affine, Block};

/// The covariance of random coefficients, for a share ρ of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draw {
    /// Var(c_k).
    pub(super) variances: Vec<f64>,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// Cov = diag(f) (diag(w) − w wᵀ/Σw) diag(f): values f_k y_k less their mean.
    Centred { weights: Vec<f64>, factors: Vec<f64> },
    /// Any.
    Pairs(DMatrix<f64>),
}

impl Draw {
    pub(super) fn centred(weights: Vec<f64>, factors: Vec<f64>) -> Self {
        let total: f64 = weights.iter().sum();
        let variance = |(w, f): (&f64, &f64)| f * f * w * (1.0 - w / total);
        let variances = weights.iter().zip(&factors).map(variance).collect();
        Draw { variances, kind: Kind::Centred { weights, factors } }
    }

    /// One client drawn by weight: its variance is the clients' distance from consensus.
    pub(crate) fn by_weight(weights: &[f64]) -> Self {
        Draw::centred(weights.to_vec(), vec![1.0; weights.len()])
    }

    pub(super) fn pairs(covariance: DMatrix<f64>) -> Self {
        let variances = covariance.diagonal().as_slice().to_vec();
        Draw { variances, kind: Kind::Pairs(covariance) }
    }

    /// How many values are added to gather it.
    pub(crate) fn pairs_of_values(&self) -> f64 {
        let count = self.variances.len() as f64;
        match &self.kind {
            Kind::Centred { .. } => 4.0 * count,
            Kind::Pairs(_) => count * count,
        }
    }

    /// Of some clients who stand for all, each for `times` its own weight; none where pairs differ.
    pub(super) fn of_few(&self, clients: &[usize], times: f64) -> Option<Self> {
        match &self.kind {
            Kind::Centred { weights, factors } => {
                let (weights, factors) =
                    (pick(weights, clients, times), pick(factors, clients, 1.0));
                Some(Draw::centred(weights, factors))
            }
            Kind::Pairs(_) => None,
        }
    }

    /// Σ Cov(c_k, c_l) y_k y_lᵀ for affine y, and Σ Var(c_k) N_k for the noise in them.
    pub(crate) fn gather<J: Block>(&self, values: &[Affine<J>]) -> (J::Drawn, J) {
        let mut drawn = J::Drawn::default();
        let mut noise = values[0].noise.emptied();
        values.iter().zip(&self.variances).for_each(|(value, v)| noise.add(*v, &value.noise));
        match &self.kind {
            Kind::Centred { weights, factors } => {
                let total: f64 = weights.iter().sum();
                let shares = weights.iter().zip(factors).map(|(w, f)| w * f / total);
                let (map, shift) = sum(values, shares);
                for ((value, w), f) in values.iter().zip(weights).zip(factors) {
                    let own = value.map.scaled(*f).plus(-1.0, &map);
                    let apart = value.shift.scaled(*f).plus(-1.0, &shift);
                    let weighted = (&own.scaled(*w), &apart.scaled(*w));
                    J::gather(&mut drawn, weighted, (&own, &apart));
                }
            }
            Kind::Pairs(covariance) => {
                for (k, value) in values.iter().enumerate() {
                    let (map, shift) = sum(values, covariance.column(k).iter().copied());
                    J::gather(&mut drawn, (&value.map, &value.shift), (&map, &shift));
                }
            }
        }
        (drawn, noise)
    }
}

/// Some of the numbers, times one.
pub(super) fn pick(all: &[f64], clients: &[usize], times: f64) -> Vec<f64> {
    clients.iter().map(|&k| times * all[k]).collect()
}

/// Σ s_k y_k of affine y.
fn sum<J: Block>(values: &[Affine<J>], shares: impl Iterator<Item = f64>) -> (J, J) {
    let (mut map, mut shift) = (values[0].map.emptied(), values[0].shift.emptied());
    for (value, share) in values.iter().zip(shares) {
        map.add(share, &value.map);
        shift.add(share, &value.shift);
    }
    (map, shift)
}
