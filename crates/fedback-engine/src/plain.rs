//! Local work spelled out, for populations and losses that are not built in.
//!
//! The same rules as in `clients.rs`, step by step, for a block of members at a time: a function that
//! takes arrays is asked once a step for all clients of all repetitions, one that takes a single client
//! ([`OneByOne`]) for each. Under `deploy = "step"` a batch is drawn at every step, at the local w. Under
//! `deploy = "round"` the observations of all steps are drawn at once, at the θ last broadcast: a real
//! site is asked once a round.

use std::ops::Range;
use std::sync::Arc;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Batch, Deploy};
use fedback_core::stream::Streams;

use crate::rule::{Coordinate, Rule, StepSizes, WithRule, clip, keep, with_rule};
use crate::work::{Order, Scratch, Task, Work, WorkError};

pub use crate::observations::{BuiltInCursor, Observations};

/// A client in one repetition.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The streams of its repetition and round.
    pub streams: Streams,
    /// Which client.
    pub client: ClientId,
}

/// Observations and gradients of members, a block of them at a time: what is theirs stands one after
/// the other in every array.
pub trait Blocks: Sync {
    /// Where in their observations of one round draws go on.
    type Cursor;
    /// Observations of all of them, in whatever form.
    type Batch;

    /// Coordinates of θ.
    fn dim(&self) -> usize;

    /// Members of a block that have so many observations at a time; all they have, where none is
    /// said.
    fn together(&self, observations: Option<usize>) -> usize;

    /// Prepares the draws of one round.
    fn cursor(&self, members: &[Member]) -> Result<Self::Cursor, WorkError>;

    /// Draws fresh observations of every member, which react to its model of `deployed`.
    fn draw(
        &self,
        cursor: &mut Self::Cursor,
        deployed: &[f64],
        count: usize,
    ) -> Result<Self::Batch, WorkError>;

    /// Every observation that the members have, as they react to `deployed`, where they can be
    /// listed.
    fn everything(
        &self,
        members: &[Member],
        deployed: &[f64],
    ) -> Result<Option<Self::Batch>, WorkError>;

    /// Writes the mean loss of every member at its own θ over some of its observations, and the gradient
    /// of that; over all of them where `range` is none.
    fn gradients(
        &self,
        members: &[Member],
        theta: &[f64],
        batch: &Self::Batch,
        range: Option<Range<usize>>,
        out: Judged<'_>,
    ) -> Result<(), WorkError>;
}

/// Room for the losses of members, one each, and their gradients.
pub struct Judged<'a> {
    /// Mean losses.
    pub losses: &'a mut [f64],
    /// Gradients.
    pub gradients: &'a mut [f64],
}

/// Observations and gradients of a single client, batch by batch.
pub trait Gradients: Sync {
    /// Where in a client's observations of one round a draw goes on.
    type Cursor;
    /// Observations, in whatever form.
    type Batch;

    /// Coordinates of θ.
    fn dim(&self) -> usize;

    /// Prepares the draws of one client in one round.
    fn cursor(&self, streams: Streams, client: ClientId) -> Result<Self::Cursor, WorkError>;

    /// Draws fresh observations that react to `deployed`.
    fn draw(
        &self,
        cursor: &mut Self::Cursor,
        deployed: &[f64],
        count: usize,
    ) -> Result<Self::Batch, WorkError>;

    /// Every observation that a client has, as they react to `deployed`, where they can be listed.
    fn everything(
        &self,
        _client: ClientId,
        _deployed: &[f64],
    ) -> Result<Option<Self::Batch>, WorkError> {
        Ok(None)
    }

    /// Writes the gradient of the mean loss over some of a batch's observations at θ, and returns
    /// that loss; over all of them where `range` is none.
    fn gradient(
        &self,
        client: ClientId,
        theta: &[f64],
        batch: &Self::Batch,
        range: Option<Range<usize>>,
        out: &mut [f64],
    ) -> Result<f64, WorkError>;
}

/// Blocks of one member.
#[derive(Clone, Debug)]
pub struct OneByOne<G>(pub G);

impl<G: Gradients> Blocks for OneByOne<G> {
    type Cursor = Vec<G::Cursor>;
    type Batch = Vec<G::Batch>;

    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn together(&self, _observations: Option<usize>) -> usize {
        1
    }

    fn cursor(&self, members: &[Member]) -> Result<Self::Cursor, WorkError> {
        members.iter().map(|member| self.0.cursor(member.streams, member.client)).collect()
    }

