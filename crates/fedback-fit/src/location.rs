//! Is it a location shift? The distributions under the deployments, recentred, should then agree.
//!
//! The statistic is a sum of squared distances between empirical characteristic functions, along each
//! feature, along θ itself and along random directions, at four frequencies in units of the
//! standard deviation. Its distribution comes from permutations of the residuals between deployments
//! (of the same individual where individuals are known), *recentred inside every permutation*:
//! without that the size of the test would be next to zero, since the residuals have been centred
//! and permuted ones have not.

use fedback_core::stream::{Draws, Seed};

use crate::model::Deployments;
use crate::selection::Evidence;
use crate::{Use, draws};

/// Frequencies, divided by the standard deviation.
const FREQUENCIES: [f64; 4] = [0.5, 1.0, 1.5, 2.0];
/// Random directions beside the features.
const DIRECTIONS: usize = 20;
/// Permutations that the statistic is compared with.
const PERMUTATIONS: usize = 399;
/// Rows of a deployment that are compared; more are left out at random.
const MOST_ROWS: usize = 4096;

/// What the test found.
#[derive(Clone, Debug, PartialEq)]
pub enum LocationTest {
    /// The p-value of a location shift.
    PValue(f64),
    /// Features of two values only, whose spread cannot but change with their mean.
    Binary,
}

/// Tests the moving features of a client for a location shift.
pub fn location_test(
    evidence: &Evidence,
    deployments: &Deployments,
    features: &[usize],
    seed: Seed,
    client: u32,
) -> LocationTest {
    let tested: Vec<usize> =
        features.iter().copied().filter(|&j| !is_binary(evidence, j)).collect();
    if tested.is_empty() {
        return LocationTest::Binary;
    }
    let mut draws = draws(seed, Use::Permutations, client);
    let residuals = Residuals::new(evidence, &tested, &mut draws);
    let waves = Waves::new(&residuals, &directions(&residuals, deployments, &tested, &mut draws));
    let mut order: Vec<usize> = (0..residuals.group.len()).collect();
    let observed = waves.statistic(&residuals, &order);
    let beyond = (0..PERMUTATIONS)
        .filter(|_| {
            residuals.permute(&mut order, &mut draws);
            waves.statistic(&residuals, &order) >= observed * (1.0 - 1e-9) - 1e-15
        })
        .count();
    LocationTest::PValue((1 + beyond) as f64 / (1 + PERMUTATIONS) as f64)
}

fn is_binary(evidence: &Evidence, feature: usize) -> bool {
    let mut seen: Vec<f64> = Vec::with_capacity(3);
    for k in 0..evidence.observations.samples.len() {
        for row in evidence.observations.rows(k) {
            if !seen.contains(&row[feature]) {
                seen.push(row[feature]);
                if seen.len() > 2 {
                    return false;
                }
            }
        }
    }
    true
}

/// Rows less the mean of their deployment, in units of the standard deviation.
struct Residuals {
    dim: usize,
    /// Row after row, deployment after deployment.
    values: Vec<f64>,
    /// The deployment of each row.
    group: Vec<usize>,
    /// Rows of each deployment.
    counts: Vec<usize>,
    /// What a unit of each feature is.
    units: Vec<f64>,
    paired: bool,
}

