//! How sure a verdict is where the responses were estimated: the shares of verdicts among resamples.

use fedback_theory::certificate::Verdict;

/// The shares of verdicts.
#[derive(Clone, Debug, PartialEq)]
pub struct Confidence {
    /// How many problems were judged.
    pub resamples: usize,
    /// The share of every verdict, in the order of [`Verdict::ALL`].
    pub shares: [f64; 5],
}

impl Confidence {
    /// Counts verdicts; none where there are none.
    pub fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Option<Self> {
        let mut counts = [0usize; 5];
        verdicts.into_iter().for_each(|verdict| counts[verdict as usize] += 1);
        let resamples: usize = counts.iter().sum();
        let shares = counts.map(|count| count as f64 / resamples as f64);
        (resamples > 0).then_some(Confidence { resamples, shares })
    }

    /// The share of one verdict.
    pub fn share(&self, verdict: Verdict) -> f64 {
        self.shares[verdict as usize]
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
