//! Every question, held against the policy and the ledger.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use fedback_core::base::{Base, RawTable};
use fedback_core::federation::{ClientId, Federation};
use fedback_core::protocol::{Batch, Round};
use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_lab::error::Error;
use fedback_lab::plan::{Asked, Given, Plan, SitePlan, SiteTables};
use fedback_lab::spec::{self, Document, Point, Spec};
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use crate::ledger::{Entry, Ledger, Mark};
use crate::message::{About, Gathered, Order, Reply, Request};
use crate::policy::Policy;
use crate::rests::{self, Rests, RowName};

/// Why a question is not answered: what is told, and what stays in the site's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The reason, in words of ours.
    pub reason: String,
    /// More of it, for the site alone.
    pub detail: Option<String>,
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Refused { reason, detail: None }
    }
}

impl From<&str> for Refused {
    fn from(reason: &str) -> Self {
        reason.to_string().into()
    }
}

impl Refused {
    /// Something went wrong at the site, which is nobody else's business.
    fn inside(what: &str, error: impl std::fmt::Display) -> Self {
        let reason = format!("{what}; the site's log says why");
        Refused { reason, detail: Some(error.to_string()) }
    }
}

/// A plan that the site works for.
pub struct Built {
    /// What sites share of a plan.
    pub plan: SitePlan,
    /// The spec.
    pub spec: Spec,
    federation: Federation,
    rows: HashMap<u32, Vec<RowName>>,
}

impl Built {
    /// The names of a client's rows; none where its population is not made of rows.
    pub fn rows(&self, client: u32) -> Option<&[RowName]> {
        self.rows.get(&client).map(Vec::as_slice)
    }

    /// What the steps of an update rest on; nothing where the population is not made of rows.
    pub fn rests(&self, client: u32, repetition: u32, round: u64) -> Vec<Rests> {
        let seed = Seed(self.spec.seed.0);
        let streams = Streams::new(seed, u64::from(repetition), round, Purpose::Data);
        self.rows(client).map_or(Vec::new(), |rows| {
            Rests::of_round(rows, streams.client(client), &self.plan.protocol)
        })
    }
}

/// How many plans are kept ready.
const READY: usize = 8;

/// The way to a site's rows.
pub struct Gate {
    policy: Policy,
    document: Document,
    ledger: Ledger,
    tables: Vec<(Vec<String>, Arc<SiteTables>)>,
    built: Vec<(About, Arc<Built>)>,
}

impl Gate {
    /// Opens the site's ledger and reads its rows.
    pub fn open(policy: Policy) -> Result<Self, Error> {
        let document = Document::read(&policy.plan.spec)?;
        let ledger = Ledger::open(&policy.ledger, &policy.name)?;
        let (tables, built) = Default::default();
        let mut gate = Gate { policy, document, ledger, tables, built };
        if gate.policy.data.is_some() {
            gate.tables(&[]).map_err(|refused| {
                let why = refused.detail.unwrap_or(refused.reason);
                Error::input(gate.policy.origin.display(), why)
            })?;
        }
        Ok(gate)
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
        let built = self.built(about)?;
        Ok(Reply::Answer {
            plan_hash: built.plan.hash.clone(),
            federation: built.plan.weights.len(),
            dim: built.plan.dim,
            clients: self.policy.clients.clone(),
        })
    }

