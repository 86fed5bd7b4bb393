//! A location shift: z = z0 + sensitivity_i · θ, with a number, one number a coordinate, or a
//! matrix for every client.

use super::Shift;

/// The sensitivities of all clients in the form they were given.
#[derive(Clone, Debug, PartialEq)]
pub enum Sensitivity {
    /// One number per client.
    Scalar(Vec<f64>),
    /// One number per client and coordinate.
    PerCoordinate(Vec<Vec<f64>>),
    /// One matrix a client, row after row.
    Matrix(Vec<Vec<Vec<f64>>>),
}

/// The location shift of observations with `features` coordinates, followed by an intercept that
/// neither moves nor moves others where `intercept` is set. Sensitivities of another shape make maps
/// that no federation takes.
pub fn location(sensitivity: &Sensitivity, features: usize, intercept: bool) -> Shift {
    let dim = features + usize::from(intercept);
    match sensitivity {
        Sensitivity::Scalar(values) => {
            let mut pattern = vec![1.0; features];
            pattern.resize(dim, 0.0);
            Shift::Scaled { sensitivity: values.clone(), pattern }
        }
        Sensitivity::PerCoordinate(rows) => {
            let values = rows.iter().flat_map(|row| padded(row, dim)).collect();
            let fits = rows.iter().all(|row| row.len() == features);
            Shift::Diagonal { dim, values: if fits { values } else { Vec::new() } }
        }
        Sensitivity::Matrix(matrices) => {
            let zero = vec![Vec::new(); dim - features];
            let values = matrices
                .iter()
                .flat_map(|matrix| matrix.iter().chain(&zero).flat_map(|row| padded(row, dim)))
                .collect();
            let square = |matrix: &Vec<Vec<f64>>| {
                matrix.len() == features && matrix.iter().all(|row| row.len() == features)
            };
            let fits = matrices.iter().all(square);
            Shift::Matrix { dim, values: if fits { values } else { Vec::new() } }
        }
    }
}

fn padded(row: &[f64], dim: usize) -> impl Iterator<Item = f64> {
    row.iter().copied().chain(std::iter::repeat(0.0)).take(dim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_intercept_stays() {
        let matrix = Sensitivity::Matrix(vec![vec![vec![1.0, 2.0], vec![3.0, 4.0]]]);
        let shift = location(&matrix, 2, true);
        let mut out = [9.0; 3];
        shift.apply(0, &[1.0, 1.0, 5.0], &mut out);
        assert_eq!(out, [3.0, 7.0, 0.0]);
        let shift = location(&Sensitivity::Scalar(vec![0.5]), 2, true);
        shift.apply(0, &[1.0, 1.0, 5.0], &mut out);
        assert_eq!(out, [0.5, 0.5, 0.0]);
    }
}
