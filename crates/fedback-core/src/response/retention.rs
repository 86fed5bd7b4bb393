//! Who is served badly leaves (Hashimoto, Srivastava, Namkoong and Liang 2018).
//!
//! Cells (clients, labels, the values of a column, or single rows) with base shares s_k have the mean loss
//! L_k(φ), without penalty, over their *base* rows. They stay with probability
//! ρ_k = floor + (1 − floor) · law(L_k): `exponential` e^(−rate L), `logistic`
//! 1/(1 + e^(rate (L − tolerance))). What is left has the shares q_k = s_k ρ_k / Σ s ρ.
//!
//! Those who leave are replaced at once (`renewal` ν = 1), or slowly: every deployment makes of the shares q those in
//! proportion to ((1 − ν) q_k + ν s_k) ρ_k. Where φ stays deployed they come to rest at
//! q_k = ν s_k ρ_k / (Z − (1 − ν) ρ_k), with Z so that they sum to one (Raab and Liu 2021; ν = 0 is the
//! replicator, of which only those who are served best are left).
//!
//! Where whole clients leave, or where clients count by how many stay, their weights react
//! ([`Turnout`]), and the rows of one client that stays are what they were.

use super::{Fate, Rows, Slopes, check_each};
use crate::base::{Base, Table};
use crate::misfit::Misfit;

/// What leaves together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A client's whole population: its weight reacts.
    Client,
    /// The rows of one label.
    Label,
    /// The rows of one value of a column.
    Column,
    /// Every row for itself.
    Row,
}

/// How likely it is to stay at a loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// e^(−rate L).
    Exponential,
    /// 1 / (1 + e^(rate (L − tolerance))).
    Logistic {
        /// The loss at which half stay.
        tolerance: f64,
    },
}

/// Whose weights react.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turnout {
    /// Nobody's: clients count as they did.
    Fixed,
    /// Clients count by how many of them stay.
    Follow,
}

/// Leaving.
#[derive(Clone, Debug)]
pub struct Retention {
    /// What leaves together.
    pub by: By,
    /// How likely it is to stay.
    pub law: Law,
    /// How much a loss matters, one number a client.
    pub rate: Vec<f64>,
    /// The share that stays whatever happens.
    pub floor: f64,
    /// How much of a population is new at every deployment: ν.
    pub renewal: f64,
    /// Whether clients' weights follow.
    pub turnout: Turnout,
}

/// ln ρ, and its derivative in the loss.
#[derive(Clone, Copy, Debug)]
pub struct Staying {
    /// ln ρ.
    pub log: f64,
    /// ∂ ln ρ / ∂L.
    pub slope: f64,
}

impl Retention {
    /// Whether client weights react.
    pub fn weighs(&self) -> bool {
        !self.is_still() && (self.by == By::Client || self.turnout == Turnout::Follow)
    }

    /// Whether nobody ever leaves for another reason than everybody does.
    pub(crate) fn is_still(&self) -> bool {
        self.rate.iter().all(|rate| *rate == 0.0)
    }

    /// How likely a cell of a client is to stay at a loss.
    pub fn staying(&self, client: usize, loss: f64) -> Staying {
        let rate = self.rate[client];
        let (log, slope) = match self.law {
            Law::Exponential => (-rate * loss, -rate),
            Law::Logistic { tolerance } => {
                let over = rate * (loss - tolerance);
                let left = super::sigmoid(over);
                let log = -(over.max(0.0) + libm::log1p(crate::exp::exp_neg(over.abs())));
                (log, -rate * left)
            }
        };
        if self.floor == 0.0 {
            return Staying { log, slope };
        }
        let law = libm::exp(log);
        let stays = self.floor + (1.0 - self.floor) * law;
        Staying { log: libm::log(stays), slope: (1.0 - self.floor / stays) * slope }
    }

    /// What leaves together, of every client of a base; none where that are single rows or clients.
    pub(crate) fn cells(&self, base: &Base) -> Option<Cells> {
        let Base::Table(table) = base else { return None };
        match self.by {
            By::Label => Some(Cells::by_label(table)),
            By::Column => table.cells.as_ref().map(|groups| Cells::new(table, &groups.of_rows)),
            By::Client | By::Row => None,
        }
    }

