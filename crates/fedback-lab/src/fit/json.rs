//! What was found, as JSON.

use fedback_fit::model::{Direction, Shape};
use fedback_fit::selection::LEVEL;
use serde_json::{Value, json};

use super::{Fitted, FittedClient, Folder, Tested};

impl Fitted {
    /// The JSON contract of `fedback fit`.
    pub fn to_json(&self, folder: &Folder) -> Value {
        let clients: Vec<Value> =
            (0..self.clients.len()).map(|client| self.client_json(client)).collect();
        json!({
            "format": 1,
            "response": self.response_name(),
            "features": self.names_of(&self.model.features),
            "features_given": self.features_given,
            "feature_p_values": self.anywhere,
            "shape": self.model.shape.name(),
            "shape_reason": self.shape_reason(),
            "shape_p_values": {
                "scalar": self.choice.scalar,
                "vector": self.choice.vector,
            },
            "confidence": self.confidence,
            "reference": self.input.names[self.reference],
            "deployments": (0..self.input.names.len())
                .map(|k| json!({ "name": self.input.names[k], "theta": self.input.theta(k) }))
                .collect::<Vec<_>>(),
            "coordinates": self.coordinates(),
            "clients": clients,
            "not_identified": self.not_identified,
            "tests": self.tests,
            "warnings": self.warnings(),
            "files": {
                "spec": folder.spec.display().to_string(),
                "base": folder.base.display().to_string(),
                "resamples": folder.resamples.display().to_string(),
                "figure": folder.figure.display().to_string(),
            },
        })
    }

    /// The response as a spec calls it.
    pub fn response_name(&self) -> &'static str {
        match self.model.direction {
            Direction::Location => "location",
            Direction::BestResponse => "best-response",
        }
    }

    /// The names of the coordinates of θ.
    pub fn coordinates(&self) -> Vec<String> {
        let intercept = self.input.intercepts.as_ref().map(|_| "intercept".to_string());
        self.input.features.iter().cloned().chain(intercept).collect()
    }

    /// Numbers in the nesting of the shape.
    pub(super) fn nested(&self, numbers: &[f64]) -> Value {
        match self.model.shape {
            Shape::Scalar => json!(numbers[0]),
            Shape::Vector => json!(numbers),
            Shape::Matrix => {
                json!(numbers.chunks(self.model.features.len()).collect::<Vec<_>>())
            }
        }
    }

    fn client_json(&self, at: usize) -> Value {
        let client = &self.clients[at];
        let estimates = client.estimates();
        let of = |what: &dyn Fn(usize) -> f64| {
            self.nested(&(0..estimates.len()).map(what).collect::<Vec<_>>())
        };
        let counts = self.input.observations[at].counts();
        let rows = self.input.names.iter().zip(counts);
        let binary = client.location.is_none();
        let moved = (0..self.input.features.len()).filter(|&j| client.moved[j] < LEVEL);
        let (a, b) = client.bracket.deployments;
        json!({
            "name": self.input.clients[at],
            "rows": rows
                .map(|(name, rows)| json!({ "deployment": name, "count": rows }))
                .collect::<Vec<_>>(),
            "paired_individuals": client.paired_individuals(),
            "sensitivity": self.nested(client.estimate.values.as_slice()),
            "standard_error": of(&|at| estimates[at].standard_error),
            "low": of(&|at| estimates[at].interval(self.confidence).0),
            "high": of(&|at| estimates[at].interval(self.confidence).1),
            "degrees_of_freedom": of(&|at| estimates[at].degrees),
            "bracket": {
                "low": client.bracket.low,
                "high": client.bracket.high,
                "upper": client.bracket.upper.name(),
                "between": [self.input.names[a], self.input.names[b]],
            },
            "location": {
                "p_value": client.location.map(|test| test.p_value),
                "corrected_p_value": client.location.map(|test| test.corrected),
                "rejected": client.location.map(|test| test.rejects()),
                "skipped": binary.then_some("the moving features have two values only"),
            },
            "linearity": tested(client.linearity),
            "labels": tested(client.labels),
            "missing": client.missing.iter().map(|(missing, test)| json!({
                "from": self.input.names[missing.from],
                "to": self.input.names[missing.from + 1],
                "count": missing.count,
                "of": missing.of,
                "by_score": tested(*test),
            })).collect::<Vec<_>>(),
            "moved": moved.map(|j| self.input.features[j].clone()).collect::<Vec<_>>(),
            "moved_p_values": client.moved,
            "warnings": self.client_doubts(at),
        })
    }
}

fn tested(test: Option<Tested>) -> Value {
    json!({
        "p_value": test.map(|test| test.p_value),
        "corrected_p_value": test.map(|test| test.corrected),
    })
}

impl FittedClient {
    /// The numbers of the sensitivity one by one.
    pub fn estimates(&self) -> Vec<fedback_fit::contrast::Estimate> {
        (0..self.estimate.values.len()).map(|at| self.estimate.estimate(at)).collect()
    }

    /// How many individuals were compared with themselves; none where rows were compared.
    pub fn paired_individuals(&self) -> Option<usize> {
        self.evidence.paired.then(|| self.evidence.moments.counts[0])
    }
}
