//! What is not believed of what clients send.

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Protocol, Round};
use fedback_core::state::Repetition;

use super::{Reach, Update};
use crate::rule::{keep_by_rule, length};

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
    /// What the client says it keeps is not what its rule makes of its update.
    #[error("number {0} of what the client keeps does not follow from its update")]
    KeptOther(usize),
    /// The update is not finite.
    #[error("coordinate {0} of the update is not a finite number")]
    NotFinite(usize),
    /// The update is longer than honest work can be.
    #[error("the update is {length:.3e} long, believed are up to {longest:.3e}")]
    TooLong {
        /// Its length.
        length: f64,
        /// The longest that is believed.
        longest: f64,
    },
}

impl Refusal {
    /// Whether the update came where it was expected, and is no update of the model.
    pub fn is_bad_update(&self) -> bool {
        use Refusal::{KeptLength, KeptOther, NotFinite, TooLong, WrongLength};
        match self {
            WrongLength { .. } | NotFinite(_) | TooLong { .. } => true,
            KeptLength { .. } | KeptOther(_) => true,
            Refusal::NoRoundOpen | Refusal::UnknownRepetition(_) | Refusal::NotAsked(_) => false,
            Refusal::OtherRound { .. } | Refusal::Duplicate(_) | Refusal::Late(_) => false,
        }
    }
}

/// How many times (1 + |θ|) an update may be where nothing is known of honest ones.
///
/// An honest update is many orders of magnitude below: after it the squared distance and the risk
/// are near 1e200 and two more of its kind leave the range of numbers, so that only a run that is
/// lost already can get there; it then stops and names the clients and this reason. And an update
/// that is accepted cannot make a sensible θ infinite, whatever its coefficient.
pub const LARGEST: f64 = 1e100;

/// How much longer than the longest honest update one may be: room for rounding.
const ROUNDING: f64 = 1.0 + 1e-9;

/// Refuses what cannot be an update of a client in a repetition, in the round that follows.
pub(super) fn refuse_nonsense(
    (protocol, reach): (&Protocol, Option<&Reach>),
    (repetition, round): (&Repetition, Round),
    client: ClientId,
    update: &Update,
) -> Result<(), Refusal> {
    let layout = repetition.layout();
    if update.delta.len() != layout.dim {
        return Err(Refusal::WrongLength { found: update.delta.len(), expected: layout.dim });
    }
    if update.kept.len() != layout.kept {
        return Err(Refusal::KeptLength { found: update.kept.len(), expected: layout.kept });
    }
    if let Some(bad) = update.delta.iter().position(|d| !d.is_finite()) {
        return Err(Refusal::NotFinite(bad));
    }
    let sizes: Vec<f64> = protocol.sizes(round).collect();
    let total: f64 = sizes.iter().sum();
    let broadcast = repetition.broadcast();
    let kept = repetition.kept_by(client);
    let reach = reach.map(|reach| reach.longest(protocol, &sizes, broadcast, (client, kept)));
    let clipped = protocol.longest(total);
    let honest = clipped.into_iter().chain(reach).map(|most| most * ROUNDING);
    let longest = honest.fold(LARGEST * (1.0 + length(repetition.theta())), f64::min);
    let length = length(&update.delta);
    if length > longest {
        return Err(Refusal::TooLong { length, longest });
    }
    if layout.kept == 0 {
        return Ok(());
    }
    if let Some(bad) = update.kept.iter().position(|number| !number.is_finite()) {
        return Err(Refusal::KeptOther(bad));
    }
    // What a population remembers is its own affair: it enters no other client's work.
    let (control, sent) = (layout.control, layout.parts(broadcast).control);
    let mut honest = kept[..control].to_vec();
    keep_by_rule(protocol.local, total, sent, &mut honest, &update.delta);
    match update.kept.iter().zip(&honest).position(|(kept, honest)| kept != honest) {
        Some(place) => Err(Refusal::KeptOther(place)),
        None => Ok(()),
    }
}
