//! The plain algorithm on parts that are built in: the work of the kernels, to the last digits.

mod problems;

use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::protocol::{Batch, Deploy, LocalRule, Protocol, Scheme, StepSize};
use fedback_core::response::{Sensitivity, Shift, best_response};
use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_engine::plain::BuiltInCursor;
use fedback_engine::work::{Order, Scratch, Task, Work, WorkError};

use problems::{gaussians, numbers, plain, problems, tables};

fn federation(loss: Loss) -> Federation {
    let raw = RawTable {
        features: vec!["a".into(), "b".into()],
        values: (0..120).map(|k| ((k * 37 % 23) as f64 - 11.0) / 8.0).collect(),
        labels: (0..60).map(|k| (k * 7 % 5 < 2) as u8 as f64).collect(),
        clients: None,
    };
    let how = Preparation {
        shuffle: false,
        standardize: false,
        intercept: loss != Loss::Mean,
        partition: Partition::Equal(3),
        by_class: true,
    };
    let base = Base::Table(Table::new(raw, &how, Seed(0)).unwrap());
    let sensitivity = Sensitivity::Scalar(vec![0.5, 1.0, -0.3]);
    let response = best_response(&sensitivity, &[1], base.width());
    Federation::new(vec![0.5, 0.3, 0.2], base, response, loss).unwrap()
}

#[test]
fn plain_work_is_that_of_the_kernels() {
    let clients = [ClientId(0), ClientId(2)];
    for loss in [Loss::Mean, Loss::Squared { l2: 0.4 }, Loss::Logistic { l2: 0.3 }] {
        let known = federation(loss);
        let dim = known.dim();
        let plain = plain(&known);
        let theta: Vec<f64> = [0.4, -0.9, 0.2][..dim].to_vec();
        for (deploy, scale_objectives) in
            [(Deploy::Step, false), (Deploy::Round, false), (Deploy::Step, true)]
        {
            let usual = Protocol::p_fedavg(Scheme::Full, 3, StepSize::Constant(0.1));
            let batch = Batch::Sampled(5);
            let protocol = Protocol { batch, deploy, scale_objectives, ..usual };
            let order = Order { protocol: &protocol, step_sizes: &[0.3, 0.2, 0.1] };
            let streams = Streams::new(Seed(9), 4, 7, Purpose::Data);
            let task = Task { streams, broadcast: &theta, clients: &clients };
            let work = |work: &dyn Fn(&mut [f64])| {
                let mut deltas = vec![0.0; clients.len() * dim];
                work(&mut deltas);
                deltas
            };
            let kernels = work(&|deltas| {
                known.work(&order, &[task], deltas, &mut [], &mut Scratch::default()).unwrap();
            });
            let spelled_out = work(&|deltas| {
                plain.work(&order, &[task], deltas, &mut [], &mut Scratch::default()).unwrap();
            });
            for (a, b) in kernels.iter().zip(&spelled_out) {
                assert!((a - b).abs() < 1e-14, "{loss:?} {deploy:?}: {a} {b}");
            }
        }
    }
}

/// The mean loss that is returned beside the gradient, against finite differences.
#[test]
fn plain_gradients_match_differences() {
    for loss in [Loss::Mean, Loss::Squared { l2: 0.4 }, Loss::Logistic { l2: 0.3 }] {
        let known = federation(loss);
        let dim = known.dim();
        let mut cursor =
            BuiltInCursor::new(Streams::new(Seed(1), 0, 0, Purpose::Measure), ClientId(1));
        let theta: Vec<f64> = [0.4, -0.9, 0.2][..dim].to_vec();
        let rows = cursor.draw(known.base(), known.shift().unwrap(), &theta, 9);
        let (mut gradient, mut unused) = (vec![0.0; dim], vec![0.0; dim]);
        let value = |at: &[f64], out: &mut [f64]| {
            rows.gradient(loss, known.has_intercept(), at, Some(2..7), out)
        };
        value(&theta, &mut gradient);
        for j in 0..dim {
            let (mut up, mut down) = (theta.clone(), theta.clone());
            up[j] += 1e-6;
            down[j] -= 1e-6;
            let slope = (value(&up, &mut unused) - value(&down, &mut unused)) / 2e-6;
            assert!((slope - gradient[j]).abs() < 1e-8, "{loss:?} {j}: {slope} {gradient:?}");
        }
    }
}

