//! Estimates of all clients, in parallel where they do not depend on each other.

use fedback_fit::bracket::bracket;
use fedback_fit::contrast::Contrasts;
use fedback_fit::location::{LocationTest, location_test};
use fedback_fit::missing::missing;
use fedback_fit::model::{Direction, Model, Shape};
use fedback_fit::moments::Moments;
use fedback_fit::observations::{Observations, Sample};
use fedback_fit::selection::{Evidence, adjusted, anywhere, choose_shape, moving};
use rayon::prelude::*;

use super::doubts::{self, Tested};
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
        let mut clients: Vec<FittedClient> = evidence
            .into_par_iter()
            .zip(adjusted(&moved))
            .enumerate()
            .map(|(at, (evidence, moved))| {
                let (deployments, features) = (&input.deployments, &model.features);
                let (confidence, seed) = (question.confidence, question.seed);
                let missing = missing(&input.observations[at], deployments);
                FittedClient {
                    estimate: model.estimate(deployments, &evidence.moments),
                    bracket: bracket(&evidence, deployments, features, confidence, seed, at as u32),
                    location: None,
                    linearity: linear
                        .against(None, deployments, &evidence.moments)
                        .map(Tested::new),
                    labels: label_p_value(&input.labels[at]).map(Tested::new),
                    missing: missing.into_iter().map(|m| (m, m.p_value.map(Tested::new))).collect(),
                    moved,
                    evidence,
                }
            })
            .collect();
        let tests = doubts::count(&mut clients) + clients.len();
        clients.par_iter_mut().enumerate().for_each(|(at, client)| {
            let (evidence, features) = (&client.evidence, &model.features);
            let (seed, deployments) = (question.seed, &input.deployments);
            client.location =
                match location_test(evidence, deployments, features, seed, at as u32, tests) {
                    LocationTest::PValue(p) => Some(Tested::new(p)),
                    LocationTest::Binary => None,
                };
        });
        let tests = doubts::correct(&mut clients);
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
            tests,
            seed: question.seed,
            input,
        };
        fitted.not_identified = words::not_identified(&fitted);
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
}

/// The deployment whose rows become the base. Where labels are classes, both must occur there.
fn reference(input: &Input, question: &Question) -> Result<usize, Error> {
    let reference = named_reference(input, question)?;
    let mut labels = input.labels.iter().flat_map(|client| &client[reference]);
    if let (true, Some(first)) = (input.binary(), labels.next())
        && labels.all(|label| label == first)
    {
        let why = format!(
            "every label under the deployment \"{}\" is {first}; the logistic loss needs both \
             classes: choose another deployment, or leave the labels out with --ignore {}",
            input.names[reference],
            input.label.as_deref().unwrap_or("label")
        );
        return Err(Error::input("--reference", why));
    }
    Ok(reference)
}

fn named_reference(input: &Input, question: &Question) -> Result<usize, Error> {
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

/// The p-value of the mean of a client's labels staying; none without labels.
fn label_p_value(labels: &[Vec<f64>]) -> Option<f64> {
    if labels.iter().all(Vec::is_empty) {
        return None;
    }
    let sample = |values: &Vec<f64>| Sample { values: values.clone(), individuals: None };
    let samples = labels.iter().map(sample).collect();
    Some(Evidence::new(Observations { dim: 1, samples }).moved()[0])
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
