//! A live run on a network that has bad days, thousands of them.

mod network;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{
    Aggregate, Batch, LocalRule, Protocol, Round, Scheme, ServerRule, StepSize,
};
use fedback_core::state::Repetition;
use fedback_engine::backend::{Backend, BackendError};
use fedback_engine::cohort::{Cohort, CohortSampler, RecordedCohort};
use fedback_engine::live::{Settings, TransportError};

use network::run::{Mortal, Run, left};
use network::{CLIENTS, DIM, Network, REPETITIONS, SEED, Weather, draws, federation, schedules};

const ROUNDS: u64 = 4;

fn protocol(scheme: Scheme, aggregate: Aggregate) -> Protocol {
    let step_size = StepSize::Decaying { beta: 2.0, gamma: 10.0 };
    Protocol { batch: Batch::Sampled(2), aggregate, ..Protocol::p_fedavg(scheme, 3, step_size) }
}

/// Schedules that are played where nobody asks for more.
const SCHEDULES: u64 = 8000;

/// What clients and the server make of gradients and deltas, in turns.
fn guest(schedule: u64, usual: Protocol) -> Protocol {
    let momentum = ServerRule::Momentum { rate: 0.8, beta: 0.5 };
    let adam = ServerRule::Adam { rate: 0.3, beta1: 0.5, beta2: 0.9, tau: 0.1 };
    let (local, server) = match schedule / 3 % 5 {
        0 => (LocalRule::Scaffold, ServerRule::Average),
        1 => (LocalRule::Descent, momentum),
        2 => (LocalRule::Scaffold, momentum),
        3 => (LocalRule::Proximal { proximal: 0.5 }, ServerRule::Average),
        _ => (LocalRule::Scaffold, adam),
    };
    Protocol { local, server, ..usual }
}

fn any_protocol(schedule: u64) -> Protocol {
    let scheme = match schedule % 3 {
        0 => Scheme::Full,
        1 => Scheme::WithReplacement { cohort: 4 },
        _ => Scheme::WithoutReplacement { cohort: 3 },
    };
    let aggregate =
        if schedule.is_multiple_of(7) { Aggregate::Iterates } else { Aggregate::Deltas };
    // Average gradients are up to about ten here: half of the updates are shortened.
    let clip = schedule.is_multiple_of(5).then_some(3.0);
    let usual = Protocol { clip, ..protocol(scheme, aggregate) };
    // Five of eight are P-FedAvg, the others for other rules.
    if schedule % 8 < 5 { usual } else { guest(schedule, usual) }
}

fn weather(schedule: u64, well_from: Option<u32>) -> Weather {
    let mut draws = draws(schedule ^ 0x5eed);
    let mut chance = |most: f64| if draws.uniform() < 0.3 { 0.0 } else { most * draws.uniform() };
    Weather {
        lost: chance(0.7),
        delayed: chance(0.7),
        repeated: chance(0.7),
        corrupted: chance(1.0),
        crashed: chance(0.4),
        hasty: chance(0.3),
        attackers: [0, 0, 0, 1, 2, 3][draws.index(6)],
        well_from,
    }
}

/// Whether a round that follows `round` is watched: the second and the last.
fn watched(round: Round) -> bool {
    round.0 % 2 == 1
}

/// Where every member answers rightly in the end, nothing that happened before can be seen in the
/// state, not even that the server died in the middle of rounds.
#[test]
fn answers_in_the_end_give_the_bits_of_the_simulation() {
    let federation = federation();
    let mut refusals = std::collections::BTreeMap::new();
    for schedule in 0..schedules(SCHEDULES) {
        let protocol = any_protocol(schedule);
        let attempts = (schedule % 4) as u32;
        let settings = Settings { minimum: 1, attempts };
        let bad = weather(schedule, Some(attempts));
        // Some go on with a repetition that has failed, to which nobody may contribute.
        let failed: &[u64] = if schedule.is_multiple_of(11) { &[1] } else { &[] };
        let network = Network::new(&federation, protocol, bad, None, schedule);
        let mut network = network.without(failed);
        let mut run = Run::new(&federation, protocol).without(failed);
        let mut simulation = run.replay();
        while run.round().0 < ROUNDS {
            let dies = network.draws.uniform() < 0.3;
            let patience = dies.then(|| network.draws.index(12));
            let mut mortal = Mortal { network: &mut network, left: patience };
            let mut live = run.server(&mut mortal, settings);
            let until = Round(run.round().0 + 1);
            match live.advance(until, watched(run.round())) {
                Ok(()) => {
                    simulation.advance(until, watched(run.round())).unwrap();
                    // A new server does not know the consensus of a round that it did not close.
                    let same = left(live.state()).into_iter().zip(left(simulation.state()));
                    for (mut live, simulation) in same {
                        if !watched(run.round()) {
                            live.consensus = simulation.consensus;
                        }
                        assert_eq!(live, simulation, "schedule {schedule}, {until:?}");
                    }
                    run.checkpoint(&mut live);
                }
                Err(error) => assert_eq!(error, TransportError::Interrupted.into()),
            }
            drop(live);
            network.closed();
        }
        assert_eq!(run.cohorts, []);
        for (reason, count) in network.refusals {
            *refusals.entry(reason).or_insert(0) += count;
        }
    }
    // Every reason was given, and often; that of the first arrivals is counted by their own test.
    let reasons: Vec<&str> = refusals.keys().copied().collect();
    let expected = [
        "duplicate",
        "kept length",
        "kept other",
        "no round open",
        "not asked",
        "not finite",
        "other round",
        "too long",
        "unknown repetition",
        "wrong length",
    ];
    assert_eq!(reasons, expected);
    assert!(refusals.values().all(|&count| count > 100), "{refusals:?}");
}

