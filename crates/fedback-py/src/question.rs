//! `exact`, `solve`, `bounds`, `check` and `plan`: answers as JSON text, with their pictures.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fedback_lab::advice::{Advice, Question, Rival, latency, planned_spec};
use fedback_lab::chart::label_of;
use fedback_lab::check::{Check, picture};
use fedback_lab::custom::Custom;
use fedback_lab::error::Error;
use fedback_lab::exact::exact as exact_of;
use fedback_lab::experiment::Experiment;
use fedback_lab::plan::{Built, Plan};
use fedback_lab::runner::Runnable;
use fedback_lab::solution::Solution;
use fedback_lab::spec::SchemeName;
use fedback_paper::bounds::{Guarantees, Overrides};
use fedback_theory::planner::Prices;
use pyo3::prelude::*;
use serde_json::json;

use crate::custom::{Functions, Parts};
use crate::document::Document;
use crate::error::{raise, wrong};
use crate::outcome::Outcome;
use crate::run::misfit;
use crate::supervise::{free, supervise};

/// An answer to every point: what a sweep set, and the object of the JSON contract.
type Answers = Vec<(String, String)>;

/// Asks something of every point of a spec.
fn each<T: Send>(
    py: Python<'_>,
    document: &Document,
    ask: impl Fn(&Plan) -> Result<T, Error> + Sync,
) -> PyResult<Vec<T>> {
    let work = || document.experiment()?.plans.iter().map(&ask).collect::<Result<Vec<T>, Error>>();
    supervise(py, None, &AtomicBool::new(false), |_| Ok(()), work)?.map_err(raise)
}

/// What a sweep set to get to a plan, as JSON text.
fn set_of(plan: &Plan) -> String {
    serde_json::Value::Object(plan.set.clone()).to_string()
}

/// Exact expectations.
#[pyfunction]
pub fn exact(py: Python<'_>, document: &Document) -> PyResult<Vec<Outcome>> {
    each(py, document, |plan| {
        let inner = exact_of(plan)?;
        Ok(Outcome { inner, records: Vec::new(), id: None })
    })
}

