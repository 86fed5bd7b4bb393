//! The checked, built thing that a spec becomes: one conversion, after which nothing is doubted.

mod arrivals;
mod built;
mod by_hand;
mod custom;
mod hash;
mod memory;
mod problem;
mod protocol;
mod resamples;
mod response;
mod site;
mod sites;
mod sizes;
mod table;

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use fedback_core::base::{Base, Standardization};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::memory::Past;
use fedback_core::misfit::{Misfit, Unsupported};
use fedback_core::protocol::Protocol;
use fedback_core::response::Shift;
use fedback_core::state::Layout;
use fedback_core::stream::Seed;
use fedback_theory::stable;
use toml::Table;

pub use arrivals::PlannedArrivals;
pub use built::Built;
use hash::hash;
use problem::BuiltProblem;
use protocol::build_protocol;
pub use resamples::Resamples;
pub use site::{Asked, Given, SitePlan, Updates};
pub use sites::{Census, SiteTables};

use crate::error::Error;
use crate::spec::{KeyError, Measure, NamedStart, Point, RoundKeys, Spec, Start};
use crate::table_summary::TableSummary;

/// Everything about a run but who does its work.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The spec it came from.
    pub spec: Spec,
    /// What a sweep set to get here, as JSON.
    pub set: serde_json::Map<String, serde_json::Value>,
    /// What `--set` set, as JSON.
    pub assigned: serde_json::Map<String, serde_json::Value>,
    /// Where relative paths start.
    pub directory: String,
    /// The clients' weights p_i.
    pub weights: Arc<[f64]>,
    /// Coordinates of θ.
    pub dim: usize,
    /// The clients' names, where they have any.
    pub client_names: Option<Vec<String>>,
    /// The names of θ's coordinates, where they have any.
    pub coordinates: Option<Vec<String>>,
    /// The algorithm.
    pub protocol: Protocol,
    /// What populations remember before the first round, where they do.
    pub past: Option<Past>,
    /// When clients answer, where the spec describes it.
    pub arrivals: Option<PlannedArrivals>,
    /// θ before the first round.
    pub start: Vec<f64>,
    /// θ^PS, where it is asked for and known.
    pub stable_point: Option<Vec<f64>>,
    /// What was subtracted from and divided out of features, where they were standardised.
    pub standardization: Option<Standardization>,
    /// What the table was found to hold, where there is one.
    pub table: Option<TableSummary>,
    /// The SHA-256 digests of the files that the spec names: of the data, and of latencies.
    pub(crate) files: [Vec<u8>; 2],
    /// Names everything that decides the bits: canonical spec, data, formats of streams and
    /// arithmetic.
    pub hash: String,
}

/// A checked spec: its [`Outline`], and where its populations come from.
#[derive(Clone, Debug)]
pub struct Plan<P = BuiltIn> {
    outline: Outline,
    populations: P,
}

impl<P> Deref for Plan<P> {
    type Target = Outline;

    fn deref(&self) -> &Outline {
        &self.outline
    }
}

/// Populations that theory knows and that can be run in memory.
#[derive(Clone, Debug)]
pub struct BuiltIn {
    federation: Federation,
    holdout: Option<Federation>,
}

/// Populations of which a part, or the loss, is a function or a real site.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// The data and how they react; none where observations come from a function or from sites.
    pub population: Option<(Base, Shift)>,
    /// What a prediction costs; none where that is a function.
    pub loss: Option<Loss>,
    /// Whether the last coordinate is an intercept.
    pub intercept: bool,
    /// The stable point, where the spec says it.
    pub(crate) stable_point: Option<Vec<f64>>,
}

/// A plan that somebody else must complete.
pub type CustomPlan = Plan<Elsewhere>;

/// Where the populations of a plan come from.
pub trait Populations: Sized {
    /// Checks and builds those of a spec, and what an outline takes from them.
    fn build(spec: &Spec, directory: &Path) -> Result<(Self, Shape), KeyError>;
    /// The loss, where the whole problem is built in.
    fn loss(&self) -> Option<Loss>;
    /// The stable point near a start, where it can be told.
    fn stable_point(&self, start: &[f64]) -> Option<Vec<f64>>;
}

impl<P: Populations> Plan<P> {
    /// Checks and builds one point of a spec; `origin` is how messages call it.
    pub fn new(point: Point, directory: &Path, origin: &str) -> Result<Self, Error> {
        let plan = || {
            let (populations, shape) = P::build(&point.spec, directory)?;
            let stable = |start: &[f64]| populations.stable_point(start);
            let outline = Outline::new(point, directory, shape, populations.loss(), stable)?;
            Ok(Plan { outline, populations })
        };
        plan().map_err(|error: KeyError| Error::input(origin, error))
    }
}

