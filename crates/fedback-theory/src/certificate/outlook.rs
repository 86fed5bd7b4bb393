//! What P-FedAvg does at given step sizes: does its error get small, and how soon?
//!
//! *Near* means a root mean squared distance of at most a quarter of the problem's own scale, which is
//! √(|start − θ^PS|² + |θ^PS|² + the variance of one observation's gradient). A protocol *settles*
//! where squared errors are bounded, get near and stay near: at a constant step size down to a floor
//! whose size is known and at most two fifths of the scale, at β/(t + γ) down to nothing. Getting near must not take more than a million
//! rounds, nor lead more than ten scales away first.

use crate::p_fedavg::PFedAvg;
use fedback_core::federation::Federation;
use fedback_core::protocol::{Round, StepSize};

use super::Answer;
use super::mean_path::{self, Ending};
use crate::choice::Choice;
use crate::exact::ExactCurve;
use crate::limit::{self, Floor, RoundMap};
use crate::stable::StablePoint;

/// Rounds after which an error that is not near yet is not called settling.
pub const MOST_ROUNDS: f64 = 1e6;
/// Scales that the error may grow to on its way.
const MOST_GROWTH: f64 = 10.0;
/// The share of the scale that is near.
const NEAR: f64 = 0.25;
/// The share of the scale that a constant step size may leave.
const LARGEST_FLOOR: f64 = 0.4;
/// What a round may multiply squared errors with on the way to a stable point.
const LARGEST_ON_THE_WAY: f64 = 1.05;
/// Exact rounds that are looked at in any case.
const LEAST_ROUNDS: u64 = 20;
/// A radius closer to one than this is one.
const ROUNDING: f64 = 1e-10;

/// A problem, a start, and the stable point in question.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) federation: &'a Federation,
    pub(super) start: &'a [f64],
    pub(super) points: &'a [StablePoint],
    /// The moments of a cohort's coefficients, where they depend on who is fast.
    pub(super) choice: Option<&'a Choice>,
    /// Numbers that following a path may touch.
    pub(super) effort: f64,
}

impl Case<'_> {
    /// Rounds linearised for a scan of step sizes.
    pub(super) fn scan(&self, protocol: &PFedAvg, theta: &[f64]) -> Option<RoundMap> {
        RoundMap::of_choice(self.federation, protocol, self.choice, theta)
    }

    /// Rounds linearised for a few step sizes.
    fn map(&self, protocol: &PFedAvg, theta: &[f64]) -> Option<RoundMap> {
        RoundMap::thorough(self.federation, protocol, self.choice, theta)
    }

    /// What the update of an expected round is multiplied with.
    pub(super) fn speed(&self) -> f64 {
        self.choice.map_or(1.0, Choice::speed)
    }
}

/// What P-FedAvg does at given step sizes.
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
    /// Whether nothing is in the way but the number of rounds it would take.
    pub slow: bool,
}

impl Outlook {
    /// Whether what is left in the long run, if anything, is near.
    pub(super) fn ends_near(&self) -> bool {
        self.floor.is_none_or(|floor| floor <= NEAR * self.scale)
    }

    fn new(settles: Option<bool>, why: impl Into<String>, scale: f64) -> Self {
        Outlook {
            answer: Answer { settles, why: why.into() },
            point: None,
            rounds: None,
            peak: None,
            floor: None,
            scale,
            slow: false,
        }
    }
}

/// What P-FedAvg does from the start of the case.
pub(super) fn outlook(case: &Case<'_>, protocol: &PFedAvg) -> Outlook {
    let Some(first) = case.points.first() else {
        return Outlook::new(None, "no stable point is known", f64::NAN);
    };
    let scale = scale(case, first);
    let constant = matches!(protocol.step_size, StepSize::Constant(_));
    if limit::rescales(case.federation, protocol) && !constant {
        let why = "unequal weights without replacement, and models are averaged rather than \
                   updates (aggregate = \"iterates\"): every round multiplies the whole model by a \
                   random number, however small the steps; aggregate = \"deltas\" does not";
        return Outlook::new(Some(false), why, scale);
    }
    match case.federation.is_affine() {
        true => affine(case, protocol, first, scale),
        false => general(case, protocol),
    }
}

/// √(|start − θ^PS|² + |θ^PS|² + the variance of one observation's gradient).
pub(super) fn scale(case: &Case<'_>, point: &StablePoint) -> f64 {
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let apart = square(&mut case.start.iter().zip(&point.theta).map(|(a, b)| a - b));
    let size = square(&mut point.theta.iter().copied());
    let noise = limit::observation_noise(case.federation, &point.theta);
    (apart + size + noise).sqrt()
}

