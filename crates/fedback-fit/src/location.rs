//! Is it a location shift? The distributions under the deployments, recentred, should then agree.
//!
//! The statistic is a sum of squared distances between empirical characteristic functions, along each
//! moving feature and along random directions, at four frequencies in units of the standard deviation.
//! A second one is that along the deployed models' own scores, at finer frequencies: those who react only
//! near a threshold, or only beyond one, leave their mark there. The smaller of both p-values counts, compared with
//! the smaller one of each permutation. The distribution comes from permutations of the residuals between deployments
//! (of the same individual where individuals are known), *recentred inside every permutation*:
//! without that the size of the test would be next to zero, since the residuals have been centred
//! and permuted ones have not.

use fedback_core::stream::{Draws, Seed};

use crate::model::Deployments;
use crate::selection::{Evidence, LEVEL};
use crate::{Use, draws};

/// Frequencies, divided by the standard deviation.
const FREQUENCIES: [f64; 4] = [0.5, 1.0, 1.5, 2.0];
/// Frequencies of scores, fine enough for those who gather just below a threshold.
const FINE: [f64; 8] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0];
/// The finest frequency that n rows allow, divided by √n: the mean is known to 1/√n only, and of skewed values with
/// heavy tails finer waves would reject shifts.
const FINEST: f64 = 0.4;
/// The share of rows beyond which a single value makes a feature partly discrete.
const FREQUENT: f64 = 0.02;
/// Random directions beside the features.
const DIRECTIONS: usize = 20;
/// Permutations that the statistic is compared with at first.
const PERMUTATIONS: usize = 399;
/// Permutations for each of several tests, where the first ones leave a doubt: p-values must be so
/// small that they can be multiplied by the number of tests.
const PER_TEST: usize = 200;
/// Permutations beyond which there are only as many for each test as it takes to reject at all.
const MANY: usize = 20_000;
const FEWEST_PER_TEST: usize = 80;
/// Rows of a deployment that are compared; more are left out at random.
const MOST_ROWS: usize = 2048;

/// What the test found.
#[derive(Clone, Debug, PartialEq)]
pub enum LocationTest {
    /// The p-value of a location shift.
    PValue(f64),
    /// Features of two values only, whose spread cannot but change with their mean.
    Binary,
}

/// Tests the moving features of a client for a location shift, as one of so many tests whose p-values
/// are to be corrected for their number.
///
/// The first permutations decide whether more are worth their time. That makes no p-value below
/// [`LEVEL`] more likely: such a one is that of all permutations.
pub fn location_test(
    evidence: &Evidence,
    deployments: &Deployments,
    features: &[usize],
    seed: Seed,
    client: u32,
    tests: usize,
) -> LocationTest {
    let tested: Vec<usize> =
        features.iter().copied().filter(|&j| !is_binary(evidence, j)).collect();
    if tested.is_empty() {
        return LocationTest::Binary;
    }
    let mut draws = draws(seed, Use::Permutations, client);
    let residuals = Residuals::new(evidence, &mut draws);
    let features = Waves::new(&residuals, &among(&residuals, &tested, &mut draws), &FREQUENCIES);
    let scores = scores(deployments, &tested);
    let fine = scores.iter().all(|score| residuals.are_continuous(score));
    let rows = residuals.counts.iter().copied().min().unwrap_or(0) as f64;
    let known = FINE.partition_point(|frequency| *frequency <= FINEST * libm::sqrt(rows));
    let frequencies = if fine { &FINE[..known.max(FREQUENCIES.len())] } else { &FREQUENCIES[..] };
    let scores = Waves::new(&residuals, &scores, frequencies);
    let both = |order: &[usize]| [&features, &scores].map(|w| w.statistic(&residuals, order));
    let mut order: Vec<usize> = (0..residuals.group.len()).collect();
    let mut all = vec![both(&order)];
    let mut p_value = 0.0;
    for permutations in [PERMUTATIONS, permutations(tests)] {
        while p_value < LEVEL && all.len() <= permutations {
            residuals.permute(&mut order, &mut draws);
            all.push(both(&order));
        }
        p_value = smaller_p_value(&all);
    }
    LocationTest::PValue(p_value)
}