impl Populations for BuiltIn {
    fn build(spec: &Spec, directory: &Path) -> Result<(Self, Shape), KeyError> {
        if let Some(key) = spec.problem.custom_part() {
            let why = "\"custom\" is a function or a real site, which theory and this command do \
                       not know; run the spec from Python or on Flower";
            return Err(KeyError::new(key, why));
        }
        let BuiltProblem { federation, holdout, table, data } = problem::build(spec, directory)?;
        let shape = Shape::of(&federation, table, data);
        Ok((BuiltIn { federation, holdout }, shape))
    }

    fn loss(&self) -> Option<Loss> {
        Some(self.federation.loss())
    }

    fn stable_point(&self, start: &[f64]) -> Option<Vec<f64>> {
        stable::stable_point(&self.federation, start)
    }
}

impl Plan {
    /// The problem.
    pub fn federation(&self) -> &Federation {
        &self.populations.federation
    }

    /// The same clients with the rows that are held out, where there are any.
    pub fn holdout(&self) -> Option<&Federation> {
        self.populations.holdout.as_ref()
    }

    /// The same problem under a changed spec, checked and named anew. A stable point that is known
    /// stays.
    pub fn with(&self, change: impl FnOnce(&mut Spec)) -> Result<Self, Error> {
        let mut spec = self.spec.clone();
        change(&mut spec);
        let (federation, outline) = (self.federation(), &self.outline);
        let shape = Shape::of(federation, outline.table.clone(), outline.files[0].clone());
        let known = |start: &[f64]| {
            outline.stable_point.clone().or_else(|| self.populations.stable_point(start))
        };
        let point = Point { spec, set: Table::new(), assigned: Table::new() };
        let directory = Path::new(&outline.directory);
        let changed = Outline::new(point, directory, shape, Some(federation.loss()), known)
            .map_err(|error| Error::input(&outline.spec.name, error))?;
        let (set, assigned) = (outline.set.clone(), outline.assigned.clone());
        Ok(Plan { outline: Outline { set, assigned, ..changed }, ..self.clone() })
    }
}

impl CustomPlan {
    /// What is known of them.
    pub fn populations(&self) -> &Elsewhere {
        &self.populations
    }
}

/// What an outline takes from the problem.
pub struct Shape {
    pub(crate) weights: Arc<[f64]>,
    pub(crate) dim: usize,
    pub(crate) client_names: Option<Vec<String>>,
    pub(crate) coordinates: Option<Vec<String>>,
    pub(crate) standardization: Option<Standardization>,
    pub(crate) table: Option<TableSummary>,
    /// A digest of the data file, where there is one.
    pub(crate) data: Vec<u8>,
}

/// The names of clients, their numbers where they have none.
pub(crate) fn client_labels(names: Option<&[String]>, clients: usize) -> Vec<String> {
    match names {
        Some(names) => names.to_vec(),
        None => (0..clients).map(|client| client.to_string()).collect(),
    }
}

impl Shape {
    fn client_labels(&self) -> Vec<String> {
        client_labels(self.client_names.as_deref(), self.weights.len())
    }

    fn of(federation: &Federation, table: Option<TableSummary>, data: Vec<u8>) -> Self {
        Shape {
            weights: federation.weights().clone(),
            dim: federation.dim(),
            client_names: federation.client_names().map(<[String]>::to_vec),
            coordinates: federation.coordinates().map(<[String]>::to_vec),
            standardization: match federation.base() {
                Base::Table(table) => table.standardization.clone(),
                _ => None,
            },
            table,
            data,
        }
    }
}

/// Refuses algorithms that look at weights before it is known what these are.
fn check_turnout(spec: &Spec, protocol: &Protocol) -> Result<(), KeyError> {
    if !spec.problem.response.weighs() {
        return Ok(());
    }
    let fail = |key: &str, found: &str| {
        let why = format!("{found}; clients' weights react here, which it does not follow");
        Err(KeyError::new(key, why))
    };
    if protocol.local.keeps() {
        return fail("algorithm.kind", "found \"scaffold\"");
    }
    match protocol.scale_objectives {
        true => fail("algorithm.scale_objectives", "found true"),
        false => Ok(()),
    }
}

