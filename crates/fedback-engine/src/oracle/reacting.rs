//! The loop over local steps for observations that react one by one, or to more than one model.
//!
//! One client after the other, and a batch a step: what its population does is in `people.rs`.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Batch, Deploy};

use super::batch::Drawn;
use super::people::People;
use crate::rule::{Coordinate, Rule, StepSizes};
use crate::work::{Order, Task, WorkError};

/// Clients whose observations react one by one, or that remember their own local steps.
pub struct Reacting<'a, R> {
    /// The problem.
    pub federation: &'a Federation,
    /// What is asked of the clients.
    pub order: &'a Order<'a>,
    /// Who they are.
    pub tasks: &'a [Task<'a>],
    /// Their updates.
    pub deltas: &'a mut [f64],
    /// What they kept; takes what their populations remember now.
    pub kept: &'a mut [f64],
    /// What they make of gradients.
    pub rule: R,
}

impl<R: Rule> Reacting<'_, R> {
    /// Works, one client after the other.
    pub fn work(self) -> Result<(), WorkError> {
        let Reacting { federation, order, tasks, deltas, kept, rule } = self;
        let (dim, ridge) = (federation.dim(), federation.ridge());
        let layout = federation.layout(order.protocol);
        let (mut w, mut gradient, mut control) = (vec![0.0; dim], vec![0.0; dim], vec![0.0; dim]);
        let mut drawn = Drawn::default();
        let mut kept = kept.chunks_exact_mut(layout.kept.max(1));
        let everyone =
            tasks.iter().flat_map(|task| task.clients.iter().map(move |client| (task, client)));
        for ((task, &client), delta) in everyone.zip(deltas.chunks_exact_mut(dim)) {
            let sent = layout.parts(task.broadcast);
            let own = kept.next().unwrap_or_default();
            let (own, past) = own.split_at_mut(layout.control.min(own.len()));
            for ((control, sent), kept) in control.iter_mut().zip(sent.control).zip(own) {
                *control = rule.control(*sent, *kept);
            }
            w.copy_from_slice(sent.theta);
            let scale = order.objective_scale(federation.weights(), client);
            let mut people = People::new(federation, task, client.0);
            for (step, &step_size) in order.step_sizes.iter().enumerate() {
                match order.protocol.deploy {
                    Deploy::Round if step == 0 => people.deploy(&w, people.own(sent.past)),
                    Deploy::Round => {}
                    Deploy::Step => people.step(&w, past),
                }
                match order.protocol.batch {
                    Batch::Sampled(batch) => {
                        people.draw(step as u64, batch, &mut drawn);
                        drawn.gradient(federation.loss(), &w, &mut gradient);
                        for ((gradient, ridge), w) in gradient.iter_mut().zip(&ridge).zip(&w) {
                            *gradient += ridge * w;
                        }
                    }
                    Batch::All => people.expect(&w, &mut gradient),
                }
                let size = StepSizes { plain: step_size, gradient: step_size * scale };
                for j in 0..dim {
                    let at = Coordinate { w: w[j], theta: sent.theta[j], control: control[j] };
                    w[j] = rule.step(at, gradient[j], size);
                }
            }
            for ((delta, w), theta) in delta.iter_mut().zip(&w).zip(sent.theta) {
                *delta = w - theta;
            }
            people.fine()?;
        }
        Ok(())
    }
}

/// The losses of fresh batches, client after client, at one model.
pub struct ReactingLosses<'a> {
    /// The problem.
    pub federation: &'a Federation,
    /// What a loss is taken over.
    pub order: &'a Order<'a>,
    /// Who they are; their populations react to what was broadcast. What those remember that see local
    /// steps is not known here: they answer to the broadcast alone.
    pub task: &'a Task<'a>,
    /// The model that is judged.
    pub theta: &'a [f64],
    /// Their losses.
    pub out: &'a mut [f64],
}

impl ReactingLosses<'_> {
    /// Judges.
    pub fn work(self) -> Result<(), WorkError> {
        let ReactingLosses { federation, order, task, theta, out } = self;
        let layout = federation.layout(order.protocol);
        let sent = layout.parts(task.broadcast);
        let alone;
        let past = match (federation.memory(), sent.past.is_empty()) {
            (Some(memory), true) => {
                alone = sent.theta.repeat(memory.models());
                &alone[..]
            }
            (Some(_) | None, _) => sent.past,
        };
        let mut drawn = Drawn::default();
        for (&client, out) in task.clients.iter().zip(out) {
            let mut people = People::new(federation, task, client.0);
            people.deploy(sent.theta, people.own(past));
            *out = match order.protocol.batch {
                Batch::All => people.risk(theta),
                Batch::Sampled(batch) => {
                    people.draw(0, batch, &mut drawn);
                    people.fine()?;
                    drawn.loss(federation.loss(), theta)
                        + people.unseen(batch)
                        + federation.penalty(theta)
                }
            };
        }
        Ok(())
    }
}
