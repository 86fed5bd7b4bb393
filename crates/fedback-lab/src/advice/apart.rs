//! A handful of E, each by a search of its own: what is drawn, and may be cheaper than the best.
//!
//! A search for the best of all E leaves those that cannot be it as soon as that is clear, and what it
//! has seen of them may be far from the best they can do.

use fedback_theory::planner::{self, Proposal, Question, Task};

/// The most E that are drawn.
const MOST: usize = 16;

/// The cheapest way for each of a handful of the E that were looked at and the planned one, then what the
/// search for this E saw of other schemes.
pub(super) fn search(
    task: &Task<'_>,
    question: &Question,
    looked_at: &[Proposal],
    planned: &Proposal,
    progress: &mut dyn FnMut(f64),
) -> Vec<Proposal> {
    let chosen = handful(looked_at, planned.local_steps);
    let mut all = Vec::new();
    for (place, &local_steps) in chosen.iter().enumerate() {
        let one = Question { local_steps: Some(vec![local_steps]), ..question.clone() };
        let found = planner::search(task, &one, &mut |_| ());
        let is_planned = local_steps == planned.local_steps;
        let closely = found.best.filter(|_| !found.cut);
        let own = closely.into_iter().chain(is_planned.then_some(*planned));
        if let Some(best) = own.min_by(|a, b| a.total().total_cmp(&b.total())) {
            // What looks cheaper than the best was not certain to stay.
            let others = found.alternatives.into_iter();
            let others = others.filter(|a| a.scheme != best.scheme && a.total() >= best.total());
            all.push(best);
            all.extend(others);
        }
        progress((place + 1) as f64 / chosen.len() as f64);
    }
    all
}

/// At most [`MOST`] of the E that were looked at, evenly spaced from the first to the last, with the planned
/// one.
fn handful(looked_at: &[Proposal], planned: usize) -> Vec<usize> {
    let mut all: Vec<usize> = looked_at.iter().map(|proposal| proposal.local_steps).collect();
    all.sort_unstable();
    all.dedup();
    let last = all.len().saturating_sub(1);
    let every = last.div_ceil(MOST - 2).max(1);
    let keep = |(place, e): &(usize, usize)| place % every == 0 || *place == last || *e == planned;
    all.into_iter().enumerate().filter(keep).map(|(_, e)| e).collect()
}
