//! `fedback plan SPEC --accuracy A`.

use std::io::IsTerminal;
use std::path::Path;

use crate::lab::advice::{Advice, Question, Rival, latency, planned_spec, scheme_label};
use crate::lab::error::Error;
use crate::lab::experiment::Experiment;
use crate::lab::plan::Plan;
use crate::lab::spec::{Document, SchemeName};
use crate::lab::words::{short, steps};
use crate::theory::bounds::Cost;
use crate::theory::planner::{Prices, Proposal};

use super::{Context, label};
use crate::args::{PlanArgs, SchemeChoice};
use crate::output::{self, plural};
use crate::page::Page;
use crate::progress::{Progress, Share};
use crate::screen;

pub fn run(context: &Context, args: PlanArgs) -> Result<(), Error> {
    let question = question(&args)?;
    let document = super::document(&args.spec)?;
    let plan = &Experiment::only(&document)?;
    question.check(plan).map_err(super::in_spec(&args.spec))?;
    if let Some(taken) = args.output.as_deref().filter(|path| path.exists() && !args.force) {
        let why = "exists already; choose another name, or replace it with --force";
        return Err(Error::input(taken.display(), why));
    }
    context.introduce(std::slice::from_ref(plan));
    let bar = Share::new(&format!("{} · planning", label(plan)), context.quiet);
    let mut progress = Progress::doing(" · checking", context.quiet);
    let mut hear = |share: f64| bar.set(share);
    let advice = Advice::of(plan, question, &mut hear, &mut progress, &context.stop)?;
    let written = write(&args, &document, plan, &advice)?;
    match args.spec.json {
        true => output::print_json(&advice.to_json(plan.federation().clients()))?,
        false => output::print(&text(plan, &advice, &written))?,
    }
    match &advice.best {
        Ok(_) => Ok(()),
        Err(binding) => Err(Error::Failed(format!("{}: {}", label(plan), binding.reason))),
    }
}

/// Writes what was asked for, and says what.
fn write(
    args: &PlanArgs,
    document: &Document,
    plan: &Plan,
    advice: &Advice,
) -> Result<Vec<String>, Error> {
    let mut written = Vec::new();
    if let (Some(path), Ok(best)) = (&args.output, &advice.best) {
        let directory = path.parent().filter(|parent| *parent != Path::new(""));
        let directory = directory.unwrap_or(Path::new("."));
        let spec = planned_spec(document, best, advice.rival, directory);
        output::write_file(path, &spec)?;
        written.push(format!("wrote {0}; now: fedback run {0}", path.display()));
    }
    if let (Some(path), Ok(_)) = (&args.figure, &advice.best) {
        output::write_svg(path, &advice.figure(&label(plan)).to_svg())?;
        written.push(format!("wrote {}", path.display()));
    }
    Ok(written)
}

fn question(args: &PlanArgs) -> Result<Question, Error> {
    let count = |option: &str, value: f64| {
        let whole = (1.0..=1e15).contains(&value) && value.fract() == 0.0;
        let why = format!("found {value}; allowed: a whole number, 1 or more");
        if whole { Ok(value as u64) } else { Err(Error::input(option, why)) }
    };
    let all = [SchemeChoice::Full, SchemeChoice::WithReplacement, SchemeChoice::WithoutReplacement];
    let schemes = if args.schemes.is_empty() { &all[..] } else { &args.schemes };
    let list: Result<Vec<usize>, Error> =
        args.local_steps.iter().map(|e| Ok(count("--local-steps", *e)? as usize)).collect();
    Ok(Question {
        accuracy: args.accuracy,
        prices: Prices {
            communication: args.communication_cost,
            straggler: args.straggler,
            latency: latency(&args.latency).map_err(Error::Question)?,
        },
        budget: count("--budget", args.budget)?,
        local_steps: Some(list?).filter(|list| !list.is_empty()),
        schemes: schemes
            .iter()
            .map(|choice| match choice {
                SchemeChoice::Full => SchemeName::Full,
                SchemeChoice::WithReplacement => SchemeName::WithReplacement,
                SchemeChoice::WithoutReplacement => SchemeName::WithoutReplacement,
            })
            .collect(),
        algorithms: Rival::parse(&args.algorithms).map_err(Error::Question)?,
        most_clients: args
            .max_cohort
            .map(|most| count("--max-cohort", most))
            .transpose()?
            .map(|most| most as usize),
        safety: args.safety,
        smoothness: args.smoothness,
        repetitions: args.repetitions.map(|value| count("--repetitions", value)).transpose()?,
        drawn: args.figure.is_some() || !args.spec.json && std::io::stdout().is_terminal(),
    })
}

