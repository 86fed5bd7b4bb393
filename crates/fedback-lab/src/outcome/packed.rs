//! An outcome as it travels to another process: a header of JSON, and all numbers of its curves, which
//! JSON would leave out where they are not finite.
//!
//! It holds what a run came to and not what it could go on from; that is what a store is for. Columns and
//! costs' meaning follow from the spec, so that they are not repeated.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Curve, CurvePoint, Failed, Outcome, Reported, Simulated, Statistic};
use crate::costs::Costs;
use crate::error::Error;
use crate::event::Ending;
use crate::facts::Facts;
use crate::measure::Measurement;
use crate::spec::Spec;

#[derive(Serialize, Deserialize)]
struct Header {
    spec: String,
    set: Map<String, Value>,
    facts: Facts,
    version: String,
    rounds: Vec<u64>,
    /// Of an expectation there is nothing else.
    run: Option<RunHeader>,
    seconds: f64,
}

#[derive(Serialize, Deserialize)]
struct RunHeader {
    exact: Option<ExactHeader>,
    /// Repetitions that left no model.
    lost: Vec<u64>,
    failed: Vec<Failed>,
    incidents: Vec<Reported>,
    ending: Ending,
    timed: usize,
    resumed_from: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct ExactHeader {
    rounds: Vec<u64>,
    seconds: f64,
}

impl Outcome {
    /// The header and the numbers, for [`Outcome::unpack`].
    pub fn pack(&self) -> (String, Vec<f64>) {
        let facts = Facts {
            clients: self.clients,
            client_names: self.client_names.clone(),
            dim: self.dim,
            coordinates: self.coordinates.clone(),
            stable_point: self.stable_point.clone(),
            table: self.table.clone(),
            assigned: self.all_set.clone(),
            ..Facts::default()
        };
        let mut numbers = Vec::new();
        self.curve.pack(&mut numbers);
        let run = self.simulated.as_ref().map(|Simulated { exact, final_theta }| {
            numbers.extend(&self.times);
            numbers.extend(final_theta.iter().flatten().flatten());
            let exact = exact.as_ref().map(|exact| {
                exact.curve.pack(&mut numbers);
                ExactHeader { rounds: exact.curve.rounds(), seconds: exact.seconds }
            });
            let lost = (0u64..).zip(final_theta).filter(|(_, theta)| theta.is_none());
            RunHeader {
                exact,
                lost: lost.map(|(repetition, _)| repetition).collect(),
                failed: self.failed.clone(),
                incidents: self.incidents.clone(),
                ending: self.ending.clone(),
                timed: self.times.len(),
                resumed_from: self.resumed_from,
            }
        });
        let header = Header {
            spec: self.spec.canonical(),
            set: self.set.clone(),
            facts,
            version: self.version.clone(),
            rounds: self.curve.rounds(),
            run,
            seconds: self.seconds,
        };
        (serde_json::json!(header).to_string(), numbers)
    }

    /// What was packed.
    pub fn unpack(header: &str, numbers: &[f64]) -> Result<Outcome, Error> {
        let wrong = |why: String| Error::input("outcome", why);
        let header: Header = serde_json::from_str(header).map_err(|why| wrong(why.to_string()))?;
        let spec = Spec::from_canonical(&header.spec).map_err(|why| wrong(why.to_string()))?;
        let Header { set, facts, version, rounds, run, seconds, .. } = header;
        let mut numbers = Numbers(numbers);
        let unpacked = |rounds: &[u64], exact, numbers: &mut Numbers<'_>| {
            let curve = Curve::unpack(&spec, &facts, rounds, exact, numbers)?;
            Some(Outcome::new(&spec, set.clone(), facts.clone(), curve))
        };
        let missing = || wrong("numbers are missing".into());
        let of_run = unpacked(&rounds, run.is_none(), &mut numbers).ok_or_else(missing)?;
        let outcome = Outcome { version, seconds, ..of_run };
        let Some(run) = run else { return Ok(outcome) };
        let times = numbers.take(run.timed).ok_or_else(missing)?.to_vec();
        let theta = |repetition: u64| match run.lost.contains(&repetition) {
            true => Some(None),
            false => Some(Some(numbers.take(outcome.dim)?.to_vec())),
        };
        let final_theta: Option<Vec<_>> = (0..outcome.repetitions).map(theta).collect();
        let exact = run.exact.map(|exact| {
            let outcome = unpacked(&exact.rounds, true, &mut numbers)?;
            Some(Box::new(Outcome { seconds: exact.seconds, ..outcome }))
        });
        let exact = exact.map(|exact| exact.ok_or_else(missing)).transpose()?;
        let final_theta = final_theta.ok_or_else(missing)?;
        Ok(Outcome {
            simulated: Some(Simulated { exact, final_theta }),
            failed: run.failed,
            incidents: run.incidents,
            ending: run.ending,
            times,
            resumed_from: run.resumed_from,
            ..outcome
        })
    }
}

impl Curve {
    fn rounds(&self) -> Vec<u64> {
        self.points.iter().map(|point| point.round).collect()
    }

    /// Costs and statistics, record after record; a deviation that does not exist is left out.
    fn pack(&self, numbers: &mut Vec<f64>) {
        for point in &self.points {
            numbers.extend(point.costs.values());
            for Statistic { mean, sd } in &point.values {
                numbers.push(*mean);
                numbers.extend(sd);
            }
        }
    }

    fn unpack(
        spec: &Spec,
        facts: &Facts,
        rounds: &[u64],
        exact: bool,
        numbers: &mut Numbers<'_>,
    ) -> Option<Curve> {
        let known = facts.stable_point.is_some();
        let mut columns = Measurement::asked(spec, known, facts.clients, facts.table.as_ref());
        columns.retain(|column| !exact || column.is_expected());
        let mut curve = Curve::new(spec, facts.clients, &columns);
        for &round in rounds {
            let costs = Costs::of_values(numbers.take(6)?.try_into().ok()?);
            let statistic = |_: &Measurement| {
                let mean = numbers.take(1)?[0];
                let sd = if exact { None } else { Some(numbers.take(1)?[0]) };
                Some(Statistic { mean, sd })
            };
            let values = columns.iter().map(statistic).collect::<Option<_>>()?;
            let step = round.checked_mul(curve.local_steps)?;
            curve.points.push(CurvePoint { round, step, costs, values });
        }
        Some(curve)
    }
}

/// Numbers that are still to be read.
struct Numbers<'a>(&'a [f64]);

impl<'a> Numbers<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [f64]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
}
