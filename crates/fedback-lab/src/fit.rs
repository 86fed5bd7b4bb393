//! From observations under several deployments to a spec: how each client reacts.
//!
//! The way: [`Input`] (two files, checked) → [`Fitted`] (estimates, by `fedback_fit`) → a folder with
//! the spec, its base, resamples of the estimates and a picture.

mod doubts;
mod estimate;
mod folder;
mod input;
mod json;
mod picture;
mod words;

use std::path::Path;

use fedback_core::stream::Seed;
use fedback_fit::bracket::Bracket;
use fedback_fit::contrast::Joint;
use fedback_fit::missing::Missing;
use fedback_fit::model::{Direction, Model, Shape};
use fedback_fit::selection::{Choice, Evidence};

use crate::error::Error;
use crate::spec::KeyError;

pub use doubts::Tested;
pub use folder::Folder;
pub use input::{Columns, Input};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The kind of response; by whether there are labels where it is left out.
    pub response: Option<Direction>,
    /// The features that move; tested where they are left out.
    pub features: Option<Vec<String>>,
    /// The shape of the response; the simplest that is not rejected where it is left out.
    pub shape: Option<Shape>,
    /// The deployment whose rows become the base; the first where it is left out.
    pub reference: Option<String>,
    /// The confidence of intervals and brackets.
    pub confidence: f64,
    /// Everything random comes from it.
    pub seed: Seed,
}

impl Question {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        match (0.5..1.0).contains(&self.confidence) {
            true => Ok(()),
            false => {
                let allowed = "allowed: 0.5 or more, and below 1";
                let why = format!("found {}; {allowed}", self.confidence);
                Err(Error::Question(KeyError::new("confidence", why)))
            }
        }
    }
}

/// Reads two files, fits, and writes a folder, which must not be there unless it may be replaced.
pub fn fit(
    (data, deployments): (&Path, &Path),
    columns: &Columns,
    question: &Question,
    (output, replace): (&Path, bool),
) -> Result<(Fitted, Folder), Error> {
    question.check()?;
    let folder = Folder::new(output, replace)?;
    let fitted = Fitted::new(Input::read(data, deployments, columns)?, question)?;
    folder.write(&fitted)?;
    Ok((fitted, folder))
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// What it was found from.
    pub input: Input,
    /// The response: direction, features and shape.
    pub model: Model,
    /// The features whose means moved, by tests over all clients.
    pub moving: Vec<usize>,
    /// For every feature the p-value of it moving nowhere, accounting for all tests.
    pub anywhere: Vec<f64>,
    /// Whether the features were named rather than tested.
    pub features_given: bool,
    /// What the tests said of the shape.
    pub choice: Choice,
    /// Whether the shape was named rather than chosen.
    pub shape_given: bool,
    /// The place of the reference deployment.
    pub reference: usize,
    /// The confidence of intervals and brackets.
    pub confidence: f64,
    /// What was found of every client.
    pub clients: Vec<FittedClient>,
    /// What the data cannot tell.
    pub not_identified: Vec<String>,
    /// Tests of all clients together that raise doubts: p-values are corrected for their number.
    pub tests: usize,
    /// Everything random came from it.
    pub seed: Seed,
}

/// What was found of one client.
#[derive(Clone, Debug)]
pub struct FittedClient {
    /// The rows that were used.
    pub evidence: Evidence,
    /// The numbers of the sensitivity, with their covariance.
    pub estimate: Joint,
    /// The bracket of the sensitivity, without a model.
    pub bracket: Bracket,
    /// Whether it is a location shift; none where features have two values only, whose spread cannot
    /// but change with their mean.
    pub location: Option<Tested>,
    /// Whether means are linear in θ; none where the deployments cannot tell.
    pub linearity: Option<Tested>,
    /// Whether the labels stay as they are; none without labels.
    pub labels: Option<Tested>,
    /// Who is not seen again, and whether that does not depend on the score.
    pub missing: Vec<(Missing, Option<Tested>)>,
    /// For every feature, the p-value of its mean staying, accounting for all tests.
    pub moved: Vec<f64>,
}