fn affine(case: &Case<'_>, protocol: &PFedAvg, point: &StablePoint, scale: f64) -> Outlook {
    let Some(map) = case.map(protocol, &point.theta) else {
        return Outlook::new(None, "the dimension is too high to linearise a round", scale);
    };
    let mut found = match protocol.step_size {
        StepSize::Constant(size) => {
            let place = Place { point, at: &point.theta, scale };
            constant(case, protocol, &map, &place, size, distance(case.start, &point.theta))
        }
        StepSize::Decaying { beta, gamma } => decaying(case, protocol, &map, (beta, gamma), scale),
    };
    found.point = Some(0);
    found
}

/// Where a round is linearised, and what it is compared with.
#[derive(Clone, Copy)]
struct Place<'a> {
    point: &'a StablePoint,
    at: &'a [f64],
    scale: f64,
}

/// A constant step size: the radius decides, then the size of the floor.
fn constant(
    case: &Case<'_>,
    protocol: &PFedAvg,
    map: &RoundMap,
    place: &Place<'_>,
    size: f64,
    start: f64,
) -> Outlook {
    let Place { point, at, scale } = *place;
    let say = |settles, why: String| Outlook::new(settles, why, scale);
    let (Some(mean), Some(square)) = (map.radius(size), map.mean_square_radius(size)) else {
        return say(Some(false), format!("a round at the step size {size} is not finite"));
    };
    if square >= 1.0 - ROUNDING {
        let why = match mean > 1.0 {
            true => format!("a round multiplies the mean error by {}", short(mean)),
            false => format!("a round multiplies the mean squared error by {}", short(square)),
        };
        return say(Some(false), format!("at the step size {size} {why}: above 1 it grows"));
    }
    if point.gradient_margin.is_none_or(|margin| margin <= 0.0) {
        return say(None, "rounds contract, but to no attracting stable point".into());
    }
    let Some(floor) = map.floor(case.federation, protocol, at, size) else {
        return say(None, "the long run of the constant step size was not found".into());
    };
    let ends: Vec<f64> = at.iter().zip(floor.bias.iter()).map(|(at, bias)| at + bias).collect();
    let bias = distance(&ends, &point.theta);
    let level = libm::sqrt(bias * bias + floor.covariance.trace());
    let mut found = say(Some(true), String::new());
    found.floor = Some(level);
    if level > LARGEST_FLOOR * scale {
        let why = format!(
            "at the constant step size {size} the error does not fall below {} ({} of it is bias): \
             that is not near the stable point",
            short(level),
            short(bias)
        );
        return Outlook { answer: Answer { settles: Some(false), why }, ..found };
    }
    let rounds = rounds_of_decay(start, (NEAR * scale).max(1.2 * level), level, square);
    found.rounds = Some(rounds);
    if rounds > MOST_ROUNDS {
        let why = format!(
            "it would take {} rounds: a round leaves {square} of the squared error",
            short(rounds)
        );
        return Outlook { answer: Answer { settles: None, why }, slow: true, ..found };
    }
    found.answer.why = format!(
        "a round multiplies squared errors by {} at last, down to a floor: a distance of {}",
        short(square),
        short(level)
    );
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
    protocol: &PFedAvg,
    map: &RoundMap,
    (beta, gamma): (f64, f64),
    scale: f64,
) -> Outlook {
    let say = |settles, why: String| Outlook::new(settles, why, scale);
    let point = &case.points[0];
    let margin = point.gradient_margin.unwrap_or(f64::NAN);
    if margin.is_nan() || margin <= 0.0 {
        return say(Some(false), "small steps lead away from the stable point".into());
    }
    let stable = Some(point.theta.as_slice());
    let curve = ExactCurve::of_choice(case.federation, protocol, case.choice, case.start, stable);
    let Ok(mut curve) = curve else {
        return say(None, "exact moments need an affine problem".into());
    };
    let shrinks =
        |size: f64| map.mean_square_radius(size).is_some_and(|radius| radius < 1.0 - ROUNDING);
    let affordable = (case.effort / cost_of_round(case.federation, protocol)).max(4.0) as u64;
    let e = protocol.local_steps as f64;
    let mut peak: f64 = distance(case.start, &point.theta);
    let mut now = peak;
    let mut settled = (now <= NEAR * scale).then_some(0.0);
    // A radius is expensive: it is asked for at rounds that grow geometrically.
    let (mut calm, mut next_question, mut round) = (false, 0, 0);
    loop {
        if !calm && round >= next_question {
            calm = shrinks(protocol.step_size.at(protocol.first_step(Round(round))));
            next_question = (round + 1).max((round as f64 * 1.1) as u64);
        }
        let done = calm && settled.is_some() && round >= LEAST_ROUNDS;
        if done || round >= affordable || !now.is_finite() {
            break;
        }
        curve.advance();
        round += 1;
        now = libm::sqrt(curve.moments().distance_sq.unwrap_or(f64::NAN));
        peak = peak.max(now);
        settled = if now <= NEAR * scale { settled.or(Some(round as f64)) } else { None };
    }
    let mut found = say(Some(true), String::new());
    found.peak = Some(peak / scale);
    let grown = format!("the first steps are too large: the error grows to {} first", short(peak));
    if !now.is_finite() || peak > MOST_GROWTH * scale {
        return Outlook { answer: Answer { settles: Some(false), why: grown }, ..found };
    }
    if !calm {
        let why = format!("{grown}, and after {round} rounds steps are still too large to tell");
        return Outlook { answer: Answer { settles: None, why }, ..found };
    }
    // From here on every round contracts, at last like (t + γ)^(−β margin), and noise like its root.
    let step = round as f64 * e;
    let rate = beta * margin * case.speed();
    let power = rate.min(0.5);
    let slow = libm::pow((now / (NEAR * scale)).max(1.0), 1.0 / power);
    let rounds = settled.unwrap_or(((step + gamma) * slow - gamma) / e);
    found.rounds = Some(rounds);
    if rounds.is_nan() || rounds > MOST_ROUNDS {
        let why = format!(
            "beta · margin is {}: the error falls like a power of t so small that getting near \
             would take {} rounds",
            short(rate),
            short(rounds)
        );
        return Outlook { answer: Answer { settles: None, why }, slow: true, ..found };
    }
    found.answer.why =
        format!("errors fall like (t + gamma)^−{}, squared ones to nothing", short(rate));
    found
}

