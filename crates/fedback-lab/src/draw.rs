//! Weights, means and sensitivities that a spec describes rather than lists.
//!
//! All draws come from the problem's seed, so that sampling can vary alone. What is drawn is then
//! moved so that the described moments are met exactly, not on average.

use fedback_core::response::Sensitivity;
use fedback_core::stream::{Draws, Purpose, Seed, Stream};

use crate::spec::{Entry, NumberOrVector, PerClient, in_order};

/// Weights p_i ∝ e_i^a with exponentials e_i and the a ≥ 0 at which (1/N) Σ (p_i − 1/N)² is
/// `variance`, found by bisection. None where no a is large enough.
pub fn weights(clients: usize, variance: f64, seed: Seed) -> Option<Vec<f64>> {
    let mut draws = Stream::for_problem(seed, Purpose::Weights).draws();
    let logs: Vec<f64> = (0..clients).map(|_| libm::log(draws.exponential())).collect();
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let at = |power: f64| {
        let raw: Vec<f64> = logs.iter().map(|log| libm::exp(power * (log - largest))).collect();
        let total: f64 = raw.iter().sum();
        raw.into_iter().map(|w| w / total).collect::<Vec<f64>>()
    };
    let spread = |weights: &[f64]| {
        let even = 1.0 / clients as f64;
        weights.iter().map(|p| (p - even) * (p - even)).sum::<f64>() / clients as f64
    };
    let (mut low, mut high) = (0.0, 1.0);
    while spread(&at(high)) < variance {
        high *= 2.0;
        if high > 1e12 {
            return None;
        }
    }
    while high - low > 1e-15 * high {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if spread(&at(middle)) < variance { low = middle } else { high = middle }
    }
    Some(at(if variance == 0.0 { 0.0 } else { high }))
}

/// Who is asking: how many clients with which weights, and how many coordinates.
pub struct Shape<'a> {
    /// The clients' weights.
    pub weights: &'a [f64],
    /// Coordinates of a vector.
    pub dim: usize,
    /// The clients' names, where they have any.
    pub names: Option<&'a [String]>,
    /// The seed of the problem.
    pub seed: Seed,
}

