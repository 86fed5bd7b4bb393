//! `fedback reproduce [FIGURE…]`: the paper's experiments, redrawn and judged.

use crate::lab::error::Error;
use crate::paper::reproduce::{Request, reproduce};

use super::Context;
use crate::args::ReproduceArgs;
use crate::output;
use crate::progress::Progress;

pub fn run(context: &Context, args: ReproduceArgs) -> Result<(), Error> {
    let ReproduceArgs { figures, out: folder, quick, seed, json } = args;
    let request = Request { figures, quick, seed, folder };
    let done = reproduce(&request, &mut Progress::new(context.quiet), &context.stop)?;
    done.left_out.iter().for_each(|why| context.warn(why));
    if json {
        return output::print_json(&done.report.verdicts());
    }
    let lines = done.report.claims();
    let lines: String = lines
        .map(|claim| format!("  {}\n      {}\n", claim.statement, claim.verdict.words()))
        .collect();
    output::print(&format!("{lines}  report: {}\n", done.page.display()))
}
