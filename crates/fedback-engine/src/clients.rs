//! The clients of a built-in problem: a local rule times an oracle.
//!
//! Client i starts at the broadcast θ and makes E steps by its [`Rule`], each along the gradient of a
//! fresh batch from D_i (or of all of it). Under `deploy = "step"` the population reacts to the local
//! w of that very step (the paper); under `deploy = "round"` to the θ last broadcast.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::loss::{Logistic, Loss, Squared};
use fedback_core::protocol::Batch;
use fedback_core::simd;

use crate::oracle::{
    Clients, Losses, MarginRows, MeanRows, NormalBatch, Oracle, Reacting, ReactingLosses, Vectors,
    lanes,
};
use crate::rule::{Rule, WithRule, clip, keep, with_rule};
use crate::work::{Order, Scratch, Task, Work, WorkError};

impl Work for Federation {
    fn dim(&self) -> usize {
        Federation::dim(self)
    }

    fn weights(&self, theta: &[f64]) -> Option<Vec<f64>> {
        self.weighs().then(|| self.turnout(theta, false).shares)
    }

    fn work(
        &self,
        order: &Order<'_>,
        tasks: &[Task<'_>],
        deltas: &mut [f64],
        kept: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<(), WorkError> {
        refuse_absent(self, tasks)?;
        let rule = order.protocol.local;
        with_rule(rule, Job { federation: self, order, tasks, deltas, kept, scratch })
    }

    fn losses(
        &self,
        order: &Order<'_>,
        task: &Task<'_>,
        theta: &[f64],
        out: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<(), WorkError> {
        refuse_absent(self, &[*task])?;
        let (batch, vectors) = (order.protocol.batch, &mut scratch.vectors);
        if let (Base::Table(table), None) = (self.base(), self.shift()) {
            return ReactingLosses { federation: self, table, batch, task, theta, out }.work();
        }
        with_oracle(self, Judgement { federation: self, batch, task, theta, out, vectors });
        Ok(())
    }
}

/// Something to be done with the oracle of a problem once it is known which.
trait WithOracle {
    fn with<O: Oracle>(self, oracle: &O);
}

/// The oracle of a problem. With the lanes of normal data, the only match on what data and loss are
/// in the engine.
fn with_oracle(federation: &Federation, work: impl WithOracle) {
    match (federation.base(), federation.loss()) {
        (Base::Gaussian(base), Loss::Mean) => work.with(&NormalBatch(base)),
        (Base::Table(table), Loss::Mean) => work.with(&MeanRows(table)),
        (Base::Table(table), Loss::Squared { .. }) => work.with(&MarginRows(table, Squared)),
        (Base::Table(table), Loss::Logistic { .. }) => work.with(&MarginRows(table, Logistic)),
        // There is no such federation.
        (Base::Gaussian(_), Loss::Squared { .. } | Loss::Logistic { .. }) => {}
    }
}

/// The losses of a task, once the oracle is known.
struct Judgement<'a> {
    federation: &'a Federation,
    batch: Batch,
    task: &'a Task<'a>,
    theta: &'a [f64],
    out: &'a mut [f64],
    vectors: &'a mut Vectors,
}

impl WithOracle for Judgement<'_> {
    fn with<O: Oracle>(self, oracle: &O) {
        let Judgement { federation, batch, task, theta, out, vectors } = self;
        simd::run(Losses { federation, oracle, batch, task, theta, out, vectors });
    }
}

impl<R: Rule> WithOracle for Clients<'_, R> {
    fn with<O: Oracle>(self, oracle: &O) {
        self.work(oracle);
    }
}

/// A site's table has rows of its own clients only.
fn refuse_absent(federation: &Federation, tasks: &[Task<'_>]) -> Result<(), WorkError> {
    let Base::Table(table) = federation.base() else { return Ok(()) };
    if !table.is_partial() {
        return Ok(());
    }
    let mut clients = tasks.iter().flat_map(|task| task.clients);
    match clients.find(|client| table.block(client.0 as usize).1.is_empty()) {
        None => Ok(()),
        Some(client) => {
            Err(WorkError { client: client.0, reason: "its rows do not lie here".into() })
        }
    }
}

/// The work of a block of clients, once the rule is known.
struct Job<'a> {
    federation: &'a Federation,
    order: &'a Order<'a>,
    tasks: &'a [Task<'a>],
    deltas: &'a mut [f64],
    kept: &'a mut [f64],
    scratch: &'a mut Scratch,
}

impl WithRule for Job<'_> {
    type Output = Result<(), WorkError>;

    fn with<R: Rule>(self, rule: R) -> Result<(), WorkError> {
        let Job { federation, order, tasks, deltas, kept, scratch } = self;
        let Scratch { vectors, lanes: block } = scratch;
        match (federation.base(), federation.shift()) {
            (Base::Gaussian(base), Some(shift)) if shift.is_diagonal() => {
                lanes::work(federation, base, order, tasks, (&mut *deltas, kept), rule, block);
            }
            (Base::Table(table), None) => {
                let deltas = &mut *deltas;
                Reacting { federation, table, order, tasks, deltas, kept, rule }.work()?;
            }
            (Base::Gaussian(_) | Base::Table(_), _) => {
                let deltas = &mut *deltas;
                let clients = Clients { federation, order, tasks, deltas, kept, rule, vectors };
                with_oracle(federation, clients);
            }
        }
        if let Some(longest) = order.longest() {
            clip(deltas, federation.dim(), longest);
        }
        if order.protocol.local.keeps() {
            let (dim, total) = (federation.dim(), order.total_step());
            let mut first = 0;
            for task in tasks {
                let numbers = first..first + task.clients.len() * dim;
                first = numbers.end;
                let (kept, deltas) = (&mut kept[numbers.clone()], &deltas[numbers]);
                keep(rule, &task.broadcast[dim..], kept, deltas, total);
            }
        }
        Ok(())
    }
}
