//! Problems of which a part, the population or the loss, is a function: the same loop, with a plain
//! algorithm and a judge that averages over rows, or over fresh observations where there are none.

use fedback_core::base::Base;
use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_core::stream::{Purpose, Streams};
use fedback_engine::backend::{Backend, Course};
use fedback_engine::plain::{Blocks, Member, Plain};
use fedback_engine::simulate::Simulation;
use fedback_engine::work::{Work, WorkError};

use crate::error::Error;
use crate::measure::{Judge, Model};
use crate::plan::{CustomPlan, Outline};
use crate::runner::Runnable;

/// Fresh observations per client for an estimate of its risk, where the spec does not say.
pub(crate) const SAMPLE: u64 = 1000;

/// A plan with the functions that it lacked.
pub struct Custom<B> {
    pub(crate) plan: CustomPlan,
    clients: Plain<B>,
}

impl<B: Blocks> Custom<B> {
    /// Completes a plan.
    pub fn new(plan: CustomPlan, gradients: B) -> Self {
        let clients = Plain { gradients, weights: plan.weights.clone() };
        Custom { plan, clients }
    }

    /// Who works.
    pub(crate) fn clients(&self) -> &Plain<B> {
        &self.clients
    }

    /// What the plan lacked.
    pub fn gradients(&self) -> &B {
        &self.clients.gradients
    }
}

impl<B: Blocks> Runnable for Custom<B> {
    fn outline(&self) -> &Outline {
        &self.plan
    }

    fn backend(&self, course: Course) -> Result<Box<dyn Backend + '_>, Error> {
        course.check(None, self.clients.dim())?;
        Ok(Box::new(Simulation::new(&self.clients, course)))
    }

    fn judge(&self) -> Box<dyn Judge + '_> {
        Box::new(Sampled(self))
    }
}

/// Judges by averages over a client's rows, or over a sample drawn for the purpose.
struct Sampled<'a, B>(&'a Custom<B>);

impl<B: Blocks> Sampled<'_, B> {
    /// The risks of some clients.
    fn risks(&self, model: Model<'_>, clients: &[usize]) -> Result<Vec<f64>, WorkError> {
        let plan = &self.0.plan;
        let Model { repetition, round, theta } = model;
        let streams = Streams::new(plan.seed(), repetition, round, Purpose::Measure);
        let member = |client: &usize| Member { streams, client: ClientId(*client as u32) };
        let members: Vec<Member> = clients.iter().map(member).collect();
        let observations = match &plan.populations().population {
            Some((Base::Table(_), _)) => None,
            _ => Some(plan.spec.measure.sample.map_or(SAMPLE, |sample| sample.0) as usize),
        };
        let mut risks = vec![0.0; clients.len()];
        self.0.clients.judge(&members, observations, theta, theta, &mut risks)?;
        Ok(risks)
    }
}

impl<B: Blocks> Judge for Sampled<'_, B> {
    fn risk(&self, model: Model<'_>) -> Result<f64, WorkError> {
        let weights = &self.0.plan.weights;
        let clients: Vec<usize> =
            (0..weights.len()).filter(|client| weights[*client] > 0.0).collect();
        let risks = self.risks(model, &clients)?;
        Ok(clients.iter().zip(risks).map(|(client, risk)| weights[*client] * risk).sum())
    }

    fn client_risk(&self, model: Model<'_>, client: usize) -> Result<f64, WorkError> {
        Ok(self.risks(model, &[client])?[0])
    }

    fn likely_cause(&self, _round: Round) -> String {
        "likely cause: steps too large, a response too strong, or a custom part that returned \
         something not finite; try smaller steps"
            .into()
    }
}