/// Every local rule.
const RULES: [LocalRule; 3] =
    [LocalRule::Descent, LocalRule::Proximal { proximal: 0.7 }, LocalRule::Scaffold];

/// Every local rule under both deployments, and with scaled objectives.
fn protocols(batch: Batch) -> Vec<Protocol> {
    let usual = Protocol::p_fedavg(Scheme::Full, 3, StepSize::Constant(0.1));
    let mut all = Vec::new();
    for local in RULES {
        for (deploy, scale_objectives) in
            [(Deploy::Step, false), (Deploy::Round, false), (Deploy::Step, true)]
        {
            all.push(Protocol { batch, local, deploy, scale_objectives, ..usual });
        }
    }
    all
}

/// What clients send and keep, one repetition after the other; what was broadcast to them and what
/// they kept before is different for each of them.
fn work(
    work: &impl Work,
    protocol: &Protocol,
    repetitions: &[&[ClientId]],
) -> Result<(Vec<f64>, Vec<f64>), WorkError> {
    let dim = work.dim();
    let broadcasts: Vec<Vec<f64>> =
        (0..repetitions.len()).map(|repetition| numbers(repetition * 40, 2 * dim)).collect();
    let kept = |repetition: usize, client: &ClientId| {
        numbers(repetition * 500 + client.0 as usize * 60, dim)
    };
    let (sent, each) = if protocol.local.keeps() { (2 * dim, dim) } else { (dim, 0) };
    let everyone = repetitions.iter().enumerate();
    let tasks: Vec<Task<'_>> = everyone
        .clone()
        .map(|(repetition, clients)| {
            let streams = Streams::new(Seed(9), repetition as u64, 7, Purpose::Data);
            Task { streams, broadcast: &broadcasts[repetition][..sent], clients }
        })
        .collect();
    let mut keep: Vec<f64> = everyone
        .flat_map(|(place, clients)| clients.iter().flat_map(move |client| kept(place, client)))
        .collect();
    let mut deltas = keep.clone();
    keep.truncate(keep.len() / dim * each);
    let order = Order { protocol, step_sizes: &[0.3, 0.2, 0.1] };
    work.work(&order, &tasks, &mut deltas, &mut keep, &mut Scratch::default())?;
    Ok((deltas, keep))
}

fn assert_close(one: &(Vec<f64>, Vec<f64>), other: &(Vec<f64>, Vec<f64>), what: &str) {
    assert_eq!((one.0.len(), one.1.len()), (other.0.len(), other.1.len()));
    for (a, b) in one.0.iter().zip(&other.0).chain(one.1.iter().zip(&other.1)) {
        assert!((a - b).abs() < 1e-14, "{what}: {a} {b}");
    }
}

fn clients<const COUNT: usize>(ids: [u32; COUNT]) -> [ClientId; COUNT] {
    ids.map(ClientId)
}

/// Every rule does the same in the kernels and spelled out, on all kinds of problems, with everything
/// that is kept.
#[test]
fn rules_are_those_of_the_kernels() {
    let repetitions: [&[ClientId]; 2] = [&clients([0, 2, 3, 4]), &clients([1, 4])];
    for known in problems() {
        let plain = plain(&known);
        let normal = matches!(known.base(), Base::Gaussian(_));
        // The mean of several normal observations is drawn as one.
        let size = if normal { 1 } else { 5 };
        for protocol in protocols(Batch::Sampled(size)).into_iter().chain(protocols(Batch::All)) {
            let what = format!("{:?} {} {protocol:?}", known.loss(), known.dim());
            let kernels = work(&known, &protocol, &repetitions).unwrap();
            match work(&plain, &protocol, &repetitions) {
                Ok(spelled_out) => assert_close(&kernels, &spelled_out, &what),
                Err(error) => {
                    assert!(normal && protocol.batch == Batch::All, "{what}");
                    let reason = "client 0: batch = \"all\" where observations cannot be listed";
                    assert_eq!(error.to_string(), reason);
                }
            }
        }
    }
}

