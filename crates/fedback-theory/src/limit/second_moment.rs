//! One round acting on second moments: X = E(x xᵀ) of the error x before the round becomes
//!
//! T(X) = B̄ X B̄ᵀ + Σ Cov(c_k, c_l) D_k X D_lᵀ + Σ E(c_k²) N_k(X)
//!
//! after it, where client k's local steps multiply by B_k = I + D_k, c are the coefficients of the
//! cohort, B̄ = I + Σ E(c_k) D_k, and N_k is what batch noise that grows with the error adds (nothing
//! where gradients have constant derivatives). T maps positive semidefinite matrices to such, so that
//! its spectral radius is an eigenvalue with a semidefinite eigenmatrix.

use nalgebra::{DMatrix, DVector};

use super::{LocalMap, RoundMap};
use crate::spectrum;

/// Up to here T is written out as a matrix on symmetric matrices.
const MOST_COORDINATES: usize = 12;
/// Iterations with larger matrices.
const MOST_ITERATIONS: usize = 2000;

/// T at one step size.
pub(super) struct SecondMoment<'a> {
    map: &'a RoundMap,
    size: f64,
    /// B̄.
    gain: DMatrix<f64>,
    /// Σ E(c_k) D_k, or Σ E(c_k) B_k where models and not updates are averaged.
    total: DMatrix<f64>,
    /// D_k, or B_k, of the clients whose choice is random, with what multiplies its square; or
    /// Σ_k L_km D_k for every column of the covariance's factor.
    moves: Vec<(f64, DMatrix<f64>)>,
}

impl<'a> SecondMoment<'a> {
    pub(super) fn new(map: &'a RoundMap, size: f64) -> Self {
        let dim = map.dim;
        let identity = DMatrix::identity(dim, dim);
        let mut moved = DMatrix::zeros(dim, dim);
        let mut moves = Vec::new();
        if let Some(factor) = &map.factor {
            moves = vec![(1.0, DMatrix::zeros(dim, dim)); factor.ncols()];
        }
        for (place, client) in map.clients.iter().enumerate() {
            let own = map.local(client, size * client.scale);
            let delta = &own - &identity;
            moved += &delta * client.expected;
            if let Some(factor) = &map.factor {
                for (sum, part) in moves.iter_mut().zip(factor.row(place).iter()) {
                    sum.1 += &delta * *part;
                }
            } else if client.choice > 0.0 {
                moves.push((client.choice, if map.rescales { own } else { delta }));
            }
        }
        let gain = &identity + &moved;
        let total = if map.rescales { gain.clone() } else { moved };
        SecondMoment { map, size, gain, total, moves }
    }

    /// T(X).
    pub(super) fn apply(&self, x: &DMatrix<f64>) -> DMatrix<f64> {
        let mut sum = &self.gain * x * self.gain.transpose();
        if !self.moves.is_empty() {
            sum += &self.total * x * self.total.transpose() * self.map.pairs;
        }
        for (choice, own) in &self.moves {
            sum += own * x * own.transpose() * *choice;
        }
        for client in &self.map.clients {
            if let Some(noise) = self.noise(client, x) {
                sum += noise * client.square;
            }
        }
        sum
    }

    /// N_k(X): what E noisy local steps make of X beyond what their mean does.
    fn noise(&self, client: &LocalMap, x: &DMatrix<f64>) -> Option<DMatrix<f64>> {
        let multiplicative = client.noise.as_ref()?;
        let dim = self.map.dim;
        let size = self.size * client.scale;
        let step = self.map.step(client, size);
        let width = step.nrows();
        let blocks = width / dim;
        let mut state = DMatrix::from_fn(width, width, |j, k| x[(j % dim, k % dim)]);
        debug_assert!(blocks == 1 || blocks == 2);
        let mut added = DMatrix::zeros(width, width);
        for _ in 0..self.map.local_steps {
            let fresh = multiplicative.apply(&(&state + &added)) * (size * size);
            state = &step * state * step.transpose();
            added = &step * added * step.transpose();
            let mut place = added.view_mut((0, 0), (dim, dim));
            place += fresh;
        }
        Some(added.view((0, 0), (dim, dim)).into_owned())
    }

    /// The spectral radius of T.
    pub(super) fn radius(&self) -> Option<f64> {
        if !self.gain.iter().all(|entry| entry.is_finite()) {
            return None;
        }
        match self.map.dim <= MOST_COORDINATES {
            true => spectrum::radius(&self.dense()),
            false => self.iterated(),
        }
    }

    /// Y = T(Y) + W; none where T does not contract.
    pub(super) fn solve(&self, source: &DMatrix<f64>) -> Option<DMatrix<f64>> {
        let dim = self.map.dim;
        if dim <= MOST_COORDINATES {
            let dense = self.dense();
            let system = DMatrix::identity(dense.nrows(), dense.nrows()) - dense;
            let solved = system.lu().solve(&DVector::from_vec(packed(source)))?;
            return Some(unpacked(solved.as_slice(), dim));
        }
        let (mut sum, mut term) = (source.clone(), source.clone());
        for _ in 0..MOST_ITERATIONS {
            term = self.apply(&term);
            sum += &term;
            if term.norm() <= 1e-9 * sum.norm() {
                return Some(sum);
            }
        }
        None
    }

