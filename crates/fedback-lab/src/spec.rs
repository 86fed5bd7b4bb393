//! What the user typed.
//!
//! A spec is a TOML document. It is read as a table first, changed by `--set`, multiplied by
//! `[sweep]`, and only then decoded, so that every way in meets the same checks. Unknown keys are
//! refused. [`crate::plan::Plan`] is what a spec becomes.

mod algorithm;
mod budget;
mod elsewhere;
mod hint;
mod latency;
mod memory;
mod per_client;
mod problem;
mod response;
mod rows;
mod sweep;
mod until;
mod value;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub use algorithm::{
    Adam, Aggregate, Algorithm, All, Batch, Deploy, FedOpt, FedProx, Momentum, NamedStart,
    RoundKeys, SchemeName, Server, Start, StepSize,
};
pub use budget::Budget;
pub use elsewhere::{CustomBase, SitesBase};
pub(crate) use hint::closest;
pub use latency::{ExponentialLatency, Latency, LognormalLatency, TraceLatency};
pub use memory::{Delay, Inertia, Memory, Model, Staggered};
pub use per_client::{Entry, NumberOrVector, PerClient, in_order};
pub use problem::{
    Base, GaussianBase, Loss, Missing, NamedWeights, Penalty, Problem, Source, TableBase, Weights,
};
pub use response::{
    BestResponse, By, CostKind, Law, LocationResponse, Outcome, Response, Retention, Saturating,
    Strategic, Turnout, Wants,
};
pub use rows::{Holdout, Partition};
pub use until::Until;
pub use value::{Count, Fraction, KeyError, NonNegative, Positive, Real, SeedNumber, Whole};

use crate::difference::covers;
use crate::error::Error;
use sweep::{assign, combinations};

/// The format of specs that this version reads.
pub const FORMAT: u64 = 1;

/// A whole spec.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | format | 1 | the version of this contract | 1 |
/// | name | the file's | shows up in the store and in figures | – |
/// | seed | 0 | everything random comes from it | ≥ 0 |
/// | repetitions | 1 | seeded repeats | ≥ 1 |
/// | rounds | required, or budget | communication rounds; local steps = rounds · local_steps | ≥ 1 |
/// | budget | none | instead of rounds: as many as a budget allows | see [`Budget`] |
/// | until | none | ends the run early | see [`Until`] |
/// | doubts | none | what speaks against the problem; repeated by every answer about it | – |
/// | problem | required | the federation | see [`Problem`] |
/// | algorithm | required | what is run on it | see [`Algorithm`] |
/// | measure | | what is recorded, and when | see [`Measure`] |
/// | sweep | none | lists of values by dotted key; every combination is one run | – |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The version of this contract.
    #[schemars(extend("const" = 1))]
    #[serde(default = "first")]
    pub format: Count,
    /// Shows up in the store and in figures.
    #[serde(default)]
    pub name: String,
    /// Everything random comes from this seed.
    #[serde(default = "zero")]
    pub seed: SeedNumber,
    /// Seeded repeats.
    #[serde(default = "first")]
    pub repetitions: Count,
    /// Communication rounds; from the budget where there is one.
    #[serde(default = "first")]
    pub rounds: Count,
    /// As many rounds as it allows, instead of their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What ends the run before its last round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// What speaks against the problem as it is described; answers repeat it, and it changes none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The federation.
    pub problem: Problem,
    /// What is run on it.
    pub algorithm: Algorithm,
    /// What is recorded, and when.
    #[serde(default)]
    pub measure: Measure,
    /// Lists of values by dotted key; a key may name a whole section, then the values are tables
    /// merged into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<std::collections::BTreeMap<String, Vec<serde_json::Value>>>")]
    pub sweep: Option<Table>,
}

fn first() -> Count {
    Count(1)
}

fn zero() -> SeedNumber {
    SeedNumber(0)
}

