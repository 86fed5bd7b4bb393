//! What there is to choose from: schemes with their cohorts, and grids of whole numbers.

use fedback_core::protocol::Scheme;

use super::Question;

impl Question {
    /// Whether larger cohorts cost more.
    pub(super) fn waits(&self) -> bool {
        self.prices.communication * self.prices.straggler > 0.0
    }

    /// Whether a scheme may be the best. Where waiting costs nothing, full participation is at least
    /// as good as any cohort for every convex risk (Jensen), and larger cohorts as smaller ones.
    pub(super) fn contends(&self, scheme: Scheme, clients: usize) -> bool {
        let largest = self.largest_cohort.min(clients);
        match scheme {
            _ if self.waits() => true,
            Scheme::Full => true,
            Scheme::WithReplacement { cohort }
            | Scheme::WithoutReplacement { cohort }
            | Scheme::FirstArrivals { cohort, .. } => {
                cohort == largest && !(self.full && largest == clients)
            }
        }
    }

    /// Whether a scheme may be chosen.
    pub fn allows(&self, scheme: Scheme, clients: usize) -> bool {
        match scheme {
            Scheme::Full => self.full && self.largest_cohort >= clients,
            Scheme::WithReplacement { cohort } => {
                self.with_replacement && cohort <= self.largest_cohort
            }
            Scheme::WithoutReplacement { cohort } => {
                self.without_replacement && cohort <= self.largest_cohort
            }
            Scheme::FirstArrivals { .. } => false,
        }
    }

    /// Every scheme to look at, with cohorts on a grid.
    pub(super) fn schemes(&self, clients: usize) -> Vec<Scheme> {
        let largest = self.largest_cohort.max(1);
        let grid = |most: usize| -> Vec<usize> {
            match self.waits() {
                true => geometric(1, most, 1.3),
                // Only for the chart: a handful below the largest.
                false => {
                    let mut few = [most / 5, most / 2, most].map(|k| k.max(1)).to_vec();
                    few.dedup();
                    few
                }
            }
        };
        let mut schemes = Vec::new();
        if self.full && largest >= clients {
            schemes.push(Scheme::Full);
        }
        if self.without_replacement {
            let most = largest.min(clients);
            let cohorts = grid(most).into_iter().filter(|k| !self.full || *k < clients);
            schemes.extend(cohorts.map(|cohort| Scheme::WithoutReplacement { cohort }));
        }
        if self.with_replacement {
            let cohorts = grid(largest.min(clients)).into_iter();
            schemes.extend(cohorts.map(|cohort| Scheme::WithReplacement { cohort }));
        }
        schemes
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
