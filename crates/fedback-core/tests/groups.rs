//! Measurements by group, by hand and against those of the whole.

use fedback_core::base::{Base, Marks, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::groups::by_group;
use fedback_core::loss::Loss;
use fedback_core::response::{Sensitivity, Shift, location};
use fedback_core::score::accuracy;
use fedback_core::stream::Seed;

/// Eight rows of two clients; the groups are not the clients.
fn federation(loss: Loss, response: Shift) -> Federation {
    let raw = RawTable {
        features: vec!["a".into()],
        values: vec![-2.0, -1.0, 1.0, 2.0, -3.0, 0.5, 1.5, 4.0],
        labels: vec![0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0],
        clients: Some(["x", "x", "x", "x", "x", "y", "y", "y"].map(String::from).to_vec()),
    };
    let groups = Some(["f", "m", "f", "m", "m", "f", "f", "m"].map(String::from).to_vec());
    let how = Preparation {
        shuffle: false,
        standardize: false,
        intercept: false,
        partition: Partition::Column,
        by_class: false,
    };
    let marks = Marks { groups, ..Marks::default() };
    let table = Table::split(raw, marks, &how, Seed(0)).unwrap().training;
    Federation::new([0.4, 0.6], Base::Table(table), response, loss).unwrap()
}

#[test]
fn rates_are_those_of_the_rows() {
    let federation = federation(Loss::Logistic { l2: 0.0 }, Shift::None);
    let scores = by_group(&federation, &[1.0]).unwrap();
    // A row of x counts 0.08, one of y 0.2. Group f has the rows −2 (0), 1 (1), 0.5 (0), 1.5 (1).
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}");
    let f = scores[0];
    close(f.accuracy, (0.08 + 0.08 + 0.2) / 0.56);
    close(f.positive_rate, (0.08 + 0.2 + 0.2) / 0.56);
    close(f.true_positive_rate, 1.0);
    close(f.false_positive_rate, 0.2 / 0.28);
    // Group m: −1 (1), 2 (1), −3 (0), 4 (0).
    let m = scores[1];
    close(m.accuracy, (0.08 + 0.08) / 0.44);
    close(m.true_positive_rate, 0.5);
    close(m.false_positive_rate, 0.2 / 0.28);
}

#[test]
fn groups_average_to_the_whole() {
    let react = || location(&Sensitivity::Scalar(vec![0.3, -0.6]), 1, false);
    for loss in [Loss::Mean, Loss::Squared { l2: 0.2 }, Loss::Logistic { l2: 0.1 }] {
        let federation = federation(loss, react());
        let theta = [0.7];
        let scores = by_group(&federation, &theta).unwrap();
        let risk = 0.56 * scores[0].risk + 0.44 * scores[1].risk;
        assert!((risk - federation.risk(&theta, &theta)).abs() < 1e-12, "{loss:?}");
        let right = 0.56 * scores[0].accuracy + 0.44 * scores[1].accuracy;
        assert!((right - accuracy(&federation, &theta).unwrap()).abs() < 1e-12, "{loss:?}");
    }
}
