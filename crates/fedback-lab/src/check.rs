//! The stability certificate of a plan: verdict, numbers, a picture.
//!
//! Theory certifies. Where a problem is not affine its certificate rests on linearised noise, so that
//! *settles* is tried as well: a few seeded repetitions of the run itself must end where it was said
//! ([`trial`]).

mod json;
mod picture;
pub mod trial;

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_theory::certificate::{Answer, Certificate, Confidence, Verdict, confidence};
use rayon::iter::{ParallelBridge, ParallelIterator};

use crate::plan::Plan;
use trial::Trial;

pub use picture::{Curve, figure};

/// Rows of all resamples together that are judged where every judgement reads the rows again and again.
const AFFORDABLE: usize = 60_000;
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

    /// The same check with the share of every verdict among resampled problems; of those of a large
    /// table the first, as many as some seconds allow.
    pub fn with_resamples(
        self,
        plan: &Plan,
        resamples: impl Iterator<Item = Federation> + Send,
    ) -> Self {
        let most = match &plan.federation.base {
            Base::Table(table) if !plan.federation.is_affine() => {
                (AFFORDABLE / table.len().max(1)).max(FEWEST)
            }
            _ => usize::MAX,
        };
        // Shares of ones are counts, whose sum does not depend on the order.
        let judged = resamples.take(most).par_bridge();
        let verdicts = judged.filter_map(|one| confidence([one], &plan.protocol, &plan.start));
        let add = |a: Confidence, b: Confidence| Confidence {
            resamples: a.resamples + b.resamples,
            shares: std::array::from_fn(|k| a.shares[k] + b.shares[k]),
        };
        let confidence = verdicts.reduce_with(add).map(|sum| Confidence {
            shares: sum.shares.map(|count| count / sum.resamples as f64),
            ..sum
        });
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
