//! A recorded run, read: what it was and all that it left. Needs neither its data nor the version
//! that wrote it; only [`RecordedRun::plan`], for a run that is to go on, does.

use std::path::Path;

use fedback_core::stream::STREAM_FORMAT;
use fedback_engine::ARITHMETIC_FORMAT;
use serde::Serialize;
use serde_json::{Map, Value};
use toml::Table;

use crate::error::Error;
use crate::event::Ending;
use crate::facts::{Facts, Scale};
use crate::measure::Measurement;
use crate::outcome::{Curve, Failed, Outcome, Reported, Simulated, Statistic};
use crate::plan::Built;
use crate::spec::{Loss, Point, Spec};
use crate::store::{Glance, RunId, Store, StoredRun};

/// A run as a store has it.
#[derive(Debug)]
pub struct RecordedRun {
    /// What the store has of it.
    pub stored: StoredRun,
    /// Its spec, with every default written out.
    pub spec: Spec,
    /// What was set to get there, as JSON.
    pub set: Map<String, Value>,
    /// What else its plan had found out.
    pub facts: Facts,
}

/// What `export --format theta` writes.
#[derive(Clone, Debug, Serialize)]
pub struct Theta {
    /// The format of this object.
    pub format: u32,
    /// The spec's name.
    pub name: String,
    /// The names of θ's coordinates, where they have any.
    pub coordinates: Option<Vec<String>>,
    /// The last θ of every repetition, none of those that failed.
    pub theta: Vec<Option<Vec<f64>>>,
    /// Their average.
    pub average: Option<Vec<f64>>,
    /// What features were standardised by.
    pub standardization: Option<Scale>,
    /// The average model for rows that are not standardised.
    pub raw_units: Option<RawUnits>,
}

/// A model for rows as they are.
#[derive(Clone, Debug, Serialize)]
pub struct RawUnits {
    /// One a feature.
    pub coefficients: Vec<f64>,
    /// Added to their sum.
    pub constant: f64,
}

impl Glance {
    /// What the last record says, but of single clients and groups; nothing where that cannot be told.
    pub fn measured(&self) -> Vec<(&'static str, Statistic)> {
        let Some(last) = &self.last else { return Vec::new() };
        let facts = self.facts.as_ref().and_then(|text| serde_json::from_str::<Facts>(text).ok());
        let (Some(facts), Ok(spec)) = (facts, Spec::from_canonical(&self.spec)) else {
            return Vec::new();
        };
        let known = facts.stable_point.is_some();
        let columns = Measurement::asked(&spec, known, facts.clients, facts.table.as_ref());
        let values = last.values.chunks_exact((spec.repetitions.0 as usize).max(1));
        let measured = columns.iter().zip(values).filter(|(column, _)| !column.is_one_of_many());
        measured.map(|(column, values)| (column.name(), Statistic::of(values))).collect()
    }
}

impl RecordedRun {
    /// Reads run `id`.
    pub fn read(store: &Store, id: RunId) -> Result<Self, Error> {
        RecordedRun::of(store.load(id)?)
    }

    /// Understands what a store has of a run, or the thinned of it.
    pub fn of(stored: StoredRun) -> Result<Self, Error> {
        let id = stored.id;
        let origin = format!("run {id}");
        let spec = Spec::from_canonical(&stored.run.spec)
            .map_err(|error| Error::input(&origin, format!("its stored spec: {error}")))?;
        let set = serde_json::from_str(&stored.run.set).unwrap_or_default();
        let facts = match &stored.run.facts {
            Some(text) => serde_json::from_str(text)
                .map_err(|error| Error::input(&origin, format!("its stored facts: {error}")))?,
            None => Facts::default(),
        };
        let mut run = RecordedRun { stored, spec, set, facts };
        if run.stored.run.facts.is_none() {
            // Stores before format 4 do not have them: the plan must tell again.
            run.facts = Facts::of(&*run.plan()?);
        }
        Ok(run)
    }

    /// Builds its plan again. Refused where data or arithmetic are not the run's, since the bits
    /// would not be the same.
    pub fn plan(&self) -> Result<Built, Error> {
        let (run, origin) = (&self.stored.run, format!("run {}", self.stored.id));
        let arithmetic = self.facts.arithmetic_format;
        if (run.stream_format, arithmetic) != (STREAM_FORMAT, ARITHMETIC_FORMAT) {
            let why = format!(
                "it was started by fedback {} (stream format {}, arithmetic format {arithmetic}); \
                 this is {} ({STREAM_FORMAT}, {ARITHMETIC_FORMAT}), which would come to other \
                 numbers: use that version",
                run.version,
                run.stream_format,
                env!("CARGO_PKG_VERSION"),
            );
            return Err(Error::input(origin, why));
        }
        let table = |set: &Map<String, Value>| Table::try_from(set).unwrap_or_default();
        let (set, assigned) = (table(&self.set), table(&self.facts.assigned));
        let point = Point { set, assigned, spec: self.spec.clone() };
        let plan = Built::new(point, Path::new(&run.directory), &origin)?;
        let same = match run.facts {
            Some(_) => plan.data() == self.facts.data,
            None => plan.hash_of_version(&run.version) == run.plan_hash,
        };
        if !same {
            let why = "its data file has changed since it was started: put the old file back";
            return Err(Error::input(origin, why));
        }
        Ok(plan)
    }

