//! `fedback solve SPEC`.

use crate::lab::error::Error;
use crate::lab::outcome::points_to_json;
use crate::lab::plan::Plan;
use crate::lab::solution::{Settling, Solution};
use crate::lab::words::short;

use super::{Context, label};
use crate::args::SpecArgs;
use crate::output::{self, plural, short_list, short_vector};
use crate::page::Page;

pub fn run(context: &Context, args: SpecArgs) -> Result<(), Error> {
    let experiment = super::experiment(&args)?;
    context.introduce(&experiment.plans);
    let solutions: Vec<(&Plan, Solution)> =
        experiment.plans.iter().map(|plan| (plan, Solution::of(plan))).collect();
    if !args.json {
        let texts: Vec<String> = solutions.iter().map(|(plan, s)| text(plan, s)).collect();
        return output::print(&texts.join("\n"));
    }
    let points = solutions.iter().map(|(plan, found)| (&plan.set, found));
    output::print_json(&points_to_json(points, experiment.swept))
}

/// Where values begin.
const COLUMN: usize = 28;

fn text(plan: &Plan, solution: &Solution) -> String {
    let clients = plural(plan.federation().clients() as u64, "client", "clients");
    let mut page = Page::new(&format!("{} · {clients}", label(plan)), COLUMN);
    let mut add = |name: &str, value: String| page.row(name, &value);
    if let Some(names) = &solution.coordinates {
        add("coordinates", short_list(names));
    }
    match &solution.stable_point {
        Some(point) => add("stable point", short_vector(point)),
        None => add("stable point", "none".into()),
    }
    if let Some(settling) = &solution.arrivals {
        add("first arrivals", first_arrivals(settling));
    }
    add("stability", solution.stability.name().into());
    if let Some(reason) = &solution.reason {
        add("", reason.clone());
    }
    if let Some(margin) = solution.gradient_margin {
        let settling = match plan.federation().memory() {
            None => "small steps settle",
            Some(_) => "steps that are small beside what is remembered settle",
        };
        add("gradient margin", format!("{} ({settling} above 0)", short(margin)));
    }
    if let Some(radius) = solution.minimisation_radius {
        let words = "(repeated risk minimisation settles below 1)";
        add("minimisation radius", format!("{} {words}", short(radius)));
    }
    if let Some(left) = solution.stable_point_details.first().and_then(|one| one.left.as_ref()) {
        let stays = format!("{} % of all people", short(100.0 * left.retained));
        add("who stays", stays);
        add("risk if nobody had left", short(left.base_risk));
        if !left.driven_away.is_empty() {
            add("driven away", left.driven_away.join(", "));
        }
    }
    for other in solution.stable_point_details.iter().skip(1) {
        let stability = other.stability.name();
        add("another stable point", format!("{}, {stability}", short_vector(&other.theta)));
    }
    if let (Some(residual), Some(iterations)) = (solution.residual, solution.iterations) {
        let iterations = plural(iterations as u64, "iteration", "iterations");
        add("residual", format!("{} after {iterations}", short(residual)));
    }
    match &solution.rest {
        Some(rest) => {
            let at = format!("rests at step {}", short(rest.step_size));
            // A bias below rounding is none.
            let visible = size(&rest.bias) > 1e-12 * (1.0 + size(&rest.point));
            let bias = if visible { short(size(&rest.bias)) } else { "0".into() };
            let spread = short(rest.spread);
            let point = short_vector(&rest.point);
            add(&at, format!("{point}, bias {bias}, spread {spread}"));
        }
        None => {
            let why = solution.rest_reason.as_deref().unwrap_or_default();
            add("rests at", format!("not known: {why}"));
        }
    }
    match &solution.optimal_point {
        Some(optimal) => {
            add("optimal point", short_vector(optimal));
            if let Some(minima) = solution.local_optima.filter(|_| !plan.federation().is_affine()) {
                let found = plural(minima as u64, "local optimum", "local optima");
                add("", format!("best of {found} found from several starts"));
            }
            if let (Some(risk), Some(least)) = (solution.risk_stable, solution.risk_optimal) {
                add("risk at the stable point", short(risk));
                add("risk at the optimum", short(least));
                // A price below rounding is none.
                let price = risk - least;
                let visible = price.abs() > 1e-13 * risk.abs();
                add("price of stability", short(if visible { price } else { 0.0 }));
            }
        }
        None => {
            let unknown = || "none, or not a single one".into();
            add("optimal point", solution.optimal_reason.clone().unwrap_or_else(unknown));
        }
    }
    page.text
}

fn size(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Where first arrivals settle, in one line.
fn first_arrivals(settling: &Settling) -> String {
    match (&settling.settles_at, settling.away) {
        (None, _) => {
            let why = settling.settles_reason.as_deref().unwrap_or_default();
            format!("where they settle is not known: {why}")
        }
        (Some(_), _) if settling.correct => "settle at the stable point: correct = true".into(),
        (Some(there), None) => {
            let there = short_vector(there);
            format!("settle at {there}; correct = true would remove the bias")
        }
        // What is below rounding is no bias: everybody is equally fast.
        (Some(there), Some(away)) => match away > 1e-9 * (1.0 + size(there)) {
            true => format!(
                "settle at {}, at a distance of {} from it; correct = true removes the bias",
                short_vector(there),
                short(away)
            ),
            false => "settle at the stable point: speed makes no difference".into(),
        },
    }
}
