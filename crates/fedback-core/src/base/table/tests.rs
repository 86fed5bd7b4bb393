use super::*;
use crate::base::partition;

fn raw(rows: usize) -> RawTable {
    RawTable {
        features: vec!["a".into(), "b".into()],
        values: (0..2 * rows).map(|k| (k * k % 17) as f64).collect(),
        labels: (0..rows).map(|k| (k % 3 == 0) as u8 as f64).collect(),
        clients: Some((0..rows).map(|k| ["north", "east", "west"][k % 3].into()).collect()),
    }
}

fn preparation(partition: Partition) -> Preparation {
    Preparation { shuffle: true, standardize: true, intercept: true, partition, by_class: true }
}

#[test]
fn columns_divide_by_sorted_value() {
    let table = Table::new(raw(31), &preparation(Partition::Column), Seed(1)).unwrap();
    assert_eq!(table.client_names.as_deref().unwrap(), ["east", "north", "west"]);
    assert_eq!(table.row_shares(), [10.0 / 31.0, 11.0 / 31.0, 10.0 / 31.0]);
    assert!(table.rows_of(0).all(|(row, _)| row[2] == 1.0));
}

#[test]
fn every_row_goes_to_one_client() {
    for partition in [Partition::Equal(7), Partition::Dirichlet { concentration: 0.2, clients: 7 }]
    {
        let mut how = preparation(partition);
        how.standardize = false;
        let table = Table::new(raw(50), &how, Seed(3)).unwrap();
        assert_eq!(table.clients(), 7);
        assert!(table.row_shares().iter().all(|&share| share > 0.0));
        let sum: f64 = (0..7).flat_map(|c| table.rows_of(c)).map(|(row, _)| row[0]).sum();
        assert_eq!(sum, raw(50).values.iter().step_by(2).sum::<f64>());
    }
}

#[test]
fn equal_parts_differ_by_one_row_at_most() {
    assert_eq!(partition::equal(23, 5), [0, 5, 10, 15, 19, 23]);
}

#[test]
fn rows_are_rearranged_in_place() {
    let order = [3, 0, 4, 1, 2, 5u32];
    let mut labels: Vec<f64> = (0..6).map(f64::from).collect();
    let mut rows: Vec<f64> = (0..12).map(f64::from).collect();
    rearrange(&mut labels, &mut rows, 2, order.to_vec());
    assert_eq!(labels, order.map(f64::from));
    assert_eq!(rows, order.map(|row| [2.0 * row as f64, 2.0 * row as f64 + 1.0]).as_flattened());
}

#[test]
fn standardised_theta_scores_raw_rows() {
    let raw = raw(40);
    let table = Table::new(raw.clone(), &preparation(Partition::Column), Seed(1)).unwrap();
    let theta = [0.7, -1.3, 0.25];
    let (coefficients, constant) =
        table.standardization.as_ref().unwrap().to_raw_units(&theta, true);
    let mut scores: Vec<f64> = (0..3)
        .flat_map(|c| table.rows_of(c))
        .map(|(row, _)| row.iter().zip(theta).map(|(x, t)| x * t).sum())
        .collect();
    let mut raw_scores: Vec<f64> = raw
        .values
        .chunks(2)
        .map(|row| row[0] * coefficients[0] + row[1] * coefficients[1] + constant)
        .collect();
    scores.sort_by(f64::total_cmp);
    raw_scores.sort_by(f64::total_cmp);
    for (a, b) in scores.iter().zip(&raw_scores) {
        assert!((a - b).abs() < 1e-12);
    }
}

#[test]
fn constant_columns_cannot_be_standardised() {
    let mut raw = raw(10);
    raw.values.iter_mut().skip(1).step_by(2).for_each(|v| *v = 0.1);
    let error = Table::new(raw, &preparation(Partition::Column), Seed(1)).unwrap_err();
    assert_eq!(error, TableError::ConstantColumn("b".into()));
}
