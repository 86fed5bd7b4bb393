//! Columns of text as columns of numbers: a column of 0 and 1 for every value but the first.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// More values than this are no categories.
const MOST: usize = 1000;

/// What became of a column that is a feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Encoding {
    /// The column.
    pub column: String,
    /// Its values in the order of their code points, where it was text. A row of the first has
    /// zeros, one of any other a 1 in a column of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

impl Encoding {
    /// The names of its features.
    pub fn features(&self) -> Vec<String> {
        match &self.values {
            None => vec![self.column.clone()],
            Some(values) => {
                values[1..].iter().map(|value| format!("{}={value}", self.column)).collect()
            }
        }
    }
}

/// The values of a column in the order of their first rows.
#[derive(Default)]
pub(super) struct Categories {
    places: HashMap<String, usize>,
}

impl Categories {
    /// The place of a value, as a number.
    pub(super) fn place(&mut self, value: &str) -> f64 {
        if let Some(place) = self.places.get(value) {
            return *place as f64;
        }
        let place = self.places.len();
        self.places.insert(value.into(), place);
        place as f64
    }

    /// The values in the order of code points, and for every place where it is then.
    fn sorted(self) -> (Vec<String>, Vec<usize>) {
        let mut values: Vec<(String, usize)> = self.places.into_iter().collect();
        values.sort();
        let mut moved = vec![0; values.len()];
        values.iter().enumerate().for_each(|(now, (_, place))| moved[*place] = now);
        (values.into_iter().map(|(value, _)| value).collect(), moved)
    }
}

/// Gives every value of the columns with categories a column of its own. A missing value is missing
/// in all of them.
pub(super) fn encode(
    names: Vec<String>,
    categories: Vec<Option<Categories>>,
    values: Vec<f64>,
) -> Result<(Vec<Encoding>, Vec<f64>), String> {
    let plain = categories.iter().all(Option::is_none);
    let mut encodings = Vec::new();
    let mut moved: Vec<Option<Vec<usize>>> = Vec::new();
    for (column, categories) in names.into_iter().zip(categories) {
        let sorted = categories.map(Categories::sorted);
        match &sorted {
            Some((values, _)) if values.len() < 2 => {
                return Err(format!(
                    "the one-hot column \"{column}\" has one value only; name it in ignore"
                ));
            }
            Some((values, _)) if values.len() > MOST => {
                return Err(format!(
                    "the one-hot column \"{column}\" has {} different values; at most {MOST} are \
                     categories: name it in ignore, or group its values",
                    values.len()
                ));
            }
            _ => {}
        }
        let (values, places) = sorted.unzip();
        encodings.push(Encoding { column, values });
        moved.push(places);
    }
    if plain {
        return Ok((encodings, values));
    }
    let mut encoded = Vec::new();
    for row in values.chunks_exact(moved.len()) {
        for (value, places) in row.iter().zip(&moved) {
            match places {
                None => encoded.push(*value),
                Some(places) if value.is_nan() => {
                    encoded.extend((1..places.len()).map(|_| f64::NAN));
                }
                Some(places) => {
                    let now = places[*value as usize];
                    encoded.extend((1..places.len()).map(|at| f64::from(u8::from(at == now))));
                }
            }
        }
    }
    Ok((encodings, encoded))
}
