//! What a user should know before the first round.

use fedback_core::base::Base;
use fedback_core::protocol::{Step, StepSize};
use fedback_theory::limit::RoundMap;
use fedback_theory::stable::{Stability, stable_points};

use crate::exact;
use crate::plan::{Outline, Plan};
use crate::spec::{self, Entry, Latency, PerClient, Weights};
use crate::words::{self, short};

/// Names beyond this are not all listed.
const MOST_NAMES: usize = 8;

/// What was read, and whose the entries of lists are.
pub fn notes(plan: &Outline) -> Vec<String> {
    let Some(table) = &plan.table else { return Vec::new() };
    let mut notes = vec![format!("read {}", table.sentence())];
    let problem = &plan.spec.problem;
    let weights: Option<Vec<String>> = match &problem.weights {
        Some(Weights::List(list)) => Some(list.iter().map(|weight| short(weight.0)).collect()),
        _ => None,
    };
    let per_client = |values: Option<&PerClient>| match values {
        Some(PerClient::List(list)) => Some(list.iter().map(entry).collect()),
        _ => None,
    };
    let [mean, median, sigma] = match &plan.spec.algorithm.rounds().latency {
        Some(Latency::Exponential(latency)) => [Some(&latency.mean), None, None],
        Some(Latency::Lognormal(latency)) => [None, Some(&latency.median), Some(&latency.sigma)],
        Some(Latency::Trace(_)) | None => [None; 3],
    };
    for (key, list) in [
        ("weights", weights),
        ("sensitivity", per_client(problem.response.each().map(|(_, values)| values))),
        ("latency.mean", per_client(mean)),
        ("latency.median", per_client(median)),
        ("latency.sigma", per_client(sigma)),
    ] {
        if let (Some(names), Some(list)) = (&plan.client_names, list) {
            let why =
                "a list follows the names in the order of code points, by_name = { … } does not";
            notes.push(format!("{key}: {} ({why})", paired(names, &list)));
        }
    }
    notes
}

fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Number(number) => short(*number),
        Entry::Vector(vector) => {
            format!("[{}]", vector.iter().map(|x| short(*x)).collect::<Vec<_>>().join(", "))
        }
        Entry::Matrix(_) => "a matrix".into(),
    }
}

/// Every name with its value.
fn paired(names: &[String], values: &[String]) -> String {
    shortened(names.iter().zip(values).map(|(name, value)| format!("{name} {value}")).collect())
}

/// A list, shortened in the middle.
fn shortened(mut entries: Vec<String>) -> String {
    if entries.len() > MOST_NAMES {
        entries.splice(3..entries.len() - 1, ["…".into()]);
    }
    entries.join(", ")
}

/// What is said of a plan that can be run and may disappoint.
pub fn warnings(plan: &Plan) -> Vec<String> {
    let stable = if plan.spec.measure.distance { of_stable_point(plan) } else { None };
    let rest = of_step_size(plan).into_iter().chain(of_groups(plan)).chain(of_exact_curve(plan));
    stable.into_iter().chain(rest).collect()
}

/// Of fewer rows, the standard error of a rate may be above 0.1.
const FEW_ROWS: u64 = 25;

/// Groups that say little, and gaps that do not exist.
fn of_groups(plan: &Outline) -> Option<String> {
    let (column, table) = (plan.spec.measure.group.as_ref()?, plan.table.as_ref()?);
    if let [only] = &table.groups[..] {
        return Some(format!(
            "measure.group: every row has \"{only}\" in the column \"{column}\"; there are no gaps \
             between groups"
        ));
    }
    let parts = [(&table.group_rows, "rows"), (&table.group_rows_held_out, "held-out rows")];
    let few = |(counts, rows): (&Vec<u64>, &str)| {
        let groups = table.groups.iter().zip(counts);
        let few = groups.filter(|(_, count)| (1..FEW_ROWS).contains(*count));
        few.map(|(name, count)| format!("{name} {count} {rows}")).collect::<Vec<_>>()
    };
    let few = parts.into_iter().flat_map(few).collect::<Vec<_>>();
    (!few.is_empty()).then(|| {
        format!(
            "measure.group: by \"{column}\" some groups are small ({}); below {FEW_ROWS} rows the \
             standard error of a rate may be above 0.1, and a gap counts all groups alike: join \
             small groups in the table",
            shortened(few)
        )
    })
}

fn of_exact_curve(plan: &Plan) -> Option<String> {
    let seconds = exact::takes_too_long(plan)?;
    Some(format!(
        "exact values are left out beside this run: they would take about {} s; `fedback exact` \
         takes them",
        short(seconds.round())
    ))
}

fn of_stable_point(plan: &Plan) -> Option<String> {
    let report = || stable_points(plan.federation(), &plan.start);
    match &plan.stable_point {
        None => {
            let why = words::stable(&report());
            let why = why.unwrap_or_else(|| "no stable point was found".into());
            Some(format!("{why}; the distance to it is not recorded"))
        }
        Some(_) if plan.federation().is_affine() => {
            let report = report();
            let repels = report.stability() == Stability::Repelling;
            words::stable(&report).filter(|_| repels)
        }
        Some(_) => None,
    }
}

/// Rows × coordinates² that are looked at where no stable point was: less than a second.
const AFFORDABLE: f64 = 1e8;

/// The share of a run in which decaying steps may be too large without a word.
const BRIEF: f64 = 0.1;

/// Steps with which an average round makes errors grow.
fn of_step_size(plan: &Plan) -> Option<String> {
    let protocol = &plan.protocol;
    let rows = match plan.federation().base() {
        Base::Table(table) => table.len(),
        Base::Gaussian(_) => plan.clients(),
    };
    let affordable = rows as f64 * (plan.dim as f64).powi(2) < AFFORDABLE;
    if plan.arrivals.is_some() || (plan.stable_point.is_none() && !affordable) {
        return None;
    }
    let place = plan.stable_point.as_deref().unwrap_or(&plan.start);
    let mut map = RoundMap::new(plan.federation(), protocol, None, place).ok()?;
    let first = protocol.step_size.at(Step(0));
    if map.radius(first).is_some_and(|radius| radius < 1.0) {
        return None;
    }
    let limit = map.largest_step().filter(|limit| first > *limit)?;
    let steps = plan.spec.rounds.0 as f64 * protocol.local_steps as f64;
    let until = match protocol.step_size {
        StepSize::Decaying { beta, gamma } if beta / limit - gamma < BRIEF * steps => return None,
        StepSize::Decaying { beta, gamma } if beta / limit - gamma < steps => {
            let round = (beta / limit - gamma) / protocol.local_steps as f64;
            format!(" until about round {}", short(round.ceil()))
        }
        StepSize::Decaying { .. } | StepSize::Constant(_) => String::new(),
    };
    let raw = matches!(&plan.spec.problem.base, spec::Base::Table(table) if !table.standardize);
    let fix = if raw { ", or set standardize = true" } else { "" };
    Some(format!(
        "the step size, {} at the start, is above {}, the largest with which an average round \
         shrinks errors near {}: they grow{until}; choose algorithm.step_size below it{fix}",
        short(first),
        short(limit),
        if plan.stable_point.is_some() { "the stable point" } else { "the start" },
    ))
}
