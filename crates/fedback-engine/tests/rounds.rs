//! Rounds by hand, and the same bits however they are computed.

use std::sync::Arc;

use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::normal::ziggurat;
use fedback_core::protocol::{Aggregate, Batch, Deploy, Protocol, Round, Scheme, StepSize};
use fedback_core::response::{Sensitivity, Shift, best_response, location};
use fedback_core::state::{Repetition, State};
use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_engine::backend::{Backend, Course};
use fedback_engine::cohort::{Cohort, CohortSampler};
use fedback_engine::fold::{Done, Folding, fold};
use fedback_engine::server::{Refusal, RoundError, Server, Update};
use fedback_engine::simulate::Simulation;
use fedback_engine::work::{Order, Scratch, Task, Work, step_sizes};

fn gaussian(dim: usize, response: Shift) -> Federation {
    noisy(0.7, dim, response)
}

fn noisy(noise: f64, dim: usize, response: Shift) -> Federation {
    let mean = (0..3 * dim).map(|k| 1.0 + k as f64).collect();
    let base = Base::Gaussian(Gaussian { dim, mean, noise });
    Federation::new([0.5, 0.3, 0.2], base, response, Loss::Mean).unwrap()
}

fn table(loss: Loss) -> Federation {
    let raw = RawTable {
        features: vec!["a".into(), "b".into()],
        values: (0..120).map(|k| ((k * 37 % 23) as f64 - 11.0) / 8.0).collect(),
        labels: (0..60).map(|k| (k * 7 % 5 < 2) as u8 as f64).collect(),
        clients: None,
    };
    let how = Preparation {
        shuffle: false,
        standardize: false,
        intercept: true,
        partition: Partition::Equal(3),
        by_class: true,
    };
    Federation::new(
        vec![0.5, 0.3, 0.2],
        Base::Table(Table::new(raw, &how, Seed(0)).unwrap()),
        best_response(&Sensitivity::Scalar(vec![0.5, 1.0, -0.3]), &[1], 3),
        loss,
    )
    .unwrap()
}

fn protocol(scheme: Scheme) -> Protocol {
    let usual = Protocol::p_fedavg(scheme, 3, StepSize::Decaying { beta: 2.0, gamma: 10.0 });
    Protocol { batch: Batch::Sampled(2), ..usual }
}

fn update(
    federation: &Federation,
    protocol: &Protocol,
    round: Round,
    client: u32,
    theta: &[f64],
) -> Vec<f64> {
    update_in(&mut Scratch::default(), federation, protocol, round, client, theta)
}

fn update_in(
    scratch: &mut Scratch,
    federation: &Federation,
    protocol: &Protocol,
    round: Round,
    client: u32,
    theta: &[f64],
) -> Vec<f64> {
    let mut sizes = Vec::new();
    step_sizes(protocol, round, &mut sizes);
    let order = Order { protocol, step_sizes: &sizes };
    let streams = Streams::new(Seed(9), 4, round.0, Purpose::Data);
    let task = Task { streams, broadcast: theta, clients: &[ClientId(client)] };
    let mut delta = vec![0.0; theta.len()];
    federation.work(&order, &[task], &mut delta, &mut [], scratch).unwrap();
    delta
}

/// Room that served another problem, with more coordinates in its last block, changes nothing.
#[test]
fn scratch_remembers_nothing() {
    let mixed = gaussian(4, Shift::Matrix { dim: 4, values: vec![0.1; 48] });
    let protocol = protocol(Scheme::Full);
    for loss in [Loss::Squared { l2: 0.1 }, Loss::Logistic { l2: 0.2 }] {
        let (federation, theta) = (table(loss), [0.3, -0.2, 0.5]);
        let mut scratch = Scratch::default();
        update_in(&mut scratch, &mixed, &protocol, Round(0), 0, &[1.0, 2.0, 3.0, 4.0]);
        let used = update_in(&mut scratch, &federation, &protocol, Round(1), 2, &theta);
        assert_eq!(used, update(&federation, &protocol, Round(1), 2, &theta));
    }
}

