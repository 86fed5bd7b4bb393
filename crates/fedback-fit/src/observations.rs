//! What one client saw under each deployment.

use std::collections::BTreeMap;

/// The rows of one client, deployment by deployment.
#[derive(Clone, Debug)]
pub struct Observations {
    /// Features of a row.
    pub dim: usize,
    /// One sample a deployment.
    pub samples: Vec<Sample>,
}

/// The rows under one deployment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Row after row.
    pub values: Vec<f64>,
    /// Who each row is about, at most once a sample; none where nobody is identified.
    pub individuals: Option<Vec<usize>>,
}

impl Observations {
    /// The rows of one deployment.
    pub fn rows(&self, deployment: usize) -> std::slice::ChunksExact<'_, f64> {
        self.samples[deployment].values.chunks_exact(self.dim)
    }

    /// How many rows each deployment has.
    pub fn counts(&self) -> Vec<usize> {
        self.samples.iter().map(|sample| sample.values.len() / self.dim).collect()
    }

    /// The rows of those who were seen under every deployment, in the same order under each; none
    /// where nobody is identified.
    pub fn complete(&self) -> Option<Observations> {
        let mut seen = BTreeMap::<usize, Vec<usize>>::new();
        for (k, sample) in self.samples.iter().enumerate() {
            for (row, individual) in sample.individuals.as_ref()?.iter().enumerate() {
                let rows = seen.entry(*individual).or_default();
                if rows.len() == k {
                    rows.push(row);
                }
            }
        }
        seen.retain(|_, rows| rows.len() == self.samples.len());
        let samples = (0..self.samples.len()).map(|k| Sample {
            values: seen
                .values()
                .flat_map(|rows| &self.samples[k].values[rows[k] * self.dim..][..self.dim])
                .copied()
                .collect(),
            individuals: Some((0..seen.len()).collect()),
        });
        Some(Observations { dim: self.dim, samples: samples.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_individuals_are_aligned() {
        let sample = |values: &[f64], individuals: &[usize]| Sample {
            values: values.to_vec(),
            individuals: Some(individuals.to_vec()),
        };
        let all = Observations {
            dim: 1,
            samples: vec![
                sample(&[10.0, 11.0, 12.0, 13.0], &[0, 1, 2, 3]),
                sample(&[33.0, 31.0, 30.0, 39.0], &[3, 1, 0, 9]),
                sample(&[51.0, 53.0, 52.0], &[1, 3, 2]),
            ],
        };
        let complete = all.complete().unwrap();
        assert_eq!(complete.counts(), [2, 2, 2]);
        assert_eq!(complete.samples[0].values, [11.0, 13.0]);
        assert_eq!(complete.samples[1].values, [31.0, 33.0]);
        assert_eq!(complete.samples[2].values, [51.0, 53.0]);
        let mut unknown = all.clone();
        unknown.samples[1].individuals = None;
        assert!(unknown.complete().is_none());
    }
}
