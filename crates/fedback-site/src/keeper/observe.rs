//! Orders of plans whose observations the site's program makes.
//!
//! Which rows an answer rests on is known only once they are there. So they are drawn first, and then
//! policy and ledger are asked, before anything is told. A refusal that follows tells something of
//! the rows too: it is written down as an answer that is empty, so that it is counted, and a round is
//! not observed under one model after another until one gets through.

use fedback_core::protocol::Round;
use fedback_core::stream::Seed;
use fedback_lab::error::Error;
use fedback_lab::plan::{Given, SitePlan, Updates};
use fedback_lab::spec::Document;

use super::{Keeper, fits};
use crate::ledger::Entry;
use crate::observed::{self, Wanted};
use crate::policy::Policy;
use crate::program::{Program, Surroundings};
use crate::refused::Refused;

/// Starts the program of a policy that has one, if it goes with the spec.
pub(super) fn start(
    policy: &Policy,
    document: &Document,
    around: Surroundings,
) -> Result<Option<Program>, Error> {
    let Some(words) = &policy.observe else { return Ok(None) };
    let fail = |why: String| Error::input(policy.origin.display(), why);
    for point in document.points()? {
        fits(policy, &point.spec.problem).map_err(fail)?;
    }
    let cannot =
        |error| fail(format!("observe: found {:?}, which cannot be started: {error}", words[0]));
    Program::start(words, policy.folder(), around).map(Some).map_err(cannot)
}

/// What is said to an order that was refused once its rows were known.
pub(super) fn refused_before(client: u32, round: u64, repetition: u32) -> Refused {
    let place = format!("client {client}, round {round} repetition {repetition}");
    format!("{place}: was refused before, for the rows that it would rest on").into()
}

impl Keeper {
    /// The work that is asked for, on fresh observations. What it rests on goes to the entries, and
    /// all of them are admitted, or none.
    pub(super) fn observe(
        &mut self,
        wanted: Wanted,
        plan: &SitePlan,
        key: (Seed, Round),
        given: Given<'_>,
        entries: &mut [Entry],
    ) -> Result<Updates, Refused> {
        let Some(program) = &mut self.program else { return Err("there is no program".into()) };
        let (asked, layout) = (given.asked, plan.layout());
        let (dim, each) = (layout.dim, layout.kept);
        let mut updates =
            Updates { deltas: vec![0.0; asked.len() * dim], kept: given.kept.to_vec() };
        // The order in which a site without a service observes.
        let mut places: Vec<usize> = (0..asked.len()).collect();
        places.sort_by_key(|&place| (asked[place].repetition, asked[place].client));
        for place in places {
            let (delta, kept) = (place * dim..(place + 1) * dim, place * each..(place + 1) * each);
            let asked = &asked[place..=place];
            let one =
                Given { asked, broadcasts: given.broadcasts, kept: &given.kept[kept.clone()] };
            let found = observed::observe(wanted, plan, key, one, program)
                .map_err(|why| Refused::inside("the site could not observe", why))?;
            updates.deltas[delta].copy_from_slice(&found.updates.deltas);
            updates.kept[kept].copy_from_slice(&found.updates.kept);
            entries[place].rests = found.rests;
        }
        self.admit(entries, false)?;
        Ok(updates)
    }
}
