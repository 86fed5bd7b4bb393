//! The guests beside P-FedAvg: their rounds by hand, and the same bits however they are computed.
//!
//! The problem by hand has three clients with normal data in one dimension, weights 1/2, 1/4, 1/4,
//! means 1, 1, 6 and sensitivities 0, 1/2, 1: at w the gradients are w − 1, w/2 − 1 and −6. Two steps
//! of size 1/2 from θ = 4, over everything: there is noise, and it does not matter.

use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::protocol::{
    Aggregate, Batch, Deploy, LocalRule, Protocol, Round, Scheme, ServerRule, StepSize,
};
use fedback_core::response::{Sensitivity, Shift, best_response, location};
use fedback_core::state::{Repetition, State};
use fedback_core::stream::Seed;
use fedback_engine::backend::{Backend, Course};
use fedback_engine::cohort::RecordedCohort;
use fedback_engine::simulate::Simulation;

fn gaussian(dim: usize, weights: &[f64], means: &[f64], sensitivities: &[f64]) -> Federation {
    let base = Base::Gaussian(Gaussian { dim, mean: means.to_vec(), noise: 3.0 });
    let response = location(&Sensitivity::Scalar(sensitivities.to_vec()), dim, false);
    Federation::new(weights, base, response, Loss::Mean).unwrap()
}

fn three() -> Federation {
    gaussian(1, &[0.5, 0.25, 0.25], &[1.0, 1.0, 6.0], &[0.0, 0.5, 1.0])
}

fn two_steps(local: LocalRule, server: ServerRule) -> Protocol {
    let usual = Protocol::p_fedavg(Scheme::Full, 2, StepSize::Constant(0.5));
    Protocol { batch: Batch::All, local, server, ..usual }
}

fn proximal(deploy: Deploy) -> Protocol {
    Protocol { deploy, ..two_steps(LocalRule::Proximal { proximal: 1.0 }, ServerRule::Average) }
}

fn scaffold() -> Protocol {
    two_steps(LocalRule::Scaffold, ServerRule::Average)
}

/// The first and the last client make the cohort of the round that follows `round`.
fn without_the_second(round: u64) -> RecordedCohort {
    RecordedCohort {
        repetition: 0,
        round: Round(round),
        members: vec![ClientId(0), ClientId(2)],
        coefficients: vec![0.75, 0.5],
    }
}

/// Where a run from θ = 4 stands after every round. Responses as numbers and as matrices of one number
/// are different kernels: what can be computed by hand has the same bits in both.
fn rounds<const ROUNDS: usize>(
    federation: &Federation,
    protocol: Protocol,
    cohorts: &[RecordedCohort],
) -> [Repetition; ROUNDS] {
    let values =
        (0..federation.clients()).map(|i| federation.shift().unwrap().diagonal(i, 0)).collect();
    let matrices = federation.with_response(Shift::Matrix { dim: 1, values }).unwrap();
    let course = Course::new(protocol, federation.weights().clone(), Seed(3), &[4.0], 1);
    let course = Course { cohorts: cohorts.iter().cloned().collect(), ..course };
    let mut simulation = Simulation::new(federation, course.clone());
    let mut other = Simulation::new(&matrices, course);
    std::array::from_fn(|round| {
        let until = Round(round as u64 + 1);
        simulation.advance(until, false).unwrap();
        other.advance(until, false).unwrap();
        assert!(simulation.state().same_bits(other.state()), "{:?}", other.state());
        simulation.state().repetitions[0].clone()
    })
}

/// 4 → 2.5, where gradient and spring are 1.5 each; 4 → 3.5 → 3.375; 4 → 7 → 8.5 (the gradient is −6
/// and the spring 3). Deployed once a round, the second client's gradient is w − 3 and the last
/// one's w − 10: 4 → 3.5 and 4 → 7, where springs hold them.
#[test]
fn a_proximal_round_by_hand() {
    let [end] = rounds(&three(), proximal(Deploy::Step), &[]);
    assert_eq!(end.server, [4.0 + 0.5 * -1.5 + 0.25 * -0.625 + 0.25 * 4.5]);
    assert!(end.kept.is_empty());
    let [end] = rounds(&three(), proximal(Deploy::Round), &[]);
    assert_eq!(end.server, [4.0 + 0.5 * -1.5 + 0.25 * -0.5 + 0.25 * 3.0]);
}