fn setting(proposal: &Proposal) -> String {
    let sizes = steps(proposal.step_size, proposal.steps() as f64);
    format!("E = {}, {}, steps {sizes}", proposal.local_steps, scheme_label(proposal.scheme))
}

/// Where values begin.
const COLUMN: usize = 27;

fn text(plan: &Plan, advice: &Advice, written: &[String]) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| rows.push((name.into(), value));
    let accuracy = short(advice.question.accuracy);
    if let Some(start) = advice.start_distance_sq.filter(|at| *at <= advice.question.accuracy) {
        let words = "already: nothing needs to be done; one round of this setting keeps it";
        add("the start", format!("is at {} {words}", short(start)));
    }
    let headline = match &advice.best {
        Ok(best) => {
            if advice.rivals.len() > 1 {
                add("algorithm", advice.rival.label());
            }
            add("setting", setting(best));
            let (steps, total) = (best.steps(), short(best.total()));
            let talk = short(best.reach.rounds as f64 * best.communication);
            add("steps", format!("{steps} in {}", plural(best.reach.rounds, "round", "rounds")));
            add("total cost", format!("{total} = {steps} local steps + {talk} communication"));
            let how = if advice.exact { "exact" } else { "mean path and linearised spread" };
            let later = short(best.reach.worst_after);
            let now = short(best.reach.distance_sq);
            add("predicted", format!("{now} after these rounds, at most {later} later ({how})"));
            "reached and kept by".to_string()
        }
        // The reason is the error that follows.
        Err(_) => "is out of reach".to_string(),
    };
    if let Some(verified) = &advice.verified {
        let verdict = if verified.holds { "holds" } else { "DOES NOT HOLD" };
        add(
            "simulated",
            format!(
                "{} ± {} over {} repetitions, at most {} up to step {}: {verdict}",
                short(verified.distance_sq),
                short(verified.standard_error),
                verified.repetitions,
                short(verified.worst_after),
                verified.simulated_steps
            ),
        );
    } else if advice.best.is_ok() {
        add("simulated", "no, it would take too long; --repetitions N insists".into());
    }
    let ratio = |other: &Proposal| match &advice.best {
        Ok(best) => format!(" ({} times the plan's)", short(other.total() / best.total())),
        Err(_) => String::new(),
    };
    add(
        "the spec's own",
        match &advice.own {
            Some(own) => {
                let why = advice.own_excluded.as_ref();
                let why = why.map_or(String::new(), |why| format!("; not chosen: {why}"));
                format!("{} steps, cost {}{}{why}", own.steps(), short(own.total()), ratio(own))
            }
            None => "does not reach and keep it".into(),
        },
    );
    for (rival, best) in advice.rivals.iter().filter(|_| advice.rivals.len() > 1) {
        let cost = match best {
            Some(best) => format!("cost {}{}", short(best.total()), ratio(best)),
            None => "does not reach and keep it".into(),
        };
        add(&rival.label(), cost);
    }
    if let Some((printed, corrected)) = &advice.paper {
        let show = |cost: &Option<Cost>| cost.map_or("none".into(), |cost| short(cost.steps));
        let words = match (printed, corrected) {
            (None, None) => "none: what its theorem assumes is not met here".into(),
            _ => format!(
                "{} printed, {} corrected, under its own step sizes",
                show(printed),
                show(corrected)
            ),
        };
        add("the paper's T_ε", words);
    }
    if let Some(guide) = advice.noise_limited_local_steps {
        add("best E for noise alone", format!("about {}", short(guide)));
    }
    if advice.search_cut {
        let words = "was cut short because it took too long: there may be cheaper settings; narrow it \
                     with --local-steps, --schemes or --max-cohort";
        add("the search", words.into());
    }
    let heading = format!("{} · squared distance {accuracy} {headline}", label(plan));
    let mut page = Page::new(&heading, COLUMN);
    rows.iter().for_each(|(name, value)| page.row(name, value));
    let mut text = page.text;
    if std::io::stdout().is_terminal() && advice.best.is_ok() {
        let (columns, rows) = screen::chart();
        let chart = advice.figure(&label(plan)).to_text(columns, rows);
        text.push_str(&format!("\n{chart}\n"));
    }
    written.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    text
}
