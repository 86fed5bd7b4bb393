//! What one client's population does: which rows it shows, and what has become of them.
//!
//! A row is drawn as everywhere, by its word of the client's stream; what becomes of it (which model does it
//! answer to, does it move, what is its label now, does it stay) takes one uniform number at the same place of
//! a stream beside that. So every response sees the same rows under one seed. Rows are copied as they have
//! become, and then the gradient is that of any rows. Of normal data a batch's mean is drawn as such, as
//! in the other kernels.

use std::cell::Cell;

use fedback_core::base::{Base, Gaussian, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::memory::Memory;
use fedback_core::normal;
use fedback_core::response::{By, Lure, Response, Retention, Row, Shift};
use fedback_core::stream::{Purpose, Stream};

use super::batch::{Drawn, dot};
use crate::work::{Task, WorkError};

/// What a client's population does under what is deployed now.
pub(super) struct People<'a> {
    federation: &'a Federation,
    client: usize,
    /// Which rows are drawn.
    data: Stream,
    /// What becomes of them.
    reactions: Stream,
    /// The models that they answer to, one after the other.
    answered: Vec<f64>,
    /// One for each of those.
    parts: Vec<Part>,
    /// What somebody's own rule has done that no rule may.
    wrong: Cell<Option<String>>,
}

/// What an equal part of a population does under the model that it answers to.
#[derive(Clone, Default)]
struct Part {
    /// How far all observations move, or are pushed against bounds.
    push: Vec<f64>,
    /// What draws rows to the threshold.
    lure: Option<Lure>,
    /// Cumulated shares of cells.
    upto: Vec<f64>,
}

/// Rows that are tried before their shares are worked out: one that stays comes before, unless hardly any
/// does.
const TRIES: u64 = 64;
/// Draws of a round stay below this; tries of one draw are so far apart.
const FAR: u64 = 1 << 40;
/// Beyond all tries: what decides about labels under somebody's own rule.
const OWN_LABELS: u64 = (TRIES + 1) * FAR;

impl<'a> People<'a> {
    pub(super) fn new(federation: &'a Federation, task: &Task<'_>, client: u32) -> Self {
        let answers = federation.memory().map_or(1, Memory::answers);
        People {
            federation,
            client: client as usize,
            data: task.streams.client(client),
            reactions: task.streams.beside(Purpose::Reaction).client(client),
            answered: vec![0.0; answers * federation.dim()],
            parts: vec![Part::default(); answers],
            wrong: Cell::new(None),
        }
    }

    /// Refuses to go on where a rule has made nonsense of a row.
    pub(super) fn fine(&self) -> Result<(), WorkError> {
        let client = self.client as u32;
        self.wrong.take().map_or(Ok(()), |reason| Err(WorkError { client, reason }))
    }

    /// Notes the first nonsense.
    fn note(&self, wrong: Option<String>) {
        self.wrong.set(self.wrong.take().or(wrong));
    }

