//! Clients and a loss: the problem to be solved.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};

use crate::base::Base;
use crate::loss::Loss;
use crate::population::{Expansion, Performative, Population};
use crate::response::Shift;

/// A client's place in the federation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// The ids of clients that come in the order of their ids, each once, where none is left out.
#[inline]
pub fn range_of(clients: &[ClientId]) -> Option<std::ops::Range<usize>> {
    let (first, last) = (clients.first()?.0 as usize, clients.last()?.0 as usize);
    (last + 1 - first == clients.len()).then_some(first..last + 1)
}

/// The whole problem: minimise f(θ; φ) = Σ p_i f_i(θ; φ) where the data react to φ.
///
/// The fields are trusted: one entry a client where there is one a client, weights that are
/// nonnegative and sum to one, a label where the loss needs it.
#[derive(Clone, Debug)]
pub struct Federation {
    /// The paper's p_i.
    pub weights: Arc<[f64]>,
    /// The data before any model is deployed.
    pub base: Base,
    /// How they react.
    pub response: Shift,
    /// What a prediction costs.
    pub loss: Loss,
}

/// Averages of [`Expansion`] over clients, with the clients' weights.
#[derive(Clone, Debug)]
pub struct MeanField {
    /// Σ p_i f_i(θ; φ).
    pub risk: f64,
    /// Σ p_i ∇f_i(θ; φ).
    pub gradient: DVector<f64>,
    /// H = Σ p_i H_i.
    pub curvature: DMatrix<f64>,
    /// J = Σ p_i J_i.
    pub reaction: DMatrix<f64>,
}

impl Federation {
    /// Coordinates of θ.
    pub fn dim(&self) -> usize {
        self.base.dim()
    }

    /// The number of clients (the paper's N).
    pub fn clients(&self) -> usize {
        self.weights.len()
    }

    /// One client's population.
    pub fn population(&self, client: usize) -> Population<'_> {
        Population::new(self, client)
    }

    /// The names of the coordinates, where the data have any.
    pub fn coordinates(&self) -> Option<&[String]> {
        match &self.base {
            Base::Gaussian(_) => None,
            Base::Table(table) => Some(&table.coordinates),
        }
    }

    /// The names of the clients, where the data have any.
    pub fn client_names(&self) -> Option<&[String]> {
        match &self.base {
            Base::Gaussian(_) => None,
            Base::Table(table) => table.client_names.as_deref(),
        }
    }

    /// Whether every client's gradient is affine in (θ, φ) with noise that does not depend on them.
    pub fn is_affine(&self) -> bool {
        self.loss == Loss::Mean
    }

    /// Whether the last coordinate is an intercept.
    pub fn has_intercept(&self) -> bool {
        matches!(&self.base, Base::Table(table) if table.intercept)
    }

    /// The penalty of each coordinate: l2, and nothing for the intercept.
    pub fn ridge(&self) -> DVector<f64> {
        let mut ridge = DVector::from_element(self.dim(), self.loss.l2());
        if self.has_intercept() {
            ridge[self.dim() - 1] = 0.0;
        }
        ridge
    }

    /// l2/2 |θ|² without the intercept.
    pub fn penalty(&self, theta: &[f64]) -> f64 {
        let regularised = theta.len() - usize::from(self.has_intercept());
        0.5 * self.loss.l2() * theta[..regularised].iter().map(|t| t * t).sum::<f64>()
    }

    /// Σ p_i f_i(θ; φ).
    pub fn risk(&self, theta: &[f64], deployed: &[f64]) -> f64 {
        self.weighted().map(|(p, population)| p * population.risk(theta, deployed)).sum()
    }

    /// The average of all clients' expansions, folded in client order.
    pub fn mean_field(&self, theta: &[f64], deployed: &[f64]) -> MeanField {
        let dim = self.dim();
        let mut sum = MeanField {
            risk: 0.0,
            gradient: DVector::zeros(dim),
            curvature: DMatrix::zeros(dim, dim),
            reaction: DMatrix::zeros(dim, dim),
        };
        for (p, population) in self.weighted() {
            let Expansion { risk, gradient, curvature, reaction, .. } =
                population.expand(theta, deployed);
            sum.risk += p * risk;
            sum.gradient.axpy(p, &gradient, 1.0);
            sum.curvature += curvature * p;
            sum.reaction += reaction * p;
        }
        sum
    }

    /// Σ p_i f_i(θ; θ) with its derivatives, folded in client order.
    pub fn performative(&self, theta: &[f64]) -> Performative {
        let dim = self.dim();
        let mut sum = Performative {
            risk: 0.0,
            gradient: DVector::zeros(dim),
            hessian: DMatrix::zeros(dim, dim),
        };
        for (p, population) in self.weighted() {
            let Performative { risk, gradient, hessian } = population.performative(theta);
            sum.risk += p * risk;
            sum.gradient.axpy(p, &gradient, 1.0);
            sum.hessian += hessian * p;
        }
        sum
    }

    /// Clients that count, with their weights.
    fn weighted(&self) -> impl Iterator<Item = (f64, Population<'_>)> {
        self.weights
            .iter()
            .enumerate()
            .filter(|(_, p)| **p > 0.0)
            .map(|(client, &p)| (p, self.population(client)))
    }
}