    /// The cells of one client under a deployed φ.
    pub fn reacted(&self, rows: &Rows<'_>, deployed: &[f64], slopes: bool) -> Reacted {
        let Rows { table, client, loss, .. } = *rows;
        let count = table.block(client).1.len();
        let (cells, dim) = (rows.cells.map_or(count, Cells::count), deployed.len());
        let mut losses = vec![0.0; cells];
        let mut gradients = vec![0.0; if slopes { cells * dim } else { 0 }];
        let mut sizes = vec![0.0; cells];
        for (row, (x, label)) in table.rows_of(client).enumerate() {
            let cell = rows.cells.map_or(row, |cells| cells.of(client, row));
            sizes[cell] += 1.0;
            losses[cell] += loss.value(deployed, x, label);
            if slopes {
                let out = &mut gradients[cell * dim..][..dim];
                loss.add_gradient(deployed, x, label, 1.0, out);
            }
        }
        Reacted::new(self, client, losses, sizes, gradients, count as f64)
    }

    /// What was left of a client's cells becomes what is left of them once φ is deployed.
    pub fn renew(&self, rows: &Rows<'_>, deployed: &[f64], shares: &mut [f64]) {
        let Reacted { sizes, logs, .. } = self.reacted(rows, deployed, false);
        let count: f64 = sizes.iter().sum();
        let base: Vec<f64> = sizes.iter().map(|size| size / count).collect();
        renew(shares, &base, &logs, self.renewal);
    }

