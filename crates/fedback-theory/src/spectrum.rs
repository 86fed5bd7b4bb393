//! Eigenvalues of small general matrices.

use nalgebra::{Complex, DMatrix, Schur};

/// All eigenvalues, or none where the iteration does not settle or an entry is not finite.
fn eigenvalues(matrix: &DMatrix<f64>) -> Option<Vec<Complex<f64>>> {
    if !matrix.iter().all(|entry| entry.is_finite()) {
        return None;
    }
    if matrix.nrows() == 1 {
        return Some(vec![Complex::new(matrix[(0, 0)], 0.0)]);
    }
    let sweeps = 200 * matrix.nrows();
    let schur = Schur::try_new(matrix.clone(), f64::EPSILON, sweeps)?;
    Some(schur.complex_eigenvalues().iter().copied().collect())
}

fn modulus(value: &Complex<f64>) -> f64 {
    (value.re * value.re + value.im * value.im).sqrt()
}

/// The largest modulus of an eigenvalue.
pub(crate) fn radius(matrix: &DMatrix<f64>) -> Option<f64> {
    Some(eigenvalues(matrix)?.iter().map(modulus).fold(0.0, f64::max))
}

/// The smallest real part of an eigenvalue.
pub(crate) fn smallest_real_part(matrix: &DMatrix<f64>) -> Option<f64> {
    Some(eigenvalues(matrix)?.iter().map(|l| l.re).fold(f64::INFINITY, f64::min))
}

#[cfg(test)]
mod tests {
    use super::*;

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
