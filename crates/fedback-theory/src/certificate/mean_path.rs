//! The path of the model without noise: every client works, with its averaged gradient.
//!
//! Rounds are followed one by one, with the protocol's own step sizes, local steps and deployment,
//! while steps are large. Once a round moves along the averaged gradient field as a small step of a
//! flow does, the flow itself is followed: linearly implicit steps, each checked against two of half
//! the length, because explicit ones would have to be as short as the steepest direction demands.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Step, StepSize};
use nalgebra::{DMatrix, DVector};

use super::outlook::{Case, distance, scale};
use super::why::Why;
use crate::round::{Walk, client};
use crate::stable::Stability;

/// How a path ends.
pub(super) enum Ending {
    /// Near an attracting stable point.
    Reached {
        /// Which one.
        point: usize,
        /// Where: beside it if the step size is constant.
        theta: Vec<f64>,
        /// Rounds until it was near, about.
        rounds: f64,
    },
    /// Out of bounds.
    Escaped {
        /// Rounds until then, about.
        rounds: f64,
    },
    /// Nowhere: no stable point that is known attracts, and it keeps moving.
    Wanders,
    /// Not known, with the reason.
    Lost(Why),
}

/// Times the problem's scale, beyond which a path has escaped.
const FAR: f64 = 1e4;
/// The product of step size, local steps and steepest slope below which rounds are a flow.
const CALM: f64 = 0.05;
/// The share of the scale at which a path has arrived.
const ARRIVED: f64 = 0.02;
/// The same for being near.
const NEAR: f64 = 0.25;
/// Rounds that are followed one by one.
const MOST_ROUNDS: f64 = 50_000.0;
/// Steps of the flow.
const MOST_STEPS: usize = 400;

/// Follows the path of a case from its start.
pub(super) fn follow(case: &Case<'_>, protocol: &Protocol) -> Ending {
    let mut walk = Traveller::new(case, protocol);
    let cost = walk.cost_of_round();
    let attracts = walk.scales.iter().any(Option::is_some);
    let most = if attracts { MOST_ROUNDS } else { MOST_ROUNDS / 10.0 };
    let affordable = (case.effort / cost).clamp(8.0, most) as u64;
    for _ in 0..affordable {
        if walk.is_calm() {
            return walk.flow();
        }
        let before = walk.theta.clone();
        walk.round();
        if walk.has_escaped() {
            return Ending::Escaped { rounds: walk.rounds };
        }
        if let Some(point) = walk.has_arrived(&before) {
            let rounds = walk.near_since.unwrap_or(walk.rounds);
            return Ending::Reached { point, theta: walk.theta, rounds };
        }
    }
    if !attracts && walk.is_moving() {
        return Ending::Wanders;
    }
    Ending::Lost(Why::NotArrived { rounds: walk.rounds })
}

struct Traveller<'a> {
    case: &'a Case<'a>,
    protocol: &'a Protocol,
    theta: Vec<f64>,
    step: u64,
    rounds: f64,
    near_since: Option<f64>,
    /// Of every attracting stable point.
    scales: Vec<Option<f64>>,
    slope: f64,
    walk: Walk,
    /// The model, and what is kept beside it.
    state: Vec<f64>,
    /// Rounds that have hardly moved, one after the other.
    still: usize,
}

impl<'a> Traveller<'a> {
    fn new(case: &'a Case<'a>, protocol: &'a Protocol) -> Self {
        let scales = case
            .points
            .iter()
            .map(|point| (point.stability() == Stability::Attracting).then(|| scale(case, point)));
        let rounds = Walk::new(case.federation, protocol, case.arrived);
        let mut walk = Traveller {
            theta: case.start.to_vec(),
            step: 0,
            rounds: 0.0,
            near_since: None,
            scales: scales.collect(),
            slope: 0.0,
            state: Vec::new(),
            walk: rounds,
            still: 0,
            case,
            protocol,
        };
        walk.nudge();
        walk.state = walk.walk.begin(&walk.theta);
        walk.slope = walk.steepest();
        walk
    }

    /// A start at a stable point that repels stays there without noise, and only without.
    fn nudge(&mut self) {
        let points = self.case.points.iter().zip(&self.scales);
        let at = |theta: &[f64]| distance(&self.theta, theta) <= 1e-6 * (1.0 + size_of(theta));
        if points.into_iter().any(|(point, scale)| scale.is_none() && at(&point.theta)) {
            let aside = 1e-3 * (1.0 + size_of(&self.theta));
            // Multiples of the golden ratio: a direction that no symmetry is likely to share.
            for (j, theta) in self.theta.iter_mut().enumerate() {
                *theta += aside * (((j + 1) as f64 * 0.618_034).fract() - 0.3);
            }
        }
    }

    /// The largest norm of a client's H_i + J_i, its objective's scale included, here and at the stable
    /// points.
    fn steepest(&self) -> f64 {
        let federation = self.case.federation;
        let at = |theta: &[f64]| {
            let clients = (0..federation.clients()).filter(|&i| federation.weights()[i] > 0.0);
            clients
                .map(|i| {
                    let own = federation.population(i).expand(theta, theta);
                    let scale = client::scale(federation, self.protocol, i);
                    scale * (own.curvature + own.reaction).norm()
                })
                .fold(0.0, f64::max)
        };
        let points = self.case.points.iter().zip(&self.scales).filter(|(_, s)| s.is_some());
        points.map(|(point, _)| at(&point.theta)).fold(at(&self.theta), f64::max)
    }

