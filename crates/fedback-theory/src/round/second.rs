//! What rounds of one kind lead to: radii, places of rest, many rounds at once.
//!
//! A round takes the second moment X = E(y yᵀ) of errors to T(X) = B̄ X B̄ᵀ + Σ Cov(z_k, z_l) C_k X C_lᵀ + what
//! noise that grows with the error adds. T maps positive semidefinite matrices to such, so that its
//! spectral radius is an eigenvalue with a semidefinite eigenmatrix. Rounds of one step size rest at
//! the fixed point b = (I − B̄)⁻¹ b̄ of the mean, with the covariance Y = T(Y) + what chance and noise add there.
//! With a one below the state, Z = E((y, 1)(y, 1)ᵀ), a whole round is linear, and so are 2, 4, 8, … of them.

use nalgebra::{DMatrix, DVector};

use super::block::Block;
use super::{Part, Rounds};
use crate::cohort::Chance;
use crate::spectrum;

/// Up to here T is written out as a matrix on symmetric matrices.
const MOST_COORDINATES: usize = 12;
/// Iterations with larger matrices.
const MOST_ITERATIONS: usize = 2000;
/// Squarings after which nothing is left of what contracts.
const SQUARINGS: usize = 60;

/// Where rounds end: the model's mean error and its covariance.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pub(crate) bias: DVector<f64>,
    pub(crate) covariance: DMatrix<f64>,
}

/// What rounds like the prepared one lead to.
pub(crate) trait Second {
    /// What they multiply mean errors with in the long run.
    fn radius(&self) -> Option<f64>;
    /// The same for second moments.
    fn square_radius(&self, chance: Chance) -> Option<f64>;
    /// Where they end.
    fn rest(&self, chance: Chance) -> Option<Rest>;
    /// Many of them.
    fn leap(&self, chance: Chance) -> Leap;
}

impl Second for Rounds<f64, f64> {
    fn radius(&self) -> Option<f64> {
        Some(self.expected.map.abs()).filter(|radius| radius.is_finite())
    }

    fn square_radius(&self, chance: Chance) -> Option<f64> {
        Some(self.carry(chance, &1.0)).filter(|radius| radius.is_finite())
    }

    fn rest(&self, chance: Chance) -> Option<Rest> {
        let bias = self.expected.shift / (1.0 - self.expected.map);
        let variance = self.source(chance, &bias, None) / (1.0 - self.carry(chance, &1.0));
        Some(Rest {
            bias: DVector::from_element(1, bias),
            covariance: DMatrix::from_element(1, 1, variance),
        })
    }

    fn leap(&self, chance: Chance) -> Leap {
        let (drawn, share, noise) = match chance {
            Some((draw, share)) => (self.drawn[draw].0, share, self.drawn[draw].1),
            None => Default::default(),
        };
        let (gain, drift) = (self.expected.map, self.expected.shift);
        Leap::Numbers(Numbers {
            gain,
            drift,
            factor: gain * gain + share * drawn.square,
            square: share * drawn.square,
            cross: share * drawn.cross,
            constant: self.expected.noise + share * (drawn.constant + noise),
        })
    }
}

impl<T: Block> Second for Rounds<T, DMatrix<f64>> {
    fn radius(&self) -> Option<f64> {
        spectrum::radius(&self.expected.map)
    }

    fn square_radius(&self, chance: Chance) -> Option<f64> {
        if !self.expected.map.iter().all(|entry| entry.is_finite()) {
            return None;
        }
        if !self.is_random(chance) {
            return spectrum::radius(&self.expected.map).map(|radius| radius * radius);
        }
        match self.frame.width() <= MOST_COORDINATES {
            true => spectrum::radius(&self.dense(chance)),
            false => self.iterated(chance),
        }
    }

    fn rest(&self, chance: Chance) -> Option<Rest> {
        let width = self.frame.width();
        let system = DMatrix::identity(width, width) - &self.expected.map;
        let bias = system.lu().solve(&self.expected.shift)?;
        let source = match self.clients.iter().any(|client| client.grows.is_some()) {
            true => self.noisier(&bias).source(chance, &bias, None),
            false => self.source(chance, &bias, None),
        };
        let covariance = self.solve(chance, source)?;
        let dim = self.frame.dim;
        Some(Rest {
            bias: DVector::from_column_slice(&bias.as_slice()[..dim]),
            covariance: covariance.view((0, 0), (dim, dim)).into_owned(),
        })
    }

