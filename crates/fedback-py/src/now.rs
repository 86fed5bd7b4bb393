//! What is running, how far it is, and what was recorded so far: heard where Rust works, asked for by
//! a Python thread beside it.
//!
//! Records are kept for the result in any case. Sharing them costs the work a lock that nobody else wants
//! but a few times a second; means and pictures are made by those who ask.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fedback_lab::chart::{self, MOST_BANDS, label_of};
use fedback_lab::error::Error;
use fedback_lab::event::{Event, Sink};
use fedback_lab::figure::{Axis, Figure, Series};
use fedback_lab::measure::Measurement;
use fedback_lab::outcome::Statistic;
use fedback_lab::plan::Outline;
use fedback_lab::store::Record;
use pyo3::prelude::*;

/// Runs one after the other, as far as they are.
#[pyclass(frozen)]
#[derive(Default)]
pub struct Now {
    /// How many runs there will be.
    points: usize,
    runs: Mutex<Vec<Going>>,
}

/// A run that was begun.
struct Going {
    name: String,
    label: String,
    round: u64,
    rounds: u64,
    state: &'static str,
    repetitions: usize,
    local_steps: u64,
    /// What is drawn, and its place in a record.
    main: Option<(usize, Measurement)>,
    /// Records since the run was begun or resumed, and how many of them are in `drawn`.
    records: Vec<Record>,
    seen: usize,
    /// The main measurement over local steps.
    drawn: Vec<(f64, Statistic)>,
}

impl Going {
    fn new(plan: &Outline, round: u64, earlier: &[Record]) -> Self {
        let columns = Measurement::of(plan);
        let main = chart::most_informative(|measurement| columns.contains(&measurement));
        let place = |main: Measurement| columns.iter().position(|column| *column == main);
        let mut going = Going {
            name: plan.spec.name.clone(),
            label: label_of(&plan.spec.name, &plan.set),
            round,
            rounds: plan.spec.rounds.0,
            state: "running",
            repetitions: plan.spec.repetitions.0 as usize,
            local_steps: plan.spec.algorithm.rounds().local_steps.0,
            main: main.and_then(|main| Some((place(main)?, main))),
            records: Vec::new(),
            seen: 0,
            drawn: Vec::new(),
        };
        going.drawn = earlier.iter().filter_map(|record| going.point(record)).collect();
        going
    }

    fn point(&self, record: &Record) -> Option<(f64, Statistic)> {
        let (place, _) = self.main?;
        let values = record.values.chunks_exact(self.repetitions).nth(place)?;
        Some(((record.round * self.local_steps) as f64, Statistic::of(values)))
    }

    /// Takes in what was recorded since somebody asked last.
    fn catch_up(&mut self) {
        let new = self.records[self.seen..].iter().filter_map(|record| self.point(record));
        let new: Vec<_> = new.collect();
        self.drawn.extend(new);
        self.seen = self.records.len();
    }

    fn series(&self, colour: usize, banded: bool) -> Series {
        let points = self.drawn.iter().map(|&(step, statistic)| (step, statistic.mean)).collect();
        let series = Series::line(&self.label, colour, points);
        if self.repetitions < 2 || !banded {
            return series;
        }
        series.with_band(self.drawn.iter().map(|(_, statistic)| self.band(statistic)).collect())
    }

    /// Two standard errors on either side.
    fn band(&self, statistic: &Statistic) -> (f64, f64) {
        let error = statistic.standard_error(self.repetitions as u64).unwrap_or(0.0);
        (statistic.mean - 2.0 * error, statistic.mean + 2.0 * error)
    }
}

#[pymethods]
impl Now {
    /// How many runs there will be, and how many were begun.
    #[getter]
    fn points(&self) -> (usize, usize) {
        (self.points, self.runs().len())
    }

