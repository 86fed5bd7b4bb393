//! Clients and a loss: the problem to be solved.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};

use crate::base::Base;
use crate::loss::Loss;
use crate::memory::{Memory, Past};
use crate::misfit::Misfit;
use crate::population::{Expansion, Performative, Population};
use crate::protocol::Protocol;
use crate::response::{Cells, Response, Retention, Rows, Shift};
use crate::state::Layout;

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
/// [`Federation::new`] is the only way to one, and refuses parts that do not go together; whoever
/// holds a federation need not doubt it.
#[derive(Clone, Debug)]
pub struct Federation {
    weights: Arc<[f64]>,
    base: Arc<Base>,
    response: Arc<Response>,
    loss: Loss,
    /// How rows leave together, where they do.
    cells: Option<Arc<Cells>>,
    /// What populations remember, where they do.
    past: Option<Past>,
}

fn check_weights(weights: &[f64], clients: usize) -> Result<(), Misfit> {
    let fail = |reason: String| Err(Misfit::new("problem.weights", reason));
    if weights.is_empty() {
        return fail("there are no clients; needed: 1 or more".into());
    }
    if weights.len() != clients {
        let found = weights.len();
        return fail(format!("the list has {found} entries; needed: one per client, {clients}"));
    }
    if let Some(wrong) = weights.iter().find(|p| !(p.is_finite() && **p >= 0.0)) {
        return fail(format!("found {wrong}; allowed: 0 or more"));
    }
    let sum: f64 = weights.iter().sum();
    match (sum - 1.0).abs() <= WEIGHTS_TOLERANCE {
        true => Ok(()),
        false => fail(format!("the list sums to {sum}; needed: 1 (within 1e-9)")),
    }
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
    /// J, the derivative of that in φ: Σ p_i J_i, and what weights that react add.
    pub reaction: DMatrix<f64>,
    /// The derivative of the risk in φ.
    pub cost: DVector<f64>,
}

/// What is remembered where those who leave come back slowly: the shares that they have at first.
fn renewed(
    weights: &[f64],
    base: &Base,
    response: &Response,
    cells: Option<&Cells>,
) -> Option<Past> {
    let Response::Retention(retention) = response else { return None };
    if retention.renewal == 1.0 || retention.is_still() {
        return None;
    }
    let Some(cells) = cells else {
        let memory = Memory::Renewal { shares: 1, weights: true };
        return Some(Past { memory, start: weights.into() });
    };
    let all = 0..base.clients();
    let share = |client, cell| {
        let own = cells.rows(client, cell).len() as f64;
        own / (0..cells.count()).map(|cell| cells.rows(client, cell).len()).sum::<usize>() as f64
    };
    let start = all.flat_map(|client| (0..cells.count()).map(move |cell| share(client, cell)));
    let memory = Memory::Renewal { shares: cells.count(), weights: false };
    Some(Past { memory, start: start.collect() })
}

/// How far the sum of weights may be from one.
const WEIGHTS_TOLERANCE: f64 = 1e-9;

impl Federation {
    /// Puts a problem together: the clients' weights p_i, their data before any model is deployed,
    /// how these react, and what a prediction costs.
    ///
    /// ```
    /// use fedback_core::base::{Base, Gaussian};
    /// use fedback_core::federation::Federation;
    /// use fedback_core::loss::Loss;
    /// use fedback_core::response::{Sensitivity, location};
    /// let data = || Base::Gaussian(Gaussian { dim: 1, mean: vec![1.0, 4.0], noise: 1.0 });
    /// let react = || location(&Sensitivity::Scalar(vec![0.5, 0.9]), 1, false);
    /// assert!(Federation::new([0.7, 0.3], data(), react(), Loss::Mean).is_ok());
    /// let misfit = Federation::new([0.7, 0.3], data(), react(), Loss::Logistic { l2: 0.1 });
    /// assert_eq!(misfit.unwrap_err().part, "problem.loss.kind");
    /// ```
    pub fn new(
        weights: impl Into<Arc<[f64]>>,
        base: Base,
        response: impl Into<Response>,
        loss: Loss,
    ) -> Result<Self, Misfit> {
        let (weights, response) = (weights.into(), response.into());
        check_weights(&weights, base.clients())?;
        loss.check(&base)?;
        base.check()?;
        response.check(&base, loss)?;
        Ok(Federation::of(weights, Arc::new(base), Arc::new(response), loss))
    }