    fn leap(&self, chance: Chance) -> Leap {
        let width = self.frame.width() + 1;
        let augmented = |map: &DMatrix<f64>, shift: &DMatrix<f64>| {
            let mut whole = DMatrix::zeros(width - 1, width);
            whole.columns_mut(0, width - 1).copy_from(map);
            whole.column_mut(width - 1).copy_from(&shift.column(0));
            whole
        };
        let expected = augmented(&self.expected.map, &self.expected.shift);
        let mut noise = self.expected.noise.clone();
        let mut pairs = Vec::new();
        if let Some((draw, share)) = chance {
            let (drawn, more) = &self.drawn[draw];
            noise += more * share;
            let pair = |[left, l, right, r]: &[DMatrix<f64>; 4]| {
                (augmented(left, l) * share, augmented(right, r))
            };
            pairs.extend(drawn.iter().map(pair));
        }
        let operator = linear(width, |z| {
            let mut second =
                &expected * z * expected.transpose() + &noise * z[(width - 1, width - 1)];
            pairs.iter().for_each(|(left, right)| second += left * z * right.transpose());
            let mean = &expected * z.column(width - 1);
            let mut image = z.clone();
            image.view_mut((0, 0), (width - 1, width - 1)).copy_from(&second);
            image.view_mut((0, width - 1), (width - 1, 1)).copy_from(&mean);
            image
        });
        Leap::Matrix { dim: self.frame.dim, width: width - 1, operator }
    }
}

impl<T: Block> Rounds<T, DMatrix<f64>> {
    /// Whether the map of a round is random, and not only what it adds.
    fn is_random(&self, chance: Chance) -> bool {
        chance.is_some() || self.clients.iter().any(|client| client.grows.is_some())
    }

    /// T(X).
    fn apply(&self, chance: Chance, second: &DMatrix<f64>) -> DMatrix<f64> {
        let carried = self.carry(chance, second);
        match self.grown(chance, second) {
            Some(grown) => carried + grown,
            None => carried,
        }
    }

    /// T on symmetric matrices, by what it does to a basis of them.
    fn dense(&self, chance: Chance) -> DMatrix<f64> {
        linear(self.frame.width(), |x| self.apply(chance, x))
    }

    /// The same rounds with the noise that gradients have at a state.
    fn noisier(&self, state: &DMatrix<f64>) -> Self {
        let mut noisier = self.clone();
        for (k, client) in noisier.clients.iter_mut().enumerate() {
            let Some(grows) = &client.grows else { continue };
            let (dim, start) = (client.dim, self.frame.start(k) * state);
            let seen = DMatrix::from_fn(grows.width(), 1, |j, _| start[j % dim]);
            let more = grows.apply(&(&seen * seen.transpose()));
            client.noise.add(1.0, &T::of_slice(dim, dim, more.as_slice()));
        }
        noisier.prepare(&self.sizes, true);
        noisier
    }

    /// Y = T(Y) + W; none where T does not contract.
    fn solve(&self, chance: Chance, source: DMatrix<f64>) -> Option<DMatrix<f64>> {
        let width = self.frame.width();
        if !self.is_random(chance) {
            return geometric(&self.expected.map, source);
        }
        if width <= MOST_COORDINATES {
            let dense = self.dense(chance);
            let system = DMatrix::identity(dense.nrows(), dense.nrows()) - dense;
            let solved = system.lu().solve(&DVector::from_vec(packed(&source)))?;
            return Some(unpacked(solved.as_slice(), width));
        }
        let (mut sum, mut term) = (source.clone(), source);
        for _ in 0..MOST_ITERATIONS {
            term = self.apply(chance, &term);
            sum += &term;
            if term.norm() <= 1e-9 * sum.norm() {
                return Some(sum);
            }
        }
        None
    }

    /// Power iteration on T + τ, which has one dominant eigenvalue where T may have several of one
    /// modulus (a complex pair of B̄ gives three). The answer is the upper one of the bounds of Collatz
    /// and Wielandt: T(X) ≤ r X for a positive definite X proves a radius of at most r.
    fn iterated(&self, chance: Chance) -> Option<f64> {
        let width = self.frame.width();
        let mut x = DMatrix::<f64>::identity(width, width);
        let mut best = f64::INFINITY;
        for _ in 0..MOST_ITERATIONS {
            let image = self.apply(chance, &x);
            let Some(factor) = x.clone().cholesky() else { break };
            let half = factor.l().solve_lower_triangular(&image)?;
            let ratio = factor.l().solve_lower_triangular(&half.transpose())?;
            if !ratio.iter().all(|entry| entry.is_finite()) {
                return None;
            }
            let bounds = ((&ratio + ratio.transpose()) * 0.5).symmetric_eigenvalues();
            best = best.min(bounds.max());
            if bounds.max() - bounds.min() <= 1e-9 * (1.0 + best) {
                break;
            }
            x = &x * (0.2 * best) + image;
            x /= x.norm();
        }
        best.is_finite().then_some(best)
    }
}