/// Without noise a local round is plain arithmetic: mean 2, ε = 0.5, θ = 4, steps 0.5 and 0.25.
#[test]
fn a_round_by_hand() {
    let federation = noisy(0.0, 1, location(&Sensitivity::Scalar(vec![0.5; 3]), 1, false));
    let mut protocol = protocol(Scheme::Full);
    protocol.local_steps = 2;
    protocol.step_size = StepSize::Decaying { beta: 1.0, gamma: 2.0 };
    // Step: 4 -> 4 - (4 - 2 - 2)/2 = 4; stays, since 4 is the client's own stable point.
    assert_eq!(update(&federation, &protocol, Round(0), 1, &[4.0]), [0.0]);
    // Client 0 has mean 1: 4 -> 4 - 0.5 (4 - 3) = 3.5 -> 3.5 - (3.5 - 2.75)/3 = 3.25.
    let delta = update(&federation, &protocol, Round(0), 0, &[4.0]);
    assert!((delta[0] + 0.75).abs() < 1e-15, "{delta:?}");
    // Deployed once a round: 4 -> 3.5 -> 3.5 - (3.5 - 3)/3.
    protocol.deploy = Deploy::Round;
    let delta = update(&federation, &protocol, Round(0), 0, &[4.0]);
    assert!((delta[0] + 0.5 + 0.5 / 3.0).abs() < 1e-15, "{delta:?}");
    // The second round goes on with t = 2: steps 1/4 and 1/5. Scaled by N p = 1.5.
    protocol.scale_objectives = true;
    let delta = update(&federation, &protocol, Round(1), 0, &[4.0]);
    let first = 4.0 - 1.5 / 4.0;
    assert!((delta[0] - (first - 1.5 / 5.0 * (first - 3.0) - 4.0)).abs() < 1e-15, "{delta:?}");
}

/// A matrix that happens to be diagonal uses the other kernel and the same draws.
#[test]
fn kernels_agree() {
    let rows = vec![vec![0.5, -0.2], vec![0.1, 0.3], vec![1.1, 0.0]];
    let matrices = rows.iter().map(|r| vec![vec![r[0], 0.0], vec![0.0, r[1]]]).collect::<Vec<_>>();
    let diagonal = gaussian(2, location(&Sensitivity::PerCoordinate(rows), 2, false));
    let matrix = gaussian(2, location(&Sensitivity::Matrix(matrices), 2, false));
    for client in 0..3 {
        let protocol = protocol(Scheme::Full);
        let a = update(&diagonal, &protocol, Round(2), client, &[3.0, -1.0]);
        let b = update(&matrix, &protocol, Round(2), client, &[3.0, -1.0]);
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-14), "{a:?} {b:?}");
    }
}

/// The draws of a Gaussian step are where the stream's documentation says.
#[test]
fn draws_follow_the_stream() {
    let federation = gaussian(1, Shift::None);
    let mut protocol = protocol(Scheme::Full);
    protocol.step_size = StepSize::Constant(1.0);
    let stream = Streams::new(Seed(9), 4, 7, Purpose::Data).client(2);
    // A step of size one forgets θ: what is left is the mean of the last batch.
    let expected = 3.0 + 0.7 / 2f64.sqrt() * stream.normal(ziggurat(), 2);
    let delta = update(&federation, &protocol, Round(7), 2, &[0.0]);
    assert!((delta[0] - expected).abs() < 1e-15);
}

/// The gradient of a table batch against finite differences of the loss on the very same rows.
#[test]
fn table_gradients_match_differences() {
    for (loss, l2) in [(Loss::Logistic { l2: 0.3 }, 0.3), (Loss::Squared { l2: 0.1 }, 0.1)] {
        let federation = table(loss);
        let Base::Table(rows) = federation.base() else { unreachable!() };
        let mut protocol = protocol(Scheme::Full);
        protocol.local_steps = 1;
        protocol.batch = Batch::Sampled(4);
        protocol.step_size = StepSize::Constant(1.0);
        let theta = [0.4, -0.9, 0.2];
        let delta = update(&federation, &protocol, Round(5), 1, &theta);
        let stream = Streams::new(Seed(9), 4, 5, Purpose::Data).client(1);
        let (x, y) = rows.block(1);
        let value = |t: &[f64]| -> f64 {
            let penalty = 0.5 * l2 * (t[0] * t[0] + t[1] * t[1]);
            let sum: f64 = (0..4)
                .map(|k| {
                    let row = stream.index(k, y.len());
                    // Feature b reacts: b − ε θ_b with ε = 1, at the deployed θ.
                    let moved = [x[row * 3], x[row * 3 + 1] - theta[1], x[row * 3 + 2]];
                    let margin: f64 = moved.iter().zip(t).map(|(x, t)| x * t).sum();
                    match loss {
                        Loss::Logistic { .. } => margin.exp().ln_1p() - y[row] * margin,
                        _ => 0.5 * (y[row] - margin).powi(2),
                    }
                })
                .sum();
            sum / 4.0 + penalty
        };
        for j in 0..3 {
            let (mut up, mut down) = (theta, theta);
            up[j] += 1e-6;
            down[j] -= 1e-6;
            let slope = (value(&up) - value(&down)) / 2e-6;
            assert!((slope + delta[j]).abs() < 1e-8, "{loss:?} {j}: {slope} {delta:?}");
        }
    }
}