/// The spring is no part of the objective: with weights 3/4 and 1/4, gradients are multiplied by 3/2
/// and 1/2 and springs are not. 4 → 1.75 → 2.3125 (1.125 − 2.25); 4 → 5.5 → 6.25 (−3 + 1.5).
#[test]
fn springs_are_not_scaled() {
    let federation = gaussian(1, &[0.75, 0.25], &[1.0, 6.0], &[0.0, 1.0]);
    let scheme = Scheme::WithoutReplacement { cohort: 2 };
    let protocol = Protocol { scheme, scale_objectives: true, ..proximal(Deploy::Step) };
    let [end] = rounds(&federation, protocol, &[]);
    assert_eq!(end.server, [4.0 + 0.5 * -1.6875 + 0.5 * 2.25]);
}

/// The first round is P-FedAvg's: 4 → 1.75, 3.125 and 10, and c_i is the mean gradient. In the second
/// the first client steps along g − 2.40625: 4.15625 → 3.78125 → 3.59375; the last one along
/// −6 + 5.84375. The one between is absent and keeps its c_i; c stays Σ p_i c_i, whatever the
/// coefficients of the cohort.
#[test]
fn two_scaffold_rounds_by_hand() {
    let [first, second] = rounds(&three(), scaffold(), &[without_the_second(1)]);
    assert_eq!(first.kept, [2.25, 0.875, -6.0]);
    assert_eq!(first.server, [4.15625, 0.5 * 2.25 + 0.25 * 0.875 - 0.25 * 6.0]);
    assert_eq!(second.kept, [2.96875, 0.875, -6.0]);
    let theta = 4.15625 + 0.75 * -0.5625 + 0.5 * 0.15625;
    assert_eq!(second.server, [theta, 0.5 * 2.96875 + 0.25 * 0.875 - 0.25 * 6.0]);
    assert_eq!(second.changed().collect::<Vec<_>>(), [0, 1, 2]);
}

/// Deployed once a round, the gradients of the second round are w − 1, w − 1 − θ/2 and w − 6 − θ.
#[test]
fn scaffold_deployed_once_a_round_by_hand() {
    let protocol = Protocol { deploy: Deploy::Round, ..scaffold() };
    let [first, second] = rounds(&three(), protocol, &[]);
    // 4 → 1.75; 4 → 3.5 → 3.25; 4 → 7 → 8.5.
    assert_eq!(first.kept, [2.25, 0.75, -4.5]);
    let (theta, c) = (4.0 - 0.5 * 2.25 - 0.25 * 0.75 + 0.25 * 4.5, 0.1875);
    assert_eq!(first.server, [theta, c]);
    // A step moves w by half the corrected gradient, which the next gradient has less: two of them
    // by 3/4 of the first.
    let corrected = [theta - 1.0, theta / 2.0 - 1.0, -6.0]
        .into_iter()
        .zip([2.25, 0.75, -4.5])
        .map(|(gradient, kept)| gradient - kept + c);
    let moved: Vec<f64> = corrected.map(|corrected| -0.75 * corrected).collect();
    assert_eq!(second.theta(), [theta + 0.5 * moved[0] + 0.25 * moved[1] + 0.25 * moved[2]]);
    assert_eq!(second.kept[1], 0.75 - c - moved[1]);
}

/// Scaled objectives count 1/N each, and so do their c_i: weights 3/4 and 1/4, gradients 3/2 (w − 1)
/// and 1/2 · −6.
#[test]
fn scaled_scaffold_rounds_by_hand() {
    let federation = gaussian(1, &[0.75, 0.25], &[1.0, 6.0], &[0.0, 1.0]);
    let scheme = Scheme::WithoutReplacement { cohort: 2 };
    let protocol = Protocol { scheme, scale_objectives: true, ..scaffold() };
    let [first, second] = rounds(&federation, protocol, &[]);
    // 4 → 1.75 → 1.1875; 4 → 5.5 → 7.
    assert_eq!(first.kept, [2.8125, -3.0]);
    assert_eq!(first.server, [4.09375, -0.09375]);
    // 4.09375 → 3.2265625 → 3.009765625 along g − 2.90625; 4.09375 → 4.1875 along −3 + 2.90625.
    assert_eq!(second.kept, [3.990234375, -3.0]);
    assert_eq!(second.server, [4.09375 + 0.5 * -1.083984375 + 0.5 * 0.09375, 0.4951171875]);
}

