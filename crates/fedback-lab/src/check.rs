//! The stability certificate of a plan: verdict, numbers, a picture.
//!
//! Theory certifies. Where a problem is not affine its certificate rests on linearised noise, so that
//! *settles* is tried as well: a few seeded repetitions of the run itself must end where it was said
//! ([`trial`]).

mod json;
mod picture;
pub mod trial;

use fedback_core::federation::Federation;
use fedback_theory::certificate::{Answer, Certificate, Confidence, Verdict, confidence};

use crate::plan::Plan;
use trial::Trial;

pub use picture::{Curve, figure};

/// The answer of `fedback check`.
#[derive(Clone, Debug)]
pub struct Check {
    /// What theory says.
    pub certificate: Certificate,
    /// The verdict: the certificate's, unless a trial speaks against it.
    pub verdict: Verdict,
    /// In one sentence.
    pub reason: String,
    /// What the run itself said, where it was asked.
    pub trial: Option<Trial>,
    /// The share of every verdict among resampled estimates, where the response was fitted.
    pub confidence: Option<Confidence>,
    client_names: Option<Vec<String>>,
}

impl Check {
    /// Checks a plan; `stage` is told what is being done.
    pub fn of(plan: &Plan, stage: &mut dyn FnMut(&'static str)) -> Self {
        let (federation, protocol) = (&plan.federation, &plan.protocol);
        let mut certificate =
            Certificate::of(federation, protocol, &plan.start, plan.spec.rounds.0, stage);
        let mut tried = None;
        if !federation.is_affine() {
            stage("trying");
            trial::of_named_steps(plan, &mut certificate);
            if certificate.judgement.own_steps.answer.settles == Some(true) {
                tried = trial::of(plan, &certificate);
            }
        }
        let judgement = &mut certificate.judgement;
        if let Some(why) = tried.as_ref().and_then(|trial| trial.objection.as_ref()) {
            judgement.own_steps.answer = Answer {
                settles: None,
                why: format!("it should settle, but a trial run did not: {why}"),
            };
        }
        judgement.conclude(protocol, &certificate.stable);
        let (verdict, reason) = (judgement.verdict, judgement.reason.clone());
        Check {
            certificate,
            verdict,
            reason,
            trial: tried,
            confidence: None,
            client_names: federation.client_names().map(<[String]>::to_vec),
        }
    }

    /// The same check with the share of every verdict among resampled problems.
    pub fn with_resamples(
        self,
        plan: &Plan,
        resamples: impl IntoIterator<Item = Federation>,
    ) -> Self {
        let confidence = confidence(resamples, &plan.protocol, &plan.start);
        Check { confidence, ..self }
    }

    /// How a client is called.
    pub fn client_name(&self, client: usize) -> String {
        match &self.client_names {
            Some(names) => names[client].clone(),
            None => client.to_string(),
        }
    }
}
