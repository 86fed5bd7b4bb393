//! Responses that are linear in θ, as contrasts of the deployments' means.
//!
//! Under deployment k the mean of the moving features S is a + σ M θ_{k,S} with σ = +1 for a location
//! map and −1 for a best response. M has one of three shapes, each a special case of the next: ε I, a
//! diagonal, any matrix. Least squares over the deployments, weighted by their rows, gives every
//! number of M as a fixed combination of means; with two deployments ε is the difference of the means
//! projected on Δθ_S and divided by |Δθ_S|².

use nalgebra::{DMatrix, DVector, SVD};

use crate::contrast::{Contrasts, Joint};
use crate::moments::Moments;

/// How far a coefficient must vary, relative to its size, to count as varied.
const VARIED: f64 = 1e-9;

/// Which way features move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// z = z0 + M θ.
    Location,
    /// x_S = x0_S − M θ_S.
    BestResponse,
}

impl Direction {
    fn sign(self) -> f64 {
        match self {
            Direction::Location => 1.0,
            Direction::BestResponse => -1.0,
        }
    }
}

/// What M looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// ε I.
    Scalar,
    /// A diagonal.
    Vector,
    /// Any matrix.
    Matrix,
}

impl Shape {
    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Scalar => "scalar",
            Shape::Vector => "vector",
            Shape::Matrix => "matrix",
        }
    }

    /// How many numbers it has on so many features.
    pub fn numbers(self, features: usize) -> usize {
        match self {
            Shape::Scalar => 1,
            Shape::Vector => features,
            Shape::Matrix => features * features,
        }
    }
}

/// The models that were deployed: one θ a deployment, with a coordinate for each feature of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployments(pub Vec<Vec<f64>>);

impl Deployments {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a coordinate differs between deployments.
    pub fn varies(&self, feature: usize) -> bool {
        let values = || self.0.iter().map(|theta| theta[feature]);
        let (low, high) =
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::MIN, f64::max));
        differ(low, high)
    }

    /// Whether two deployments differ in no coordinate.
    pub fn coincide(&self, a: usize, b: usize) -> bool {
        self.0[a].iter().zip(&self.0[b]).all(|(x, y)| !differ(*x, *y))
    }

    /// |θ_a − θ_b| over some features.
    pub fn distance(&self, a: usize, b: usize, features: &[usize]) -> f64 {
        let apart = |&j: &usize| (self.0[a][j] - self.0[b][j]).powi(2);
        libm::sqrt(features.iter().map(apart).sum())
    }

    /// The two deployments that are farthest apart on some features, in their order.
    pub fn farthest(&self, features: &[usize]) -> (usize, usize) {
        let pairs = (0..self.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let apart = |pair: &(usize, usize)| self.distance(pair.0, pair.1, features);
        // The first of several equally far ones.
        pairs.rev().max_by(|x, y| apart(x).total_cmp(&apart(y))).unwrap_or((0, 0))
    }

    /// In how many directions θ varies on some features: the rank of the centred θs.
    pub fn rank(&self, features: &[usize]) -> usize {
        let equal = vec![1; self.len()];
        let mut centred = self.centred(features, &equal);
        for mut column in centred.column_iter_mut() {
            let size = column.norm();
            if size > 0.0 {
                column /= size;
            }
        }
        let most = 1000 * self.len().max(features.len()).max(1);
        SVD::try_new(centred, false, false, f64::EPSILON, most)
            .map_or(0, |found| found.singular_values.iter().filter(|value| **value > 1e-8).count())
    }

    /// θ_{k,S} less its mean over rows: one row a deployment, one column a feature.
    fn centred(&self, features: &[usize], counts: &[usize]) -> DMatrix<f64> {
        let total: f64 = counts.iter().map(|&count| count as f64).sum();
        let mut matrix = DMatrix::zeros(self.len(), features.len());
        for (column, &j) in features.iter().enumerate() {
            if !self.varies(j) {
                continue;
            }
            let weighted = self.0.iter().zip(counts).map(|(theta, &n)| n as f64 * theta[j]);
            let mean = weighted.sum::<f64>() / total;
            (0..self.len()).for_each(|k| matrix[(k, column)] = self.0[k][j] - mean);
        }
        matrix
    }
}

