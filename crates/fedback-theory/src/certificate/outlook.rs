//! What a protocol does at given step sizes: does its error get small, and how soon?
//!
//! *Near* means a root mean squared distance of at most a quarter of the problem's own scale, which is
//! √(|start − θ^PS|² + |θ^PS|² + the variance of one observation's gradient). A protocol *settles*
//! where squared errors are bounded, get near and stay near: at a constant step size down to a floor
//! whose size is known and at most two fifths of the scale, at β/(t + γ) down to nothing. Getting near must
//! not take more than a billion rounds (a million where rounds are linearised), nor lead more than ten scales
//! away first.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Round, StepSize};

use super::elsewhere;
use super::why::{Answer, Why};
use crate::cohort::{self, Arrived};
use crate::exact::{ExactCurve, NoMoments};
use crate::limit::{LARGE_BUDGET, NoMap, RoundMap};
use crate::round;
use crate::stable::{StablePoint, StableReport, distance, norm};

/// Numbers that following a path may touch.
const EFFORT: f64 = 3e7;
/// Rounds after which an error that is not near yet is not called settling.
const MOST_ROUNDS: f64 = 1e9;
/// Scales that the error may grow to on its way.
const MOST_GROWTH: f64 = 10.0;
/// The share of the scale that is near.
const NEAR: f64 = 0.25;
/// The share of the scale that a constant step size may leave.
const LARGEST_FLOOR: f64 = 0.4;
/// Exact rounds that are looked at in any case.
const LEAST_ROUNDS: u64 = 20;
/// A radius closer to one than this is one.
const ROUNDING: f64 = 1e-10;

/// A problem, a start, and the stable points in question: what verdicts are about.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub(super) federation: &'a Federation,
    /// Who is among the first to arrive, where that depends on who is fast.
    pub(super) arrived: Option<&'a Arrived>,
    pub(super) start: &'a [f64],
    pub(super) stable: &'a StableReport,
    /// Numbers that following a path may touch.
    pub(super) effort: f64,
}

impl<'a> Case<'a> {
    /// A problem whose stable points are known. Where it is given who arrives first, the federation has
    /// the weights that count.
    pub fn new(
        federation: &'a Federation,
        arrived: Option<&'a Arrived>,
        start: &'a [f64],
        stable: &'a StableReport,
    ) -> Self {
        Case { federation, arrived, start, stable, effort: EFFORT }
    }

    /// What a protocol does from the start.
    pub fn outlook(&self, protocol: &Protocol) -> Outlook {
        let Some(point) = self.stable.points.first() else {
            return Outlook::new(Answer::new(None, Why::NoStablePoint), f64::NAN);
        };
        let place = self.place(point);
        if self.always_rescales(protocol) {
            return Outlook::new(Answer::new(Some(false), Why::Rescaled), place.scale);
        }
        match self.federation.is_affine() {
            true => Outlook { point: Some(0), ..affine(self, protocol, &place) },
            false => elsewhere::outlook(self, protocol, place.scale),
        }
    }

    /// Rounds linearised for a scan of step sizes.
    pub(super) fn scan(&self, protocol: &Protocol, theta: &[f64]) -> Result<RoundMap, NoMap> {
        RoundMap::new(self.federation, protocol, self.arrived, theta)
    }

    /// Rounds linearised for a few step sizes.
    pub(super) fn map(&self, protocol: &Protocol, theta: &[f64]) -> Result<RoundMap, NoMap> {
        RoundMap::within(LARGE_BUDGET, self.federation, protocol, self.arrived, theta)
    }

    /// How fast rounds of small steps move.
    pub(super) fn speed(&self, protocol: &Protocol) -> f64 {
        self.arrived.map_or(1.0, Arrived::speed) * round::speed(protocol)
    }

    /// Rounds that effort allows where each touches so many numbers, and at least some; none where even
    /// these would cost far more.
    pub(super) fn rounds_within_effort(&self, each: f64, least: f64) -> Option<f64> {
        (each <= 10.0 * self.effort).then(|| (self.effort / each).max(least))
    }

    /// How far the start, and what populations remember then, are from a point.
    fn apart(&self, point: &[f64]) -> f64 {
        let past = self.federation.past().map_or(0.0, |past| distance(&past.start, point));
        distance(self.start, point).hypot(past)
    }

