//! The deployments' means, and the covariance of all of them together.
//!
//! Whoever is seen under several deployments makes their means dependent. Individuals are therefore
//! grouped into strata, one for each set of deployments that somebody was seen under; within a
//! stratum they are independent and alike. With nobody identified the strata are the deployments
//! and contrasts have Welch's variance; with everybody seen everywhere there is one stratum and a
//! contrast of two deployments is the paired t. What lies between needs no other formula.

use std::collections::BTreeMap;

use nalgebra::DMatrix;

use crate::observations::Observations;

/// Individuals of a set of deployments that fewer than this were seen under are taken together: so
/// few say nothing of their own variance.
const FEW: usize = 10;

/// Means and their covariance, by strata.
#[derive(Clone, Debug)]
pub struct Moments {
    /// Features of a row.
    pub dim: usize,
    /// Rows of each deployment.
    pub counts: Vec<usize>,
    /// Means, deployment after deployment.
    pub means: Vec<f64>,
    /// Independent parts of the means' covariance.
    pub strata: Vec<Stratum>,
}

/// What the individuals of one set of deployments contribute to the covariance of the means.
#[derive(Clone, Debug)]
pub struct Stratum {
    /// The deployments they were seen under.
    pub deployments: Vec<usize>,
    /// Their number less one.
    pub degrees: f64,
    /// The covariance they give to these deployments' means, in that order.
    pub covariance: DMatrix<f64>,
}

impl Moments {
    /// The moments of a client's rows.
    pub fn new(observations: &Observations) -> Self {
        let (dim, counts) = (observations.dim, observations.counts());
        let mut means = vec![0.0; counts.len() * dim];
        for (k, mean) in means.chunks_exact_mut(dim).enumerate() {
            for row in observations.rows(k) {
                mean.iter_mut().zip(row).for_each(|(mean, value)| *mean += value);
            }
            mean.iter_mut().for_each(|mean| *mean /= counts[k] as f64);
        }
        let mut moments = Moments { dim, counts, means, strata: Vec::new() };
        moments.strata = groups(observations)
            .into_iter()
            .map(|(deployments, members)| moments.stratum(observations, deployments, &members))
            .collect();
        moments
    }

    /// The mean of one deployment.
    pub fn mean(&self, deployment: usize) -> &[f64] {
        &self.means[deployment * self.dim..][..self.dim]
    }

    fn stratum(
        &self,
        observations: &Observations,
        deployments: Vec<usize>,
        members: &[Member],
    ) -> Stratum {
        let (dim, size) = (self.dim, deployments.len() * self.dim);
        let place: BTreeMap<usize, usize> =
            deployments.iter().enumerate().map(|(place, &k)| (k, place)).collect();
        let mut sums = vec![0.0; size * size];
        let mut residual = vec![0.0; size];
        for member in members {
            // Whoever of a mixed stratum was not seen under a deployment has no part in its mean.
            residual.fill(0.0);
            for &(k, row) in member {
                let values = &observations.samples[k].values[row * dim..][..dim];
                let out = &mut residual[place[&k] * dim..][..dim];
                for ((out, value), mean) in out.iter_mut().zip(values).zip(self.mean(k)) {
                    *out = value - mean;
                }
            }
            for (a, sums) in sums.chunks_exact_mut(size).enumerate() {
                let left = residual[a];
                for (sum, right) in sums[..=a].iter_mut().zip(&residual) {
                    *sum += left * right;
                }
            }
        }
        let count = members.len() as f64;
        let correction = if members.len() > 1 { count / (count - 1.0) } else { 2.0 };
        let rows = |at: usize| self.counts[deployments[at / dim]] as f64;
        let covariance = DMatrix::from_fn(size, size, |a, b| {
            correction * sums[a.max(b) * size + a.min(b)] / (rows(a) * rows(b))
        });
        Stratum { deployments, degrees: (count - 1.0).max(1.0), covariance }
    }
}

/// Where an individual was seen: deployment and row.
type Member = Vec<(usize, usize)>;

