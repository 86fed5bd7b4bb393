//! Step sizes at which P-FedAvg settles, where there are any.

use crate::p_fedavg::PFedAvg;
use fedback_core::protocol::{Aggregate, StepSize};

use super::Answer;
use super::mean_path::{self, Ending};
use super::outlook::{Case, outlook};
use crate::limit;

/// How often steps are halved before giving up.
const HALVINGS: usize = 24;
/// A margin this small against the curvature is zero.
const ROUNDING: f64 = 1e-12;

/// What small steps do, and how small they must be.
#[derive(Clone, Debug)]
pub struct SmallSteps {
    /// Whether P-FedAvg settles if its steps are small enough.
    pub answer: Answer,
    /// The stable point that small steps lead to, by its place in the list.
    pub point: Option<usize>,
    /// The largest constant step size up to which mean errors shrink there.
    pub largest_in_mean: Option<f64>,
    /// The same for squared errors.
    pub largest: Option<f64>,
    /// A constant step size at which P-FedAvg settles.
    pub constant: Option<f64>,
    /// β and γ of a decaying step size at which it does.
    pub decaying: Option<(f64, f64)>,
}

impl SmallSteps {
    fn new(settles: Option<bool>, why: impl Into<String>) -> Self {
        SmallSteps {
            answer: Answer { settles, why: why.into() },
            point: None,
            largest_in_mean: None,
            largest: None,
            constant: None,
            decaying: None,
        }
    }
}

/// Where small steps lead, without naming any.
pub(super) fn direction(case: &Case<'_>, protocol: &PFedAvg) -> SmallSteps {
    if limit::rescales(case.federation, protocol) {
        let why = "averaging models of unequal weights rescales them at random, the worse the \
                   smaller the steps";
        return SmallSteps::new(Some(false), why);
    }
    let index = match case.federation.is_affine() {
        true => 0,
        false => match mean_path::follow(case, &tiny(case, protocol)) {
            Ending::Reached { point, .. } => point,
            Ending::Escaped { .. } => {
                let why = "small steps from this start run away without noise";
                return SmallSteps::new(Some(false), why);
            }
            Ending::Wanders => {
                let why = "small steps keep moving without noise: no stable point attracts them";
                return SmallSteps::new(Some(false), why);
            }
            Ending::Lost(why) => return SmallSteps::new(None, why),
        },
    };
    let margin = case.points[index].gradient_margin.unwrap_or(f64::NAN);
    let (settles, why) = match margin {
        margin if margin > ROUNDING => (Some(true), "small steps lead to the stable point"),
        margin if margin < -ROUNDING => {
            (Some(false), "small steps lead away from the stable point")
        }
        _ => (None, "the margin of small steps is zero to rounding"),
    };
    SmallSteps { point: Some(index), ..SmallSteps::new(settles, why) }
}

/// Where small steps lead, how small they must be, and some that are.
pub(super) fn small_steps(case: &Case<'_>, protocol: &PFedAvg) -> SmallSteps {
    if limit::rescales(case.federation, protocol) {
        return despite_rescaling(case, protocol);
    }
    let mut found = direction(case, protocol);
    let (Some(true), Some(index)) = (found.answer.settles, found.point) else { return found };
    let point = &case.points[index];
    let margin = point.gradient_margin.unwrap_or(f64::NAN);
    if let Some(map) = case.scan(protocol, &point.theta) {
        found.largest_in_mean = map.largest_step();
        found.largest = map.largest_step_in_mean_square();
    }
    let works = |step_size: StepSize| {
        let found = outlook(case, &PFedAvg { step_size, ..*protocol });
        (found.answer.settles == Some(true) || found.slow) && found.ends_near()
    };
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
        let beta = rounded_up(2.0 / (margin * case.speed()));
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
        let why = "small steps lead to the stable point, but none were found that are certain to";
        found.answer = Answer { settles: None, why: why.into() };
    }
    found
}

/// Averaged models: only steps that contract faster than the averaging scatters can do.
fn despite_rescaling(case: &Case<'_>, protocol: &PFedAvg) -> SmallSteps {
    let mut found = direction(case, protocol);
    let deltas = PFedAvg { aggregate: Aggregate::Deltas, ..*protocol };
    let toward = direction(case, &deltas);
    let (Some(true), Some(index)) = (toward.answer.settles, toward.point) else { return found };
    let map = case.scan(&deltas, &case.points[index].theta);
    let mut size = map.and_then(|map| map.largest_step_in_mean_square()).unwrap_or(f64::NAN);
    for _ in 0..8 {
        size = rounded_down(0.5 * size);
        let step_size = StepSize::Constant(size);
        if size > 0.0
            && outlook(case, &PFedAvg { step_size, ..*protocol }).answer.settles == Some(true)
        {
            let why = "steps that are not too small contract faster than the averaging of models \
                       of unequal weights scatters";
            found.answer = Answer { settles: Some(true), why: why.into() };
            (found.point, found.constant) = (Some(index), Some(size));
            break;
        }
    }
    found
}

/// The protocol with steps so small that its rounds are a flow.
fn tiny(case: &Case<'_>, protocol: &PFedAvg) -> PFedAvg {
    let field = case.federation.mean_field(case.start, case.start);
    let slope = (field.curvature + field.reaction).norm().max(f64::MIN_POSITIVE);
    PFedAvg { step_size: StepSize::Constant(1e-9 / slope), ..*protocol }
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
