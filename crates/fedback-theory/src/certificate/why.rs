//! Why a protocol settles, or does not, or why that is not known: the numbers of a sentence.

use crate::limit::NoMap;

/// Why.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// No stable point is known.
    NoStablePoint,
    /// No stable point is known, for the reason that the search gave.
    Nowhere,
    /// Models of unequal weights are averaged without replacement: every round rescales them.
    Rescaled,
    /// Rounds could not be linearised.
    NotLinear(NoMap),
    /// A round at this step size is not finite.
    NotFinite(f64),
    /// A round multiplies the mean error by this.
    MeanGrows {
        /// η.
        size: f64,
        /// The factor.
        by: f64,
    },
    /// A round multiplies the mean squared error by this.
    SquareGrows {
        /// η.
        size: f64,
        /// The factor.
        by: f64,
    },
    /// Rounds contract, but not to an attracting stable point.
    NotAttracting,
    /// The long run of a constant step size was not found.
    NoFloor,
    /// The long run of a constant step size is not near.
    HighFloor {
        /// η.
        size: f64,
        /// √E|x|².
        level: f64,
        /// |E x|.
        bias: f64,
    },
    /// So many rounds would be needed, each of which leaves a share of the squared error.
    SlowRounds {
        /// Rounds.
        rounds: f64,
        /// The share.
        left: f64,
    },
    /// A round multiplies squared errors by a number, down to a floor.
    Floor {
        /// The number.
        by: f64,
        /// √E|x|².
        level: f64,
    },
    /// Small steps lead away from the stable point.
    Away,
    /// The first steps are too large: errors grow to this first.
    TooLargeFirst {
        /// √E|x|².
        peak: f64,
        /// Rounds after which steps are still too large to tell.
        untold: Option<u64>,
    },
    /// Errors fall like a power of t, to nothing.
    PowerLaw {
        /// Minus the power.
        rate: f64,
        /// Whether that was found from squared errors.
        squares: bool,
    },
    /// That power is so small that getting near takes this long.
    SlowPower {
        /// Minus the power.
        rate: f64,
        /// Rounds.
        rounds: f64,
    },
    /// Without noise the path runs away within these rounds.
    RunsAway(f64),
    /// Without noise the path keeps moving, and nothing attracts it.
    KeepsMoving,
    /// The path without noise had not arrived after these rounds.
    NotArrived(f64),
    /// Rounds are too much work to be followed.
    TooMuchWork,
    /// The averaged gradient flow was not followed to an end.
    FlowLost,
    /// The first of steps that decay is too large, because of this.
    FirstStep(Box<Why>),
    /// Some smaller steps than the first one, which come later, do not contract: only those up to this are certain
    /// to.
    LaterSteps {
        /// η.
        most: f64,
    },
    /// On the way from the start a round multiplies squared errors by this.
    OnTheWay {
        /// η.
        size: f64,
        /// The factor.
        by: f64,
    },
    /// Noise carries the model this far, where it is not drawn back reliably.
    CarriedAway {
        /// η.
        size: f64,
        /// How far.
        reach: f64,
    },
    /// Getting near would take these rounds.
    Far(f64),
    /// Small steps: the smaller, the worse models of unequal weights are rescaled.
    RescaledMore,
    /// Small steps lead to the stable point.
    LeadThere,
    /// The margin of small steps is zero to rounding.
    NoMargin,
    /// Small steps lead to the stable point, but none were found that are certain to.
    NoneCertain,
    /// Steps that are not too small contract faster than averaging scatters.
    FasterThanScatter,
}

/// Yes, no, or not known, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Yes, no, or not known.
    pub settles: Option<bool>,
    /// Why.
    pub why: Why,
}

impl Answer {
    pub(super) fn new(settles: Option<bool>, why: Why) -> Self {
        Answer { settles, why }
    }
}
