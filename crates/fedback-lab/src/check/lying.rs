//! What one client could do by lying, as far as a server believes it.
//!
//! How far a client moves θ in one round is bounded by the plan: its coefficient times the longest update
//! that is believed. How far that leads in a run depends on how the others pull back, on noise, cohorts
//! and on what else a clip shortens. It is tried: a run with the liar and one without, on the same draws.

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Protocol, Round, ServerRule};
use fedback_core::state::State;
use fedback_engine::backend::{Backend, Course};
use fedback_engine::lying::Lying;
use fedback_engine::server::Reach;
use fedback_engine::simulate::Simulation;
use fedback_theory::influence::weakest_direction;
use serde::Serialize;

use super::trial::cost_of_round;
use crate::plan::Plan;

/// Repetitions of a trial.
const REPETITIONS: u64 = 8;
/// Clients that are tried.
const MOST_CLIENTS: usize = 8;
/// Numbers that all trials touch.
const EFFORT: f64 = 6e8;

/// What trials of liars were, and what a clip did to honest clients in them.
#[derive(Clone, Debug, Serialize)]
pub struct Lies {
    /// Rounds that were tried.
    pub rounds: u64,
    /// Seeded repeats.
    pub repetitions: u64,
    /// The share of updates that the clip shortened while everybody was honest.
    pub shortened: f64,
}

/// What one client could do.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Lie {
    /// How far it moves θ in a round in which it is drawn once, at most; none where the server's rule
    /// sets no bound.
    pub one_round: Option<f64>,
    /// How far it moved θ in a trial, pushing where the others give way most; none where it was not
    /// tried: without a clip, or among many clients.
    pub tried: Option<f64>,
}

/// What every client could do in a round, from a point.
pub(super) fn bounds(plan: &Plan, point: Option<&[f64]>) -> Vec<Lie> {
    let (protocol, reach) = (&plan.protocol, Reach::of(plan.federation()));
    let (sampler, made) = (plan.sampler(), makes(protocol));
    let sizes: Vec<f64> = protocol.sizes(Round(0)).collect();
    // What is sent with a model, and what clients keep, are as at the beginning.
    let begin = &plan.beginning_of(protocol, 1).repetitions[0];
    let mut broadcast = begin.broadcast().to_vec();
    let theta = point.unwrap_or(&plan.start);
    broadcast[..theta.len()].copy_from_slice(theta);
    let clipped = protocol.longest(sizes.iter().sum());
    let one = |client: u32| {
        let client = ClientId(client);
        let honest =
            || reach.longest(protocol, &sizes, &broadcast, (client, begin.kept_by(client)));
        let believed = clipped.unwrap_or_else(honest);
        let one_round = made.map(|made| made * sampler.multiplier(client) * believed);
        // Nobody knows how far some responses go.
        let one_round = one_round.filter(|far| far.is_finite());
        Lie { one_round, tried: None }
    };
    (0..plan.clients() as u32).map(one).collect()
}

/// Tries lies of a plan's heaviest clients, and notes what they came to.
pub(super) fn try_out(plan: &Plan, point: Option<&[f64]>, all: &mut [Lie]) -> Option<Lies> {
    plan.check_arrivals().ok()?;
    let (federation, protocol) = (plan.federation(), &plan.protocol);
    let reach = Reach::of(federation);
    let at = point.unwrap_or(&plan.start);
    let clients = plan.clients();
    let mut order: Vec<usize> = (0..clients).collect();
    order.sort_by(|a, b| plan.weights[*b].total_cmp(&plan.weights[*a]));
    let tried = &order[..clients.min(MOST_CLIENTS)];
    let repetitions = REPETITIONS as f64 / super::trial::REPETITIONS as f64;
    let each = cost_of_round(federation, protocol) * repetitions;
    let affordable = EFFORT / (each * (1 + 2 * tried.len()) as f64);
    let rounds = (plan.spec.rounds.0 as f64).min(affordable).max(1.0) as u64;
    let run =
        |liar: Option<(ClientId, &[f64])>| run(plan, &Lying::new(federation, &reach, liar), rounds);
    let (honest, shortened) = run(None)?;
    for &client in tried {
        let Some(push) = weakest_direction(federation, client, at) else { continue };
        let back: Vec<f64> = push.iter().map(|number| -number).collect();
        let far = |push: &[f64]| {
            let (moved, _) = run(Some((ClientId(client as u32), push)))?;
            apart(&honest, &moved)
        };
        all[client].tried = far(&push).zip(far(&back)).map(|(there, back)| there.max(back));
    }
    Some(Lies { rounds, repetitions: REPETITIONS, shortened })
}

/// What the server's rule makes of a combined delta, round after round, at most.
fn makes(protocol: &Protocol) -> Option<f64> {
    match protocol.server {
        ServerRule::Average => Some(1.0),
        ServerRule::Momentum { rate, beta } => Some(rate / (1.0 - beta)),
        ServerRule::Adam { .. } => None,
    }
}

/// The models that rounds of a plan lead to, and the share of updates that were shortened.
fn run(plan: &Plan, work: &Lying<'_>, rounds: u64) -> Option<(State, f64)> {
    let state = plan.beginning_of(&plan.protocol, REPETITIONS);
    let course: Course = plan.course(state, &[]);
    let mut simulation = Simulation::new(work, course);
    simulation.advance(Round(rounds), false).ok()?;
    Some((simulation.state().clone(), work.shortened()))
}

/// √ of the mean squared distance between the models of two runs; none where one failed.
fn apart(one: &State, other: &State) -> Option<f64> {
    let both = one.repetitions.iter().zip(&other.repetitions);
    let squares = both.map(|(a, b)| {
        let pairs = a.theta().iter().zip(b.theta());
        pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f64>()
    });
    let far = (squares.sum::<f64>() / one.repetitions.len() as f64).sqrt();
    let failed = !one.failed().is_empty() || !other.failed().is_empty();
    (far.is_finite() && !failed).then_some(far)
}
