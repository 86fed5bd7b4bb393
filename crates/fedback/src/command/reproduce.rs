//! `fedback reproduce [FIGURE…]`: the paper's experiments, redrawn and judged.

use fedback::lab::error::Error;
use fedback::lab::paper::{self, FIGURES, PaperFigure};

use super::{Context, label, run};
use crate::args::ReproduceArgs;
use crate::output;
use crate::progress::Progress;

pub fn run(context: &Context, args: ReproduceArgs) -> Result<(), Error> {
    let chosen: Vec<&PaperFigure> = match args.figures.is_empty() {
        true => FIGURES.iter().collect(),
        false => args.figures.iter().map(|id| paper::figure(id)).collect::<Result<_, _>>()?,
    };
    let mut sections = Vec::new();
    for figure in chosen {
        if let Some(why) = figure.missing() {
            context.warn(&why);
            continue;
        }
        let studies = figure.study(args.quick, args.seed, |plan| {
            let mut progress = Progress::new(&label(plan), context.quiet);
            run::run_one(context, plan, None, None, &mut progress)
        })?;
        sections.push(figure.section(&studies));
    }
    let report = paper::report(sections, args.quick);
    let page = report.write(&args.out)?;
    if args.json {
        return output::print_json(&report.verdicts());
    }
    let claims = report.sections.iter().flat_map(|section| &section.claims);
    let lines: String = claims
        .map(|claim| format!("  {}\n      {}\n", claim.statement, claim.verdict.words()))
        .collect();
    output::print(&format!("{lines}  report: {}\n", page.display()))
}
