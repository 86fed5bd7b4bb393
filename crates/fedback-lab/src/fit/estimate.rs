//! Estimates of all clients, in parallel where they do not depend on each other.

use fedback_fit::bracket::bracket;
use fedback_fit::contrast::{Contrasts, holm};
use fedback_fit::location::{LocationTest, location_test};
use fedback_fit::model::{Direction, Model, Shape};
use fedback_fit::moments::Moments;
use fedback_fit::observations::{Observations, Sample};
use fedback_fit::selection::{self, Evidence, LEVEL, adjusted, anywhere, choose_shape, moving};
use rayon::prelude::*;

use super::{Fitted, FittedClient, Input, Question, words};
use crate::error::Error;

impl Fitted {
    /// Estimates the response of every client.
    pub fn new(mut input: Input, question: &Question) -> Result<Self, Error> {
        let reference = reference(&input, question)?;
        let direction = question.response.unwrap_or(match input.label {
            Some(_) => Direction::BestResponse,
            None => Direction::Location,
        });
        if input.intercepts.is_some() && input.label.is_none() {
            let why = "models of the mean have none; name the label with --label, or leave the \
                       column out with --ignore intercept";
            return Err(Error::input("intercept", why));
        }
        let observations = std::mem::take(&mut input.observations);
        let evidence: Vec<Evidence> = observations.par_iter().cloned().map(Evidence::new).collect();
        input.observations = observations;
        let moved: Vec<Vec<f64>> = evidence.par_iter().map(Evidence::moved).collect();
        let anywhere = anywhere(&moved);
        let features = features(&input, question, direction, &moving(&anywhere))?;
        let moments: Vec<&Moments> = evidence.iter().map(|client| &client.moments).collect();
        let choice = choose_shape(direction, &features, &input.deployments, &moments);
        let shape = question.shape.unwrap_or(choice.shape);
        let model = Model { direction, features, shape };
        check_shape(&input, &model, choice.identified)?;
        let linear = Model { shape: Shape::Matrix, ..model.clone() };
        let clients: Vec<FittedClient> = evidence
            .into_par_iter()
            .zip(adjusted(&moved))
            .enumerate()
            .map(|(at, (evidence, moved))| {
                let (deployments, features) = (&input.deployments, &model.features);
                let (seed, client) = (question.seed, at as u32);
                FittedClient {
                    estimate: model.estimate(deployments, &evidence.moments),
                    bracket: bracket(
                        &evidence,
                        deployments,
                        features,
                        question.confidence,
                        seed,
                        client,
                    ),
                    location: location_test(&evidence, deployments, features, seed, client),
                    linearity: linear.against(None, deployments, &evidence.moments),
                    moved,
                    warnings: Vec::new(),
                    evidence,
                }
            })
            .collect();
        let mut fitted = Fitted {
            moving: moving(&anywhere),
            anywhere,
            model,
            features_given: question.features.is_some(),
            choice,
            shape_given: question.shape.is_some(),
            reference,
            confidence: question.confidence,
            clients,
            not_identified: Vec::new(),
            warnings: Vec::new(),
            seed: question.seed,
            input,
        };
        fitted.not_identified = words::not_identified(&fitted);
        fitted.warnings = words::warnings(&fitted);
        let labels = label_p_values(&fitted.input);
        for (client, label) in labels.into_iter().enumerate() {
            fitted.clients[client].warnings = words::client_warnings(&fitted, client, label);
        }
        Ok(fitted)
    }

    /// The numbers of one client's sensitivity in the form that a spec takes: for a location map
    /// that leaves some features alone, with zeros for these.
    pub fn spec_numbers(&self, numbers: &[f64]) -> (Shape, Vec<f64>) {
        let (dim, features) = (self.input.features.len(), &self.model.features);
        let whole = features.len() == dim;
        if self.model.direction == Direction::BestResponse || whole {
            return (self.model.shape, numbers.to_vec());
        }
        match self.model.shape {
            Shape::Scalar | Shape::Vector => {
                let mut wide = vec![0.0; dim];
                for (at, &j) in features.iter().enumerate() {
                    wide[j] = numbers[if numbers.len() == 1 { 0 } else { at }];
                }
                (Shape::Vector, wide)
            }
            Shape::Matrix => {
                let mut wide = vec![0.0; dim * dim];
                for (a, &j) in features.iter().enumerate() {
                    for (b, &l) in features.iter().enumerate() {
                        wide[j * dim + l] = numbers[a * features.len() + b];
                    }
                }
                (Shape::Matrix, wide)
            }
        }
    }

    /// Whether a client rejects a location shift.
    pub fn rejects_location(&self, client: usize) -> bool {
        matches!(self.clients[client].location, LocationTest::PValue(p) if p < LEVEL)
    }
}

