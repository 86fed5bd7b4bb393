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
use fedback_theory::stable;
use rayon::iter::{ParallelBridge, ParallelIterator};

use crate::dynamics::{Dynamics, Speed};
use crate::error::Error;
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
    /// What speed makes of the weights, for first arrivals: the certificate is about the effective
    /// ones.
    pub speed: Option<Speed>,
    /// How far their stable point is from the problem's own, where both are known.
    pub away: Option<f64>,
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
        let choice = dynamics.choice.as_ref();
        let rounds = plan.spec.rounds.0;
        let mut certificate =
            Certificate::of_choice(federation, protocol, choice, &plan.start, rounds, stage);
        let mut tried = None;
        if !federation.is_affine() && dynamics.unknown.is_none() {
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
        let (mut verdict, mut reason) = (judgement.verdict, judgement.reason.clone());
        if let Some(why) = &dynamics.unknown {
            let (equal, words) = (verdict.as_str(), &reason);
            reason = format!("{why}; were all clients equally fast it would be: {equal} ({words})");
            verdict = Verdict::Unknown;
        }
        Ok(Check {
            speed: dynamics.speed.clone(),
            away: away(plan, &dynamics, &certificate),
            certificate,
            verdict,
            reason,
            trial: tried,
            confidence: None,
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
        let (protocol, choice) = (&dynamics.protocol, dynamics.choice.as_ref());
        let weights = dynamics.federation.weights();
        let resamples = resamples.filter_map(|one| one.with_weights(weights.clone()).ok());
        // Shares of ones are counts, whose sum does not depend on the order.
        let judged = resamples.take(most).par_bridge();
        let verdicts = judged.filter_map(|one| confidence([one], protocol, choice, &plan.start));
        let add = |a: Confidence, b: Confidence| Confidence {
            resamples: a.resamples + b.resamples,
            shares: std::array::from_fn(|k| a.shares[k] + b.shares[k]),
        };
        let confidence = verdicts.reduce_with(add).map(|sum| Confidence {
            shares: sum.shares.map(|count| count / sum.resamples as f64),
            ..sum
        });
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
