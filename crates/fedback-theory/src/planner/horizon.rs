//! Reach and stay: the first aggregation from which on the error is at most the target.
//!
//! A path is followed round by round. Once the error is at most the target it is watched. In a search
//! watching ends after seven time constants of the rounds' own slowest direction, or after eight times as many
//! steps (γ included) as it took to get there. Whatever is to be promised is watched until a bound on all
//! later errors is at most the target ([`System::ceiling`](crate::round::System::ceiling)).
//!
//! While step sizes hardly change, a round's maps are worked out once for a stretch of rounds at the
//! stretch's middle, an error of second order in the change; and where nothing happens in such a
//! stretch it is leapt over.

use fedback_core::protocol::{Step, StepSize};

use super::paths::Paths;
use crate::cohort::Chance;
use crate::round::Leap;

/// How much step sizes may change within rounds that share their maps, in a search.
pub(super) const SKETCHED: f64 = 0.04;
/// The same in a forecast of so many steps that they cannot be worked out one by one.
pub(super) const PRECISE: f64 = 0.001;
/// The first rounds of a forecast, which are worked out one by one, and the numbers that it may touch.
const FORESEEN: u64 = 1000;
const FORECAST: f64 = 2e9;
/// How much they may change within local steps of a round that count as equal, in units of that.
const WITHIN: f64 = 0.5;
/// How much more they may change where every target is met and only humps are watched for, and how much
/// at least.
const WATCHING: f64 = 3.0;
const WATCHED: f64 = 0.01;
/// Time constants after which everything has settled.
const SETTLED: f64 = 7.0;
/// Time constants after which rounds of one step size have come to rest.
const AT_REST: f64 = 60.0;
/// Time constants after which nothing is left of the start, and errors shrink with the step sizes: no
/// faster than their square.
const FORGOTTEN: f64 = 20.0;
/// By how much errors may change in a leap, before that.
const DECAY: f64 = 0.1;
/// Steps and γ, in units of those at the crossing, after which a hump would have shown.
const LATER: f64 = 8.0;
/// The same where a bound must be found.
const MUCH_LATER: f64 = 1e7;
/// How much later a bound is asked for again.
const ASKED: f64 = 1.15;

/// What a path starts from and aims at.
#[derive(Clone, Copy)]
pub(super) struct Aim {
    /// E|θ − θ^PS|² to reach.
    pub(super) target: f64,
    /// Whether the first round must not enlarge errors in mean square.
    pub(super) stable_first_round: bool,
    /// The first rounds, which do not share their maps.
    pub(super) apart: u64,
    /// How much step sizes may change within rounds that do.
    pub(super) change: f64,
    /// Errors above the target, in units of it, with which a path is followed beyond its limit.
    pub(super) patience: f64,
    /// Whether a bound must cover all that comes later.
    pub(super) promise: bool,
    /// Numbers that may be touched before it is given up.
    pub(super) work: f64,
}

impl Aim {
    /// A promise.
    pub(super) fn promised(target: f64, change: f64) -> Self {
        Aim {
            target,
            stable_first_round: true,
            apart: FORESEEN,
            change,
            patience: 1.0,
            promise: true,
            work: FORECAST,
        }
    }
}

/// The aggregation from which on the target is met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// Rounds, at least one.
    pub rounds: u64,
    /// The same, between rounds: where the logarithm of the error crosses the target's.
    pub crossing: f64,
    /// E|θ − θ^PS|² there.
    pub distance_sq: f64,
    /// The largest E|θ − θ^PS|² at it and later: seen, or by a bound where one was asked for.
    pub worst_after: f64,
    /// Rounds that were looked ahead, until everything had settled.
    pub watched: u64,
}

/// What became of a scheme on a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Where it met the target for good, within its limit.
    pub(super) reach: Option<Reach>,
    /// The largest error from the limit on, as far as was looked.
    pub(super) worst: f64,
    /// The part of the error at the limit that is spread.
    pub(super) spread: f64,
}

/// A scheme on its way.
#[derive(Default)]
struct Way {
    chance: Chance,
    spread: Vec<f64>,
    next: Vec<f64>,
    /// The error before the round, and after it.
    before: f64,
    now: f64,
    limit: u64,
    reached: Option<Reach>,
    /// Time constants and time at which watching began.
    since: Option<(f64, f64)>,
    /// The round at which a bound is asked for.
    asked: u64,
    worst: f64,
    spread_at_limit: f64,
    open: bool,
}