/// With absences: a round is closed exactly where its cohort is complete or enough have answered,
/// the recorded cohort is who answered, and a replay of it comes to the same bits.
#[test]
fn absences_are_recorded_and_replayed() {
    let federation = federation();
    let (mut short, mut stopped, mut idle, mut died) = (0, 0, 0, 0);
    for schedule in 0..schedules(SCHEDULES) {
        let protocol = any_protocol(schedule);
        let settings = Settings {
            minimum: 1 + schedule as usize / 3 % 3,
            attempts: (schedule / 9 % 3) as u32,
        };
        let mut network =
            Network::new(&federation, protocol, weather(schedule, None), None, schedule);
        let sampler = CohortSampler::new(&protocol, federation.weights().clone());
        let mut run = Run::new(&federation, protocol);
        let mut ends = Vec::new();
        let mut tries = 0;
        while run.round().0 < ROUNDS && tries < 30 {
            tries += 1;
            let (round, before) = (run.round(), run.state.clone());
            let dies = network.draws.uniform() < 0.1;
            let patience = dies.then(|| network.draws.index(12));
            let mut mortal = Mortal { network: &mut network, left: patience };
            let mut live = run.server(&mut mortal, settings);
            let closed = live.advance(Round(round.0 + 1), watched(round));
            if closed.is_ok() {
                run.checkpoint(&mut live);
                ends = left(live.state());
            } else {
                assert!(live.state().same_bits(&before));
                assert_eq!(live.take_cohorts(), []);
            }
            drop(live);
            network.closed();
            let mut lacking = None;
            for repetition in 0..REPETITIONS as u64 {
                let mut drawn = Cohort::default();
                sampler.draw(SEED, repetition, round, &mut drawn);
                let came = network.came(repetition);
                let missing: Vec<ClientId> =
                    drawn.members.iter().copied().filter(|c| !came.contains(c)).collect();
                let present = drawn.members.len() - missing.len();
                if !missing.is_empty() && present < settings.minimum {
                    lacking.get_or_insert((repetition, present, missing.clone()));
                }
                if closed.is_ok() {
                    let recorded = run
                        .cohorts
                        .iter()
                        .find(|cohort| (cohort.repetition, cohort.round) == (repetition, round));
                    assert_eq!(recorded.is_some(), !missing.is_empty());
                    if let Some(cohort) = recorded {
                        short += 1;
                        check_shared(cohort, &drawn, &missing);
                    }
                    let members = recorded.map_or(&drawn.members, |cohort| &cohort.members);
                    let place = repetition as usize;
                    let (old, new) = (&before.repetitions[place], &run.state.repetitions[place]);
                    idle += check_kept(old, new, members);
                    let seen = ends[repetition as usize].consensus.is_some();
                    assert_eq!(watched(round) && came.len() < CLIENTS, !seen);
                }
            }
            match (closed, lacking) {
                (Ok(()), None) => {}
                (Err(error), _) if error == TransportError::Interrupted.into() => died += 1,
                (Err(BackendError::TooFew { repetition, present, missing, minimum }), lacking) => {
                    stopped += 1;
                    let missing = missing.into_iter().map(|(client, _)| client).collect();
                    assert_eq!(lacking, Some((repetition, present, missing)));
                    assert_eq!(minimum, settings.minimum);
                }
                other => panic!("schedule {schedule}: {other:?}"),
            }
        }
        let mut replay = run.replay();
        replay.advance(run.round(), false).unwrap();
        assert!(run.state.same_bits(replay.state()), "schedule {schedule}");
    }
    assert!(short > 1000 && stopped > 1000, "{short} {stopped}");
    assert!(idle > 1000 && died > 1000, "{idle} {died}");
}

