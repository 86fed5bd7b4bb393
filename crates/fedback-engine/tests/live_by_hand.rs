//! Live rounds whose every message is written down.

use std::collections::VecDeque;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{LocalRule, Protocol, Round, Scheme, StepSize};
use fedback_core::stream::Seed;
use fedback_engine::backend::{Backend, Course};
use fedback_engine::cohort::RecordedCohort;
use fedback_engine::live::{
    Arrival, Assignment, Live, LiveOrder, Sender, Settings, Transport, TransportError,
};
use fedback_engine::server::{Refusal, Update};

/// A transport that plays a list of arrivals and notes what it was asked.
#[derive(Default)]
struct Script {
    arrivals: VecDeque<Arrival>,
    asked: Vec<(bool, Vec<(u32, u64)>)>,
    /// What was broadcast and what those who were asked keep, order after order.
    sent: Vec<(Vec<f64>, Vec<f64>)>,
    refusals: Vec<Refusal>,
}

impl Transport for Script {
    fn ask(&mut self, order: &LiveOrder<'_>) -> Result<(), TransportError> {
        let pair = |at: &Assignment| (at.client.0, at.repetition);
        self.asked.push((order.again, order.asked.iter().map(pair).collect()));
        self.sent.push((order.broadcasts.to_vec(), order.kept.to_vec()));
        Ok(())
    }

    fn next(&mut self) -> Result<Arrival, TransportError> {
        self.arrivals.pop_front().ok_or(TransportError::Broken("the line is dead".into()))
    }

    fn refused(&mut self, _: Sender, reason: &Refusal) {
        self.refusals.push(reason.clone());
    }
}

fn protocol() -> Protocol {
    Protocol::p_fedavg(Scheme::Full, 1, StepSize::Constant(0.1))
}

/// One coordinate, one repetition a start.
fn live<'a>(
    script: &'a mut Script,
    day: &[Arrival],
    weights: &[f64],
    starts: &[f64],
    settings: Settings,
) -> Live<&'a mut Script> {
    live_by(protocol(), script, day, weights, starts, settings)
}

fn live_by<'a>(
    protocol: Protocol,
    script: &'a mut Script,
    day: &[Arrival],
    weights: &[f64],
    starts: &[f64],
    settings: Settings,
) -> Live<&'a mut Script> {
    script.arrivals = day.iter().cloned().collect();
    let repetitions = starts.len() as u64;
    let mut course = Course::new(protocol, weights.into(), Seed(1), &[0.0], repetitions);
    for (repetition, start) in course.state.repetitions.iter_mut().zip(starts) {
        repetition.server[0] = *start;
    }
    Live::new(script, course, settings)
}

fn update(client: u32, repetition: u64, delta: f64) -> Arrival {
    update_of(Round(0), client, repetition, &[delta], &[])
}

fn update_of(round: Round, client: u32, repetition: u64, delta: &[f64], kept: &[f64]) -> Arrival {
    let sender = Sender { round, repetition, client: ClientId(client) };
    let update = Update { delta: delta.to_vec(), kept: kept.to_vec() };
    Arrival::Update { sender, update }
}

fn absent(client: u32) -> Arrival {
    Arrival::Absent { client: ClientId(client), reason: "its site is gone".into() }
}

fn thetas(live: &impl Backend) -> Vec<f64> {
    live.state().repetitions.iter().map(|repetition| repetition.theta()[0]).collect()
}

#[test]
fn the_message_says_who_is_missing_and_why() {
    let mut script = Script::default();
    let day = [
        absent(3),
        update(0, 0, 1.0),
        update(0, 1, 1.0),
        update(1, 1, 1.0),
        update(2, 0, f64::NAN),
        update(2, 1, f64::NAN),
        Arrival::Deadline,
    ];
    let settings = Settings { minimum: 2, attempts: 0 };
    let mut live = live(&mut script, &day, &[0.2; 5], &[0.5, 0.5], settings);
    let error = live.advance(Round(1), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "repetition 0: 1 of 5 answered, at least 2 must; missing: client 1, client 2 (coordinate 0 \
         of the update is not a finite number), client 3 (its site is gone), client 4"
    );
    // Nothing happened: not even in repetition 1, which had enough.
    assert_eq!((live.state().round, thetas(&live)), (Round(0), vec![0.5, 0.5]));
    let error = live.advance(Round(1), false).unwrap_err();
    assert_eq!(error.to_string(), "the line is dead");
    drop(live);
    assert_eq!(script.refusals, [Refusal::NotFinite(0), Refusal::NotFinite(0)]);
}