    /// Whether models are rescaled at random by ever smaller steps.
    pub(super) fn always_rescales(&self, protocol: &Protocol) -> bool {
        let constant = matches!(protocol.step_size, StepSize::Constant(_));
        cohort::rescales(self.federation, protocol) && !constant
    }

    /// √(|start − θ^PS|² + |θ^PS|² + the variance of one observation's gradient).
    pub(super) fn scale(&self, point: &StablePoint) -> f64 {
        let (apart, size) = (distance(self.start, &point.theta), norm(&point.theta));
        let noise = |i: usize| {
            let covariance = self.federation.population(i).gradient_covariance(&point.theta);
            self.federation.weights()[i] * covariance.trace()
        };
        let noise: f64 = self.federation.counting().map(noise).sum();
        (apart * apart + size * size + noise).sqrt()
    }

    /// A stable point as the place where rounds are linearised.
    pub(super) fn place<'p>(&self, point: &'p StablePoint) -> Place<'p> {
        Place { point, at: &point.theta, scale: self.scale(point) }
    }
}

/// Where a round is linearised, and what it is compared with.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) point: &'a StablePoint,
    pub(super) at: &'a [f64],
    pub(super) scale: f64,
}

/// What a protocol does at given step sizes.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// Whether it settles.
    pub answer: Answer,
    /// The stable point that it settles at, by its place in the list.
    pub point: Option<usize>,
    /// Rounds until the error is near, about.
    pub rounds: Option<f64>,
    /// The largest root mean squared error on the way, in units of the scale.
    pub peak: Option<f64>,
    /// √E|θ − θ^PS|² in the long run of a constant step size.
    pub floor: Option<f64>,
    /// The scale that *near* is measured by.
    pub scale: f64,
}

impl Outlook {
    /// Whether it settles, and what is left in the long run, if anything, is near.
    pub(super) fn settles_near(&self) -> bool {
        let near = self.floor.is_none_or(|floor| floor <= NEAR * self.scale);
        self.answer.settles == Some(true) && near
    }

    pub(super) fn new(answer: Answer, scale: f64) -> Self {
        Outlook { answer, point: None, rounds: None, peak: None, floor: None, scale }
    }
}

fn affine(case: &Case<'_>, protocol: &Protocol, place: &Place<'_>) -> Outlook {
    let mut map = match case.map(protocol, place.at) {
        Ok(map) => map,
        Err(why) => return Outlook::new(Answer::new(None, Why::NotLinear(why)), place.scale),
    };
    match protocol.step_size {
        StepSize::Constant(size) => constant(&mut map, place, size, case.apart(place.at)),
        StepSize::Decaying { beta, gamma } => {
            decaying(case, protocol, &mut map, (beta, gamma), place)
        }
    }
}

/// A constant step size: the radius decides, then the size of the floor.
pub(super) fn constant(map: &mut RoundMap, place: &Place<'_>, size: f64, start: f64) -> Outlook {
    let Place { point, at, scale } = *place;
    let say = |settles, why| Outlook::new(Answer::new(settles, why), scale);
    let (Some(mean), Some(square)) = (map.radius(size), map.mean_square_radius(size)) else {
        return say(Some(false), Why::NotFinite(size));
    };
    if square >= 1.0 - ROUNDING {
        return match mean > 1.0 {
            true => say(Some(false), Why::MeanGrows { size, by: mean }),
            false => say(Some(false), Why::SquareGrows { size, by: square }),
        };
    }
    if point.gradient_margin.is_none_or(|margin| margin <= 0.0) {
        return say(None, Why::NotAttracting);
    }
    let Some(floor) = map.floor(size) else { return say(None, Why::NoFloor) };
    let ends: Vec<f64> = at.iter().zip(floor.bias.iter()).map(|(at, bias)| at + bias).collect();
    let bias = distance(&ends, &point.theta);
    let level = libm::sqrt(bias * bias + floor.covariance.trace());
    if !level.is_finite() {
        return say(None, Why::NoFloor);
    }
    let mut found = say(Some(true), Why::Floor { by: square, level });
    found.floor = Some(level);
    if level > LARGEST_FLOOR * scale {
        found.answer = Answer::new(Some(false), Why::HighFloor { size, level, bias });
        return found;
    }
    let rounds = rounds_of_decay(start, (NEAR * scale).max(1.2 * level), level, square);
    found.rounds = Some(rounds);
    if rounds > MOST_ROUNDS {
        found.answer = Answer::new(None, Why::SlowRounds { rounds, left: square });
    }
    found
}

