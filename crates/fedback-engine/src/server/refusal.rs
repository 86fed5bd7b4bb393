//! What is not believed of what clients send.

use fedback_core::state::Repetition;

use super::Update;

/// Why an update was refused. The server's state is what it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// No round is open.
    #[error("no round is open")]
    NoRoundOpen,
    /// There is no such repetition.
    #[error("there is no repetition {0}")]
    UnknownRepetition(u64),
    /// The update belongs to another round.
    #[error("the update is for round {found}, open is round {open}")]
    OtherRound {
        /// The update's round.
        found: u64,
        /// The open round.
        open: u64,
    },
    /// The client was not asked.
    #[error("client {0} was not asked in this round")]
    NotAsked(u32),
    /// The client's update is there already.
    #[error("client {0} has sent its update already")]
    Duplicate(u32),
    /// The first arrivals have made the cohort already.
    #[error("the round has its {0} first updates already")]
    Late(usize),
    /// The update has the wrong number of coordinates.
    #[error("the update has {found} coordinates, the model {expected}")]
    WrongLength {
        /// Coordinates of the update.
        found: usize,
        /// Coordinates of the model.
        expected: usize,
    },
    /// The update tells of something else than what a client keeps.
    #[error("the update has {found} numbers that the client keeps, needed are {expected}")]
    KeptLength {
        /// Numbers in the update.
        found: usize,
        /// Numbers that a client keeps.
        expected: usize,
    },
    /// What the client keeps is not finite.
    #[error("number {0} of what the client keeps is not a finite number")]
    KeptNotFinite(usize),
    /// What the client keeps is absurdly large.
    #[error("number {place} of what the client keeps is {value:e}, beyond {largest:e}")]
    KeptTooLarge {
        /// Which number.
        place: usize,
        /// Its value.
        value: f64,
        /// The largest that is believed.
        largest: f64,
    },
    /// The update is not finite.
    #[error("coordinate {0} of the update is not a finite number")]
    NotFinite(usize),
    /// The update is absurdly large.
    #[error("coordinate {coordinate} of the update is {value:e}, beyond {largest:e}")]
    TooLarge {
        /// The coordinate.
        coordinate: usize,
        /// Its value.
        value: f64,
        /// The largest that is believed.
        largest: f64,
    },
}

impl Refusal {
    /// Whether the update came where it was expected, and is no update of the model.
    pub fn is_bad_update(&self) -> bool {
        use Refusal::{KeptLength, KeptNotFinite, KeptTooLarge, NotFinite, TooLarge, WrongLength};
        match self {
            WrongLength { .. } | NotFinite(_) | TooLarge { .. } => true,
            KeptLength { .. } | KeptNotFinite(_) | KeptTooLarge { .. } => true,
            Refusal::NoRoundOpen | Refusal::UnknownRepetition(_) | Refusal::NotAsked(_) => false,
            Refusal::OtherRound { .. } | Refusal::Duplicate(_) | Refusal::Late(_) => false,
        }
    }
}

/// How many times (1 + the largest |θ_j|) a coordinate of an update may be, at most.
///
/// An honest update is many orders of magnitude below: after it the squared distance and the risk
/// are near 1e200 and two more of its kind leave the range of numbers, so that only a run that is
/// lost already can get there; it then stops and names the clients and this reason. And an update
/// that is accepted cannot make a sensible θ infinite, whatever its coefficient.
pub const LARGEST: f64 = 1e100;

/// Refuses what cannot be an update in a repetition.
pub(super) fn refuse_nonsense(repetition: &Repetition, update: &Update) -> Result<(), Refusal> {
    let (layout, theta) = (repetition.layout(), repetition.theta());
    if update.delta.len() != layout.dim {
        return Err(Refusal::WrongLength { found: update.delta.len(), expected: layout.dim });
    }
    if update.kept.len() != layout.kept {
        return Err(Refusal::KeptLength { found: update.kept.len(), expected: layout.kept });
    }
    if let Some(bad) = update.delta.iter().position(|d| !d.is_finite()) {
        return Err(Refusal::NotFinite(bad));
    }
    let largest = LARGEST * (1.0 + theta.iter().fold(0.0, |most: f64, t| most.max(t.abs())));
    if let Some(coordinate) = update.delta.iter().position(|d| d.abs() > largest) {
        let value = update.delta[coordinate];
        return Err(Refusal::TooLarge { coordinate, value, largest });
    }
    if let Some(bad) = update.kept.iter().position(|kept| !kept.is_finite()) {
        return Err(Refusal::KeptNotFinite(bad));
    }
    match update.kept.iter().position(|kept| kept.abs() > largest) {
        Some(place) => Err(Refusal::KeptTooLarge { place, value: update.kept[place], largest }),
        None => Ok(()),
    }
}
