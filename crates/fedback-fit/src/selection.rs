//! What is decided for all clients together: which features move, and which shape is enough.

use nalgebra::DMatrix;

use crate::contrast::{Contrasts, holm};
use crate::distribution::log_gamma;
use crate::model::{Deployments, Direction, Model, Shape};
use crate::moments::Moments;
use crate::observations::Observations;

/// The usual level of a single test.
pub const LEVEL: f64 = 0.05;
/// The level of all tests together that raise a doubt: below the usual one, since the location test
/// errs a little more often than it says on skewed data.
pub const DOUBT: f64 = 0.03;
/// The level of the tests that decide what is estimated: strict, since every wrong decision costs the
/// intervals some of their coverage.
pub const STRICT: f64 = 0.01;
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

/// For every feature the p-value of it moving nowhere, from those of every client and feature.
///
/// A feature may move a little everywhere or much at one client: Fisher's combination of the clients'
/// p-values sees the one, the smallest of them the other, and both are asked. Holm's method accounts for
/// the number of features.
pub fn anywhere(moved: &[Vec<f64>]) -> Vec<f64> {
    let dim = moved.first().map_or(0, Vec::len);
    let over_clients = |j: usize| {
        let own: Vec<f64> = moved.iter().map(|client| client[j]).collect();
        let smallest = own.len() as f64 * own.iter().copied().fold(1.0, f64::min);
        (2.0 * smallest.min(fisher(&own))).min(1.0)
    };
    holm(&(0..dim).map(over_clients).collect::<Vec<_>>())
}

/// The features that move, from the p-values of them moving nowhere.
pub fn moving(anywhere: &[f64]) -> Vec<usize> {
    (0..anywhere.len()).filter(|&j| anywhere[j] < STRICT).collect()
}

/// Fisher's combination: −2 Σ ln p is χ² with two degrees of freedom for each p-value.
fn fisher(p_values: &[f64]) -> f64 {
    let half = -p_values.iter().map(|p| libm::log(*p)).sum::<f64>();
    if half <= 0.0 {
        return 1.0;
    }
    if half.is_infinite() {
        return 0.0;
    }
    let term = |i: usize| libm::exp(i as f64 * libm::log(half) - half - log_gamma(i as f64 + 1.0));
    (0..p_values.len()).map(term).sum::<f64>().min(1.0)
}

/// The shape that was chosen, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The simplest shape that is not rejected, among those that are identified.
    pub shape: Shape,
    /// The p-value, over all clients, of one number per client against one per feature.
    pub scalar: Option<f64>,
    /// The p-value of one number per feature against a matrix.
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
    let rejected = |p: Option<f64>| p.is_some_and(|p| p < STRICT);
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
        // 0.02 and 0.03 at two clients are not enough among three features; 1e-4 at one is.
        let p = vec![vec![0.02, 0.5, 1e-4], vec![0.03, 0.9, 0.2]];
        assert_eq!(moving(&anywhere(&p)), [2]);
        assert!((adjusted(&p)[0][2] - 6e-4).abs() < 1e-15);
        // Many clients that move a little are.
        assert_eq!(moving(&anywhere(&vec![vec![0.04, 0.6]; 20])), [0]);
        assert!((fisher(&[0.3]) - 0.3).abs() < 1e-15);
        let product = 0.3 * 0.2;
        assert!((fisher(&[0.3, 0.2]) - product * (1.0 - f64::ln(product))).abs() < 1e-15);
        assert_eq!(fisher(&[0.0, 0.5]), 0.0);
    }
}
