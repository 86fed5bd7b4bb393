//! What there is to choose from: schemes with their cohorts, and grids of whole numbers.

use fedback_core::protocol::Scheme;

use super::Question;
use crate::cohort;

impl Question {
    /// Whether larger cohorts cost more.
    pub(super) fn waits(&self) -> bool {
        self.prices.communication * self.prices.straggler > 0.0
    }

    /// Whether a scheme may be the best. Where waiting costs nothing, full participation is at least
    /// as good as any cohort for every convex risk (Jensen), and larger cohorts as smaller ones.
    pub(super) fn contends(&self, scheme: Scheme, clients: usize) -> bool {
        let largest = self.largest_cohort.min(clients);
        let everybody = self.schemes.contains(&Scheme::Full) && largest == clients;
        self.waits() || scheme.cohort().is_none_or(|cohort| cohort == largest && !everybody)
    }

    /// Whether a scheme may be chosen.
    pub fn allows(&self, scheme: Scheme, clients: usize) -> bool {
        let kind = std::mem::discriminant(&scheme);
        scheme.cohort().unwrap_or(clients) <= self.largest_cohort
            && self.schemes.iter().any(|allowed| std::mem::discriminant(allowed) == kind)
    }

    /// Every scheme to look at, with cohorts on a grid.
    pub(super) fn all_schemes(&self, clients: usize) -> Vec<Scheme> {
        let largest = self.largest_cohort.clamp(1, clients);
        let grid: Vec<usize> = match self.waits() {
            true => geometric(1, largest, 1.3),
            // Only for the chart: a handful below the largest.
            false => {
                let mut few = [largest / 5, largest / 2, largest].map(|k| k.max(1)).to_vec();
                few.dedup();
                few
            }
        };
        let full = self.schemes.contains(&Scheme::Full);
        let sized = |scheme: &Scheme| match scheme.cohort() {
            None => vec![*scheme],
            Some(_) => grid.iter().map(|&cohort| cohort::resized(*scheme, cohort)).collect(),
        };
        let all = self.schemes.iter().flat_map(sized);
        let twice = |scheme: &Scheme| {
            full && *scheme != Scheme::Full && cohort::is_everybody(*scheme, clients)
        };
        all.filter(|scheme| self.allows(*scheme, clients) && !twice(scheme)).collect()
    }
}

/// Whole numbers from `first` to `last` that grow by about `factor`, both ends included.
pub(super) fn geometric(first: usize, last: usize, factor: f64) -> Vec<usize> {
    let mut numbers = vec![first];
    let mut next = first;
    while next < last {
        next = ((next as f64 * factor) as usize).max(next + 1).min(last);
        numbers.push(next);
    }
    numbers
}

/// At most `most` whole numbers strictly between two, evenly spaced.
pub(super) fn between(low: usize, high: usize, most: usize) -> Vec<usize> {
    let inside = high.saturating_sub(low + 1);
    let every = inside.div_ceil(most).max(1);
    (low + 1..high).skip((every - 1) / 2).step_by(every).collect()
}