    /// T on symmetric matrices, by what it does to a basis of them.
    fn dense(&self) -> DMatrix<f64> {
        let dim = self.map.dim;
        let count = dim * (dim + 1) / 2;
        let mut matrix = DMatrix::zeros(count, count);
        let mut unit = vec![0.0; count];
        for column in 0..count {
            unit[column] = 1.0;
            let image = packed(&self.apply(&unpacked(&unit, dim)));
            matrix.column_mut(column).copy_from_slice(&image);
            unit[column] = 0.0;
        }
        matrix
    }

    /// Power iteration on T + τ, which has one dominant eigenvalue where T may have several of one
    /// modulus (a complex pair of B̄ gives three). The answer is the upper one of the bounds of Collatz
    /// and Wielandt: T(X) ≤ r X for a positive definite X proves a radius of at most r.
    fn iterated(&self) -> Option<f64> {
        let dim = self.map.dim;
        let mut x = DMatrix::<f64>::identity(dim, dim);
        let mut best = f64::INFINITY;
        for _ in 0..MOST_ITERATIONS {
            let image = self.apply(&x);
            let Some(factor) = x.clone().cholesky() else { break };
            let half = factor.l().solve_lower_triangular(&image)?;
            let ratio = factor.l().solve_lower_triangular(&half.transpose())?;
            let bounds = ((&ratio + ratio.transpose()) * 0.5).symmetric_eigenvalues();
            if !bounds.iter().all(|bound| bound.is_finite()) {
                return None;
            }
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

#[cfg(test)]
mod tests {
    use super::super::tests::{Problem, table};
    use super::*;
    use fedback_core::protocol::{Deploy, Scheme};

    /// Whatever the route, one radius: B̄ with complex eigenvalues, matrices that do not commute.
    #[test]
    fn power_iteration_agrees_with_the_written_out_matrix() {
        let problem = Problem {
            sensitivity: vec![
                vec![vec![0.4, 0.9], vec![-0.9, 0.4]],
                vec![vec![0.1, -2.0], vec![0.5, 0.3]],
                vec![vec![-0.5, 0.0], vec![0.7, -1.0]],
            ],
            scheme: Scheme::WithReplacement { cohort: 2 },
            local_steps: 3,
            ..Problem::default()
        };
        for deploy in [Deploy::Step, Deploy::Round] {
            let map = Problem { deploy, ..problem.clone() }.map();
            // Small steps have eigenvalues close together; what is left after all iterations is a bound.
            for (size, close) in [(0.01, 4e-3), (0.3, 1e-6), (0.9, 1e-6)] {
                let moment = SecondMoment::new(&map, size);
                let (dense, iterated) = (moment.radius().unwrap(), moment.iterated().unwrap());
                assert!(iterated - dense < close * dense, "{dense} {iterated}");
                assert!(iterated > dense - 1e-9 * dense, "no upper bound: {dense} {iterated}");
            }
        }
    }

    /// One client, two rows x = 1, 3 with squared loss and no reaction, two steps with batches of one:
    /// E Π (1 − η x²)² over the four orders of rows.
    #[test]
    fn batches_that_differ_count() {
        let (federation, protocol) = table(&[1.0, 3.0], &[0.0, 0.0], 0.0, 2);
        let map = RoundMap::new(&federation, &protocol, &[0.0]).unwrap();
        let eta = 0.15;
        let factor = |x: f64| (1.0 - eta * x * x) * (1.0 - eta * x * x);
        let expected = (0.5 * factor(1.0) + 0.5 * factor(3.0)).powi(2);
        assert!((map.mean_square_radius(eta).unwrap() - expected).abs() < 1e-12);
        // (1 − 5η)² + 16η² = 1 at η = 10/41; the mean alone allows η = 2/5.
        assert!((map.largest_step_in_mean_square().unwrap() - 10.0 / 41.0).abs() < 1e-5);
        assert!((map.largest_step().unwrap() - 0.4).abs() < 1e-9);
    }

    /// A best response: Σ over rows of the squared derivative of the row's own gradient, by finite
    /// differences of ℓ′(x̃θ) x̃ with x̃ = x − εθ.
    #[test]
    fn reacting_rows_count() {
        let (rows, labels, epsilon, theta, eta) =
            ([1.0, 2.0, -0.5], [1.0, 0.5, 2.0], 0.3, 0.4, 0.1);
        let (federation, protocol) = table(&rows, &labels, epsilon, 1);
        let map = RoundMap::new(&federation, &protocol, &[theta]).unwrap();
        let gradient = |x: f64, y: f64, t: f64| {
            let moved = x - epsilon * t;
            (moved * t - y) * moved
        };
        let h = 1e-5;
        let expected = rows.iter().zip(labels).map(|(x, y)| {
            let slope = (gradient(*x, y, theta + h) - gradient(*x, y, theta - h)) / (2.0 * h);
            (1.0 - eta * slope).powi(2) / 3.0
        });
        let expected: f64 = expected.sum();
        assert!((map.mean_square_radius(eta).unwrap() - expected).abs() < 1e-8);
    }
}