fn reference(input: &Input, question: &Question) -> Result<usize, Error> {
    let Some(name) = &question.reference else { return Ok(0) };
    input.names.iter().position(|known| known == name).ok_or_else(|| {
        let known = input.names.join(", ");
        Error::input(
            "--reference",
            format!("no rows under the deployment \"{name}\"; allowed: {known}"),
        )
    })
}

/// The features that are taken to move.
fn features(
    input: &Input,
    question: &Question,
    direction: Direction,
    moving: &[usize],
) -> Result<Vec<usize>, Error> {
    let varied: Vec<usize> =
        (0..input.features.len()).filter(|&j| input.deployments.varies(j)).collect();
    let features = match &question.features {
        Some(names) => named(input, names)?,
        // A location map moves every feature; which of them shows in the estimates.
        None if direction == Direction::Location => (0..input.features.len()).collect(),
        None => {
            let found: Vec<usize> = moving.iter().copied().filter(|j| varied.contains(j)).collect();
            if found.is_empty() { varied.clone() } else { found }
        }
    };
    if !features.iter().any(|j| varied.contains(j)) {
        let names: Vec<&str> = features.iter().map(|&j| input.features[j].as_str()).collect();
        let why = format!(
            "θ is the same in every deployment on {}: nothing shows how these respond to it",
            names.join(", ")
        );
        return Err(Error::input("--features", why));
    }
    Ok(features)
}

fn named(input: &Input, names: &[String]) -> Result<Vec<usize>, Error> {
    let fail = |message: String| Error::input("--features", message);
    let mut features = Vec::new();
    for name in names.iter().map(|name| name.trim()) {
        let place = input.features.iter().position(|known| known == name).ok_or_else(|| {
            fail(format!("no feature \"{name}\"; features: {}", input.features.join(", ")))
        })?;
        if features.contains(&place) {
            return Err(fail(format!("\"{name}\" is listed twice")));
        }
        features.push(place);
    }
    features.sort_unstable();
    Ok(features)
}

fn check_shape(input: &Input, model: &Model, identified: bool) -> Result<(), Error> {
    let size = model.features.len();
    let names = |features: &[usize]| -> String {
        features.iter().map(|&j| input.features[j].as_str()).collect::<Vec<_>>().join(", ")
    };
    match model.shape {
        Shape::Scalar => Ok(()),
        Shape::Vector => {
            let fixed: Vec<usize> = (model.features.iter().copied())
                .filter(|&j| !input.deployments.varies(j))
                .collect();
            if fixed.is_empty() {
                return Ok(());
            }
            let varied: Vec<usize> =
                (model.features.iter().copied()).filter(|j| !fixed.contains(j)).collect();
            let why = format!(
                "vector: one number per feature is not identified, since θ is the same in every \
                 deployment on {}; leave it out with --features {}, or use --shape scalar",
                names(&fixed),
                names(&varied).replace(", ", ",")
            );
            Err(Error::input("--shape", why))
        }
        Shape::Matrix if identified => Ok(()),
        Shape::Matrix => {
            let why = format!(
                "matrix: needs {} deployments whose θ are affinely independent on {}; there are {} \
                 that vary it in {} of {size} directions",
                size + 1,
                names(&model.features),
                input.names.len(),
                input.deployments.rank(&model.features)
            );
            Err(Error::input("--shape", why))
        }
    }
}

/// For every client the p-value of the labels' mean staying, accounting for all clients; none
/// without labels.
fn label_p_values(input: &Input) -> Vec<Option<f64>> {
    if input.label.is_none() {
        return vec![None; input.clients.len()];
    }
    let p_value = |labels: &Vec<Vec<f64>>| {
        let sample = |values: &Vec<f64>| Sample { values: values.clone(), individuals: None };
        let samples: Vec<Sample> = labels.iter().map(sample).collect();
        let observations = Observations { dim: 1, samples };
        let moments = Moments::new(&observations);
        selection::Evidence { observations, paired: false, moments }.moved()[0]
    };
    let all: Vec<f64> = input.labels.iter().map(p_value).collect();
    holm(&all).into_iter().map(Some).collect()
}

/// The displacement of a feature's mean from the reference, with its interval.
pub(super) fn displacement(
    fitted: &Fitted,
    client: usize,
    deployment: usize,
    feature: usize,
) -> [f64; 3] {
    let moments = &fitted.clients[client].evidence.moments;
    let mut row = vec![0.0; moments.means.len()];
    row[deployment * moments.dim + feature] += 1.0;
    row[fitted.reference * moments.dim + feature] -= 1.0;
    let estimate = Contrasts::row(&row).of(moments).estimate(0);
    let (low, high) = estimate.interval(fitted.confidence);
    [estimate.value, low, high]
}
