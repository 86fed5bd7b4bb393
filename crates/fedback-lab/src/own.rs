//! Responses that are not built in, by the names that a binary of somebody's own gives them.
//!
//! A [`Kind`] reads its section of a spec and makes a rule of it. Specs are decoded in many places, by serde,
//! which has no room for a list of kinds: so the process has one, filled once before its first
//! spec is read ([`register`]). A name that nobody registered is refused when a spec is read or planned, not when a
//! recorded run is shown: that needs no rule.

use std::sync::{Arc, PoisonError, RwLock};

use fedback_core::base::Table;
use fedback_core::loss::Loss;
use fedback_core::response::{Own, OwnResponse, Sensitivity};
use fedback_core::stream::Seed;
use serde::de::DeserializeOwned;

use crate::draw::Shape;
use crate::error::Error;
use crate::plan::in_its_units;
use crate::spec::{KeyError, PerClient, Response, choices, decode};

/// What a rule is for.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The rows.
    pub table: &'a Table,
    /// What a prediction costs.
    pub loss: Loss,
    /// The clients' weights.
    pub weights: &'a [f64],
    pub(crate) seed: Seed,
}

impl Setting<'_> {
    /// The place of a feature, by the name of its column, that stands under a key of the section.
    pub fn feature(&self, key: &str, name: &str) -> Result<usize, KeyError> {
        let table = self.table;
        let names = &table.coordinates[..table.dim - usize::from(table.intercept)];
        names.iter().position(|known| known == name).ok_or_else(|| {
            let names = names.join(", ");
            KeyError::new(key, format!("no column \"{name}\"; features: {names}"))
        })
    }

    /// One number a client, of what stands under a key of the section.
    pub fn numbers(&self, key: &str, values: &PerClient) -> Result<Vec<f64>, KeyError> {
        let Setting { table, weights, seed, .. } = *self;
        let shape = Shape { weights, dim: 1, names: table.client_names.as_deref(), seed };
        match shape.sensitivities(values).map_err(|message| KeyError::new(key, message))? {
            Sensitivity::Scalar(numbers) => Ok(numbers),
            Sensitivity::PerCoordinate(_) | Sensitivity::Matrix(_) => {
                Err(KeyError::new(key, "found vectors; allowed: a number per client"))
            }
        }
    }

    /// A number of a feature as rows have it: standardised where they are.
    pub fn in_its_units(&self, feature: usize, number: f64) -> f64 {
        in_its_units(self.table, feature, number)
    }
}

type Build = dyn Fn(toml::Table, &Setting<'_>) -> Result<Own, KeyError> + Send + Sync;

/// A kind of response that is not built in.
#[derive(Clone)]
pub struct Kind {
    name: &'static str,
    build: Arc<Build>,
}

impl Kind {
    /// A kind by its name in a spec, `problem.response.kind`. The keys beside `kind` become an `S`, of which
    /// `build` makes a rule, or says what is wrong with which key.
    pub fn new<S, R>(
        name: &'static str,
        build: impl Fn(S, &Setting<'_>) -> Result<R, KeyError> + Send + Sync + 'static,
    ) -> Self
    where
        S: DeserializeOwned,
        R: OwnResponse + 'static,
    {
        let build = move |keys: toml::Table, setting: &Setting<'_>| {
            Ok(Own::new(name, build(decode(keys)?, setting)?))
        };
        Kind { name, build: Arc::new(build) }
    }
}

static KINDS: RwLock<Vec<Kind>> = RwLock::new(Vec::new());

/// Makes kinds known to all specs that this process reads from now on.
pub fn register(kinds: impl IntoIterator<Item = Kind>) -> Result<(), Error> {
    let mut known = KINDS.write().unwrap_or_else(PoisonError::into_inner);
    for kind in kinds {
        let name = kind.name;
        let built_in = Response::KINDS.contains(&name);
        if built_in || known.iter().any(|one| one.name == name) {
            let whose = if built_in { "built in" } else { "registered already" };
            let why = format!("there is a kind of this name, which is {whose}: choose another");
            return Err(Error::input(format!("the response \"{name}\""), why));
        }
        known.push(kind);
    }
    Ok(())
}

fn find(name: &str) -> Result<Kind, KeyError> {
    let known = KINDS.read().unwrap_or_else(PoisonError::into_inner);
    known.iter().find(|kind| kind.name == name).cloned().ok_or_else(|| {
        let own = known.iter().map(|kind| kind.name);
        let allowed: Vec<&str> = Response::KINDS.iter().copied().chain(own).collect();
        KeyError::new("kind", format!("found \"{name}\"; {}", choices(name, &allowed)))
    })
}

/// A wrong key of the section by its whole name.
fn whole(wrong: KeyError) -> KeyError {
    KeyError::new(format!("problem.response.{}", wrong.key), wrong.message)
}

/// Refuses a name that nobody registered.
pub(crate) fn check(response: &Response) -> Result<(), KeyError> {
    match response {
        Response::Own(section) => find(section.kind()).map(|_| ()).map_err(whole),
        Response::None
        | Response::Location(_)
        | Response::BestResponse(_)
        | Response::Saturating(_)
        | Response::Strategic(_)
        | Response::Outcome(_)
        | Response::Retention(_) => Ok(()),
    }
}

/// The rule of a section.
pub(crate) fn build(kind: &str, keys: toml::Table, setting: &Setting<'_>) -> Result<Own, KeyError> {
    let kind = find(kind).map_err(whole)?;
    (kind.build)(keys, setting).map_err(whole)
}
