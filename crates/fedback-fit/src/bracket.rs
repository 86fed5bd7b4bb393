//! Between what the sensitivity lies if nothing is assumed of the response.
//!
//! For two deployments, |Δmean| ≤ W₁ ≤ E|z′ − z| over the same individuals, all of them divided by |Δθ|.
//! In more than one dimension W₁ is not estimated well by any number of rows; its sliced form, the
//! mean of one-dimensional distances over directions divided by c_d = E|u₁|, lies between |Δmean|
//! and W₁, with equality for location shifts. Directions are finitely many: where those drawn make
//! less of Δmean than c_d, the sliced form is divided by that, so that it is never below |Δmean|.
//! The lower end is a lower confidence limit of |Δmean|, the upper end an upper confidence limit of
//! the best of the others. An estimated W₁ is too large on average, which errs on the safe side;
//! subtracting what two halves of one sample differ by would err on the other.

use fedback_core::stream::{Draws, Seed};
use nalgebra::{DMatrix, DVector};

use crate::contrast::{Contrasts, eigen};
use crate::distribution::{log_gamma, student_quantile};
use crate::model::Deployments;
use crate::resample::spread;
use crate::selection::Evidence;
use crate::{Use, draws};

/// Directions that data are sliced along.
const SLICES: usize = 1000;
/// Rows of a deployment that are sliced; more change nothing that is reported.
const MOST_ROWS: usize = 8192;
/// Draws that decide the lower end.
const DRAWS: usize = 4000;

/// What the upper end of a bracket was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upper {
    /// The mean distance of the same individuals.
    Paired,
    /// W₁ of one feature.
    Wasserstein,
    /// The sliced W₁, which is below W₁ where the response is no location shift.
    Sliced,
}

impl Upper {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Upper::Paired => "paired",
            Upper::Wasserstein => "wasserstein",
            Upper::Sliced => "sliced",
        }
    }
}

/// The bracket of a client's sensitivity along the longest Δθ that was deployed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The lower confidence limit.
    pub low: f64,
    /// The upper confidence limit.
    pub high: f64,
    /// What the upper one was taken from.
    pub upper: Upper,
    /// The two deployments.
    pub deployments: (usize, usize),
}

/// The bracket over some features. Each end fails with 0.4 of what `confidence` leaves: a bracket promises
/// no less than its confidence, and small samples need the rest.
pub fn bracket(
    evidence: &Evidence,
    deployments: &Deployments,
    features: &[usize],
    confidence: f64,
    seed: Seed,
    client: u32,
) -> Bracket {
    let (a, b) = deployments.farthest(features);
    let distance = deployments.distance(a, b, features);
    let tail = 0.4 * (1.0 - confidence);
    let low = lower_shift(evidence, (a, b), features, tail, &mut draws(seed, Use::Bracket, client));
    let (high, upper) = if features.len() > 1 && evidence.paired {
        (paired(evidence, (a, b), features, tail), Upper::Paired)
    } else {
        let rows = [a, b].map(|k| chosen(evidence, k, features, seed, client));
        let mut directions = draws(seed, Use::Slices, client);
        let upper = if features.len() > 1 { Upper::Sliced } else { Upper::Wasserstein };
        (sliced(&rows, features.len(), tail, &mut directions), upper)
    };
    // The upper end may be of some of the rows only, the lower one is of all.
    let high = high.max(low);
    Bracket { low: low / distance, high: high / distance, upper, deployments: (a, b) }
}

/// The lower confidence limit of |Δmean|: the smallest r for which |r u + e|² is as large as what was
/// observed in a share `tail` of draws of the noise e, u the direction observed.
fn lower_shift(
    evidence: &Evidence,
    (a, b): (usize, usize),
    features: &[usize],
    tail: f64,
    draws: &mut Draws,
) -> f64 {
    let dim = evidence.moments.dim;
    let mut rows = DMatrix::zeros(features.len(), evidence.moments.means.len());
    for (at, &j) in features.iter().enumerate() {
        rows[(at, a * dim + j)] = -1.0;
        rows[(at, b * dim + j)] = 1.0;
    }
    let joint = Contrasts(rows).of(&evidence.moments);
    let observed = joint.values.norm();
    if observed == 0.0 {
        return 0.0;
    }
    let direction = &joint.values / observed;
    let (eigenvectors, eigenvalues) = eigen(joint.covariance());
    let size = eigenvalues.map(|value| libm::sqrt(value.max(0.0)));
    let root = eigenvectors * DMatrix::from_diagonal(&size);
    let degrees =
        (0..features.len()).map(|at| joint.estimate(at).degrees).fold(f64::INFINITY, f64::min);
    let noise: Vec<(f64, f64)> = (0..DRAWS)
        .map(|_| {
            let normal = DVector::from_fn(features.len(), |_, _| draws.normal());
            let noise = &root * normal * spread(degrees, draws);
            (direction.dot(&noise), noise.norm_squared())
        })
        .collect();
    let share = |shift: f64| {
        let beyond = |&&(along, square): &&(f64, f64)| {
            shift * shift + 2.0 * shift * along + square >= observed * observed
        };
        noise.iter().filter(beyond).count() as f64 / DRAWS as f64
    };
    if share(0.0) >= tail {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, observed);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if share(middle) >= tail { high = middle } else { low = middle }
    }
    low
}

