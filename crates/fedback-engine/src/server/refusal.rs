//! What is not believed of what clients send.

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
        use Refusal::{NotFinite, TooLarge, WrongLength};
        matches!(self, WrongLength { .. } | NotFinite(_) | TooLarge { .. })
    }
}

/// How many times (1 + the largest |θ_j|) a coordinate of an update may be, at most.
///
/// An honest update is many orders of magnitude below: after it the squared distance and the risk
/// are near 1e200 and two more of its kind leave the range of numbers, so that only a run that is
/// lost already can get there; it then stops and names the clients and this reason. And an update
/// that is accepted cannot make a sensible θ infinite, whatever its coefficient.
pub const LARGEST: f64 = 1e100;

/// Refuses what cannot be an update of `theta`.
pub(super) fn refuse_nonsense(theta: &[f64], delta: &[f64]) -> Result<(), Refusal> {
    if delta.len() != theta.len() {
        return Err(Refusal::WrongLength { found: delta.len(), expected: theta.len() });
    }
    if let Some(bad) = delta.iter().position(|d| !d.is_finite()) {
        return Err(Refusal::NotFinite(bad));
    }
    let largest = LARGEST * (1.0 + theta.iter().fold(0.0, |most: f64, t| most.max(t.abs())));
    match delta.iter().position(|d| d.abs() > largest) {
        Some(coordinate) => {
            Err(Refusal::TooLarge { coordinate, value: delta[coordinate], largest })
        }
        None => Ok(()),
    }
}
