//! The verdict: what repeated minimisation and P-FedAvg do, in one word and one sentence.

use crate::p_fedavg::PFedAvg;
use fedback_core::protocol::StepSize;

use super::minimisation::minimisation;
use super::outlook::{Case, Outlook, outlook, short};
use super::small_steps::{SmallSteps, small_steps};
use crate::stable::StableReport;

/// What retraining does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Repeated minimisation and P-FedAvg at the protocol's own step sizes settle.
    Settles,
    /// P-FedAvg settles with the step sizes that are named.
    SettlesWithSmallSteps,
    /// Repeated minimisation settles, P-FedAvg does not at any small step size.
    MinimisationOnly,
    /// Neither does.
    DoesNotSettle,
    /// It could not be told.
    Unknown,
}

impl Verdict {
    /// Every verdict, the best first.
    pub const ALL: [Verdict; 5] = [
        Verdict::Settles,
        Verdict::SettlesWithSmallSteps,
        Verdict::MinimisationOnly,
        Verdict::DoesNotSettle,
        Verdict::Unknown,
    ];

    /// The word of the JSON contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Settles => "settles",
            Verdict::SettlesWithSmallSteps => "settles-with-small-steps",
            Verdict::MinimisationOnly => "minimisation-only",
            Verdict::DoesNotSettle => "does-not-settle",
            Verdict::Unknown => "unknown",
        }
    }
}

/// One question answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Yes, no, or not known.
    pub settles: Option<bool>,
    /// Why, in words.
    pub why: String,
}

impl Answer {
    pub(super) fn unknown(why: &str) -> Self {
        Answer { settles: None, why: why.into() }
    }
}

/// The verdict and the answers it rests on.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// In one sentence.
    pub reason: String,
    /// Does repeated minimisation settle?
    pub minimisation: Answer,
    /// What P-FedAvg does at its own step sizes.
    pub own_steps: Outlook,
    /// What it does at small ones.
    pub small_steps: SmallSteps,
}

/// Judges a problem whose stable points are known.
pub(super) fn judge(case: &Case<'_>, protocol: &PFedAvg, report: &StableReport) -> Judgement {
    let everywhere = report.everywhere.and_then(|(radius, _)| radius);
    let minimisation = minimisation(case, everywhere);
    let own_steps = outlook(case, protocol);
    let small_steps = match case.points.is_empty() {
        true => small_steps_nowhere(report),
        false => small_steps(case, protocol),
    };
    combine(report, protocol, minimisation, own_steps, small_steps)
}

/// No stable point is known: of an affine problem that says something, of others nothing.
pub(super) fn small_steps_nowhere(report: &StableReport) -> SmallSteps {
    let certain = report.everywhere.is_some()
        && !report.line
        && report.stability == crate::stable::Stability::None;
    let why = report.reason.clone().unwrap_or_else(|| "no stable point is known".into());
    SmallSteps {
        answer: Answer { settles: certain.then_some(false), why },
        point: None,
        largest_in_mean: None,
        largest: None,
        constant: None,
        decaying: None,
    }
}

pub(super) fn combine(
    report: &StableReport,
    protocol: &PFedAvg,
    minimisation: Answer,
    own_steps: Outlook,
    small_steps: SmallSteps,
) -> Judgement {
    let (verdict, reason) = (Verdict::Unknown, String::new());
    let mut judgement = Judgement { verdict, reason, minimisation, own_steps, small_steps };
    judgement.conclude(protocol, report);
    judgement
}

impl Judgement {
    /// Draws the verdict from the answers. To be called again where an answer was changed, for example
    /// because a simulation spoke against it.
    pub fn conclude(&mut self, protocol: &PFedAvg, report: &StableReport) {
        let nowhere = report.points.is_empty();
        let (own, small) = (self.own_steps.answer.settles, self.small_steps.answer.settles);
        self.verdict = match (self.minimisation.settles, own, small) {
            (Some(true), Some(true), _) if !nowhere => Verdict::Settles,
            (_, Some(true), _) | (_, _, Some(true)) if !nowhere => Verdict::SettlesWithSmallSteps,
            // Where there is no stable point there is nothing to settle at.
            (_, _, Some(false)) if nowhere => Verdict::DoesNotSettle,
            (Some(true), Some(false), Some(false)) => Verdict::MinimisationOnly,
            (Some(false), Some(false), Some(false)) => Verdict::DoesNotSettle,
            _ => Verdict::Unknown,
        };
        self.reason = reason(
            self.verdict,
            protocol,
            &self.minimisation,
            &self.own_steps,
            &self.small_steps,
            nowhere,
        );
    }
}

fn reason(
    verdict: Verdict,
    protocol: &PFedAvg,
    minimisation: &Answer,
    own: &Outlook,
    small: &SmallSteps,
    nowhere: bool,
) -> String {
    let (again, own_why, small_why) = (&minimisation.why, &own.answer.why, &small.answer.why);
    match verdict {
        Verdict::Settles => format!("repeated minimisation: {again}; P-FedAvg: {own_why}"),
        Verdict::SettlesWithSmallSteps => {
            let named = named(protocol, own, small);
            let why = match (own.answer.settles, minimisation.settles) {
                (Some(true), _) => format!("repeated minimisation does not: {again}"),
                (_, Some(true)) => format!("at its own step sizes it may not: {own_why}"),
                _ => format!(
                    "at its own step sizes it may not: {own_why}; repeated minimisation does not: \
                     {again}"
                ),
            };
            format!("P-FedAvg settles {named}; {why}")
        }
        Verdict::MinimisationOnly => {
            format!("repeated minimisation: {again}; P-FedAvg at any step size: {small_why}")
        }
        Verdict::DoesNotSettle if nowhere => small_why.clone(),
        Verdict::DoesNotSettle => {
            format!("P-FedAvg: {small_why}; repeated minimisation: {again}")
        }
        Verdict::Unknown => {
            let mut open: Vec<String> = Vec::new();
            if small.answer.settles.is_none() {
                open.push(format!("small steps: {small_why}"));
            }
            if own.answer.settles.is_none() && !nowhere {
                open.push(format!("its own step sizes: {own_why}"));
            }
            if minimisation.settles.is_none() {
                open.push(format!("repeated minimisation: {again}"));
            }
            format!("not known is: {}", open.join("; "))
        }
    }
}

/// The step sizes that a verdict names.
fn named(protocol: &PFedAvg, own: &Outlook, small: &SmallSteps) -> String {
    if own.answer.settles == Some(true) {
        return match protocol.step_size {
            StepSize::Constant(size) => format!("at its own constant step size {}", plain(size)),
            StepSize::Decaying { beta, gamma } => {
                format!("at its own step sizes {}/(t + {})", plain(beta), plain(gamma))
            }
        };
    }
    let constant = small.constant.map(|size| format!("a constant step size of {}", plain(size)));
    let decaying =
        small.decaying.map(|(beta, gamma)| format!("{}/(t + {})", plain(beta), plain(gamma)));
    let limit = small.largest.map_or(String::new(), |largest| {
        format!(" (squared errors shrink below {})", short(largest))
    });
    match (constant, decaying) {
        (Some(constant), Some(decaying)) => format!("with {constant} or {decaying}{limit}"),
        (Some(one), None) | (None, Some(one)) => format!("with {one}{limit}"),
        (None, None) => "with small steps".into(),
    }
}

/// A number as it would be typed.
fn plain(number: f64) -> String {
    match (1e-5..1e7).contains(&number.abs()) {
        true => format!("{number}"),
        false => format!("{number:e}"),
    }
}