/// The upper confidence limit of E|z′ − z| over the same individuals.
fn paired(evidence: &Evidence, (a, b): (usize, usize), features: &[usize], tail: f64) -> f64 {
    let pairs = evidence.observations.rows(a).zip(evidence.observations.rows(b));
    let moved = |(old, new): (&[f64], &[f64])| {
        libm::sqrt(features.iter().map(|&j| (new[j] - old[j]).powi(2)).sum())
    };
    let moved: Vec<f64> = pairs.map(moved).collect();
    let (mean, variance) = mean_and_variance(&moved);
    let count = moved.len() as f64;
    mean + student_quantile(tail, count - 1.0) * libm::sqrt(variance / count)
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, squares / (count - 1.0))
}

/// Rows of a deployment on some features, a random choice where there are too many.
fn chosen(
    evidence: &Evidence,
    deployment: usize,
    features: &[usize],
    seed: Seed,
    client: u32,
) -> Vec<f64> {
    let rows: Vec<&[f64]> = evidence.observations.rows(deployment).collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    if features.len() > 1 && order.len() > MOST_ROWS {
        draws(seed, Use::Rows, client).shuffle(&mut order);
        order.truncate(MOST_ROWS);
    }
    order
        .iter()
        .flat_map(|&row| features.iter().map(move |&j| (row, j)))
        .map(|(row, j)| rows[row][j])
        .collect()
}

