//! `fedback check SPEC`.

mod text;

use std::io::IsTerminal;

use crate::lab::check::{Check, picture};
use crate::lab::error::Error;
use crate::lab::outcome::points_to_json;
use crate::lab::plan::Plan;

use super::{Context, label};
use crate::args::CheckArgs;
use crate::output;
use crate::progress::Stages;
use crate::screen;

pub fn run(context: &Context, args: CheckArgs) -> Result<(), Error> {
    let experiment = super::experiment(&args.spec)?;
    context.introduce(&experiment.plans);
    let mut checks: Vec<(&Plan, Check)> = Vec::new();
    for plan in &experiment.plans {
        let stages = Stages::new(&label(plan), context.quiet);
        let check = Check::of(plan, &mut |stage| stages.now(stage));
        checks.push((plan, check.map_err(super::in_spec(&args.spec))?));
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
        let points = checks.iter().map(|(plan, check)| (&plan.set, check));
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
