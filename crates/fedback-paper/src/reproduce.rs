//! From the paper's specs to a page with a verdict on every claim, in one go.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use fedback_lab::error::Error;
use fedback_lab::event::Sink;
use fedback_lab::plan::Plan;
use fedback_lab::runner;

use crate::figures::{FIGURES, PaperFigure, figure};
use crate::report::{Report, Section, Source};

/// What to reproduce, and where to.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Figures by their ids; all where none is named.
    pub figures: Vec<String>,
    /// Fewer repetitions or rounds, the same exact curves.
    pub quick: bool,
    /// Another seed than that of the specs: other populations, cohorts and draws.
    pub seed: Option<u64>,
    /// The folder of the page.
    pub folder: PathBuf,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Reproduced {
    /// Figures, claims and verdicts.
    pub report: Report,
    /// The page that shows them.
    pub page: PathBuf,
    /// What was left out and why, a sentence each.
    pub left_out: Vec<String>,
}

/// Runs, judges and writes what was asked for; `listener` hears of every run.
pub fn reproduce(
    request: &Request,
    listener: &mut dyn Sink,
    stop: &AtomicBool,
) -> Result<Reproduced, Error> {
    if request.folder.exists() && !request.folder.is_dir() {
        let why = "is a file; needed: a folder for the page, its figures and curves";
        return Err(Error::input(request.folder.display(), why));
    }
    let (mut there, mut left_out) = (Vec::new(), Vec::new());
    for figure in chosen(&request.figures)? {
        match figure.missing() {
            Some(why) => left_out.push(format!("{} is left out: {why}", figure.id)),
            None => there.push(figure),
        }
    }
    if there.is_empty() {
        return Err(Error::Input(format!("nothing is reproduced: {}", left_out.join("; "))));
    }
    let mut sections = Vec::new();
    for figure in there {
        let run = |plan: &Plan| runner::run(plan, None, &mut [&mut *listener], stop);
        sections.push(figure.section(&figure.study(request.quick, request.seed, run)?));
    }
    let report = report(sections, request.quick);
    Ok(Reproduced { page: report.write(&request.folder)?, report, left_out })
}

/// The figures of some ids, in the order of the paper; all where none is named.
fn chosen(ids: &[String]) -> Result<Vec<&'static PaperFigure>, Error> {
    let named: Vec<&str> =
        ids.iter().map(|id| figure(id).map(|figure| figure.id)).collect::<Result<_, _>>()?;
    let is_chosen = |figure: &&PaperFigure| named.is_empty() || named.contains(&figure.id);
    Ok(FIGURES.iter().filter(is_chosen).collect())
}

const PAPER: Source = Source {
    authors: "Kun Jin, Tongxin Yin, Zhongzhu Chen, Zeyu Sun, Xueru Zhang, Yang Liu, Mingyan Liu",
    title: "Performative Federated Learning: A Solution to Model-Dependent and Heterogeneous \
            Distribution Shifts",
    published: "AAAI 2024",
    link: "https://arxiv.org/abs/2305.05090",
};

/// The report of the figures that were made.
fn report(sections: Vec<Section>, quick: bool) -> Report {
    let (made, all) = (sections.len(), FIGURES.len());
    let mut introduction = "The paper's experiments, simulated (lines, with bands of two standard \
        errors) and in exact expectation (dashed), and its claims about them, judged by the \
        numbers of this run."
        .to_string();
    if made < all {
        introduction += &format!(" This page has {made} of the {all} parts of the reproduction.");
    }
    if quick {
        introduction +=
            " A quick reproduction: fewer repetitions or rounds, the same exact curves.";
    }
    let title = "Performative Federated Learning, reproduced".into();
    Report { title, introduction, source: PAPER, sections }
}
