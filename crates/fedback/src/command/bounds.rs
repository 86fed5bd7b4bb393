//! `fedback bounds SPEC`.

use crate::lab::error::Error;
use crate::lab::outcome::points_to_json;
use crate::lab::plan::Plan;
use crate::lab::words::{self, NOTHING, short};
use crate::paper::bounds::{Guarantees, Overrides, entries, undefined};
use crate::theory::bounds::{Bound, Cost, Value as Number};

use super::label;
use crate::args::BoundsArgs;
use crate::output;
use crate::page::Page;
use crate::table::table;

pub fn run(args: BoundsArgs) -> Result<(), Error> {
    let overrides = overrides(&args)?;
    let experiment = super::experiment(&args.spec)?;
    let of = |plan| Ok((plan, Guarantees::of_plan(plan, &overrides)?));
    let all: Result<Vec<(&Plan, Guarantees)>, Error> = experiment.plans.iter().map(of).collect();
    let all = all.map_err(super::in_spec(&args.spec))?;
    if !args.spec.json {
        let texts: Vec<String> = all.iter().map(|(plan, found)| text(plan, found)).collect();
        return output::print(&texts.join("\n"));
    }
    let points = all.iter().map(|(plan, found)| (&plan.set, found.to_json()));
    output::print_json(&points_to_json(points, experiment.swept))
}

fn overrides(args: &BoundsArgs) -> Result<Overrides, Error> {
    let overrides = Overrides {
        delta: args.delta,
        sigma: args.sigma,
        varsigma: args.varsigma,
        mu: args.mu,
        smoothness: args.smoothness,
        accuracy: args.accuracy,
        communication_cost: args.communication_cost,
    };
    overrides.check().map_err(Error::Question)?;
    Ok(overrides)
}

/// What each constant is for, and the errata (docs/errata.md) in which the versions differ.
const NOTES: [(&str, &str); 15] = [
    ("mu_tilde", "what is left of strong convexity; erratum 4 if scaled"),
    ("c1", "weighs the consensus error; free alpha where no client reacts"),
    ("c2", "second-order terms"),
    ("c3", "growth of the consensus error"),
    ("c4", "c5/(3 delta_0); corrected: D = max(delta_0, 1) for delta_0"),
    ("c5", "source of the consensus error; corrected: D for delta_0"),
    ("c6", "of local_steps"),
    ("c7", "alternative theorems; erratum 3"),
    ("c8", "alternative theorem, with replacement"),
    ("c9", "alternative theorem, without replacement"),
    ("eta0", "printed: cap on the first step; corrected: beta/gamma"),
    ("B", "error added per step; B1, B2 when sampling, erratum 2"),
    ("beta", "2/mu_tilde"),
    ("gamma", "errata 1 and 8"),
    ("upsilon", "the bound is upsilon/(gamma + t)"),
];

fn text(plan: &Plan, found: &Guarantees) -> String {
    let heading = format!("{} · {}, assumptions A1 to A5", label(plan), found.theorem);
    let mut page = Page::new(&heading, 0);
    let words = |values: [&str; 4]| values.map(String::from).to_vec();
    let rows: Vec<Vec<String>> = found
        .constants()
        .into_iter()
        .map(|(key, constant)| {
            let value = constant.value.map_or(NOTHING.into(), short);
            vec![
                key.into(),
                value,
                words::origin(constant.how).into(),
                words::how(constant.how).into(),
            ]
        })
        .collect();
    page.text.push_str(&table(&words(["constant", "value", "origin", "how"]), &rows));
    let delta = found.bounds.delta.map_or(NOTHING.into(), short);
    page.text.push_str(&format!("\n  delta {delta}\n"));
    let show = |value: Number| value.map_or(NOTHING.into(), short);
    let (printed, corrected) = (&found.bounds.printed, &found.bounds.corrected);
    let mut rows: Vec<Vec<String>> = entries(printed)
        .into_iter()
        .zip(entries(corrected))
        .zip(NOTES)
        .map(|(((key, printed), (_, corrected)), (_, note))| {
            vec![key.into(), show(printed), show(corrected), note.into()]
        })
        .collect();
    rows.extend(costs(found, printed, corrected));
    page.text.push_str(&table(&words(["", "printed", "corrected", ""]), &rows));
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (key, why) in found.undefined() {
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, keys)) => keys.push(key),
            None => reasons.push((why, vec![key])),
        }
    }
    for (why, keys) in reasons {
        page.paragraph(&format!("no {}: {why}", keys.join(", ")));
    }
    if found.constants().iter().any(|(_, constant)| words::origin(constant.how) == "estimated") {
        page.paragraph("estimated constants hold at the stable point only: no guarantee follows");
    }
    page.text.push('\n');
    page.paragraph(&match &found.bounds.own_step {
        Ok(upsilon) => {
            let upsilon = short(*upsilon);
            format!("the spec's own step size is covered: upsilon {upsilon}")
        }
        Err(why) => {
            format!("the spec's own step size is not covered: {}", undefined(*why))
        }
    });
    let alternative = &found.bounds.alternative;
    page.paragraph(&match (&alternative.step, &alternative.corrected) {
        (Ok((beta, gamma)), Ok(corrected)) => format!(
            "alternative theorem at {}/(t + {}), G {}: upsilon {} printed, {} corrected \
             (errata 3, 5, 6)",
            short(*beta),
            short(*gamma),
            show(alternative.gradient_bound),
            show(alternative.printed),
            short(*corrected)
        ),
        (Err(why), _) | (_, Err(why)) => {
            format!("no alternative theorem: {}", undefined(*why))
        }
    });
    page.paragraph(&match &found.asymptotic {
        Ok(law) => format!(
            "under the spec's own steps (t + gamma) · E|θ − θ^PS|² tends to {}",
            short(law.distance)
        ),
        Err(why) => format!("no law of large t: {why}"),
    });
    page.text
}

fn costs(found: &Guarantees, printed: &Bound, corrected: &Bound) -> Vec<Vec<String>> {
    let Some(accuracy) = found.accuracy else { return Vec::new() };
    let (printed, corrected) = (found.cost(printed), found.cost(corrected));
    let row = |key: &str, of: fn(&Cost) -> f64, note: String| {
        let show = |cost: &Option<_>| cost.as_ref().map_or(NOTHING.into(), |cost| short(of(cost)));
        vec![key.into(), show(&printed), show(&corrected), note]
    };
    let cost = short(found.communication_cost);
    vec![
        row("steps", |c| c.steps, format!("to a squared distance of {}", short(accuracy))),
        row("communications", |c| c.communications, "2 · floor(steps/local_steps)".into()),
        row("total_time", |c| c.total_time, format!("a communication costs {cost} steps")),
    ]
}
