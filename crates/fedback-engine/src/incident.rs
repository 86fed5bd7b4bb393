//! What went wrong between a server and its clients, so that a degraded run does not look clean.
//!
//! One entry per client and kind of trouble, however often it came: what an attacker sends again and
//! again takes no more room than once.

use std::collections::{BTreeMap, BTreeSet};

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;

/// Characters of a reason that are kept.
const LONGEST: usize = 300;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// A round was closed without work that was asked for.
    Absent,
    /// What came as the client's work was no update of the model, and was not averaged.
    Refused,
    /// Somebody else than its holder claimed the client.
    Claimed,
}

impl Trouble {
    /// All kinds.
    pub const ALL: [Trouble; 3] = [Trouble::Absent, Trouble::Refused, Trouble::Claimed];

    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Trouble::Absent => "absent",
            Trouble::Refused => "refused",
            Trouble::Claimed => "claimed",
        }
    }
}

/// One kind of trouble with one client, in all rounds of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// The client.
    pub client: ClientId,
    /// The kind.
    pub trouble: Trouble,
    /// The round in which it was first seen.
    pub first: Round,
    /// The round in which it was last seen.
    pub last: Round,
    /// In how many rounds it was.
    pub rounds: u64,
    /// Why, the last time.
    pub reason: String,
}

/// All of a run, and which of them are new or have changed.
#[derive(Clone, Debug, Default)]
pub struct Incidents {
    all: BTreeMap<(ClientId, Trouble), Incident>,
    changed: BTreeSet<(ClientId, Trouble)>,
}

impl Incidents {
    /// Those of a run that goes on.
    pub fn of(known: impl IntoIterator<Item = Incident>) -> Self {
        let mut incidents = Incidents::default();
        known.into_iter().for_each(|one| incidents.put(one));
        incidents
    }

    /// Takes one as it stands now.
    pub fn put(&mut self, incident: Incident) {
        self.all.insert((incident.client, incident.trouble), incident);
    }

    /// Notes trouble in a round.
    pub fn note(&mut self, round: Round, client: ClientId, trouble: Trouble, reason: &str) {
        let reason: String = reason.chars().take(LONGEST).collect();
        let key = (client, trouble);
        let known = self.all.entry(key).or_insert_with(|| {
            let (first, last) = (round, round);
            Incident { client, trouble, first, last, rounds: 0, reason: String::new() }
        });
        if known.rounds == 0 || known.last != round {
            known.rounds += 1;
        }
        (known.last, known.reason) = (round, reason);
        self.changed.insert(key);
    }

    /// Those that are new or have changed since this was last asked.
    pub fn take_changed(&mut self) -> Vec<Incident> {
        let changed = std::mem::take(&mut self.changed);
        changed.iter().filter_map(|key| self.all.get(key).cloned()).collect()
    }

    /// All of them, by client.
    pub fn iter(&self) -> impl Iterator<Item = &Incident> {
        self.all.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_counted_by_rounds_and_takes_no_more_room_than_once() {
        let mut incidents = Incidents::default();
        let client = ClientId(4);
        for round in [2, 2, 3, 7] {
            for message in 0..1000 {
                let reason = format!("message {message} of round {round}");
                incidents.note(Round(round), client, Trouble::Refused, &reason);
            }
        }
        incidents.note(Round(9), client, Trouble::Absent, &"x".repeat(10_000));
        let changed = incidents.take_changed();
        assert_eq!(changed.len(), 2);
        let Incident { first, last, rounds, reason, .. } = &changed[1];
        assert_eq!((*first, *last, *rounds), (Round(2), Round(7), 3));
        assert_eq!(reason, "message 999 of round 7");
        assert_eq!(changed[0].reason.len(), LONGEST);
        assert!(incidents.take_changed().is_empty());
        // A run that goes on counts on.
        let mut later = Incidents::of(incidents.iter().cloned());
        assert!(later.take_changed().is_empty());
        later.note(Round(12), client, Trouble::Refused, "again");
        assert_eq!(later.take_changed()[0].rounds, 4);
        assert_eq!(later.iter().count(), 2);
    }
}