    fn size(&self) -> f64 {
        self.protocol.step_size.at(Step(self.step))
    }

    fn is_calm(&self) -> bool {
        let length = self.size()
            * self.protocol.local_steps as f64
            * self.case.speed(self.protocol).max(1.0);
        length * self.slope <= CALM
    }

    fn cost_of_round(&self) -> f64 {
        let federation = self.case.federation;
        let rows = match &federation.base() {
            Base::Table(table) => table.len(),
            Base::Gaussian(_) => federation.clients(),
        };
        (rows * federation.dim() * self.protocol.local_steps) as f64
    }

    /// One noise-free round.
    fn round(&mut self) {
        let steps = self.step..self.step + self.protocol.local_steps as u64;
        let sizes: Vec<f64> = steps.map(|t| self.protocol.step_size.at(Step(t))).collect();
        let federation = self.case.federation;
        let works = self.walk.works(&self.state, &sizes, |client, local, deployed, gradient| {
            federation.population(client).gradient(local, deployed, gradient);
        });
        self.walk.close(&mut self.state, &works, sizes.iter().sum());
        let dim = self.theta.len();
        self.theta.copy_from_slice(&self.state[..dim]);
        self.step += sizes.len() as u64;
        self.rounds += 1.0;
        self.note_nearness();
    }

    fn nearest(&self) -> Option<(usize, f64, f64)> {
        let points = self.case.points.iter().zip(&self.scales).enumerate();
        points
            .filter_map(|(index, (point, scale))| {
                Some((index, distance(&self.theta, &point.theta), (*scale)?))
            })
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn note_nearness(&mut self) {
        let near = self.nearest().is_some_and(|(_, apart, scale)| apart <= NEAR * scale);
        self.near_since = if near { self.near_since.or(Some(self.rounds)) } else { None };
    }

    fn has_escaped(&self) -> bool {
        let scale = self.scales.iter().flatten().copied().fold(1.0, f64::max);
        let apart = distance(&self.theta, self.case.start);
        !apart.is_finite() || apart > FAR * scale
    }

    /// Near, and no longer going anywhere: what a round moves is a hundredth of how near it is.
    fn has_arrived(&mut self, before: &[f64]) -> Option<usize> {
        let (index, apart, scale) = self.nearest()?;
        let moved = distance(&self.theta, before);
        // What swings stands still for a moment.
        self.still = if moved <= 1e-6 * scale { self.still + 1 } else { 0 };
        let swings = self.state.len() > self.theta.len();
        let still = match self.protocol.step_size {
            StepSize::Constant(_) => self.still >= if swings { 4 } else { 1 },
            StepSize::Decaying { .. } => apart <= ARRIVED * scale,
        };
        (apart <= NEAR * scale && still).then_some(index)
    }

    /// Follows the flow θ′ = −F(θ) to its end.
    fn flow(mut self) -> Ending {
        let federation = self.case.federation;
        let mut length = 1.0 / self.slope.max(f64::MIN_POSITIVE);
        let mut time = 0.0;
        let mut theta = DVector::from_column_slice(&self.theta);
        for _ in 0..MOST_STEPS {
            if let Some((index, apart, scale)) = self.nearest()
                && apart <= ARRIVED * scale
            {
                let rounds = self.near_since.unwrap_or(self.rounds);
                return Ending::Reached {
                    point: index,
                    theta: self.case.points[index].theta.clone(),
                    rounds,
                };
            }
            if self.has_escaped() {
                return Ending::Escaped { rounds: self.rounds };
            }
            let Some(whole) = implicit(federation, &theta, length) else { break };
            let halves = implicit(federation, &theta, 0.5 * length)
                .and_then(|half| implicit(federation, &half, 0.5 * length));
            let Some(halves) = halves else { break };
            // Long implicit steps are Newton's, which go to points that repel as well: the error is
            // measured by the distance to the next stable point, whichever it is.
            let apart = self.case.points.iter().map(|point| distance(&self.theta, &point.theta));
            let error = (&halves - whole).norm() / apart.fold(f64::INFINITY, f64::min);
            if !error.is_finite() || error > 0.05 {
                length *= 0.4;
                if length * self.slope < 1e-9 {
                    break;
                }
                continue;
            }
            theta = halves;
            time += length;
            self.theta.copy_from_slice(theta.as_slice());
            self.rounds = self.rounds_after(time);
            self.note_nearness();
            if error < 0.02 {
                length *= 1.8;
            }
        }
        match self.scales.iter().all(Option::is_none) && self.is_moving() {
            true => Ending::Wanders,
            false => Ending::Lost(Why::FlowLost),
        }
    }

    /// Whether the averaged gradient is as large as far from any stable point.
    fn is_moving(&self) -> bool {
        let federation = self.case.federation;
        let here = federation.mean_field(&self.theta, &self.theta).gradient.norm();
        here > 1e-3 * self.slope * (1e-2 + size_of(&self.theta))
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

fn size_of(theta: &[f64]) -> f64 {
    theta.iter().map(|t| t * t).sum::<f64>().sqrt()
}

/// (I/h + F′)⁻¹ F: one linearly implicit Euler step of length h.
fn implicit(federation: &Federation, theta: &DVector<f64>, length: f64) -> Option<DVector<f64>> {
    let field = federation.mean_field(theta.as_slice(), theta.as_slice());
    let system =
        DMatrix::identity(theta.len(), theta.len()) / length + field.curvature + field.reaction;
    let step = system.lu().solve(&field.gradient)?;
    step.iter().all(|entry| entry.is_finite()).then(|| theta - step)
}
