//! What a client's rows do under what is deployed.
//!
//! A row is drawn as everywhere, by its word of the client's stream; what becomes of it (does it move, what
//! is its label now, does it stay) takes one uniform number at the same place of a stream beside that. So
//! every response sees the same rows under one seed.

use fedback_core::base::Table;
use fedback_core::federation::Federation;
use fedback_core::lanes::StreamLanes;
use fedback_core::loss::Loss;
use fedback_core::response::{By, Law, Lure, Outcome, Response, Row, Rows};
use fedback_core::simd::{LANES, Path};
use fedback_core::stream::{Purpose, Seed, Stream, Streams};

use super::batch::{Batch, Everyone, dots};
use super::group::{Block, Blocks};
use crate::work::{Task, WorkError};

/// The rows of one client after another.
pub struct People<'a> {
    federation: &'a Federation,
    rows: Rows<'a>,
    client: usize,
    /// Which rows are drawn.
    data: Stream,
    /// What becomes of them.
    reactions: Stream,
    deployed: Vec<Block>,
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
/// What rounding may add to a probability, with room.
const ROUNDING: f64 = 1e-12;
/// Draws of a round stay below this; tries of one draw are so far apart.
const FAR: u64 = 1 << 40;
/// Beyond all tries: what decides about labels under somebody's own rule.
const OWN_LABELS: u64 = (TRIES + 1) * FAR;

impl<'a> People<'a> {
    /// Of a problem.
    pub fn new(federation: &'a Federation, table: &'a Table) -> Self {
        let (loss, cells) = (federation.loss(), federation.cells());
        let nothing = Streams::new(Seed(0), 0, 0, Purpose::Data).client(0);
        People {
            federation,
            rows: Rows { table, client: 0, loss, cells },
            client: 0,
            data: nothing,
            reactions: nothing,
            deployed: Vec::new(),
            push: Vec::new(),
            lure: None,
            upto: Vec::new(),
            wrong: None,
        }
    }

    /// Goes on with another client.
    pub fn turn_to(&mut self, task: &Task<'_>, client: u32) {
        self.client = client as usize;
        self.rows.client = self.client;
        self.data = task.streams.client(client);
        self.reactions = task.streams.beside(Purpose::Reaction).client(client);
    }

    /// Refuses to go on where a rule has made nonsense of a row.
    pub fn fine(&mut self) -> Result<(), WorkError> {
        let client = self.client as u32;
        self.wrong.take().map_or(Ok(()), |reason| Err(WorkError { client, reason }))
    }