/// Who is not in the cohort keeps what it kept, and what is sent to all is the average of what they
/// keep. Returns how many kept something over a round in which they had no part.
fn check_kept(before: &Repetition, after: &Repetition, members: &[ClientId]) -> usize {
    let mut idle = 0;
    let mut average = after.broadcast()[DIM..].to_vec();
    for (client, weight) in (0..).map(ClientId).zip(federation().weights().iter()) {
        let (old, new) = (before.kept_by(client), after.kept_by(client));
        match members.contains(&client) {
            // Nobody's gradients are the same twice.
            true => assert!(new.is_empty() || old != new),
            false => assert_eq!(old, new),
        }
        idle += usize::from(!members.contains(&client) && new.iter().any(|kept| *kept != 0.0));
        average.iter_mut().zip(new).for_each(|(average, kept)| *average -= weight * kept);
    }
    assert!(average.iter().all(|rest| rest.abs() < 1e-13), "{average:?}");
    idle
}

/// The coefficients of the present are in their old proportion and have the old sum.
fn check_shared(cohort: &RecordedCohort, drawn: &Cohort, missing: &[ClientId]) {
    let old = drawn.members.iter().zip(&drawn.coefficients);
    let present: Vec<_> = old.filter(|(member, _)| !missing.contains(member)).collect();
    assert!(cohort.members.iter().eq(present.iter().map(|(member, _)| *member)));
    let sum = |all: &[f64]| all.iter().sum::<f64>();
    let factor = cohort.coefficients[0] / present[0].1;
    for (new, (_, old)) in cohort.coefficients.iter().zip(&present) {
        assert!((new / *old - factor).abs() < 1e-14 * factor);
    }
    assert!((sum(&cohort.coefficients) - sum(&drawn.coefficients)).abs() < 1e-14);
}

/// The first K valid updates are the cohort, with p_i N/K or p_i / π_i; also over a death of the
/// server, whose successor knows who was among the first before.
#[test]
fn first_arrivals_make_the_cohort() {
    let federation = federation();
    let size = 3;
    let (mut refusals, mut sizes) = (0, [0; 2]);
    for schedule in 0..schedules(3000) {
        let correct = schedule % 2 == 0;
        let scheme = Scheme::FirstArrivals { cohort: size, correct };
        let usual = protocol(scheme, Aggregate::Deltas);
        let protocol = if schedule % 3 < 2 { usual } else { guest(schedule, usual) };
        let attempts = (schedule / 2 % 3) as u32;
        let well = (schedule % 5 != 0).then_some(attempts);
        let bad = weather(schedule, well);
        let settings = Settings { minimum: 2, attempts };
        let mut network = Network::new(&federation, protocol, bad, Some(size), schedule);
        let mut run = Run::new(&federation, protocol);
        let mut times = [[0.0; CLIENTS]; REPETITIONS];
        for _ in 0..20 {
            let round = run.round();
            let mut live = run.server(&mut network, settings);
            let closed = live.advance(Round(round.0 + 1), false);
            if closed.is_ok() {
                run.checkpoint(&mut live);
            }
            drop(live);
            network.closed();
            for repetition in 0..REPETITIONS {
                let mut came = network.came(repetition as u64);
                assert!(came.len() <= size);
                if closed.is_err() {
                    continue;
                }
                came.sort();
                let cohort = run.cohorts.iter().rfind(|c| c.repetition == repetition as u64);
                let cohort = cohort.filter(|cohort| cohort.round == round).unwrap();
                assert_eq!(cohort.members, came);
                for (member, coefficient) in came.iter().zip(&cohort.coefficients) {
                    let place = member.0 as usize;
                    let even = size as f64 / CLIENTS as f64;
                    let chance = match correct {
                        true => (times[repetition][place] + even) / (round.0 as f64 + 1.0),
                        false => even,
                    };
                    let expected = federation.weights()[place] / chance;
                    assert!((coefficient - expected).abs() < 1e-14 * expected);
                    times[repetition][place] += 1.0;
                }
            }
            if run.round().0 == ROUNDS {
                break;
            }
        }
        if well.is_some() {
            assert_eq!(run.round(), Round(ROUNDS));
            // A deadline closes a round of which enough have come.
            for cohort in &run.cohorts {
                assert!((2..=size).contains(&cohort.members.len()));
                sizes[cohort.members.len() - 2] += 1;
            }
        }
        let mut replay = run.replay();
        replay.advance(run.round(), false).unwrap();
        assert!(run.state.same_bits(replay.state()), "schedule {schedule}");
        refusals += network.refusals.get("late").copied().unwrap_or(0);
    }
    assert!(refusals > 100, "{refusals}");
    assert!(sizes.iter().all(|count| *count > 1000), "{sizes:?}");
}