/// The upper confidence limit of the sliced W₁ of two samples divided by c_d, or by what the directions drawn
/// make of it along the difference of the means, whichever is smaller: the result is never below that difference.
///
/// Its standard error comes from what a single row adds: in one dimension W₁ = ∫|F − G|, and a row at x
/// adds the integral of the sign of F − G from x on.
fn sliced(rows: &[Vec<f64>; 2], dim: usize, tail: f64, draws: &mut Draws) -> f64 {
    let counts = [rows[0].len() / dim, rows[1].len() / dim];
    let slices = if dim == 1 { 1 } else { SLICES };
    let mut influence = [vec![0.0; counts[0]], vec![0.0; counts[1]]];
    let mut merged: Vec<(f64, u32)> = Vec::with_capacity(counts[0] + counts[1]);
    let apart = mean_difference(rows, dim);
    let (mut total, mut along_means) = (0.0, 0.0);
    for _ in 0..slices {
        let mut direction: Vec<f64> = (0..dim).map(|_| draws.normal()).collect();
        let size = libm::sqrt(direction.iter().map(|x| x * x).sum());
        direction.iter_mut().for_each(|x| *x /= size);
        along_means += dot(&apart, &direction).abs();
        merged.clear();
        for (which, rows) in rows.iter().enumerate() {
            merged.extend(
                rows.chunks_exact(dim)
                    .enumerate()
                    .map(|(at, row)| (dot(row, &direction), ((at as u32) << 1) | which as u32)),
            );
        }
        merged.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
        let steps = counts.map(|count| 1.0 / count as f64);
        let (mut lead, mut potential, mut before) = (0.0f64, 0.0, merged[0].0);
        for &(value, label) in &merged {
            let gap = value - before;
            total += gap * lead.abs();
            potential += if lead > 1e-12 {
                gap
            } else if lead < -1e-12 {
                -gap
            } else {
                0.0
            };
            before = value;
            let which = (label & 1) as usize;
            influence[which][(label >> 1) as usize] += potential;
            lead += if which == 0 { steps[0] } else { -steps[1] };
        }
    }
    let scale = 1.0 / slices as f64;
    let variance: f64 = (0..2)
        .map(|which| mean_and_variance(&influence[which]).1 * scale * scale / counts[which] as f64)
        .sum();
    let degrees = (counts[0].min(counts[1]) - 1) as f64;
    let reach = student_quantile(tail, degrees) * libm::sqrt(variance);
    let size = libm::sqrt(dot(&apart, &apart));
    let drawn = if size > 0.0 { along_means * scale / size } else { f64::INFINITY };
    (total * scale + reach) / mean_coordinate(dim).min(drawn)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The difference of the means of two samples.
fn mean_difference(rows: &[Vec<f64>; 2], dim: usize) -> Vec<f64> {
    let mean = |rows: &[f64], j: usize| {
        let count = (rows.len() / dim) as f64;
        rows.iter().skip(j).step_by(dim).sum::<f64>() / count
    };
    (0..dim).map(|j| mean(&rows[1], j) - mean(&rows[0], j)).collect()
}

/// c_d = E|u₁| of a uniform direction: Γ(d/2) / (√π Γ((d+1)/2)).
pub fn mean_coordinate(dim: usize) -> f64 {
    let d = dim as f64;
    libm::exp(log_gamma(0.5 * d) - log_gamma(0.5 * (d + 1.0))) / libm::sqrt(std::f64::consts::PI)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::{Observations, Sample};

    #[test]
    fn directions_have_a_mean_coordinate() {
        assert!((mean_coordinate(1) - 1.0).abs() < 1e-14);
        assert!((mean_coordinate(2) - 2.0 / std::f64::consts::PI).abs() < 1e-14);
        assert!((mean_coordinate(3) - 0.5).abs() < 1e-14);
    }

    /// W₁ of one feature by hand, and its standard error for a plain shift: that of the mean.
    #[test]
    fn one_feature_is_the_area_between_distributions() {
        let a: Vec<f64> = (0..40).map(|i| i as f64 * 0.1).collect();
        let b: Vec<f64> = a.iter().map(|x| x + 7.0).collect();
        let (_, variance) = mean_and_variance(&a);
        let error = (2.0 * variance / 40.0).sqrt() * student_quantile(0.025, 39.0);
        let mut unused = draws(Seed(0), Use::Slices, 0);
        let found = sliced(&[a.clone(), b], 1, 0.025, &mut unused);
        assert!((found - 7.0 - error).abs() < 1e-9, "{found}");
        // Spread to twice its width around the centre: the mean of |x|.
        let a: Vec<f64> = (0..401).map(|i| (i as f64 - 200.0) / 100.0).collect();
        let b: Vec<f64> = a.iter().map(|x| 2.0 * x).collect();
        let found = sliced(&[a, b], 1, 0.499_999_9, &mut unused);
        assert!((found - 1.0).abs() < 0.01, "{found}");
    }

    /// For a shift, slices measure the shift itself, whatever directions were drawn.
    #[test]
    fn slices_of_a_shift() {
        let mut noise = draws(Seed(8), Use::Rows, 1);
        let a: Vec<f64> = (0..3 * 500).map(|_| 0.01 * noise.normal()).collect();
        let b: Vec<f64> = a.chunks(3).flat_map(|r| [r[0] + 1.0, r[1] - 2.0, r[2] + 2.0]).collect();
        let found = sliced(&[a, b], 3, 0.499_999_9, &mut draws(Seed(2), Use::Slices, 0));
        assert!((2.999..3.1).contains(&found), "{found}");
    }

    /// Ten features known to a thousandth: directions must not cost the bracket its truth.
    #[test]
    fn precise_data_in_many_dimensions() {
        let theta: Vec<f64> = (0..10).map(|j| 1.0 - 0.2 * j as f64).collect();
        let two = Deployments(vec![vec![0.0; 10], theta.clone()]);
        let features: Vec<usize> = (0..10).collect();
        let mut inside = 0;
        for seed in 0..60 {
            let mut noise = draws(Seed(seed), Use::Rows, 3);
            let mut sample = |epsilon: f64| {
                let rows = 0..60;
                let values = rows
                    .flat_map(|_| {
                        theta
                            .iter()
                            .map(|t| epsilon * t + 0.003 * noise.normal())
                            .collect::<Vec<_>>()
                    })
                    .collect();
                Sample { values, individuals: None }
            };
            let samples = vec![sample(0.0), sample(1.0)];
            let evidence = Evidence::new(Observations { dim: 10, samples });
            let found = bracket(&evidence, &two, &features, 0.95, Seed(seed), 0);
            assert!(found.low <= found.high && found.high < 1.1, "{found:?}");
            inside += usize::from(found.low <= 1.0 && 1.0 <= found.high);
        }
        assert!(inside >= 55, "{inside} of 60");
    }

    #[test]
    fn no_shift_may_be_none() {
        let sample = |seed: u64, shift: f64| {
            let mut noise = draws(Seed(seed), Use::Rows, 0);
            let values = (0..100).map(|_| shift + noise.normal()).collect();
            Sample { values, individuals: None }
        };
        let evidence = |shift: f64| {
            Evidence::new(Observations { dim: 1, samples: vec![sample(1, 0.0), sample(2, shift)] })
        };
        let two = Deployments(vec![vec![0.0], vec![2.0]]);
        let none = bracket(&evidence(0.0), &two, &[0], 0.95, Seed(0), 0);
        assert!(none.low == 0.0 && none.high > 0.0);
        let much = bracket(&evidence(4.0), &two, &[0], 0.95, Seed(0), 0);
        assert!(1.7 < much.low && much.low < 2.0 && 2.0 < much.high && much.high < 2.3);
    }
}