/// The matrices that a response stands for.
fn as_matrix(federation: &Federation) -> Federation {
    let dim = federation.dim();
    let matrix = |client| federation.shift().unwrap().matrix(client, dim).transpose();
    let values = (0..federation.clients()).flat_map(|i| matrix(i).as_slice().to_vec()).collect();
    federation.with_response(Shift::Matrix { dim, values }).unwrap()
}

/// A diagonal and the matrix of it use different kernels and the same draws.
#[test]
fn lanes_and_matrices_agree_for_every_rule() {
    let repetitions: [&[ClientId]; 2] = [&clients([0, 1, 3]), &clients([2, 3, 4])];
    for dim in [1, 2, 5] {
        let [scaled, diagonal, _] = gaussians(dim);
        for batch in [Batch::Sampled(1), Batch::Sampled(2), Batch::All] {
            for protocol in protocols(batch) {
                for federation in [&scaled, &diagonal] {
                    let lanes = work(federation, &protocol, &repetitions).unwrap();
                    let matrices = work(&as_matrix(federation), &protocol, &repetitions).unwrap();
                    assert_close(&lanes, &matrices, &format!("{dim} {protocol:?}"));
                }
            }
        }
    }
}

/// Rows and normal data that have the same means are the same to whoever looks at all of them: lanes,
/// matrices, rows and functions agree.
#[test]
fn normal_data_and_rows_agree_on_everything() {
    for dim in [1, 3, 5] {
        for rows in tables(dim, false, Loss::Mean) {
            let mean = (0..5).flat_map(|i| rows.population(i).base_mean().into_owned()).collect();
            let base = Base::Gaussian(Gaussian { dim, mean, noise: 2.0 });
            let (weights, response) = (rows.weights().clone(), rows.response().clone());
            let normal = Federation::new(weights, base, response, Loss::Mean).unwrap();
            let matrices = as_matrix(&normal);
            for protocol in protocols(Batch::All) {
                let repetitions: [&[ClientId]; 1] = [&clients([0, 1, 2, 3, 4])];
                let expected = work(&plain(&rows), &protocol, &repetitions).unwrap();
                for federation in [&rows, &normal, &matrices] {
                    let found = work(federation, &protocol, &repetitions).unwrap();
                    assert_close(&found, &expected, &format!("{dim} {protocol:?}"));
                }
            }
        }
    }
}

/// What a client does has the same bits alone and among others, however many: forty clients of two
/// repetitions do not fit into lanes that are filled at once, nor five into a group.
#[test]
fn bits_do_not_depend_on_company() {
    let wide = |dim: usize| {
        let base = Base::Gaussian(Gaussian { dim, mean: numbers(5, 40 * dim), noise: 0.5 });
        let response = Shift::Diagonal { dim, values: numbers(9, 40 * dim) };
        Federation::new([1.0 / 40.0; 40], base, response, Loss::Mean).unwrap()
    };
    let mut all = problems();
    all.extend(
        [wide(1), wide(3), wide(70)].iter().flat_map(|wide| [wide.clone(), as_matrix(wide)]),
    );
    for federation in &all {
        let everyone: Vec<ClientId> = (0..federation.clients() as u32).map(ClientId).collect();
        let some: Vec<ClientId> = everyone.iter().copied().filter(|c| c.0 % 5 != 1).collect();
        for protocol in protocols(Batch::Sampled(3)).into_iter().chain(protocols(Batch::All)) {
            let together = work(federation, &protocol, &[&everyone, &some]).unwrap();
            let mut alone = (Vec::new(), Vec::new());
            for client in &everyone {
                let (delta, kept) = work(federation, &protocol, &[&[*client], &[]]).unwrap();
                alone.0.extend(delta);
                alone.1.extend(kept);
            }
            for client in &some {
                let (delta, kept) = work(federation, &protocol, &[&[], &[*client]]).unwrap();
                alone.0.extend(delta);
                alone.1.extend(kept);
            }
            assert_eq!(together, alone, "{:?} {protocol:?}", federation.loss());
        }
    }
}