    fn draw(
        &self,
        cursor: &mut Self::Cursor,
        deployed: &[f64],
        count: usize,
    ) -> Result<Self::Batch, WorkError> {
        let each = cursor.iter_mut().zip(deployed.chunks_exact(self.dim()));
        each.map(|(cursor, deployed)| self.0.draw(cursor, deployed, count)).collect()
    }

    fn everything(
        &self,
        members: &[Member],
        deployed: &[f64],
    ) -> Result<Option<Self::Batch>, WorkError> {
        let each = members.iter().zip(deployed.chunks_exact(self.dim()));
        each.map(|(member, deployed)| self.0.everything(member.client, deployed)).collect()
    }

    fn gradients(
        &self,
        members: &[Member],
        theta: &[f64],
        batch: &Self::Batch,
        range: Option<Range<usize>>,
        out: Judged<'_>,
    ) -> Result<(), WorkError> {
        let dim = self.dim();
        let models = theta.chunks_exact(dim).zip(out.gradients.chunks_exact_mut(dim));
        let each = members.iter().zip(batch).zip(models).zip(out.losses);
        for (((member, batch), (theta, gradient)), loss) in each {
            *loss = self.0.gradient(member.client, theta, batch, range.clone(), gradient)?;
        }
        Ok(())
    }
}

/// Does the work of clients by their [`Blocks`], one after the other.
#[derive(Clone, Debug)]
pub struct Plain<B> {
    /// Observations and gradients.
    pub gradients: B,
    /// The clients' weights, which scaled objectives need.
    pub weights: Arc<[f64]>,
}

impl<B: Blocks> Work for Plain<B> {
    fn dim(&self) -> usize {
        self.gradients.dim()
    }

    fn wants_all(&self) -> bool {
        self.gradients.together(Some(1)) > 1
    }

    fn work(
        &self,
        order: &Order<'_>,
        tasks: &[Task<'_>],
        deltas: &mut [f64],
        kept: &mut [f64],
        _scratch: &mut Scratch,
    ) -> Result<(), WorkError> {
        let dim = self.dim();
        let (mut members, mut broadcasts) = (Vec::new(), Vec::new());
        for task in tasks {
            members.extend(task.members());
            broadcasts.resize(members.len(), task.broadcast);
        }
        let observations = match (order.protocol.batch, order.protocol.deploy) {
            (Batch::All, _) => None,
            (Batch::Sampled(size), Deploy::Step) => Some(size),
            (Batch::Sampled(size), Deploy::Round) => Some(size * order.step_sizes.len()),
        };
        let together = self.gradients.together(observations);
        let blocks = members.chunks(together).zip(broadcasts.chunks(together));
        let mut kept = kept.chunks_mut(together.saturating_mul(dim));
        for ((members, broadcasts), deltas) in
            blocks.zip(deltas.chunks_mut(together.saturating_mul(dim)))
        {
            let kept = kept.next().unwrap_or_default();
            let job = Job { plain: self, order, members, broadcasts, deltas, kept };
            with_rule(order.protocol.local, job)?;
        }
        Ok(())
    }

    fn losses(
        &self,
        order: &Order<'_>,
        task: &Task<'_>,
        theta: &[f64],
        out: &mut [f64],
        _scratch: &mut Scratch,
    ) -> Result<(), WorkError> {
        let deployed = &task.broadcast[..self.dim()];
        let members: Vec<Member> = task.members().collect();
        let observations = match order.protocol.batch {
            Batch::All => None,
            Batch::Sampled(size) => Some(size),
        };
        self.judge(&members, observations, theta, deployed, out)
    }
}

impl<B: Blocks> Plain<B> {
    /// Writes every member's mean loss at θ over fresh observations that react to `deployed`, or over
    /// all that it has.
    pub fn judge(
        &self,
        members: &[Member],
        observations: Option<usize>,
        theta: &[f64],
        deployed: &[f64],
        out: &mut [f64],
    ) -> Result<(), WorkError> {
        let together = self.gradients.together(observations);
        for (members, losses) in members.chunks(together).zip(out.chunks_mut(together)) {
            let deployed = deployed.repeat(members.len());
            let batch = match observations {
                None => self.everything(members, &deployed)?,
                Some(count) => {
                    let mut cursor = self.gradients.cursor(members)?;
                    self.gradients.draw(&mut cursor, &deployed, count)?
                }
            };
            let theta = theta.repeat(members.len());
            let mut unused = vec![0.0; theta.len()];
            let out = Judged { losses, gradients: &mut unused };
            self.gradients.gradients(members, &theta, &batch, None, out)?;
        }
        Ok(())
    }