/// A client that is drawn twice counts twice in θ and once in c.
#[test]
fn c_follows_weights_not_draws() {
    let [end] = rounds(&three(), scaffold(), &[without_the_second(0)]);
    assert_eq!(end.server, [4.0 + 0.75 * -2.25 + 0.5 * 6.0, 0.5 * 2.25 - 0.25 * 6.0]);
    assert_eq!(end.kept, [2.25, 0.0, -6.0]);
    assert_eq!(end.changed().collect::<Vec<_>>(), [0, 2]);
}

/// Δ of a plain round is θ-affine: 3/4 (1 − θ)/2 + 7/16 (2 − θ)/4 + 6/4.
fn combined(theta: f64) -> f64 {
    0.5 * 0.75 * (1.0 - theta) + 0.25 * 0.4375 * (2.0 - theta) + 0.25 * 6.0
}

/// v = Δ, then Δ/2 + Δ'; θ moves by half of it.
#[test]
fn two_momentum_rounds_by_hand() {
    let momentum = ServerRule::Momentum { rate: 0.5, beta: 0.5 };
    let [first, second] = rounds(&three(), two_steps(LocalRule::Descent, momentum), &[]);
    assert_eq!(first.server, [4.078125, 0.15625]);
    let v = 0.5 * 0.15625 + combined(4.078125);
    assert_eq!(second.server, [4.078125 + 0.5 * v, v]);
    assert_eq!(second.server, [4.1763916015625, 0.196533203125]);
}

/// Models are averaged before momentum is taken: Δ = Σ coefficient · w − θ, with coefficients that
/// sum to 5/4.
#[test]
fn momentum_of_iterates_by_hand() {
    let average = two_steps(LocalRule::Descent, ServerRule::Average);
    let iterates = Protocol { aggregate: Aggregate::Iterates, ..average };
    let cohort = &[without_the_second(0)];
    let sum = 0.75 * 1.75 + 0.5 * 10.0;
    let [end] = rounds(&three(), iterates, cohort);
    assert_eq!(end.server, [sum]);
    let server = ServerRule::Momentum { rate: 0.5, beta: 0.5 };
    let [end] = rounds(&three(), Protocol { server, ..iterates }, cohort);
    assert_eq!(end.server, [4.0 + 0.5 * (sum - 4.0), sum - 4.0]);
    let [end] = rounds(&three(), Protocol { server, ..average }, cohort);
    assert_eq!(end.server, [4.0 + 0.5 * (sum - 5.0), sum - 5.0]);
}

/// τ is the first Δ, so that v stays τ² and the first step is rate · Δ/2 / 2τ.
#[test]
fn two_adam_rounds_by_hand() {
    let tau = 0.15625;
    let adam = ServerRule::Adam { rate: 0.5, beta1: 0.5, beta2: 0.75, tau };
    let [first, second] = rounds(&three(), two_steps(LocalRule::Descent, adam), &[]);
    assert_eq!(first.server, [4.125, tau / 2.0, tau * tau]);
    let delta = combined(4.125);
    let (m, v): (f64, f64) = (tau / 4.0 + delta / 2.0, 0.75 * tau * tau + 0.25 * delta * delta);
    assert_eq!(second.server[1..], [m, v]);
    let expected = 4.125 + 0.5 * m / (v.sqrt() + tau);
    assert!((second.server[0] - expected).abs() < 1e-15, "{:?}", second.server);
}

/// What a client keeps and what the server keeps live side by side: θ, c, m, v.
#[test]
fn scaffold_under_adam_by_hand() {
    let tau = 0.15625;
    let adam = ServerRule::Adam { rate: 0.5, beta1: 0.5, beta2: 0.75, tau };
    let [end] = rounds(&three(), two_steps(LocalRule::Scaffold, adam), &[]);
    assert_eq!(end.server, [4.125, -0.15625, tau / 2.0, tau * tau]);
    assert_eq!(end.kept, [2.25, 0.875, -6.0]);
}

