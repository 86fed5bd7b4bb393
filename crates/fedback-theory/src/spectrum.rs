//! Eigenvalues of small general matrices.

use nalgebra::{Complex, DMatrix, DVector, Schur};

/// All eigenvalues in a unit, and that unit; none where the iteration does not settle or an entry is
/// not finite.
fn eigenvalues(matrix: &DMatrix<f64>) -> Option<(Vec<Complex<f64>>, f64)> {
    if !matrix.iter().all(|entry| entry.is_finite()) {
        return None;
    }
    if matrix.nrows() == 1 {
        return Some((vec![Complex::new(matrix[(0, 0)], 0.0)], 1.0));
    }
    let unit = unit(matrix);
    let matrix = matrix / unit;
    // The iteration compares entries with the diagonal beside them, and finds no end where
    // eigenvalues crowd around zero; away from zero it does.
    let size = matrix.amax();
    let found = [0.0, size, -2.0 * size].into_iter().find_map(|shift| shifted(&matrix, shift));
    Some((found?, unit))
}

/// What to measure entries in so that their squares and sums can be represented: a power of two, and
/// one wherever they can be anyway.
fn unit(matrix: &DMatrix<f64>) -> f64 {
    let size = matrix.amax();
    match size == 0.0 || (1e-100..1e100).contains(&size) {
        true => 1.0,
        false => libm::exp2(libm::floor(libm::log2(size))),
    }
}

/// The eigenvalues by way of those of the matrix plus a multiple of the identity.
fn shifted(matrix: &DMatrix<f64>, shift: f64) -> Option<Vec<Complex<f64>>> {
    let mut moved = matrix.clone();
    (0..matrix.nrows()).for_each(|j| moved[(j, j)] += shift);
    let schur = Schur::try_new(moved, f64::EPSILON, SWEEPS * matrix.nrows())?;
    Some(schur.complex_eigenvalues().iter().map(|value| value - shift).collect())
}

/// The largest modulus of an eigenvalue.
pub(crate) fn radius(matrix: &DMatrix<f64>) -> Option<f64> {
    let largest = |(values, unit): (Vec<Complex<f64>>, f64)| {
        unit * values.iter().map(|l| l.norm_sqr().sqrt()).fold(0.0, f64::max)
    };
    let finite = matrix.iter().all(|entry| entry.is_finite());
    eigenvalues(matrix).map(largest).or_else(|| finite.then(|| growth(matrix)))
}

/// The radius as the limit of |Aᵏ|^(1/k) (Gelfand), by repeated squaring: slower and, where the radius
/// is far below the norm, less exact than eigenvalues, but there is nothing to converge.
fn growth(matrix: &DMatrix<f64>) -> f64 {
    let unit = unit(matrix);
    let (mut power, mut log, mut share) = (matrix / unit, 0.0, 1.0);
    for _ in 0..SQUARINGS {
        let size = power.norm();
        if size == 0.0 {
            return 0.0;
        }
        log += share * libm::log(size);
        power /= size;
        power = &power * &power;
        share *= 0.5;
    }
    unit * libm::exp(log)
}

/// Sweeps for each eigenvalue; where these do not do, many more do not either.
const SWEEPS: usize = 30;
/// The power that the last of them reaches is 2⁴⁰.
const SQUARINGS: usize = 40;

/// The smallest real part of an eigenvalue.
pub(crate) fn smallest_real_part(matrix: &DMatrix<f64>) -> Option<f64> {
    let smallest = |(values, unit): (Vec<Complex<f64>>, f64)| {
        unit * values.iter().map(|l| l.re).fold(f64::INFINITY, f64::min)
    };
    let finite = matrix.iter().all(|entry| entry.is_finite());
    eigenvalues(matrix).map(smallest).or_else(|| finite.then(|| decay(matrix)))
}

