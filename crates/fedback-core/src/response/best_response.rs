//! The best response of applicants who pay a quadratic price for moving: x_S ← x_S − ε_i θ_S on the
//! features S they can change (Perdomo, Zrnic, Mendler-Dünner and Hardt 2020, section 5).

use super::{Sensitivity, Shift};

/// The best response on the coordinates `features` of `dim`. Sensitivities of another shape, or
/// features beyond `dim`, make maps that no federation takes.
pub fn best_response(sensitivity: &Sensitivity, features: &[usize], dim: usize) -> Shift {
    let count = features.len();
    let square = |matrix: &Vec<Vec<f64>>| {
        matrix.len() == count && matrix.iter().all(|row| row.len() == count)
    };
    let fits = match sensitivity {
        Sensitivity::Scalar(_) => true,
        Sensitivity::PerCoordinate(rows) => rows.iter().all(|row| row.len() == count),
        Sensitivity::Matrix(matrices) => matrices.iter().all(square),
    };
    if !fits || features.iter().any(|&j| j >= dim) {
        return Shift::Diagonal { dim, values: Vec::new() };
    }
    match sensitivity {
        Sensitivity::Scalar(values) => {
            let mut pattern = vec![0.0; dim];
            features.iter().for_each(|&j| pattern[j] = -1.0);
            Shift::Scaled { sensitivity: values.clone(), pattern }
        }
        Sensitivity::PerCoordinate(rows) => {
            let mut values = vec![0.0; rows.len() * dim];
            for (row, out) in rows.iter().zip(values.chunks_exact_mut(dim)) {
                features.iter().zip(row).for_each(|(&j, value)| out[j] = -value);
            }
            Shift::Diagonal { dim, values }
        }
        Sensitivity::Matrix(matrices) => {
            let mut values = vec![0.0; matrices.len() * dim * dim];
            for (matrix, out) in matrices.iter().zip(values.chunks_exact_mut(dim * dim)) {
                for (&j, row) in features.iter().zip(matrix) {
                    features.iter().zip(row).for_each(|(&k, value)| out[j * dim + k] = -value);
                }
            }
            Shift::Matrix { dim, values }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_features_move() {
        let mut out = [9.0; 3];
        let scalar = best_response(&Sensitivity::Scalar(vec![2.0]), &[2, 0], 3);
        scalar.apply(0, &[1.0, 10.0, 100.0], &mut out);
        assert_eq!(out, [-2.0, 0.0, -200.0]);
        let rows = best_response(&Sensitivity::PerCoordinate(vec![vec![2.0, 3.0]]), &[2, 0], 3);
        rows.apply(0, &[1.0, 10.0, 100.0], &mut out);
        assert_eq!(out, [-3.0, 0.0, -200.0]);
        let matrix = vec![vec![vec![0.0, 1.0], vec![0.0, 0.0]]];
        best_response(&Sensitivity::Matrix(matrix), &[2, 0], 3).apply(
            0,
            &[1.0, 10.0, 100.0],
            &mut out,
        );
        assert_eq!(out, [0.0, 0.0, -1.0]);
    }
}