/// Numbers that one exact round touches, a few operations each.
fn cost_of_round(federation: &Federation, protocol: &PFedAvg) -> f64 {
    let dim = federation.dim() as f64;
    let each = if federation.response().is_diagonal() { dim } else { 20.0 + 6.0 * dim.powi(3) };
    each * federation.clients() as f64 * protocol.local_steps as f64
}

/// Not affine: the noise-free path of the very protocol says where it leads, the linearised round
/// there how noise fares.
fn general(case: &Case<'_>, protocol: &PFedAvg) -> Outlook {
    let path = mean_path::follow(case, protocol);
    let anywhere = scale(case, &case.points[0]);
    let (index, end, travelled) = match path {
        Ending::Reached { point, theta, rounds } => (point, theta, rounds),
        Ending::Escaped { rounds } => {
            let why = format!(
                "without noise the rounds from this start run away within {} rounds",
                short(rounds)
            );
            return Outlook::new(Some(false), why, anywhere);
        }
        Ending::Wanders => {
            let why = "without noise the rounds keep moving: no stable point attracts them";
            return Outlook::new(Some(false), why, anywhere);
        }
        Ending::Lost(why) => return Outlook::new(None, why, anywhere),
    };
    let point = &case.points[index];
    let scale = scale(case, point);
    let found = local(case, protocol, point, &end, (travelled, scale));
    Outlook { point: Some(index), ..found }
}

/// What a run does that is at the point already.
pub(super) fn local_outlook(case: &Case<'_>, protocol: &PFedAvg, point: &StablePoint) -> Outlook {
    let scale = scale(case, point);
    let constant_steps = matches!(protocol.step_size, StepSize::Constant(_));
    if limit::rescales(case.federation, protocol) && !constant_steps {
        return Outlook::new(Some(false), "models of unequal weights are averaged", scale);
    }
    let Some(map) = case.map(protocol, &point.theta) else {
        return Outlook::new(None, "the dimension is too high to linearise a round", scale);
    };
    let first = protocol.step_size.at(protocol.first_step(Round(0)));
    constant(case, protocol, &map, &Place { point, at: &point.theta, scale }, first, 0.0)
}

