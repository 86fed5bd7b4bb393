//! What a run leaves, as arrays; and as what pickles.

use fedback_lab::chart::{self, Pair, label_of};
use fedback_lab::event::Ending;
use fedback_lab::outcome::{CurvePoint, Outcome as Inner};
use fedback_lab::recorded::RecordedRun;
use fedback_lab::store::Record;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use crate::error::{InputError, raise};
use crate::numbers::{floats, pack, to_floats};

/// What a run, or exact expectations, left.
#[pyclass(frozen, module = "fedback._native")]
pub struct Outcome {
    pub inner: Inner,
    pub records: Vec<Record>,
    pub id: Option<i64>,
}

/// The arguments of the constructor: header, numbers, values of every repetition, number in the store.
type Packed<'py> = (String, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Option<i64>);

#[pymethods]
impl Outcome {
    /// What [`Outcome::__reduce__`] gave.
    #[new]
    fn new(header: &str, numbers: &[u8], values: &[u8], id: Option<i64>) -> PyResult<Self> {
        let inner = Inner::unpack(header, &to_floats(numbers)?).map_err(raise)?;
        let width = inner.curve.columns.len() * inner.repetitions as usize;
        let values = to_floats(values)?;
        let records = inner.curve.points.iter().zip(values.chunks(width.max(1)));
        let record = |(point, values): (&CurvePoint, &[f64])| Record {
            round: point.round,
            seconds: None,
            values: values.to_vec(),
        };
        let records = records.map(record).collect();
        Ok(Outcome { records, inner, id })
    }

    /// What it pickles as: what it came to, small, and not what could be resumed.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, Packed<'py>) {
        let (this, py) = (slf.get(), slf.py());
        let (header, numbers) = this.inner.pack();
        let values = this.records.iter().flat_map(|record| record.values.iter().copied());
        (slf.get_type(), (header, floats(py, numbers), floats(py, values), this.id))
    }

    /// The object of the command's JSON contract, as text.
    #[getter]
    fn json(&self) -> String {
        serde_json::json!(self.inner).to_string()
    }

    /// The command's CSV: a line for every record.
    #[getter]
    fn csv(&self) -> String {
        self.inner.to_csv()
    }

    /// What a sweep set to get here, as JSON text.
    #[getter]
    fn set(&self) -> String {
        serde_json::Value::Object(self.inner.set.clone()).to_string()
    }

    #[getter]
    fn label(&self) -> String {
        label_of(&self.inner.name, &self.inner.set)
    }

    #[getter]
    fn id(&self) -> Option<i64> {
        self.id
    }

    /// "done", "interrupted", or why it failed.
    #[getter]
    fn ending(&self) -> String {
        match &self.inner.ending {
            Ending::Done => "done".into(),
            Ending::Interrupted => "interrupted".into(),
            Ending::Failed(why) => why.clone(),
        }
    }

    /// The measurements, by name: those of clients with a number, those of groups with a name.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.inner.keys()
    }

    /// Rounds closed at every record.
    #[getter]
    fn rounds<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        pack(py, self.inner.curve.points.iter().map(|point| point.round), u64::to_le_bytes)
    }

    /// Local steps made by then.
    #[getter]
    fn steps<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        pack(py, self.inner.curve.points.iter().map(|point| point.step), u64::to_le_bytes)
    }

    /// Seconds of work by every record; nothing for exact expectations.
    #[getter]
    fn times<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        floats(py, self.inner.times.iter().copied())
    }

    /// Means over repetitions of a measurement, and their standard deviations.
    fn statistic<'py>(
        &self,
        py: Python<'py>,
        column: usize,
    ) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let values = || self.inner.curve.points.iter().map(|point| point.values[column]);
        (
            floats(py, values().map(|value| value.mean)),
            floats(py, values().map(|value| value.sd.unwrap_or(f64::NAN))),
        )
    }

    /// A measurement of every repetition: records × repetitions. Nothing for exact expectations.
    fn values<'py>(&self, py: Python<'py>, column: usize) -> Bound<'py, PyBytes> {
        let repetitions = self.inner.repetitions as usize;
        let records = self.records.iter();
        let values =
            records.flat_map(|record| &record.values[column * repetitions..][..repetitions]);
        floats(py, values.copied())
    }

    /// The last θ of every repetition: repetitions × d; NaN where it failed.
    #[getter]
    fn final_theta<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let lost = vec![f64::NAN; self.inner.dim];
        let thetas = self.inner.final_theta().iter();
        floats(py, thetas.flat_map(|theta| theta.as_ref().unwrap_or(&lost)).copied())
    }

    /// The exact curve of the same plan, where mathematics allows.
    #[getter]
    fn exact(&self) -> Option<Outcome> {
        let inner = self.inner.exact()?.clone();
        Some(Outcome { inner, records: Vec::new(), id: None })
    }

    /// The figure of the command, as SVG.
    fn svg(&self) -> PyResult<String> {
        svg("", &[self])
    }
}

impl Outcome {
    /// A recorded run that was to be resumed, and of which nothing is left to run.
    pub fn as_it_ended(run: RecordedRun) -> Self {
        let inner = Inner { resumed_from: Some(run.stored.round()), ..run.outcome() };
        Outcome { inner, id: Some(run.stored.id.0), records: run.stored.records }
    }
}

/// One figure of several outcomes.
#[pyfunction]
pub fn figure(outcomes: Vec<PyRef<'_, Outcome>>) -> PyResult<String> {
    svg("", &outcomes.iter().map(|outcome| &**outcome).collect::<Vec<_>>())
}

fn svg(title: &str, outcomes: &[&Outcome]) -> PyResult<String> {
    let inner: Vec<&Inner> = outcomes.iter().map(|outcome| &outcome.inner).collect();
    let measurement = chart::main_measurement(&inner)
        .ok_or_else(|| InputError::new_err("nothing was measured that could be drawn"))?;
    let pairs: Vec<Pair<'_>> = outcomes
        .iter()
        .map(|outcome| {
            let simulated = outcome.inner.simulated.is_some();
            Pair {
                label: outcome.label(),
                run: simulated.then_some(&outcome.inner),
                exact: if simulated { outcome.inner.exact() } else { Some(&outcome.inner) },
            }
        })
        .collect();
    let title = if title.is_empty() { &inner[0].name } else { title };
    let banded = |pair: &Pair<'_>| pair.run.is_some_and(|run| run.repetitions > 1);
    let banded = pairs.len() <= chart::MOST_BANDS && pairs.iter().any(banded);
    let dashed = pairs.iter().any(|pair| pair.run.is_some() && pair.exact.is_some());
    let said = [(banded, chart::BAND), (dashed, "dashes: exact")];
    let said: Vec<&str> = said.iter().filter(|(is, _)| *is).map(|(_, words)| *words).collect();
    Ok(chart::chart(title, &said.join("; "), measurement, &pairs).to_svg())
}
