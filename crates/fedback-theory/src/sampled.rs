//! Stable and optimal points of problems that are known by a sample: populations and losses that are
//! functions.
//!
//! A [`Sample`] is asked for risks and gradients at pairs of a model and a deployed one, always of the
//! same draws, so that its mean field F(θ) = Σ p_i ∇f_i(θ; θ) is a function like any other. Derivatives are
//! differences: H of the model at what is deployed, H + J of both. That says something only where draws
//! move smoothly with what is deployed. Where they jump (a label that is flipped, a row that is
//! exchanged) differences of a small width see none of the reaction or too much of it, while wide ones
//! average over the jumps; the two are compared ([`Sampled::is_smooth`]). Then no margin is given, and the
//! search goes by wide differences.

use fedback_core::population::Performative;
use nalgebra::{DMatrix, DVector};

use crate::stable::{Spectra, aside, spectra};
use crate::{newton, quasi_newton};

/// Risks and gradients on draws that stay the same.
pub trait Sample {
    /// Coordinates of θ.
    fn dim(&self) -> usize;
    /// Σ p_i f_i and its gradient at each place; not finite where it could not be asked.
    fn fields(&self, places: &[Place]) -> Vec<Field>;
}

/// A model, and the one that populations react to.
#[derive(Clone, Debug)]
pub struct Place {
    /// θ.
    pub theta: DVector<f64>,
    /// φ.
    pub deployed: DVector<f64>,
}

/// The averages at a place.
#[derive(Clone, Debug)]
pub struct Field {
    /// f(θ; φ).
    pub risk: f64,
    /// ∇f(θ; φ).
    pub gradient: DVector<f64>,
}

/// A root of F on a sample.
#[derive(Clone, Debug)]
pub struct Root {
    /// Where.
    pub theta: Vec<f64>,
    /// |F| there.
    pub residual: f64,
    /// Steps that it took.
    pub iterations: usize,
}

/// What differences are taken over, in units of one more than the coordinate.
const NARROW: f64 = 5e-4;
/// The same where draws jump.
const WIDE: f64 = 0.05;
/// Widths at which a smooth function's error falls by four.
const WIDTHS: [f64; 2] = [0.04, 0.02];
/// An error of differences that is rounding: single precision makes about a thousandth.
const ROUNDING: f64 = 3e-3;
/// F at one place twice may differ so much.
const SAME: f64 = 1e-6;
/// Up to so many coordinates derivatives are taken anew at every step of a search; beyond, they are
/// carried along (Broyden).
const FEW: usize = 40;
/// Steps of a search, and how often one is shortened.
const LIMIT: usize = 100;
const TRIALS: usize = 12;
/// A step that is none, in units of the model's size; one that rounding or jumps may leave.
const AT_REST: f64 = 1e-10;
const FLOOR: f64 = 1e-5;
const JUMPS: f64 = 5e-3;
/// Repeated minimisations that are tried, and how near they must come.
const MINIMISATIONS: usize = 60;
const NEAR: f64 = 1e-3;

/// Which of a place's models a difference moves.
#[derive(Clone, Copy, PartialEq)]
enum Moved {
    Model,
    Deployed,
    Both,
}

/// A problem known by a sample.
pub struct Sampled<S> {
    sample: S,
    width: f64,
}

impl<S: Sample> Sampled<S> {
    /// Looks at a sample with differences that suit it, `smooth` or not.
    pub fn new(sample: S, smooth: bool) -> Self {
        Sampled { sample, width: if smooth { NARROW } else { WIDE } }
    }

    fn at(&self, theta: &DVector<f64>) -> Field {
        self.between(theta, theta)
    }

    fn between(&self, theta: &DVector<f64>, deployed: &DVector<f64>) -> Field {
        let place = Place { theta: theta.clone(), deployed: deployed.clone() };
        self.sample.fields(&[place]).swap_remove(0)
    }

    /// f(θ; θ).
    pub fn risk(&self, theta: &[f64]) -> f64 {
        self.at(&DVector::from_column_slice(theta)).risk
    }

    /// F(θ).
    pub fn gradient(&self, theta: &[f64]) -> Vec<f64> {
        self.at(&DVector::from_column_slice(theta)).gradient.as_slice().to_vec()
    }

