//! `fedback check SPEC`.

mod text;

use std::io::IsTerminal;

use fedback::lab::check::{Check, Curve, figure};
use fedback::lab::error::Error;
use fedback::lab::figure::Figure;
use fedback::lab::outcome::points_to_json;
use fedback::lab::plan::Plan;
use fedback::lab::words;

use super::{Context, label};
use crate::args::CheckArgs;
use crate::output;
use crate::progress::Stages;
use crate::screen;

/// Curves that one figure can tell apart.
const MOST_CURVES: usize = 6;

pub fn run(context: &Context, args: CheckArgs) -> Result<(), Error> {
    let experiment = super::experiment(&args.spec)?;
    context.introduce(&experiment.plans);
    let mut checks: Vec<(&Plan, Check)> = Vec::new();
    for plan in &experiment.plans {
        let stages = Stages::new(&label(plan), context.quiet);
        // A file that is wrong is said before anything takes time.
        let resamples = if asked_for(&args, plan) { None } else { plan.resampled()? };
        let checked = Check::of(plan, &mut |stage| stages.now(stage));
        let mut check = checked.map_err(super::in_spec(&args.spec))?;
        if let Some(resamples) = resamples {
            stages.now("judging resamples");
            check = check.with_resamples(plan, resamples)?;
        }
        checks.push((plan, check));
    }
    let shown = args.figure.is_some() || (!args.spec.json && std::io::stdout().is_terminal());
    let picture = if shown { picture(&checks) } else { None };
    if let (Some(path), Some(picture)) = (&args.figure, &picture) {
        output::write_svg(path, &picture.to_svg())?;
    }
    if args.figure.is_some() && picture.is_none() {
        context.warn("no round can be linearised: there is nothing to draw");
    }
    if args.spec.json {
        let points = checks.iter().map(|(plan, check)| (&plan.set, check.to_json())).collect();
        return output::print_json(&points_to_json(points, experiment.swept));
    }
    let mut texts: Vec<String> =
        checks.iter().map(|(plan, check)| text::text(plan, check)).collect();
    if let Some(picture) = picture.filter(|_| std::io::stdout().is_terminal()) {
        let (columns, rows) = screen::chart();
        texts.push(format!("{}\n", picture.to_text(columns, rows)));
    }
    if let Some(path) = &args.figure {
        texts.push(format!("  figure: {}\n", path.display()));
    }
    output::print(&texts.join("\n"))
}

/// Whether the sensitivities were asked for rather than fitted: then resamples of the fit say nothing.
fn asked_for(args: &CheckArgs, plan: &Plan) -> bool {
    let keys = args.spec.set.iter().chain(plan.set.keys());
    keys.into_iter().any(|key| key.trim_start().starts_with("problem.response.sensitivity"))
}

fn picture(checks: &[(&Plan, Check)]) -> Option<Figure> {
    let curves: Vec<Curve> = checks
        .iter()
        .take(MOST_CURVES)
        .filter_map(|(plan, check)| Curve::of(plan, check, label(plan)))
        .collect();
    let (plan, check) = checks.first()?;
    let title = match checks.len() {
        1 => format!("{}: {}", label(plan), words::verdict(check.verdict)),
        _ => format!("{}: which steps are small enough", plan.spec.name),
    };
    let subtitle = "below 1 errors shrink from round to round, near the stable point";
    (!curves.is_empty()).then(|| figure(&title, subtitle, &curves))
}
