//! The path of the model without noise: every client works, with its averaged gradient.
//!
//! Rounds are followed one by one, with the protocol's own step sizes, local steps and deployment,
//! while steps are large. Once a round moves along the averaged gradient field as a small step of a
//! flow does, the flow itself is followed: linearly implicit steps, each checked against two of half
//! the length, because explicit ones would have to be as short as the steepest direction demands.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Round, Step, StepSize};
use nalgebra::DMatrix;

use super::outlook::Case;
use super::why::{Answer, Why};
use crate::limit::NoMap;
use crate::round::{self, Walk, client};
use crate::stable::{Stability, StablePoint, aside, distance, norm};

/// Where a path ends near an attracting stable point.
pub(super) struct Arrival {
    /// Which one.
    pub(super) point: usize,
    /// Where: beside it if the step size is constant.
    pub(super) theta: Vec<f64>,
    /// Rounds until it was near, about.
    pub(super) rounds: f64,
}

/// Times the problem's scale, beyond which a path has escaped.
const FAR: f64 = 1e4;
/// The product of step size, local steps and steepest slope below which rounds are a flow, in units of the
/// rounds that it takes populations to answer.
const CALM: f64 = 0.05;
/// The share of the scale at which a path has arrived.
const ARRIVED: f64 = 0.02;
/// The same for being near.
const NEAR: f64 = 0.25;
/// Rounds that are followed one by one.
const MOST_ROUNDS: f64 = 50_000.0;
/// Steps of the flow.
const MOST_STEPS: usize = 400;

/// Follows the path of a case from its start; where it does not arrive, why not.
pub(super) fn follow(case: &Case<'_>, protocol: &Protocol) -> Result<Arrival, Answer> {
    if let Err(why) = round::supported(case.federation, protocol) {
        return Err(Answer::new(None, Why::NotLinear(NoMap::Algorithm(why))));
    }
    let mut traveller = Traveller::new(case, protocol);
    let most = if traveller.attracting.is_empty() { MOST_ROUNDS / 10.0 } else { MOST_ROUNDS };
    let affordable = case.rounds_within_effort(traveller.cost_of_round(), 8.0);
    if affordable.is_none() && !traveller.is_calm() {
        return Err(Answer::new(None, Why::TooMuchWork));
    }
    for _ in 0..affordable.unwrap_or(1.0).min(most) as u64 {
        if traveller.is_calm() {
            return traveller.flow();
        }
        let moved = traveller.round();
        traveller.check_escape()?;
        if let Some(point) = traveller.has_arrived(moved) {
            let theta = traveller.theta().to_vec();
            return Ok(Arrival { point, theta, rounds: traveller.near_since() });
        }
    }
    Err(traveller.lost(Why::NotArrived(traveller.rounds)))
}

struct Traveller<'a> {
    case: &'a Case<'a>,
    protocol: &'a Protocol,
    walk: Walk,
    /// The model, and what is kept beside it.
    state: Vec<f64>,
    /// Local steps that were followed one by one.
    step: u64,
    rounds: f64,
    near_since: Option<f64>,
    /// Rounds that have hardly moved, one after the other.
    still: usize,
    /// The attracting stable points, by their places in the list, with their scales.
    attracting: Vec<(usize, f64)>,
    slope: f64,
    /// How many rounds later than at once populations answer, on average.
    late: f64,
}

impl<'a> Traveller<'a> {
    fn new(case: &'a Case<'a>, protocol: &'a Protocol) -> Self {
        let (attracting, others): (Vec<_>, Vec<_>) = (case.stable.points.iter().enumerate())
            .partition(|(_, point)| point.stability() == Stability::Attracting);
        // A start at a stable point that repels stays there without noise, and only without.
        let at = |(_, point): &(usize, &StablePoint)| {
            distance(case.start, &point.theta) <= 1e-6 * (1.0 + norm(&point.theta))
        };
        let start = match others.iter().any(at) {
            true => aside(case.start, 1e-3, 0.3),
            false => case.start.to_vec(),
        };
        let from = attracting.iter().map(|(_, point)| point.theta.as_slice());
        let slopes = from.chain([start.as_slice()]).map(|at| steepest(case, protocol, at));
        let slope = slopes.fold(0.0, f64::max);
        let walk = Walk::new(case.federation, protocol, case.arrived);
        Traveller {
            case,
            protocol,
            state: walk.begin(&start),
            walk,
            step: 0,
            rounds: 0.0,
            near_since: None,
            still: 0,
            attracting: attracting.iter().map(|(i, point)| (*i, case.scale(point))).collect(),
            slope,
            late: round::late(case.federation, protocol),
        }
    }

    fn theta(&self) -> &[f64] {
        &self.state[..self.case.start.len()]
    }

    /// Rounds until it was near.
    fn near_since(&self) -> f64 {
        self.near_since.unwrap_or(self.rounds)
    }

    fn is_calm(&self) -> bool {
        let length = self.protocol.step_size.at(Step(self.step))
            * self.protocol.local_steps as f64
            * self.case.speed(self.protocol).max(1.0);
        length * self.slope * (1.0 + self.late) <= CALM
    }

    fn cost_of_round(&self) -> f64 {
        let federation = self.case.federation;
        let rows = match &federation.base() {
            Base::Table(table) => table.len(),
            Base::Gaussian(_) => federation.clients(),
        };
        (rows * federation.dim() * self.protocol.local_steps) as f64
    }

