//! The hashes of the numbers that the command prints, and the table of those that are expected.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::binary::beside;

/// What a record of a curve may hold, in the order in which it is hashed.
const MEASUREMENTS: [&str; 6] =
    ["distance_sq", "risk", "consensus", "accuracy", "auc", "client_risk"];

/// The hashes of what `run` or one of its relatives printed: of all final models, and of the curve.
/// Of a sweep the points follow one another.
pub fn hashes(printed: &Value) -> [String; 2] {
    let points = match printed["points"].as_array() {
        Some(points) => points.iter().collect(),
        None => vec![printed],
    };
    let (mut thetas, mut curve) = (Vec::new(), Vec::new());
    for point in points {
        numbers(&point["final_theta"], &mut thetas);
        for record in point["curve"].as_array().expect("a curve") {
            numbers(&record["round"], &mut curve);
            MEASUREMENTS.iter().for_each(|&name| measured(record, name, &mut curve));
        }
    }
    [thetas, curve].map(|bytes| hexadecimal(&Sha256::digest(bytes)))
}

/// A file whose lines are a name and what is expected of it, below a header.
pub fn expected(file: &str) -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(beside(file)).expect("a file of expected hashes");
    let line = |line: &str| {
        let mut cells = line.split(',').map(str::to_owned);
        (cells.next().unwrap(), cells.collect())
    };
    text.lines().skip(1).map(line).collect()
}

/// Appends mean and sd of a measurement, or of one per client; nothing where it is switched off.
fn measured(record: &Value, name: &str, bytes: &mut Vec<u8>) {
    let one = |value: &Value, bytes: &mut Vec<u8>| {
        if value.is_null() {
            return numbers(value, bytes);
        }
        numbers(value.get("mean").expect("a mean"), bytes);
        numbers(value.get("sd").expect("an sd"), bytes);
    };
    match record.get(name) {
        None => {}
        Some(Value::Array(clients)) => clients.iter().for_each(|client| one(client, bytes)),
        Some(value) => one(value, bytes),
    }
}

/// Appends a number, or a list of them, in little endian; null as NaN.
fn numbers(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Null => bytes.extend(f64::NAN.to_le_bytes()),
        Value::Number(number) => bytes.extend(number.as_f64().unwrap().to_le_bytes()),
        Value::Array(list) => list.iter().for_each(|entry| numbers(entry, bytes)),
        other => panic!("{other} is no number"),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