/// The end of a path that is known to lead there.
fn local(
    case: &Case<'_>,
    protocol: &PFedAvg,
    point: &StablePoint,
    end: &[f64],
    (travelled, scale): (f64, f64),
) -> Outlook {
    let say = |settles, why: String| Outlook::new(settles, why, scale);
    let Some(map) = case.map(protocol, end) else {
        return say(None, "the dimension is too high to linearise a round".into());
    };
    let first = protocol.step_size.at(protocol.first_step(Round(0)));
    // A decaying step is judged as if it stayed what it is at first: then every later one is calmer.
    let place = Place { point, at: end, scale };
    let mut found = constant(case, protocol, &map, &place, first, 0.0);
    if found.answer.settles != Some(true) {
        if let StepSize::Decaying { .. } = protocol.step_size {
            found.answer.why = format!("the first step is too large: {}", found.answer.why);
        }
        return found;
    }
    if let Err(why) = on_the_way(case, protocol, end, first) {
        return Outlook { answer: Answer { settles: None, why }, ..found };
    }
    if let Some(floor) = map.floor(case.federation, protocol, end, first)
        && let Err(why) = robust(case, protocol, point, end, &floor, first)
    {
        return Outlook { answer: Answer { settles: None, why }, ..found };
    }
    found.rounds = Some(travelled);
    if let StepSize::Decaying { beta, .. } = protocol.step_size {
        let margin = point.gradient_margin.unwrap_or(f64::NAN);
        found.floor = None;
        found.answer.why = format!(
            "errors fall like (t + gamma)^−{}, to nothing",
            short(beta * margin * case.speed())
        );
    }
    if travelled > MOST_ROUNDS {
        let why = format!("getting near would take {} rounds", short(travelled));
        return Outlook { answer: Answer { settles: None, why }, slow: true, ..found };
    }
    found
}

/// Whether noise stays small between the start and the end: rounds of the first step size hardly
/// expand at the start, nor halfway.
fn on_the_way(case: &Case<'_>, protocol: &PFedAvg, end: &[f64], size: f64) -> Result<(), String> {
    for share in [0.0, 0.5] {
        let between = case.start.iter().zip(end).map(|(a, b)| a + share * (b - a));
        let between: Vec<f64> = between.collect();
        let radius = case.map(protocol, &between).and_then(|map| map.mean_square_radius(size));
        if radius.is_none_or(|radius| radius > LARGEST_ON_THE_WAY) {
            return Err(format!(
                "on the way from the start a round of the step size {size} multiplies squared errors \
                 by {}",
                short(radius.unwrap_or(f64::NAN))
            ));
        }
    }
    Ok(())
}

/// Axes of the cloud that are looked along.
const AXES: usize = 3;
/// Standard deviations that are looked out to.
const REACH: f64 = 4.0;

/// Whether rounds still contract, and the averaged gradient still points back, as far out as noise
/// carries.
fn robust(
    case: &Case<'_>,
    protocol: &PFedAvg,
    point: &StablePoint,
    end: &[f64],
    floor: &Floor,
    size: f64,
) -> Result<(), String> {
    let cloud = floor.covariance.clone().symmetric_eigen();
    let field = case.federation.mean_field(&point.theta, &point.theta);
    let inverse = (field.curvature + field.reaction).lu();
    let mut axes: Vec<usize> = (0..end.len()).collect();
    axes.sort_by(|a, b| cloud.eigenvalues[*b].total_cmp(&cloud.eigenvalues[*a]));
    for &axis in axes.iter().take(AXES) {
        let reach = REACH * cloud.eigenvalues[axis].max(0.0).sqrt();
        for sign in [reach, -reach] {
            if reach <= 1e-9 * (1.0 + distance(end, &vec![0.0; end.len()])) {
                continue;
            }
            let out = cloud.eigenvectors.column(axis) * sign;
            let there: Vec<f64> = end.iter().zip(out.iter()).map(|(e, o)| e + o).collect();
            let gradient = case.federation.mean_field(&there, &there).gradient;
            let back = inverse.solve(&gradient).map_or(f64::NAN, |newton| newton.dot(&out));
            let radius = case.map(protocol, &there).and_then(|map| map.mean_square_radius(size));
            let holds =
                back > 0.25 * out.norm_squared() && radius.is_some_and(|radius| radius < 1.0);
            if !holds {
                return Err(format!(
                    "noise at the step size {size} carries the model {} away from the stable \
                     point, where it is not drawn back reliably",
                    short(reach)
                ));
            }
        }
    }
    Ok(())
}

pub(super) fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// A number to four significant digits, for sentences.
pub(super) fn short(number: f64) -> String {
    let size = number.abs();
    if !(1e-3..1e6).contains(&size) && size != 0.0 {
        return format!("{number:.3e}");
    }
    let exponent = if size == 0.0 { 0.0 } else { libm::floor(libm::log10(size)) };
    let text = format!("{number:.digits$}", digits = (3.0 - exponent).max(0.0) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}
