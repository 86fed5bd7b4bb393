//! Every observation of a client moves by the same vector: z = z0 + M_i θ, or, where reactions saturate,
//! z = z0 + limit · tanh(M_i θ / limit) by coordinate.
//!
//! [`Shift`] holds the maps of all clients in the smallest form that fits, because a million clients
//! have a million of them.

use nalgebra::DMatrix;

use crate::federation::{ClientId, range_of};
use crate::misfit::Misfit;

/// The maps of all clients.
#[derive(Clone, Debug)]
pub enum Shift {
    /// Nothing reacts.
    None,
    /// M_i = sensitivity_i · diag(pattern).
    Scaled {
        /// One number per client.
        sensitivity: Vec<f64>,
        /// One number a coordinate.
        pattern: Vec<f64>,
    },
    /// M_i = diag(row i).
    Diagonal {
        /// Coordinates a client.
        dim: usize,
        /// Client after client.
        values: Vec<f64>,
    },
    /// M_i in full.
    Matrix {
        /// Rows and columns a client.
        dim: usize,
        /// Client after client, row after row.
        values: Vec<f64>,
    },
    /// limit · tanh(M_i θ / limit).
    Saturating {
        /// M_i.
        of: Box<Shift>,
        /// How far a coordinate moves at most.
        limit: f64,
    },
}

impl Shift {
    /// Refuses maps that are not one per client, from θ's `dim` coordinates to an observation's
    /// `width`.
    pub(crate) fn check(&self, clients: usize, width: usize, dim: usize) -> Result<(), Misfit> {
        let fail = |reason: String| Err(Misfit::new("problem.response.sensitivity", reason));
        // Maps of these forms are square.
        let (numbers, each, side) = match self {
            Shift::None => return Ok(()),
            Shift::Scaled { sensitivity, pattern } => (sensitivity, 1, pattern.len()),
            Shift::Diagonal { dim, values } => (values, *dim, *dim),
            Shift::Matrix { dim, values } => (values, dim * dim, *dim),
            Shift::Saturating { of, limit } => {
                if !(limit.is_finite() && *limit > 0.0) {
                    let why = format!("found {limit}; allowed: above 0");
                    return Err(Misfit::new("problem.response.limit", why));
                }
                return of.check(clients, width, dim);
            }
        };
        if side != width || side != dim {
            return fail(format!(
                "maps of {side} coordinates; an observation has {width}, θ has {dim}"
            ));
        }
        if numbers.len() != clients * each {
            let found = numbers.len();
            return fail(format!("{found} numbers; needed: {each} for each of {clients} clients"));
        }
        let pattern = match self {
            Shift::Scaled { pattern, .. } => pattern.as_slice(),
            Shift::None
            | Shift::Diagonal { .. }
            | Shift::Matrix { .. }
            | Shift::Saturating { .. } => &[],
        };
        match numbers.iter().chain(pattern).find(|number| !number.is_finite()) {
            None => Ok(()),
            Some(wrong) => fail(format!("found {wrong}; allowed: finite numbers")),
        }
    }

    /// Writes how far θ moves a client's observations to `out`.
    #[inline(always)]
    pub fn apply(&self, client: usize, theta: &[f64], out: &mut [f64]) {
        let dim = theta.len();
        match self {
            Shift::None => out.fill(0.0),
            Shift::Matrix { values, .. } => {
                let rows = values[client * dim * dim..][..dim * dim].chunks_exact(dim);
                for (out, row) in out.iter_mut().zip(rows) {
                    *out = row.iter().zip(theta).map(|(m, t)| m * t).sum();
                }
            }
            Shift::Scaled { sensitivity, pattern } => {
                let factor = sensitivity[client];
                for ((out, p), theta) in out.iter_mut().zip(pattern).zip(theta) {
                    *out = factor * p * theta;
                }
            }
            Shift::Diagonal { values, .. } => {
                let diagonal = &values[client * dim..][..dim];
                for ((out, value), theta) in out.iter_mut().zip(diagonal).zip(theta) {
                    *out = value * theta;
                }
            }
            Shift::Saturating { of, limit } => {
                of.apply(client, theta, out);
                out.iter_mut().for_each(|out| *out = limit * tanh(*out / limit));
            }
        }
    }

    /// Whether it is a linear map of θ.
    pub fn is_linear(&self) -> bool {
        !matches!(self, Shift::Saturating { .. })
    }

