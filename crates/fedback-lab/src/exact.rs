//! Exact curves of a plan.

use std::time::Instant;

use fedback_core::loss::Loss;
use fedback_theory::exact::{ExactCurve, NoMoments};
use fedback_theory::round;

use crate::dynamics::Dynamics;
use crate::error::Error;
use crate::measure::Measurement;
use crate::outcome::{Curve, Outcome};
use crate::plan::Plan;
use crate::spec::Count;

/// Seconds that an exact curve may take beside a run, where nobody has asked for it.
const MOST_SECONDS: f64 = 20.0;

/// Exact expectations at every round that the plan records. Not available, with the reason, where
/// the problem is not affine or the algorithm is one that theory does not know.
pub fn exact(plan: &Plan) -> Result<Outcome, Error> {
    with_moments(plan, |moments| curve(plan, moments))
}

/// The exact curve beside a run: none where there is none, or where it would take too long.
pub fn beside(plan: &Plan) -> Option<Outcome> {
    let briefly = |moments: ExactCurve<'_>| match seconds(plan, &moments) <= MOST_SECONDS {
        true => curve(plan, moments).map(Some),
        false => Ok(None),
    };
    with_moments(plan, briefly).ok().flatten()
}

/// The same at about `most` of the rounds that the plan records, for a picture.
pub fn at(plan: &Plan, most: u64) -> Option<Outcome> {
    beside(&thinned(plan, most)?)
}

/// The plan with fewer records: every so many of its own, and the last.
pub fn thinned(plan: &Plan, most: u64) -> Option<Plan> {
    let every = plan.spec.measure.every.0;
    let records = plan.spec.rounds.0 / every;
    let every = every.saturating_mul(records.div_ceil(most.max(1)).max(1));
    plan.with(|spec| spec.measure.every = Count(every)).ok()
}

/// About how many seconds the exact curve would take, where that is why it is not beside a run.
pub fn takes_too_long(plan: &Plan) -> Option<f64> {
    let seconds = with_moments(plan, |moments| Ok(seconds(plan, &moments))).ok();
    seconds.filter(|seconds| *seconds > MOST_SECONDS)
}

/// Theory counts work in what takes about a nanosecond.
fn seconds(plan: &Plan, moments: &ExactCurve<'_>) -> f64 {
    plan.spec.rounds.0 as f64 * moments.work_of_round() * 1e-9
}

fn with_moments<T>(
    plan: &Plan,
    work: impl FnOnce(ExactCurve<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let stable = plan.stable_point.as_deref();
    // Who arrives together with whom is asked only where the answer is of use.
    let affine = plan.federation().is_affine();
    let dynamics = affine.then(|| Dynamics::of(plan)).transpose()?;
    round::supported(plan.federation(), &plan.protocol)?;
    if let Some(why) = dynamics.as_ref().and_then(|dynamics| dynamics.unknown.as_ref()) {
        let why = format!("exact moments need the law of first arrivals: {why}");
        return Err(Error::input("algorithm.scheme", why));
    }
    let protocol = dynamics.as_ref().map_or(&plan.protocol, |dynamics| &dynamics.protocol);
    let arrived = dynamics.as_ref().and_then(|dynamics| dynamics.arrived.as_ref());
    let moments = ExactCurve::new(plan.federation(), protocol, arrived, &plan.start, stable)
        .map_err(no_moments)?;
    work(moments)
}

fn curve(plan: &Plan, mut moments: ExactCurve<'_>) -> Result<Outcome, Error> {
    let began = Instant::now();
    let mut columns = Measurement::of(plan);
    columns.retain(|column| column.is_expected());
    let mut curve = Curve::new(&plan.spec, plan.clients(), &columns);
    curve.add_exact(&moments.moments());
    for round in 1..=plan.spec.rounds.0 {
        moments.advance();
        if plan.is_due(round) {
            let now = moments.moments();
            if !now.is_finite() {
                return Err(Error::Failed(format!(
                    "the exact moments stop being finite by round {round}: the run diverges; \
                     choose smaller steps (`fedback solve` says whether any are small enough)"
                )));
            }
            curve.add_exact(&now);
        }
    }
    Ok(Outcome::of_exact(plan, curve, began.elapsed().as_secs_f64()))
}

/// Why there are no exact moments, in words.
fn no_moments(why: NoMoments) -> Error {
    match why {
        NoMoments::Response => {
            let why = "exact moments need data that move by a linear map of the model: none, \
                       location, best-response without range";
            Error::input("problem.response.kind", why)
        }
        NoMoments::Loss(loss) => {
            let name = match loss {
                Loss::Mean => "mean",
                Loss::Squared { .. } => "squared",
                Loss::Logistic { .. } => "logistic",
            };
            let why = format!(
                "found \"{name}\", but exact moments need the loss \"mean\": affine gradients with \
                 noise that does not depend on the model"
            );
            Error::input("problem.loss.kind", why)
        }
        NoMoments::Latency => {
            let why = "exact moments of first arrivals need the latencies of all clients";
            Error::input("problem.loss.kind", why)
        }
        NoMoments::Algorithm(unsupported) => unsupported.into(),
        NoMoments::TooLarge(numbers) => {
            let why = format!(
                "found \"scaffold\" with a state of {numbers} numbers: exact moments carry the \
                 covariance of all that clients keep, which is too much for this many; fewer clients \
                 would do, or `run`"
            );
            Error::input("algorithm.kind", why)
        }
    }
}
