//! How data react to a deployed θ.
//!
//! | response | what becomes of an observation |
//! |---|---|
//! | [`Shift`] | all of a client's move by the same vector |
//! | [`Bounded`] | the same, but a coordinate stays between two numbers |
//! | [`Strategic`] | a row moves to the threshold where that pays |
//! | [`Outcome`] | a label listens to the row's score |
//! | [`Retention`] | a row stays where it is served well, and leaves otherwise |
//! | [`Own`] | what somebody's own rule says |
//!
//! Whoever asks for expectations asks for [`fates`](Response::fates): what may become of every row, how
//! likely that is, and how both change with θ.

mod best_response;
mod bounded;
mod fate;
mod location;
mod outcome;
mod own;
mod retention;
mod shift;
mod strategic;

pub use best_response::best_response;
pub use bounded::Bounded;
pub use fate::{Fate, Rows, Slopes};
pub use location::{Sensitivity, location};
pub use outcome::Outcome;
pub use own::{Own, OwnResponse, Row};
pub use retention::{By, Cells, Law, Retention, Turnout};
pub(crate) use retention::{Rest, renew};
pub use shift::Shift;
pub use strategic::{Lure, Strategic, Wants};

use crate::base::Base;
use crate::loss::Loss;
use crate::misfit::Misfit;

/// How the data of all clients react.
#[derive(Clone, Debug)]
pub enum Response {
    /// Every observation of a client moves by the same vector.
    Shift(Shift),
    /// The same within bounds.
    Bounded(Bounded),
    /// Rows move to the threshold.
    Strategic(Strategic),
    /// Labels follow scores.
    Outcome(Outcome),
    /// Rows leave.
    Retention(Retention),
    /// Rows do what somebody's own rule says.
    Own(Own),
}

impl From<Shift> for Response {
    fn from(shift: Shift) -> Self {
        Response::Shift(shift)
    }
}

impl Response {
    /// The vector that moves all of a client's observations alike, where that is all that happens to
    /// them. Where whole clients leave, nothing happens to the rows of those who stay; and where a
    /// reaction has no strength, none at all, whatever its kind.
    #[inline]
    pub fn shift(&self) -> Option<&Shift> {
        let nothing = match self {
            Response::Shift(shift) => return Some(shift),
            Response::Strategic(strategic) => strategic.is_still(),
            Response::Outcome(outcome) => outcome.strength.iter().all(|strength| *strength == 0.0),
            Response::Retention(retention) => retention.by == By::Client || retention.is_still(),
            Response::Bounded(_) | Response::Own(_) => false,
        };
        nothing.then_some(&Shift::None)
    }

    /// Whether its derivative in θ jumps somewhere: rows reach bounds or cross thresholds.
    pub fn has_kinks(&self) -> bool {
        match self {
            Response::Strategic(strategic) => !strategic.is_still(),
            Response::Bounded(_) => true,
            Response::Own(own) => own.has_kinks(),
            Response::Shift(_) | Response::Outcome(_) | Response::Retention(_) => false,
        }
    }

    /// Whether rows leave, or clients.
    pub fn leaves(&self) -> bool {
        match self {
            Response::Retention(_) => true,
            Response::Own(own) => own.leaves(),
            Response::Shift(_)
            | Response::Bounded(_)
            | Response::Strategic(_)
            | Response::Outcome(_) => false,
        }
    }

    /// The coordinates that it moves, in any client.
    pub fn moving(&self, clients: usize, dim: usize) -> Vec<usize> {
        let of_shift = |shift: &Shift| {
            let mut moves = vec![false; dim];
            for client in 0..clients.min(64) {
                let matrix = shift.matrix(client, dim);
                for (j, moves) in moves.iter_mut().enumerate() {
                    *moves |= matrix.row(j).iter().any(|entry| *entry != 0.0);
                }
            }
            (0..dim).filter(|&j| moves[j]).collect()
        };
        match self {
            Response::Shift(shift) => of_shift(shift),
            Response::Bounded(bounded) => of_shift(&bounded.shift),
            Response::Strategic(strategic) => strategic.features.clone(),
            Response::Own(_) => (0..dim).collect(),
            Response::Outcome(_) | Response::Retention(_) => Vec::new(),
        }
    }

    /// The declared sensitivity ε_i: the smallest number with W₁(D_i(θ), D_i(φ)) ≤ ε_i |θ − φ| that is
    /// known; infinite where there is none.
    pub fn sensitivity(&self, client: usize, base: &Base, dim: usize) -> f64 {
        match self {
            Response::Shift(shift) => shift.sensitivity(client, dim),
            Response::Bounded(bounded) => bounded.shift.sensitivity(client, dim),
            Response::Outcome(outcome) => match base {
                Base::Table(table) => outcome.sensitivity(table, client),
                Base::Gaussian(_) => 0.0,
            },
            Response::Own(own) => own.sensitivity(client),
            Response::Strategic(strategic) => match strategic.is_still() {
                true => 0.0,
                false => f64::INFINITY,
            },
            Response::Retention(retention) => match retention.rate[client] == 0.0 {
                true => 0.0,
                false => f64::INFINITY,
            },
        }
    }

    /// Calls `each` with everything that may become of a client's rows where `deployed` is; with
    /// derivatives in it, where `slopes` are wanted. Shares sum to one.
    pub fn fates(
        &self,
        rows: &Rows<'_>,
        deployed: &[f64],
        slopes: bool,
        each: &mut dyn FnMut(&Fate<'_>),
    ) {
        match self {
            Response::Shift(shift) => fate::shifted(shift, rows, deployed, slopes, each),
            Response::Bounded(bounded) => bounded.fates(rows, deployed, slopes, each),
            Response::Strategic(strategic) => strategic.fates(rows, deployed, slopes, each),
            Response::Outcome(outcome) => outcome.fates(rows, deployed, slopes, each),
            Response::Retention(retention) => retention.fates(rows, deployed, slopes, each),
            Response::Own(own) => own.fates(rows, deployed, slopes, each),
        }
    }

    /// Refuses responses that are not one for each client of a base, or that data and loss have
    /// nothing for.
    pub(crate) fn check(&self, base: &Base, loss: Loss) -> Result<(), Misfit> {
        let (clients, width) = (base.clients(), base.width());
        let dim = loss.dim(width);
        match self {
            Response::Shift(shift) => shift.check(clients, width, dim),
            Response::Bounded(bounded) => bounded.check(base, dim),
            Response::Strategic(strategic) => strategic.check(base, loss),
            Response::Outcome(outcome) => outcome.check(base, loss),
            Response::Retention(retention) => retention.check(base),
            Response::Own(own) => own.check(base, loss),
        }
    }
}

/// Refuses a list that is not one number a client, or has one that is not allowed.
fn check_each(
    part: &'static str,
    values: &[f64],
    clients: usize,
    allowed: &str,
    fits: impl Fn(f64) -> bool,
) -> Result<(), Misfit> {
    if values.len() != clients {
        let found = values.len();
        return Err(Misfit::new(
            part,
            format!("{found} numbers; needed: one per client, {clients}"),
        ));
    }
    match values.iter().enumerate().find(|(_, value)| !fits(**value)) {
        None => Ok(()),
        Some((client, wrong)) => {
            let why = format!("found {wrong} for client {client}; allowed: {allowed}");
            Err(Misfit::new(part, why))
        }
    }
}

/// x·θ.
#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// 1 / (1 + e⁻ᵐ).
#[inline(always)]
fn sigmoid(margin: f64) -> f64 {
    use crate::loss::MarginLoss;
    crate::loss::Logistic.slope(margin, 0.0)
}