    fn census(&mut self, set: &[String], mean: Option<&[f64]>) -> Result<Reply, Refused> {
        let tables = self.tables(set)?;
        let features = tables.held().next().map_or(0, |(_, table)| table.features.len());
        if mean.is_some_and(|mean| mean.len() != features || mean.iter().any(|m| !m.is_finite())) {
            return Err("the means are not a finite number per feature".into());
        }
        let mut names: Vec<u8> = Vec::new();
        for name in tables.held().flat_map(|(_, table)| &table.features) {
            names.extend((name.len() as u64).to_le_bytes());
            names.extend(name.as_bytes());
        }
        let numbers =
            mean.map(|mean| mean.iter().flat_map(|m| m.to_le_bytes()).collect::<Vec<u8>>());
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
            let rests = Arc::new(Rests::new(row_names(&tables, client)));
            let client = client as u32;
            rows.push(count);
            // The rows are in the digest: another file is another question.
            let parts = [&names[..], numbers.as_deref().unwrap_or(b"sums"), &rests.bytes()];
            let request = digest("census", client, &parts);
            if self.ledger.answered(&request).map_err(broken)?.is_none() {
                let entry = Entry {
                    plan: "census".into(),
                    client,
                    place: format!("census {}", hex(&request)),
                    request,
                    rests: vec![rests],
                    answer: told.iter().flat_map(|sum| sum.to_le_bytes()).collect(),
                };
                self.admit(&entry, &entries, true)?;
                entries.push(entry);
            }
            all.extend(told);
        }
        self.ledger.record(&entries).map_err(broken)?;
        let clients = tables.held().map(|(client, _)| client as u32).collect();
        Ok(Reply::Count { clients, rows, sums: all })
    }

    fn order(&mut self, order: &Order) -> Result<Reply, Refused> {
        let built = self.built(&order.about)?;
        self.check(order, &built)?;
        let layout = built.plan.layout();
        let (sent, each) = (layout.broadcast(), layout.kept);
        let numbers = layout.dim + each;
        let mut answers: Vec<Option<Vec<u8>>> = Vec::new();
        let (mut entries, mut asked, mut broadcasts_of) = (Vec::new(), Vec::new(), Vec::new());
        for (pair, (&client, &repetition)) in
            order.clients.iter().zip(&order.repetitions).enumerate()
        {
            let model = &order.thetas[repetition as usize * sent..][..sent];
            let kept = &order.kept[pair * each..][..each];
            let given: Vec<u8> = model.iter().chain(kept).flat_map(|n| n.to_le_bytes()).collect();
            let place = format!("round {} repetition {repetition}", order.round);
            let parts = [built.plan.hash.as_bytes(), place.as_bytes(), &given];
            let request = digest("update", client, &parts);
            let before = self.ledger.answered(&request).map_err(broken)?;
            if before.is_none() {
                if self.ledger.is_taken(&built.plan.hash, client, &place).map_err(broken)? {
                    let why = "was answered for another model; a second answer on the same rows \
                               could be subtracted from it";
                    return Err(format!("client {client}, {place}: {why}").into());
                }
                let steps = built.rests(client, repetition, order.round).into_iter();
                let rests = steps.map(Arc::new).collect();
                let plan = built.plan.hash.clone();
                let entry = Entry { plan, client, place, request, rests, answer: Vec::new() };
                let all = built.plan.protocol.batch == Batch::All;
                self.admit(&entry, &entries, all)?;
                entries.push(entry);
                asked.push(Asked { repetition, client: ClientId(client) });
                broadcasts_of.push(pair);
            }
            answers.push(before);
        }
        let kept: Vec<f64> = broadcasts_of
            .iter()
            .flat_map(|pair| &order.kept[pair * each..][..each])
            .copied()
            .collect();
        let given = Given { asked: &asked, broadcasts: &order.thetas, kept: &kept };
        let key = (Seed(order.seed), Round(order.round));
        let updates = built
            .plan
            .work(&built.federation, key, given)
            .map_err(|error| Refused::inside("the work failed", error))?;
        if !updates.deltas.iter().chain(&updates.kept).all(|number| number.is_finite()) {
            return Err("the work came to numbers that are not finite".into());
        }
        for (place, (entry, pair)) in entries.iter_mut().zip(broadcasts_of).enumerate() {
            let delta = &updates.deltas[place * layout.dim..][..layout.dim];
            let kept = &updates.kept[place * each..][..each];
            entry.answer = delta.iter().chain(kept).flat_map(|n| n.to_le_bytes()).collect();
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
            plan_hash: built.plan.hash.clone(),
            round: order.round,
            repetitions: order.repetitions.clone(),
            clients: order.clients.clone(),
            delta,
            kept,
        })
    }

    /// Refuses an order that is not of its plan.
    fn check(&self, order: &Order, built: &Built) -> Result<(), Refused> {
        let (layout, spec) = (built.plan.layout(), &built.spec);
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

    /// Refuses an answer that the limits do not allow after all that was answered, and after those
    /// that are about to be. Only answers on all rows may rest on the same ones as an earlier one.
    fn admit(&self, entry: &Entry, about_to_be: &[Entry], all: bool) -> Result<(), Refused> {
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
        let least = limits.rows;
        let mut before: Vec<&Arc<Rests>> = spent.rests.iter().collect();
        before.extend(others().flat_map(|other| &other.rests));
        for rests in &entry.rests {
            if rests.distinct() < least {
                let why = format!("a step would rest on fewer than {least} different rows");
                return Err(format!("client {client}: {why}").into());
            }
            let close = |other: &&Arc<Rests>| match rests.differing(other) {
                0 => !all,
                differing => differing < least,
            };
            if before.iter().any(close) {
                let why = format!(
                    "a step would rest on the rows of an earlier one but for fewer than {least}, \
                     which their difference would show"
                );
                return Err(format!("client {client}: {why}").into());
            }
            before.push(rests);
        }
        Ok(())
    }

    /// The rows of the site, as a spec asks for them.
    fn tables(&mut self, set: &[String]) -> Result<Arc<SiteTables>, Refused> {
        if let Some((_, tables)) = self.tables.iter().find(|(known, _)| known == set) {
            return Ok(tables.clone());
        }
        let point = point(&self.policy, &self.document, set, None)?;
        let tables = read(&self.policy, &self.document, &point.spec)?;
        self.tables.truncate(READY - 1);
        self.tables.insert(0, (set.to_vec(), Arc::new(tables)));
        Ok(self.tables[0].1.clone())
    }

    /// The plan that a question is about, if the policy has it.
    fn built(&mut self, about: &About) -> Result<Arc<Built>, Refused> {
        if let Some((_, built)) = self.built.iter().find(|(known, _)| known == about) {
            return Ok(built.clone());
        }
        let own = match self.policy.data {
            Some(_) => Some(self.tables(&about.set)?),
            None => None,
        };
        if let (Some(gathered), Some(own)) = (&about.gathered, &own) {
            self.take_census(gathered, own)?;
        }
        let built = build(&self.policy, &self.document, about, own.as_deref())?;
        if built.plan.hash != about.plan_hash {
            let (own, other) =
                (&built.plan.hash[..12], about.plan_hash.get(..12).unwrap_or("none"));
            return Err(format!("the plan here is {own}, not {other}").into());
        }
        if self.policy.plan.hash.as_ref().is_some_and(|hash| *hash != built.plan.hash) {
            return Err(format!("plan {} is not the one agreed on", &built.plan.hash[..12]).into());
        }
        self.built.truncate(READY - 1);
        self.built.insert(0, (about.clone(), Arc::new(built)));
        Ok(self.built[0].1.clone())
    }

    /// Takes note of what a census of all sites is said to have come to. It decides the scale of every
    /// feature, so that it has to be plausible by what this site knows, and does not change at will.
    fn take_census(&mut self, gathered: &Gathered, own: &SiteTables) -> Result<(), Refused> {
        let Gathered { rows, sums } = gathered;
        let mut parts: Vec<u8> = rows.iter().flat_map(|count| count.to_le_bytes()).collect();
        parts.extend(sums.iter().flatten().flatten().flat_map(|number| number.to_le_bytes()));
        let client = self.policy.clients[0];
        let request = digest("gathered", client, &[&parts]);
        if self.ledger.answered(&request).map_err(broken)?.is_some() {
            return Ok(());
        }
        if let Some([mean, sd]) = sums
            && !own.held().all(|(client, table)| plausible(own, client, table, mean, sd))
        {
            return Err("the means and standard deviations are not those of rows like these".into());
        }
        let spent = self.ledger.spent(client).by_plan.get("gathered").copied().unwrap_or(0);
        if spent >= self.policy.limits.censuses {
            return Err("rows were counted before, and came to something else".into());
        }
        let place = format!("gathered {}", hex(&request));
        let (plan, rests, answer) = ("gathered".to_string(), Vec::new(), Vec::new());
        let entry = Entry { plan, client, place, request, rests, answer };
        self.ledger.record(&[entry]).map_err(broken)
    }
}

