//! Small tables for tests.

use fedback_core::base::{Partition, Preparation, RawTable, Table};
use fedback_core::stream::Seed;

/// Rows with labels, dealt out by class to so many clients and standardised; one client has them as they
/// are.
pub fn table(values: &[f64], labels: &[f64], clients: usize, intercept: bool) -> Table {
    let raw = RawTable {
        features: (0..values.len() / labels.len()).map(|j| format!("x{j}")).collect(),
        values: values.to_vec(),
        labels: labels.to_vec(),
        clients: None,
    };
    let how = Preparation {
        shuffle: false,
        standardize: clients > 1,
        intercept,
        partition: Partition::Equal(clients),
        by_class: clients > 1,
    };
    Table::new(raw, &how, Seed(0)).unwrap()
}