    /// The derivative of the move in θ.
    pub fn derivative(&self, client: usize, theta: &[f64]) -> DMatrix<f64> {
        match self {
            Shift::Saturating { of, limit } => {
                let mut moved = vec![0.0; theta.len()];
                self.apply(client, theta, &mut moved);
                let mut matrix = of.derivative(client, theta);
                for (mut row, moved) in matrix.row_iter_mut().zip(moved) {
                    row *= 1.0 - (moved / limit) * (moved / limit);
                }
                matrix
            }
            Shift::None | Shift::Scaled { .. } | Shift::Diagonal { .. } | Shift::Matrix { .. } => {
                self.matrix(client, theta.len())
            }
        }
    }

    /// The j-th diagonal entry of M_i, the derivative at zero.
    #[inline(always)]
    pub fn diagonal(&self, client: usize, j: usize) -> f64 {
        match self {
            Shift::None => 0.0,
            Shift::Scaled { sensitivity, pattern } => sensitivity[client] * pattern[j],
            Shift::Diagonal { dim, values } => values[client * dim + j],
            Shift::Matrix { dim, values } => values[(client * dim + j) * dim + j],
            Shift::Saturating { of, .. } => of.diagonal(client, j),
        }
    }

    /// Writes the j-th diagonal entry of the M_i of each client, in the order of their ids.
    pub fn diagonal_of(&self, clients: &[ClientId], j: usize, out: &mut [f64]) {
        let each = out.iter_mut().zip(clients.iter().map(|client| client.0 as usize));
        match self {
            Shift::None => out.fill(0.0),
            Shift::Scaled { sensitivity, pattern } => {
                let factor = pattern[j];
                match range_of(clients) {
                    Some(range) => out
                        .iter_mut()
                        .zip(&sensitivity[range])
                        .for_each(|(out, sensitivity)| *out = sensitivity * factor),
                    None => each.for_each(|(out, client)| *out = sensitivity[client] * factor),
                }
            }
            Shift::Diagonal { dim, values } => {
                each.for_each(|(out, client)| *out = values[client * dim + j]);
            }
            Shift::Matrix { .. } | Shift::Saturating { .. } => {
                each.for_each(|(out, client)| *out = self.diagonal(client, j));
            }
        }
    }

    /// Writes the diagonal entries of one M_i from the j-th on.
    pub fn diagonal_from(&self, client: usize, j: usize, out: &mut [f64]) {
        match self {
            Shift::None => out.fill(0.0),
            Shift::Scaled { sensitivity, pattern } => {
                let factor = sensitivity[client];
                out.iter_mut().zip(&pattern[j..]).for_each(|(out, p)| *out = factor * p);
            }
            Shift::Diagonal { dim, values } => {
                out.copy_from_slice(&values[client * dim + j..][..out.len()]);
            }
            Shift::Matrix { .. } | Shift::Saturating { .. } => {
                out.iter_mut().zip(j..).for_each(|(out, j)| *out = self.diagonal(client, j));
            }
        }
    }

    /// Whether every M_i is diagonal in form, and all there is.
    pub fn is_diagonal(&self) -> bool {
        !matches!(self, Shift::Matrix { .. } | Shift::Saturating { .. })
    }

    /// M_i, the derivative at zero, as a matrix.
    pub fn matrix(&self, client: usize, dim: usize) -> DMatrix<f64> {
        match self {
            Shift::Matrix { values, .. } => {
                DMatrix::from_row_slice(dim, dim, &values[client * dim * dim..][..dim * dim])
            }
            Shift::Saturating { of, .. } => of.matrix(client, dim),
            Shift::None | Shift::Scaled { .. } | Shift::Diagonal { .. } => DMatrix::from_fn(
                dim,
                dim,
                |j, k| {
                    if j == k { self.diagonal(client, j) } else { 0.0 }
                },
            ),
        }
    }

    /// The declared sensitivity ε_i: the largest singular value of M_i, which is the Lipschitz
    /// constant of θ ↦ D_i(θ) in the Wasserstein distance W₁.
    pub fn sensitivity(&self, client: usize, dim: usize) -> f64 {
        match self {
            Shift::Matrix { .. } => self.matrix(client, dim).singular_values().max(),
            Shift::Saturating { of, .. } => of.sensitivity(client, dim),
            Shift::None | Shift::Scaled { .. } | Shift::Diagonal { .. } => {
                (0..dim).map(|j| self.diagonal(client, j).abs()).fold(0.0, f64::max)
            }
        }
    }

