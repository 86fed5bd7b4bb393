//! Step sizes at which a protocol settles, where there are any.

use fedback_core::protocol::{Aggregate, Protocol, StepSize};

use super::mean_path::{self, Ending};
use super::outlook::{Case, outlook};
use super::why::{Answer, Why};
use crate::cohort;

/// How often steps are halved before giving up.
const HALVINGS: usize = 24;
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
    pub largest_in_mean: Option<f64>,
    /// The same for squared errors.
    pub largest: Option<f64>,
    /// A constant step size at which the protocol settles.
    pub constant: Option<f64>,
    /// β and γ of a decaying step size at which it does.
    pub decaying: Option<(f64, f64)>,
}

impl SmallSteps {
    pub(super) fn new(answer: Answer) -> Self {
        SmallSteps {
            answer,
            point: None,
            largest_in_mean: None,
            largest: None,
            constant: None,
            decaying: None,
        }
    }

    fn say(settles: Option<bool>, why: Why) -> Self {
        SmallSteps::new(Answer::new(settles, why))
    }
}

/// Where small steps lead, without naming any.
pub(super) fn direction(case: &Case<'_>, protocol: &Protocol) -> SmallSteps {
    if cohort::rescales(case.federation, protocol) {
        return SmallSteps::say(Some(false), Why::RescaledMore);
    }
    let index = match case.federation.is_affine() {
        true => 0,
        false => match mean_path::follow(case, &tiny(case, protocol)) {
            Ending::Reached { point, .. } => point,
            Ending::Escaped { .. } => return SmallSteps::say(Some(false), Why::SmallRunAway),
            Ending::Wanders => return SmallSteps::say(Some(false), Why::SmallKeepMoving),
            Ending::Lost(why) => return SmallSteps::say(None, why),
        },
    };
    let margin = case.points[index].gradient_margin.unwrap_or(f64::NAN);
    let (settles, why) = match margin {
        margin if margin > ROUNDING => (Some(true), Why::LeadThere),
        margin if margin < -ROUNDING => (Some(false), Why::Away),
        _ => (None, Why::NoMargin),
    };
    SmallSteps { point: Some(index), ..SmallSteps::say(settles, why) }
}

/// Where small steps lead, how small they must be, and some that are.
pub(super) fn small_steps(case: &Case<'_>, protocol: &Protocol) -> SmallSteps {
    if cohort::rescales(case.federation, protocol) {
        return despite_rescaling(case, protocol);
    }
    let mut found = direction(case, protocol);
    let (Some(true), Some(index)) = (found.answer.settles, found.point) else { return found };
    let point = &case.points[index];
    let margin = point.gradient_margin.unwrap_or(f64::NAN);
    if let Ok(mut map) = case.scan(protocol, &point.theta) {
        found.largest_in_mean = map.largest_step();
        found.largest = map.largest_step_in_mean_square();
    }
    let works =
        |step_size: StepSize| outlook(case, &Protocol { step_size, ..*protocol }).settles_near();
    // Half of the limit where moments are exact; further from it where they are linearised.
    let share = if case.federation.is_affine() { 0.5 } else { 0.2 };
    let mut size = rounded_down(share * found.largest.unwrap_or(0.0));
    for _ in 0..HALVINGS {
        if size.is_nan() || size <= 0.0 {
            break;
        }
        if found.constant.is_none() && works(StepSize::Constant(size)) {
            found.constant = Some(size);
        }
        // Twice the rate at which the law of large t sets in; the first step is the constant one's.
        let beta = rounded_up(2.0 / (margin * case.speed(protocol)));
        let gamma = rounded_up(beta / size);
        if found.decaying.is_none() && works(StepSize::Decaying { beta, gamma }) {
            found.decaying = Some((beta, gamma));
        }
        if found.constant.is_some() && found.decaying.is_some() {
            break;
        }
        size = rounded_down(0.5 * size);
    }
    if found.constant.is_none() && found.decaying.is_none() {
        found.answer = Answer::new(None, Why::NoneCertain);
    }
    found
}

/// Averaged models: only steps that contract faster than the averaging scatters can do.
fn despite_rescaling(case: &Case<'_>, protocol: &Protocol) -> SmallSteps {
    let mut found = direction(case, protocol);
    let deltas = Protocol { aggregate: Aggregate::Deltas, ..*protocol };
    let toward = direction(case, &deltas);
    let (Some(true), Some(index)) = (toward.answer.settles, toward.point) else { return found };
    let map = case.scan(&deltas, &case.points[index].theta).ok();
    let largest = map.and_then(|mut map| map.largest_step_in_mean_square());
    let mut size = largest.unwrap_or(f64::NAN);
    for _ in 0..8 {
        size = rounded_down(0.5 * size);
        let step_size = StepSize::Constant(size);
        let settles = || outlook(case, &Protocol { step_size, ..*protocol }).answer.settles;
        if size > 0.0 && settles() == Some(true) {
            found.answer = Answer::new(Some(true), Why::FasterThanScatter);
            (found.point, found.constant) = (Some(index), Some(size));
            break;
        }
    }
    found
}

/// The protocol with steps so small that its rounds are a flow.
fn tiny(case: &Case<'_>, protocol: &Protocol) -> Protocol {
    let field = case.federation.mean_field(case.start, case.start);
    let slope = (field.curvature + field.reaction).norm().max(f64::MIN_POSITIVE);
    Protocol { step_size: StepSize::Constant(1e-9 / slope), ..*protocol }
}

/// Two significant digits, not above.
fn rounded_down(value: f64) -> f64 {
    rounded(value, libm::floor)
}

/// Two significant digits, not below.
fn rounded_up(value: f64) -> f64 {
    rounded(value, libm::ceil)
}

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
        assert_eq!(rounded_down(0.037_84), 0.037);
        assert_eq!(rounded_up(1234.5), 1300.0);
        assert_eq!(rounded_up(20.0), 20.0);
        assert_eq!(rounded_down(2.5e-7), 2.5e-7);
    }
}
