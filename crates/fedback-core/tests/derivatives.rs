//! The gradients of populations: against the expansion, against differences, against their rows.

use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::response::{Sensitivity, best_response, location};
use fedback_core::stream::Seed;
use nalgebra::{DMatrix, DVector};

const THETA: [f64; 3] = [0.4, -1.0, 0.7];
const DEPLOYED: [f64; 3] = [1.0, 2.0, -3.0];

fn table(loss: Loss) -> Federation {
    let intercept = loss != Loss::Mean;
    let features = 3 - usize::from(intercept);
    let raw = RawTable {
        features: (0..features).map(|j| format!("x{j}")).collect(),
        values: (0..13 * features).map(|k| ((k * k * 7) % 11) as f64 / 5.0 - 1.0).collect(),
        labels: (0..13).map(|k| (k % 3 == 0) as u8 as f64).collect(),
        clients: None,
    };
    let how = Preparation {
        shuffle: false,
        standardize: false,
        intercept,
        partition: Partition::Equal(2),
        by_class: false,
    };
    let table = Table::new(raw, &how, Seed(1)).unwrap();
    let response = best_response(&Sensitivity::Scalar(vec![0.5, 1.5]), &[1], 3);
    Federation::new([0.3, 0.7], Base::Table(table), response, loss).unwrap()
}

fn normal() -> Federation {
    let base = Gaussian { dim: 3, mean: (0..6).map(f64::from).collect(), noise: 0.7 };
    let matrix = vec![vec![0.1, 0.2, 0.0], vec![-0.5, 0.3, 0.1], vec![0.0, 0.0, 0.9]];
    let response = location(&Sensitivity::Matrix(vec![matrix.clone(), matrix]), 3, false);
    Federation::new([0.3, 0.7], Base::Gaussian(base), response, Loss::Mean).unwrap()
}

fn federations() -> [Federation; 4] {
    let losses = [Loss::Mean, Loss::Logistic { l2: 0.1 }, Loss::Squared { l2: 0.3 }];
    let [a, b, c] = losses.map(table);
    [a, b, c, normal()]
}

fn gradient(federation: &Federation, client: usize, theta: &[f64]) -> DVector<f64> {
    let mut out = vec![f64::NAN; theta.len()];
    federation.population(client).gradient(theta, &DEPLOYED, &mut out);
    DVector::from_vec(out)
}

#[test]
fn gradients_are_those_of_the_expansion_and_of_the_risk() {
    for (federation, client) in federations().iter().flat_map(|f| [(f, 0), (f, 1)]) {
        let found = gradient(federation, client, &THETA);
        let population = federation.population(client);
        let expected = population.expand(&THETA, &DEPLOYED).gradient;
        assert!((&found - expected).norm() < 1e-12);
        for j in 0..3 {
            let at = |h: f64| {
                let mut theta = THETA;
                theta[j] += h;
                population.risk(&theta, &DEPLOYED)
            };
            assert!(((at(1e-5) - at(-1e-5)) / 2e-5 - found[j]).abs() < 1e-7);
        }
    }
}

/// The covariance over rows is that of the rows' own gradients, each of which is a problem of one row.
#[test]
fn covariances_are_those_of_single_observations() {
    for federation in &federations()[..3] {
        let Base::Table(rows) = federation.base() else { unreachable!() };
        for client in 0..2 {
            let gradients: Vec<DVector<f64>> = rows
                .rows_of(client)
                .map(|(row, label)| one_row(federation, client, row, label))
                .collect();
            let count = gradients.len() as f64;
            let mean = gradients.iter().sum::<DVector<f64>>() / count;
            let away = gradients.iter().map(|g| (g - &mean) * (g - &mean).transpose());
            let expected = away.sum::<DMatrix<f64>>() / count;
            let found = federation.population(client).gradient_covariance(&THETA);
            assert!((found - expected).norm() < 1e-12);
        }
    }
    let covariance = normal().population(1).gradient_covariance(&THETA);
    assert!((covariance - DMatrix::identity(3, 3) * 0.49).norm() < 1e-15);
}

/// The gradient of a federation whose only row this is, without penalty.
fn one_row(federation: &Federation, client: usize, row: &[f64], label: f64) -> DVector<f64> {
    let mut moved = vec![0.0; 3];
    federation.shift().unwrap().apply(client, &THETA, &mut moved);
    let x = DVector::from_fn(3, |j, _| row[j] + moved[j]);
    let theta = DVector::from_column_slice(&THETA);
    let margin = x.dot(&theta);
    match federation.loss() {
        Loss::Mean => theta - x,
        Loss::Squared { .. } => x * (margin - label),
        Loss::Logistic { .. } => x * (1.0 / (1.0 + (-margin).exp()) - label),
    }
}