    /// A row before anything is deployed.
    fn row<'r>(&self, table: &'r Table, row: usize) -> Row<'r> {
        let (client, loss, dim) = (self.client, self.federation.loss(), self.federation.dim());
        let (features, labels) = table.block(client);
        Row { client, x: &features[row * dim..][..dim], label: labels[row], loss }
    }

    /// Takes in what is deployed, on top of what is remembered.
    pub(super) fn deploy(&mut self, deployed: &[f64], past: &[f64]) {
        match self.federation.memory() {
            None => self.answered.copy_from_slice(deployed),
            Some(memory) => memory.answer(deployed, past, &mut self.answered),
        }
        let (federation, client) = (self.federation, self.client);
        let models = self.answered.chunks_exact(federation.dim());
        for (part, model) in self.parts.iter_mut().zip(models) {
            part.react(federation, client, model, past);
        }
    }

    /// What this client's population remembers, of what all do.
    pub(super) fn own<'p>(&self, past: &'p [f64]) -> &'p [f64] {
        match self.federation.memory() {
            Some(Memory::Renewal { shares, weights: false }) if !past.is_empty() => {
                &past[self.client * shares..][..shares]
            }
            Some(_) | None => past,
        }
    }

    /// Deploys a local model, which is remembered.
    pub(super) fn step(&mut self, deployed: &[f64], past: &mut [f64]) {
        let federation = self.federation;
        match (federation.memory(), federation.retention(), federation.rows(self.client)) {
            (Some(Memory::Renewal { weights: false, .. }), Some(retention), Some(rows)) => {
                retention.renew(&rows, deployed, past);
                self.deploy(deployed, past);
            }
            (memory, _, _) => {
                self.deploy(deployed, past);
                if let Some(memory) = memory {
                    memory.take_in(deployed, past);
                }
            }
        }
    }

    fn model(&self, part: usize) -> &[f64] {
        let dim = self.federation.dim();
        &self.answered[part * dim..][..dim]
    }

    /// The part that an observation belongs to, and a uniform number for what else may become of it.
    fn place(&self, n: u64) -> (usize, f64) {
        let scaled = self.reactions.uniform(n) * self.parts.len() as f64;
        let part = (scaled as usize).min(self.parts.len() - 1);
        (part, scaled - part as f64)
    }

    /// The expected gradient.
    pub(super) fn expect(&self, theta: &[f64], out: &mut [f64]) {
        let population = self.federation.population(self.client);
        if let [part] = &self.parts[..] {
            return match self.federation.memory() {
                Some(Memory::Renewal { weights: false, .. }) => {
                    self.expect_of_cells(part, theta, out);
                }
                Some(_) | None => population.gradient(theta, &self.answered, out),
            };
        }
        let (mut own, share) = (vec![0.0; theta.len()], 1.0 / self.parts.len() as f64);
        out.fill(0.0);
        for part in 0..self.parts.len() {
            population.gradient(theta, self.model(part), &mut own);
            out.iter_mut().zip(&own).for_each(|(out, own)| *out += share * own);
        }
    }

    /// The same where cells have shares of their own.
    fn expect_of_cells(&self, part: &Part, theta: &[f64], out: &mut [f64]) {
        let (federation, loss) = (self.federation, self.federation.loss());
        let (Base::Table(table), Some(cells)) = (federation.base(), federation.cells()) else {
            return;
        };
        out.fill(0.0);
        for (row, (x, label)) in table.rows_of(self.client).enumerate() {
            let cell = cells.of(self.client, row);
            let before = if cell == 0 { 0.0 } else { part.upto[cell - 1] };
            let share = (part.upto[cell] - before) / cells.rows(self.client, cell).len() as f64;
            loss.add_gradient(theta, x, label, share, out);
        }
        let ridge = federation.ridge();
        out.iter_mut().zip(theta).zip(&ridge).for_each(|((out, t), ridge)| *out += ridge * t);
    }

    /// The expected loss, penalty included.
    pub(super) fn risk(&self, theta: &[f64]) -> f64 {
        let population = self.federation.population(self.client);
        let parts = 0..self.parts.len();
        let sum: f64 = parts.map(|part| population.risk(theta, self.model(part))).sum();
        sum / self.parts.len() as f64
    }

    /// What the loss of a batch's mean leaves out: how far normal observations are from that.
    pub(super) fn unseen(&self, batch: usize) -> f64 {
        match self.federation.base() {
            Base::Gaussian(base) => {
                let each = base.noise * base.noise * (1.0 - 1.0 / batch as f64);
                0.5 * base.dim as f64 * each
            }
            Base::Table(_) => 0.0,
        }
    }

    /// Draws the batch of a step.
    pub(super) fn draw(&self, step: u64, batch: usize, out: &mut Drawn) {
        out.features.clear();
        out.labels.clear();
        match self.federation.base() {
            Base::Gaussian(base) => self.draw_mean(base, step, batch, out),
            Base::Table(table) => {
                let first = step * batch as u64;
                (first..first + batch as u64).for_each(|n| self.draw_row(table, n, out));
            }
        }
    }

    /// The mean of a batch of normal data.
    fn draw_mean(&self, base: &Gaussian, step: u64, batch: usize, out: &mut Drawn) {
        let noise = base.noise / (batch as f64).sqrt();
        let (first, share) = (step * base.dim as u64, 1.0 / batch as f64);
        let numbers = base
            .mean(self.client)
            .iter()
            .zip(first..)
            .map(|(mean, n)| mean + noise * self.data.normal(normal::ziggurat(), n));
        out.features.extend(numbers);
        out.labels.push(0.0);
        if let [part] = &self.parts[..] {
            return out.features.iter_mut().zip(&part.push).for_each(|(z, push)| *z += push);
        }
        for n in step * batch as u64..(step + 1) * batch as u64 {
            let push = &self.parts[self.place(n).0].push;
            out.features.iter_mut().zip(push).for_each(|(z, push)| *z += share * push);
        }
    }

    /// A row as it has become.
    fn draw_row(&self, table: &Table, n: u64, out: &mut Drawn) {
        let (features, labels) = table.block(self.client);
        let dim = self.federation.dim();
        // Of a single part the number is drawn where it is needed.
        let (part, drawn) = match self.parts.len() {
            1 => (0, None),
            _ => {
                let (part, uniform) = self.place(n);
                (part, Some(uniform))
            }
        };
        let (model, part) = (self.model(part), &self.parts[part]);
        let uniform = || drawn.unwrap_or_else(|| self.reactions.uniform(n));
        let row = self.choose(table, n, (part, model), labels.len());
        let (x, mut label) = (&features[row * dim..][..dim], labels[row]);
        let start = out.features.len();
        out.features.extend_from_slice(x);
        let moved = &mut out.features[start..];
        match self.federation.response() {
            Response::Retention(_) => {}
            Response::Shift(_) => moved.iter_mut().zip(&part.push).for_each(|(x, push)| *x += push),
            Response::Bounded(bounded) => {
                for (j, (x, push)) in moved.iter_mut().zip(&part.push).enumerate() {
                    *x = bounded.within(j, *x + push);
                }
            }
            Response::Strategic(strategic) => {
                if let Some(lure) = &part.lure {
                    let (chance, times) = strategic.moves(lure, dot(x, model));
                    if chance > 0.0 && uniform() < chance {
                        for (x, towards) in moved.iter_mut().zip(&lure.towards) {
                            *x += times * towards;
                        }
                    }
                }
            }
            Response::Own(own) => {
                let before = self.row(table, row);
                own.features(&before, model, moved);
                label = own.label(&before, model);
                self.note(own.wrong(&before, moved, label, 1.0));
                if let Loss::Logistic { .. } = self.federation.loss() {
                    let one = self.reactions.uniform(n + OWN_LABELS) < label;
                    label = f64::from(u8::from(one));
                }
            }
            Response::Outcome(outcome) => {
                let score = dot(x, model);
                label = match self.federation.loss() {
                    Loss::Squared { .. } => label + outcome.strength[self.client] * score,
                    Loss::Mean | Loss::Logistic { .. } => {
                        outcome.label(self.client, label, score, uniform())
                    }
                };
            }
        }
        out.labels.push(label);
    }

    /// The row that the n-th draw comes to.
    fn choose(&self, table: &Table, n: u64, (part, model): (&Part, &[f64]), count: usize) -> usize {
        let federation = self.federation;
        match federation.response() {
            Response::Retention(retention) => match (retention.by, federation.cells()) {
                (By::Label | By::Column, Some(cells)) => {
                    let cell = part.cell(self.reactions.uniform(n));
                    let rows = cells.rows(self.client, cell);
                    rows[self.data.index(n, rows.len())] as usize
                }
                (By::Row, _) => {
                    let stays = |row| {
                        let cost = self.row(table, row).cost(model);
                        libm::exp(retention.staying(self.client, cost).log)
                    };
                    self.who_stays(n, count, stays).unwrap_or_else(|| {
                        let mut all = Part::default();
                        all.share_out(federation, retention, self.client, model);
                        all.cell(self.reactions.uniform(n + TRIES * FAR))
                    })
                }
                (By::Client | By::Label | By::Column, _) => self.data.index(n, count),
            },
            Response::Own(own) if own.leaves() => {
                let stays = |row| {
                    let row = self.row(table, row);
                    let stays = own.stays(&row, model);
                    self.note(own.wrong(&row, &[], 0.0, stays));
                    stays
                };
                self.who_stays(n, count, stays).unwrap_or_else(|| {
                    let shares: Vec<f64> = (0..count).map(stays).collect();
                    if !shares.iter().any(|stays| *stays > 0.0) {
                        self.note(Some("none of its rows is left".into()));
                    }
                    let mut all = Part::default();
                    all.cumulate(&shares);
                    all.cell(self.reactions.uniform(n + TRIES * FAR))
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
    fn who_stays(&self, n: u64, count: usize, stays: impl Fn(usize) -> f64) -> Option<usize> {
        (0..TRIES).map(|tried| n + tried * FAR).find_map(|place| {
            let row = self.data.index(place, count);
            (self.reactions.uniform(place) < stays(row)).then_some(row)
        })
    }
}

impl Part {
    /// Takes in the model that is answered to.
    fn react(&mut self, federation: &Federation, client: usize, model: &[f64], past: &[f64]) {
        match federation.response() {
            Response::Outcome(_) | Response::Own(_) => {}
            Response::Shift(Shift::None) => self.push.clear(),
            Response::Shift(shift) => {
                self.push.resize(model.len(), 0.0);
                shift.apply(client, model, &mut self.push);
            }
            Response::Bounded(bounded) => {
                self.push.resize(model.len(), 0.0);
                bounded.push(client, model, &mut self.push);
            }
            Response::Strategic(strategic) => self.lure = strategic.lure(model),
            Response::Retention(retention) => match retention.by {
                By::Client | By::Row => {}
                By::Label | By::Column if past.is_empty() => {
                    self.share_out(federation, retention, client, model);
                }
                // They come back slowly: what is left of them is remembered.
                By::Label | By::Column => self.cumulate(past),
            },
        }
    }

    /// Works out what is left of every cell, or of every row.
    fn share_out(
        &mut self,
        federation: &Federation,
        retention: &Retention,
        client: usize,
        model: &[f64],
    ) {
        let Some(rows) = federation.rows(client) else { return };
        self.cumulate(&retention.reacted(&rows, model, false).shares);
    }

    fn cumulate(&mut self, shares: &[f64]) {
        let mut total = 0.0;
        self.upto.clear();
        for share in shares {
            total += share;
            self.upto.push(total);
        }
    }

    /// The place that a uniform number has among cumulated shares.
    fn cell(&self, uniform: f64) -> usize {
        let all = self.upto.last().copied().unwrap_or(1.0);
        let place = self.upto.partition_point(|upto| *upto <= uniform * all);
        // Rounding must not lead to a cell that is empty.
        let last = self.upto.partition_point(|upto| *upto < all);
        place.min(last)
    }
}
