//! How sure a verdict is where the responses were estimated: the share of resampled problems that get
//! each verdict.

use std::borrow::Borrow;

use fedback_core::federation::Federation;
use fedback_core::protocol::Protocol;

use super::{Verdict, judge};
use crate::cohort::Arrived;
use crate::stable::stable_points;

/// Shares of verdicts among resamples.
#[derive(Clone, Debug, PartialEq)]
pub struct Confidence {
    /// How many problems were judged.
    pub resamples: usize,
    /// The share of every verdict, in the order of [`Verdict::ALL`].
    pub shares: [f64; 5],
}

impl Confidence {
    /// The share of one verdict.
    pub fn share(&self, verdict: Verdict) -> f64 {
        Verdict::ALL.iter().position(|v| *v == verdict).map_or(0.0, |place| self.shares[place])
    }
}

/// Judges every resample; none where there are none.
pub fn confidence<F: Borrow<Federation>>(
    resamples: impl IntoIterator<Item = F>,
    protocol: &Protocol,
    arrived: Option<&Arrived>,
    start: &[f64],
) -> Option<Confidence> {
    let mut counts = [0usize; 5];
    for resample in resamples {
        let federation = resample.borrow();
        let stable = stable_points(federation, start);
        let verdict = judge(federation, protocol, arrived, start, &stable).verdict();
        for (count, known) in counts.iter_mut().zip(Verdict::ALL) {
            *count += usize::from(known == verdict);
        }
    }
    let resamples: usize = counts.iter().sum();
    let shares = counts.map(|count| count as f64 / resamples as f64);
    (resamples > 0).then_some(Confidence { resamples, shares })
}