    /// Whether the same place asked for twice has the same gradient: whether draws are seeded.
    pub fn is_seeded(&self, theta: &[f64]) -> bool {
        let theta = DVector::from_column_slice(theta);
        let (first, second) = (self.at(&theta), self.at(&theta));
        let size = first.gradient.norm();
        // What is not finite is said elsewhere.
        !size.is_finite() || (first.gradient - second.gradient).norm() <= SAME * (1.0 + size)
    }

    /// Whether gradients near a place are smooth functions of the model and of what is deployed: along
    /// two directions, the error of wide differences must fall with their width.
    pub fn is_smooth(&self, theta: &[f64]) -> bool {
        let size = 1.0 + theta.iter().map(|t| t * t).sum::<f64>().sqrt();
        let at = DVector::from_column_slice(theta);
        [0.0, 0.5].iter().all(|centre| {
            let direction = DVector::from_vec(aside(&vec![0.0; at.len()], 1.0, *centre));
            let direction = direction.normalize();
            let along = |moved: Moved, width: f64| {
                self.along(&at, &at, moved, &[&direction * (width * size)]).swap_remove(0)
                    / (width * size)
            };
            let [narrow, wider, wide] = [NARROW, WIDTHS[1], WIDTHS[0]]
                .map(|width| [along(Moved::Model, width), along(Moved::Deployed, width)]);
            let rounding = ROUNDING * (narrow[0].norm() + narrow[1].norm());
            [0, 1].iter().all(|k| {
                let near = (&wider[*k] - &narrow[*k]).norm();
                near <= rounding || near <= 0.5 * (&wide[*k] - &narrow[*k]).norm()
            })
        })
    }

    /// Half of what the gradient changes by between places on both sides, for every step.
    fn along(
        &self,
        theta: &DVector<f64>,
        deployed: &DVector<f64>,
        moved: Moved,
        steps: &[DVector<f64>],
    ) -> Vec<DVector<f64>> {
        let mut places = Vec::with_capacity(2 * steps.len());
        for step in steps {
            for sign in [1.0, -1.0] {
                let by = |moves: bool, from: &DVector<f64>| {
                    if moves { from + step * sign } else { from.clone() }
                };
                places.push(Place {
                    theta: by(moved != Moved::Deployed, theta),
                    deployed: by(moved != Moved::Model, deployed),
                });
            }
        }
        let fields = self.sample.fields(&places);
        let pairs = fields.chunks_exact(2);
        pairs.map(|pair| (&pair[0].gradient - &pair[1].gradient) * 0.5).collect()
    }

    /// The derivative of the gradient, a column a coordinate.
    fn slope(&self, theta: &DVector<f64>, deployed: &DVector<f64>, moved: Moved) -> DMatrix<f64> {
        let dim = theta.len();
        let width = |j: usize| self.width * (1.0 + theta[j].abs());
        let step = |j: usize| {
            let mut step = DVector::zeros(dim);
            step[j] = width(j);
            step
        };
        let steps: Vec<_> = (0..dim).map(step).collect();
        let columns = self.along(theta, deployed, moved, &steps);
        let columns: Vec<_> =
            columns.into_iter().enumerate().map(|(j, column)| column / width(j)).collect();
        DMatrix::from_columns(&columns)
    }

    /// The spectral radius of H⁻¹J and the smallest real part of an eigenvalue of H + J.
    pub fn spectra(&self, theta: &[f64]) -> Spectra {
        let theta = DVector::from_column_slice(theta);
        let curvature = self.slope(&theta, &theta, Moved::Model);
        let reaction = self.slope(&theta, &theta, Moved::Both) - &curvature;
        spectra(None, &curvature, &reaction)
    }