    /// Whether nothing is left of it to run.
    pub fn has_ended(&self) -> bool {
        match self.stored.ending {
            Some(Ending::Done) => true,
            Some(Ending::Failed(_)) => self.stored.round() == self.spec.rounds.0,
            Some(Ending::Interrupted) | None => false,
        }
    }

    /// What the run left so far, and exact expectations where there are any.
    pub fn outcome(&self) -> Outcome {
        self.measured().with_exact(self.exact())
    }

    /// What the run left so far, without waiting for what is exact.
    pub fn measured(&self) -> Outcome {
        let (spec, facts) = (&self.spec, self.facts.clone());
        let known = facts.stable_point.is_some();
        let columns = Measurement::asked(spec, known, facts.clients, facts.table.as_ref());
        let mut curve = Curve::new(spec, facts.clients, &columns);
        self.stored.cohorts.iter().for_each(|cohort| curve.count(cohort));
        for record in &self.stored.records {
            curve.add(record.round, &record.values);
        }
        let names = facts.client_names.as_deref();
        Outcome {
            simulated: Some(Simulated { exact: None, final_theta: self.final_models() }),
            failed: self.failed(),
            incidents: Reported::all(names, &self.stored.incidents),
            ending: self.stored.ending.clone().unwrap_or(Ending::Interrupted),
            seconds: self.stored.seconds(),
            times: self.stored.times(),
            version: self.stored.run.version.clone(),
            ..Outcome::new(spec, self.set.clone(), facts, curve)
        }
    }

    /// Repetitions that failed, with their rounds.
    fn failed(&self) -> Vec<Failed> {
        let failed = self.stored.checkpoint.iter().flat_map(|checkpoint| &checkpoint.failed);
        failed.map(|&(repetition, round)| Failed { repetition, round: round.0 }).collect()
    }

    /// The last θ of every repetition, none of those that failed.
    pub fn final_models(&self) -> Vec<Option<Vec<f64>>> {
        let failed = self.failed();
        let is_fine = |number: usize| !failed.iter().any(|one| one.repetition == number as u64);
        let models = self.models().into_iter().enumerate();
        models.map(|(number, model)| is_fine(number).then_some(model)).collect()
    }

    /// The average of the last θ of all repetitions that did not fail.
    pub fn average_model(&self) -> Option<Vec<f64>> {
        let models: Vec<Vec<f64>> = self.final_models().into_iter().flatten().collect();
        let average =
            |j: usize| models.iter().map(|theta| theta[j]).sum::<f64>() / models.len() as f64;
        (!models.is_empty()).then(|| (0..self.facts.dim).map(average).collect())
    }

    /// The final models, and what is needed to score raw rows with their average.
    pub fn theta(&self) -> Theta {
        let (average, scale) = (self.average_model(), self.facts.standardization());
        let raw_units = scale.zip(average.as_ref()).map(|(scale, average)| {
            let intercept = self.spec.problem.base.has_intercept();
            let (coefficients, constant) = scale.to_raw_units(average, intercept);
            RawUnits { coefficients, constant }
        });
        Theta {
            format: 1,
            name: self.spec.name.clone(),
            coordinates: self.facts.coordinates.clone(),
            theta: self.final_models(),
            average,
            standardization: self.facts.standardization.clone(),
            raw_units,
        }
    }

    /// θ of every repetition at the last checkpoint, the start before the first.
    fn models(&self) -> Vec<Vec<f64>> {
        let (dim, repetitions) = (self.facts.dim, self.spec.repetitions.0 as usize);
        let Some(checkpoint) = &self.stored.checkpoint else {
            return vec![self.facts.start.clone(); repetitions];
        };
        // A server's block begins with θ.
        let block = (checkpoint.server.len() / repetitions).max(1);
        let blocks = checkpoint.server.chunks(block);
        blocks.map(|block| block[..dim.min(block.len())].to_vec()).collect()
    }

    /// Exact expectations, where mathematics allows and the plan can still be built.
    fn exact(&self) -> Option<Outcome> {
        if self.spec.problem.loss != Loss::Mean {
            return None;
        }
        let plan = self.plan().ok()?;
        crate::exact::beside(plan.whole()?)
    }
}