    /// The rows before anything is deployed.
    #[inline(always)]
    pub fn everyone(&self) -> Everyone<'a> {
        let table = self.rows.table;
        Everyone { values: table.rows_from(self.client), dim: table.dim }
    }

    /// What is deployed.
    #[inline(always)]
    pub fn deployed(&self) -> &[f64] {
        &self.deployed.as_flattened()[..self.rows.table.dim]
    }

    /// Takes in what is deployed.
    #[inline(always)]
    pub fn react(&mut self, deployed: &[Block]) {
        self.deployed.clear();
        self.deployed.extend_from_slice(deployed);
        match self.federation.response() {
            Response::Shift(_) | Response::Outcome(_) | Response::Own(_) => {}
            Response::Bounded(bounded) => {
                let mut push = std::mem::take(&mut self.push);
                push.resize(self.rows.table.dim, 0.0);
                bounded.push(self.client, self.deployed(), &mut push);
                self.push = push;
            }
            Response::Strategic(strategic) => self.lure = strategic.lure(self.deployed()),
            Response::Retention(retention) => match retention.by {
                By::Client | By::Row => {}
                By::Label | By::Column => {
                    self.share_out(retention.reacted(&self.rows, self.deployed(), false).shares);
                }
            },
        }
    }

    /// Takes in what is left of every cell, or of every row.
    fn share_out(&mut self, shares: Vec<f64>) {
        let mut total = 0.0;
        self.upto.clear();
        self.upto.extend(shares.into_iter().map(|share| {
            total += share;
            total
        }));
    }

    /// A row before anything is deployed.
    #[inline(always)]
    fn row(&self, row: usize) -> Row<'a> {
        let (client, loss) = (self.client, self.rows.loss);
        let (features, labels) = self.rows.table.block(client);
        let dim = self.rows.table.dim;
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

    /// Draws so many rows, from a word of the stream on, and lets them react.
    #[inline(always)]
    pub fn draw(
        &mut self,
        path: impl Path,
        blocks: impl Blocks,
        (first, size): (u64, usize),
        out: &mut Batch,
    ) {
        out.clear();
        self.choose(path, blocks, (first, size), &mut out.rows);
        let (_, labels) = self.rows.table.block(self.client);
        out.labels.extend(out.rows.iter().map(|row| labels[*row as usize]));
        let (all, dim) = (self.everyone(), self.rows.table.dim);
        match self.federation.response() {
            Response::Shift(_) | Response::Retention(_) => {}
            Response::Bounded(bounded) => {
                out.copy(all, blocks);
                for x in out.moved.chunks_exact_mut(blocks.count()) {
                    let each = x.as_flattened_mut().iter_mut().zip(&self.push).enumerate();
                    each.for_each(|(j, (x, push))| *x = bounded.within(j, *x + push));
                }
            }
            Response::Strategic(strategic) => {
                out.copy(all, blocks);
                let Some(lure) = &self.lure else { return };
                out.score(path, all, &self.deployed, blocks);
                let each = out.moved.chunks_exact_mut(blocks.count()).zip(&out.slopes);
                for ((x, score), n) in each.zip(first..) {
                    let (chance, times) = strategic.moves(lure, *score);
                    if chance > 0.0 && self.reactions.uniform(n) < chance {
                        let each = x.as_flattened_mut().iter_mut().zip(&lure.towards);
                        each.for_each(|(x, towards)| *x += times * towards);
                    }
                }
            }
            Response::Own(own) => {
                out.copy(all, blocks);
                let each = out.moved.chunks_exact_mut(blocks.count()).zip(&mut out.labels);
                for ((&row, (x, label)), n) in out.rows.iter().zip(each).zip(first..) {
                    let (before, x) = (self.row(row as usize), &mut x.as_flattened_mut()[..dim]);
                    own.features(&before, self.deployed(), x);
                    *label = own.label(&before, self.deployed());
                    let wrong = || own.wrong(&before, x, *label, 1.0);
                    self.wrong = self.wrong.take().or_else(wrong);
                    if let Loss::Logistic { .. } = self.rows.loss {
                        let one = self.reactions.uniform(n + OWN_LABELS) < *label;
                        *label = f64::from(u8::from(one));
                    }
                }
            }
            Response::Outcome(outcome) => {
                out.score(path, all, &self.deployed, blocks);
                out.scored = true;
                self.listen(outcome, first, &out.slopes, &mut out.labels);
            }
        }
    }

    /// Labels listen to scores, which come in whole vectors of lanes.
    #[inline(always)]
    fn listen(&self, outcome: &Outcome, first: u64, scores: &[f64], labels: &mut [f64]) {
        let strength = outcome.strength[self.client];
        if let Loss::Squared { .. } = self.rows.loss {
            labels.iter_mut().zip(scores).for_each(|(label, score)| *label += strength * score);
            return;
        }
        let mut lanes = StreamLanes::in_a_row(self.reactions, first);
        for (labels, scores) in labels.chunks_mut(LANES).zip(scores.as_chunks::<LANES>().0) {
            let mut told = scores.map(|score| if strength < 0.0 { -score } else { score });
            // The slope for the label 0 is the probability of 1.
            self.rows.loss.slopes(&mut told, &[0.0; LANES]);
            let uniforms = lanes.uniforms();
            lanes.advance(LANES as u64);
            for ((label, told), uniform) in labels.iter_mut().zip(told).zip(uniforms) {
                *label = outcome.told(self.client, *label, told, uniform);
            }
        }
    }

    /// The rows that so many draws come to.
    #[inline(always)]
    fn choose(
        &mut self,
        path: impl Path,
        blocks: impl Blocks,
        (first, size): (u64, usize),
        out: &mut Vec<u32>,
    ) {
        let (_, labels) = self.rows.table.block(self.client);
        let (count, all) = (labels.len(), first..first + size as u64);
        match self.federation.response() {
            Response::Retention(retention) => match (retention.by, self.rows.cells) {
                (By::Label | By::Column, Some(cells)) => out.extend(all.map(|n| {
                    let cell = self.place(self.reactions.uniform(n));
                    let rows = cells.rows(self.client, cell);
                    rows[self.data.index(n, rows.len())]
                })),
                (By::Row, _) => {
                    let plain = retention.law == Law::Exponential && retention.floor == 0.0;
                    let logistic = matches!(self.rows.loss, Loss::Logistic { .. });
                    if plain && logistic {
                        let rate = retention.rate[self.client];
                        for n in all.step_by(LANES) {
                            let several = LANES.min((first + size as u64 - n) as usize);
                            self.several_stay(path, blocks, rate, (n, several), out);
                        }
                        return;
                    }
                    out.extend(all.map(|n| {
                        let stays = |people: &mut Self, row| people.stays_alone(row);
                        let row = self.who_stays(n, count, stays);
                        row.unwrap_or_else(|| self.hardly_any(n)) as u32
                    }));
                }
                (By::Client | By::Label | By::Column, _) => self.anybody(count, (first, size), out),
            },
            Response::Own(own) if own.leaves() => out.extend(all.map(|n| {
                let stays = |people: &mut Self, row| {
                    let row = people.row(row);
                    let stays = own.stays(&row, people.deployed());
                    people.wrong = people.wrong.take().or_else(|| own.wrong(&row, &[], 0.0, stays));
                    stays
                };
                let row = self.who_stays(n, count, stays).unwrap_or_else(|| {
                    let all: Vec<f64> = (0..count).map(|row| stays(self, row)).collect();
                    if !all.iter().any(|stays| *stays > 0.0) {
                        let why = || "none of its rows is left".into();
                        self.wrong = self.wrong.take().or_else(|| Some(why()));
                    }
                    self.by_shares(n, all)
                });
                row as u32
            })),
            Response::Shift(_)
            | Response::Bounded(_)
            | Response::Strategic(_)
            | Response::Outcome(_)
            | Response::Own(_) => self.anybody(count, (first, size), out),
        }
    }

    /// Rows of which none has left.
    #[inline(always)]
    fn anybody(&self, count: usize, (first, size): (u64, usize), out: &mut Vec<u32>) {
        let mut lanes = StreamLanes::in_a_row(self.data, first);
        for place in (0..size).step_by(LANES) {
            let several = LANES.min(size - place);
            out.extend_from_slice(&lanes.indices(count as u32)[..several]);
            lanes.advance(LANES as u64);
        }
    }

    /// The rows that some draws come to, up to a vector of lanes, where each leaves alone at a rate by the
    /// exponential law: it stays with a power of the probability that the logistic model gives to its label.
    /// That power lies between two lines (Bernoulli's inequality), which mostly decide.
    #[inline(always)]
    fn several_stay(
        &mut self,
        path: impl Path,
        blocks: impl Blocks,
        rate: f64,
        (first, size): (u64, usize),
        out: &mut Vec<u32>,
    ) {
        let (_, labels) = self.rows.table.block(self.client);
        let (all, count) = (self.everyone(), labels.len() as u32);
        let mut found = [None; LANES];
        for tried in 0..TRIES {
            let place = first + tried * FAR;
            let rows = StreamLanes::in_a_row(self.data, place).indices(count);
            let uniforms = StreamLanes::in_a_row(self.reactions, place).uniforms();
            let mut likely = [0.0; LANES];
            for half in 0..size.div_ceil(4) {
                let mut four = [all.row(0, blocks); 4];
                for (four, row) in four.iter_mut().zip(&rows[4 * half..]) {
                    *four = all.row(*row as usize, blocks);
                }
                dots(path, four, &self.deployed, blocks, &mut likely[4 * half..]);
            }
            for (likely, row) in likely[..size].iter_mut().zip(rows) {
                *likely = if labels[row as usize] == 1.0 { *likely } else { -*likely };
            }
            // The slope for the label 0 is σ of the margin.
            self.rows.loss.slopes(&mut likely, &[0.0; LANES]);
            let mut missing = false;
            for lane in 0..size {
                if found[lane].is_some() {
                    continue;
                }
                let (row, uniform, own) = (rows[lane], uniforms[lane], likely[lane]);
                let line = 1.0 - rate * (1.0 - own);
                let stays = if uniform < line.min(own) - ROUNDING {
                    true
                } else if uniform >= line.max(own) + ROUNDING {
                    false
                } else {
                    uniform < self.stays_alone(row as usize)
                };
                found[lane] = stays.then_some(row);
                missing |= !stays;
            }
            if !missing {
                break;
            }
        }
        for (found, n) in found[..size].iter().zip(first..) {
            let row = found.unwrap_or_else(|| self.hardly_any(n) as u32);
            out.push(row);
        }
    }

    /// How likely a row is to stay that leaves alone.
    fn stays_alone(&self, row: usize) -> f64 {
        let Response::Retention(retention) = self.federation.response() else { return 1.0 };
        let cost = self.row(row).cost(self.deployed());
        libm::exp(retention.staying(self.client, cost).log)
    }

    /// A row by the shares that all have, where hardly any stays.
    fn hardly_any(&mut self, n: u64) -> usize {
        let Response::Retention(retention) = self.federation.response() else { return 0 };
        let all = retention.reacted(&self.rows, self.deployed(), false).shares;
        self.by_shares(n, all)
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