    /// Of parts that go together.
    fn of(weights: Arc<[f64]>, base: Arc<Base>, response: Arc<Response>, loss: Loss) -> Self {
        let cells = match &*response {
            Response::Retention(retention) => retention.cells(&base).map(Arc::new),
            Response::Shift(_)
            | Response::Bounded(_)
            | Response::Strategic(_)
            | Response::Outcome(_)
            | Response::Own(_) => None,
        };
        let past = renewed(&weights, &base, &response, cells.as_deref());
        Federation { weights, base, response, loss, cells, past }
    }

    /// The same problem with populations that remember `start` and answer as `memory` says; without
    /// memory, where that forgets at once.
    ///
    /// ```
    /// use fedback_core::base::{Base, Gaussian};
    /// use fedback_core::federation::Federation;
    /// use fedback_core::loss::Loss;
    /// use fedback_core::memory::Memory;
    /// use fedback_core::response::{Sensitivity, location};
    /// let data = Base::Gaussian(Gaussian { dim: 1, mean: vec![1.0], noise: 1.0 });
    /// let react = location(&Sensitivity::Scalar(vec![0.5]), 1, false);
    /// let problem = Federation::new([1.0], data, react, Loss::Mean)?;
    /// assert!(problem.clone().remembering(Memory::Delay { deployments: 2 }, &[0.0]).is_ok());
    /// assert!(problem.remembering(Memory::Delay { deployments: 2 }, &[0.0, 1.0]).is_err());
    /// # Ok::<(), fedback_core::misfit::Misfit>(())
    /// ```
    pub fn remembering(mut self, memory: Memory, start: &[f64]) -> Result<Self, Misfit> {
        let fail = |key, why: String| Err(Misfit::new(key, why));
        if self.retention().is_some() {
            let why = "belongs to observations that move and labels that listen; who leaves comes \
                       back by renewal";
            return fail("problem.response.memory", why.into());
        }
        if start.len() != self.dim() {
            let why = format!("the list has {} entries; θ has {}", start.len(), self.dim());
            return fail("problem.response.memory.start", why);
        }
        if let Some(wrong) = start.iter().find(|number| !number.is_finite()) {
            let why = format!("found {wrong}; allowed: finite numbers");
            return fail("problem.response.memory.start", why);
        }
        self.past = memory.check()?.map(|memory| Past { memory, start: start.into() });
        Ok(self)
    }

    /// The same problem with other weights. The data are shared, not copied.
    pub fn with_weights(&self, weights: impl Into<Arc<[f64]>>) -> Result<Self, Misfit> {
        let weights = weights.into();
        check_weights(&weights, self.base.clients())?;
        let other = Federation { weights, ..self.clone() };
        let cells = other.cells.as_deref();
        let renewed = renewed(&other.weights, &other.base, &other.response, cells);
        Ok(Federation { past: renewed.or(other.past), ..other })
    }

    /// The same clients under another response.
    pub fn with_response(&self, response: impl Into<Response>) -> Result<Self, Misfit> {
        let response = response.into();
        response.check(&self.base, self.loss)?;
        let (weights, base) = (self.weights.clone(), self.base.clone());
        let other = Federation::of(weights, base, Arc::new(response), self.loss);
        match &self.past {
            Some(past) if self.retention().is_none() => other.remembering(past.memory, &past.start),
            Some(_) | None => Ok(other),
        }
    }

    /// The same problem with about so many rows of its table, evenly spaced, where it has more.
    pub fn thinned(&self, rows: usize) -> Self {
        match self.base() {
            Base::Table(table) if table.len() > rows => {
                let base = Base::Table(table.thinned(table.len().div_ceil(rows)));
                let (weights, response) = (self.weights.clone(), self.response.clone());
                let thin = Federation::of(weights, Arc::new(base), response, self.loss);
                match self.retention() {
                    None => Federation { past: self.past.clone(), ..thin },
                    Some(_) => thin,
                }
            }
            Base::Table(_) | Base::Gaussian(_) => self.clone(),
        }
    }

    /// The paper's p_i.
    #[inline]
    pub fn weights(&self) -> &Arc<[f64]> {
        &self.weights
    }