impl Residuals {
    fn new(evidence: &Evidence, features: &[usize], draws: &mut Draws) -> Self {
        let (dim, samples) = (features.len(), evidence.observations.samples.len());
        let rows = evidence.observations.counts();
        let mut shared: Vec<usize> = (0..rows[0]).collect();
        draws.shuffle(&mut shared);
        let mut residuals = Residuals {
            dim,
            values: Vec::new(),
            group: Vec::new(),
            counts: Vec::new(),
            units: vec![0.0; dim],
            paired: evidence.paired,
        };
        for k in 0..samples {
            let mut order = shared.clone();
            if !evidence.paired && rows[k] > MOST_ROWS {
                order = (0..rows[k]).collect();
                draws.shuffle(&mut order);
            } else if !evidence.paired {
                order = (0..rows[k]).collect();
            }
            order.truncate(MOST_ROWS);
            let all: Vec<&[f64]> = evidence.observations.rows(k).collect();
            let start = residuals.values.len();
            let values = order.iter().flat_map(|&row| features.iter().map(move |&j| (row, j)));
            residuals.values.extend(values.map(|(row, j)| all[row][j]));
            residuals.group.resize(residuals.group.len() + order.len(), k);
            residuals.counts.push(order.len());
            let own = &mut residuals.values[start..];
            for j in 0..dim {
                let mean = own.iter().skip(j).step_by(dim).sum::<f64>() / order.len() as f64;
                own.iter_mut().skip(j).step_by(dim).for_each(|value| *value -= mean);
            }
        }
        let total = residuals.group.len() as f64;
        for j in 0..dim {
            let squares: f64 = residuals.values.iter().skip(j).step_by(dim).map(|x| x * x).sum();
            let unit = libm::sqrt(squares / total);
            residuals.units[j] = if unit > 0.0 { unit } else { 1.0 };
            let unit = residuals.units[j];
            residuals.values.iter_mut().skip(j).step_by(dim).for_each(|value| *value /= unit);
        }
        residuals
    }

    /// Puts rows into other deployments' places: any of them, or those of the same individual.
    fn permute(&self, order: &mut [usize], draws: &mut Draws) {
        if !self.paired {
            return draws.shuffle(order);
        }
        let (each, samples) = (self.counts[0], self.counts.len());
        for individual in 0..each {
            for last in (1..samples).rev() {
                let other = draws.index(last + 1);
                order.swap(last * each + individual, other * each + individual);
            }
        }
    }
}

/// Directions in units of the standard deviations: features, the longest Δθ, random ones.
fn directions(
    residuals: &Residuals,
    deployments: &Deployments,
    features: &[usize],
    draws: &mut Draws,
) -> Vec<Vec<f64>> {
    let dim = residuals.dim;
    let mut all: Vec<Vec<f64>> =
        (0..dim).map(|own| (0..dim).map(|j| f64::from(j == own)).collect()).collect();
    if dim > 1 {
        let (a, b) = deployments.farthest(features);
        let step = |at: usize| {
            let j = features[at];
            (deployments.0[b][j] - deployments.0[a][j]) * residuals.units[at]
        };
        all.push((0..dim).map(step).collect());
        all.extend((0..DIRECTIONS).map(|_| (0..dim).map(|_| draws.normal()).collect()));
    }
    all
}

/// e^{iω u·z} of every row, for every direction u and frequency ω.
struct Waves {
    /// Row after row: u·z of every direction, then cosines, then sines of every frequency.
    values: Vec<f64>,
    directions: usize,
}

impl Waves {
    fn new(residuals: &Residuals, directions: &[Vec<f64>]) -> Self {
        let (count, rows) = (directions.len(), residuals.group.len());
        let width = count * (1 + 2 * FREQUENCIES.len());
        let mut values = vec![0.0; rows * width];
        let mut squares = vec![0.0; count];
        for (row, out) in
            residuals.values.chunks_exact(residuals.dim).zip(values.chunks_exact_mut(width))
        {
            for (u, direction) in directions.iter().enumerate() {
                out[u] = row.iter().zip(direction).map(|(x, u)| x * u).sum();
                squares[u] += out[u] * out[u];
            }
        }
        let units = squares.iter().map(|square| libm::sqrt(square / rows as f64));
        let units: Vec<f64> = units.map(|unit| if unit > 0.0 { unit } else { 1.0 }).collect();
        for out in values.chunks_exact_mut(width) {
            for u in 0..count {
                out[u] /= units[u];
                // All frequencies are multiples of the first.
                let (sine, cosine) = libm::sincos(FREQUENCIES[0] * out[u]);
                let (mut c, mut s) = (cosine, sine);
                for f in 0..FREQUENCIES.len() {
                    out[count * (1 + f) + u] = c;
                    out[count * (1 + FREQUENCIES.len() + f) + u] = s;
                    (c, s) = (c * cosine - s * sine, s * cosine + c * sine);
                }
            }
        }
        Waves { values, directions: count }
    }