/// Rounds until `start`² · radiusⁿ + floor² is `near`².
fn rounds_of_decay(start: f64, near: f64, floor: f64, radius: f64) -> f64 {
    let room = (near * near - floor * floor).max(1e-3 * near * near);
    match start * start > room {
        true => libm::log(room / (start * start)) / libm::log(radius.max(1e-300)),
        false => 0.0,
    }
}

/// β/(t + γ): exact moments until steps are small enough for good, then the power law of the margin.
fn decaying(
    case: &Case<'_>,
    protocol: &Protocol,
    map: &mut RoundMap,
    (beta, gamma): (f64, f64),
    &Place { point, scale, .. }: &Place<'_>,
) -> Outlook {
    let say = |settles, why| Outlook::new(Answer::new(settles, why), scale);
    let margin = point.gradient_margin.unwrap_or(f64::NAN);
    if margin.is_nan() || margin <= 0.0 {
        return say(Some(false), Why::Away);
    }
    let stable = Some(point.theta.as_slice());
    let curve = ExactCurve::new(case.federation, protocol, case.arrived, case.start, stable);
    let mut curve = match curve {
        Ok(curve) => curve,
        Err(NoMoments::TooLarge(numbers)) => {
            return say(None, Why::NotLinear(NoMap::TooLarge(numbers)));
        }
        Err(_) => return say(None, Why::NoFloor),
    };
    // What populations remember may swing with steps that come later.
    let most = case.federation.memory().and_then(|_| map.largest_step_in_mean_square());
    let mut shrinks = |size: f64| {
        let now = map.mean_square_radius(size).is_some_and(|radius| radius < 1.0 - ROUNDING);
        now && most.is_none_or(|most| size <= most)
    };
    let Some(affordable) = case.rounds_within_effort(curve.work_of_round(), 4.0) else {
        return say(None, Why::TooMuchWork);
    };
    // A bound takes a dozen rounds' work.
    let bounded = affordable > 40.0;
    let e = protocol.local_steps as f64;
    let mut peak: f64 = distance(case.start, &point.theta);
    let mut now = peak;
    let mut settled = (now <= NEAR * scale).then_some(0.0);
    // Radii and bounds are expensive: they are asked for at rounds that grow geometrically.
    let (mut calm, mut peaked, mut next_question, mut round) = (false, false, 0, 0);
    loop {
        if round >= next_question {
            calm = calm || shrinks(protocol.step_size.at(protocol.first_step(Round(round))));
            peaked = calm && (!bounded || curve.ceiling().is_some_and(|most| most <= peak * peak));
            next_question = (round + 1).max((round as f64 * 1.1) as u64);
        }
        let done = calm && peaked && settled.is_some() && round >= LEAST_ROUNDS;
        if done || round as f64 >= affordable || !now.is_finite() {
            break;
        }
        curve.advance();
        round += 1;
        now = libm::sqrt(curve.moments().distance_sq.unwrap_or(f64::NAN));
        peak = peak.max(now);
        settled = if now <= NEAR * scale { settled.or(Some(round as f64)) } else { None };
    }
    let rate = beta * margin * case.speed(protocol);
    let mut found = say(Some(true), Why::PowerLaw { rate, squares: true });
    found.peak = Some(peak / scale);
    if !now.is_finite() || peak > MOST_GROWTH * scale {
        found.answer = Answer::new(Some(false), Why::TooLargeFirst { peak, untold: None });
        return found;
    }
    if !calm {
        found.answer = Answer::new(None, Why::TooLargeFirst { peak, untold: Some(round) });
        return found;
    }
    // From here on every round contracts, at last like (t + γ)^(−rate), and noise like its root.
    let step = round as f64 * e;
    let slow = libm::pow((now / (NEAR * scale)).max(1.0), 1.0 / rate.min(0.5));
    let rounds = settled.unwrap_or(((step + gamma) * slow - gamma) / e);
    found.rounds = Some(rounds);
    if rounds.is_nan() || rounds > MOST_ROUNDS {
        found.answer = Answer::new(None, Why::SlowPower { rate, rounds });
    }
    found
}
