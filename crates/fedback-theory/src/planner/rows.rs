//! Expected gradients of linear models on the rows of a table, along a path of errors.
//!
//! Near the stable point a client's mean gradient is its linearisation; further out the remainder
//! counts. A search asks for it at thousands of points, so it is averaged over a few hundred evenly
//! spaced rows of all clients ([`Detail`]). Only the remainder is: value and derivative at the stable
//! point come from every row.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::loss::{Logistic, Loss, MarginLoss, Squared};
use fedback_core::population::Expansion;
use nalgebra::{DMatrix, DVector};

use super::sample::Sample;

/// How many rows the remainder is averaged over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Some, for a search.
    Sketch,
    /// Many, for a forecast.
    Full,
}

impl Detail {
    fn rows(self) -> usize {
        match self {
            Detail::Sketch => 240,
            Detail::Full => 4000,
        }
    }

    fn lasting(self) -> f64 {
        match self {
            Detail::Sketch => 0.04,
            Detail::Full => 0.0,
        }
    }
}

/// A remainder this small against the linear part is none.
const NEGLIGIBLE: f64 = 0.03;

/// The rows of a federation seen from its stable point.
pub(super) struct Rows<'a> {
    federation: &'a Federation,
    samples: Vec<Sample>,
    point: DVector<f64>,
    /// Gradient and derivatives of the sample at the stable point.
    centres: Vec<Centre>,
    /// Gradient and derivatives of all rows.
    whole: Vec<Centre>,
    /// The remainder that was worked out last, and where: error and deployed.
    last: Vec<Option<[DVector<f64>; 3]>>,
    /// Closer to the stable point than this, the linearisation will do.
    linear_within: f64,
    /// The share of an error that a path may move by before the remainder is worked out anew.
    lasting: f64,
}

struct Centre {
    gradient: DVector<f64>,
    curvature: DMatrix<f64>,
    reaction: DMatrix<f64>,
}

impl<'a> Rows<'a> {
    /// The rows; none where the loss is not one of a linear model on a table.
    pub(super) fn new(
        federation: &'a Federation,
        point: &[f64],
        start: &[f64],
        detail: Detail,
    ) -> Option<Self> {
        let (Base::Table(table), false) = (&federation.base(), federation.is_affine()) else {
            return None;
        };
        let every = table.len().div_ceil(detail.rows());
        let sample = |client| Sample::new(table.rows_of(client).step_by(every), federation.dim());
        let mut rows = Rows {
            federation,
            samples: (0..federation.clients()).map(sample).collect(),
            point: DVector::from_column_slice(point),
            centres: Vec::new(),
            whole: (0..federation.clients())
                .map(|client| {
                    let own = federation.population(client).expand(point, point);
                    let Expansion { gradient, curvature, reaction, .. } = own;
                    Centre { gradient, curvature, reaction }
                })
                .collect(),
            last: vec![None; federation.clients()],
            linear_within: 0.0,
            lasting: detail.lasting(),
        };
        rows.centres = (0..federation.clients()).map(|client| rows.centre(client)).collect();
        rows.linear_within = rows.linear_radius(start);
        Some(rows)
    }

    fn centre(&self, client: usize) -> Centre {
        let (dim, point) = (self.point.len(), &self.point);
        let gradient = |theta: &DVector<f64>, deployed: &DVector<f64>| {
            self.sample_gradient(client, theta.as_slice(), deployed.as_slice())
        };
        let width = 1e-5 * (1.0 + point.norm());
        let column = |j: usize, of_theta: bool| {
            let mut aside = DVector::zeros(dim);
            aside[j] = width;
            let (above, below) = (point + &aside, point - &aside);
            let difference = match of_theta {
                true => gradient(&above, point) - gradient(&below, point),
                false => gradient(point, &above) - gradient(point, &below),
            };
            difference / (2.0 * width)
        };
        let matrix = |of_theta: bool| {
            DMatrix::from_columns(&(0..dim).map(|j| column(j, of_theta)).collect::<Vec<_>>())
        };
        Centre {
            gradient: gradient(point, point),
            curvature: matrix(true),
            reaction: matrix(false),
        }
    }

