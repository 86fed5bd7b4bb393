//! The loop over local steps for rows that react one by one.
//!
//! What a client's rows do is in `people.rs`, the gradient over what has become of them in `batch.rs`; clients
//! work one after the other.

use fedback_core::base::Table;
use fedback_core::federation::Federation;
use fedback_core::protocol::{self, Deploy};
use fedback_core::simd::{self, Kernel, Path};

use super::batch::{Batch, padded};
use super::group::{Block, Blocks, Few, Many};
use super::people::People;
use crate::rule::{Coordinate, Rule, StepSizes};
use crate::work::{Order, Task, WorkError};

/// Clients whose rows react one by one.
pub struct Reacting<'a, R> {
    /// The problem.
    pub federation: &'a Federation,
    /// Its rows.
    pub table: &'a Table,
    /// What is asked of the clients.
    pub order: &'a Order<'a>,
    /// Who they are.
    pub tasks: &'a [Task<'a>],
    /// Their updates.
    pub deltas: &'a mut [f64],
    /// What they kept, where the rule keeps something.
    pub kept: &'a [f64],
    /// What they make of gradients.
    pub rule: R,
}

impl<R: Rule> Reacting<'_, R> {
    /// Works.
    pub fn work(self) -> Result<(), WorkError> {
        match self.federation.dim().div_ceil(4) {
            1 => simd::run(Steps(self, Few::<1>)),
            2 => simd::run(Steps(self, Few::<2>)),
            3 => simd::run(Steps(self, Few::<3>)),
            4 => simd::run(Steps(self, Few::<4>)),
            many => simd::run(Steps(self, Many(many))),
        }
    }
}

struct Steps<'a, R, B>(Reacting<'a, R>, B);

impl<R: Rule, B: Blocks> Kernel for Steps<'_, R, B> {
    type Output = Result<(), WorkError>;

    #[inline(always)]
    fn run<P: Path>(self, path: P) -> Result<(), WorkError> {
        let Steps(Reacting { federation, table, order, tasks, deltas, kept, rule }, blocks) = self;
        let (dim, ridge) = (federation.dim(), federation.ridge());
        let ridge = ridge.as_slice();
        let mut control = vec![0.0; dim];
        let (mut local, mut slope) = (Vec::new(), vec![Block::default(); blocks.count()]);
        let mut people = People::new(federation, table);
        let mut batch = Batch::default();
        let mut kept = kept.chunks_exact(dim);
        let everyone =
            tasks.iter().flat_map(|task| task.clients.iter().map(move |client| (task, client)));
        for ((task, &client), delta) in everyone.zip(deltas.chunks_exact_mut(dim)) {
            let (theta, sent) = task.broadcast.split_at(dim);
            let own = kept.next().unwrap_or_default();
            for ((control, sent), kept) in control.iter_mut().zip(sent).zip(own) {
                *control = rule.control(*sent, *kept);
            }
            padded(theta, &mut local);
            let scale = order.objective_scale(federation.weights(), client);
            people.turn_to(task, client.0);
            for (step, &step_size) in order.step_sizes.iter().enumerate() {
                let here = step == 0 || order.protocol.deploy == Deploy::Step;
                if here {
                    people.react(&local);
                }
                let w = &mut local.as_flattened_mut()[..dim];
                let gradient = &mut slope.as_flattened_mut()[..dim];
                match order.protocol.batch {
                    protocol::Batch::Sampled(size) => {
                        people.draw(path, blocks, ((step * size) as u64, size), &mut batch);
                        // Scores under what is deployed are margins where that is the local model.
                        batch.scored &= here;
                        let rows = (people.everyone(), federation.loss());
                        batch.gradient(path, rows, &local, blocks, &mut slope);
                        let w = &local.as_flattened()[..dim];
                        let gradient = &mut slope.as_flattened_mut()[..dim];
                        for ((gradient, ridge), w) in gradient.iter_mut().zip(ridge).zip(w) {
                            *gradient += ridge * w;
                        }
                    }
                    protocol::Batch::All => {
                        let population = federation.population(client.0 as usize);
                        population.gradient(w, people.deployed(), gradient);
                    }
                }
                let size = StepSizes { plain: step_size, gradient: step_size * scale };
                let (w, gradient) = (local.as_flattened_mut(), slope.as_flattened());
                let given = theta.iter().zip(&control).zip(&gradient[..dim]);
                for (w, ((theta, control), gradient)) in w[..dim].iter_mut().zip(given) {
                    let at = Coordinate { w: *w, theta: *theta, control: *control };
                    *w = rule.step(at, *gradient, size);
                }
            }
            for ((delta, w), theta) in delta.iter_mut().zip(local.as_flattened()).zip(theta) {
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
    /// Its rows.
    pub table: &'a Table,
    /// What a loss is taken over.
    pub batch: protocol::Batch,
    /// Who they are; their rows react to what was broadcast.
    pub task: &'a Task<'a>,
    /// The model that is judged.
    pub theta: &'a [f64],
    /// Their losses.
    pub out: &'a mut [f64],
}

impl Kernel for ReactingLosses<'_> {
    type Output = Result<(), WorkError>;

    #[inline(always)]
    fn run<P: Path>(self, path: P) -> Result<(), WorkError> {
        let ReactingLosses { federation, table, batch, task, theta, out } = self;
        let (dim, loss) = (federation.dim(), federation.loss());
        let blocks = Many(dim.div_ceil(4));
        let (mut people, mut drawn) = (People::new(federation, table), Batch::default());
        let mut deployed = Vec::new();
        padded(&task.broadcast[..dim], &mut deployed);
        for (&client, out) in task.clients.iter().zip(out) {
            let protocol::Batch::Sampled(size) = batch else {
                let population = federation.population(client.0 as usize);
                *out = population.risk(theta, &task.broadcast[..dim]);
                continue;
            };
            people.turn_to(task, client.0);
            people.react(&deployed);
            people.draw(path, blocks, (0, size), &mut drawn);
            people.fine()?;
            let all = people.everyone();
            let own = |(n, label): (usize, &f64)| {
                let x = drawn.row(all, n, blocks).as_flattened();
                loss.value(theta, &x[..dim], *label)
            };
            let sum: f64 = drawn.labels.iter().enumerate().map(own).sum();
            *out = sum / size as f64 + federation.penalty(theta);
        }
        Ok(())
    }
}
