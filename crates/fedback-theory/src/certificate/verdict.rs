//! The verdict: what repeated minimisation and the protocol do, in one word.

use fedback_core::protocol::Protocol;
use serde::{Serialize, Serializer};

use super::outlook::{Case, Outlook};
use super::small_steps::{SmallSteps, small_steps};
use crate::minimisation::Minimisation;

/// What retraining does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Repeated minimisation and the protocol at its own step sizes settle.
    Settles,
    /// The protocol settles with the step sizes that are named.
    SettlesWithSmallSteps,
    /// Repeated minimisation settles, the protocol does not at any small step size.
    MinimisationOnly,
    /// Neither does.
    DoesNotSettle,
    /// It could not be told.
    Unknown,
}

impl Verdict {
    /// Every verdict, the best first.
    pub const ALL: [Verdict; 5] = [
        Verdict::Settles,
        Verdict::SettlesWithSmallSteps,
        Verdict::MinimisationOnly,
        Verdict::DoesNotSettle,
        Verdict::Unknown,
    ];

    /// As the JSON contract calls it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Settles => "settles",
            Verdict::SettlesWithSmallSteps => "settles-with-small-steps",
            Verdict::MinimisationOnly => "minimisation-only",
            Verdict::DoesNotSettle => "does-not-settle",
            Verdict::Unknown => "unknown",
        }
    }

    /// Drawn from whether repeated minimisation, the protocol's own steps and small steps settle;
    /// `nowhere` where no stable point is known.
    pub fn of(
        minimisation: Option<bool>,
        own: Option<bool>,
        small: Option<bool>,
        nowhere: bool,
    ) -> Self {
        match (minimisation, own, small) {
            (Some(true), Some(true), _) if !nowhere => Verdict::Settles,
            (_, Some(true), _) | (_, _, Some(true)) if !nowhere => Verdict::SettlesWithSmallSteps,
            // Where there is no stable point there is nothing to settle at.
            (_, _, Some(false)) if nowhere => Verdict::DoesNotSettle,
            (Some(true), Some(false), Some(false)) => Verdict::MinimisationOnly,
            (Some(false), Some(false), Some(false)) => Verdict::DoesNotSettle,
            _ => Verdict::Unknown,
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The answers that a verdict rests on.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Does repeated minimisation settle?
    pub minimisation: Minimisation,
    /// What the protocol does at its own step sizes.
    pub own_steps: Outlook,
    /// What it does at small ones.
    pub small_steps: SmallSteps,
    /// Whether no stable point is known.
    pub nowhere: bool,
}

impl Judgement {
    /// The verdict on these answers.
    pub fn verdict(&self) -> Verdict {
        let own = self.own_steps.answer.settles;
        let small = self.small_steps.answer.settles;
        Verdict::of(self.minimisation.settles, own, small, self.nowhere)
    }
}

impl Case<'_> {
    /// The verdict, without the rest of a certificate.
    pub fn judge(&self, protocol: &Protocol) -> Judgement {
        Judgement {
            minimisation: self.stable.minimisation.clone(),
            own_steps: self.outlook(protocol),
            small_steps: small_steps(self, protocol),
            nowhere: self.stable.points.is_empty(),
        }
    }
}
