//! Whole populations and losses: what clients do with all of their observations is what the
//! expectations of the core say, and losses are about the observations that work is about.

mod problems;

use fedback_core::base::Base;
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::protocol::{Batch, Deploy, Protocol, Scheme, StepSize};
use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_engine::work::{Order, Scratch, Task, Work};

use problems::{gaussians, numbers, plain, problems, tables};

const SIZES: [f64; 3] = [0.3, 0.2, 0.1];

fn protocol(batch: Batch, deploy: Deploy) -> Protocol {
    let usual = Protocol::p_fedavg(Scheme::Full, SIZES.len(), StepSize::Constant(0.1));
    Protocol { batch, deploy, ..usual }
}

fn streams(round: u64) -> Streams {
    Streams::new(Seed(5), 1, round, Purpose::Data)
}

fn everyone(federation: &Federation) -> Vec<ClientId> {
    (0..federation.clients() as u32).map(ClientId).collect()
}

/// The updates of all clients in the first round.
fn updates(work: &impl Work, protocol: &Protocol, theta: &[f64], sizes: &[f64]) -> Vec<f64> {
    let clients: Vec<ClientId> = (0..5).map(ClientId).collect();
    let task = Task { streams: streams(0), broadcast: theta, clients: &clients };
    let order = Order { protocol, step_sizes: sizes };
    let mut deltas = vec![0.0; clients.len() * theta.len()];
    work.work(&order, &[task], &mut deltas, &mut [], &mut Scratch::default()).unwrap();
    deltas
}

/// The losses of some clients at `theta`, where `deployed` was broadcast.
fn losses(
    work: &impl Work,
    batch: Batch,
    round: u64,
    clients: &[ClientId],
    (theta, deployed): (&[f64], &[f64]),
) -> Vec<f64> {
    let task = Task { streams: streams(round), broadcast: deployed, clients };
    let protocol = protocol(batch, Deploy::Step);
    let order = Order { protocol: &protocol, step_sizes: &SIZES };
    let mut out = vec![f64::NAN; clients.len()];
    work.losses(&order, &task, theta, &mut out, &mut Scratch::default()).unwrap();
    out
}

fn assert_close(found: &[f64], expected: &[f64], most: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < most, "{what}: {found} {expected}");
    }
}

/// A round of gradient descent along the expected gradients.
fn expected_round(
    federation: &Federation,
    client: usize,
    theta: &[f64],
    deploy: Deploy,
) -> Vec<f64> {
    let mut w = theta.to_vec();
    for size in SIZES {
        let deployed = if deploy == Deploy::Step { w.as_slice() } else { theta };
        let gradient = federation.population(client).expand(&w, deployed).gradient;
        w.iter_mut().zip(&gradient).for_each(|(w, slope)| *w -= size * slope);
    }
    w.iter().zip(theta).map(|(w, theta)| w - theta).collect()
}

/// With `batch = "all"`, local work is gradient descent on the population itself: all kinds of
/// problems, clients of one row and of many, both deployments; also spelled out over rows.
#[test]
fn all_observations_are_the_population() {
    for federation in problems() {
        let theta = numbers(3, federation.dim());
        for deploy in [Deploy::Step, Deploy::Round] {
            let protocol = protocol(Batch::All, deploy);
            let expected: Vec<f64> = (0..5)
                .flat_map(|client| expected_round(&federation, client, &theta, deploy))
                .collect();
            let what = format!("{:?} {} {deploy:?}", federation.loss(), federation.dim());
            let found = updates(&federation, &protocol, &theta, &SIZES);
            assert_close(&found, &expected, 1e-12, &what);
            if matches!(federation.base(), Base::Table(_)) {
                let found = updates(&plain(&federation), &protocol, &theta, &SIZES);
                assert_close(&found, &expected, 1e-12, &what);
            }
        }
    }
}

/// Nothing is drawn: another round brings the same losses.
#[test]
fn all_observations_are_not_drawn() {
    for federation in problems() {
        let theta = numbers(3, federation.dim());
        let clients = everyone(&federation);
        let at = |round| losses(&federation, Batch::All, round, &clients, (&theta, &theta));
        assert_eq!(at(0), at(1));
    }
}

/// Losses over everything are the risk of a decision on data that react to another.
#[test]
fn losses_over_everything_are_the_risk() {
    for federation in problems() {
        let dim = federation.dim();
        let (theta, deployed) = (numbers(3, dim), numbers(40, dim));
        let expected: Vec<f64> =
            (0..5).map(|client| federation.population(client).risk(&theta, &deployed)).collect();
        let what = format!("{:?} {dim}", federation.loss());
        let at = (theta.as_slice(), deployed.as_slice());
        let found = losses(&federation, Batch::All, 0, &everyone(&federation), at);
        assert_close(&found, &expected, 1e-12, &what);
        if matches!(federation.base(), Base::Table(_)) {
            let found = losses(&plain(&federation), Batch::All, 0, &everyone(&federation), at);
            assert_close(&found, &expected, 1e-12, &what);
        }
    }
}