impl Shape<'_> {
    fn clients(&self) -> usize {
        self.weights.len()
    }

    fn draws(&self, purpose: Purpose) -> Draws {
        Stream::for_problem(self.seed, purpose).draws()
    }

    /// The means of all clients, one after the other.
    pub fn means(&self, values: &PerClient) -> Result<Vec<f64>, String> {
        self.vectors(values, Purpose::Means)
    }

    /// A vector for every client, one after the other.
    pub fn vectors(&self, values: &PerClient, purpose: Purpose) -> Result<Vec<f64>, String> {
        let mut draws = self.draws(purpose);
        let columns = match values {
            PerClient::List(entries) => {
                self.check_count(entries.len())?;
                let rows = entries.iter().enumerate().map(|(client, entry)| match entry {
                    Entry::Number(number) => Ok(vec![*number; self.dim]),
                    Entry::Vector(vector) => self.check_length(client, vector).cloned(),
                    Entry::Matrix(_) => {
                        Err(format!("entry {client} is a matrix; allowed: a number or a vector"))
                    }
                });
                return rows.collect::<Result<Vec<_>, _>>().map(|rows| rows.concat());
            }
            PerClient::Same(number) => return Ok(vec![number.0; self.clients() * self.dim]),
            PerClient::ByName { by_name, default } => {
                let entries = in_order(by_name, default.as_ref(), self.names)?;
                return self.vectors(&PerClient::List(entries), purpose);
            }
            PerClient::Range { low, high } => (0..self.dim)
                .map(|_| self.uniform(low.0, high.0, &mut draws))
                .collect::<Vec<Vec<f64>>>(),
            PerClient::Moments { average, variance } => self
                .averages(average)?
                .into_iter()
                .map(|average| self.moments(average, variance.0, &mut draws))
                .collect::<Result<_, _>>()?,
        };
        Ok((0..self.clients()).flat_map(|i| columns.iter().map(move |column| column[i])).collect())
    }

    /// The sensitivities of all clients, in the simplest form that holds them.
    pub fn sensitivities(&self, values: &PerClient) -> Result<Sensitivity, String> {
        let mut draws = self.draws(Purpose::Sensitivities);
        match values {
            PerClient::Same(number) => Ok(Sensitivity::Scalar(vec![number.0; self.clients()])),
            PerClient::Range { low, high } => {
                Ok(Sensitivity::Scalar(self.uniform(low.0, high.0, &mut draws)))
            }
            PerClient::Moments { average: NumberOrVector::Number(average), variance } => {
                self.moments(*average, variance.0, &mut draws).map(Sensitivity::Scalar)
            }
            PerClient::Moments { average, variance } => {
                let columns = self
                    .averages(average)?
                    .into_iter()
                    .map(|average| self.moments(average, variance.0, &mut draws))
                    .collect::<Result<Vec<_>, _>>()?;
                let row = |i: usize| columns.iter().map(|column| column[i]).collect();
                Ok(Sensitivity::PerCoordinate((0..self.clients()).map(row).collect()))
            }
            PerClient::List(entries) => self.listed_sensitivities(entries),
            PerClient::ByName { by_name, default } => {
                self.listed_sensitivities(&in_order(by_name, default.as_ref(), self.names)?)
            }
        }
    }

    fn listed_sensitivities(&self, entries: &[Entry]) -> Result<Sensitivity, String> {
        self.check_count(entries.len())?;
        if entries.iter().all(|entry| matches!(entry, Entry::Number(_))) {
            let scalars = entries.iter().map(|entry| match entry {
                Entry::Number(number) => *number,
                _ => 0.0,
            });
            return Ok(Sensitivity::Scalar(scalars.collect()));
        }
        let vector = |client: usize, entry: &Entry| match entry {
            Entry::Vector(vector) => self.check_length(client, vector).cloned(),
            Entry::Number(number) => Ok(vec![*number; self.dim]),
            Entry::Matrix(_) => Err(String::new()),
        };
        if !entries.iter().any(|entry| matches!(entry, Entry::Matrix(_))) {
            let rows = entries.iter().enumerate().map(|(client, entry)| vector(client, entry));
            return rows.collect::<Result<_, _>>().map(Sensitivity::PerCoordinate);
        }
        let matrices = entries.iter().enumerate().map(|(client, entry)| match entry {
            Entry::Matrix(rows) if rows.len() == self.dim => {
                rows.iter().map(|row| self.check_length(client, row).cloned()).collect()
            }
            Entry::Matrix(rows) => Err(format!(
                "the matrix of entry {client} has {} rows; needed: {dim} × {dim}",
                rows.len(),
                dim = self.dim
            )),
            other => Ok(diagonal(&vector(client, other)?)),
        });
        matrices.collect::<Result<_, _>>().map(Sensitivity::Matrix)
    }

    fn check_count(&self, found: usize) -> Result<(), String> {
        match found == self.clients() {
            true => Ok(()),
            false => Err(format!(
                "the list has {found} entries; needed: one per client, {}",
                self.clients()
            )),
        }
    }

    fn check_length<'v>(
        &self,
        client: usize,
        vector: &'v Vec<f64>,
    ) -> Result<&'v Vec<f64>, String> {
        match vector.len() == self.dim {
            true => Ok(vector),
            false => Err(format!(
                "entry {client} has {} numbers; needed: one per coordinate, {}",
                vector.len(),
                self.dim
            )),
        }
    }

    fn averages(&self, average: &NumberOrVector) -> Result<Vec<f64>, String> {
        match average {
            NumberOrVector::Number(number) => Ok(vec![*number; self.dim]),
            NumberOrVector::Vector(vector) if vector.len() == self.dim => Ok(vector.clone()),
            NumberOrVector::Vector(vector) => Err(format!(
                "average has {} numbers; needed: one per coordinate, {}",
                vector.len(),
                self.dim
            )),
        }
    }

    fn uniform(&self, low: f64, high: f64, draws: &mut Draws) -> Vec<f64> {
        (0..self.clients()).map(|_| low + (high - low) * draws.uniform()).collect()
    }

    /// Normal draws moved to the given p-weighted mean and variance.
    fn moments(&self, average: f64, variance: f64, draws: &mut Draws) -> Result<Vec<f64>, String> {
        let raw: Vec<f64> = (0..self.clients()).map(|_| draws.normal()).collect();
        let mean = |values: &[f64]| -> f64 {
            self.weights.iter().zip(values).map(|(p, value)| p * value).sum()
        };
        let centre = mean(&raw);
        let squares: Vec<f64> = raw.iter().map(|x| (x - centre) * (x - centre)).collect();
        let spread = mean(&squares);
        if variance > 0.0 && spread <= f64::EPSILON {
            return Err(format!(
                "variance = {variance} needs two clients of positive weight or more; set it to 0"
            ));
        }
        let scale = if variance > 0.0 { libm::sqrt(variance / spread) } else { 0.0 };
        Ok(raw.iter().map(|x| average + (x - centre) * scale).collect())
    }
}

fn diagonal(values: &[f64]) -> Vec<Vec<f64>> {
    let row = |j: usize| (0..values.len()).map(|k| if j == k { values[j] } else { 0.0 }).collect();
    (0..values.len()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::NonNegative;

    #[test]
    fn drawn_weights_have_the_variance() {
        for variance in [0.0, 1e-4, 0.01, 0.03] {
            let p = weights(25, variance, Seed(3)).unwrap();
            let found = p.iter().map(|p| (p - 0.04).powi(2)).sum::<f64>() / 25.0;
            assert!((found - variance).abs() < 1e-12, "{found}");
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn drawn_moments_are_exact() {
        let p = weights(9, 0.005, Seed(1)).unwrap();
        let shape = Shape { weights: &p, dim: 2, names: None, seed: Seed(4) };
        let values = PerClient::Moments {
            average: NumberOrVector::Vector(vec![0.9, -2.0]),
            variance: NonNegative(0.1),
        };
        let means = shape.means(&values).unwrap();
        let Sensitivity::PerCoordinate(rows) = shape.sensitivities(&values).unwrap() else {
            panic!("vectors")
        };
        for (j, average) in [0.9, -2.0].into_iter().enumerate() {
            for column in [
                means.iter().skip(j).step_by(2).copied().collect::<Vec<_>>(),
                rows.iter().map(|row| row[j]).collect(),
            ] {
                let mean: f64 = p.iter().zip(&column).map(|(p, x)| p * x).sum();
                let variance: f64 =
                    p.iter().zip(&column).map(|(p, x)| p * (x - mean).powi(2)).sum();
                assert!((mean - average).abs() < 1e-12 && (variance - 0.1).abs() < 1e-12);
            }
        }
    }
}