/// Asks something of every point of a spec of which a part may be a Python function.
fn each_of_any<T: Send>(
    py: Python<'_>,
    document: &Document,
    (draw, loss): (Option<Py<PyAny>>, Option<Py<PyAny>>),
    whole: impl Fn(&Plan) -> Result<T, Error> + Sync,
    custom: impl Fn(&Custom<Parts<'_>>, &AtomicBool) -> Result<T, Error> + Sync,
) -> PyResult<Vec<T>> {
    if draw.is_none() && loss.is_none() {
        return each(py, document, whole);
    }
    let (plans, _) = py.detach(|| document.plans()).map_err(raise)?;
    let functions = Functions::new(py, draw, loss)?;
    plans.iter().try_for_each(|plan| functions.check(plan))?;
    let stop = AtomicBool::new(false);
    let ask = |plan| match plan {
        Built::Whole(plan) => whole(&plan),
        Built::Custom(plan) => custom(&functions.custom(plan), &stop),
    };
    let all = || plans.into_iter().map(ask).collect::<Result<Vec<T>, Error>>();
    let asked = supervise(py, Some(1), &stop, |_| Ok(()), || functions.served(all));
    match functions.raised() {
        Some(error) => Err(error),
        None => asked?.map_err(raise),
    }
}

/// What a sweep set to get to a problem with functions, as JSON text.
fn set_of_custom(custom: &Custom<Parts<'_>>) -> String {
    serde_json::Value::Object(custom.outline().set.clone()).to_string()
}

/// Where retraining settles.
#[pyfunction]
#[pyo3(signature = (document, *, draw=None, loss=None))]
pub fn solve(
    py: Python<'_>,
    document: &Document,
    draw: Option<Py<PyAny>>,
    loss: Option<Py<PyAny>>,
) -> PyResult<Answers> {
    let whole = |plan: &Plan| Ok((set_of(plan), json!(Solution::of(plan)).to_string()));
    each_of_any(py, document, (draw, loss), whole, |custom, stop| {
        Ok((set_of_custom(custom), json!(Solution::sampled(custom, stop)?).to_string()))
    })
}

/// The paper's guarantees.
#[pyfunction]
#[pyo3(signature = (document, *, delta, sigma, varsigma, mu, smoothness, accuracy, communication_cost))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
pub fn bounds(
    py: Python<'_>,
    document: &Document,
    delta: Option<f64>,
    sigma: Option<f64>,
    varsigma: Option<f64>,
    mu: Option<f64>,
    smoothness: Option<f64>,
    accuracy: Option<f64>,
    communication_cost: Option<f64>,
) -> PyResult<Answers> {
    let overrides =
        Overrides { delta, sigma, varsigma, mu, smoothness, accuracy, communication_cost };
    overrides.check().map_err(wrong)?;
    each(py, document, |plan| {
        Ok((set_of(plan), Guarantees::of_plan(plan, &overrides)?.to_json().to_string()))
    })
}

/// Certificates: what a sweep set, the JSON, the picture.
#[pyfunction]
#[pyo3(signature = (document, *, draw=None, loss=None))]
pub fn check(
    py: Python<'_>,
    document: &Document,
    draw: Option<Py<PyAny>>,
    loss: Option<Py<PyAny>>,
) -> PyResult<Vec<(String, String, Option<String>)>> {
    let whole = |plan: &Plan| {
        let checked = [(plan, Check::of(plan, &mut |_| {})?)];
        let picture = picture(&checked).map(|picture| picture.to_svg());
        Ok((set_of(plan), json!(checked[0].1).to_string(), picture))
    };
    each_of_any(py, document, (draw, loss), whole, |custom, stop| {
        let check = Check::sampled(custom, stop, &mut |_| {})?;
        Ok((set_of_custom(custom), json!(check).to_string(), None))
    })
}

/// A plan: the JSON, the picture, and the planned spec as TOML where there is one.
#[pyfunction]
#[pyo3(signature = (document, *, accuracy, communication_cost, straggler, latency_model, budget,
    local_steps, schemes, algorithms, max_cohort, safety, smoothness, repetitions, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
pub fn plan(
    py: Python<'_>,
    document: &Document,
    accuracy: f64,
    communication_cost: f64,
    straggler: f64,
    latency_model: &str,
    budget: u64,
    local_steps: Option<Vec<usize>>,
    schemes: Option<Vec<String>>,
    algorithms: Vec<String>,
    max_cohort: Option<usize>,
    safety: Option<f64>,
    smoothness: Option<f64>,
    repetitions: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String, Option<String>)> {
    let question = Question {
        accuracy,
        prices: Prices {
            communication: communication_cost,
            straggler,
            latency: latency(latency_model).map_err(wrong)?,
        },
        budget,
        local_steps,
        schemes: schemes_of(schemes)?,
        algorithms: Rival::parse(&algorithms).map_err(wrong)?,
        most_clients: max_cohort,
        safety,
        smoothness,
        repetitions,
        drawn: true,
    };
    let stop = AtomicBool::new(false);
    let share = AtomicU64::new(0);
    let plan = free(py, || Experiment::only(&document.0)).map_err(raise)?;
    let tick = |py: Python<'_>| match &progress {
        Some(progress) => {
            let now = share.load(Ordering::Relaxed);
            progress.call1(py, ("planning", now, 1000u64)).map(|_| ())
        }
        None => Ok(()),
    };
    let advice = supervise(py, None, &stop, tick, || {
        let mut hear = |part: f64| share.store((1000.0 * part) as u64, Ordering::Relaxed);
        Advice::of(&plan, question, &mut hear, &mut (), &stop)
    })?
    .map_err(raise)?;
    let label = label_of(&plan.spec.name, &plan.set);
    let spec = advice.best.as_ref().ok();
    let spec =
        spec.map(|best| planned_spec(&document.0, best, advice.rival, &document.0.directory));
    Ok((advice.to_json(plan.clients()).to_string(), advice.figure(&label).to_svg(), spec))
}

fn schemes_of(names: Option<Vec<String>>) -> PyResult<Vec<SchemeName>> {
    let all = [
        ("full", SchemeName::Full),
        ("with-replacement", SchemeName::WithReplacement),
        ("without-replacement", SchemeName::WithoutReplacement),
    ];
    let Some(names) = names else { return Ok(all.map(|(_, scheme)| scheme).to_vec()) };
    let find = |name: String| {
        all.iter().find(|(known, _)| *known == name).map(|(_, scheme)| *scheme).ok_or_else(|| {
            let allowed = "allowed: full, with-replacement, without-replacement";
            misfit("schemes", &format!("found {name}; {allowed}"))
        })
    };
    names.into_iter().map(find).collect()
}
