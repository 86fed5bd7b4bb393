//! Who is not seen again: individuals of one deployment that are missing under the next.
//!
//! Means over those who stay move although nobody reacts, if leaving depends on the score. So the
//! mean score of those who left is compared with that of those who stayed (Welch's t): the score
//! under the model that they had, and under the one that came.

use std::collections::BTreeSet;

use crate::contrast::holm;
use crate::model::Deployments;
use crate::observations::{Observations, Sample};
use crate::selection::Evidence;

/// Fewer than this, gone or staying, say nothing of their mean.
const FEW: usize = 10;

/// Those of one deployment who are missing under the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Missing {
    /// The deployment that they were seen under; they are missing under the one after it.
    pub from: usize,
    /// How many they are.
    pub count: usize,
    /// Of how many.
    pub of: usize,
    /// The p-value of leaving not depending on the score; none where too few left or stayed.
    pub p_value: Option<f64>,
}

impl Missing {
    /// The share that is missing.
    pub fn share(&self) -> f64 {
        self.count as f64 / self.of as f64
    }
}

/// Who is missing under each deployment but the first, in their order. Nothing where nobody is
/// identified, or nobody is seen again: these are other people then.
pub fn missing(observations: &Observations, deployments: &Deployments) -> Vec<Missing> {
    let samples = &observations.samples;
    let step = |from: usize| {
        let (here, next) =
            (samples[from].individuals.as_ref()?, samples[from + 1].individuals.as_ref()?);
        let next: BTreeSet<usize> = next.iter().copied().collect();
        let count = here.iter().filter(|who| !next.contains(who)).count();
        let scores = [&deployments.0[from], &deployments.0[from + 1]];
        let scores: Vec<&Vec<f64>> =
            scores.into_iter().filter(|theta| theta.iter().any(|c| *c != 0.0)).collect();
        let mut groups = [Vec::new(), Vec::new()];
        for (row, who) in observations.rows(from).zip(here) {
            let group = &mut groups[usize::from(next.contains(who))];
            group.extend(
                scores.iter().map(|theta| row.iter().zip(*theta).map(|(x, c)| x * c).sum::<f64>()),
            );
        }
        let enough = count >= FEW && here.len() - count >= FEW;
        let p_value = enough.then(|| {
            let sample = |values: Vec<f64>| Sample { values, individuals: None };
            let samples = groups.map(sample).to_vec();
            let found = Evidence::new(Observations { dim: scores.len(), samples }).moved();
            holm(&found).into_iter().fold(1.0, f64::min)
        });
        let missing = Missing { from, count, of: here.len(), p_value };
        (count < here.len()).then_some(missing)
    };
    (0..samples.len().saturating_sub(1)).filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Use, draws};
    use fedback_core::stream::Seed;

    /// 200 people of two features; `leaves` says who is missing under the second deployment.
    fn panel(leaves: impl Fn(f64, f64) -> bool) -> Observations {
        let mut noise = draws(Seed(4), Use::Rows, 0);
        let mut both = [Sample::default(), Sample::default()];
        let mut who = [Vec::new(), Vec::new()];
        for person in 0..200 {
            let row = [noise.normal(), noise.normal()];
            let score = row[0] - row[1];
            let stays = !leaves(score, noise.uniform());
            for k in 0..if stays { 2 } else { 1 } {
                both[k].values.extend(row);
                who[k].push(person);
            }
        }
        let samples = both.into_iter().zip(who);
        let samples = samples.map(|(sample, who)| Sample { individuals: Some(who), ..sample });
        Observations { dim: 2, samples: samples.collect() }
    }

    fn two() -> Deployments {
        Deployments(vec![vec![0.0, 0.0], vec![1.0, -1.0]])
    }

    #[test]
    fn leaving_by_score_is_told_from_leaving() {
        let by_score = missing(&panel(|score, _| score > 0.7), &two());
        assert_eq!(by_score.len(), 1);
        assert_eq!((by_score[0].from, by_score[0].of), (0, 200));
        assert!((0.2..0.4).contains(&by_score[0].share()));
        assert!(by_score[0].p_value.unwrap() < 1e-10);
        let by_chance = missing(&panel(|_, chance| chance < 0.3), &two());
        assert!(by_chance[0].count > 40 && by_chance[0].p_value.unwrap() > 0.01);
    }

    #[test]
    fn few_are_counted_and_not_tested() {
        let all_stay = missing(&panel(|_, _| false), &two());
        assert_eq!((all_stay[0].count, all_stay[0].p_value), (0, None));
        assert!(missing(&panel(|_, _| true), &two()).is_empty());
        let mut unknown = panel(|score, _| score > 0.7);
        unknown.samples[1].individuals = None;
        assert!(missing(&unknown, &two()).is_empty());
    }
}