/// Σ Bᵏ W Bᵏᵀ, by doubling; none where B does not contract.
pub(super) fn geometric(map: &DMatrix<f64>, source: DMatrix<f64>) -> Option<DMatrix<f64>> {
    let (mut power, mut sum) = (map.clone(), source);
    for _ in 0..SQUARINGS {
        let more = power.around(&sum);
        if !more.iter().all(|entry| entry.is_finite()) {
            return None;
        }
        sum += &more;
        if more.norm() <= 1e-16 * sum.norm() {
            return Some(sum);
        }
        power = &power * &power;
    }
    None
}

/// A linear map of symmetric matrices, by what it does to a basis of them.
fn linear(dim: usize, map: impl Fn(&DMatrix<f64>) -> DMatrix<f64>) -> DMatrix<f64> {
    let count = dim * (dim + 1) / 2;
    let mut matrix = DMatrix::zeros(count, count);
    let mut unit = vec![0.0; count];
    for column in 0..count {
        unit[column] = 1.0;
        matrix.column_mut(column).copy_from_slice(&packed(&map(&unpacked(&unit, dim))));
        unit[column] = 0.0;
    }
    matrix
}

/// The upper triangle, column after column.
fn packed(matrix: &DMatrix<f64>) -> Vec<f64> {
    let dim = matrix.nrows();
    (0..dim).flat_map(|k| (0..=k).map(move |j| matrix[(j, k)])).collect()
}

fn unpacked(values: &[f64], dim: usize) -> DMatrix<f64> {
    DMatrix::from_fn(dim, dim, |j, k| {
        let (low, high) = (j.min(k), j.max(k));
        values[high * (high + 1) / 2 + low]
    })
}

/// Some rounds of one kind at once.
#[derive(Clone, Debug)]
pub(crate) enum Leap {
    /// Of a number.
    Numbers(Numbers),
    /// Of a state of so many numbers, the model's first, with a one below it.
    Matrix { dim: usize, width: usize, operator: DMatrix<f64> },
}

/// m ← g m + d, V ← f V + s m² + 2 c m + k.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numbers {
    gain: f64,
    drift: f64,
    factor: f64,
    square: f64,
    cross: f64,
    constant: f64,
}

impl Leap {
    /// Twice as many rounds.
    pub(crate) fn doubled(&self) -> Leap {
        match self {
            Leap::Matrix { dim, width, operator } => {
                Leap::Matrix { dim: *dim, width: *width, operator: operator * operator }
            }
            Leap::Numbers(Numbers { gain, drift, factor, square, cross, constant }) => {
                Leap::Numbers(Numbers {
                    gain: gain * gain,
                    drift: gain * drift + drift,
                    factor: factor * factor,
                    square: factor * square + square * gain * gain,
                    cross: factor * cross + square * gain * drift + cross * gain,
                    constant: factor * constant + (square * drift + 2.0 * cross) * drift + constant,
                })
            }
        }
    }

    /// The largest share by which one round changes errors.
    pub(crate) fn change(&self) -> f64 {
        match self {
            Leap::Numbers(numbers) => (1.0 - numbers.gain).abs().max((1.0 - numbers.factor).abs()),
            Leap::Matrix { operator, .. } => {
                let count = operator.nrows();
                (DMatrix::identity(count, count) - operator).amax()
            }
        }
    }