/// A round that leaves the range of numbers leaves nothing behind: θ, c, v and c_i are what they were
/// before it, also those of clients whose own numbers were fine.
#[test]
fn a_failed_round_changes_nothing() {
    let federation = gaussian(1, &[0.5, 0.5], &[1.0, 2.0], &[0.0, 3e150]);
    let momentum = ServerRule::Momentum { rate: 1.0, beta: 0.5 };
    let protocol = two_steps(LocalRule::Scaffold, momentum);
    let [first, second, third] = rounds(&federation, protocol, &[]);
    assert_eq!((first.failed, second.failed, third.failed), (None, Some(Round(2)), Some(Round(2))));
    assert_eq!((&second.server, &second.kept), (&first.server, &first.kept));
    assert_eq!((&third.server, &third.kept), (&first.server, &first.kept));
    assert!(first.server.iter().chain(&first.kept).all(|number| number.is_finite()));
}

fn table() -> Federation {
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
    let base = Base::Table(Table::new(raw, &how, Seed(0)).unwrap());
    let response = best_response(&Sensitivity::Scalar(vec![0.5, 1.0, -0.3]), &[1], 3);
    Federation::new([0.5, 0.3, 0.2], base, response, Loss::Logistic { l2: 0.1 }).unwrap()
}

/// So many clients whose means differ.
fn many(clients: usize, dim: usize) -> Federation {
    let means: Vec<f64> = (0..clients * dim).map(|k| (k % 7) as f64).collect();
    gaussian(dim, &vec![1.0 / clients as f64; clients], &means, &vec![0.3; clients])
}

/// Where a run stands at the last of some rounds; at each of them it is taken up anew. With `watched`
/// all clients work in those rounds.
fn simulate(
    federation: &Federation,
    protocol: Protocol,
    repetitions: u64,
    threads: usize,
    (stops, watched): (&[u64], bool),
) -> State {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let (weights, start) = (federation.weights().clone(), vec![0.25; federation.dim()]);
    let mut course = Course::new(protocol, weights, Seed(9), &start, repetitions);
    for &stop in stops {
        course.state = pool.install(|| {
            let mut simulation = Simulation::new(federation, course.clone());
            simulation.advance(Round(stop), watched).unwrap();
            simulation.state().clone()
        });
    }
    course.state
}

/// One thread, three threads, stop and go on, alone or in company, watched or not: the whole state
/// has the same bits. The last two problems have one repetition of many clients, which threads
/// divide, and so many coordinates that they divide the sums as well.
#[test]
fn bits_do_not_depend_on_threads_groups_or_resumes() {
    let adam = ServerRule::Adam { rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 0.1 };
    let rules = [
        (LocalRule::Scaffold, ServerRule::Average),
        (LocalRule::Descent, adam),
        (LocalRule::Scaffold, adam),
    ];
    let problems =
        [(table(), 5, 12), (many(3, 2), 70, 12), (many(3000, 2), 1, 8), (many(256, 600), 1, 3)];
    for (federation, repetitions, last) in &problems {
        let (&last, &repetitions) = (last, repetitions);
        for scheme in [
            Scheme::Full,
            Scheme::WithReplacement { cohort: 2 * federation.clients() },
            Scheme::WithoutReplacement { cohort: 2 },
        ] {
            for (local, server) in rules {
                let step_size = StepSize::Decaying { beta: 2.0, gamma: 20.0 };
                let usual = Protocol::p_fedavg(scheme, 3, step_size);
                let protocol = Protocol { batch: Batch::Sampled(2), local, server, ..usual };
                let run = |threads, repetitions, stops: &[u64], watched| {
                    simulate(federation, protocol, repetitions, threads, (stops, watched))
                };
                let one = run(1, repetitions, &[last], false);
                assert!(one.failed().is_empty());
                assert!(one.same_bits(&run(3, repetitions, &[last], false)), "{protocol:?}");
                assert!(one.same_bits(&run(2, repetitions, &[1, last - 1, last], true)));
                let mut few = run(2, repetitions.div_ceil(9), &[last], true);
                let alone = few.repetitions.len();
                few.repetitions.extend_from_slice(&one.repetitions[alone..]);
                assert!(one.same_bits(&few), "{protocol:?}");
            }
        }
    }
}