/// Follows one schedule for several schemes at once; `schemes` have the rounds by which each must have
/// reached the target.
pub(super) fn follow(
    paths: &mut Paths,
    local_steps: usize,
    step_size: StepSize,
    aim: &Aim,
    schemes: &[(Chance, u64)],
) -> Vec<Outcome> {
    let most = paths.worked() + aim.work;
    let mut mean = paths.begin();
    let mut after = mean.clone();
    let first: f64 = paths.start.iter().map(|m| m * m).sum();
    let width = paths.system.spread_width();
    let mut ways: Vec<Way> = schemes.iter().map(|way| Way::new(*way, first, width)).collect();
    let hopeless = 1e6 * (first + aim.target);
    let gamma = match step_size {
        StepSize::Decaying { gamma, .. } => gamma,
        StepSize::Constant(_) => f64::INFINITY,
    };
    let mut sizes = vec![0.0; local_steps];
    let (mut round, mut shared, mut settled, mut each) = (0u64, 0u64, 0.0, 0.0);
    // Rounds between the state now and the one before.
    let mut moved = 1;
    let mut levels = Vec::new();
    while ways.iter().any(|way| way.open) {
        if shared == 0 {
            // Up to its limit a way may lose what it has reached, and what is promised is exact there.
            let past = |way: &Way| !aim.promise || round >= way.limit;
            let watching = ways.iter().all(|way| !way.open || way.since.is_some() && past(way));
            let change = if watching { (WATCHING * aim.change).max(WATCHED) } else { aim.change };
            let most = if round < aim.apart { 1 } else { 16 + round / 4 };
            shared = stretch(step_size, round, &mut sizes, change, most);
            let drawing = ways.iter().any(|way| way.open && way.chance.is_some());
            paths.system.prepare(&sizes, drawing);
            each = paths.settles();
            let decay = if settled > FORGOTTEN { f64::INFINITY } else { DECAY };
            let changes = ways.iter().filter(|way| way.open).map(|way| {
                let (last, now) = ((&after[..], &way.next[..]), (&mean[..], &way.spread[..]));
                paths.system.moved(last, now, sizes.iter().sum())
            });
            let change = changes.fold(0.0, f64::max) / moved as f64;
            let little = if round == 0 { 0.0 } else { decay / change };
            levels = if shared > 3 { leaps(paths, &ways, shared, little) } else { Vec::new() };
        }
        if round == 0 && aim.stable_first_round {
            for way in ways.iter_mut().filter(|way| way.open) {
                way.open &= !paths.expands(way.chance);
            }
        }
        let mut level = levels.len().saturating_sub(1);
        let nearest = ways.iter().filter(|way| way.open && round < way.limit);
        let room = nearest.map(|way| way.limit - round).fold(shared, u64::min);
        while 1 << level > room {
            level -= 1;
        }
        loop {
            if levels.is_empty() {
                paths.mean(&mean, &sizes, &mut after);
            }
            let mut changes = false;
            for (k, way) in ways.iter_mut().enumerate().filter(|(_, way)| way.open) {
                let before = (mean.as_slice(), way.spread.as_slice());
                let total = match levels.get(level) {
                    Some(leaps) => {
                        paths.system.leap(&leaps[k], before, (&mut after, &mut way.next))
                    }
                    None => {
                        let works = paths.done.as_deref();
                        paths.system.spread(way.chance, before, works, &mut way.next)
                    }
                };
                way.now = paths.system.square_of(&after) + total;
                way.spread_at_limit = if round < way.limit { total } else { way.spread_at_limit };
                changes |= (way.before <= aim.target) != (way.now <= aim.target);
            }
            if level == 0 || !changes {
                break;
            }
            level -= 1;
        }
        std::mem::swap(&mut mean, &mut after);
        let rounds = 1u64 << level;
        (round, shared, moved) = (round + rounds, shared - rounds, rounds);
        settled += each * rounds as f64;
        let time = (round * local_steps as u64) as f64 + gamma;
        for way in ways.iter_mut().filter(|way| way.open) {
            std::mem::swap(&mut way.spread, &mut way.next);
            way.meet(round, aim, (settled, time));
            let smaller = match gamma.is_finite() {
                true => time / ((way.limit * local_steps as u64) as f64 + gamma).max(time),
                false => 1.0,
            };
            way.give_up(aim, settled, smaller);
            if way.now.is_nan() || way.now > hopeless {
                way.fail();
            }
            if aim.promise && way.open && way.reached.is_some() && round >= way.asked {
                let moments = (mean.as_slice(), way.spread.as_slice());
                let most = paths.system.ceiling(way.chance, moments, gamma.is_finite());
                way.asked = round.max((round as f64 * ASKED) as u64) + 1;
                way.promise(most, aim);
            }
            if paths.worked() > most {
                way.fail();
            }
        }
    }
    ways.into_iter().map(Way::outcome).collect()
}

