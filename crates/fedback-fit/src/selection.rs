//! What is decided for all clients together: which features move, and which shape is enough.

use nalgebra::DMatrix;

use crate::contrast::{Contrasts, holm};
use crate::model::{Deployments, Direction, Model, Shape};
use crate::moments::Moments;
use crate::observations::Observations;

/// The level of the tests that decide.
pub const LEVEL: f64 = 0.05;
/// Fewer individuals than this, seen under every deployment, are no sample of their own.
pub const FEWEST: usize = 30;

/// The rows of a client that are used, and their moments.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The rows.
    pub observations: Observations,
    /// Whether the i-th rows of all deployments are of the same individual.
    pub paired: bool,
    /// Their moments.
    pub moments: Moments,
}

impl Evidence {
    /// All rows of a client, or those of the individuals seen under every deployment where the means
    /// then differ by less noise: pairs cancel what individuals differ by.
    pub fn new(observations: Observations) -> Self {
        let all = Moments::new(&observations);
        let complete = observations.complete().filter(|rows| rows.counts()[0] >= FEWEST);
        if let Some(complete) = complete {
            let moments = Moments::new(&complete);
            if noise(&moments, &all) <= noise(&all, &all) {
                return Evidence { observations: complete, paired: true, moments };
            }
        }
        Evidence { observations, paired: false, moments: all }
    }

    /// The p-value of each feature's mean being the same under all deployments.
    pub fn moved(&self) -> Vec<f64> {
        let (dim, last) = (self.moments.dim, self.moments.counts.len() - 1);
        let p_value = |feature: usize| {
            let mut rows = DMatrix::zeros(last, (last + 1) * dim);
            for k in 0..last {
                rows[(k, k * dim + feature)] = 1.0;
                rows[(k, last * dim + feature)] = -1.0;
            }
            Contrasts(rows).of(&self.moments).p_value()
        };
        (0..dim).map(p_value).collect()
    }
}

/// Variances of the means' differences, summed over features in units of their variance in `scale`.
fn noise(moments: &Moments, scale: &Moments) -> f64 {
    let (dim, last) = (moments.dim, moments.counts.len() - 1);
    let variance = |moments: &Moments, deployment: usize, feature: usize, less: bool| -> f64 {
        let mut row = DMatrix::zeros(1, (last + 1) * dim);
        row[(0, deployment * dim + feature)] = 1.0;
        if less {
            row[(0, feature)] -= 1.0;
        }
        Contrasts(row).of(moments).covariance()[(0, 0)]
    };
    let mut total = 0.0;
    for feature in 0..dim {
        let unit = variance(scale, 0, feature, false);
        if unit > 0.0 {
            total += (1..=last).map(|k| variance(moments, k, feature, true)).sum::<f64>() / unit;
        }
    }
    total
}

/// Holm's adjusted p-values of every client and feature not moving.
pub fn adjusted(moved: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let all = holm(&moved.concat());
    let dim = moved.first().map_or(1, Vec::len).max(1);
    all.chunks(dim).map(<[f64]>::to_vec).collect()
}

/// The features that move at some client.
pub fn moving(adjusted: &[Vec<f64>]) -> Vec<usize> {
    let dim = adjusted.first().map_or(0, Vec::len);
    (0..dim).filter(|&j| adjusted.iter().any(|client| client[j] < LEVEL)).collect()
}

/// The shape that was chosen, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The simplest shape that is not rejected, among those that are identified.
    pub shape: Shape,
    /// The p-value, over all clients, of one number a client against one a feature.
    pub scalar: Option<f64>,
    /// The p-value of one number a feature against a matrix.
    pub vector: Option<f64>,
    /// Whether the deployments identify a matrix.
    pub identified: bool,
}

/// The simplest shape that the data of no client reject.
pub fn choose_shape(
    direction: Direction,
    features: &[usize],
    deployments: &Deployments,
    clients: &[&Moments],
) -> Choice {
    let identified = deployments.rank(features) == features.len();
    let test = |shape: Shape, wider: Shape| -> Option<f64> {
        let model = Model { direction, features: features.to_vec(), shape };
        let p_values: Option<Vec<f64>> =
            clients.iter().map(|m| model.against(Some(wider), deployments, m)).collect();
        let least = p_values?.into_iter().fold(1.0, f64::min);
        Some((least * clients.len() as f64).min(1.0))
    };
    let scalar = test(Shape::Scalar, Shape::Vector);
    let vector = test(Shape::Vector, Shape::Matrix);
    let rejected = |p: Option<f64>| p.is_some_and(|p| p < LEVEL);
    let shape = match (rejected(scalar), rejected(vector) && identified) {
        (_, true) => Shape::Matrix,
        (true, false) => Shape::Vector,
        (false, false) => Shape::Scalar,
    };
    Choice { shape, scalar, vector, identified }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::Sample;
    use crate::{Use, draws};
    use fedback_core::stream::Seed;

    /// Individuals that differ much and move little.
    fn panel(shared: f64, seen: usize) -> Observations {
        let mut noise = draws(Seed(3), Use::Rows, 0);
        let levels: Vec<f64> = (0..200).map(|_| shared * noise.normal()).collect();
        let mut sample = |who: std::ops::Range<usize>, shift: f64| Sample {
            values: who.clone().map(|i| levels[i] + shift + 0.5 * noise.normal()).collect(),
            individuals: Some(who.collect()),
        };
        let samples = vec![sample(0..200, 0.0), sample(200 - seen..200, 0.2)];
        Observations { dim: 1, samples }
    }

    #[test]
    fn pairs_are_used_where_they_help() {
        assert!(Evidence::new(panel(5.0, 120)).paired);
        let evidence = Evidence::new(panel(5.0, 120));
        assert_eq!(evidence.observations.counts(), [120, 120]);
        assert!(evidence.moved()[0] < 0.05);
        assert!(!Evidence::new(panel(5.0, 20)).paired);
        assert!(!Evidence::new(panel(0.1, 120)).paired);
    }

    #[test]
    fn multiplicity_is_accounted_for() {
        let p = vec![vec![0.02, 0.5, 0.001], vec![0.03, 0.9, 0.2]];
        let adjusted = adjusted(&p);
        assert_eq!(moving(&adjusted), [2]);
        assert!((adjusted[0][2] - 0.006).abs() < 1e-15);
    }
}