/// The same as what exp(−A) grows by, where the iteration finds no end, as where eigenvalues that are
/// one differ by rounding.
fn decay(matrix: &DMatrix<f64>) -> f64 {
    let size = matrix.norm();
    let small = matrix / -size;
    let mut term = DMatrix::identity(matrix.nrows(), matrix.nrows());
    let mut sum = term.clone();
    for n in 1..=TERMS {
        term = term * &small / n as f64;
        sum += &term;
    }
    -size * libm::log(growth(&sum))
}

/// Terms of the exponential of a matrix of norm one: what follows is below rounding.
const TERMS: usize = 20;

/// The eigenvalues of a symmetric matrix in units of L Lᵀ; none where they are not finite.
pub(crate) fn relative(matrix: &DMatrix<f64>, half: &DMatrix<f64>) -> Option<DVector<f64>> {
    let once = half.solve_lower_triangular(matrix)?;
    let ratio = half.solve_lower_triangular(&once.transpose())?;
    let finite = ratio.iter().all(|entry| entry.is_finite());
    finite.then(|| ((&ratio + ratio.transpose()) * 0.5).symmetric_eigenvalues())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_the_radius() {
        let rotation = DMatrix::from_row_slice(2, 2, &[3.0, -4.0, 4.0, 3.0]);
        let triangle =
            DMatrix::from_row_slice(3, 3, &[0.5, 9.0, 1.0, 0.0, -0.7, 3.0, 0.0, 0.0, 0.1]);
        for matrix in [rotation, triangle] {
            let (found, expected) = (growth(&matrix), radius(&matrix).unwrap());
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
        }
        assert_eq!(growth(&DMatrix::zeros(2, 2)), 0.0);
    }

    #[test]
    fn decay_is_the_smallest_real_part() {
        let rotation = DMatrix::from_row_slice(2, 2, &[3.0, -4.0, 4.0, 3.0]);
        let triangle =
            DMatrix::from_row_slice(3, 3, &[0.5, 9.0, 1.0, 0.0, -0.7, 3.0, 0.0, 0.0, 0.1]);
        let crowd =
            DMatrix::from_fn(12, 12, |i, j| 0.1 * f64::from(i == j) + 1e-13 * (i + j) as f64);
        for (matrix, expected) in [(rotation, 3.0), (triangle, -0.7), (crowd, 0.1)] {
            assert!((decay(&matrix) - expected).abs() < 1e-9, "{} {expected}", decay(&matrix));
            let found = smallest_real_part(&matrix).unwrap();
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    /// Matrices of all sizes have the radius of their size.
    #[test]
    fn sizes_do_not_matter() {
        let matrix = DMatrix::from_row_slice(3, 3, &[0.5, 0.9, 1.0, 0.0, -0.7, 0.3, 0.2, 0.0, 0.1]);
        let expected = radius(&matrix).unwrap();
        for size in [1e-320, 1e-200, 1e-9, 1e9, 1e154, 1e200, 1.7e308] {
            let scaled = &matrix * size;
            let tolerance = if size < 1e-300 { 1e-2 } else { 1e-9 };
            for found in [radius(&scaled).unwrap(), growth(&scaled)] {
                assert!((found / size / expected - 1.0).abs() < tolerance, "{size}: {found}");
            }
            let real = smallest_real_part(&scaled).unwrap() / size;
            let expected = smallest_real_part(&matrix).unwrap();
            assert!((real / expected - 1.0).abs() < tolerance, "{size}: {real}");
        }
    }

    #[test]
    fn known_spectra() {
        let rotation = DMatrix::from_row_slice(2, 2, &[3.0, -4.0, 4.0, 3.0]);
        assert!((radius(&rotation).unwrap() - 5.0).abs() < 1e-12);
        assert!((smallest_real_part(&rotation).unwrap() - 3.0).abs() < 1e-12);
        let nilpotent = DMatrix::from_row_slice(2, 2, &[3.0, -9.0, 1.0, -3.0]);
        assert!(radius(&nilpotent).unwrap() < 1e-6);
        assert!(radius(&DMatrix::from_element(2, 2, f64::NAN)).is_none());
        assert_eq!(radius(&DMatrix::zeros(3, 3)), Some(0.0));
    }
}