/// The maps of 1, 2, 4, … rounds for several schemes, part after part; none where one by one is as
/// quick. A round is doubled as long as at most `most` rounds come out, and as errors change `little`.
fn leaps(paths: &Paths, ways: &[Way], most: u64, little: f64) -> Vec<Vec<Vec<Leap>>> {
    // What is closed is not moved any more.
    let open = |way: &Way| if way.open { way.chance } else { None };
    let round: Option<Vec<Vec<Leap>>> = ways.iter().map(|way| paths.leap(open(way))).collect();
    let mut levels: Vec<_> = round.into_iter().collect();
    while let Some(last) = levels.last()
        && 2u64 << levels.len() <= most.min(1 << 50)
        && libm::exp2(levels.len() as f64) <= little
    {
        levels.push(last.iter().map(|parts| paths.system.doubled(parts)).collect());
    }
    levels
}

impl Way {
    fn new((chance, limit): (Chance, u64), first: f64, width: usize) -> Self {
        let (spread, next) = (vec![0.0; width], vec![0.0; width]);
        let (before, now, open) = (first, first, limit > 0);
        Way { chance, spread, next, before, now, limit, open, ..Way::default() }
    }

    /// Takes note of the error after a round.
    fn meet(&mut self, round: u64, aim: &Aim, (settled, time): (f64, f64)) {
        let (now, beyond) = (self.now, round >= self.limit);
        let before = std::mem::replace(&mut self.before, now);
        if beyond {
            self.worst = self.worst.max(now);
        }
        if now > aim.target {
            self.reached = None;
            self.since = if beyond { self.since.or(Some((settled, time))) } else { None };
            self.open = !beyond || now <= aim.patience * aim.target;
        } else if let Some(reach) = &mut self.reached {
            reach.worst_after = reach.worst_after.max(now);
            reach.watched = round;
        } else if round <= self.limit {
            let crossing = (round - 1) as f64 + share_of_round(before, now, aim.target);
            self.reached = Some(Reach {
                rounds: round,
                crossing,
                distance_sq: now,
                worst_after: now,
                watched: round,
            });
            self.since = Some((settled, time));
        }
        if let Some((then, started)) = self.since {
            let promised = aim.promise && self.reached.is_some();
            let (later, enough) = match (promised, time.is_finite()) {
                (false, _) => (LATER, SETTLED),
                // Rounds that are all the same have nothing new to show in the end.
                (true, false) => (f64::INFINITY, AT_REST),
                (true, true) => (MUCH_LATER, f64::INFINITY),
            };
            let late = time.is_finite() && time >= later * started;
            self.open &= !(settled - then >= enough || late);
            // What no bound covers is not promised.
            self.reached = self.reached.filter(|_| !(promised && late));
        }
    }

    /// Ends the watch where a bound on all later errors is low enough.
    fn promise(&mut self, most: Option<f64>, aim: &Aim) {
        let most = most.filter(|most| *most <= aim.target);
        if let (Some(most), Some(reach)) = (most, &mut self.reached) {
            reach.worst_after = reach.worst_after.max(most);
            self.open = false;
        }
    }

    /// Ends a way that does not get there.
    fn fail(&mut self) {
        (self.open, self.reached, self.worst) = (false, None, f64::INFINITY);
    }

    /// Ends a way that will not get there: its step sizes will be `smaller` at its limit.
    fn give_up(&mut self, aim: &Aim, settled: f64, smaller: f64) {
        let then = self.now * smaller * smaller;
        if self.since.is_none() && settled > FORGOTTEN && then > aim.target {
            (self.open, self.worst) = (false, then);
        }
    }

    fn outcome(self) -> Outcome {
        // Nothing was followed, or the first round is unstable.
        let worst =
            if self.worst == 0.0 && self.reached.is_none() { f64::INFINITY } else { self.worst };
        Outcome { reach: self.reached, worst, spread: self.spread_at_limit }
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

/// Writes the step sizes of the round, and says how many rounds, at most `most`, may use them.
fn stretch(step_size: StepSize, round: u64, sizes: &mut [f64], change: f64, most: u64) -> u64 {
    let local_steps = sizes.len() as u64;
    let first = round * local_steps;
    let StepSize::Decaying { beta, gamma } = step_size else {
        sizes.fill(step_size.at(Step(first)));
        return u64::MAX;
    };
    let now = first as f64 + gamma;
    // No stretch is long against the way so far, so that where it ends hardly matters.
    let rounds = (change * now / local_steps as f64).min(most as f64) as u64;
    if rounds > 1 {
        let middle = 0.5 * (rounds * local_steps - 1) as f64;
        sizes.fill(beta / (now + middle));
        return rounds;
    }
    let mut done = 0;
    while done < sizes.len() {
        let equal = (WITHIN * change * (now + done as f64)) as usize;
        let run = equal.clamp(1, sizes.len() - done);
        let middle = done as f64 + 0.5 * (run - 1) as f64;
        sizes[done..done + run].fill(beta / (now + middle));
        done += run;
    }
    1
}