/// The mean of losses over fresh batches is the risk, within 4.5 standard errors: there are some
/// hundred comparisons. A client of one row has nothing to draw.
#[test]
fn sampled_losses_are_the_risk_on_average() {
    let mut some = gaussians(2).to_vec();
    some.extend(tables(3, false, Loss::Mean));
    some.extend(tables(2, true, Loss::Squared { l2: 0.4 }));
    some.extend(tables(5, true, Loss::Logistic { l2: 0.3 }));
    for federation in &some {
        let (theta, deployed) = (numbers(3, federation.dim()), numbers(40, federation.dim()));
        let clients = everyone(federation);
        for batch in [1, 6] {
            let (mut sums, mut squares) = ([0.0; 5], [0.0; 5]);
            let rounds = 4000;
            for round in 0..rounds {
                let at = (theta.as_slice(), deployed.as_slice());
                let found = losses(federation, Batch::Sampled(batch), round, &clients, at);
                for (client, loss) in found.iter().enumerate() {
                    sums[client] += loss;
                    squares[client] += loss * loss;
                }
            }
            for client in 0..5 {
                let mean = sums[client] / rounds as f64;
                let variance = (squares[client] / rounds as f64 - mean * mean).max(0.0);
                let error = (variance / rounds as f64).sqrt() + 1e-12;
                let risk = federation.population(client).risk(&theta, &deployed);
                let what = format!("{:?} {batch} {client}", federation.loss());
                assert!((mean - risk).abs() < 4.5 * error, "{what}: {mean} {risk} ± {error}");
            }
        }
    }
}

/// A loss is about the observations of the first step: its slope is the gradient of that step, at
/// every coordinate of every client, by differences.
#[test]
fn losses_are_about_the_observations_of_the_first_step() {
    for federation in problems() {
        let (dim, clients) = (federation.dim(), everyone(&federation));
        let theta = numbers(3, dim);
        for batch in [Batch::Sampled(1), Batch::Sampled(4), Batch::Sampled(70), Batch::All] {
            let protocol = protocol(batch, Deploy::Step);
            let gradients = updates(&federation, &protocol, &theta, &[1.0]);
            for j in 0..dim {
                let moved = |by: f64| {
                    let mut at = theta.clone();
                    at[j] += by;
                    losses(&federation, batch, 0, &clients, (&at, &theta))
                };
                let (up, down) = (moved(1e-5), moved(-1e-5));
                for client in 0..5 {
                    let slope = (up[client] - down[client]) / 2e-5;
                    let gradient = -gradients[client * dim + j];
                    let what = format!("{:?} {dim} {batch}", federation.loss());
                    assert!((slope - gradient).abs() < 1e-9, "{what}: {slope} {gradient}");
                }
            }
        }
    }
}

/// Spelled out, losses are the same; the mean of several normal observations is drawn as one.
#[test]
fn plain_losses_are_those_of_the_kernels() {
    for federation in problems() {
        let clients = [ClientId(1), ClientId(4)];
        let dim = federation.dim();
        let (theta, deployed) = (numbers(3, dim), numbers(40, dim));
        let at = (theta.as_slice(), deployed.as_slice());
        let normal = matches!(federation.base(), Base::Gaussian(_));
        let batch = Batch::Sampled(if normal { 1 } else { 5 });
        let kernels = losses(&federation, batch, 2, &clients, at);
        let spelled_out = losses(&plain(&federation), batch, 2, &clients, at);
        assert_close(&kernels, &spelled_out, 1e-14, &format!("{:?} {dim}", federation.loss()));
    }
}

/// Room that served other problems, other batches, losses or work, changes nothing.
#[test]
fn scratch_remembers_nothing() {
    let mut scratch = Scratch::default();
    for (place, federation) in problems().iter().rev().enumerate() {
        let batch = [Batch::Sampled(7), Batch::All, Batch::Sampled(1)][place % 3];
        let protocol = protocol(batch, Deploy::Step);
        let (theta, clients) = (numbers(3, federation.dim()), everyone(federation));
        let task = Task { streams: streams(0), broadcast: &theta, clients: &clients };
        let order = Order { protocol: &protocol, step_sizes: &SIZES };
        let (mut used, mut deltas) = (vec![0.0; 5], vec![0.0; 5 * theta.len()]);
        federation.losses(&order, &task, &theta, &mut used, &mut scratch).unwrap();
        assert_eq!(used, losses(federation, batch, 0, &clients, (&theta, &theta)));
        federation.work(&order, &[task], &mut deltas, &mut [], &mut scratch).unwrap();
        assert_eq!(deltas, updates(federation, &protocol, &theta, &SIZES));
    }
}
