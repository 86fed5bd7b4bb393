//! A live run on a network that has bad days, thousands of them.

mod network;

use fedback_core::federation::{ClientId, Federation};
use fedback_core::protocol::{Aggregate, Deploy, Protocol, Round, Scheme, StepSize};
use fedback_engine::backend::{Backend, BackendError};
use fedback_engine::cohort::{Cohort, CohortSampler, RecordedCohort, RecordedCohorts};
use fedback_engine::live::{Arrival, Live, LiveOrder, Sender, Settings, Transport, TransportError};
use fedback_engine::repetition::Standing;
use fedback_engine::server::Refusal;
use fedback_engine::simulate::Simulation;

use network::{CLIENTS, DIM, Network, REPETITIONS, SEED, Weather, draws, federation};

const ROUNDS: u64 = 4;
const START: [f64; DIM * REPETITIONS] = [0.25; DIM * REPETITIONS];

fn protocol(scheme: Scheme, aggregate: Aggregate) -> Protocol {
    Protocol {
        scheme,
        local_steps: 3,
        batch: 2,
        step_size: StepSize::Decaying { beta: 2.0, gamma: 10.0 },
        deploy: Deploy::Step,
        aggregate,
        scale_objectives: false,
    }
}

fn any_protocol(schedule: u64) -> Protocol {
    let scheme = match schedule % 3 {
        0 => Scheme::Full,
        1 => Scheme::WithReplacement { cohort: 4 },
        _ => Scheme::WithoutReplacement { cohort: 3 },
    };
    let aggregate =
        if schedule.is_multiple_of(7) { Aggregate::Iterates } else { Aggregate::Deltas };
    protocol(scheme, aggregate)
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
        well_from,
    }
}

/// What a run leaves of a repetition.
#[derive(Debug, PartialEq)]
struct Left {
    theta: Vec<u64>,
    consensus: Option<u64>,
}

fn left(backend: &impl Backend) -> Vec<Left> {
    let of = |r: &fedback_engine::repetition::Repetition| Left {
        theta: r.theta.iter().map(|t| t.to_bits()).collect(),
        consensus: r.consensus.map(f64::to_bits),
    };
    backend.repetitions().map(of).collect()
}

/// Whether a round that follows `round` is watched: the second and the last.
fn watched(round: Round) -> bool {
    round.0 % 2 == 1
}

/// A server that lives for one round, from where the last one was left, and its books.
struct Run {
    round: Round,
    thetas: Vec<f64>,
    cohorts: Vec<RecordedCohort>,
}

impl Run {
    fn new() -> Self {
        Run { round: Round(0), thetas: START.to_vec(), cohorts: Vec::new() }
    }

    /// A server that goes on from the last checkpoint.
    fn server<T: Transport>(
        &self,
        transport: T,
        federation: &Federation,
        protocol: Protocol,
        settings: Settings,
    ) -> Live<T> {
        let standing = Standing { round: self.round, thetas: &self.thetas, failed: &[] };
        let problem = (federation.weights.clone(), DIM);
        let recorded: RecordedCohorts = self.cohorts.iter().cloned().collect();
        Live::new(transport, protocol, problem, SEED, standing, settings).remembering(&recorded)
    }

    fn checkpoint(&mut self, live: &mut Live<impl Transport>) {
        self.round = live.round();
        self.thetas = live.repetitions().flat_map(|r| r.theta.clone()).collect();
        assert!(self.thetas.iter().all(|t| t.is_finite()));
        self.cohorts.extend(live.take_cohorts());
    }

    fn replay<'a>(
        &self,
        federation: &'a Federation,
        protocol: Protocol,
    ) -> Simulation<'a, Federation> {
        let weights = federation.weights.clone();
        Simulation::new(federation, protocol, weights, SEED, Round(0), &START, &[])
            .replaying(self.cohorts.iter().cloned().collect())
    }
}