/// Weights 1/2, 1/4, 1/4: without the last client the others count 2/3 and 1/3.
#[test]
fn the_weight_of_the_absent_is_shared() {
    let mut script = Script::default();
    let day = [update(1, 0, 3.0), update(0, 0, -6.0), absent(2), absent(2)];
    let weights = [0.5, 0.25, 0.25];
    let mut live = live(&mut script, &day, &weights, &[10.0], Settings::default());
    live.advance(Round(1), true).unwrap();
    assert_eq!(thetas(&live), [10.0 - 4.0 + 1.0]);
    assert_eq!(live.state().repetitions[0].consensus, None);
    let cohort = RecordedCohort {
        repetition: 0,
        round: Round(0),
        members: vec![ClientId(0), ClientId(1)],
        coefficients: vec![0.5 * (1.0 / 0.75), 0.25 * (1.0 / 0.75)],
    };
    assert_eq!(live.take_cohorts(), [cohort]);
    assert_eq!(live.take_cohorts(), []);
    drop(live);
    // The absent client was asked again, alone, and said so again: no deadline was waited for.
    assert_eq!(script.asked[0], (false, vec![(0, 0), (1, 0), (2, 0)]));
    assert_eq!(script.asked[1..], [(true, vec![(2, 0)])]);
}

/// What a client sends after the deadline, or after it was said to be absent, is taken while the
/// round is open; a wrong update may be followed by a right one.
#[test]
fn a_late_or_corrected_update_counts() {
    let mut script = Script::default();
    let day = [
        update(0, 0, f64::INFINITY),
        absent(1),
        Arrival::Deadline,
        update(1, 0, 2.0),
        update(0, 0, -1e101),
        update(0, 0, 4.0),
    ];
    let mut live = live(&mut script, &day, &[0.5, 0.5], &[0.0], Settings::default());
    live.advance(Round(1), true).unwrap();
    assert_eq!((thetas(&live), live.take_cohorts()), (vec![3.0], vec![]));
    // Σ p_i (δ_i − 3)² = 1.
    assert_eq!(live.state().repetitions[0].consensus, Some(1.0));
    drop(live);
    let long = Refusal::TooLong { length: 1e101, longest: 1e100 };
    assert_eq!(script.refusals, [Refusal::NotFinite(0), long]);
}

/// A client that was said to be absent and answers all the same is not counted twice: the others are
/// still waited for.
#[test]
fn the_absent_may_answer() {
    let mut script = Script::default();
    let day = [absent(1), update(1, 0, 2.0), update(0, 0, 4.0)];
    let settings = Settings { minimum: 1, attempts: 0 };
    let mut live = live(&mut script, &day, &[0.5, 0.5], &[0.0], settings);
    live.advance(Round(1), false).unwrap();
    assert_eq!((thetas(&live), live.take_cohorts()), (vec![3.0], vec![]));
}

/// Those present must weigh something, else there is nothing to share the rest by.
#[test]
fn the_weightless_cannot_stand_for_others() {
    let mut script = Script::default();
    let day = [update(1, 0, 2.0), absent(0)];
    let settings = Settings { minimum: 1, attempts: 0 };
    let mut live = live(&mut script, &day, &[1.0, 0.0], &[0.0], settings);
    let error = live.advance(Round(1), false).unwrap_err();
    assert!(error.to_string().contains("missing: client 0 (its site is gone)"), "{error}");
}

/// A repetition that leaves the range of numbers stops alone, as in the simulation; nobody works for
/// it any more, and what still comes for it is refused.
#[test]
fn a_failed_repetition_stops_alone() {
    let mut script = Script::default();
    let later = |client, repetition, delta| update_of(Round(1), client, repetition, &[delta], &[]);
    let day = [
        update(0, 0, 1.0),
        update(1, 0, 1.0),
        update(0, 1, f64::MAX),
        update(1, 1, f64::MAX),
        later(0, 1, 1.0),
        later(0, 0, 1.0),
        later(1, 0, 1.0),
    ];
    let starts = [0.0, 1e308];
    let mut live = live(&mut script, &day, &[0.5, 0.5], &starts, Settings::default());
    live.advance(Round(2), false).unwrap();
    assert_eq!(thetas(&live), [2.0, 1e308]);
    let failed: Vec<_> = live.state().repetitions.iter().map(|r| r.failed).collect();
    assert_eq!(failed, [None, Some(Round(1))]);
    drop(live);
    assert_eq!(script.asked[1], (false, vec![(0, 0), (1, 0)]));
    assert_eq!(script.refusals, [Refusal::NoRoundOpen]);
}