    /// Where the latest run stands: "running", "done", "failed" or "interrupted".
    #[getter]
    fn state(&self) -> &'static str {
        self.runs().last().map_or("running", |run| run.state)
    }

    /// The latest run: its label, rounds closed, and all of them.
    #[getter]
    fn run(&self) -> Option<(String, u64, u64)> {
        self.runs().last().map(|run| (run.label.clone(), run.round, run.rounds))
    }

    /// The last value of the latest run's main measurement: its name, the mean over repetitions, and the
    /// standard error of that where there are several.
    fn value(&self) -> Option<(&'static str, f64, Option<f64>)> {
        let mut runs = self.runs();
        let run = runs.last_mut()?;
        run.catch_up();
        let (_, statistic) = run.drawn.last()?;
        let error = statistic.standard_error(run.repetitions as u64);
        Some((run.main?.1.name(), statistic.mean, error))
    }

    /// The main measurement of every run so far, as SVG; none where there is nothing to draw yet.
    fn svg(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.figure().map(|figure| figure.to_svg()))
    }
}

impl Now {
    /// Nothing yet, of so many runs.
    pub fn of(points: usize) -> Self {
        Now { points, ..Now::default() }
    }

    /// Tells a Python function that there is something to ask, if it wants to know.
    pub fn begin(this: &Py<Self>, py: Python<'_>, progress: Option<&Py<PyAny>>) -> PyResult<()> {
        call(py, progress, "begin", (this.clone_ref(py),))
    }

    /// Tells it that nothing will follow.
    pub fn end(py: Python<'_>, progress: Option<&Py<PyAny>>) -> PyResult<()> {
        call(py, progress, "end", ())
    }

    /// Tells it how far the latest run is.
    pub fn show(&self, py: Python<'_>, progress: Option<&Py<PyAny>>) -> PyResult<()> {
        match progress.zip(self.run()) {
            Some((progress, run)) => progress.call1(py, run).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The records of every run, which are handed over. Means of those that nobody asked for are not
    /// made.
    pub fn take_records(&self) -> Vec<Vec<Record>> {
        let take = |run: &mut Going| {
            run.seen = 0;
            std::mem::take(&mut run.records)
        };
        self.runs().iter_mut().map(take).collect()
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Going>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn figure(&self) -> Option<Figure> {
        let mut runs = self.runs();
        runs.iter_mut().for_each(Going::catch_up);
        let (_, main) = runs.last()?.main?;
        let alike = || runs.iter().filter(|run| run.main.is_some_and(|(_, own)| own == main));
        if !alike().any(|run| run.drawn.len() > 1 && run.drawn.iter().any(|p| p.1.mean.is_finite()))
        {
            return None;
        }
        let banded = alike().count() <= MOST_BANDS;
        let several = alike().any(|run| run.repetitions > 1) && banded;
        Some(Figure {
            title: runs.last()?.name.clone(),
            subtitle: if several { chart::BAND.into() } else { String::new() },
            x: Axis::linear("local step t"),
            y: chart::axis(main),
            series: alike().enumerate().map(|(colour, run)| run.series(colour, banded)).collect(),
        })
    }
}

/// Calls a method of a Python object that may be none and may not have it.
fn call<'py>(
    py: Python<'py>,
    object: Option<&Py<PyAny>>,
    method: &str,
    arguments: impl pyo3::call::PyCallArgs<'py>,
) -> PyResult<()> {
    let method = object.map(|object| object.bind(py).getattr_opt(method)).transpose()?.flatten();
    method.map_or(Ok(()), |method| method.call1(arguments).map(|_| ()))
}

/// Listens to runs.
pub struct Listener<'a> {
    /// Where what is heard can be asked for.
    pub now: &'a Now,
    /// What the run had recorded before it was resumed.
    pub earlier: &'a [Record],
}

impl Sink for Listener<'_> {
    fn take(&mut self, event: &Event<'_>) -> Result<(), Error> {
        let mut runs = self.now.runs();
        if let Event::Started { plan, round } = event {
            runs.push(Going::new(plan, *round, self.earlier));
        }
        let Some(run) = runs.last_mut() else { return Ok(()) };
        match event {
            Event::Record(record) => run.records.push((*record).clone()),
            Event::Advanced { round } => run.round = *round,
            Event::Ended(ending) => run.state = ending.word(),
            Event::Started { .. } | Event::Checkpoint { .. } => {}
            Event::Cohort(_) | Event::Incident(_) => {}
        }
        Ok(())
    }
}