    /// The data before any model is deployed.
    #[inline]
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// How they react.
    #[inline]
    pub fn response(&self) -> &Response {
        &self.response
    }

    /// The vectors that move all of a client's observations alike, where that is all that happens to
    /// them.
    #[inline]
    pub fn shift(&self) -> Option<&Shift> {
        self.response.shift()
    }

    /// The rows of a client as its response looks at them; none where there are no rows.
    pub fn rows(&self, client: usize) -> Option<Rows<'_>> {
        match self.base() {
            Base::Table(table) => {
                Some(Rows { table, client, loss: self.loss, cells: self.cells.as_deref() })
            }
            Base::Gaussian(_) => None,
        }
    }

    /// What populations remember, where they do.
    #[inline]
    pub fn past(&self) -> Option<&Past> {
        self.past.as_ref()
    }

    /// How populations remember, where they do.
    #[inline]
    pub fn memory(&self) -> Option<Memory> {
        self.past.as_ref().map(|past| past.memory)
    }

    /// How people leave, where they do.
    pub fn retention(&self) -> Option<&Retention> {
        match self.response() {
            Response::Retention(retention) => Some(retention),
            Response::Shift(_)
            | Response::Bounded(_)
            | Response::Strategic(_)
            | Response::Outcome(_)
            | Response::Own(_) => None,
        }
    }

    /// How rows leave together, where they do.
    pub fn cells(&self) -> Option<&Cells> {
        self.cells.as_deref()
    }

    /// What a prediction costs.
    #[inline]
    pub fn loss(&self) -> Loss {
        self.loss
    }

    /// Moves the data of every client to what they were before a θ was deployed: z − M_i θ, where all
    /// observations of a client move alike.
    pub fn recorded_under(mut self, theta: &[f64]) -> Self {
        let response = self.response.clone();
        if let Response::Shift(shift) = &*response {
            self.translate(shift, theta, -1.0);
        }
        self
    }

    /// Moves every client's data by a multiple of M_i θ.
    pub fn translate(&mut self, maps: &Shift, theta: &[f64], times: f64) {
        let mut shift = vec![0.0; self.width()];
        for client in 0..self.clients() {
            maps.apply(client, theta, &mut shift);
            shift.iter_mut().for_each(|value| *value *= times);
            Arc::make_mut(&mut self.base).translate(client, &shift);
        }
    }

    /// Coordinates of θ.
    #[inline]
    pub fn dim(&self) -> usize {
        self.loss.dim(self.base.width())
    }

    /// Coordinates of an observation.
    #[inline]
    pub fn width(&self) -> usize {
        self.base.width()
    }

    /// The number of clients (the paper's N).
    pub fn clients(&self) -> usize {
        self.weights.len()
    }

    /// The clients that count: those whose weight is not zero.
    pub fn counting(&self) -> impl Iterator<Item = usize> {
        (0..self.clients()).filter(|&client| self.weights[client] > 0.0)
    }

    /// One client's population.
    pub fn population(&self, client: usize) -> Population<'_> {
        Population::new(self, client)
    }

    /// The names of the coordinates, where the data have any.
    pub fn coordinates(&self) -> Option<&[String]> {
        match self.base() {
            Base::Gaussian(_) => None,
            Base::Table(table) => Some(&table.coordinates),
        }
    }

    /// The names of the clients, where the data have any.
    pub fn client_names(&self) -> Option<&[String]> {
        match self.base() {
            Base::Gaussian(_) => None,
            Base::Table(table) => table.client_names.as_deref(),
        }
    }

    /// What lives between rounds of a protocol, and where.
    pub fn layout(&self, protocol: &Protocol) -> Layout {
        Layout::new(protocol, self.memory(), self.dim(), self.clients())
    }

    /// Whether every client's gradient is affine in (θ, φ) with noise that does not depend on them.
    pub fn is_affine(&self) -> bool {
        let linear = self.shift().is_some_and(Shift::is_linear);
        self.loss == Loss::Mean && linear && !self.weighs()
    }

    /// Whether the last coordinate is an intercept.
    pub fn has_intercept(&self) -> bool {
        matches!(self.base(), Base::Table(table) if table.intercept)
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

    /// Σ p_i f_i(θ; φ); with the weights that clients have under φ, where these react.
    pub fn risk(&self, theta: &[f64], deployed: &[f64]) -> f64 {
        let of = |(p, population): (f64, Population<'_>)| p * population.risk(theta, deployed);
        match self.weighs() {
            false => self.weighted(&self.weights).map(of).sum(),
            true => self.weighted(&self.turnout(deployed, false).shares).map(of).sum(),
        }
    }

    /// Σ p_i ∇f_i(θ; φ), without the matrices of [`Federation::mean_field`].
    pub fn gradient(&self, theta: &[f64], deployed: &[f64]) -> DVector<f64> {
        let turnout = self.weighs().then(|| self.turnout(deployed, false).shares);
        let weights = turnout.as_deref().unwrap_or(&self.weights);
        let (mut sum, mut own) = (DVector::zeros(theta.len()), vec![0.0; theta.len()]);
        for (p, population) in self.weighted(weights) {
            population.gradient(theta, deployed, &mut own);
            sum.iter_mut().zip(&own).for_each(|(sum, own)| *sum += p * own);
        }
        sum
    }

    /// The average of all clients' expansions, folded in client order.
    pub fn mean_field(&self, theta: &[f64], deployed: &[f64]) -> MeanField {
        let dim = self.dim();
        let mut sum = MeanField {
            risk: 0.0,
            gradient: DVector::zeros(dim),
            curvature: DMatrix::zeros(dim, dim),
            reaction: DMatrix::zeros(dim, dim),
            cost: DVector::zeros(dim),
        };
        let turnout = self.weighs().then(|| self.turnout(deployed, true));
        let weights = turnout.as_ref().map_or(&self.weights[..], |turnout| &turnout.shares);
        let mut slopes = turnout.iter().flat_map(|turnout| &turnout.slopes).enumerate();
        for (p, population) in self.weighted(weights) {
            let Expansion { risk, gradient, curvature, reaction, cost } =
                population.expand(theta, deployed);
            sum.risk += p * risk;
            sum.gradient.axpy(p, &gradient, 1.0);
            sum.curvature += curvature * p;
            sum.reaction += reaction * p;
            sum.cost.axpy(p, &cost, 1.0);
            if let Some((_, slope)) = slopes.find(|(client, _)| *client == population.client()) {
                sum.reaction.ger(1.0, &gradient, slope, 1.0);
                sum.cost.axpy(risk, slope, 1.0);
            }
        }
        sum
    }

    /// Σ p_i f_i(θ; θ) with its derivatives, folded in client order.
    pub fn performative(&self, theta: &[f64]) -> Performative {
        let dim = self.dim();
        let linear = self.shift().is_some_and(Shift::is_linear);
        if !linear || self.weighs() {
            return self.performative_by_differences(theta);
        }
        let mut sum = Performative {
            risk: 0.0,
            gradient: DVector::zeros(dim),
            hessian: DMatrix::zeros(dim, dim),
        };
        for (p, population) in self.weighted(&self.weights) {
            let Performative { risk, gradient, hessian } = population.performative(theta);
            sum.risk += p * risk;
            sum.gradient.axpy(p, &gradient, 1.0);
            sum.hessian += hessian * p;
        }
        sum
    }

    /// The same with the Hessian from differences of the gradient.
    fn performative_by_differences(&self, theta: &[f64]) -> Performative {
        let dim = self.dim();
        let gradient = |at: &[f64]| {
            let field = self.mean_field(at, at);
            (field.risk, field.gradient + field.cost)
        };
        let mut hessian = DMatrix::zeros(dim, dim);
        let size = theta.iter().fold(0.0f64, |size, t| size.max(t.abs()));
        let apart = 1e-6 * (1.0 + size);
        let mut aside = theta.to_vec();
        for j in 0..dim {
            let mut at = |by: f64| {
                aside[j] = theta[j] + by;
                let there = gradient(&aside).1;
                aside[j] = theta[j];
                there
            };
            let column = (at(apart) - at(-apart)) / (2.0 * apart);
            hessian.set_column(j, &column);
        }
        let hessian = (&hessian + hessian.transpose()) * 0.5;
        let (risk, gradient) = gradient(theta);
        Performative { risk, gradient, hessian }
    }

    /// Clients that count, with weights.
    fn weighted<'a>(&'a self, weights: &'a [f64]) -> impl Iterator<Item = (f64, Population<'a>)> {
        self.counting().map(|client| (weights[client], self.population(client)))
    }
}