/// SCAFFOLD in steps of 1/2: c_i becomes c_i − c − 2 δ.
fn scaffold() -> Protocol {
    Protocol { local: LocalRule::Scaffold, step_size: StepSize::Constant(0.5), ..protocol() }
}

/// What clients keep travels with orders and updates. Client 1 answers nonsense and then nothing: it
/// keeps the zero that it had, c counts the other with its weight alone, and θ with all of it.
#[test]
fn what_clients_keep_travels() {
    let mut script = Script::default();
    let now = |client, delta: f64, kept: &[f64]| update_of(Round(0), client, 0, &[delta], kept);
    let later = |client, delta: f64, kept| update_of(Round(1), client, 0, &[delta], &[kept]);
    let day = [
        now(0, -1.0, &[]),
        now(1, -3.0, &[4.0, 1.0]),
        now(0, -1.0, &[f64::NAN]),
        now(1, -3.0, &[5.999]),
        now(0, -1.0, &[2.0]),
        absent(1),
        later(1, -3.5, 6.0),
        later(0, -0.75, 2.5),
    ];
    let settings = Settings { minimum: 1, attempts: 0 };
    let mut live = live_by(scaffold(), &mut script, &day, &[0.5, 0.5], &[0.0], settings);
    live.advance(Round(1), false).unwrap();
    let repetition = &live.state().repetitions[0];
    assert_eq!((&repetition.server, &repetition.kept), (&vec![-1.0, 1.0], &vec![2.0, 0.0]));
    assert_eq!(repetition.changed().collect::<Vec<_>>(), [0]);
    live.advance(Round(2), false).unwrap();
    let repetition = &live.state().repetitions[0];
    assert_eq!((&repetition.server, &repetition.kept), (&vec![-3.125, 4.25], &vec![2.5, 6.0]));
    drop(live);
    assert_eq!(script.sent, [(vec![0.0, 0.0], vec![0.0, 0.0]), (vec![-1.0, 1.0], vec![2.0, 0.0])]);
    let length = |found| Refusal::KeptLength { found, expected: 1 };
    let other = Refusal::KeptOther(0);
    assert_eq!(script.refusals, [length(0), length(2), other.clone(), other]);
}

/// Orders name a client once for every repetition, and what it keeps stands beside: sorted by client,
/// as they are asked.
#[test]
fn what_clients_keep_is_in_the_order_of_those_asked() {
    let mut script = Script::default();
    let mut day = Vec::new();
    for (client, repetition, kept) in [(0, 0, 1.0), (1, 0, 2.0), (0, 1, 3.0), (1, 1, 4.0)] {
        day.push(update_of(Round(0), client, repetition, &[-kept / 2.0], &[kept]));
    }
    let settings = Settings { minimum: 2, attempts: 0 };
    let mut live = live_by(scaffold(), &mut script, &day, &[0.5, 0.5], &[0.0, 7.0], settings);
    live.advance(Round(1), false).unwrap();
    live.advance(Round(2), false).unwrap_err();
    drop(live);
    assert_eq!(script.asked[1], (false, vec![(0, 0), (0, 1), (1, 0), (1, 1)]));
    assert_eq!(script.sent[1], (vec![-0.75, 1.5, 5.25, 3.5], vec![1.0, 3.0, 2.0, 4.0]));
}

/// The reason is named where too few are left; and where the rule keeps nothing, nothing is taken.
#[test]
fn what_is_kept_wrongly_is_a_reason() {
    let mut script = Script::default();
    let settings = Settings { minimum: 1, attempts: 0 };
    let day = [update_of(Round(0), 0, 0, &[1.0], &[f64::NAN]), absent(1), Arrival::Deadline];
    let mut strict = live_by(scaffold(), &mut script, &day, &[0.5, 0.5], &[0.0], settings);
    assert_eq!(
        strict.advance(Round(1), false).unwrap_err().to_string(),
        "repetition 0: 0 of 2 answered, at least 1 must; missing: client 0 (number 0 of what the \
         client keeps does not follow from its update), client 1 (its site is gone)"
    );
    drop(strict);
    let day = [update_of(Round(0), 0, 0, &[1.0], &[2.0]), absent(1), Arrival::Deadline];
    let mut usual = live(&mut script, &day, &[0.5, 0.5], &[0.0], settings);
    assert_eq!(
        usual.advance(Round(1), false).unwrap_err().to_string(),
        "repetition 0: 0 of 2 answered, at least 1 must; missing: client 0 (the update has 1 numbers \
         that the client keeps, needed are 0), client 1 (its site is gone)"
    );
}
