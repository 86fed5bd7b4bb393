//! How sure a verdict is where the responses were estimated: the shares of verdicts among resamples.

use std::collections::BTreeMap;

use fedback_theory::certificate::Verdict;
use serde::Serialize;

/// The shares of verdicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Confidence {
    /// How many problems were judged.
    pub resamples: usize,
    /// The share of every verdict.
    pub shares: BTreeMap<Verdict, f64>,
}

impl Confidence {
    /// Counts verdicts; none where there are none.
    pub fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Option<Self> {
        let verdicts: Vec<Verdict> = verdicts.into_iter().collect();
        let count = |one: Verdict| verdicts.iter().filter(|other| **other == one).count() as f64;
        let resamples = verdicts.len();
        let shares = Verdict::ALL.map(|verdict| (verdict, count(verdict) / resamples as f64));
        (resamples > 0).then_some(Confidence { resamples, shares: shares.into() })
    }

    /// The share of one verdict.
    pub fn share(&self, verdict: Verdict) -> f64 {
        self.shares[&verdict]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_is_a_share() {
        let settles = [Verdict::Settles; 3];
        let found = Confidence::of(settles.into_iter().chain([Verdict::DoesNotSettle])).unwrap();
        assert_eq!(found.resamples, 4);
        assert_eq!(found.share(Verdict::Settles), 0.75);
        assert_eq!(found.share(Verdict::DoesNotSettle), 0.25);
        assert!(Confidence::of([]).is_none());
    }
}
