//! Reach and stay: the first aggregation from which on the error is at most the target.
//!
//! A path is followed round by round until the error has been at most the target for as long as it
//! takes everything to settle: seven time constants of the slowest direction, or eight times as
//! many steps (γ included) as it took to get there, whichever comes first. Steps that decay make the
//! error vanish in the end, so only a hump soon after the first crossing could break a promise, and
//! a hump rises within a few time constants; with practically constant steps seven of them show the
//! stationary error itself.
//!
//! While step sizes hardly change, a round's maps are worked out once for a stretch of rounds at the
//! stretch's middle: at most [`FROZEN`] of relative change, an error of second order.

use fedback_core::protocol::{Step, StepSize};

use super::dynamics::{Dynamics, Sampling};

/// How much step sizes may change within rounds that share their maps.
const FROZEN: f64 = 0.01;
/// The same where every target is met and only humps are watched for.
const WATCHING: f64 = 0.05;
/// Time constants after which everything has settled.
const SETTLED: f64 = 7.0;
/// Steps and γ, in units of those at the crossing, after which a hump would have shown.
const LATER: f64 = 8.0;

/// What a path starts from and aims at.
pub(super) struct Aim<'a> {
    /// θ⁰ − θ^PS.
    pub(super) start: &'a [f64],
    /// E|θ − θ^PS|² to reach.
    pub(super) target: f64,
    /// The smallest real part of an eigenvalue of H + J.
    pub(super) margin: f64,
    /// Whether the first round must not enlarge errors in mean square.
    pub(super) stable_first_round: bool,
    /// Whether rounds may share their maps.
    pub(super) frozen: bool,
}

/// The aggregation from which on the target is met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reach {
    /// Rounds, at least one.
    pub(super) rounds: u64,
    /// The same, between rounds: where the logarithm of the error crosses the target's.
    pub(super) crossing: f64,
    /// E|θ − θ^PS|² there.
    pub(super) distance_sq: f64,
    /// The largest E|θ − θ^PS|² seen at it and later.
    pub(super) worst_after: f64,
    /// Rounds until everything had settled.
    pub(super) watched: u64,
}

/// A scheme on its way.
struct Way {
    sampling: Sampling,
    spread: Vec<f64>,
    before: f64,
    limit: u64,
    reached: Option<(Reach, f64, f64)>,
    open: bool,
}

/// Follows one schedule for several schemes at once; `limits` are the rounds by which each must have
/// reached the target.
pub(super) fn follow(
    dynamics: &mut dyn Dynamics,
    local_steps: usize,
    step_size: StepSize,
    aim: &Aim<'_>,
    samplings: &[Sampling],
    limits: &[u64],
) -> Vec<Option<Reach>> {
    let mut mean = aim.start.to_vec();
    let first: f64 = mean.iter().map(|m| m * m).sum();
    let mut ways: Vec<Way> = samplings
        .iter()
        .zip(limits)
        .map(|(&sampling, &limit)| Way {
            sampling,
            spread: dynamics.no_spread(),
            before: first,
            limit,
            reached: None,
            open: limit > 0,
        })
        .collect();
    let hopeless = 1e6 * (first + aim.target);
    let gamma = match step_size {
        StepSize::Decaying { gamma, .. } => gamma,
        StepSize::Constant(_) => f64::INFINITY,
    };
    let mut sizes = vec![0.0; local_steps];
    let (mut round, mut shared, mut settled) = (0u64, 0u64, 0.0);
    while ways.iter().any(|way| way.open) {
        if shared == 0 {
            let watching = ways.iter().all(|way| !way.open || way.reached.is_some());
            let change = match (aim.frozen, watching) {
                (false, _) => 0.0,
                (true, false) => FROZEN,
                (true, true) => WATCHING,
            };
            shared = stretch(step_size, round, &mut sizes, change);
            let drawing = ways.iter().any(|way| way.open && way.sampling.share > 0.0);
            dynamics.prepare(&sizes, drawing);
        }
        if round == 0 && aim.stable_first_round {
            for way in &mut ways {
                way.open &= dynamics.radius(way.sampling) <= 1.0 + 1e-12;
            }
        }
        dynamics.work(&mean, &sizes);
        dynamics.aggregate(&mut mean);
        (round, shared) = (round + 1, shared - 1);
        settled += aim.margin * sizes.iter().sum::<f64>();
        let square: f64 = mean.iter().map(|m| m * m).sum();
        let time = (round * local_steps as u64) as f64 + gamma;
        for way in ways.iter_mut().filter(|way| way.open) {
            let now = square + dynamics.spread(way.sampling, &mut way.spread);
            way.meet(round, now, aim.target, (settled, time));
            if now.is_nan() || now > hopeless {
                (way.open, way.reached) = (false, None);
            }
        }
    }
    ways.into_iter().map(|way| way.reached.map(|(reach, ..)| reach)).collect()
}

impl Way {
    /// Takes note of the error after a round.
    fn meet(&mut self, round: u64, now: f64, target: f64, (settled, time): (f64, f64)) {
        let before = std::mem::replace(&mut self.before, now);
        if now > target {
            self.reached = None;
            self.open = round < self.limit;
            return;
        }
        match &mut self.reached {
            None if round > self.limit => self.open = false,
            None => {
                let crossing = (round - 1) as f64 + share_of_round(before, now, target);
                let reach = Reach {
                    rounds: round,
                    crossing,
                    distance_sq: now,
                    worst_after: now,
                    watched: round,
                };
                self.reached = Some((reach, settled, time));
            }
            Some((reach, then, started)) => {
                reach.worst_after = reach.worst_after.max(now);
                reach.watched = round;
                let waited = settled - *then >= SETTLED;
                self.open = !(waited || time >= LATER * *started && time.is_finite());
            }
        }
    }
}

/// Where within a round the logarithm of the error crosses the target's; below one half, and lower
/// for lower errors, where the round began below it.
fn share_of_round(before: f64, now: f64, target: f64) -> f64 {
    if before <= target {
        return 0.5 * now / target;
    }
    let log = |value: f64| libm::log(value.max(f64::MIN_POSITIVE));
    ((log(before) - log(target)) / (log(before) - log(now))).clamp(0.0, 1.0)
}

/// Writes the step sizes of the round, and says how many rounds may use them.
fn stretch(step_size: StepSize, round: u64, sizes: &mut [f64], change: f64) -> u64 {
    let local_steps = sizes.len() as u64;
    let first = round * local_steps;
    let exact = |k: usize| step_size.at(Step(first + k as u64));
    let StepSize::Decaying { beta, gamma } = step_size else {
        sizes.iter_mut().enumerate().for_each(|(k, size)| *size = exact(k));
        return u64::MAX;
    };
    let now = first as f64 + gamma;
    // No stretch is long against the way so far, so that where it ends hardly matters.
    let rounds = (change * now / local_steps as f64).min((16 + round / 4) as f64) as u64;
    if rounds > 1 {
        let middle = 0.5 * (rounds * local_steps - 1) as f64;
        sizes.fill(beta / (now + middle));
        return rounds;
    }
    sizes.iter_mut().enumerate().for_each(|(k, size)| *size = exact(k));
    1
}