/// The permutations that are worth their time.
fn permutations(tests: usize) -> usize {
    (PER_TEST * tests).min(MANY.max(FEWEST_PER_TEST * tests))
}

/// The p-value of the first of several pairs of statistics by the smaller of both ranks.
fn smaller_p_value(all: &[[f64; 2]]) -> f64 {
    let mut smaller = vec![all.len(); all.len()];
    for which in 0..2 {
        let mut sorted: Vec<f64> = all.iter().map(|pair| pair[which]).collect();
        sorted.sort_by(f64::total_cmp);
        for (least, pair) in smaller.iter_mut().zip(all) {
            // Equal up to rounding is as large.
            let as_large = pair[which] * (1.0 - 1e-9) - 1e-15;
            let below = sorted.partition_point(|value| *value < as_large);
            *least = (*least).min(sorted.len() - below);
        }
    }
    let beyond = smaller.iter().filter(|least| **least <= smaller[0]).count();
    beyond as f64 / all.len() as f64
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

/// Rows less the mean of their deployment.
struct Residuals {
    dim: usize,
    /// Row after row, deployment after deployment.
    values: Vec<f64>,
    /// The deployment of each row.
    group: Vec<usize>,
    /// Rows of each deployment.
    counts: Vec<usize>,
    /// The standard deviation of each feature.
    units: Vec<f64>,
    paired: bool,
}

impl Residuals {
    fn new(evidence: &Evidence, draws: &mut Draws) -> Self {
        let dim = evidence.observations.dim;
        let mut residuals = Residuals {
            dim,
            values: Vec::new(),
            group: Vec::new(),
            counts: Vec::new(),
            units: vec![1.0; dim],
            paired: evidence.paired,
        };
        let mut order: Vec<usize> = Vec::new();
        for (k, rows) in evidence.observations.counts().into_iter().enumerate() {
            // Individuals keep their place under all deployments.
            if k == 0 || !evidence.paired {
                order = (0..rows).collect();
                if rows > MOST_ROWS {
                    draws.shuffle(&mut order);
                    order.truncate(MOST_ROWS);
                }
            }
            let values = &evidence.observations.samples[k].values;
            let start = residuals.values.len();
            residuals.values.extend(order.iter().flat_map(|&row| &values[row * dim..][..dim]));
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
            let column = || residuals.values.iter().skip(j).step_by(dim);
            let unit = libm::sqrt(column().map(|value| value * value).sum::<f64>() / total);
            if unit > 0.0 {
                residuals.units[j] = unit;
            }
        }
        residuals
    }

    /// Whether values along a direction are continuous under some deployment: none is frequent. Counts, moved by
    /// anything but a whole number, and features that are often zero or capped are told apart by fine frequencies
    /// although they only moved; values that are frequent after a response only are what to find.
    fn are_continuous(&self, direction: &[f64]) -> bool {
        let along = |row: &[f64]| row.iter().zip(direction).map(|(x, u)| x * u).sum();
        let mut all = self.values.chunks_exact(self.dim);
        self.counts.iter().any(|&count| {
            let mut values: Vec<f64> = all.by_ref().take(count).map(along).collect();
            values.sort_by(f64::total_cmp);
            // Equal up to the rounding of sums.
            let same = 1e-9 * (values[count - 1] - values[0]);
            let most = values.chunk_by(|a, b| b - a <= same).map(<[f64]>::len).max().unwrap_or(0);
            most as f64 <= (FREQUENT * count as f64).max(2.0)
        })
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

/// The moving features, and random directions among them.
fn among(residuals: &Residuals, features: &[usize], draws: &mut Draws) -> Vec<Vec<f64>> {
    let dim = residuals.dim;
    let mut all: Vec<Vec<f64>> =
        (features.iter()).map(|&own| (0..dim).map(|j| f64::from(j == own)).collect()).collect();
    for _ in 0..if features.len() > 1 { DIRECTIONS } else { 0 } {
        let mut direction = vec![0.0; dim];
        features.iter().for_each(|&j| direction[j] = draws.normal() / residuals.units[j]);
        all.push(direction);
    }
    all
}

/// The scores of the deployed models, over all features, and of their longest difference.
fn scores(deployments: &Deployments, features: &[usize]) -> Vec<Vec<f64>> {
    let (a, b) = deployments.farthest(features);
    let longest = deployments.0[a].iter().zip(&deployments.0[b]).map(|(a, b)| b - a).collect();
    let all = deployments.0.iter().cloned().chain([longest]);
    all.filter(|score: &Vec<f64>| score.iter().any(|c| *c != 0.0)).collect()
}

/// e^{iω u·z} of every row, for every direction u and frequency ω.
struct Waves<'a> {
    /// Row after row: u·z of every direction, then cosines, then sines of every frequency.
    values: Vec<f64>,
    directions: usize,
    frequencies: &'a [f64],
}

impl<'a> Waves<'a> {
    fn new(residuals: &Residuals, directions: &[Vec<f64>], frequencies: &'a [f64]) -> Self {
        let (count, rows) = (directions.len(), residuals.group.len());
        let width = count * (1 + 2 * frequencies.len());
        let mut values = vec![0.0; rows * width];
        let mut squares = vec![0.0; count];
        let all = residuals.values.chunks_exact(residuals.dim);
        for (row, out) in all.zip(values.chunks_exact_mut(width)) {
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
                for (f, frequency) in frequencies.iter().enumerate() {
                    let (sine, cosine) = libm::sincos(frequency * out[u]);
                    out[count * (1 + f) + u] = cosine;
                    out[count * (1 + frequencies.len() + f) + u] = sine;
                }
            }
        }
        Waves { values, directions: count, frequencies }
    }

    /// Σ n_k |φ_k − φ̄|² over deployments, directions and frequencies, each φ_k of rows recentred at
    /// their own mean. Row `order[i]` takes the place of row i.
    fn statistic(&self, residuals: &Residuals, order: &[usize]) -> f64 {
        let (count, samples) = (self.directions, residuals.counts.len());
        let width = count * (1 + 2 * self.frequencies.len());
        let mut sums = vec![0.0; samples * width];
        for (place, &row) in order.iter().enumerate() {
            let sums = &mut sums[residuals.group[place] * width..][..width];
            let values = &self.values[row * width..][..width];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        let total: f64 = residuals.counts.iter().map(|&n| n as f64).sum();
        let mut statistic = 0.0;
        let mut found = vec![(0.0, 0.0); samples];
        for (f, frequency) in self.frequencies.iter().enumerate() {
            for u in 0..count {
                let (mut real, mut imaginary) = (0.0, 0.0);
                for (k, found) in found.iter_mut().enumerate() {
                    let (n, sums) = (residuals.counts[k] as f64, &sums[k * width..][..width]);
                    let (sine, cosine) = libm::sincos(frequency * sums[u] / n);
                    let c = sums[count * (1 + f) + u] / n;
                    let s = sums[count * (1 + self.frequencies.len() + f) + u] / n;
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
        match location_test(&evidence, &Deployments(thetas), &features, Seed(seed), 0, 1) {
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
    fn the_smaller_rank_counts() {
        // Ranks from the top: 2 and 4, 1 and 3, 3 and 2, 4 and 1; all have one of 2 or less.
        let all = [[5.0, 1.0], [9.0, 2.0], [4.0, 3.0], [0.0, 7.0]];
        assert_eq!(smaller_p_value(&all), 1.0);
        let all = [[5.0, 9.0], [9.0, 2.0], [4.0, 3.0], [0.0, 7.0]];
        assert_eq!(smaller_p_value(&all), 0.5);
        assert_eq!(smaller_p_value(&[[3.0, 0.0], [1.0, 0.0], [2.0, 0.0]]), 1.0 / 3.0);
    }

    #[test]
    fn lone_binary_features_are_skipped() {
        let sample = |one_in: usize| Sample {
            values: (0..90).map(|i| f64::from(i % one_in == 0)).collect(),
            individuals: None,
        };
        let observations = Observations { dim: 1, samples: vec![sample(2), sample(3)] };
        let two = Deployments(vec![vec![0.0], vec![1.0]]);
        let found = location_test(&Evidence::new(observations), &two, &[0], Seed(0), 0, 1);
        assert_eq!(found, LocationTest::Binary);
    }
}