fn simulate(
    federation: &Federation,
    protocol: Protocol,
    repetitions: usize,
    threads: usize,
    stops: &[u64],
) -> Vec<u64> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let (weights, start) = (federation.weights().clone(), vec![0.25; federation.dim()]);
        let mut course = Course::new(protocol, weights, Seed(9), &start, repetitions as u64);
        for &stop in stops {
            // A new simulation from the last state, as after a resume.
            let mut simulation = Simulation::new(federation, course.clone());
            simulation.advance(Round(stop), true).unwrap();
            course.state = simulation.state().clone();
        }
        let consensus = course.state.repetitions.iter().map(|r| r.consensus.unwrap());
        course.state.servers().chain(consensus).map(f64::to_bits).collect()
    })
}

#[test]
fn bits_do_not_depend_on_threads_or_resumes() {
    let wide = Federation::new(
        vec![1.0 / 3000.0; 3000],
        Base::Gaussian(Gaussian { dim: 2, mean: vec![1.0; 6000], noise: 1.0 }),
        location(&Sensitivity::Scalar(vec![0.3; 3000]), 2, false),
        Loss::Mean,
    )
    .unwrap();
    for scheme in [
        Scheme::Full,
        Scheme::WithReplacement { cohort: 2 },
        Scheme::WithoutReplacement { cohort: 2 },
    ] {
        for (federation, repetitions) in
            [(&table(Loss::Logistic { l2: 0.1 }), 5), (&gaussian(2, Shift::None), 70), (&wide, 1)]
        {
            let protocol = protocol(scheme);
            let one = simulate(federation, protocol, repetitions, 1, &[12]);
            assert_eq!(one, simulate(federation, protocol, repetitions, 3, &[12]));
            assert_eq!(one, simulate(federation, protocol, repetitions, 2, &[1, 5, 12]));
        }
    }
}

/// The state machine, fed update by update in any order, ends where the simulation does.
#[test]
fn server_and_simulation_agree() {
    let federation = table(Loss::Logistic { l2: 0.1 });
    for scheme in [Scheme::Full, Scheme::WithReplacement { cohort: 4 }] {
        let protocol = protocol(scheme);
        let course = Course::new(protocol, federation.weights().clone(), Seed(9), &[0.0; 3], 5);
        let mut server = Server::new(protocol, course.sampler.clone(), Seed(9));
        let mut repetition = course.state.repetitions[4].clone();
        for round in (0..4).map(Round) {
            let mut members = server.open(&repetition, round, false).unwrap().to_vec();
            members.reverse();
            for member in members {
                let delta = update(&federation, &protocol, round, member.0, repetition.theta());
                let update = Update { delta, kept: vec![] };
                server.accept(&repetition, round, member, update).unwrap();
            }
            assert_eq!(server.close(&mut repetition, 1), Ok(None));
        }
        let mut simulation = Simulation::new(&federation, course);
        simulation.advance(Round(4), false).unwrap();
        assert_eq!(simulation.state().repetitions[4].theta(), repetition.theta());
    }
}

