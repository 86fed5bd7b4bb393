//! The plain algorithm on parts that are built in: the work of the kernels, to the last digits.

use std::ops::Range;

use fedback_core::base::{Base, Partition, Preparation, RawTable, Table};
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::protocol::Deploy;
use fedback_core::response::{Sensitivity, best_response};
use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_engine::algorithm::plain::{Gradients, Plain, RowSource, Rows};
use fedback_engine::algorithm::{Order, Scratch, Task, Work, WorkError};

/// A federation as if it were custom.
struct AsCustom(Federation);

impl Gradients for AsCustom {
    type Source = RowSource;
    type Batch = Rows;

    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn source(&self, streams: Streams, client: ClientId) -> Result<RowSource, WorkError> {
        Ok(RowSource::new(streams, client))
    }

    fn draw(
        &self,
        source: &mut RowSource,
        deployed: &[f64],
        count: usize,
    ) -> Result<Rows, WorkError> {
        Ok(source.draw(&self.0.base, &self.0.response, deployed, count))
    }

    fn gradient(
        &self,
        _client: ClientId,
        theta: &[f64],
        batch: &Rows,
        range: Option<Range<usize>>,
        out: &mut [f64],
    ) -> Result<f64, WorkError> {
        Ok(batch.gradient(self.0.loss, self.0.has_intercept(), theta, range, out))
    }
}

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
    let response = best_response(&sensitivity, &[1], base.dim());
    Federation { weights: vec![0.5, 0.3, 0.2].into(), base, response, loss }
}

#[test]
fn plain_work_is_that_of_the_kernels() {
    let clients = [ClientId(0), ClientId(2)];
    for loss in [Loss::Mean, Loss::Squared { l2: 0.4 }, Loss::Logistic { l2: 0.3 }] {
        let known = federation(loss);
        let dim = known.dim();
        let plain = Plain { gradients: AsCustom(known.clone()), weights: known.weights.clone() };
        let theta: Vec<f64> = [0.4, -0.9, 0.2][..dim].to_vec();
        for (deploy, scale_objectives) in
            [(Deploy::Step, false), (Deploy::Round, false), (Deploy::Step, true)]
        {
            let order = Order { step_sizes: &[0.3, 0.2, 0.1], batch: 5, deploy, scale_objectives };
            let streams = Streams::new(Seed(9), 4, 7, Purpose::Data);
            let task = Task { streams, theta: &theta, clients: &clients };
            let work = |work: &dyn Fn(&mut [f64])| {
                let mut deltas = vec![0.0; clients.len() * dim];
                work(&mut deltas);
                deltas
            };
            let kernels = work(&|deltas| {
                known.work(&order, &[task], deltas, &mut Scratch::default()).unwrap();
            });
            let spelled_out = work(&|deltas| {
                plain.work(&order, &[task], deltas, &mut Scratch::default()).unwrap();
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
        let mut source = RowSource::new(Streams::new(Seed(1), 0, 0, Purpose::Measure), ClientId(1));
        let theta: Vec<f64> = [0.4, -0.9, 0.2][..dim].to_vec();
        let rows = source.draw(&known.base, &known.response, &theta, 9);
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