    fn everything(&self, members: &[Member], deployed: &[f64]) -> Result<B::Batch, WorkError> {
        let reason = || "batch = \"all\" where observations cannot be listed".into();
        let client = members.first().map_or(0, |member| member.client.0);
        let all = self.gradients.everything(members, deployed)?;
        all.ok_or_else(|| WorkError { client, reason: reason() })
    }
}

/// The work of a block, once the rule is known.
struct Job<'a, B> {
    plain: &'a Plain<B>,
    order: &'a Order<'a>,
    members: &'a [Member],
    /// What was broadcast to each of them.
    broadcasts: &'a [&'a [f64]],
    deltas: &'a mut [f64],
    kept: &'a mut [f64],
}

impl<B: Blocks> WithRule for Job<'_, B> {
    type Output = Result<(), WorkError>;

    fn with<R: Rule>(self, rule: R) -> Result<(), WorkError> {
        let Job { plain, order, members, broadcasts, deltas, kept } = self;
        let Plain { gradients: blocks, weights } = plain;
        let dim = blocks.dim();
        let mut theta = Vec::with_capacity(members.len() * dim);
        broadcasts.iter().for_each(|sent| theta.extend_from_slice(&sent[..dim]));
        let mut control = vec![0.0; theta.len()];
        let sent = broadcasts.iter().flat_map(|sent| &sent[dim..]);
        for ((control, sent), kept) in control.iter_mut().zip(sent).zip(&*kept) {
            *control = rule.control(*sent, *kept);
        }
        let mut local = theta.clone();
        let (mut losses, mut gradients) = (vec![0.0; members.len()], vec![0.0; theta.len()]);
        let mut cursor = blocks.cursor(members)?;
        let steps = order.step_sizes.len();
        let round = match (order.protocol.deploy, order.protocol.batch) {
            (Deploy::Step, _) => None,
            (Deploy::Round, Batch::All) => Some(plain.everything(members, &theta)?),
            (Deploy::Round, Batch::Sampled(size)) => {
                Some(blocks.draw(&mut cursor, &theta, steps * size)?)
            }
        };
        for (step, &step_size) in order.step_sizes.iter().enumerate() {
            let fresh = match (&round, order.protocol.batch) {
                (Some(_), _) => None,
                (None, Batch::All) => Some(plain.everything(members, &local)?),
                (None, Batch::Sampled(size)) => Some(blocks.draw(&mut cursor, &local, size)?),
            };
            let range = match (&fresh, order.protocol.batch) {
                (None, Batch::Sampled(size)) if steps > 1 => Some(step * size..(step + 1) * size),
                _ => None,
            };
            if let Some(batch) = fresh.as_ref().or(round.as_ref()) {
                let out = Judged { losses: &mut losses, gradients: &mut gradients };
                blocks.gradients(members, &local, batch, range, out)?;
            }
            // Members of one scale are one long array, of which the machine takes several at a time.
            let scale = |member: &Member| order.objective_scale(weights, member.client);
            let mut end = 0;
            for same in members.chunk_by(|a, b| scale(a) == scale(b)) {
                let size = StepSizes { plain: step_size, gradient: step_size * scale(&same[0]) };
                let own = end..end + same.len() * dim;
                end = own.end;
                let before = theta[own.clone()].iter().zip(&control[own.clone()]);
                let each = local[own.clone()].iter_mut().zip(before).zip(&gradients[own]);
                for ((w, (theta, control)), gradient) in each {
                    let at = Coordinate { w: *w, theta: *theta, control: *control };
                    *w = rule.step(at, *gradient, size);
                }
            }
        }
        for ((delta, local), theta) in deltas.iter_mut().zip(&local).zip(&theta) {
            *delta = local - theta;
        }
        if let Some(longest) = order.longest() {
            clip(deltas, dim, longest);
        }
        if order.protocol.local.keeps() {
            let each = kept.chunks_exact_mut(dim).zip(deltas.chunks_exact(dim));
            for (sent, (kept, delta)) in broadcasts.iter().zip(each) {
                keep(rule, &sent[dim..], kept, delta, order.total_step());
            }
        }
        Ok(())
    }
}
