//! The loop over local steps for rows that react one by one.
//!
//! A row is drawn as everywhere, by its word of the client's stream; what becomes of it (does it move, what
//! is its label now, does it stay) takes one uniform number at the same place of a stream beside that. So
//! every response sees the same rows under one seed. Rows are copied as they have become, and then the
//! gradient is that of any rows.

use fedback_core::base::Table;
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Batch, Deploy};
use fedback_core::response::{By, Lure, Response, Row, Rows};
use fedback_core::simd::LANES;
use fedback_core::stream::{Purpose, Stream};

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
    /// Works, one client after the other.
    pub fn work(self) -> Result<(), WorkError> {
        let Reacting { federation, table, order, tasks, deltas, kept, rule } = self;
        let (dim, ridge) = (federation.dim(), federation.ridge());
        let (mut w, mut gradient, mut control) = (vec![0.0; dim], vec![0.0; dim], vec![0.0; dim]);
        let mut drawn = Drawn::default();
        let mut kept = kept.chunks_exact(dim);
        let everyone =
            tasks.iter().flat_map(|task| task.clients.iter().map(move |client| (task, client)));
        for ((task, &client), delta) in everyone.zip(deltas.chunks_exact_mut(dim)) {
            let (theta, sent) = task.broadcast.split_at(dim);
            let own = kept.next().unwrap_or_default();
            for ((control, sent), kept) in control.iter_mut().zip(sent).zip(own) {
                *control = rule.control(*sent, *kept);
            }
            w.copy_from_slice(theta);
            let scale = order.objective_scale(federation.weights(), client);
            let mut people = People::new(federation, table, task, client.0);
            for (step, &step_size) in order.step_sizes.iter().enumerate() {
                if step == 0 || order.protocol.deploy == Deploy::Step {
                    people.react(&w);
                }
                match order.protocol.batch {
                    Batch::Sampled(batch) => {
                        people.draw((step * batch) as u64, batch, &mut drawn);
                        drawn.gradient(federation.loss(), &w, &mut gradient);
                        for ((gradient, ridge), w) in gradient.iter_mut().zip(&ridge).zip(&w) {
                            *gradient += ridge * w;
                        }
                    }
                    Batch::All => {
                        let population = federation.population(client.0 as usize);
                        population.gradient(&w, &people.deployed, &mut gradient);
                    }
                }
                let size = StepSizes { plain: step_size, gradient: step_size * scale };
                for j in 0..dim {
                    let at = Coordinate { w: w[j], theta: theta[j], control: control[j] };
                    w[j] = rule.step(at, gradient[j], size);
                }
            }
            for ((delta, w), theta) in delta.iter_mut().zip(&w).zip(theta) {
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
    pub batch: Batch,
    /// Who they are; their rows react to what was broadcast.
    pub task: &'a Task<'a>,
    /// The model that is judged.
    pub theta: &'a [f64],
    /// Their losses.
    pub out: &'a mut [f64],
}

impl ReactingLosses<'_> {
    /// Judges.
    pub fn work(self) -> Result<(), WorkError> {
        let ReactingLosses { federation, table, batch, task, theta, out } = self;
        let deployed = &task.broadcast[..federation.dim()];
        let mut drawn = Drawn::default();
        for (&client, out) in task.clients.iter().zip(out) {
            *out = match batch {
                Batch::All => federation.population(client.0 as usize).risk(theta, deployed),
                Batch::Sampled(batch) => {
                    let mut people = People::new(federation, table, task, client.0);
                    people.react(deployed);
                    people.draw(0, batch, &mut drawn);
                    people.fine()?;
                    drawn.loss(federation.loss(), theta) + federation.penalty(theta)
                }
            };
        }
        Ok(())
    }
}

/// A batch of rows as they have become.
#[derive(Default)]
struct Drawn {
    features: Vec<f64>,
    labels: Vec<f64>,
    slopes: Vec<f64>,
}

impl Drawn {
    fn loss(&self, loss: Loss, theta: &[f64]) -> f64 {
        let rows = self.features.chunks_exact(theta.len()).zip(&self.labels);
        rows.map(|(x, label)| loss.value(theta, x, *label)).sum::<f64>() / self.labels.len() as f64
    }

    /// Writes the mean gradient at θ, without penalty.
    fn gradient(&mut self, loss: Loss, theta: &[f64], out: &mut [f64]) {
        let share = 1.0 / self.labels.len() as f64;
        let rows = self.features.chunks_exact(theta.len());
        out.fill(0.0);
        if let Loss::Mean = loss {
            for x in rows {
                out.iter_mut().zip(x).for_each(|(out, x)| *out += x);
            }
            out.iter_mut().zip(theta).for_each(|(out, theta)| *out = theta - *out * share);
            return;
        }
        self.slopes.clear();
        self.slopes.extend(rows.clone().map(|x| dot(x, theta)));
        // Slopes of whole vectors of lanes at a time.
        self.slopes.resize(self.labels.len().next_multiple_of(LANES), 0.0);
        self.labels.resize(self.slopes.len(), 0.0);
        let lanes = self.slopes.as_chunks_mut::<LANES>().0.iter_mut();
        for (slopes, labels) in lanes.zip(self.labels.as_chunks::<LANES>().0) {
            loss.slopes(slopes, labels);
        }
        for (x, slope) in rows.zip(&self.slopes) {
            out.iter_mut().zip(x).for_each(|(out, x)| *out += slope * x);
        }
        out.iter_mut().for_each(|out| *out *= share);
    }
}

/// What a client's rows do under what is deployed now.
struct People<'a> {
    federation: &'a Federation,
    rows: Rows<'a>,
    client: usize,
    /// Which rows are drawn.
    data: Stream,
    /// What becomes of them.
    reactions: Stream,
    deployed: Vec<f64>,
    /// How far bounds let rows be pushed.
    push: Vec<f64>,
    /// What draws rows to the threshold.
    lure: Option<Lure>,
    /// Cumulated shares of cells.
    upto: Vec<f64>,
    /// What somebody's own rule has done that no rule may.
    wrong: Option<String>,
}