fn differ(a: f64, b: f64) -> bool {
    (a - b).abs() > VARIED * a.abs().max(b.abs())
}

/// A response of one shape on some features.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Which way features move.
    pub direction: Direction,
    /// The features that move.
    pub features: Vec<usize>,
    /// What M looks like.
    pub shape: Shape,
}

impl Model {
    /// The numbers of M as contrasts: matrices row after row. Numbers that the deployments do not
    /// identify are zero.
    pub fn contrasts(&self, deployments: &Deployments, counts: &[usize], dim: usize) -> Contrasts {
        let size = self.features.len();
        let centred = deployments.centred(&self.features, counts);
        let weighted =
            DMatrix::from_fn(counts.len(), size, |k, j| counts[k] as f64 * centred[(k, j)]);
        let sign = self.direction.sign();
        let mut rows = DMatrix::zeros(self.shape.numbers(size), counts.len() * dim);
        let column = |k: usize, j: usize| k * dim + self.features[j];
        match self.shape {
            Shape::Scalar => {
                let total = centred.dot(&weighted);
                for (k, j) in pairs(counts.len(), size) {
                    rows[(0, column(k, j))] = sign * weighted[(k, j)] / total;
                }
            }
            Shape::Vector => {
                for j in 0..size {
                    let total = centred.column(j).dot(&weighted.column(j));
                    for k in (0..counts.len()).filter(|_| total > 0.0) {
                        rows[(j, column(k, j))] = sign * weighted[(k, j)] / total;
                    }
                }
            }
            Shape::Matrix => {
                let gram = centred.transpose() * &weighted;
                let slopes = scaled_inverse(&gram) * weighted.transpose();
                for (j, l) in pairs(size, size) {
                    for k in 0..counts.len() {
                        rows[(j * size + l, column(k, j))] = sign * slopes[(l, k)];
                    }
                }
            }
        }
        Contrasts(rows)
    }

    /// The numbers of M with their covariance.
    pub fn estimate(&self, deployments: &Deployments, moments: &Moments) -> Joint {
        self.contrasts(deployments, &moments.counts, moments.dim).of(moments)
    }

    /// The p-value of the model's shape against a more general one; none where the deployments cannot
    /// tell them apart. Against `None`, the means may be anything: the test of linearity in θ.
    pub fn against(
        &self,
        wider: Option<Shape>,
        deployments: &Deployments,
        moments: &Moments,
    ) -> Option<f64> {
        let (counts, size) = (&moments.counts, self.features.len());
        let mut basis = Vec::new();
        let space = Space { deployments, counts, features: &self.features };
        space.extend(&mut basis, space.constants());
        space.extend(&mut basis, space.columns(self.shape));
        let known = basis.len();
        let more = match wider {
            Some(shape) => space.columns(shape),
            None => space.anything(),
        };
        space.extend(&mut basis, more);
        let extra = &basis[known..];
        if extra.is_empty() {
            return None;
        }
        let mut rows = DMatrix::zeros(extra.len(), counts.len() * moments.dim);
        for (at, direction) in extra.iter().enumerate() {
            for (k, j) in pairs(counts.len(), size) {
                rows[(at, k * moments.dim + self.features[j])] =
                    libm::sqrt(counts[k] as f64) * direction[k * size + j];
            }
        }
        Some(Contrasts(rows).of(moments).p_value())
    }
}

fn pairs(first: usize, second: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..first).flat_map(move |a| (0..second).map(move |b| (a, b)))
}

