//! What there is to choose from: schemes with their cohorts, and grids of whole numbers.

use fedback_core::protocol::Scheme;

use super::Question;
use crate::cohort;

/// Local steps beyond which nobody goes without saying so.
const MOST_LOCAL_STEPS: usize = 2000;

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

    /// The E to look at: all up to `every`, and from there on such that grow by about `factor`.
    pub(super) fn all_local_steps(&self, every: usize, factor: f64) -> Vec<usize> {
        let most = MOST_LOCAL_STEPS.min(self.budget as usize).max(1);
        let beyond = geometric(every.min(most), most, factor);
        self.local_steps.clone().unwrap_or_else(|| (1..every.min(most)).chain(beyond).collect())
    }

    /// Every scheme to look at, with cohorts on a grid.
    pub(super) fn all_schemes(&self, clients: usize) -> Vec<Scheme> {
        let largest = self.largest_cohort.clamp(1, clients);
        let mut grid = match self.waits() {
            true => geometric(1, largest, 1.3),
            // Only for the chart: a handful below the largest.
            false => [largest / 5, largest / 2, largest].map(|k| k.max(1)).to_vec(),
        };
        grid.dedup();
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
fn geometric(first: usize, last: usize, factor: f64) -> Vec<usize> {
    let grown = |number: usize| ((number as f64 * factor) as usize).max(number + 1).min(last);
    let next = |number: &usize| (*number < last).then(|| grown(*number));
    std::iter::successors(Some(first), next).collect()
}

/// At most `most` whole numbers strictly between two, evenly spaced.
pub(super) fn between(low: usize, high: usize, most: usize) -> impl Iterator<Item = usize> {
    let inside = high.saturating_sub(low + 1);
    let every = inside.div_ceil(most).max(1);
    (low + 1..high).skip((every - 1) / 2).step_by(every)
}
