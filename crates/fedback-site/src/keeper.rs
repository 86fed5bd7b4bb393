//! The keeper of a site's rows: every question, held against the policy and the ledger.

mod observe;

use std::collections::BTreeSet;
use std::sync::Arc;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{Batch, Round};
use fedback_core::stream::Seed;
use fedback_lab::error::Error;
use fedback_lab::plan::{Asked, Given, SiteTables};
use fedback_lab::spec::Document;
use sha2::{Digest, Sha256};

use crate::agreed::{Agreed, Names, Source, build, fits, plausible, point, read};
use crate::frame::bytes_of;
use crate::ledger::{Entry, Ledger, Mark, hex};
use crate::message::{About, Gathered, Order, Reply, Request};
use crate::policy::Policy;
use crate::program::{Program, Surroundings};
use crate::refused::Refused;
use crate::rests::Rests;

/// What the operator sets, and which point of a sweep he asks for.
type Asking = (Vec<String>, Option<u64>);

/// How often constants may be refused as implausible, for ever: each time tells a little of the rows.
const TRIES: u64 = 3;

/// What the ledger has of constants that were refused.
const IMPLAUSIBLE: &[u8] = b"implausible";

/// How many plans are kept ready.
const READY: usize = 8;

/// The way to a site's rows.
pub struct Keeper {
    policy: Policy,
    document: Document,
    ledger: Ledger,
    tables: Vec<(Asking, Arc<SiteTables>)>,
    agreed: Vec<(About, Arc<Agreed>)>,
    program: Option<Program>,
}

impl Keeper {
    /// Opens the site's ledger, and reads its rows or starts its program, of which nobody hears.
    pub fn open(policy: Policy) -> Result<Self, Error> {
        Keeper::open_in(policy, Surroundings::default())
    }

