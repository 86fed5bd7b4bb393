//! Rows that react one by one: samplers draw what expectations say, under every deployment, and the same bits
//! however the work is divided.

use std::sync::Arc;

use fedback_core::base::{Base, Marks, Partition, Preparation, RawTable, Table};
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::protocol::{Batch, Deploy, Protocol, Scheme, StepSize};
use fedback_core::response::{
    Bounded, By, Law, Outcome, Own, OwnResponse, Response, Retention, Row, Sensitivity, Shift,
    Strategic, Turnout, Wants, best_response,
};
use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_engine::work::{Order, Scratch, Task, Work};

const CLIENTS: usize = 2;

fn base(binary: bool) -> Base {
    let value = |k: usize, j: usize| ((k * (7 + 4 * j) + 3 * j) % 17) as f64 / 6.0 - 1.3;
    let raw = RawTable {
        features: ["a", "b", "c"].map(String::from).to_vec(),
        values: (0..31).flat_map(|k| (0..3).map(move |j| value(k, j))).collect(),
        labels: (0..31)
            .map(|k| if binary { (k % 3 == 0) as u8 as f64 } else { value(k, 5) })
            .collect(),
        clients: None,
    };
    let how = Preparation {
        shuffle: false,
        standardize: false,
        intercept: true,
        partition: Partition::Equal(CLIENTS),
        by_class: false,
    };
    let cells = Some((0..31).map(|k| ["x", "y", "z"][k * k % 3].to_string()).collect());
    let marks = Marks { cells, ..Marks::default() };
    Base::Table(Table::split(raw, marks, &how, Seed(1)).unwrap().training)
}

fn retention(by: By, law: Law, floor: f64) -> Response {
    let rate = vec![1.4, 2.2];
    Response::Retention(Retention { by, law, rate, floor, renewal: 1.0, turnout: Turnout::Fixed })
}

/// Rows that move, change their minds and leave, all by what they think of their score.
#[derive(Debug)]
struct Fear;

impl Fear {
    fn told(row: &Row<'_>, deployed: &[f64]) -> f64 {
        1.0 / (1.0 + (-row.score(deployed)).exp())
    }
}

impl OwnResponse for Fear {
    fn features(&self, row: &Row<'_>, deployed: &[f64], out: &mut [f64]) {
        out.copy_from_slice(row.x);
        out[1] -= 0.8 * Fear::told(row, deployed);
    }

    fn label(&self, row: &Row<'_>, deployed: &[f64]) -> f64 {
        0.7 * row.label + 0.3 * Fear::told(row, deployed)
    }

    fn stays(&self, row: &Row<'_>, deployed: &[f64]) -> f64 {
        1.0 - 0.9 * Fear::told(row, deployed)
    }

    fn leaves(&self) -> bool {
        true
    }
}

fn problems() -> Vec<(String, Federation)> {
    let strategic = |smoothing| {
        let (features, wants) = (vec![0, 2], Wants::Positive);
        Response::Strategic(Strategic {
            features,
            wants,
            threshold: 0.2,
            budget: 0.6,
            share: 0.8,
            smoothing,
        })
    };
    let bounded = Response::Bounded(Bounded {
        shift: best_response(&Sensitivity::Scalar(vec![0.9, 1.4]), &[0, 1], 4),
        reference: vec![0.0; 4],
        low: vec![-1.3, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY],
        high: vec![1.5, 1.4, f64::INFINITY, f64::INFINITY],
    });
    let outcome = Response::Outcome(Outcome { strength: vec![0.7, -0.5] });
    let logistic = Law::Logistic { tolerance: 0.7 };
    let mut responses = vec![
        ("bounded".to_string(), bounded),
        ("strategic".into(), strategic(0.0)),
        ("smooth".into(), strategic(0.2)),
        ("outcome".into(), outcome),
        ("own".into(), Response::Own(Own::new("fear", Fear))),
    ];
    for by in [By::Label, By::Column, By::Row] {
        responses.push((format!("{by:?}"), retention(by, Law::Exponential, 0.0)));
        responses.push((format!("{by:?}, logistic"), retention(by, logistic, 0.1)));
    }
    let mut all = Vec::new();
    for (binary, loss) in [(true, Loss::Logistic { l2: 0.1 }), (false, Loss::Squared { l2: 0.2 })] {
        for (name, response) in &responses {
            let weights = vec![0.5; CLIENTS];
            let made = Federation::new(weights, base(binary), response.clone(), loss).unwrap();
            all.push((format!("{name}, {loss:?}"), made));
        }
    }
    all
}

