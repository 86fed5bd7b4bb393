//! What theory looks at in place of a plan whose cohorts are the first to arrive.
//!
//! Clients who are equally fast are sampled without replacement. Otherwise the expected round is one
//! of a federation at the *effective weights*, in proportion to p_i π_i, and the covariance of the
//! coefficients follows from who arrives together with whom ([`Arrived`]). For every other scheme it
//! is the plan itself.

use std::borrow::Cow;

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Scheme};
use fedback_theory::cohort::{Arrived, WeightsThatCount, effective_weights};
use fedback_theory::inclusion::{inclusion, nobody, pairs};
use fedback_theory::round;
use serde::Serialize;

use crate::error::Error;
use crate::plan::Plan;
use crate::words::no_inclusion;

/// The problem and the protocol that describe a plan's expected rounds.
pub struct Dynamics<'a> {
    /// The problem at the weights that count.
    pub federation: Cow<'a, Federation>,
    /// The protocol: without replacement where first arrivals are equally fast.
    pub protocol: Protocol,
    /// Who arrives together with whom, where that depends on who is fast.
    pub arrived: Option<Arrived>,
    /// What speed makes of the weights, for first arrivals.
    pub speed: Option<Speed>,
    /// Why it is not known who arrives first; then everybody is taken for equally fast.
    pub unknown: Option<String>,
}

/// What speed makes of the weights.
#[derive(Clone, Debug, Serialize)]
pub struct Speed {
    /// π_i: the probability of being among the first.
    pub inclusion: Vec<f64>,
    /// The weights that rounds effectively use.
    pub effective_weights: Vec<f64>,
    /// Whether coefficients make up for speed.
    #[serde(skip)]
    pub correct: bool,
}

impl Speed {
    /// Of a plan with first arrivals; `None` for other schemes, and the reason where it is not known.
    pub fn of(plan: &Plan) -> Result<Option<Self>, String> {
        let Scheme::FirstArrivals { cohort, correct } = plan.protocol.scheme else {
            return Ok(None);
        };
        let planned = plan.arrivals.as_ref().ok_or_else(unknown)?;
        let weights = plan.federation().weights();
        let inclusion = match &planned.inclusion {
            Some(known) => known.to_vec(),
            None => inclusion(&planned.arrivals, cohort).map_err(no_inclusion)?,
        };
        if inclusion.iter().zip(weights.iter()).all(|(pi, p)| pi * p == 0.0) {
            return Err("nobody of any weight ever arrives before the deadline".into());
        }
        let effective_weights = match correct {
            true => weights.to_vec(),
            false => effective_weights(weights, &inclusion),
        };
        Ok(Some(Speed { inclusion, effective_weights, correct }))
    }

    /// The problem at the effective weights.
    pub fn federation(&self, plan: &Plan) -> Result<Federation, String> {
        let weights = self.effective_weights.as_slice();
        plan.federation().with_weights(weights).map_err(|misfit| misfit.to_string())
    }
}

fn unknown() -> String {
    "algorithm.latency is missing, so that it is not known who arrives first".into()
}

impl<'a> Dynamics<'a> {
    /// Of a plan; refused where theory does not know its algorithm.
    pub fn of(plan: &'a Plan) -> Result<Self, Error> {
        round::supported(plan.federation(), &plan.protocol)?;
        let mut dynamics = Dynamics {
            federation: Cow::Borrowed(plan.federation()),
            protocol: plan.protocol,
            arrived: None,
            speed: None,
            unknown: None,
        };
        let Scheme::FirstArrivals { cohort, correct } = plan.protocol.scheme else {
            return Ok(dynamics);
        };
        let equally_fast = Scheme::WithoutReplacement { cohort };
        let speed = match Speed::of(plan) {
            Ok(speed) => speed,
            Err(why) => {
                dynamics.protocol.scheme = equally_fast;
                dynamics.unknown = Some(why);
                return Ok(dynamics);
            }
        };
        let planned = plan.arrivals.as_ref().zip(speed);
        let Some((planned, speed)) = planned else { return Ok(dynamics) };
        if planned.arrivals.is_uniform() {
            dynamics.protocol.scheme = equally_fast;
        } else {
            let moments = pairs(&planned.arrivals, cohort).map_err(no_inclusion);
            match moments.and_then(|pairs| Ok((pairs, speed.federation(plan)?))) {
                Ok((pairs, federation)) => {
                    let weights = plan.federation().weights();
                    let arrived = Arrived::new(weights, pairs, cohort, correct);
                    dynamics.arrived = Some(arrived.or_nobody(nobody(&planned.arrivals)));
                    if WeightsThatCount::of(&plan.protocol)? == WeightsThatCount::Effective {
                        dynamics.federation = Cow::Owned(federation);
                    }
                }
                Err(why) => {
                    dynamics.protocol.scheme = equally_fast;
                    dynamics.unknown = Some(why);
                    return Ok(dynamics);
                }
            }
        }
        dynamics.speed = Some(speed);
        Ok(dynamics)
    }
}