    /// A root of F reached from `start`: along the flow θ′ = −F(θ), or by Newton's method from the
    /// beginning where `newton` says so.
    pub fn root(&self, start: &[f64], newton: bool) -> Option<Root> {
        let dim = start.len();
        let mut theta = DVector::from_column_slice(start);
        let mut here = self.at(&theta).gradient;
        let both = |theta: &DVector<f64>| self.slope(theta, theta, Moved::Both);
        let (mut slope, mut fresh) = (both(&theta), true);
        let identity = DMatrix::<f64>::identity(dim, dim);
        let flow = 0.1 / slope.norm().max(f64::MIN_POSITIVE);
        let mut length = if newton { f64::INFINITY } else { flow };
        for iterations in 1..=LIMIT {
            if !here.norm().is_finite() || !slope.norm().is_finite() {
                return None;
            }
            let size = 1.0 + theta.norm();
            let left = slope.clone().lu().solve(&here).map_or(f64::INFINITY, |step| step.norm());
            let found = |theta: &DVector<f64>| {
                Some(Root { theta: theta.as_slice().to_vec(), residual: here.norm(), iterations })
            };
            if left <= AT_REST * size {
                return found(&theta);
            }
            let mut next = None;
            for _ in 0..TRIALS {
                let system = &identity * (1.0 / length) + &slope;
                if let Some(step) = system.lu().solve(&here) {
                    let candidate = &theta - step;
                    let there = self.at(&candidate).gradient;
                    let growth = there.norm() / here.norm();
                    // The flow may pass over a ridge of |F|.
                    if growth < if length.is_finite() { 1.5 } else { 1.0 } {
                        length /= growth.clamp(0.1, 2.0);
                        next = Some((candidate, there, growth));
                        break;
                    }
                }
                length = if length.is_finite() { 0.25 * length } else { 1.0 / slope.norm() };
            }
            let floor = if self.width == WIDE { JUMPS } else { FLOOR };
            match next {
                // What is left is rounding, or jumps.
                Some((_, _, growth)) if growth > 0.5 && fresh && left <= floor * size => {
                    return found(&theta);
                }
                None if fresh => return if left <= floor * size { found(&theta) } else { None },
                None => (slope, fresh) = (both(&theta), true),
                Some((candidate, there, growth)) if dim <= FEW || growth > 0.5 => {
                    (theta, here) = (candidate, there);
                    (slope, fresh) = (both(&theta), true);
                }
                Some((candidate, there, _)) => {
                    let moved = &candidate - &theta;
                    let missed = &there - &here - &slope * &moved;
                    slope += missed * moved.transpose() / moved.norm_squared();
                    (theta, here, fresh) = (candidate, there, false);
                }
            }
        }
        None
    }

    /// Whether repeated minimisation, θ ← argmin f(·; θ), comes near a point from `start`, done as
    /// often as it takes; false where it was not seen to.
    pub fn minimisation_reaches(&self, start: &[f64], point: &[f64]) -> bool {
        let point = DVector::from_column_slice(point);
        let mut theta = DVector::from_column_slice(start);
        for _ in 0..MINIMISATIONS {
            if (&theta - &point).norm() <= NEAR * (1.0 + point.norm()) {
                return true;
            }
            let deployed = theta.clone();
            let next = newton::minimise(&theta, |at| {
                let at = DVector::from_column_slice(at);
                let Field { risk, gradient } = self.between(&at, &deployed);
                let hessian = self.slope(&at, &deployed, Moved::Model);
                let hessian = (&hessian + hessian.transpose()) * 0.5;
                Performative { risk, gradient, hessian }
            });
            let Some(next) = next else { return false };
            theta = next;
        }
        false
    }

    /// A local minimiser of f(θ; θ) reached from `start`.
    pub fn optimal(&self, start: &[f64]) -> Option<Vec<f64>> {
        let risk = |theta: &DVector<f64>| self.at(theta).risk;
        let gradient = |theta: &DVector<f64>| {
            let width = |j: usize| self.width * (1.0 + theta[j].abs());
            let places: Vec<Place> = (0..2 * theta.len())
                .map(|k| {
                    let (j, sign) = (k / 2, if k % 2 == 0 { 1.0 } else { -1.0 });
                    let mut moved = theta.clone();
                    moved[j] += sign * width(j);
                    Place { theta: moved.clone(), deployed: moved }
                })
                .collect();
            let fields = self.sample.fields(&places);
            let pairs = fields.chunks_exact(2).enumerate();
            let slopes = pairs.map(|(j, pair)| (pair[0].risk - pair[1].risk) / (2.0 * width(j)));
            DVector::from_iterator(theta.len(), slopes)
        };
        let start = DVector::from_column_slice(start);
        // Without what a reaction adds to it, which only shortens the way.
        let curvature = self.slope(&start, &start, Moved::Both);
        let found = quasi_newton::minimise(&start, &curvature, risk, gradient)?;
        Some(found.as_slice().to_vec())
    }
}