/// Rows that are tried before their shares are worked out: one that stays comes before, unless hardly any
/// does.
const TRIES: u64 = 64;
/// Draws of a round stay below this; tries of one draw are so far apart.
const FAR: u64 = 1 << 40;
/// Beyond all tries: what decides about labels under somebody's own rule.
const OWN_LABELS: u64 = (TRIES + 1) * FAR;

impl<'a> People<'a> {
    fn new(federation: &'a Federation, table: &'a Table, task: &Task<'_>, client: u32) -> Self {
        let (loss, cells) = (federation.loss(), federation.cells());
        People {
            federation,
            rows: Rows { table, client: client as usize, loss, cells },
            client: client as usize,
            data: task.streams.client(client),
            reactions: task.streams.beside(Purpose::Reaction).client(client),
            deployed: Vec::new(),
            push: Vec::new(),
            lure: None,
            upto: Vec::new(),
            wrong: None,
        }
    }

    /// Refuses to go on where a rule has made nonsense of a row.
    fn fine(&mut self) -> Result<(), WorkError> {
        let client = self.client as u32;
        self.wrong.take().map_or(Ok(()), |reason| Err(WorkError { client, reason }))
    }

    /// Takes in what is deployed.
    fn react(&mut self, deployed: &[f64]) {
        self.deployed.clear();
        self.deployed.extend_from_slice(deployed);
        match self.federation.response() {
            Response::Shift(_) | Response::Outcome(_) | Response::Own(_) => {}
            Response::Bounded(bounded) => {
                self.push.resize(deployed.len(), 0.0);
                bounded.push(self.client, deployed, &mut self.push);
            }
            Response::Strategic(strategic) => self.lure = strategic.lure(deployed),
            Response::Retention(retention) => match retention.by {
                By::Client | By::Row => {}
                By::Label | By::Column => {
                    self.share_out(retention.reacted(&self.rows, &self.deployed, false).shares);
                }
            },
        }
    }

    /// Takes in what is left of every cell, or of every row.
    fn share_out(&mut self, shares: impl IntoIterator<Item = f64>) {
        let mut total = 0.0;
        self.upto.clear();
        self.upto.extend(shares.into_iter().map(|share| {
            total += share;
            total
        }));
    }

