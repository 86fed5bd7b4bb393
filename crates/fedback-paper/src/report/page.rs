//! The HTML page of a report.

use fedback_lab::words::short;

use super::{Claim, Report, Section, Source, VERSION, Verdict};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page.
pub(super) fn html(report: &Report) -> String {
    let contents: String = report
        .sections
        .iter()
        .map(|s| format!("<li><a href=\"#{}\">{}</a></li>", s.id, escape(&s.title)))
        .collect();
    let sections: String = report.sections.iter().map(section).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         {made}<p class=\"lead\">{introduction}</p>\n<nav><ol>{contents}</ol></nav>\n{summary}\n{sections}\
         </main>\n<div id=\"values\" hidden></div>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        title = escape(&report.title),
        introduction = escape(&report.introduction),
        made = made(report),
        summary = summary(report),
    )
}

/// Whose claims, by which program and seed, and how they did.
fn made(report: &Report) -> String {
    let Source { authors, title, published, link } = report.source;
    let seeds: Vec<String> = report.seeds().iter().map(u64::to_string).collect();
    let words = [
        ["holds", "hold"],
        ["holds only under a condition", "hold only under a condition"],
        ["does not hold", "do not hold"],
        ["cannot be decided", "cannot be decided"],
    ];
    let counts = report.tally().into_iter().zip(words).filter(|(count, _)| *count > 0);
    let tally: Vec<String> = counts
        .map(|(count, [one, many])| format!("{count} {}", if count == 1 { one } else { many }))
        .collect();
    format!(
        "<p>{}: <a href=\"{link}\"><cite>{}</cite></a>, {published}</p>\n\
         <p class=\"quiet\">fedback {VERSION} · seed {}</p>\n\
         <p class=\"tally\">Of {} claims {}.</p>\n",
        escape(authors),
        escape(title),
        seeds.join(", "),
        report.claims().count(),
        tally.join(", ")
    )
}

/// All claims at a glance.
fn summary(report: &Report) -> String {
    let rows: String = report
        .sections
        .iter()
        .flat_map(|section| section.claims.iter().map(move |claim| (section, claim)))
        .map(|(section, claim)| {
            format!(
                "<tr><td><a href=\"#{}\">{}</a></td><td>{}</td><td class=\"quiet\">{}</td></tr>",
                section.id,
                escape(claim.statement),
                badge(claim),
                escape(claim.place)
            )
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<h2 id=\"verdicts\">Claims and verdicts</h2>\n<table class=\"claims\">\
         <thead><tr><th>claim</th><th>verdict</th><th>where</th></tr></thead>\
         <tbody>{rows}</tbody></table>\n"
    )
}

fn badge(claim: &Claim) -> String {
    let class = match claim.verdict {
        Verdict::Holds => "holds",
        Verdict::HoldsOnlyWhere(_) => "partly",
        Verdict::DoesNotHold => "fails",
        Verdict::NotDecidable => "open",
    };
    format!("<span class=\"badge {class}\">{}</span>", escape(&claim.verdict.words()))
}

fn section(section: &Section) -> String {
    let figures: String = section
        .figures
        .iter()
        .map(|(_, figure)| format!("<figure>{}</figure>", figure.to_svg()))
        .collect();
    let claims: String = section.claims.iter().map(claim).collect();
    format!(
        "<section id=\"{}\">\n<h2>{}</h2>\n<p>{}</p>\n{figures}\n{claims}\n</section>\n",
        section.id,
        escape(&section.title),
        escape(&section.text)
    )
}

fn claim(claim: &Claim) -> String {
    let numbers: String = claim
        .numbers
        .iter()
        .map(|(name, x)| format!("<tr><td>{}</td><td>{}</td></tr>", escape(name), number(*x)))
        .collect();
    format!(
        "<div class=\"claim\"><p class=\"statement\">“{}” <span class=\"quiet\">{}</span></p>\
         <p>{} {}</p><details><summary>the numbers</summary><table class=\"numbers\">{numbers}\
         </table></details></div>\n",
        escape(claim.statement),
        escape(claim.place),
        badge(claim),
        escape(&claim.reason)
    )
}

fn number(x: f64) -> String {
    if x.is_finite() { short(x) } else { "never".into() }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
