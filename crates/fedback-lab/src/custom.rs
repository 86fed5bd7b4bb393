//! Problems of which a part, the population or the loss, is a function: the same loop, with a plain
//! algorithm and a judge that averages over rows, or over fresh observations where there are none.

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_core::stream::{Purpose, Streams};
use fedback_engine::backend::{Backend, Course};
use fedback_engine::plain::{Gradients, Plain};
use fedback_engine::simulate::Simulation;
use fedback_engine::work::{Work, WorkError};

use crate::error::Error;
use crate::measure::{Judge, Model};
use crate::plan::{CustomPlan, Outline};
use crate::runner::Runnable;

/// Fresh observations per client for an estimate of its risk, where the spec does not say.
const SAMPLE: u64 = 1000;

/// A plan with the functions that it lacked.
pub struct Custom<G> {
    plan: CustomPlan,
    clients: Plain<G>,
}

impl<G: Gradients> Custom<G> {
    /// Completes a plan.
    pub fn new(plan: CustomPlan, gradients: G) -> Self {
        let clients = Plain { gradients, weights: plan.weights.clone() };
        Custom { plan, clients }
    }

    /// What the plan lacked.
    pub fn gradients(&self) -> &G {
        &self.clients.gradients
    }
}

impl<G: Gradients> Runnable for Custom<G> {
    fn outline(&self) -> &Outline {
        &self.plan
    }

    fn backend(&self, course: Course) -> Result<Box<dyn Backend + '_>, Error> {
        course.check(self.clients.dim())?;
        Ok(Box::new(Simulation::new(&self.clients, course)))
    }

    fn judge(&self) -> Box<dyn Judge + '_> {
        Box::new(Sampled(self))
    }
}

/// Judges by averages over a client's rows, or over a sample drawn for the purpose.
struct Sampled<'a, G>(&'a Custom<G>);

impl<G: Gradients> Judge for Sampled<'_, G> {
    fn risk(&self, model: Model<'_>) -> Result<f64, WorkError> {
        let weights = self.0.plan.weights.iter().enumerate();
        let mut sum = 0.0;
        for (client, weight) in weights.filter(|(_, weight)| **weight > 0.0) {
            sum += weight * self.client_risk(model, client)?;
        }
        Ok(sum)
    }

    fn client_risk(&self, model: Model<'_>, client: usize) -> Result<f64, WorkError> {
        let (plan, gradients) = (&self.0.plan, &self.0.clients.gradients);
        let id = ClientId(client as u32);
        let batch = match gradients.everything(id, model.theta)? {
            Some(batch) => batch,
            None => {
                let Model { repetition, round, .. } = model;
                let streams = Streams::new(plan.seed(), repetition, round, Purpose::Measure);
                let sample = plan.spec.measure.sample.map_or(SAMPLE, |sample| sample.0);
                let mut cursor = gradients.cursor(streams, id)?;
                gradients.draw(&mut cursor, model.theta, sample as usize)?
            }
        };
        let mut unused = vec![0.0; plan.dim];
        gradients.gradient(id, model.theta, &batch, None, &mut unused)
    }

    fn likely_cause(&self, _round: Round) -> String {
        "likely cause: steps too large, a response too strong, or a custom part that returned \
         something not finite; try smaller steps"
            .into()
    }
}
