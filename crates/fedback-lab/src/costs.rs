//! What a run costs, counted per repetition. A budget is spent by the same count.

use fedback_engine::cohort::RecordedCohort;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::spec::{Batch, Deploy, RoundKeys};

/// What some rounds of one repetition took; an average over repetitions where clients were absent.
///
/// | Name | What one round takes |
/// |---|---|
/// | steps | E: local steps of one client |
/// | communications | 1 |
/// | uploads | K: updates that clients sent |
/// | sample_gradients | K · E · batch: gradients of single observations |
/// | rows_drawn | K · E · batch: observations drawn |
/// | deployments | K · E, or K where models are deployed once per round |
///
/// A client that is drawn twice counts twice, one that did not answer counts nothing. A batch of all
/// observations draws none, and takes no gradients of single ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Local steps of one client.
    pub steps: f64,
    /// Rounds of communication.
    pub communications: f64,
    /// Updates that clients sent.
    pub uploads: f64,
    /// Gradients of single observations.
    pub sample_gradients: f64,
    /// Observations drawn.
    pub rows_drawn: f64,
    /// Models deployed to a population.
    pub deployments: f64,
}

impl Costs {
    /// The names, in the order of [`Costs::values`].
    pub const NAMES: [&str; 6] =
        ["steps", "communications", "uploads", "sample_gradients", "rows_drawn", "deployments"];

    /// All counts.
    pub fn values(&self) -> [f64; 6] {
        let Costs { steps, communications, uploads, sample_gradients, rows_drawn, deployments } =
            *self;
        [steps, communications, uploads, sample_gradients, rows_drawn, deployments]
    }

    /// What [`Costs::values`] gave.
    pub(crate) fn of_values(values: [f64; 6]) -> Self {
        let [steps, communications, uploads, sample_gradients, rows_drawn, deployments] = values;
        Costs { steps, communications, uploads, sample_gradients, rows_drawn, deployments }
    }

    /// A count by its name.
    pub fn named(&self, name: &str) -> Option<f64> {
        let place = Costs::NAMES.iter().position(|known| *known == name)?;
        Some(self.values()[place])
    }

    /// In words; communications are rounds, and rows are drawn to take gradients.
    pub fn words(&self) -> String {
        let said = [
            ("steps", self.steps),
            ("uploads", self.uploads),
            ("sample gradients", self.sample_gradients),
            ("deployments", self.deployments),
        ];
        let said = said.iter().map(|(name, count)| format!("{} {name}", number(*count)));
        said.collect::<Vec<_>>().join(", ")
    }
}

impl Serialize for Costs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Costs::NAMES.into_iter().zip(self.values().map(number)))
    }
}

/// A count: whole unless it is an average.
fn number(count: f64) -> Value {
    match count.fract() == 0.0 && count < 2f64.powi(53) {
        true => (count as u64).into(),
        false => count.into(),
    }
}

/// What a round of a spec takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    cohort: f64,
    local_steps: f64,
    batch: f64,
    deployments: f64,
}

impl Prices {
    /// The prices of an algorithm with so many clients.
    pub fn of(keys: &RoundKeys, clients: usize) -> Self {
        let local_steps = keys.local_steps.0 as f64;
        Prices {
            cohort: keys.cohort.map_or(clients as f64, |cohort| cohort.0 as f64),
            local_steps,
            batch: match keys.batch {
                Batch::Sampled(size) => size.0 as f64,
                Batch::All(_) => 0.0,
            },
            deployments: match keys.deploy {
                Deploy::Step => local_steps,
                Deploy::Round => 1.0,
            },
        }
    }

    /// Of so many rounds, in which so many updates were missing.
    pub fn after(&self, rounds: f64, missing: f64) -> Costs {
        let uploads = rounds * self.cohort - missing;
        let rows = uploads * self.local_steps * self.batch;
        Costs {
            steps: rounds * self.local_steps,
            communications: rounds,
            uploads,
            sample_gradients: rows,
            rows_drawn: rows,
            deployments: uploads * self.deployments,
        }
    }

    /// How many updates were missing from a cohort that was recorded.
    pub fn missing(&self, cohort: &RecordedCohort) -> f64 {
        self.cohort - cohort.members.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use fedback_core::federation::ClientId;
    use fedback_core::protocol::Round;
    use serde_json::json;

    use super::*;
    use crate::outcome::Curve;
    use crate::spec::{Document, Spec};

    fn spec(algorithm: &str) -> Spec {
        let text = format!(
            "rounds = 4\nrepetitions = 2\nproblem = {{ clients = 3, loss = {{ kind = \"mean\" }}, \
             base = {{ kind = \"gaussian\", mean = 1.0 }} }}\nalgorithm = {{ kind = \"p-fedavg\", \
             step_size = {{ constant = 0.1 }}, local_steps = 5, {algorithm} }}"
        );
        let mut points = Document::parse(&text, "test").and_then(|one| one.points()).unwrap();
        points.remove(0).spec
    }

    fn of_two_rounds(algorithm: &str) -> [f64; 6] {
        Prices::of(spec(algorithm).algorithm.rounds(), 3).after(2.0, 0.0).values()
    }

    #[test]
    fn two_rounds_by_hand() {
        let full = of_two_rounds("scheme = \"full\", batch = 4");
        assert_eq!(full, [10.0, 2.0, 6.0, 120.0, 120.0, 30.0]);
        let cohort = of_two_rounds("scheme = \"with-replacement\", cohort = 2, deploy = \"round\"");
        assert_eq!(cohort, [10.0, 2.0, 4.0, 20.0, 20.0, 4.0]);
        let all = of_two_rounds("scheme = \"full\", batch = \"all\"");
        assert_eq!(all, [10.0, 2.0, 6.0, 0.0, 0.0, 30.0]);
    }

    #[test]
    fn absences_count_from_the_round_that_lacked_them() {
        let mut curve = Curve::new(&spec("scheme = \"full\""), 3, &[]);
        let members = vec![ClientId(0), ClientId(2)];
        let (round, coefficients) = (Round(1), vec![0.5, 0.5]);
        curve.count(&RecordedCohort { repetition: 1, round, members, coefficients });
        (0..4).for_each(|round| curve.add(round, &[]));
        let uploads: Vec<f64> = curve.points.iter().map(|point| point.costs.uploads).collect();
        assert_eq!(uploads, [0.0, 3.0, 5.5, 8.5]);
        let costs = json!(curve.costs());
        assert_eq!(costs["uploads"], json!(8.5));
        assert_eq!(costs["steps"], json!(15));
    }
}