/// `[measure]`.
///
/// | Name | Default | Purpose |
/// |---|---|---|
/// | every | 1 | rounds between records; round 0 and the last are always recorded |
/// | distance | true | squared distance to the stable point |
/// | risk | true | f(θ; θ) |
/// | consensus | false | Σ p_i (w_i − w̄)² just before aggregation, over all clients |
/// | accuracy | false | share of rows on the right side, logistic loss only |
/// | auc | false | area under the ROC curve, logistic loss only |
/// | client_risk | false | f_i(θ; θ) of every client |
/// | retained, base_risk | true where people leave | how many of them stay; the risk if nobody had left |
/// | group | none | a column of a table: measurements for each of its values, and their gaps |
/// | sample | 1000 | fresh observations per client for the risk of custom parts |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Rounds between records.
    pub every: Count,
    /// Squared distance to the stable point.
    pub distance: bool,
    /// f(θ; θ).
    pub risk: bool,
    /// The consensus error just before aggregation.
    pub consensus: bool,
    /// Share of rows on the right side.
    pub accuracy: bool,
    /// Area under the ROC curve.
    pub auc: bool,
    /// f_i(θ; θ) of every client.
    pub client_risk: bool,
    /// How many people stay; measured where they leave, if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retained: Option<bool>,
    /// The risk if nobody had left; measured where they do, if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_risk: Option<bool>,
    /// A column of a table by whose values rows are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Fresh observations per client for the risk where a part is custom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Count>,
}

impl Default for Measure {
    fn default() -> Self {
        Measure {
            every: Count(1),
            distance: true,
            risk: true,
            consensus: false,
            accuracy: false,
            auc: false,
            client_risk: false,
            retained: None,
            base_risk: None,
            group: None,
            sample: None,
        }
    }
}

/// One point of a sweep: a spec without sweep, and what was set to get there.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The dotted keys and their values; empty for a spec without sweep.
    pub set: Table,
    /// What `--set` set, in all points alike.
    pub assigned: Table,
    /// The spec.
    pub spec: Spec,
}

/// Whether a dotted key is the sensitivity's, one below it, or that of a section it is in.
fn sets_sensitivity(key: &str) -> bool {
    const SENSITIVITY: &str = "problem.response.sensitivity";
    covers(key, SENSITIVITY) || covers(SENSITIVITY, key)
}

/// The key and the value of `path.to.key=value`; the value is TOML, a bare word a string.
pub fn parse_assignment(assignment: &str) -> Result<(&str, Value), Error> {
    let (key, text) = assignment.split_once('=').ok_or_else(|| {
        let why = "no = in it; allowed: --set path.to.key=value";
        Error::input(format!("--set {assignment}"), why)
    })?;
    let value = toml::from_str::<Table>(&format!("value = {text}"))
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.trim().to_string()));
    Ok((key.trim(), value))
}

/// A spec as it was read, not decoded yet.
#[derive(Clone, Debug)]
pub struct Document {
    /// How the spec is called in messages.
    pub origin: String,
    /// Where relative paths start.
    pub directory: PathBuf,
    table: Table,
    /// What was set besides, by dotted key.
    assigned: Table,
}