    /// The gradient of a client over its sampled rows.
    fn sample_gradient(&self, client: usize, theta: &[f64], deployed: &[f64]) -> DVector<f64> {
        match self.federation.loss() {
            Loss::Logistic { .. } => self.average(Logistic, client, theta, deployed),
            Loss::Squared { .. } => self.average(Squared, client, theta, deployed),
            // Affine problems are not sampled.
            Loss::Mean => self.federation.population(client).expand(theta, deployed).gradient,
        }
    }

    fn average(
        &self,
        loss: impl MarginLoss,
        client: usize,
        theta: &[f64],
        deployed: &[f64],
    ) -> DVector<f64> {
        let dim = theta.len();
        let mut shift = vec![0.0; dim];
        self.federation.response().apply(client, deployed, &mut shift);
        let moved: f64 = shift.iter().zip(theta).map(|(s, t)| s * t).sum();
        let (means, slope) = self.samples[client].mean_slopes(loss, theta, moved);
        let regularised = dim - usize::from(self.federation.has_intercept());
        let ridge = |j: usize| if j < regularised { self.federation.loss().l2() } else { 0.0 };
        let entry = |j: usize| means[j] + slope * shift[j] + ridge(j) * theta[j];
        DVector::from_fn(dim, |j, _| entry(j))
    }

    /// Forgets the path before.
    pub(super) fn begin(&mut self) {
        self.last.fill(None);
    }

    /// Whether the linearisation will not do for a state that begins with this error.
    pub(super) fn is_bent(&self, state: &[f64]) -> bool {
        let square: f64 = state[..self.point.len()].iter().map(|x| x * x).sum();
        square.sqrt() > self.linear_within
    }

    /// Writes a client's gradient at errors (x, φ); its remainder is worked out anew where the path has
    /// moved on.
    pub(super) fn gradient(
        &mut self,
        client: usize,
        error: &[f64],
        deployed: &[f64],
        out: &mut [f64],
    ) {
        let (error, deployed) =
            (DVector::from_column_slice(error), DVector::from_column_slice(deployed));
        let near = |[then, before, _]: &[DVector<f64>; 3]| {
            let moved = (&error - then).norm() + (&deployed - before).norm();
            moved <= self.lasting * error.norm()
        };
        if !self.last[client].as_ref().is_some_and(near) {
            let remainder = self.remainder(client, &error, &deployed);
            self.last[client] = Some([error.clone(), deployed.clone(), remainder]);
        }
        let Centre { gradient, curvature, reaction } = &self.whole[client];
        let mut sum = gradient + curvature * error + reaction * deployed;
        self.last[client].iter().for_each(|[_, _, remainder]| sum += remainder);
        out.copy_from_slice(sum.as_slice());
    }

    /// What the linearisation at the stable point misses of a client's gradient at errors (x, φ).
    fn remainder(
        &self,
        client: usize,
        error: &DVector<f64>,
        deployed: &DVector<f64>,
    ) -> DVector<f64> {
        let (theta, phi) = (&self.point + error, &self.point + deployed);
        let Centre { gradient, curvature, reaction } = &self.centres[client];
        self.sample_gradient(client, theta.as_slice(), phi.as_slice())
            - gradient
            - curvature * error
            - reaction * deployed
    }

    /// The largest distance, halving from the start's, at which the remainder of the mean field is
    /// negligible to both sides along the start's direction and along every coordinate.
    fn linear_radius(&self, start: &[f64]) -> f64 {
        let dim = self.point.len();
        let away = DVector::from_column_slice(start) - &self.point;
        let far = away.norm();
        if far == 0.0 {
            return f64::INFINITY;
        }
        let mut directions = vec![away / far];
        directions.extend((0..dim).map(|j| {
            let mut direction = DVector::zeros(dim);
            direction[j] = 1.0;
            direction
        }));
        let weights = &self.federation.weights();
        let bent = |error: DVector<f64>| {
            let (mut missed, mut linear) = (DVector::zeros(dim), DVector::zeros(dim));
            for (client, &p) in weights.iter().enumerate().filter(|(_, p)| **p > 0.0) {
                let centre = &self.centres[client];
                missed += self.remainder(client, &error, &error) * p;
                linear += (&centre.curvature + &centre.reaction) * &error * p;
            }
            missed.norm() > NEGLIGIBLE * linear.norm()
        };
        let mut radius = far;
        for _ in 0..40 {
            let both = |d: &DVector<f64>| bent(d * radius) || bent(d * -radius);
            if !directions.iter().any(both) {
                break;
            }
            radius *= 0.5;
        }
        radius
    }
}