/// How many standard deviations a site may be away from all, and how many times as spread out.
const APART: f64 = 10.0;

/// Whether the constants could be those of all rows, by a client's own mean and deviation.
fn plausible(own: &SiteTables, client: usize, table: &RawTable, mean: &[f64], sd: &[f64]) -> bool {
    let (count, sums) = (table.labels.len() as f64, table.sums());
    let own_mean: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
    let squares = own.squares(&own_mean);
    let Some((_, squares)) = squares.iter().find(|(held, _)| *held == client) else { return false };
    let fits = |j: usize| {
        let own_sd = (squares[j] / count).sqrt();
        sd[j] > 0.0 && own_sd <= APART * sd[j] && (own_mean[j] - mean[j]).abs() <= APART * sd[j]
    };
    mean.len() == own_mean.len() && sd.len() == own_mean.len() && (0..mean.len()).all(fits)
}

fn broken(error: Error) -> Refused {
    Refused::inside("the site's ledger cannot be used", error)
}

/// The names of a client's rows.
fn row_names(tables: &SiteTables, client: usize) -> Vec<RowName> {
    let own = tables.held().find(|(held, _)| *held == client);
    own.map_or(Vec::new(), |(_, table)| {
        let rows = table.values.chunks_exact(table.features.len().max(1));
        rows.zip(&table.labels).map(|(row, label)| rests::name(row, Some(*label))).collect()
    })
}

