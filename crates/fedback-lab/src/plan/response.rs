//! From `[problem.response]` to the maps of all clients.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::response::{self, Sensitivity, Shift};
use fedback_core::stream::Seed;

use crate::draw::Shape;
use crate::spec::{KeyError, Problem, Response};

/// What a list of sensitivities is about: which coordinates move, and which way.
pub(super) enum Form {
    /// Nothing reacts.
    None,
    /// Every feature moves with θ.
    Location { features: usize, intercept: bool },
    /// Some features move against θ.
    BestResponse { moving: Vec<usize>, dim: usize },
}

impl Form {
    /// The form of a response, once its features have been found among the columns.
    pub(super) fn of(response: &Response, base: &Base) -> Result<Self, KeyError> {
        let intercept = matches!(base, Base::Table(table) if table.intercept);
        let features = base.width() - usize::from(intercept);
        match response {
            Response::None => Ok(Form::None),
            Response::Location(_) => Ok(Form::Location { features, intercept }),
            Response::BestResponse(best) => {
                let Base::Table(table) = base else {
                    let why =
                        "moves named columns; allowed with the base \"gaussian\": none, location";
                    return Err(fail("kind", format!("best-response {why}")));
                };
                let moving = moving(&best.features, &table.coordinates[..features])?;
                Ok(Form::BestResponse { moving, dim: base.width() })
            }
        }
    }

    /// Coordinates of a vector of sensitivities.
    pub(super) fn size(&self) -> usize {
        match self {
            Form::None => 0,
            Form::Location { features, .. } => *features,
            Form::BestResponse { moving, .. } => moving.len(),
        }
    }

    /// The maps of all clients.
    pub(super) fn shift(&self, sensitivity: &Sensitivity) -> Shift {
        match self {
            Form::None => Shift::None,
            Form::Location { features, intercept } => {
                response::location(sensitivity, *features, *intercept)
            }
            Form::BestResponse { moving, dim } => {
                response::best_response(sensitivity, moving, *dim)
            }
        }
    }
}

fn fail(key: &str, message: String) -> KeyError {
    KeyError::new(format!("problem.response.{key}"), message)
}

fn moving(features: &[String], names: &[String]) -> Result<Vec<usize>, KeyError> {
    let mut moving = Vec::new();
    for feature in features {
        let column = names.iter().position(|name| name == feature).ok_or_else(|| {
            let columns = names.join(", ");
            fail("features", format!("no column \"{feature}\"; features: {columns}"))
        })?;
        if moving.contains(&column) {
            return Err(fail("features", format!("\"{feature}\" is listed twice")));
        }
        moving.push(column);
    }
    if moving.is_empty() {
        let why = "the list is empty; name the columns that move, or use kind = \"none\"";
        return Err(fail("features", why.into()));
    }
    Ok(moving)
}

/// Checks and builds `[problem.response]`.
pub(super) fn build(
    problem: &Problem,
    base: &Base,
    weights: &[f64],
    seed: Seed,
) -> Result<Shift, KeyError> {
    let form = Form::of(&problem.response, base)?;
    let Some(values) = problem.response.sensitivity() else { return Ok(Shift::None) };
    let names = match base {
        Base::Table(table) => table.client_names.as_deref(),
        Base::Gaussian(_) => None,
    };
    let sensitivity = Shape { weights, dim: form.size(), names, seed }
        .sensitivities(values)
        .map_err(|message| fail("sensitivity", message))?;
    Ok(form.shift(&sensitivity))
}

/// A base that was recorded under a deployed θ_ref is what the response has made of another one:
/// z = z_base + M_i (θ − θ_ref). Moving it by −M_i θ_ref once leaves everything else as it is.
pub(super) fn rebase(problem: &Problem, federation: Federation) -> Result<Federation, KeyError> {
    let Some(reference) = problem.response.reference() else { return Ok(federation) };
    let (found, dim) = (reference.len(), federation.dim());
    if found != dim {
        let names = federation.coordinates().map(|names| format!(": {}", names.join(", ")));
        let names = names.unwrap_or_default();
        let why = format!("the list has {found} entries; θ has {dim} coordinates{names}");
        return Err(fail("reference", why));
    }
    Ok(federation.recorded_under(&reference))
}