fn groups(observations: &Observations) -> Vec<(Vec<usize>, Vec<Member>)> {
    let counts = observations.counts();
    let identified: Option<Vec<&Vec<usize>>> =
        observations.samples.iter().map(|sample| sample.individuals.as_ref()).collect();
    let Some(identified) = identified else {
        let alone = |k: usize| (0..counts[k]).map(|row| vec![(k, row)]).collect();
        return (0..counts.len()).map(|k| (vec![k], alone(k))).collect();
    };
    let mut members = BTreeMap::<usize, Member>::new();
    for (k, individuals) in identified.into_iter().enumerate() {
        for (row, individual) in individuals.iter().enumerate() {
            members.entry(*individual).or_default().push((k, row));
        }
    }
    let mut groups = BTreeMap::<Vec<usize>, Vec<Member>>::new();
    for member in members.into_values() {
        groups.entry(member.iter().map(|seen| seen.0).collect()).or_default().push(member);
    }
    let (mut groups, few): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|(_, members)| members.len() >= FEW);
    if !few.is_empty() {
        let mixed = few.into_iter().flat_map(|(_, members)| members).collect();
        groups.push(((0..counts.len()).collect(), mixed));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::Sample;

    fn sample(values: &[f64], individuals: Option<Vec<usize>>) -> Sample {
        Sample { values: values.to_vec(), individuals }
    }

    #[test]
    fn unidentified_rows_give_the_variances_of_means() {
        let samples = vec![sample(&[1.0, 2.0, 6.0], None), sample(&[0.0, 4.0], None)];
        let moments = Moments::new(&Observations { dim: 1, samples });
        assert_eq!(moments.means, [3.0, 2.0]);
        assert_eq!(moments.strata.len(), 2);
        assert!((moments.strata[0].covariance[(0, 0)] - 7.0 / 3.0).abs() < 1e-15);
        assert!((moments.strata[1].covariance[(0, 0)] - 8.0 / 2.0).abs() < 1e-15);
        assert_eq!((moments.strata[0].degrees, moments.strata[1].degrees), (2.0, 1.0));
    }

    #[test]
    fn pairs_make_one_stratum() {
        let count = 12;
        let before: Vec<f64> = (0..count).map(|i| (i * i % 7) as f64).collect();
        let after: Vec<f64> = (0..count).map(|i| before[i] + 1.0 + (i % 3) as f64).collect();
        let reversed: Vec<f64> = after.iter().rev().copied().collect();
        let samples = vec![
            sample(&before, Some((0..count).collect())),
            sample(&reversed, Some((0..count).rev().collect())),
        ];
        let moments = Moments::new(&Observations { dim: 1, samples });
        let [stratum] = &moments.strata[..] else { panic!("one stratum") };
        let c = &stratum.covariance;
        // Differences are 1, 2, 3 in turn, four times each: variance 8/11.
        let difference = c[(0, 0)] + c[(1, 1)] - 2.0 * c[(0, 1)];
        assert!((difference - 8.0 / 11.0 / 12.0).abs() < 1e-14);
        assert_eq!(stratum.degrees, 11.0);
    }

    /// Individuals seen in part: the covariance of the means is that of sums over individuals.
    #[test]
    fn partial_overlap_has_its_strata() {
        let one: Vec<usize> = (0..30).collect();
        let two: Vec<usize> = (18..45).collect();
        let values = |who: &[usize], k: usize| -> Vec<f64> {
            who.iter().map(|i| (i * (i + 3 * k) % 11) as f64).collect()
        };
        let samples = vec![
            sample(&values(&one, 0), Some(one.clone())),
            sample(&values(&two, 1), Some(two.clone())),
        ];
        let moments = Moments::new(&Observations { dim: 1, samples });
        let sets: Vec<Vec<usize>> = moments.strata.iter().map(|s| s.deployments.clone()).collect();
        assert_eq!(sets, [vec![0], vec![0, 1], vec![1]]);
        let degrees: Vec<f64> = moments.strata.iter().map(|s| s.degrees).collect();
        assert_eq!(degrees, [17.0, 11.0, 14.0]);
    }
}
