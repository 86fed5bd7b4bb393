//! `fedback fit DATA --deployments THETAS`.

use crate::core::stream::Seed;
use crate::fit::model::{Direction, Shape};
use crate::lab::error::Error;
use crate::lab::fit::{Columns, Fitted, Folder, Question, fit};
use crate::lab::words::short;

use super::Context;
use crate::args::{FitArgs, FitResponse, FitShape};
use crate::output;
use crate::page::Page;
use crate::table::table;

pub fn run(context: &Context, args: FitArgs) -> Result<(), Error> {
    let columns = Columns {
        client: args.client,
        deployment: args.deployment,
        individual: args.individual,
        label: args.label,
        ignore: args.ignore,
    };
    let question = Question {
        response: args.response.map(|response| match response {
            FitResponse::BestResponse => Direction::BestResponse,
            FitResponse::Location => Direction::Location,
        }),
        features: args.features,
        shape: match args.shape {
            FitShape::Auto => None,
            FitShape::Scalar => Some(Shape::Scalar),
            FitShape::Vector => Some(Shape::Vector),
            FitShape::Matrix => Some(Shape::Matrix),
        },
        reference: args.reference,
        confidence: args.confidence,
        seed: Seed(args.seed),
    };
    let (files, output) = ((&*args.data, &*args.deployments), (&*args.output, args.force));
    let (fitted, folder) = fit(files, &columns, &question, output)?;
    fitted.all_warnings().iter().for_each(|warning| context.warn(warning));
    if args.json {
        return output::print_json(&fitted.to_json(&folder));
    }
    output::print(&text(&fitted, &folder))
}

/// Numbers of a sensitivity beyond this are left to the JSON.
const MOST_NUMBERS: usize = 16;

fn text(fitted: &Fitted, folder: &Folder) -> String {
    let input = &fitted.input;
    let features = fitted.names_of(&fitted.model.features);
    let heading = format!(
        "{} clients · {} deployments · {} of {}",
        input.clients.len(),
        input.names.len(),
        fitted.response_name(),
        features.join(", "),
    );
    let mut page = Page::new(&heading, 0);
    page.paragraph(&format!("shape: {} ({})", fitted.model.shape.name(), fitted.shape_reason()));
    let header =
        ["client", "of", "sensitivity", "± se", "low", "high", "df", "bracket", "location p"];
    let header: Vec<String> = header.map(String::from).to_vec();
    let mut rows = Vec::new();
    for at in fitted.shown_order() {
        let (client, name) = (&fitted.clients[at], &input.clients[at]);
        let estimates = client.estimates();
        for (at, estimate) in estimates.iter().enumerate().take(MOST_NUMBERS) {
            let (low, high) = estimate.interval(fitted.confidence);
            let first = at == 0;
            let once = |text: String| if first { text } else { String::new() };
            rows.push(vec![
                once(name.clone()),
                part(&features, fitted.model.shape, at),
                short(estimate.value),
                short(estimate.standard_error),
                short(low),
                short(high),
                format!("{:.0}", estimate.degrees),
                once(format!("{} to {}", short(client.bracket.low), short(client.bracket.high))),
                once(client.location.map_or("skipped".into(), |test| short(test.corrected))),
            ]);
        }
        if estimates.len() > MOST_NUMBERS {
            let more = format!("… {} more with --json", estimates.len() - MOST_NUMBERS);
            rows.push(vec![String::new(), more]);
        }
    }
    page.text += &table(&header, &rows);
    missing(fitted, &mut page);
    page.text += "  not identified:\n";
    fitted.not_identified.iter().for_each(|what| page.item(what));
    let spec = folder.spec.display();
    page.text + &format!("  wrote {spec}; now: fedback check {spec}\n")
}

/// Who is not seen again, an item for each client and step.
fn missing(fitted: &Fitted, page: &mut Page) {
    let names = &fitted.input.names;
    let mut first = true;
    for at in fitted.shown_order() {
        for (missing, test) in &fitted.clients[at].missing {
            if missing.count == 0 {
                continue;
            }
            let score = match test {
                Some(test) if test.rejects() => {
                    format!("evidence that it depends on the score (p = {})", short(test.corrected))
                }
                Some(test) => {
                    format!(
                        "no evidence that it depends on the score (p = {})",
                        short(test.corrected)
                    )
                }
                None => "too few to tell whether it depends on the score".into(),
            };
            if std::mem::take(&mut first) {
                page.text += "  not seen again:\n";
            }
            page.item(&format!(
                "{}: {} of {} seen under {} ({:.0} %) are missing under {}; {score}",
                fitted.input.clients[at],
                missing.count,
                missing.of,
                names[missing.from],
                100.0 * missing.share(),
                names[missing.from + 1],
            ));
        }
    }
}

/// Which number of a sensitivity it is.
fn part(features: &[String], shape: Shape, at: usize) -> String {
    match shape {
        Shape::Scalar if features.len() == 1 => features[0].clone(),
        Shape::Scalar => "all".into(),
        Shape::Vector => features[at].clone(),
        Shape::Matrix => {
            format!("{} by {}", features[at / features.len()], features[at % features.len()])
        }
    }
}