/// The site's tables as a spec asks for them, if the policy has its columns.
pub(crate) fn read(
    policy: &Policy,
    document: &Document,
    spec: &Spec,
) -> Result<SiteTables, Refused> {
    let spec::Base::Sites(base) = &spec.problem.base else {
        return Err("the plan is not about rows that lie at sites".into());
    };
    if let Some(allowed) = &policy.plan.columns {
        let mut names = base.features.iter().chain(&base.label);
        if let Some(column) = names.find(|name| !allowed.contains(name)) {
            return Err(format!("column {column:?} is not to be read here").into());
        }
    }
    let files: Vec<(usize, PathBuf)> = policy
        .clients
        .iter()
        .filter_map(|client| Some((*client as usize, policy.data_of(*client)?)))
        .collect();
    let read = SiteTables::read(spec, &files, &document.origin);
    read.map_err(|error| Refused::inside("the site's rows cannot be read", error))
}

/// The spec with what the operator sets, as far as it is his to set.
fn point(
    policy: &Policy,
    document: &Document,
    set: &[String],
    gathered: Option<&Gathered>,
) -> Result<Point, Refused> {
    let mut document = document.clone();
    for assignment in set {
        let Some((key, text)) = assignment.split_once('=') else {
            return Err("what is set has no =".into());
        };
        let value = toml::from_str::<Table>(&format!("value = {text}"))
            .ok()
            .filter(|table| table.len() == 1)
            .and_then(|mut table| table.remove("value"))
            .unwrap_or_else(|| Value::String(text.trim().to_string()));
        policy.allows(key.trim(), &value)?;
        let wrong = |error| Refused::inside("what is set does not fit the spec", error);
        document.set(assignment).map_err(wrong)?;
    }
    if let Some(gathered) = gathered {
        document = complete(&document, gathered)?;
    }
    let mut points =
        document.points().map_err(|error| Refused::inside("the spec cannot be read", error))?;
    match (points.pop(), points.is_empty()) {
        (Some(point), true) if point.spec.budget.is_some() => {
            Err("the spec has a budget; a site needs the number of rounds".into())
        }
        (Some(point), true) => Ok(point),
        _ => Err("the spec has a sweep; a site works on one point at a time".into()),
    }
}

/// A spec with what a census came to.
fn complete(document: &Document, gathered: &Gathered) -> Result<Document, Refused> {
    let mut table = document.table().clone();
    let base = table.get_mut("problem").and_then(|problem| problem.get_mut("base"));
    let Some(Value::Table(base)) = base else { return Err("the spec has no base".into()) };
    let whole = |count: &u64| Value::Integer(*count as i64);
    base.insert("rows".into(), Value::Array(gathered.rows.iter().map(whole).collect()));
    if let Some([mean, sd]) = &gathered.sums {
        let real = |numbers: &[f64]| numbers.iter().map(|n| Value::Float(*n)).collect();
        base.insert("mean".into(), Value::Array(real(mean)));
        base.insert("sd".into(), Value::Array(real(sd)));
    }
    Ok(Document::of(table, &document.origin, document.directory.clone()))
}

/// Builds a plan at the site, if its clip is one that the policy has.
pub(crate) fn build(
    policy: &Policy,
    document: &Document,
    about: &About,
    own: Option<&SiteTables>,
) -> Result<Built, Refused> {
    let point = point(policy, document, &about.set, about.gathered.as_ref())?;
    let (directory, origin) = (&document.directory, &document.origin);
    let spec = point.spec.clone();
    let made = match own {
        Some(tables) => tables.site(&point, directory, origin),
        None => Plan::site(point, directory, origin),
    };
    let (plan, federation) =
        made.map_err(|error| Refused::inside("the plan cannot be built here", error))?;
    if let Some(most) = policy.limits.clip
        && plan.protocol.clip.is_none_or(|clip| clip > most)
    {
        return Err(format!("the plan's algorithm.clip must be at most {most} here").into());
    }
    let clients = plan.weights.len();
    if let Some(client) = policy.clients.iter().find(|client| **client as usize >= clients) {
        return Err(format!("client {client} is not one of the plan's {clients}").into());
    }
    let names = |client: u32| match (own, federation.base()) {
        (Some(tables), _) => Some(row_names(tables, client as usize)),
        (None, Base::Table(table)) => {
            let rows = table.rows_of(client as usize);
            Some(rows.map(|(row, label)| rests::name(row, Some(label))).collect())
        }
        (None, Base::Gaussian(_)) => None,
    };
    let held = policy.clients.iter().filter_map(|client| Some((*client, names(*client)?)));
    let rows = held.collect();
    Ok(Built { plan, spec, federation, rows })
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

fn hex(mark: &Mark) -> String {
    mark.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