fn protocol(deploy: Deploy, batch: Batch, local_steps: usize) -> Protocol {
    let usual = Protocol::p_fedavg(Scheme::Full, local_steps, StepSize::Constant(1.0));
    Protocol { deploy, batch, ..usual }
}

/// The update of one client in a round that begins at θ.
fn update(
    federation: &Federation,
    protocol: &Protocol,
    sizes: &[f64],
    (repetition, client): (u64, u32),
    theta: &[f64],
) -> Vec<f64> {
    let order = Order { protocol, step_sizes: sizes };
    let streams = Streams::new(Seed(5), repetition, 0, Purpose::Data);
    let clients = [ClientId(client)];
    let task = Task { streams, broadcast: theta, clients: &clients };
    let mut delta = vec![0.0; theta.len()];
    federation.work(&order, &[task], &mut delta, &mut [], &mut Scratch::default()).unwrap();
    delta
}

/// E of one step of size 1 from φ is −∇f_i(φ; φ), within four standard errors of every coordinate.
#[test]
fn batches_have_the_mean_that_expectations_say() {
    let at = [0.9, -0.4, 0.7, 0.2];
    let protocol = protocol(Deploy::Step, Batch::Sampled(4), 1);
    for (name, federation) in problems() {
        for client in 0..CLIENTS as u32 {
            let mut expected = vec![0.0; 4];
            federation.population(client as usize).gradient(&at, &at, &mut expected);
            let (mut sum, mut square, count) = ([0.0; 4], [0.0; 4], 6000);
            for repetition in 0..count {
                let delta = update(&federation, &protocol, &[1.0], (repetition, client), &at);
                for j in 0..4 {
                    sum[j] += delta[j];
                    square[j] += delta[j] * delta[j];
                }
            }
            for j in 0..4 {
                let mean = sum[j] / count as f64;
                let deviation = (square[j] / count as f64 - mean * mean).sqrt();
                let error = deviation / (count as f64).sqrt();
                let away = (mean + expected[j]).abs();
                assert!(away < 4.0 * error + 1e-12, "{name} {client} {j}: {away} {error}");
            }
        }
    }
}

/// A whole population as a batch has no noise; deployed once a round, later steps still look at φ.
#[test]
fn whole_populations_are_their_expectations() {
    let start = [0.3, 0.8, -0.5, 0.1];
    for (name, federation) in problems() {
        for deploy in [Deploy::Step, Deploy::Round] {
            let protocol = protocol(deploy, Batch::All, 2);
            let delta = update(&federation, &protocol, &[0.3, 0.2], (0, 1), &start);
            let (mut w, mut gradient) = (start.to_vec(), vec![0.0; 4]);
            for size in [0.3, 0.2] {
                let deployed = if deploy == Deploy::Step { w.clone() } else { start.to_vec() };
                federation.population(1).gradient(&w, &deployed, &mut gradient);
                w.iter_mut().zip(&gradient).for_each(|(w, g)| *w -= size * g);
            }
            for j in 0..4 {
                assert!((start[j] + delta[j] - w[j]).abs() < 1e-14, "{name} {deploy:?}");
            }
        }
    }
}

