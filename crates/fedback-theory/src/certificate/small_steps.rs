//! Step sizes at which a protocol settles, where there are any.

use fedback_core::protocol::{Aggregate, Protocol, StepSize};

use super::mean_path;
use super::outlook::Case;
use super::why::{Answer, Why};
use crate::cohort;
use crate::stable::Note;

/// How often steps are halved before giving up.
const HALVINGS: usize = 24;
/// The same for steps that decay where a round alone is more than paths should take.
const FEW: usize = 2;
/// A margin this small against the curvature is zero.
const ROUNDING: f64 = 1e-12;

/// What small steps do, and how small they must be.
#[derive(Clone, Debug)]
pub struct SmallSteps {
    /// Whether the protocol settles if its steps are small enough.
    pub answer: Answer,
    /// The stable point that small steps lead to, by its place in the list.
    pub point: Option<usize>,
    /// The largest constant step size up to which mean errors shrink there.
    pub largest_step_in_mean: Option<f64>,
    /// The same for squared errors.
    pub largest_step: Option<f64>,
    /// A constant step size at which the protocol settles.
    pub constant: Option<f64>,
    /// β and γ of a decaying step size at which it does.
    pub decaying: Option<(f64, f64)>,
}

impl SmallSteps {
    fn new(answer: Answer) -> Self {
        SmallSteps {
            answer,
            point: None,
            largest_step_in_mean: None,
            largest_step: None,
            constant: None,
            decaying: None,
        }
    }
}

/// Where small steps lead, without naming any.
pub(super) fn direction(case: &Case<'_>, protocol: &Protocol) -> SmallSteps {
    let say = |settles, why| SmallSteps::new(Answer::new(settles, why));
    if case.stable.points.is_empty() {
        // Of an affine problem it says something that it has no stable point, of others nothing.
        let certain = case.stable.notes.contains(&Note::None);
        return say(certain.then_some(false), Why::Nowhere);
    }
    if cohort::rescales(case.federation, protocol) {
        return say(Some(false), Why::RescaledMore);
    }
    let index = match case.federation.is_affine() {
        true => 0,
        false => match mean_path::follow(case, &tiny(case, protocol)) {
            Ok(arrival) => arrival.point,
            Err(answer) => return SmallSteps::new(answer),
        },
    };
    let (settles, why) = match case.stable.points[index].gradient_margin.unwrap_or(f64::NAN) {
        margin if margin > ROUNDING => (Some(true), Why::LeadThere),
        margin if margin < -ROUNDING => (Some(false), Why::Away),
        _ => (None, Why::NoMargin),
    };
    SmallSteps { point: Some(index), ..say(settles, why) }
}

/// Where small steps lead, how small they must be, and some that are.
pub(super) fn small_steps(case: &Case<'_>, protocol: &Protocol) -> SmallSteps {
    if cohort::rescales(case.federation, protocol) {
        return despite_rescaling(case, protocol);
    }
    let mut found = direction(case, protocol);
    let (Some(true), Some(index)) = (found.answer.settles, found.point) else { return found };
    let point = &case.stable.points[index];
    let margin = point.gradient_margin.unwrap_or(f64::NAN);
    if let Ok(mut map) = case.scan(protocol, &point.theta) {
        found.largest_step_in_mean = map.largest_step();
        found.largest_step = map.largest_step_in_mean_square();
    }
    let works =
        |step_size: StepSize| case.outlook(&Protocol { step_size, ..*protocol }).settles_near();
    // Half of the limit where moments are exact; further from it where they are linearised.
    let share = if case.federation.is_affine() { 0.5 } else { 0.2 };
    let steps = (case.federation.clients() * protocol.local_steps) as f64;
    let followed = if steps > case.effort { FEW } else { HALVINGS };
    let sizes = halved(share * found.largest_step.unwrap_or(0.0)).take(HALVINGS);
    for (tried, size) in sizes.enumerate() {
        if found.constant.is_none() && works(StepSize::Constant(size)) {
            found.constant = Some(size);
        }
        // Twice the rate at which the law of large t sets in; the first step is the constant one's.
        let beta = rounded(2.0 / (margin * case.speed(protocol)), libm::ceil);
        let gamma = rounded(beta / size, libm::ceil);
        let decaying = found.decaying.is_none() && tried < followed;
        if decaying && works(StepSize::Decaying { beta, gamma }) {
            found.decaying = Some((beta, gamma));
        }
        if found.constant.is_some() && found.decaying.is_some() {
            break;
        }
    }
    if found.constant.is_none() && found.decaying.is_none() {
        found.answer = Answer::new(None, Why::NoneCertain);
    }
    found
}

/// Averaged models: only steps that contract faster than the averaging scatters can do.
fn despite_rescaling(case: &Case<'_>, protocol: &Protocol) -> SmallSteps {
    let found = direction(case, protocol);
    let deltas = Protocol { aggregate: Aggregate::Deltas, ..*protocol };
    let toward = direction(case, &deltas);
    let (Some(true), Some(index)) = (toward.answer.settles, toward.point) else { return found };
    let map = case.scan(&deltas, &case.stable.points[index].theta).ok();
    let largest = map.and_then(|mut map| map.largest_step_in_mean_square());
    let settles = |size: &f64| {
        let step_size = StepSize::Constant(*size);
        case.outlook(&Protocol { step_size, ..*protocol }).answer.settles == Some(true)
    };
    match halved(0.5 * largest.unwrap_or(0.0)).take(8).find(settles) {
        Some(size) => SmallSteps {
            answer: Answer::new(Some(true), Why::FasterThanScatter),
            point: Some(index),
            constant: Some(size),
            ..found
        },
        None => found,
    }
}

/// The protocol with steps so small that its rounds are a flow.
fn tiny(case: &Case<'_>, protocol: &Protocol) -> Protocol {
    let field = case.federation.mean_field(case.start, case.start);
    let slope = (field.curvature + field.reaction).norm().max(f64::MIN_POSITIVE);
    Protocol { step_size: StepSize::Constant(1e-9 / slope), ..*protocol }
}

/// A step size and its halves, each with two significant digits, not above; none where it is zero.
fn halved(size: f64) -> impl Iterator<Item = f64> {
    let down = |size: f64| Some(rounded(size, libm::floor)).filter(|size| *size > 0.0);
    std::iter::successors(down(size), move |size| down(0.5 * size))
}

/// Two significant digits, rounded as `how` says.
fn rounded(value: f64, how: fn(f64) -> f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = libm::floor(libm::log10(value)) - 1.0;
    // Tenths are not exact as powers, but decimal text is.
    let digits = how(value / libm::pow(10.0, exponent));
    format!("{digits}e{exponent}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_are_round() {
        assert_eq!(rounded(0.037_84, libm::floor), 0.037);
        assert_eq!(rounded(1234.5, libm::ceil), 1300.0);
        assert_eq!(rounded(20.0, libm::ceil), 20.0);
        assert_eq!(rounded(2.5e-7, libm::floor), 2.5e-7);
    }
}