    /// ε_i with the sign of M_i: positive where data follow θ in every coordinate that moves, negative
    /// where they move against it; none where coordinates differ, or mix.
    pub fn signed_sensitivity(&self, client: usize, dim: usize) -> Option<f64> {
        let entries = || (0..dim).map(|j| self.diagonal(client, j));
        let sign = match (entries().any(|m| m > 0.0), entries().any(|m| m < 0.0)) {
            (true, true) => return None,
            (_, against) => {
                if against {
                    -1.0
                } else {
                    1.0
                }
            }
        };
        let mixes = match self {
            Shift::Saturating { of, .. } => !of.is_diagonal(),
            Shift::None | Shift::Scaled { .. } | Shift::Diagonal { .. } | Shift::Matrix { .. } => {
                !self.is_diagonal()
            }
        };
        (!mixes).then(|| sign * self.sensitivity(client, dim))
    }
}

/// tanh, with the same bits on every machine.
#[inline(always)]
fn tanh(x: f64) -> f64 {
    libm::tanh(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_agree() {
        let scaled = Shift::Scaled { sensitivity: vec![9.0, -0.5], pattern: vec![1.0, 0.0, 1.0] };
        let diagonal = Shift::Diagonal { dim: 3, values: vec![9.0, 0.0, 9.0, -0.5, 0.0, -0.5] };
        let matrix = Shift::Matrix {
            dim: 3,
            values: (0..2)
                .flat_map(|i| diagonal.matrix(i, 3).transpose().as_slice().to_vec())
                .collect(),
        };
        let theta = [2.0, 3.0, -1.0];
        for shift in [scaled, diagonal, matrix] {
            let mut out = [f64::NAN; 3];
            shift.apply(1, &theta, &mut out);
            assert_eq!(out, [-1.0, 0.0, 0.5]);
            assert!((shift.sensitivity(1, 3) - 0.5).abs() < 1e-15);
            assert!((shift.sensitivity(0, 3) - 9.0).abs() < 1e-14);
        }
    }

    /// The declared sensitivity bounds how far any two deployments move an observation apart, and is
    /// reached.
    #[test]
    fn declared_sensitivity_is_a_tight_bound() {
        let shift = Shift::Matrix { dim: 2, values: vec![0.3, -1.2, 0.8, 0.5] };
        let declared = shift.sensitivity(0, 2);
        let mut largest = 0.0f64;
        for k in 0..1000 {
            let angle = k as f64 * std::f64::consts::PI / 1000.0;
            let mut moved = [0.0; 2];
            shift.apply(0, &[angle.cos(), angle.sin()], &mut moved);
            largest = largest.max(moved[0].hypot(moved[1]));
        }
        assert!(largest <= declared + 1e-12 && largest > 0.999 * declared);
    }

    #[test]
    fn matrices_keep_their_orientation() {
        let shift = Shift::Matrix { dim: 2, values: vec![1.0, 2.0, 3.0, 4.0] };
        let mut out = [0.0; 2];
        shift.apply(0, &[1.0, 10.0], &mut out);
        assert_eq!(out, [21.0, 43.0]);
        assert_eq!(shift.matrix(0, 2)[(0, 1)], 2.0);
    }

    #[test]
    fn a_sensitivity_has_a_sign_where_all_coordinates_move_one_way() {
        let scaled = Shift::Scaled { sensitivity: vec![9.0, -0.5], pattern: vec![1.0, 0.0] };
        assert_eq!([0, 1].map(|i| scaled.signed_sensitivity(i, 2)), [Some(9.0), Some(-0.5)]);
        let mixed = Shift::Diagonal { dim: 2, values: vec![-0.5, 0.2, -0.5, -0.7] };
        assert_eq!([0, 1].map(|i| mixed.signed_sensitivity(i, 2)), [None, Some(-0.7)]);
        let turned = Shift::Matrix { dim: 2, values: vec![0.0, 1.0, 0.0, 0.0] };
        assert_eq!(turned.signed_sensitivity(0, 2), None);
        assert_eq!(Shift::None.signed_sensitivity(0, 2), Some(0.0));
    }
}