/// The inverse of a Gram matrix whose columns may have very different units.
fn scaled_inverse(gram: &DMatrix<f64>) -> DMatrix<f64> {
    let scale = gram.diagonal().map(|size| if size > 0.0 { 1.0 / libm::sqrt(size) } else { 0.0 });
    let diagonal = DMatrix::from_diagonal(&scale);
    let inverse = (&diagonal * gram * &diagonal).try_inverse();
    let size = gram.nrows();
    &diagonal * inverse.unwrap_or_else(|| DMatrix::zeros(size, size)) * &diagonal
}

/// The space of means √n_k m_{k,j} of some features.
struct Space<'a> {
    deployments: &'a Deployments,
    counts: &'a [usize],
    features: &'a [usize],
}

impl Space<'_> {
    fn column(&self, of: impl Fn(usize, usize) -> f64) -> DVector<f64> {
        let size = self.features.len();
        DVector::from_fn(self.counts.len() * size, |at, _| {
            libm::sqrt(self.counts[at / size] as f64) * of(at / size, at % size)
        })
    }

    fn constants(&self) -> Vec<DVector<f64>> {
        let one = |feature: usize| self.column(|_, j| if j == feature { 1.0 } else { 0.0 });
        (0..self.features.len()).map(one).collect()
    }

    fn columns(&self, shape: Shape) -> Vec<DVector<f64>> {
        let centred = self.deployments.centred(self.features, self.counts);
        let size = self.features.len();
        let only = |yes: bool, value: f64| if yes { value } else { 0.0 };
        match shape {
            Shape::Scalar => vec![self.column(|k, j| centred[(k, j)])],
            Shape::Vector => {
                (0..size).map(|own| self.column(|k, j| only(j == own, centred[(k, j)]))).collect()
            }
            Shape::Matrix => pairs(size, size)
                .map(|(own, other)| self.column(|k, j| only(j == own, centred[(k, other)])))
                .collect(),
        }
    }

    fn anything(&self) -> Vec<DVector<f64>> {
        pairs(self.counts.len(), self.features.len())
            .map(|(deployment, feature)| {
                self.column(|k, j| if (k, j) == (deployment, feature) { 1.0 } else { 0.0 })
            })
            .collect()
    }

    /// Appends to an orthonormal basis what the columns add to it (Gram and Schmidt, twice).
    fn extend(&self, basis: &mut Vec<DVector<f64>>, columns: Vec<DVector<f64>>) {
        for mut column in columns {
            let size = column.norm();
            for _ in 0..2 {
                for direction in basis.iter() {
                    let along = direction.dot(&column);
                    column.axpy(-along, direction, 1.0);
                }
            }
            let left = column.norm();
            if left > 1e-7 * size && size > 0.0 {
                basis.push(column / left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::{Observations, Sample};

    const THETAS: [[f64; 2]; 4] = [[0.0, 1.0], [1.0, 0.5], [-0.5, 2.0], [2.0, 2.0]];

    /// Two rows a deployment, ± something around a mean.
    fn moments(mean: impl Fn(&[f64]) -> [f64; 2]) -> Moments {
        let sample = |(k, theta): (usize, &[f64; 2])| {
            let [a, b] = mean(theta);
            let values = (0..20 + 8 * k).flat_map(|i| {
                let (up, down) = ((i % 2) as f64 * 2.0 - 1.0, ((i / 2) % 2) as f64 * 2.0 - 1.0);
                [a + up, b + down]
            });
            Sample { values: values.collect(), individuals: None }
        };
        let samples = THETAS.iter().enumerate().map(sample).collect();
        Moments::new(&Observations { dim: 2, samples })
    }

    fn deployments() -> Deployments {
        Deployments(THETAS.iter().map(|theta| theta.to_vec()).collect())
    }

    fn model(shape: Shape) -> Model {
        Model { direction: Direction::BestResponse, features: vec![0, 1], shape }
    }

    #[test]
    fn noise_free_responses_are_recovered() {
        let m = [[0.5, -0.25], [1.5, 2.0]];
        let full = |t: &[f64]| [0, 1].map(|j| 3.0 - m[j][0] * t[0] - m[j][1] * t[1]);
        let found = model(Shape::Matrix).estimate(&deployments(), &moments(full)).values;
        for (found, expected) in found.iter().zip(m.concat()) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
        let diagonal = |t: &[f64]| [1.0 - 0.5 * t[0], 7.0 - 2.0 * t[1]];
        let found = model(Shape::Vector).estimate(&deployments(), &moments(diagonal)).values;
        assert!((found[0] - 0.5).abs() < 1e-12 && (found[1] - 2.0).abs() < 1e-12);
        let scalar = |t: &[f64]| [1.0 - 0.7 * t[0], 7.0 - 0.7 * t[1]];
        let found = model(Shape::Scalar).estimate(&deployments(), &moments(scalar)).values;
        assert!((found[0] - 0.7).abs() < 1e-12);
        let location = Model { direction: Direction::Location, ..model(Shape::Scalar) };
        let found = location.estimate(&deployments(), &moments(scalar)).values;
        assert!((found[0] + 0.7).abs() < 1e-12);
    }

    /// With two deployments, ε is the projected difference of the means.
    #[test]
    fn two_deployments_project_on_the_difference() {
        let two = Deployments(vec![vec![0.0, 1.0], vec![2.0, 0.0]]);
        let sample = |values: &[f64]| Sample { values: values.to_vec(), individuals: None };
        let samples = vec![sample(&[0.0, 0.0, 2.0, 1.0]), sample(&[4.0, 1.0, 5.0, 3.0, 3.0, -1.0])];
        let moments = Moments::new(&Observations { dim: 2, samples });
        let location = Model { direction: Direction::Location, ..model(Shape::Scalar) };
        let found = location.estimate(&two, &moments).estimate(0);
        // Means (1, 0.5) and (4, 1), Δθ = (2, −1), |Δθ|² = 5.
        assert!((found.value - (2.0 * 3.0 - 0.5) / 5.0).abs() < 1e-14);
    }

    #[test]
    fn shapes_are_told_apart() {
        let scalar = moments(|t| [1.0 - 0.7 * t[0], 7.0 - 0.7 * t[1]]);
        let diagonal = moments(|t| [1.0 - 2.7 * t[0], 7.0 - 0.7 * t[1]]);
        let full = moments(|t| [1.0 - 2.7 * t[1], 7.0 - 0.7 * t[0]]);
        let bent = moments(|t| [1.0 - 2.0 * t[0].powi(3), 7.0]);
        let against = |shape, wider, moments| model(shape).against(wider, &deployments(), moments);
        let (vector, matrix) = (Some(Shape::Vector), Some(Shape::Matrix));
        assert!(against(Shape::Scalar, vector, &scalar).unwrap() > 0.99);
        assert!(against(Shape::Scalar, vector, &diagonal).unwrap() < 1e-3);
        assert!(against(Shape::Vector, matrix, &diagonal).unwrap() > 0.99);
        assert!(against(Shape::Vector, matrix, &full).unwrap() < 1e-3);
        assert!(against(Shape::Matrix, None, &full).unwrap() > 0.99);
        assert!(against(Shape::Matrix, None, &bent).unwrap() < 1e-3);
    }

    #[test]
    fn what_two_deployments_cannot_tell() {
        let two = Deployments(vec![vec![0.0, 1.0], vec![2.0, 0.0]]);
        let sample = Sample { values: vec![0.0, 1.0, 1.0, 0.0, 0.5, 0.5], individuals: None };
        let samples = vec![sample.clone(), sample];
        let moments = Moments::new(&Observations { dim: 2, samples });
        assert_eq!(two.rank(&[0, 1]), 1);
        assert_eq!(deployments().rank(&[0, 1]), 2);
        assert!(model(Shape::Matrix).against(None, &two, &moments).is_none());
        assert!(model(Shape::Scalar).against(Some(Shape::Vector), &two, &moments).is_some());
        assert_eq!(deployments().farthest(&[0, 1]), (2, 3));
    }
}