    /// Σ n_k |φ_k − φ̄|² over deployments, directions and frequencies, each φ_k of rows recentred at
    /// their own mean. Row `order[i]` takes the place of row i.
    fn statistic(&self, residuals: &Residuals, order: &[usize]) -> f64 {
        let (count, samples) = (self.directions, residuals.counts.len());
        let width = count * (1 + 2 * FREQUENCIES.len());
        let mut sums = vec![0.0; samples * width];
        for (place, &row) in order.iter().enumerate() {
            let sums = &mut sums[residuals.group[place] * width..][..width];
            let values = &self.values[row * width..][..width];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        let total: f64 = residuals.counts.iter().map(|&n| n as f64).sum();
        let mut statistic = 0.0;
        let mut found = vec![(0.0, 0.0); samples];
        for f in 0..FREQUENCIES.len() {
            for u in 0..count {
                let (mut real, mut imaginary) = (0.0, 0.0);
                for (k, found) in found.iter_mut().enumerate() {
                    let (n, sums) = (residuals.counts[k] as f64, &sums[k * width..][..width]);
                    let (sine, cosine) = libm::sincos(FREQUENCIES[f] * sums[u] / n);
                    let c = sums[count * (1 + f) + u] / n;
                    let s = sums[count * (1 + FREQUENCIES.len() + f) + u] / n;
                    *found = (c * cosine + s * sine, s * cosine - c * sine);
                    real += n / total * found.0;
                    imaginary += n / total * found.1;
                }
                for (k, found) in found.iter().enumerate() {
                    let (x, y) = (found.0 - real, found.1 - imaginary);
                    statistic += residuals.counts[k] as f64 * (x * x + y * y);
                }
            }
        }
        statistic
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::{Observations, Sample};

    fn p_value(samples: Vec<Sample>, dim: usize, seed: u64) -> f64 {
        let count = samples.len();
        let evidence = Evidence::new(Observations { dim, samples });
        let thetas = (0..count).map(|k| vec![k as f64; dim]).collect();
        let features: Vec<usize> = (0..dim).collect();
        match location_test(&evidence, &Deployments(thetas), &features, Seed(seed), 0) {
            LocationTest::PValue(p) => p,
            LocationTest::Binary => panic!("not binary"),
        }
    }

    fn normals(seed: u64, count: usize, of: impl Fn(f64) -> f64) -> Sample {
        let mut noise = draws(Seed(seed), Use::Rows, 0);
        Sample { values: (0..count).map(|_| of(noise.normal())).collect(), individuals: None }
    }

    #[test]
    fn shifts_pass_and_thresholds_fail() {
        let base = || normals(1, 400, |x| x);
        assert!(p_value(vec![base(), normals(2, 300, |x| x + 5.0)], 1, 1) > 0.05);
        let near = |x: f64| if (0.0..1.0).contains(&x) { x - 1.0 } else { x };
        assert!(p_value(vec![base(), normals(2, 400, near)], 1, 1) < 0.01);
        assert!(p_value(vec![base(), normals(2, 400, |x| 1.6 * x)], 1, 1) < 0.01);
    }

    /// What individuals have in common hides nothing when residuals are swapped within them.
    #[test]
    fn individuals_are_swapped_with_themselves() {
        let mut noise = draws(Seed(5), Use::Rows, 0);
        let before: Vec<f64> = (0..200).map(|_| 10.0 * noise.normal()).collect();
        let sample = |values: Vec<f64>| Sample { values, individuals: Some((0..200).collect()) };
        let shift = before.iter().map(|x| x + 3.0).collect();
        assert!(p_value(vec![sample(before.clone()), sample(shift)], 1, 1) > 0.05);
        let some = before.iter().map(|x| if *x > 5.0 { x - 4.0 } else { *x }).collect();
        assert!(p_value(vec![sample(before), sample(some)], 1, 1) < 0.01);
    }

    #[test]
    fn lone_binary_features_are_skipped() {
        let sample = |one_in: usize| Sample {
            values: (0..90).map(|i| f64::from(i % one_in == 0)).collect(),
            individuals: None,
        };
        let observations = Observations { dim: 1, samples: vec![sample(2), sample(3)] };
        let two = Deployments(vec![vec![0.0], vec![1.0]]);
        let found = location_test(&Evidence::new(observations), &two, &[0], Seed(0), 0);
        assert_eq!(found, LocationTest::Binary);
    }
}
