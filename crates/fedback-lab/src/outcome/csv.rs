//! A run as CSV: its curve, one line a record, with what tells it from others in every line.

mod points;

use serde_json::Value;

use super::Outcome;
use crate::costs::Costs;
use crate::measure::Measurement;
pub use points::points_to_csv;

/// What every line says of the run.
const ABOUT: [&str; 3] = ["name", "seed", "version"];

impl Outcome {
    /// The curve as CSV: round and step, every measurement with what is exact beside it, then costs, name,
    /// seed, version and what was set, so that files can be stacked.
    pub fn to_csv(&self) -> String {
        let (mut header, exact) =
            (vec!["round".to_string(), "step".to_string()], self.exact_values());
        for (column, exact) in self.curve.columns.iter().zip(&exact) {
            let name = self.column_name(*column);
            let what = ["mean", "sd"].into_iter().chain(exact.as_ref().map(|_| "exact"));
            header.extend(what.map(|what| quoted(&format!("{name}_{what}"))));
        }
        header.extend(Costs::NAMES[1..].iter().map(|name| name.to_string()));
        let mut set = self.all_set.clone();
        ABOUT.iter().for_each(|known| drop(set.shift_remove(*known)));
        header.extend(ABOUT.map(String::from));
        header.extend(set.keys().map(|key| quoted(key)));
        let about = [self.name.clone(), self.seed.to_string(), self.version.clone()];
        let about = about.into_iter().chain(set.values().map(text));
        let about: Vec<String> = about.map(|cell| quoted(&cell)).collect();
        let mut text = header.join(",") + "\n";
        for (place, point) in self.curve.points.iter().enumerate() {
            let mut line = vec![point.round.to_string(), point.step.to_string()];
            for (statistic, exact) in point.values.iter().zip(&exact) {
                line.extend([Some(statistic.mean), statistic.sd].map(number));
                line.extend(exact.as_ref().map(|exact| number(exact.get(place).copied())));
            }
            line.extend(point.costs.values()[1..].iter().map(f64::to_string));
            line.extend(about.iter().cloned());
            text.push_str(&(line.join(",") + "\n"));
        }
        text
    }

    /// What a column of measurements is called.
    fn column_name(&self, column: Measurement) -> String {
        let groups = self.table.as_ref().map_or(&[][..], |table| &table.groups);
        column.full_name(self.client_names.as_deref(), groups)
    }

    /// The exact values of every column, none where there are none.
    fn exact_values(&self) -> Vec<Option<Vec<f64>>> {
        let exact = |column: &Measurement| {
            let exact = self.exact()?.curve.column(*column);
            (!exact.is_empty()).then(|| exact.iter().map(|(_, one)| one.mean).collect())
        };
        self.curve.columns.iter().map(exact).collect()
    }
}

/// A number, empty where there is none.
fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or(String::new(), |value| format!("{value:?}"))
}

/// A value as a cell.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.into(),
    }
}
