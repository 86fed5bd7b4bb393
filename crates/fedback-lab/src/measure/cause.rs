//! What probably made a run blow up.

use fedback_core::protocol::{Aggregate, Round, Scheme, Step};
use fedback_theory::limit::RoundMap;

use crate::plan::Plan;
use crate::words::short;

/// What to say of a run that blew up where nothing is known of its rounds.
pub(super) const UNKNOWN_CAUSE: &str =
    "likely cause: steps too large or a response too strong; try smaller steps";

/// The step size against the stability limit, or what else can make a run blow up.
pub(super) fn likely_cause(plan: &Plan, round: Round) -> String {
    let place = plan.stable_point.as_deref().unwrap_or(&plan.start);
    let map = RoundMap::new(plan.federation(), &plan.protocol, None, place).ok();
    let Some(mut map) = map else { return UNKNOWN_CAUSE.into() };
    let first = plan.protocol.step_size.at(Step(0));
    let now = plan.protocol.step_size.at(plan.protocol.first_step(round));
    match map.largest_step() {
        None => {
            "likely cause: no step size is small enough, the average response is stronger than \
                 the loss (`fedback solve` says more)"
                .into()
        }
        Some(limit) if first > limit => format!(
            "likely cause: the step size, {} at the start and {} then, is above about {}, the \
             largest with which an average round shrinks errors; choose algorithm.step_size below it",
            short(first),
            short(now),
            short(limit)
        ),
        Some(_)
            if plan.protocol.aggregate == Aggregate::Iterates
                && matches!(plan.protocol.scheme, Scheme::WithoutReplacement { .. }) =>
        {
            "likely cause: coefficients that do not sum to one rescale the model at random; use \
             aggregate = \"deltas\""
                .into()
        }
        Some(limit) => format!(
            "the step size, {} at the start, is below the limit of an average round, {}; likely \
             cause: the variance of cohorts or batches, or a start too far out: try smaller steps or \
             a larger cohort",
            short(first),
            short(limit)
        ),
    }
}