impl Outline {
    /// `stable` finds the stable point near a start, where it can.
    fn new(
        point: Point,
        directory: &Path,
        shape: Shape,
        loss: Option<Loss>,
        stable: impl Fn(&[f64]) -> Option<Vec<f64>>,
    ) -> Result<Self, KeyError> {
        let Point { mut spec, set, assigned } = point;
        let protocol = build_protocol(&spec.algorithm, shape.weights.len())?;
        let past = memory::past(&spec.problem.response, shape.dim)?;
        check_turnout(&spec, &protocol)?;
        spec.spend(shape.weights.len())?;
        let algorithm = spec.algorithm.rounds();
        let (arrivals, latencies) = arrivals::build(&spec, algorithm, &shape, directory)?;
        sizes::check(&spec, (&protocol, past.as_ref()), &shape)?;
        check_measure(&spec.measure, loss)?;
        check_leaving(&spec)?;
        let (start, stable_point) =
            build_start(algorithm, shape.dim, spec.measure.distance, stable)?;
        let Shape { weights, dim, client_names, coordinates, standardization, table, data } = shape;
        let files = [data, latencies];
        let hash = hash(&spec, &files);
        Ok(Outline {
            spec,
            set: to_json(set),
            assigned: to_json(assigned),
            directory: directory.display().to_string(),
            weights,
            dim,
            client_names,
            coordinates,
            protocol,
            past,
            arrivals,
            start,
            stable_point,
            standardization,
            table,
            files,
            hash,
        })
    }

    /// The number of clients (the paper's N).
    pub fn clients(&self) -> usize {
        self.weights.len()
    }

    /// What lives between rounds, and where.
    pub fn layout(&self) -> Layout {
        let memory = self.past.as_ref().map(|past| past.memory);
        Layout::new(&self.protocol, memory, self.dim, self.clients())
    }

    /// The seed of everything random in the run.
    pub fn seed(&self) -> Seed {
        Seed(self.spec.seed.0)
    }

    /// Refuses more repetitions than fit in memory.
    pub(crate) fn check_repetitions(&self, repetitions: u64) -> Result<(), KeyError> {
        sizes::check_memory(&self.layout(), &self.protocol, repetitions)
    }

    /// Whether a record is due after `round` rounds.
    pub fn is_due(&self, round: u64) -> bool {
        round.is_multiple_of(self.spec.measure.every.0) || round == self.spec.rounds.0
    }
}

/// Values by key, as JSON.
fn to_json(table: Table) -> serde_json::Map<String, serde_json::Value> {
    let value = |value| serde_json::to_value(value).unwrap_or_default();
    table.into_iter().map(|(key, one)| (key, value(one))).collect()
}

impl From<Misfit> for KeyError {
    fn from(misfit: Misfit) -> Self {
        KeyError::new(misfit.part, misfit.reason)
    }
}

impl From<Unsupported> for Error {
    fn from(unsupported: Unsupported) -> Self {
        Error::input(unsupported.part, unsupported.reason)
    }
}

/// `loss` where the problem is built in.
fn check_measure(measure: &Measure, loss: Option<Loss>) -> Result<(), KeyError> {
    if let (Some(sample), Some(_)) = (measure.sample, loss) {
        let why = "the risk of a problem that is built in is exact: leave sample out";
        return Err(KeyError::new("measure.sample", format!("found {}; {why}", sample.0)));
    }
    let logistic = matches!(loss, Some(Loss::Logistic { .. }));
    for (key, on) in [("accuracy", measure.accuracy), ("auc", measure.auc)] {
        if on && !logistic {
            return Err(KeyError::new(
                format!("measure.{key}"),
                "needs the loss \"logistic\" on a table; switch it off",
            ));
        }
    }
    Ok(())
}

/// Refuses to count who stays where nobody leaves.
fn check_leaving(spec: &Spec) -> Result<(), KeyError> {
    let measure = &spec.measure;
    let leave = matches!(spec.problem.response, crate::spec::Response::Retention(_));
    let asked = [("retained", measure.retained), ("base_risk", measure.base_risk)];
    match asked.into_iter().find(|(_, on)| !leave && *on == Some(true)) {
        None => Ok(()),
        Some((key, _)) => {
            let why =
                "found true; nobody leaves here: it needs problem.response.kind = \"retention\"";
            Err(KeyError::new(format!("measure.{key}"), why))
        }
    }
}

type StartAndStablePoint = (Vec<f64>, Option<Vec<f64>>);

fn build_start(
    algorithm: &RoundKeys,
    dim: usize,
    distance: bool,
    stable: impl Fn(&[f64]) -> Option<Vec<f64>>,
) -> Result<StartAndStablePoint, KeyError> {
    let fail = |message: String| KeyError::new("algorithm.start", message);
    let start = match &algorithm.start {
        Start::Named(NamedStart::Zeros) => vec![0.0; dim],
        Start::Number(number) => vec![*number; dim],
        Start::List(list) if list.len() == dim => list.clone(),
        Start::List(list) => {
            let found = list.len();
            return Err(fail(format!("the list has {found} entries; θ has {dim} coordinates")));
        }
        Start::Named(NamedStart::Stable) => {
            let point = stable(&vec![0.0; dim]).ok_or_else(|| {
                fail("\"stable\", but no stable point was found; `fedback solve` says why".into())
            })?;
            return Ok((point.clone(), Some(point)));
        }
    };
    let stable_point = if distance { stable(&start) } else { None };
    Ok((start, stable_point))
}