    /// One noise-free round; how far it moves.
    fn round(&mut self) -> f64 {
        let before = self.theta().to_vec();
        let round = Round(self.step / self.protocol.local_steps as u64);
        let sizes: Vec<f64> = self.protocol.sizes(round).collect();
        self.walk.round(self.case.federation, &mut self.state, &sizes);
        self.step += sizes.len() as u64;
        self.rounds += 1.0;
        self.note_nearness();
        distance(self.theta(), &before)
    }

    /// The attracting stable point that is nearest, how far it is, and its scale.
    fn nearest(&self) -> Option<(usize, f64, f64)> {
        let apart = |index: usize| distance(self.theta(), &self.case.stable.points[index].theta);
        let points = self.attracting.iter().map(|&(index, scale)| (index, apart(index), scale));
        points.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn note_nearness(&mut self) {
        let near = self.nearest().is_some_and(|(_, apart, scale)| apart <= NEAR * scale);
        self.near_since = near.then(|| self.near_since());
    }

    /// Whether it is still within bounds.
    fn check_escape(&self) -> Result<(), Answer> {
        let scale = self.attracting.iter().map(|(_, scale)| *scale).fold(1.0, f64::max);
        let apart = distance(self.theta(), self.case.start);
        match apart.is_finite() && apart <= FAR * scale {
            true => Ok(()),
            false => Err(Answer::new(Some(false), Why::RunsAway(self.rounds))),
        }
    }

    /// Near, and no longer going anywhere: what a round moves is a hundredth of how near it is.
    fn has_arrived(&mut self, moved: f64) -> Option<usize> {
        let (index, apart, scale) = self.nearest()?;
        // What swings stands still for a moment, and what answers late for longer.
        self.still = if moved <= 1e-6 * scale { self.still + 1 } else { 0 };
        let remembered = self.case.federation.memory().map_or(0, |memory| memory.models());
        let swings = self.state.len() > self.theta().len();
        let still = match self.protocol.step_size {
            StepSize::Constant(_) => self.still >= if swings { 4 + remembered } else { 1 },
            StepSize::Decaying { .. } => apart <= ARRIVED * scale,
        };
        (apart <= NEAR * scale && still).then_some(index)
    }

    /// Follows the flow θ′ = −F(θ) to its end.
    fn flow(mut self) -> Result<Arrival, Answer> {
        let case = self.case;
        let mut length = 1.0 / self.slope.max(f64::MIN_POSITIVE);
        let mut time = 0.0;
        for _ in 0..MOST_STEPS {
            if let Some((point, apart, scale)) = self.nearest()
                && apart <= ARRIVED * scale
            {
                let theta = case.stable.points[point].theta.clone();
                return Ok(Arrival { point, theta, rounds: self.near_since() });
            }
            self.check_escape()?;
            let whole = implicit(case.federation, self.theta(), length);
            let halves = implicit(case.federation, self.theta(), 0.5 * length)
                .and_then(|half| implicit(case.federation, &half, 0.5 * length));
            let (Some(whole), Some(halves)) = (whole, halves) else { break };
            // Long implicit steps are Newton's, which go to points that repel as well: the error is
            // measured by the distance to the next stable point, whichever it is.
            let apart = case.stable.points.iter().map(|p| distance(self.theta(), &p.theta));
            let error = distance(&halves, &whole) / apart.fold(f64::INFINITY, f64::min);
            if !error.is_finite() || error > 0.05 {
                length *= 0.4;
                if length * self.slope < 1e-9 {
                    break;
                }
                continue;
            }
            time += length;
            self.state[..halves.len()].copy_from_slice(&halves);
            self.rounds = self.rounds_after(time);
            self.note_nearness();
            if error < 0.02 {
                length *= 1.8;
            }
        }
        Err(self.lost(Why::FlowLost))
    }

    /// The end of a path that neither arrived nor escaped: it keeps moving where nothing attracts and
    /// the averaged gradient is as large as far from any stable point.
    fn lost(&self, why: Why) -> Answer {
        let here = self.case.federation.mean_field(self.theta(), self.theta()).gradient.norm();
        let moving = here > 1e-3 * self.slope * (1e-2 + norm(self.theta()));
        match self.attracting.is_empty() && moving {
            true => Answer::new(Some(false), Why::KeepsMoving),
            false => Answer::new(None, why),
        }
    }

    /// Rounds after which the steps since the flow began sum to `time`.
    fn rounds_after(&self, time: f64) -> f64 {
        let time = time / self.case.speed(self.protocol);
        let e = self.protocol.local_steps as f64;
        let began = self.step as f64;
        match self.protocol.step_size {
            StepSize::Constant(size) => (began + time / size) / e,
            StepSize::Decaying { beta, gamma } => {
                ((began + gamma) * libm::exp(time / beta) - gamma) / e
            }
        }
    }
}

/// The largest norm of a client's H_i + J_i, its objective's scale included.
fn steepest(case: &Case<'_>, protocol: &Protocol, theta: &[f64]) -> f64 {
    let slope = |i: usize| {
        let own = case.federation.population(i).expand(theta, theta);
        client::scale(case.federation, protocol, i) * (own.curvature + own.reaction).norm()
    };
    case.federation.counting().map(slope).fold(0.0, f64::max)
}

/// (I/h + F′)⁻¹ F: one linearly implicit Euler step of length h.
fn implicit(federation: &Federation, theta: &[f64], length: f64) -> Option<Vec<f64>> {
    let field = federation.mean_field(theta, theta);
    let system =
        DMatrix::identity(theta.len(), theta.len()) / length + field.curvature + field.reaction;
    let step = system.lu().solve(&field.gradient)?;
    let finite = step.iter().all(|entry| entry.is_finite());
    finite.then(|| theta.iter().zip(&step).map(|(t, s)| t - s).collect())
}