/// Where every member answers rightly in the end, nothing that happened before can be seen in θ, not
/// even that the server died in the middle of rounds.
#[test]
fn answers_in_the_end_give_the_bits_of_the_simulation() {
    let federation = federation();
    let mut refusals = std::collections::BTreeMap::new();
    for schedule in 0..5000 {
        let protocol = any_protocol(schedule);
        let attempts = (schedule % 4) as u32;
        let settings = Settings { minimum: 1, attempts };
        let bad = weather(schedule, Some(attempts));
        let mut network = Network::new(&federation, protocol, bad, None, schedule);
        let mut run = Run::new();
        let weights = federation.weights.clone();
        let mut simulation =
            Simulation::new(&federation, protocol, weights, SEED, Round(0), &START, &[]);
        while run.round.0 < ROUNDS {
            let dies = network.draws.uniform() < 0.3;
            let patience = dies.then(|| network.draws.index(12));
            let mut mortal = Mortal { network: &mut network, left: patience };
            let mut live = run.server(&mut mortal, &federation, protocol, settings);
            let until = Round(run.round.0 + 1);
            match live.advance(until, watched(run.round)) {
                Ok(()) => {
                    simulation.advance(until, watched(run.round)).unwrap();
                    // A new server does not know the consensus of a round that it did not close.
                    let same = left(&live).into_iter().zip(left(&simulation));
                    for (mut live, simulation) in same {
                        if !watched(run.round) {
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
    // Every reason was given, and often.
    let reasons: Vec<&str> = refusals.keys().copied().collect();
    let expected = [
        "duplicate",
        "not asked",
        "not finite",
        "other round",
        "too large",
        "unknown repetition",
        "wrong length",
    ];
    assert_eq!(reasons, expected);
    assert!(refusals.values().all(|&count| count > 100), "{refusals:?}");
}

/// A network under a server that dies after so many arrivals.
struct Mortal<'n, 'f> {
    network: &'n mut Network<'f>,
    left: Option<usize>,
}

impl Transport for Mortal<'_, '_> {
    fn ask(&mut self, order: &LiveOrder<'_>) -> Result<(), TransportError> {
        self.network.ask(order)
    }

    fn next(&mut self) -> Result<Arrival, TransportError> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).ok_or(TransportError::Interrupted)?;
        }
        self.network.next()
    }

    fn refused(&mut self, sender: Sender, reason: &Refusal) {
        self.network.refused(sender, reason);
    }
}

/// With absences: a round is closed exactly where its cohort is complete or enough have answered,
/// the recorded cohort is who answered, and a replay of it comes to the same bits.
#[test]
fn absences_are_recorded_and_replayed() {
    let federation = federation();
    let (mut short, mut stopped) = (0, 0);
    for schedule in 0..5000 {
        let protocol = any_protocol(schedule);
        let settings = Settings {
            minimum: 1 + schedule as usize / 3 % 3,
            attempts: (schedule / 9 % 3) as u32,
        };
        let mut network =
            Network::new(&federation, protocol, weather(schedule, None), None, schedule);
        let sampler = CohortSampler::new(&protocol, federation.weights.clone());
        let mut run = Run::new();
        let mut ends = Vec::new();
        let mut tries = 0;
        while run.round.0 < ROUNDS && tries < 30 {
            tries += 1;
            let round = run.round;
            let mut live = run.server(&mut network, &federation, protocol, settings);
            let closed = live.advance(Round(round.0 + 1), watched(round));
            if closed.is_ok() {
                run.checkpoint(&mut live);
                ends = left(&live);
            } else {
                assert_eq!(left(&live).len(), REPETITIONS);
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
                    let seen = ends[repetition as usize].consensus.is_some();
                    assert_eq!(watched(round) && came.len() < CLIENTS, !seen);
                }
            }
            match (closed, lacking) {
                (Ok(()), None) => {}
                (Err(BackendError::TooFew { repetition, present, missing, minimum }), lacking) => {
                    stopped += 1;
                    let missing = missing.into_iter().map(|(client, _)| client).collect();
                    assert_eq!(lacking, Some((repetition, present, missing)));
                    assert_eq!(minimum, settings.minimum);
                }
                other => panic!("schedule {schedule}: {other:?}"),
            }
        }
        let mut replay = run.replay(&federation, protocol);
        replay.advance(run.round, false).unwrap();
        let theta = |all: Vec<Left>| all.into_iter().map(|left| left.theta).collect::<Vec<_>>();
        if run.round.0 > 0 {
            assert_eq!(theta(ends), theta(left(&replay)), "schedule {schedule}");
        }
    }
    assert!(short > 1000 && stopped > 1000, "{short} {stopped}");
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
    for schedule in 0..2000 {
        let correct = schedule % 2 == 0;
        let scheme = Scheme::FirstArrivals { cohort: size, correct };
        let protocol = protocol(scheme, Aggregate::Deltas);
        let attempts = (schedule / 2 % 3) as u32;
        let well = (schedule % 5 != 0).then_some(attempts);
        let bad = weather(schedule, well);
        let settings = Settings { minimum: 2, attempts };
        let mut network = Network::new(&federation, protocol, bad, Some(size), schedule);
        let mut run = Run::new();
        let mut times = [[0.0; CLIENTS]; REPETITIONS];
        for _ in 0..20 {
            let round = run.round;
            let mut live = run.server(&mut network, &federation, protocol, settings);
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
                    let expected = federation.weights[place] / chance;
                    assert!((coefficient - expected).abs() < 1e-14 * expected);
                    times[repetition][place] += 1.0;
                }
            }
            if run.round.0 == ROUNDS {
                break;
            }
        }
        if well.is_some() {
            assert_eq!(run.round, Round(ROUNDS));
            // A deadline closes a round of which enough have come.
            for cohort in &run.cohorts {
                assert!((2..=size).contains(&cohort.members.len()));
                sizes[cohort.members.len() - 2] += 1;
            }
        }
        let mut replay = run.replay(&federation, protocol);
        replay.advance(run.round, false).unwrap();
        let thetas: Vec<f64> = replay.repetitions().flat_map(|r| r.theta.clone()).collect();
        assert_eq!(run.thetas, thetas);
        refusals += network.refusals.get("late").copied().unwrap_or(0);
    }
    assert!(refusals > 100, "{refusals}");
    assert!(sizes.iter().all(|count| *count > 1000), "{sizes:?}");
}