#[test]
fn server_refuses_what_is_wrong() {
    let protocol = protocol(Scheme::Full);
    let sampler = Arc::new(CohortSampler::new(&protocol, [0.5, 0.5].into()));
    let mut server = Server::new(protocol, sampler, Seed(1));
    let mut repetition = State::beginning(&protocol, None, 2, &[1.0, 2.0], 1).repetitions.remove(0);
    let (zero, one) = (ClientId(0), ClientId(1));
    let open = |server: &mut Server, at: &Repetition| server.open(at, Round(3), false).map(drop);
    let accept = |server: &mut Server, at: &Repetition, round, client, delta: &[f64]| {
        server.accept(at, Round(round), client, Update { delta: delta.to_vec(), kept: vec![] })
    };
    let at = &repetition.clone();
    assert_eq!(accept(&mut server, at, 3, zero, &[0.0; 2]), Err(Refusal::NoRoundOpen));
    assert_eq!(server.close(&mut repetition, 1), Err(RoundError::NoRoundOpen));
    open(&mut server, at).unwrap();
    assert_eq!(open(&mut server, at), Err(RoundError::StillOpen(3)));
    let stale = Refusal::OtherRound { found: 2, open: 3 };
    assert_eq!(accept(&mut server, at, 2, zero, &[0.0; 2]), Err(stale));
    assert_eq!(accept(&mut server, at, 3, ClientId(2), &[0.0; 2]), Err(Refusal::NotAsked(2)));
    let length = Refusal::WrongLength { found: 1, expected: 2 };
    assert_eq!(accept(&mut server, at, 3, zero, &[0.0]), Err(length));
    assert_eq!(accept(&mut server, at, 3, zero, &[0.0, f64::NAN]), Err(Refusal::NotFinite(1)));
    accept(&mut server, at, 3, zero, &[1.0, 0.0]).unwrap();
    assert_eq!(accept(&mut server, at, 3, zero, &[1.0, 0.0]), Err(Refusal::Duplicate(0)));
    let missing = RoundError::Missing { missing: vec![one], present: 1 };
    assert_eq!(server.close(&mut repetition, 2), Err(missing));
    let long = accept(&mut server, at, 3, one, &[0.0, -3.3e100]);
    let longest = 1e100 * (1.0 + 5.0_f64.sqrt());
    assert_eq!(long, Err(Refusal::TooLong { length: 3.3e100, longest }));
    accept(&mut server, at, 3, one, &[0.0, -4.0]).unwrap();
    server.abandon();
    open(&mut server, at).unwrap();
    accept(&mut server, at, 3, zero, &[1.0, 0.0]).unwrap();
    accept(&mut server, at, 3, one, &[0.0, -4.0]).unwrap();
    assert_eq!(repetition, *at, "nothing has changed before the round is closed");
    assert_eq!(server.close(&mut repetition, 2), Ok(None));
    assert_eq!(accept(&mut server, at, 3, one, &[0.0, -4.0]), Err(Refusal::NoRoundOpen));
    assert_eq!(repetition.theta(), [1.5, 0.0]);
}

#[test]
fn iterates_rescale_theta_where_coefficients_do_not_sum_to_one() {
    let mut cohort = Cohort::default();
    cohort.members = vec![ClientId(0), ClientId(2)];
    cohort.coefficients = vec![0.75, 0.75];
    let folded = |aggregate| {
        let protocol = Protocol { aggregate, ..protocol(Scheme::Full) };
        let mut at = State::beginning(&protocol, None, 3, &[10.0], 1).repetitions.remove(0);
        let done = Done { cohort: &cohort, deltas: &[1.0, 3.0], kept: &[] };
        fold(&protocol, &[0.5, 0.3, 0.2], Round(0), &mut at, done, &mut Folding::default());
        at.theta()[0]
    };
    assert_eq!((folded(Aggregate::Iterates), folded(Aggregate::Deltas)), (18.0, 13.0));
}

#[test]
fn a_failed_repetition_stops_alone() {
    let federation = noisy(0.0, 1, Shift::None);
    let mut protocol = protocol(Scheme::Full);
    protocol.step_size = StepSize::Constant(3.0);
    let mut course = Course::new(protocol, federation.weights().clone(), Seed(1), &[1.0], 3);
    // Only a repetition started away from every client's mean can blow up: here all do, and the
    // last one is told to have failed before.
    course.state.repetitions[1].server = vec![1e300];
    course.state.repetitions[2].server = vec![5.0];
    course.state.repetitions[2].failed = Some(Round(1));
    let mut simulation = Simulation::new(&federation, course);
    simulation.advance(Round(20), true).unwrap();
    let repetitions = &simulation.state().repetitions;
    let ends: Vec<_> = repetitions.iter().map(|r| r.failed).collect();
    assert_eq!((ends[0], ends[2]), (None, Some(Round(1))));
    assert!(ends[1].is_some_and(|round| round.0 > 1));
    assert!(repetitions.iter().all(|r| r.theta()[0].is_finite()));
    assert_eq!(repetitions[2].theta(), [5.0]);
}
