//! `fedback reproduce [FIGURE…]`: the paper's experiments, redrawn and judged.

use fedback::lab::error::Error;
use fedback::lab::event::Ending;
use fedback::lab::paper::{self, FIGURES, PaperFigure, Study};

use super::{Context, run};
use crate::args::ReproduceArgs;
use crate::output;

pub fn run(context: &Context, args: ReproduceArgs) -> Result<(), Error> {
    let chosen: Vec<&PaperFigure> = match args.figures.is_empty() {
        true => FIGURES.iter().collect(),
        false => args.figures.iter().map(|id| paper::figure(id)).collect::<Result<_, _>>()?,
    };
    let mut sections = Vec::new();
    for figure in chosen {
        let studies = study(context, figure, args.quick)?;
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

/// Runs every panel of a figure, and computes it exactly.
fn study(context: &Context, figure: &PaperFigure, quick: bool) -> Result<Vec<Study>, Error> {
    let mut studies = Vec::new();
    for (name, plans) in figure.plans(quick)? {
        let mut points = Vec::new();
        for plan in plans {
            let outcome = run::run_one(context, &plan, None, None)?;
            match &outcome.ending {
                Ending::Done => points.push(paper::studied(plan, outcome)?),
                Ending::Interrupted => return Err(Error::Interrupted("interrupted".into())),
                Ending::Failed(why) => return Err(Error::Failed(format!("{name}: {why}"))),
            }
        }
        studies.push(Study { name, points });
    }
    Ok(studies)
}