/// Losses of fresh batches average to the risk.
#[test]
fn losses_are_those_of_the_reaction() {
    let (at, deployed) = ([0.2, 0.5, -0.3, 0.4], [0.9, -0.4, 0.7, 0.2]);
    let protocol = protocol(Deploy::Round, Batch::Sampled(8), 1);
    let order = Order { protocol: &protocol, step_sizes: &[] };
    for (name, federation) in problems() {
        let clients = [ClientId(0)];
        let (mut sum, mut square, count) = (0.0, 0.0, 4000);
        for repetition in 0..count {
            let streams = Streams::new(Seed(8), repetition, 0, Purpose::Data);
            let task = Task { streams, broadcast: &deployed, clients: &clients };
            let mut out = [0.0];
            federation.losses(&order, &task, &at, &mut out, &mut Scratch::default()).unwrap();
            sum += out[0];
            square += out[0] * out[0];
        }
        let mean: f64 = sum / count as f64;
        let error = ((square / count as f64 - mean * mean) / count as f64).sqrt();
        let expected = federation.population(0).risk(&at, &deployed);
        assert!((mean - expected).abs() < 4.5 * error, "{name}: {mean} {expected} {error}");
    }
}

/// What does not react draws the bits of rows to which nothing happens: the same rows, and the same kernel.
#[test]
fn reactions_without_strength_have_the_bits_of_none() {
    let at = [0.9, -0.4, 0.7, 0.2];
    let loss = Loss::Logistic { l2: 0.1 };
    let with = |response: Response, deploy, batch| {
        let weights: Arc<[f64]> = vec![0.5; CLIENTS].into();
        let federation = Federation::new(weights, base(true), response, loss).unwrap();
        let protocol = protocol(deploy, batch, 3);
        update(&federation, &protocol, &[0.3, 0.2, 0.1], (3, 1), &at)
    };
    let still = |by, turnout| {
        let rate = vec![0.0; CLIENTS];
        let law = Law::Logistic { tolerance: 0.4 };
        Response::Retention(Retention { by, law, rate, floor: 0.1, renewal: 1.0, turnout })
    };
    let strategic = |share, budget| {
        let (features, wants) = (vec![0, 2], Wants::Positive);
        let (threshold, smoothing) = (0.2, 0.0);
        Response::Strategic(Strategic { features, wants, threshold, budget, share, smoothing })
    };
    for deploy in [Deploy::Step, Deploy::Round] {
        for batch in [Batch::Sampled(5), Batch::All] {
            let none = with(Shift::None.into(), deploy, batch);
            for response in [
                Response::Outcome(Outcome { strength: vec![0.0; CLIENTS] }),
                still(By::Client, Turnout::Fixed),
                still(By::Label, Turnout::Follow),
                still(By::Row, Turnout::Fixed),
                strategic(0.0, 0.6),
                strategic(0.8, 0.0),
            ] {
                let name = format!("{response:?}");
                assert_eq!(with(response, deploy, batch), none, "{name}");
            }
        }
    }
}

/// A rule that is nonsense at some models only.
#[derive(Debug)]
struct FarOut;

impl OwnResponse for FarOut {
    fn features(&self, row: &Row<'_>, deployed: &[f64], out: &mut [f64]) {
        out.copy_from_slice(row.x);
        if deployed[0] > 5.0 {
            out[0] = f64::INFINITY;
        }
    }
}

#[test]
fn a_rule_that_makes_nonsense_ends_the_run_with_its_reason() {
    let response = Response::Own(Own::new("far-out", FarOut));
    let federation =
        Federation::new(vec![0.5; CLIENTS], base(true), response, Loss::Logistic { l2: 0.1 });
    let federation = federation.unwrap();
    let protocol = protocol(Deploy::Step, Batch::Sampled(4), 1);
    let order = Order { protocol: &protocol, step_sizes: &[0.1] };
    let streams = Streams::new(Seed(5), 0, 0, Purpose::Data);
    let (clients, theta) = ([ClientId(1)], [9.0, 0.0, 0.0, 0.0]);
    let task = Task { streams, broadcast: &theta, clients: &clients };
    let mut delta = [0.0; 4];
    let scratch = &mut Scratch::default();
    let failed = federation.work(&order, &[task], &mut delta, &mut [], scratch).unwrap_err();
    assert_eq!(failed.client, 1);
    assert!(failed.reason.contains("\"far-out\" makes the feature inf"), "{failed}");
}