    pub(super) fn fates(
        &self,
        rows: &Rows<'_>,
        deployed: &[f64],
        slopes: bool,
        each: &mut dyn FnMut(&Fate<'_>),
    ) {
        let Rows { table, client, .. } = *rows;
        if self.by == By::Client {
            return super::fate::shifted(&super::Shift::None, rows, deployed, slopes, each);
        }
        let reacted = self.reacted(rows, deployed, slopes);
        let mut derivatives = Slopes::default();
        for (row, (x, label)) in table.rows_of(client).enumerate() {
            let cell = rows.cells.map_or(row, |cells| cells.of(client, row));
            let size = reacted.sizes[cell];
            derivatives.share.clear();
            derivatives.share.extend(reacted.share_slope(cell).iter().map(|slope| slope / size));
            let slopes = slopes.then_some(&derivatives);
            each(&Fate { row, share: reacted.shares[cell] / size, x, label, slopes });
        }
    }

    pub(super) fn check(&self, base: &Base) -> Result<(), Misfit> {
        let clients = base.clients();
        let finite = |rate: f64| rate.is_finite() && rate >= 0.0;
        check_each("problem.response.rate", &self.rate, clients, "0 or more", finite)?;
        if !(0.0..1.0).contains(&self.floor) {
            let why = format!("found {}; allowed: from 0 to below 1", self.floor);
            return Err(Misfit::new("problem.response.floor", why));
        }
        if !(0.0..=1.0).contains(&self.renewal) {
            let why = format!("found {}; allowed: from 0 to 1", self.renewal);
            return Err(Misfit::new("problem.response.renewal", why));
        }
        if self.renewal < 1.0 && (self.by == By::Row || self.turnout == Turnout::Follow) {
            let why = format!(
                "found {}; shares of single rows, and weights that follow, are renewed at once: leave \
                 it out, or cut populations by client, label or column",
                self.renewal
            );
            return Err(Misfit::new("problem.response.renewal", why));
        }
        if let Law::Logistic { tolerance } = self.law
            && !tolerance.is_finite()
        {
            let why = format!("found {tolerance}; allowed: finite numbers");
            return Err(Misfit::new("problem.response.tolerance", why));
        }
        let fail = |why: &str| Err(Misfit::new("problem.response.by", why));
        match (self.by, base) {
            (By::Client, _) => Ok(()),
            (_, Base::Gaussian(_)) => {
                fail("normal data have no labels, columns or rows; allowed: \"client\"")
            }
            (By::Column, Base::Table(table)) if table.cells.is_none() => {
                fail("the table was read without that column")
            }
            (By::Label | By::Column | By::Row, Base::Table(_)) => Ok(()),
        }
    }
}

/// The cells of one client under a deployed φ.
#[derive(Clone, Debug)]
pub struct Reacted {
    /// q_k.
    pub shares: Vec<f64>,
    /// Rows of every cell.
    pub sizes: Vec<f64>,
    /// ln ρ_k.
    pub(crate) logs: Vec<f64>,
    /// ln Σ s ρ.
    pub log_retained: f64,
    /// ∂q_k, cell after cell; nothing where it was not asked for.
    slopes: Vec<f64>,
    /// ∂ ln Σ s ρ.
    pub retained_slope: Vec<f64>,
}

impl Reacted {
    fn new(
        retention: &Retention,
        client: usize,
        losses: Vec<f64>,
        sizes: Vec<f64>,
        gradients: Vec<f64>,
        count: f64,
    ) -> Self {
        let staying = |(sum, size): (&f64, &f64)| match *size > 0.0 {
            true => retention.staying(client, sum / size),
            false => Staying { log: f64::NEG_INFINITY, slope: 0.0 },
        };
        let each: Vec<Staying> = losses.iter().zip(&sizes).map(staying).collect();
        let most = each.iter().fold(f64::NEG_INFINITY, |most, one| most.max(one.log));
        let part = |(one, size): (&Staying, &f64)| size / count * libm::exp(one.log - most);
        let mut stay: Vec<f64> = each.iter().zip(&sizes).map(part).collect();
        let total: f64 = stay.iter().sum();
        stay.iter_mut().for_each(|share| *share /= total);
        let base = sizes.iter().map(|size| size / count).collect();
        let logs: Vec<f64> = each.iter().map(|one| one.log).collect();
        let rest = Rest::of(base, &logs, retention.renewal);
        let dim = gradients.len() / losses.len().max(1);
        let (mut slopes, mut mean, mut retained_slope) =
            (gradients, vec![0.0; dim], vec![0.0; dim]);
        let pulled: f64 = rest.pull.iter().sum();
        if dim > 0 {
            for (cell, own) in slopes.chunks_exact_mut(dim).enumerate() {
                let times = if sizes[cell] > 0.0 { each[cell].slope / sizes[cell] } else { 0.0 };
                let share = if pulled > 0.0 { rest.pull[cell] / pulled } else { 0.0 };
                for (slope, (mean, retained)) in
                    own.iter_mut().zip(mean.iter_mut().zip(&mut retained_slope))
                {
                    *slope *= times;
                    *mean += share * *slope;
                    *retained += stay[cell] * *slope;
                }
            }
            for (own, pull) in slopes.chunks_exact_mut(dim).zip(&rest.pull) {
                own.iter_mut().zip(&mean).for_each(|(slope, mean)| *slope = pull * (*slope - mean));
            }
        }
        let log_retained = most + libm::log(total);
        Reacted { shares: rest.shares, sizes, logs, log_retained, slopes, retained_slope }
    }

    /// ∂q_k.
    fn share_slope(&self, cell: usize) -> &[f64] {
        let dim = self.retained_slope.len();
        &self.slopes[cell * dim..][..dim]
    }
}

/// Shares q after a deployment: those in proportion to ((1 − ν) q_k + ν s_k) ρ_k.
pub(crate) fn renew(shares: &mut [f64], base: &[f64], logs: &[f64], renewal: f64) {
    let before = |q: f64, s: f64| (1.0 - renewal) * q + renewal * s;
    let counting = shares.iter().zip(base).zip(logs).filter(|((q, s), _)| before(**q, **s) > 0.0);
    let most = counting.fold(f64::NEG_INFINITY, |most, (_, log)| most.max(*log));
    let mut total = 0.0;
    for ((q, s), log) in shares.iter_mut().zip(base).zip(logs) {
        let there = before(*q, *s);
        *q = if there > 0.0 { there * libm::exp(log - most) } else { 0.0 };
        total += *q;
    }
    shares.iter_mut().for_each(|q| *q /= total);
}

/// Shares where a deployed φ stays.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    /// q_k.
    pub(crate) shares: Vec<f64>,
    /// How much each follows its own ρ: ∂q_k = pull_k (∂ ln ρ_k − Σ pull ∂ ln ρ / Σ pull).
    pub(crate) pull: Vec<f64>,
}