impl Document {
    /// Reads a spec file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let origin = path.display().to_string();
        let fail = |message: String| Error::input(&origin, message);
        if path.is_dir() {
            return Err(fail("is a directory; a spec is a TOML file".into()));
        }
        let bytes = std::fs::read(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                fail("no such file; `fedback new` writes a spec to start from".into())
            }
            _ => fail(format!("cannot be read: {error}")),
        })?;
        let text = String::from_utf8(bytes)
            .map_err(|_| fail("is not text (UTF-8); a spec is a TOML file".into()))?;
        let mut document = Document::parse(&text, &origin)?;
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        document.directory = whole.parent().unwrap_or(Path::new("")).to_path_buf();
        if !document.table.contains_key("name") {
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            document.table.insert("name".into(), Value::String(stem.unwrap_or_default()));
        }
        Ok(document)
    }

    /// Takes a spec from text; `origin` is how messages call it.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Error> {
        if text.contains('\0') {
            return Err(Error::input(origin, "is not text; a spec is a TOML file"));
        }
        let table: Table = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(String::new(), |span| {
                let number = text[..span.start.min(text.len())].matches('\n').count();
                let line = text.lines().nth(number).unwrap_or_default().trim();
                format!("line {} ({line}): ", number + 1)
            });
            Error::input(origin, format!("{line}is not TOML: {}", error.message()))
        })?;
        if table.is_empty() {
            return Err(Error::input(
                origin,
                "is empty; a spec needs rounds, [problem] and [algorithm] (`fedback new` writes one)",
            ));
        }
        let directory = std::env::current_dir().unwrap_or_default();
        Ok(Document { origin: origin.into(), directory, table, assigned: Table::new() })
    }

    /// Takes a spec that is a table already; relative paths start in `directory`.
    pub fn of(table: Table, origin: &str, directory: PathBuf) -> Self {
        Document { origin: origin.into(), directory, table, assigned: Table::new() }
    }

    /// The spec as it was read, changes included.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Sets `path.to.key=value`; the value is TOML, a bare word a string.
    pub fn set(&mut self, assignment: &str) -> Result<(), Error> {
        let (key, value) = parse_assignment(assignment)?;
        assign(&mut self.table, key, value.clone())
            .map_err(|error| Error::input(format!("--set {assignment}"), error))?;
        // The points of a sweep say themselves what it set.
        if key != "sweep" {
            self.assigned.insert(key.into(), value);
        }
        Ok(())
    }

    /// The document as TOML after a change.
    pub fn rewritten(&self, change: impl FnOnce(&mut Table)) -> String {
        let mut table = self.table.clone();
        change(&mut table);
        toml::to_string(&table).unwrap_or_else(|error| format!("# {error}"))
    }

    /// Decodes the spec: one point for each combination of the sweep, one without a sweep.
    pub fn points(&self) -> Result<Vec<Point>, Error> {
        let fail = |error: KeyError| Error::input(&self.origin, error);
        self.check_format().map_err(fail)?;
        let mut table = self.table.clone();
        let sweep = table.remove("sweep");
        let combinations = match sweep {
            None => vec![Table::new()],
            Some(sweep) => combinations(&sweep).map_err(fail)?,
        };
        combinations
            .into_iter()
            .map(|set| {
                let mut table = table.clone();
                for (key, value) in &set {
                    assign(&mut table, key, value.clone()).map_err(|error| {
                        fail(KeyError::new(format!("sweep.\"{key}\""), error.to_string()))
                    })?;
                }
                budget::check(&table).map_err(fail)?;
                let mut spec: Spec = value::decode(table).map_err(fail)?;
                let is_set = |key: &str| [&set, &self.assigned].iter().any(|t| t.contains_key(key));
                // What was found of fitted sensitivities says nothing of others.
                if set.keys().chain(self.assigned.keys()).any(|key| sets_sensitivity(key)) {
                    if !is_set("doubts") {
                        spec.doubts.clear();
                    }
                    if !is_set("problem.response.resamples") {
                        spec.problem.response = spec.problem.response.without_resamples();
                    }
                }
                Ok(Point { set, assigned: self.assigned.clone(), spec })
            })
            .collect()
    }

    /// The document of one point of its sweep.
    pub fn at(&self, which: usize) -> Result<Document, Error> {
        let points = self.points()?;
        let Some(point) = points.get(which) else {
            let why = format!("there is no point {which}: the sweep has {}", points.len());
            return Err(Error::input(&self.origin, why));
        };
        let mut document = self.clone();
        document.table.remove("sweep");
        for (key, value) in &point.set {
            assign(&mut document.table, key, value.clone())
                .map_err(|error| Error::input(&self.origin, error))?;
            document.assigned.insert(key.clone(), value.clone());
        }
        Ok(document)
    }

    fn check_format(&self) -> Result<(), KeyError> {
        match self.table.get("format") {
            None | Some(Value::Integer(1)) => Ok(()),
            Some(Value::Integer(newer)) if *newer > FORMAT as i64 => Err(KeyError::new(
                "format",
                format!("found {newer}; this fedback reads format {FORMAT}: upgrade fedback"),
            )),
            Some(other) => Err(KeyError::new(
                "format",
                format!("found {}; allowed: {FORMAT}", value::show(other)),
            )),
        }
    }
}

impl Spec {
    /// The spec with every default written out, the text that a store keeps and a hash is taken of.
    pub fn canonical(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| format!("# {error}"))
    }

    /// Reads a canonical text back.
    pub fn from_canonical(text: &str) -> Result<Self, KeyError> {
        let table = toml::from_str(text)
            .map_err(|error: toml::de::Error| KeyError::new("", error.message().to_string()))?;
        value::decode(table)
    }

    /// The JSON schema of specs.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Spec).to_value()
    }
}
