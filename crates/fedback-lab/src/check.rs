//! The stability certificate of a plan: verdict, numbers, a picture.
//!
//! Theory certifies. Where a problem is not affine its certificate rests on linearised noise, so that
//! *settles* is tried as well: a few seeded repetitions of the run itself must end where it was said
//! ([`trial`]).

mod confidence;
mod json;
mod picture;
pub mod trial;
pub mod words;

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_theory::certificate::{Case, Certificate, Outlook, SmallSteps, Verdict};
use fedback_theory::stable;
use rayon::iter::{ParallelBridge, ParallelIterator};

use crate::dynamics::{Dynamics, Speed};
use crate::error::Error;
use crate::plan::Plan;
use crate::table_summary::TableSummary;
use trial::Trial;
use words::Words;

pub use confidence::Confidence;
pub use picture::{Curve, figure};

/// Rows of all resamples together that are judged where every judgement reads the rows again and again.
const AFFORDABLE: usize = 60_000;
/// Where no reason is given.
const NOWHERE: &str = "no stable point is known";
/// Resamples below which a share says little.
const FEWEST: usize = 40;

/// The answer of `fedback check`.
#[derive(Clone, Debug)]
pub struct Check {
    /// What theory says.
    pub certificate: Certificate,
    /// The verdict: the certificate's, unless a trial speaks against it.
    pub verdict: Verdict,
    /// In one sentence.
    pub reason: String,
    /// What the plan's own step sizes do: the certificate's answer, unless a trial speaks against it.
    pub own_steps: Outlook,
    /// The same of small steps.
    pub small_steps: SmallSteps,
    /// Why repeated minimisation, own and small steps do what they do, in words.
    pub whys: [String; 3],
    /// Who tips the federation over, in one sentence.
    pub tips: String,
    /// What the run itself said, where it was asked.
    pub trial: Option<Trial>,
    /// The share of every verdict among resampled estimates, where the response was fitted.
    pub confidence: Option<Confidence>,
    /// What speed makes of the weights, for first arrivals: the certificate is about the effective
    /// ones.
    pub speed: Option<Speed>,
    /// How far their stable point is from the problem's own, where both are known.
    pub away: Option<f64>,
    /// What the spec doubts.
    pub doubts: Vec<String>,
    /// What the table was found to hold.
    pub table: Option<TableSummary>,
    client_names: Option<Vec<String>>,
}

/// How far first arrivals settle from the stable point of the problem itself.
fn away(plan: &Plan, dynamics: &Dynamics<'_>, certificate: &Certificate) -> Option<f64> {
    dynamics.speed.as_ref()?;
    let there = &certificate.point()?.point.theta;
    let own = stable::stable_point(&plan.federation, &plan.start)?;
    Some(own.iter().zip(there).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt())
}

impl Check {
    /// Checks a plan; `stage` is told what is being done.
    pub fn of(plan: &Plan, stage: &mut dyn FnMut(&'static str)) -> Result<Self, Error> {
        if plan.arrivals.is_some() {
            stage("looking who is first");
        }
        let dynamics = Dynamics::of(plan)?;
        let (federation, protocol) = (dynamics.federation.as_ref(), &dynamics.protocol);
        let (arrived, rounds) = (dynamics.arrived.as_ref(), plan.spec.rounds.0);
        let certificate =
            Certificate::of(federation, protocol, arrived, &plan.start, rounds, stage);
        let judgement = &certificate.judgement;
        let (mut own_steps, mut small_steps) =
            (judgement.own_steps.clone(), judgement.small_steps.clone());
        let nowhere = crate::words::stable(&certificate.stable).unwrap_or_else(|| NOWHERE.into());
        let mut whys = [
            crate::words::minimisation(&judgement.minimisation),
            words::why(&own_steps.answer.why, &nowhere, false),
            words::why(&small_steps.answer.why, &nowhere, true),
        ];
        let mut tried = None;
        if !federation.is_affine() && dynamics.unknown.is_none() {
            stage("trying");
            if !trial::of_named_steps(plan, &dynamics, &certificate, &mut small_steps) {
                small_steps.answer.settles = None;
                whys[2] =
                    "small steps lead to the stable point, but none were found that do so in \
                           a trial"
                        .into();
            }
            if own_steps.answer.settles == Some(true) {
                tried = trial::of(plan, &certificate);
            }
        }
        if let Some(why) = tried.as_ref().and_then(|trial| trial.objection.as_ref()) {
            own_steps.answer.settles = None;
            whys[1] = format!("it should settle, but a trial run did not: {why}");
        }
        let settles = (judgement.minimisation.settles, own_steps.answer.settles);
        let small = small_steps.answer.settles;
        let mut verdict = Verdict::of(settles.0, settles.1, small, judgement.nowhere);
        let words = Words {
            protocol,
            minimisation: (settles.0, &whys[0]),
            own: (&own_steps, &whys[1]),
            small: (&small_steps, &whys[2]),
            nowhere: judgement.nowhere,
        };
        let mut reason = words.reason(verdict);
        if let Some(why) = &dynamics.unknown {
            let (equal, words) = (crate::words::verdict(verdict), &reason);
            reason = format!("{why}; were all clients equally fast it would be: {equal} ({words})");
            verdict = Verdict::Unknown;
        }
        let names = federation.client_names();
        let tips = words::tips(&certificate.clients, |client| match names {
            Some(names) => format!("\"{}\"", names[client]),
            None => format!("client {client}"),
        });
        Ok(Check {
            speed: dynamics.speed.clone(),
            away: away(plan, &dynamics, &certificate),
            certificate,
            verdict,
            reason,
            own_steps,
            small_steps,
            whys,
            tips,
            trial: tried,
            confidence: None,
            doubts: plan.spec.doubts.clone(),
            table: plan.table.clone(),
            client_names: federation.client_names().map(<[String]>::to_vec),
        })
    }

    /// The same check with the share of every verdict among resampled problems; of those of a large
    /// table the first, as many as some seconds allow.
    pub fn with_resamples(
        self,
        plan: &Plan,
        resamples: impl Iterator<Item = Federation> + Send,
    ) -> Result<Self, Error> {
        let most = match plan.federation.base() {
            Base::Table(table) if !plan.federation.is_affine() => {
                (AFFORDABLE / table.len().max(1)).max(FEWEST)
            }
            Base::Table(_) | Base::Gaussian(_) => usize::MAX,
        };
        let dynamics = Dynamics::of(plan)?;
        let (protocol, arrived) = (&dynamics.protocol, dynamics.arrived.as_ref());
        let weights = dynamics.federation.weights();
        let resamples = resamples.filter_map(|one| one.with_weights(weights.clone()).ok());
        let judged = resamples.take(most).par_bridge().map(|one| {
            let stable = stable::stable_points(&one, &plan.start);
            Case::new(&one, arrived, &plan.start, &stable).judge(protocol).verdict()
        });
        let confidence = Confidence::of(judged.collect::<Vec<_>>());
        Ok(Check { confidence, ..self })
    }

    /// How a client is called.
    pub fn client_name(&self, client: usize) -> String {
        match &self.client_names {
            Some(names) => names[client].clone(),
            None => client.to_string(),
        }
    }
}