impl Rest {
    /// Of base shares, whose ρ have these logarithms.
    pub(crate) fn of(base: Vec<f64>, logs: &[f64], renewal: f64) -> Self {
        let counting = || base.iter().zip(logs).filter(|(s, _)| **s > 0.0);
        let most = counting().fold(f64::NEG_INFINITY, |most, (_, log)| most.max(*log));
        let staying = |log: &f64| libm::exp(log - most);
        let stays = |(s, log): (&f64, &f64)| match (*s > 0.0, renewal == 0.0) {
            (false, _) => 0.0,
            (true, false) => s * staying(log),
            (true, true) => {
                if *log == most {
                    *s
                } else {
                    0.0
                }
            }
        };
        let mut shares: Vec<f64> = base.iter().zip(logs).map(stays).collect();
        let total: f64 = shares.iter().sum();
        if renewal == 0.0 || renewal == 1.0 {
            shares.iter_mut().for_each(|share| *share /= total);
            let pull = if renewal == 1.0 { shares.clone() } else { vec![0.0; shares.len()] };
            return Rest { shares, pull };
        }
        // q_k = ν s_k ρ_k/(Z − (1 − ν) ρ_k), in units of the largest ρ; x = Z − (1 − ν) lies between the ν of
        // those who have it, and ν.
        let left = |(s, log): (&f64, &f64)| match *s > 0.0 {
            true => (1.0 - renewal) * (1.0 - staying(log)),
            false => 0.0,
        };
        let left: Vec<f64> = base.iter().zip(logs).map(left).collect();
        let sum = |x: f64| -> f64 {
            shares.iter().zip(&left).map(|(stay, left)| renewal * stay / (x + left)).sum()
        };
        let (mut low, mut high) = (0.0, renewal);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if middle == low || middle == high {
                break;
            }
            *(if sum(middle) > 1.0 { &mut low } else { &mut high }) = middle;
        }
        let x = high;
        let level = x + (1.0 - renewal);
        for (share, left) in shares.iter_mut().zip(&left) {
            *share *= renewal / (x + left);
        }
        let pull = shares.iter().zip(&left).map(|(q, left)| q * level / (x + left)).collect();
        Rest { shares, pull }
    }
}

/// Rows that leave together.
#[derive(Clone, Debug)]
pub struct Cells {
    count: usize,
    /// The cell of every row of the table.
    of_rows: Vec<u32>,
    /// The rows of every client by cell, as places among its own.
    rows: Vec<u32>,
    /// Where the rows of a client's cell begin; one more at the end of each client.
    starts: Vec<u32>,
    /// Where a client's rows begin in the table.
    firsts: Vec<u32>,
}

impl Cells {
    fn by_label(table: &Table) -> Self {
        let mut known: Vec<f64> = table.labels().to_vec();
        known.sort_by(f64::total_cmp);
        known.dedup();
        let place = |label: &f64| {
            known.binary_search_by(|known| known.total_cmp(label)).unwrap_or(0) as u32
        };
        let of_rows: Vec<u32> = table.labels().iter().map(place).collect();
        Cells::new(table, &of_rows)
    }

    fn new(table: &Table, of_rows: &[u32]) -> Self {
        let count = of_rows.iter().max().map_or(0, |most| *most as usize + 1);
        let (mut rows, mut starts, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
        let mut first = 0;
        for client in 0..table.clients() {
            let own = &of_rows[first..first + table.block(client).1.len()];
            firsts.push(first as u32);
            for cell in 0..count as u32 {
                starts.push(rows.len() as u32);
                let places = (0..own.len()).filter(|&row| own[row] == cell);
                rows.extend(places.map(|row| row as u32));
            }
            starts.push(rows.len() as u32);
            first += own.len();
        }
        Cells { count, of_rows: of_rows.to_vec(), rows, starts, firsts }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The cell of a client's row.
    #[inline]
    pub fn of(&self, client: usize, row: usize) -> usize {
        self.of_rows[self.firsts[client] as usize + row] as usize
    }

    /// The rows of a client's cell, as places among its own.
    #[inline]
    pub fn rows(&self, client: usize, cell: usize) -> &[u32] {
        let place = client * (self.count + 1) + cell;
        &self.rows[self.starts[place] as usize..self.starts[place + 1] as usize]
    }
}
