//! Small problems of every kind that kernels tell apart, and what is built in as if it were custom.

use std::ops::Range;

use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::response::{Sensitivity, Shift, location};
use fedback_core::stream::{Seed, Streams};
use fedback_engine::plain::{BuiltInCursor, Gradients, Observations, OneByOne, Plain};
use fedback_engine::work::WorkError;

/// A federation as if it were custom.
pub struct AsCustom(Federation);

impl Gradients for AsCustom {
    type Cursor = BuiltInCursor;
    type Batch = Observations;

    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn cursor(&self, streams: Streams, client: ClientId) -> Result<BuiltInCursor, WorkError> {
        Ok(BuiltInCursor::new(streams, client))
    }

    fn draw(
        &self,
        cursor: &mut BuiltInCursor,
        deployed: &[f64],
        count: usize,
    ) -> Result<Observations, WorkError> {
        Ok(cursor.draw(self.0.base(), self.0.shift().unwrap(), deployed, count))
    }

    fn everything(
        &self,
        client: ClientId,
        deployed: &[f64],
    ) -> Result<Option<Observations>, WorkError> {
        let Base::Table(table) = self.0.base() else { return Ok(None) };
        let client = client.0 as usize;
        Ok(Some(Observations::everything(table, self.0.shift().unwrap(), client, deployed)))
    }

    fn gradient(
        &self,
        _client: ClientId,
        theta: &[f64],
        batch: &Observations,
        range: Option<Range<usize>>,
        out: &mut [f64],
    ) -> Result<f64, WorkError> {
        Ok(batch.gradient(self.0.loss(), self.0.has_intercept(), theta, range, out))
    }
}

/// The same problem, one client and one step at a time.
pub fn plain(federation: &Federation) -> Plain<OneByOne<AsCustom>> {
    let gradients = OneByOne(AsCustom(federation.clone()));
    Plain { gradients, weights: federation.weights().clone() }
}

/// Numbers between −1 and 1 without a pattern.
pub fn numbers(first: usize, count: usize) -> Vec<f64> {
    (first..first + count).map(|k| ((k * 7919 % 2003) as f64 - 1001.0) / 1001.0).collect()
}

const WEIGHTS: [f64; 5] = [0.3, 0.25, 0.2, 0.15, 0.1];

/// How the clients' observations of `features` numbers react: by a number, a diagonal, a matrix.
fn responses(clients: usize, features: usize, intercept: bool) -> [Shift; 3] {
    let square = |client: usize| {
        let scale = 0.5 / features as f64;
        let row = |j: usize| numbers(31 * client + 7 * j, features);
        (0..features).map(|j| row(j).iter().map(|m| m * scale).collect()).collect()
    };
    let rows = |client: usize| numbers(5 * client + 3, features);
    [
        Sensitivity::Scalar(numbers(11, clients)),
        Sensitivity::PerCoordinate((0..clients).map(rows).collect()),
        Sensitivity::Matrix((0..clients).map(square).collect()),
    ]
    .map(|sensitivity| location(&sensitivity, features, intercept))
}

/// Normal data of five clients in so many dimensions, under every form of response.
pub fn gaussians(dim: usize) -> [Federation; 3] {
    responses(5, dim, false).map(|response| {
        let base = Gaussian { dim, mean: numbers(100, 5 * dim), noise: 0.7 };
        Federation::new(WEIGHTS, Base::Gaussian(base), response, Loss::Mean).unwrap()
    })
}

/// How many rows each of five clients has: one, less than a vector, a vector, and more than are taken
/// at a time.
const ROWS: [usize; 5] = [1, 3, 8, 70, 133];

/// Rows of five clients with so many features, under a loss and every form of response.
pub fn tables(features: usize, intercept: bool, loss: Loss) -> [Federation; 3] {
    let rows: usize = ROWS.iter().sum();
    let names = ["a", "b", "c", "d", "e"].iter().zip(ROWS);
    let scale = 1.0 / (features as f64).sqrt();
    let raw = RawTable {
        features: (0..features).map(|j| format!("x{j}")).collect(),
        values: numbers(17, rows * features).iter().map(|x| x * scale).collect(),
        labels: (0..rows).map(|k| (k * 7 % 5 < 2) as u8 as f64).collect(),
        clients: Some(names.flat_map(|(name, rows)| vec![name.to_string(); rows]).collect()),
    };
    let how = Preparation {
        shuffle: false,
        standardize: false,
        intercept,
        partition: Partition::Column,
        by_class: true,
    };
    let table = Table::new(raw, &how, Seed(0)).unwrap();
    responses(5, features, intercept).map(|response| {
        Federation::new(WEIGHTS, Base::Table(table.clone()), response, loss).unwrap()
    })
}

/// Every kind of problem: normal data and tables under every loss, with and without an intercept,
/// with vectors that fill their blocks and such that do not.
pub fn problems() -> Vec<Federation> {
    let mut all = Vec::new();
    for features in [1, 3, 5, 8, 17] {
        all.extend(gaussians(features));
        all.extend(tables(features, false, Loss::Mean));
        for loss in [Loss::Squared { l2: 0.4 }, Loss::Logistic { l2: 0.3 }] {
            all.extend(tables(features, false, loss));
            all.extend(tables(features, true, loss));
        }
    }
    all
}