    /// The same, with somebody who hears of the site's program.
    pub fn open_in(policy: Policy, around: Surroundings) -> Result<Self, Error> {
        let document = Document::read(&policy.plan.spec)?;
        let ledger = Ledger::open(&policy.ledger, &policy.name)?;
        ledger.check_id(policy.id.as_deref())?;
        let program = observe::start(&policy, &document, around)?;
        let (tables, agreed) = Default::default();
        let mut keeper = Keeper { policy, document, ledger, tables, agreed, program };
        if keeper.policy.data.is_some() {
            keeper.tables(&[], Some(0)).map_err(|refused| {
                let why = refused.detail.unwrap_or(refused.reason);
                Error::input(keeper.policy.origin.display(), why)
            })?;
        }
        Ok(keeper)
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Answers a question, or says why not.
    pub fn answer(&mut self, request: &Request) -> Result<Reply, Refused> {
        match request {
            Request::Census { set, mean } => self.census(set, mean.as_deref()),
            Request::Question(about) => self.question(about),
            Request::Order(order) => self.order(order),
        }
    }

    fn question(&mut self, about: &About) -> Result<Reply, Refused> {
        let agreed = self.agreed(about)?;
        Ok(Reply::Answer {
            plan_hash: agreed.plan.hash.clone(),
            federation: agreed.plan.weights.len(),
            dim: agreed.plan.dim,
            clients: self.policy.clients.clone(),
        })
    }

    fn census(&mut self, set: &[String], mean: Option<&[f64]>) -> Result<Reply, Refused> {
        // All points of a sweep have the same rows, or a census would have to be one of each.
        let tables = self.tables(set, Some(0))?;
        let features = tables.held().next().map_or(0, |(_, table)| table.features.len());
        if mean.is_some_and(|mean| mean.len() != features || mean.iter().any(|m| !m.is_finite())) {
            return Err("the means are not a finite number per feature".into());
        }
        let mut names: Vec<u8> = Vec::new();
        for name in tables.held().flat_map(|(_, table)| &table.features) {
            names.extend((name.len() as u64).to_le_bytes());
            names.extend(name.as_bytes());
        }
        let numbers = mean.map(bytes_of);
        let sums = tables.sums();
        let squares = mean.map(|mean| tables.squares(mean));
        let told = squares.iter().flatten().flat_map(|(_, sums)| sums);
        if !told.chain(sums.iter().flat_map(|(_, _, sums)| sums)).all(|sum| sum.is_finite()) {
            return Err("a sum is not finite".into());
        }
        let (mut entries, mut rows, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (client, count, sums)) in sums.into_iter().enumerate() {
            let told = match &squares {
                Some(squares) => squares[place].1.clone(),
                None => sums,
            };
            let rests = Names::of(&tables, client).all();
            let client = client as u32;
            rows.push(count);
            // What is read of the rows is in the digest: another file is another question.
            let parts = [&names[..], numbers.as_deref().unwrap_or(b"sums"), &rests[0].bytes()];
            let request = digest("census", client, &parts);
            if self.ledger.answered(&request).map_err(broken)?.is_none() {
                let entry = Entry {
                    plan: "census".into(),
                    client,
                    place: format!("census {}", hex(&request[..8])),
                    request,
                    rests: rests.into_iter().map(Arc::new).collect(),
                    answer: bytes_of(&told),
                };
                self.afford(&entry, &entries)?;
                self.apart(&entry, &entries, true)?;
                entries.push(entry);
            }
            all.extend(told);
        }
        self.ledger.record(&entries).map_err(broken)?;
        let clients = tables.held().map(|(client, _)| client as u32).collect();
        Ok(Reply::Count { clients, rows, sums: all })
    }

    fn order(&mut self, order: &Order) -> Result<Reply, Refused> {
        let agreed = self.agreed(&order.about)?;
        self.check(order, &agreed)?;
        let layout = agreed.plan.layout();
        let (sent, each) = (layout.broadcast(), layout.kept);
        let numbers = layout.dim + each;
        let mut answers: Vec<Option<Vec<u8>>> = Vec::new();
        let (mut entries, mut asked, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
        let all = agreed.plan.protocol.batch == Batch::All;
        for (pair, (&client, &repetition)) in
            order.clients.iter().zip(&order.repetitions).enumerate()
        {
            let model = &order.thetas[repetition as usize * sent..][..sent];
            let kept = &order.kept[pair * each..][..each];
            let given = bytes_of(model.iter().chain(kept));
            let place = format!("round {} repetition {repetition}", order.round);
            let parts = [agreed.plan.hash.as_bytes(), place.as_bytes(), &given];
            let request = digest("update", client, &parts);
            let before = self.ledger.answered(&request).map_err(broken)?;
            if before.is_none() {
                if self.ledger.is_taken(&agreed.plan.hash, client, &place).map_err(broken)? {
                    let why = "was answered for another model; a second answer on the same rows \
                               could be subtracted from it";
                    return Err(format!("client {client}, {place}: {why}").into());
                }
                let steps = agreed.rests(client, repetition, order.round).into_iter();
                let rests = steps.map(Arc::new).collect();
                let plan = agreed.plan.hash.clone();
                let entry = Entry { plan, client, place, request, rests, answer: Vec::new() };
                entries.push(entry);
                asked.push(Asked { repetition, client: ClientId(client) });
                fresh.push(pair);
            }
            if before.as_ref().is_some_and(Vec::is_empty) {
                return Err(observe::refused_before(client, order.round, repetition));
            }
            answers.push(before);
        }
        // Only now: what a refusal by rows says is not to be had beside another one.
        for place in 0..entries.len() {
            self.afford(&entries[place], &entries[..place])?;
        }
        self.admit(&entries, all)?;
        let kept: Vec<f64> =
            fresh.iter().flat_map(|pair| &order.kept[pair * each..][..each]).copied().collect();
        let given = Given { asked: &asked, broadcasts: &order.thetas, kept: &kept };
        let key = (Seed(order.seed), Round(order.round));
        let updates = match &agreed.source {
            Source::Known(federation) => agreed
                .plan
                .work(&**federation, key, given)
                .map_err(|error| Refused::inside("the work failed", error))?,
            Source::Program(wanted) => {
                self.observe(*wanted, &agreed.plan, key, given, &mut entries)?
            }
        };
        // Whether they are tells of the rows, as a refusal by rows does.
        if !updates.deltas.iter().chain(&updates.kept).all(|number| number.is_finite()) {
            self.note(&entries)?;
            return Err("the work came to numbers that are not finite".into());
        }
        for (place, (entry, pair)) in entries.iter_mut().zip(fresh).enumerate() {
            let delta = &updates.deltas[place * layout.dim..][..layout.dim];
            let kept = &updates.kept[place * each..][..each];
            entry.answer = bytes_of(delta.iter().chain(kept));
            answers[pair] = Some(entry.answer.clone());
        }
        self.ledger.record(&entries).map_err(broken)?;
        let (mut delta, mut kept) = (Vec::new(), Vec::new());
        for answer in answers.into_iter().flatten() {
            let found: Vec<f64> =
                answer.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
            if found.len() != numbers {
                return Err(Refused::inside("the ledger is damaged", "an answer's length"));
            }
            delta.extend(&found[..layout.dim]);
            kept.extend(&found[layout.dim..]);
        }
        Ok(Reply::Update {
            plan_hash: agreed.plan.hash.clone(),
            round: order.round,
            repetitions: order.repetitions.clone(),
            clients: order.clients.clone(),
            delta,
            kept,
        })
    }

    /// Refuses an order that is not of its plan.
    fn check(&self, order: &Order, agreed: &Agreed) -> Result<(), Refused> {
        let (layout, spec) = (agreed.plan.layout(), &agreed.plan.spec);
        if order.seed != spec.seed.0 {
            return Err("the streams' key is not the plan's seed".into());
        }
        if order.round >= spec.rounds.0 {
            return Err(format!("round {} of {}", order.round, spec.rounds.0).into());
        }
        let pairs = order.clients.len();
        let models = order.thetas.len().checked_div(order.broadcast).unwrap_or(0);
        let mut seen = BTreeSet::new();
        let fits = order.broadcast == layout.broadcast()
            && order.repetitions.len() == pairs
            && order.kept.len() == pairs * layout.kept
            && (order.keeps == layout.kept || pairs == 0)
            && models as u64 <= spec.repetitions.0
            && order.repetitions.iter().all(|repetition| (*repetition as usize) < models)
            && order.clients.iter().zip(&order.repetitions).all(|pair| seen.insert(pair));
        if !fits {
            return Err("the order is of another shape than the plan".into());
        }
        if let Some(client) = order.clients.iter().find(|c| !self.policy.clients.contains(c)) {
            return Err(format!("client {client} is not held here").into());
        }
        if !order.thetas.iter().chain(&order.kept).all(|number| number.is_finite()) {
            return Err("the model has a number that is not finite".into());
        }
        // What is sent with a model, and what clients keep, moves their steps as it does.
        let most = self.policy.limits.theta;
        let vectors =
            order.thetas.chunks(layout.dim.max(1)).chain(order.kept.chunks(layout.dim.max(1)));
        for vector in vectors {
            let length = vector.iter().map(|t| t * t).sum::<f64>().sqrt();
            if length > most {
                return Err(format!("the model is {length:.3e} long, here up to {most}").into());
            }
        }
        Ok(())
    }

    /// Admits all answers of an order by the rows that they rest on, or none. A refusal tells something
    /// of rows, and so does who was not refused before: both are written down as answers that are
    /// empty, so that they count, and a round is not tried again.
    fn admit(&mut self, entries: &[Entry], all: bool) -> Result<(), Refused> {
        for place in 0..entries.len() {
            if let Err(refused) = self.apart(&entries[place], &entries[..place], all) {
                self.note(&entries[..=place])?;
                return Err(refused);
            }
        }
        Ok(())
    }

    /// Writes down that nothing was answered, in as many words.
    fn note(&mut self, refused: &[Entry]) -> Result<(), Refused> {
        let noted = |entry: &Entry| Entry { rests: Vec::new(), ..entry.clone() };
        let noted: Vec<Entry> = refused.iter().map(noted).collect();
        self.ledger.record(&noted).map_err(broken)
    }

    /// Refuses an answer that is one too many, after all that were given and those that are about to
    /// be.
    fn afford(&self, entry: &Entry, about_to_be: &[Entry]) -> Result<(), Refused> {
        let (client, limits) = (entry.client, &self.policy.limits);
        let spent = self.ledger.spent(client);
        let others = || about_to_be.iter().filter(|other| other.client == client);
        let of_plan = spent.by_plan.get(&entry.plan).copied().unwrap_or(0);
        let of_plan = of_plan + others().filter(|other| other.plan == entry.plan).count() as u64;
        if of_plan >= limits.answers {
            let most = limits.answers;
            return Err(
                format!("client {client}: all {most} answers of this plan are given").into()
            );
        }
        if spent.in_all + others().count() as u64 >= limits.answers_in_all {
            let most = limits.answers_in_all;
            return Err(
                format!("client {client}: all {most} answers of this site are given").into()
            );
        }
        Ok(())
    }

    /// Refuses an answer that rests on too few rows, or on those of an earlier one but for a few, whichever
    /// client of the site that was for. Only answers on all rows may rest on the same ones.
    fn apart(&self, entry: &Entry, about_to_be: &[Entry], all: bool) -> Result<(), Refused> {
        let (client, least) = (entry.client, self.policy.limits.rows);
        let mut now: Vec<&Arc<Rests>> = about_to_be.iter().flat_map(|other| &other.rests).collect();
        for rests in &entry.rests {
            if rests.distinct() < least {
                let why = format!("a step would rest on fewer than {least} different rows");
                return Err(format!("client {client}: {why}").into());
            }
            let close = |other: &&Arc<Rests>| match rests.differing(other) {
                0 => !all,
                differing => differing < least,
            };
            if self.ledger.near(rests).any(|other| close(&other)) || now.iter().any(close) {
                let why = format!(
                    "a step would rest on the rows of an earlier one but for fewer than {least}, \
                     which their difference would show"
                );
                return Err(format!("client {client}: {why}").into());
            }
            now.push(rests);
        }
        Ok(())
    }

    /// The rows of the site, as a spec asks for them.
    fn tables(&mut self, set: &[String], which: Option<u64>) -> Result<Arc<SiteTables>, Refused> {
        let same = |known: &Asking| known.0 == set && known.1 == which;
        if let Some((_, tables)) = self.tables.iter().find(|(known, _)| same(known)) {
            return Ok(tables.clone());
        }
        let point = point(&self.policy, &self.document, (set, which), None)?;
        let tables = read(&self.policy, &self.document, &point.spec)?;
        self.tables.truncate(READY - 1);
        self.tables.insert(0, ((set.to_vec(), which), Arc::new(tables)));
        Ok(self.tables[0].1.clone())
    }

    /// The plan that a question is about, if the policy has it.
    fn agreed(&mut self, about: &About) -> Result<Arc<Agreed>, Refused> {
        if let Some((_, agreed)) = self.agreed.iter().find(|(known, _)| known == about) {
            return Ok(agreed.clone());
        }
        let own = match self.policy.data {
            Some(_) => Some(self.tables(&about.set, about.point)?),
            None => None,
        };
        let agreed = build(&self.policy, &self.document, about, own.as_deref())?;
        if agreed.plan.hash != about.plan_hash {
            let (own, other) =
                (&agreed.plan.hash[..12], about.plan_hash.get(..12).unwrap_or("none"));
            return Err(format!("the plan here is {own}, not {other}").into());
        }
        if self.policy.plan.hash.as_ref().is_some_and(|hash| *hash != agreed.plan.hash) {
            return Err(format!("plan {} is not the one agreed on", &agreed.plan.hash[..12]).into());
        }
        // Last, so that a question which is wrong otherwise costs no census.
        if let (Some(gathered), Some(own)) = (&about.gathered, &own) {
            self.take_census(gathered, own)?;
        }
        self.agreed.truncate(READY - 1);
        self.agreed.insert(0, (about.clone(), Arc::new(agreed)));
        Ok(self.agreed[0].1.clone())
    }

    /// Takes note of what a census of all sites is said to have come to. It decides the scale of every
    /// feature, so that it has to be plausible by what this site knows, and does not change at will.
    fn take_census(&mut self, gathered: &Gathered, own: &SiteTables) -> Result<(), Refused> {
        let Gathered { rows, sums } = gathered;
        let mut parts: Vec<u8> = rows.iter().flat_map(|count| count.to_le_bytes()).collect();
        parts.extend(bytes_of(sums.iter().flatten().flatten()));
        let client = self.policy.clients[0];
        let request = digest("gathered", client, &[&parts]);
        let implausible = "the means and standard deviations are not those of rows like these";
        match self.ledger.answered(&request).map_err(broken)? {
            Some(answer) if answer == IMPLAUSIBLE => return Err(implausible.into()),
            Some(_) => return Ok(()),
            None => {}
        }
        let spent = |plan: &str| self.ledger.spent(client).by_plan.get(plan).copied().unwrap_or(0);
        if spent("gathered") >= self.policy.limits.censuses || spent("implausible") >= TRIES {
            return Err("rows were counted before, and came to something else".into());
        }
        // What is plausible tells of the rows: of too few nothing is said, and of others seldom.
        let least = self.policy.limits.rows;
        let few = |client| Names::of(own, client).distinct() < least;
        if own.held().any(|(held, _)| few(held)) {
            return Err(format!("a client has fewer than {least} different rows").into());
        }
        let fits = match sums {
            Some([mean, sd]) => own.held().all(|(_, table)| plausible(table, mean, sd)),
            None => true,
        };
        let (plan, answer) =
            if fits { ("gathered", Vec::new()) } else { ("implausible", IMPLAUSIBLE.to_vec()) };
        let place = format!("{plan} {}", hex(&request[..8]));
        let entry = Entry { plan: plan.into(), client, place, request, rests: Vec::new(), answer };
        self.ledger.record(&[entry]).map_err(broken)?;
        if fits { Ok(()) } else { Err(implausible.into()) }
    }
}

fn broken(error: Error) -> Refused {
    Refused::inside("the site's ledger cannot be used", error)
}

fn digest(kind: &str, client: u32, parts: &[&[u8]]) -> Mark {
    let mut digest = Sha256::new();
    digest.update(kind);
    digest.update(client.to_le_bytes());
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}