    /// A row before anything is deployed.
    fn row(&self, row: usize) -> Row<'a> {
        let (client, loss) = (self.client, self.rows.loss);
        let (features, labels) = self.rows.table.block(client);
        let dim = self.deployed.len();
        Row { client, x: &features[row * dim..][..dim], label: labels[row], loss }
    }

    /// The place that a uniform number has among cumulated shares.
    fn place(&self, uniform: f64) -> usize {
        let all = self.upto.last().copied().unwrap_or(1.0);
        let place = self.upto.partition_point(|upto| *upto <= uniform * all);
        // Rounding must not lead to a cell that is empty.
        let last = self.upto.partition_point(|upto| *upto < all);
        place.min(last)
    }

    /// Draws a batch, which begins at a word of the stream.
    fn draw(&mut self, first: u64, batch: usize, out: &mut Drawn) {
        out.features.clear();
        out.labels.clear();
        let (features, labels) = self.rows.table.block(self.client);
        let dim = self.deployed.len();
        for n in first..first + batch as u64 {
            let row = self.choose(n, labels.len());
            let (x, mut label) = (&features[row * dim..][..dim], labels[row]);
            let start = out.features.len();
            out.features.extend_from_slice(x);
            let moved = &mut out.features[start..];
            match self.federation.response() {
                Response::Shift(_) | Response::Retention(_) => {}
                Response::Bounded(bounded) => {
                    for (j, (x, push)) in moved.iter_mut().zip(&self.push).enumerate() {
                        *x = bounded.within(j, *x + push);
                    }
                }
                Response::Strategic(strategic) => {
                    if let Some(lure) = &self.lure {
                        let (chance, times) = strategic.moves(lure, dot(x, &self.deployed));
                        if chance > 0.0 && self.reactions.uniform(n) < chance {
                            for (x, towards) in moved.iter_mut().zip(&lure.towards) {
                                *x += times * towards;
                            }
                        }
                    }
                }
                Response::Own(own) => {
                    let before = self.row(row);
                    own.features(&before, &self.deployed, moved);
                    label = own.label(&before, &self.deployed);
                    let wrong = || own.wrong(&before, moved, label, 1.0);
                    self.wrong = self.wrong.take().or_else(wrong);
                    if let Loss::Logistic { .. } = self.rows.loss {
                        let one = self.reactions.uniform(n + OWN_LABELS) < label;
                        label = f64::from(u8::from(one));
                    }
                }
                Response::Outcome(outcome) => {
                    let score = dot(x, &self.deployed);
                    label = match self.rows.loss {
                        Loss::Squared { .. } => label + outcome.strength[self.client] * score,
                        Loss::Mean | Loss::Logistic { .. } => {
                            outcome.label(self.client, label, score, self.reactions.uniform(n))
                        }
                    };
                }
            }
            out.labels.push(label);
        }
    }

    /// The row that the n-th draw comes to.
    fn choose(&mut self, n: u64, count: usize) -> usize {
        match self.federation.response() {
            Response::Retention(retention) => match (retention.by, self.rows.cells) {
                (By::Label | By::Column, Some(cells)) => {
                    let cell = self.place(self.reactions.uniform(n));
                    let rows = cells.rows(self.client, cell);
                    rows[self.data.index(n, rows.len())] as usize
                }
                (By::Row, _) => {
                    let stays = |people: &mut Self, row| {
                        let cost = people.row(row).cost(&people.deployed);
                        libm::exp(retention.staying(people.client, cost).log)
                    };
                    self.who_stays(n, count, stays).unwrap_or_else(|| {
                        let all = retention.reacted(&self.rows, &self.deployed, false).shares;
                        self.by_shares(n, all)
                    })
                }
                (By::Client | By::Label | By::Column, _) => self.data.index(n, count),
            },
            Response::Own(own) if own.leaves() => {
                let stays = |people: &mut Self, row| {
                    let row = people.row(row);
                    let stays = own.stays(&row, &people.deployed);
                    people.wrong = people.wrong.take().or_else(|| own.wrong(&row, &[], 0.0, stays));
                    stays
                };
                self.who_stays(n, count, stays).unwrap_or_else(|| {
                    let all: Vec<f64> = (0..count).map(|row| stays(self, row)).collect();
                    if !all.iter().any(|stays| *stays > 0.0) {
                        let why = || "none of its rows is left".into();
                        self.wrong = self.wrong.take().or_else(|| Some(why()));
                    }
                    self.by_shares(n, all)
                })
            }
            Response::Shift(_)
            | Response::Bounded(_)
            | Response::Strategic(_)
            | Response::Outcome(_)
            | Response::Own(_) => self.data.index(n, count),
        }
    }

    /// The first of some rows that stays.
    fn who_stays(
        &mut self,
        n: u64,
        count: usize,
        stays: impl Fn(&mut Self, usize) -> f64,
    ) -> Option<usize> {
        (0..TRIES).map(|tried| n + tried * FAR).find_map(|place| {
            let row = self.data.index(place, count);
            (self.reactions.uniform(place) < stays(self, row)).then_some(row)
        })
    }

    /// A row by the shares that all of them have, where hardly any stays.
    fn by_shares(&mut self, n: u64, shares: Vec<f64>) -> usize {
        self.share_out(shares);
        self.place(self.reactions.uniform(n + TRIES * FAR))
    }
}

#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