    /// Moves a mean and a spread, and returns the model's variance.
    pub(crate) fn apply(
        &self,
        (mean, spread): (&[f64], &[f64]),
        (mean_after, spread_after): (&mut [f64], &mut [f64]),
    ) -> f64 {
        match self {
            Leap::Numbers(Numbers { gain, drift, factor, square, cross, constant }) => {
                let m = mean[0];
                let source = (square * m + 2.0 * cross) * m + constant;
                spread_after[0] = factor * spread[0] + source.max(0.0);
                mean_after[0] = gain * m + drift;
                spread_after[0]
            }
            Leap::Matrix { dim, width, operator } => {
                let entry = |j: usize, k: usize| match (j < *width, k < *width) {
                    (true, true) => spread[k * width + j] + mean[j] * mean[k],
                    (true, false) => mean[j],
                    (false, true) => mean[k],
                    (false, false) => 1.0,
                };
                let z = DMatrix::from_fn(width + 1, width + 1, entry);
                let moved = operator * DVector::from_vec(packed(&z));
                let z = unpacked(moved.as_slice(), width + 1);
                (0..*width).for_each(|j| mean_after[j] = z[(j, *width)]);
                for k in 0..*width {
                    for j in 0..*width {
                        spread_after[k * width + j] = z[(j, k)] - mean_after[j] * mean_after[k];
                    }
                }
                (0..*dim).map(|j| spread_after[j * width + j]).sum()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Client;
    use super::super::frame::Frame;
    use super::*;
    use crate::cohort::Cohorts;
    use fedback_core::base::{Base, Gaussian};
    use fedback_core::federation::Federation;
    use fedback_core::loss::Loss;
    use fedback_core::protocol::{Deploy, Protocol, Scheme, StepSize};
    use fedback_core::response::{Sensitivity, location};

    /// Matrices that do not commute, and an expected round with complex eigenvalues.
    fn mixing(deploy: Deploy) -> Rounds<DMatrix<f64>, DMatrix<f64>> {
        let sensitivity = vec![
            vec![vec![0.4, 0.9], vec![-0.9, 0.4]],
            vec![vec![0.1, -2.0], vec![0.5, 0.3]],
            vec![vec![-0.5, 0.0], vec![0.7, -1.0]],
        ];
        let mean = vec![1.0, 2.0, 5.0, 5.0, 2.0, 1.0];
        let federation = Federation::new(
            vec![1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0],
            Base::Gaussian(Gaussian { dim: 2, mean, noise: 1.0 }),
            location(&Sensitivity::Matrix(sensitivity), 2, false),
            Loss::Mean,
        )
        .unwrap();
        let scheme = Scheme::WithReplacement { cohort: 2 };
        let usual = Protocol::p_fedavg(scheme, 3, StepSize::Constant(0.2));
        let protocol = Protocol { deploy, ..usual };
        let client = |i| Client::linearised(&federation, &protocol, i, &[0.0, 0.0]);
        let frame = Frame { dim: 2, momentum: None, kept: None, origin: None };
        let cohorts = Cohorts::of(federation.weights(), &protocol, None);
        Rounds::new((0..3).map(client).collect(), frame, &Arc::new(cohorts))
    }

    /// Whatever the route, one radius.
    #[test]
    fn power_iteration_agrees_with_the_written_out_matrix() {
        for deploy in [Deploy::Step, Deploy::Round] {
            let mut rounds = mixing(deploy);
            let chance = rounds.cohorts.schemes[0];
            // Small steps have eigenvalues close together; what is left after all iterations is a bound.
            for (size, close) in [(0.01, 4e-3), (0.3, 1e-6), (0.9, 1e-6)] {
                rounds.prepare(&[size; 3], true);
                let dense = rounds.square_radius(chance).unwrap();
                let iterated = rounds.iterated(chance).unwrap();
                assert!(iterated - dense < close * dense, "{dense} {iterated}");
                assert!(iterated > dense - 1e-9 * dense, "no upper bound: {dense} {iterated}");
            }
        }
    }

    /// 2³ rounds of numbers, by hand.
    #[test]
    fn a_leap_is_so_many_rounds() {
        let (gain, drift, factor, square, cross, constant) =
            (0.99, 0.02, 0.985, 0.001, -0.002, 0.03);
        let round = Leap::Numbers(Numbers { gain, drift, factor, square, cross, constant });
        let (mut mean, mut variance) = (3.0f64, 0.5f64);
        for _ in 0..8 {
            variance = factor * variance + square * mean * mean + 2.0 * cross * mean + constant;
            mean = gain * mean + drift;
        }
        let (mut after, mut spread) = ([0.0], [0.0]);
        let leap = round.doubled().doubled().doubled();
        let total = leap.apply((&[3.0], &[0.5]), (&mut after, &mut spread));
        assert!((after[0] - mean).abs() < 1e-13, "{after:?} {mean}");
        assert!((spread[0] - variance).abs() < 1e-13 && total == spread[0], "{total} {variance}");
    }

    /// The same of matrices, against rounds one by one.
    #[test]
    fn a_leap_of_matrices_is_so_many_rounds() {
        for deploy in [Deploy::Step, Deploy::Round] {
            let mut rounds = mixing(deploy);
            let chance = rounds.cohorts.schemes[0];
            rounds.prepare(&[0.2; 3], true);
            let start = (vec![3.0, -2.0], vec![0.5, 0.1, 0.1, 0.8]);
            let (mut mean, mut spread) = start.clone();
            let mut variance = 0.0;
            for _ in 0..8 {
                let (mut next, mut wider) = ([0.0; 2], [0.0; 4]);
                variance = rounds.spread(chance, &mean, None, &spread, &mut wider);
                rounds.mean(&mean, &mut next);
                (mean, spread) = (next.to_vec(), wider.to_vec());
            }
            let leap = rounds.leap(chance).doubled().doubled().doubled();
            let (mut after, mut wider) = ([0.0; 2], [0.0; 4]);
            let total = leap.apply((&start.0, &start.1), (&mut after, &mut wider));
            assert!((total - variance).abs() < 1e-12 * variance, "{total} {variance}");
            after.iter().zip(&mean).for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
            wider.iter().zip(&spread).for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
        }
    }
}
