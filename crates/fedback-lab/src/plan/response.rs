//! From `[problem.response]` to how all clients react.

use fedback_core::base::{Base, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::response::{
    self, Bounded, Outcome, Response, Retention, Sensitivity, Shift, Strategic,
};
use fedback_core::stream::Seed;

use crate::draw::Shape;
use crate::own::{self, Setting};
use crate::spec::{self, Entry, KeyError, NumberOrVector, PerClient, Problem};

/// What a list of sensitivities is about: which coordinates move, and which way.
pub(super) enum Form {
    /// Nothing moves.
    None,
    /// Every feature moves with θ.
    Location { features: usize, intercept: bool },
    /// Some features move against θ.
    BestResponse { moving: Vec<usize>, dim: usize },
}

impl Form {
    /// The form of a response, once its features have been found among the columns.
    pub(super) fn of(response: &spec::Response, base: &Base) -> Result<Self, KeyError> {
        let intercept = matches!(base, Base::Table(table) if table.intercept);
        let features = base.width() - usize::from(intercept);
        match response {
            spec::Response::None
            | spec::Response::Strategic(_)
            | spec::Response::Outcome(_)
            | spec::Response::Retention(_)
            | spec::Response::Own(_) => Ok(Form::None),
            spec::Response::Location(_) | spec::Response::Saturating(_) => {
                Ok(Form::Location { features, intercept })
            }
            spec::Response::BestResponse(best) => {
                let moving = moving(&best.features, columns(response, base)?)?;
                Ok(Form::BestResponse { moving, dim: base.width() })
            }
        }
    }

    /// Coordinates of a vector of sensitivities.
    pub(super) fn size(&self) -> usize {
        match self {
            Form::None => 1,
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

/// The names of a table's features.
fn columns<'a>(response: &spec::Response, base: &'a Base) -> Result<&'a [String], KeyError> {
    match base {
        Base::Table(table) => Ok(&table.coordinates[..table.dim - usize::from(table.intercept)]),
        Base::Gaussian(_) => {
            let why = "names columns; allowed with the base \"gaussian\": none, location, \
                       saturating, retention by client";
            Err(fail("kind", format!("{} {why}", response.kind())))
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
    loss: Loss,
    weights: &[f64],
    seed: Seed,
) -> Result<Response, KeyError> {
    let response = &problem.response;
    let form = Form::of(response, base)?;
    let names = match base {
        Base::Table(table) => table.client_names.as_deref(),
        Base::Gaussian(_) => None,
    };
    let each = || match response.each() {
        None => Ok(Sensitivity::Scalar(Vec::new())),
        Some((key, values)) => Shape { weights, dim: form.size(), names, seed }
            .sensitivities(values)
            .map_err(|message| fail(key, message)),
    };
    // One number a client.
    let numbers =
        |key: &str, values: &PerClient| match are_numbers(values).then(each).transpose()? {
            Some(Sensitivity::Scalar(numbers)) => Ok(numbers),
            None | Some(Sensitivity::PerCoordinate(_) | Sensitivity::Matrix(_)) => {
                let why = "found a vector or a matrix; allowed: a number per client";
                Err(fail(key, why.into()))
            }
        };
    match response {
        spec::Response::None => Ok(Shift::None.into()),
        spec::Response::Location(_) | spec::Response::BestResponse(_) => {
            let shift = form.shift(&each()?);
            bounded(response, base, shift)
        }
        spec::Response::Saturating(saturating) => {
            let (of, limit) = (Box::new(form.shift(&each()?)), saturating.limit.0);
            Ok(Shift::Saturating { of, limit }.into())
        }
        spec::Response::Strategic(strategic) => Ok(Response::Strategic(Strategic {
            features: moving(&strategic.features, columns(response, base)?)?,
            wants: match strategic.wants {
                spec::Wants::Positive => response::Wants::Positive,
                spec::Wants::Negative => response::Wants::Negative,
            },
            threshold: strategic.threshold.0,
            budget: strategic.reach().map_err(|wrong| fail(&wrong.key, wrong.message))?,
            share: strategic.share.0,
            smoothing: strategic.smoothing.0,
        })),
        spec::Response::Outcome(outcome) => {
            let strength = numbers("strength", &outcome.strength)?;
            Ok(Response::Outcome(Outcome { strength }))
        }
        spec::Response::Retention(retention) => {
            let rate = numbers("rate", &retention.rate)?;
            Ok(Response::Retention(staying(base, retention, loss, rate)?))
        }
        spec::Response::Own(section) => {
            let Base::Table(table) = base else {
                let kind = section.kind();
                let why = format!("\"{kind}\" is about rows; normal data have none: give a table");
                return Err(fail("kind", why));
            };
            let setting = Setting { table, loss, weights, seed };
            Ok(Response::Own(own::build(section.kind(), section.keys(), &setting)?))
        }
    }
}

/// Whether no client has a vector or a matrix.
fn are_numbers(values: &PerClient) -> bool {
    let is_number = |entry: &Entry| matches!(entry, Entry::Number(_));
    match values {
        PerClient::Same(_) | PerClient::Range { .. } => true,
        PerClient::List(entries) => entries.iter().all(is_number),
        PerClient::ByName { by_name, default } => by_name.values().chain(default).all(is_number),
        PerClient::Moments { average, .. } => matches!(average, NumberOrVector::Number(_)),
    }
}

/// Who leaves.
fn staying(
    base: &Base,
    retention: &spec::Retention,
    loss: Loss,
    rate: Vec<f64>,
) -> Result<Retention, KeyError> {
    let by = match (&retention.by, base) {
        (spec::By::Client, _) => response::By::Client,
        (by @ (spec::By::Label | spec::By::Row | spec::By::Column { .. }), Base::Gaussian(_)) => {
            let found = match by {
                spec::By::Client => "client",
                spec::By::Label => "label",
                spec::By::Row => "row",
                spec::By::Column { .. } => "column",
            };
            let why = "normal data have no labels, rows or columns; allowed: \"client\"";
            return Err(fail("by", format!("found \"{found}\"; {why}")));
        }
        (spec::By::Label, Base::Table(_)) if loss == Loss::Mean => {
            let why = "found \"label\"; the loss \"mean\" looks at no labels; allowed: \"client\", \
                       \"row\" or { column = \"…\" }";
            return Err(fail("by", why.into()));
        }
        (spec::By::Label, Base::Table(_)) => response::By::Label,
        (spec::By::Row, Base::Table(_)) => response::By::Row,
        (spec::By::Column { .. }, Base::Table(_)) => response::By::Column,
    };
    let law = match (retention.law, retention.tolerance) {
        (spec::Law::Exponential, None) => response::Law::Exponential,
        (spec::Law::Logistic, Some(tolerance)) => {
            response::Law::Logistic { tolerance: tolerance.0 }
        }
        (spec::Law::Exponential, Some(_)) => {
            let why = "belongs to law = \"logistic\"; leave it out";
            return Err(fail("tolerance", why.into()));
        }
        (spec::Law::Logistic, None) => {
            let why = "is missing; needed with law = \"logistic\": the loss at which half stay";
            return Err(fail("tolerance", why.into()));
        }
    };
    let turnout = match (&retention.by, retention.weights) {
        (spec::By::Client, Some(_)) => {
            let why = "belongs to by = \"label\", \"row\" or a column; where whole clients leave, \
                       their weights react by themselves: leave it out";
            return Err(fail("weights", why.into()));
        }
        (_, Some(spec::Turnout::Follow)) => response::Turnout::Follow,
        (_, None | Some(spec::Turnout::Fixed)) => response::Turnout::Fixed,
    };
    let (floor, renewal) = (retention.floor.0, retention.renewal.0);
    Ok(Retention { by, law, rate, floor, renewal, turnout })
}

/// A shift within the bounds that a spec gives, in the units of the table as it was read.
fn bounded(response: &spec::Response, base: &Base, shift: Shift) -> Result<Response, KeyError> {
    let Some(range) = response.range() else { return Ok(shift.into()) };
    let names = columns(response, base).map_err(|_| {
        fail("range", "names columns, which normal data have not: leave it out".into())
    })?;
    let Base::Table(table) = base else { return Ok(shift.into()) };
    let dim = table.dim;
    let mut bounded = Bounded {
        shift,
        reference: vec![0.0; dim],
        low: vec![f64::NEG_INFINITY; dim],
        high: vec![f64::INFINITY; dim],
    };
    for (name, [low, high]) in range {
        let column = names.iter().position(|known| known == name).ok_or_else(|| {
            fail("range", format!("no column \"{name}\"; features: {}", names.join(", ")))
        })?;
        check_range(table, column, [low.0, high.0])?;
        (bounded.low[column], bounded.high[column]) =
            (in_its_units(table, column, low.0), in_its_units(table, column, high.0));
    }
    // What no bound holds back moves as if there were none.
    let nowhere = |bounds: &[f64], side: f64| bounds.iter().all(|bound| *bound == side);
    if nowhere(&bounded.low, f64::NEG_INFINITY) && nowhere(&bounded.high, f64::INFINITY) {
        return Ok(bounded.shift.into());
    }
    if let Some(reference) = response.reference() {
        check_reference(&reference, Some(&table.coordinates), dim)?;
        bounded.reference = reference;
    }
    Ok(Response::Bounded(bounded))
}

/// Refuses bounds that no row can stay between, in the units of the file.
fn check_range(table: &Table, column: usize, [low, high]: [f64; 2]) -> Result<(), KeyError> {
    let name = &table.coordinates[column];
    if low >= high {
        let why = format!("{name}: found [{low}, {high}]; allowed: a smaller and a larger number");
        return Err(fail("range", why));
    }
    let bounds = [low, high].map(|number| in_its_units(table, column, number));
    let rows = (0..table.clients()).flat_map(|client| table.rows_of(client));
    let values = rows.map(|(row, _)| row[column]);
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (f64::min(least, value), f64::max(most, value))
    });
    if least >= bounds[0] && most <= bounds[1] {
        return Ok(());
    }
    let in_file = |number: f64| match &table.standardization {
        None => number,
        // Ten digits, since there and back is not exact.
        Some(constants) => {
            let number = constants.mean[column] + constants.sd[column] * number;
            format!("{number:.9e}").parse().unwrap_or(number)
        }
    };
    let (least, most) = (in_file(least), in_file(most));
    let why = format!(
        "{name}: found [{low}, {high}], but rows have {least} to {most}; allowed: a range that \
         has them all"
    );
    Err(fail("range", why))
}

/// A number of a column as the table has it, standardised where that is.
pub(crate) fn in_its_units(table: &Table, column: usize, number: f64) -> f64 {
    match &table.standardization {
        None => number,
        Some(constants) => (number - constants.mean[column]) / constants.sd[column],
    }
}

/// A base that was recorded under a deployed θ_ref is what the response has made of another one:
/// z = z_base + M_i (θ − θ_ref). Moving it by −M_i θ_ref once leaves everything else as it is. What has
/// been held back by bounds cannot be moved back: bounded responses know the reference themselves.
pub(super) fn rebase(problem: &Problem, federation: Federation) -> Result<Federation, KeyError> {
    let Some(reference) = problem.response.reference() else { return Ok(federation) };
    check_reference(&reference, federation.coordinates(), federation.dim())?;
    Ok(federation.recorded_under(&reference))
}

fn check_reference(
    reference: &[f64],
    names: Option<&[String]>,
    dim: usize,
) -> Result<(), KeyError> {
    let found = reference.len();
    if found == dim {
        return Ok(());
    }
    let names = names.map(|names| format!(": {}", names.join(", "))).unwrap_or_default();
    let why = format!("the list has {found} entries; θ has {dim} coordinates{names}");
    Err(fail("reference", why))
}
