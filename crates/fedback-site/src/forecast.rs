//! What a server could learn under a policy, in words and numbers, before anybody asks.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fedback_core::protocol::Batch;
use fedback_lab::error::Error;
use fedback_lab::plan::SiteTables;
use fedback_lab::spec::{Base, Document};
use serde::Serialize;

use crate::agreed::{Agreed, Source, build, fits, read};
use crate::message::{About, Gathered};
use crate::policy::Policy;
use crate::refused::Refused;
use crate::rests::Rests;

/// Updates that are looked at one by one; of a longer plan, the first.
const LOOKED_AT: u64 = 20_000;

/// What a policy means for the site.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// The site.
    pub site: String,
    /// The plan's hash; none where rows have to be counted at all sites first, and of a sweep.
    pub plan_hash: Option<String>,
    /// What every client shows.
    pub clients: Vec<Shown>,
    /// Answers for a client under one plan, and for ever.
    pub answers: [u64; 2],
    /// Numbers in an answer.
    pub numbers: usize,
    /// Where more can be learned than a reader may expect.
    pub warnings: Vec<String>,
}

/// What the updates of a client show of its rows.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// The client.
    pub client: u32,
    /// Different rows that it has; none where its population is not made of rows.
    pub rows: Option<u64>,
    /// Rows that a local step draws, one by one; none where it takes all.
    pub draws: Option<u64>,
    /// Whether the site's program makes the observations: then its rows are not known before.
    pub observed: bool,
    /// The fewest different rows that a step of the plan rests on.
    pub fewest: Option<u64>,
    /// Updates that were looked at, and how many of them the policy refuses.
    pub updates: u64,
    /// How many of them have a step that rests on too few rows.
    pub refused: u64,
}

impl Shown {
    /// What the updates under two plans show.
    fn and(self, other: Shown) -> Shown {
        Shown {
            draws: self.draws.zip(other.draws).map(|(one, other)| one.min(other)),
            fewest: self.fewest.zip(other.fewest).map(|(one, other)| one.min(other)),
            updates: self.updates + other.updates,
            refused: self.refused + other.refused,
            ..self
        }
    }
}

/// What a server could learn.
pub fn forecast(policy: &Policy) -> Result<Forecast, Error> {
    let document = Document::read(&policy.plan.spec)?;
    let origin = policy.origin.display();
    let told = |refused: Refused| {
        Error::input(&origin, refused.detail.map_or(refused.reason.clone(), |why| why))
    };
    let points = document.points()?;
    // All points of a sweep have the same rows.
    let [point, ..] = &points[..] else {
        return Err(Error::input(&document.origin, "its sweep has no point"));
    };
    let swept = !point.set.is_empty();
    if swept && policy.plan.hash.is_some() {
        let why = "the spec has a sweep, every point of which is a plan of its own: leave hash out";
        return Err(Error::input(&origin, format!("plan.hash: {why}")));
    }
    fits(policy, &point.spec.problem).map_err(|why| Error::input(&origin, why))?;
    let mut about = About::default();
    let mut own = None;
    let mut counted = true;
    if let Base::Sites(base) = &point.spec.problem.base {
        let tables = read(policy, &document, &point.spec).map_err(told)?;
        counted = base.rows.is_some();
        if !counted {
            about.gathered =
                Some(stand_in(policy, point.spec.problem.clients.map(|c| c.0), &tables));
        }
        own = Some(tables);
    }
    let agreed = |which: usize| {
        let about = About { point: swept.then_some(which as u64), ..about.clone() };
        build(policy, &document, &about, own.as_ref()).map_err(told)
    };
    let all = (0..points.len()).map(agreed).collect::<Result<Vec<Agreed>, Error>>()?;
    let seen = |client: &u32| {
        let each = all.iter().map(|agreed| shown(policy, agreed, *client));
        each.reduce(Shown::and)
    };
    let clients: Vec<Shown> = policy.clients.iter().filter_map(seen).collect();
    // What else the points differ in is in what clients show.
    let agreed = all.iter().find(|one| one.plan.protocol.clip.is_none()).unwrap_or(&all[0]);
    let layout = agreed.plan.layout();
    let limits = &policy.limits;
    let mut forecast = Forecast {
        site: policy.name.clone(),
        plan_hash: (counted && !swept).then(|| agreed.plan.hash.clone()),
        clients,
        answers: [limits.answers, limits.answers_in_all],
        numbers: layout.dim + layout.kept,
        warnings: Vec::new(),
    };
    forecast.warnings = warnings(policy, agreed, &forecast, own.as_ref());
    Ok(forecast)
}

/// Counts and constants as long as nobody has gathered them: which rows are drawn does not depend on
/// them.
fn stand_in(policy: &Policy, clients: Option<u64>, tables: &SiteTables) -> Gathered {
    let most = policy.clients.iter().max().map_or(1, |client| u64::from(*client) + 1);
    let mut rows = vec![1; clients.unwrap_or(most).max(most) as usize];
    let mut features = 0;
    for (client, table) in tables.held() {
        rows[client] = table.labels.len() as u64;
        features = table.features.len();
    }
    Gathered { rows, sums: Some([vec![0.0; features], vec![1.0; features]]) }
}

fn shown(policy: &Policy, agreed: &Agreed, client: u32) -> Shown {
    let draws = match agreed.plan.protocol.batch {
        Batch::All => None,
        Batch::Sampled(size) => Some(size as u64),
    };
    let (updates, refused) = (0, 0);
    let Some(distinct) = agreed.distinct(client) else {
        let observed = match agreed.source {
            Source::Program(_) => true,
            Source::Known(_) => false,
        };
        let draws = draws.filter(|_| observed);
        return Shown { client, rows: None, draws, observed, fewest: None, updates, refused };
    };
    let (mut fewest, mut updates, mut refused) = (distinct, updates, refused);
    let repetitions = agreed.plan.spec.repetitions.0 as u32;
    'all: for round in 0..agreed.plan.spec.rounds.0 {
        for repetition in 0..repetitions {
            if updates == LOOKED_AT {
                break 'all;
            }
            let steps = agreed.rests(client, repetition, round);
            let found = steps.iter().map(Rests::distinct).min().unwrap_or(0);
            fewest = fewest.min(found);
            refused += u64::from(found < policy.limits.rows);
            updates += 1;
        }
    }
    let (rows, fewest) = (Some(distinct), Some(fewest));
    Shown { client, rows, draws, observed: false, fewest, updates, refused }
}

fn warnings(
    policy: &Policy,
    agreed: &Agreed,
    forecast: &Forecast,
    own: Option<&SiteTables>,
) -> Vec<String> {
    let mut all = Vec::new();
    let limits = &policy.limits;
    for shown in &forecast.clients {
        let client = shown.client;
        if shown.draws == Some(1) {
            all.push(format!(
                "client {client}: a step is a row. With a batch of one, the server reads rows off \
                 updates, whatever the number of local steps; take larger batches"
            ));
        }
        if let Some(draws) = shown.draws.filter(|draws| shown.observed && *draws < limits.rows) {
            all.push(format!(
                "client {client}: a step has {draws} observations, limits.rows is {}: every update \
                 will be refused; take larger batches, or lower limits.rows",
                limits.rows
            ));
        }
        let Some(rows) = shown.rows else { continue };
        if shown.refused > 0 {
            all.push(format!(
                "client {client}: {} of {} updates have a step on fewer than {} different rows and \
                 will be refused; take larger batches, or lower limits.rows",
                shown.refused, shown.updates, limits.rows
            ));
        }
        if rows < 2 * limits.rows {
            all.push(format!(
                "client {client}: it has {rows} different rows, limits.rows is {}: whoever is in one \
                 update is likely to be in all of them",
                limits.rows
            ));
        }
        let held = own.and_then(|own| own.held().find(|(held, _)| *held == client as usize));
        if let Some((_, table)) = held {
            let labels = table.labels.len() as u64;
            let numbers = table.values.len() as u64 + labels;
            // Draws are public: each answer is an equation in the labels of its batch.
            let batch = shown.draws.unwrap_or(labels).max(1) as f64;
            let bits = limits.answers_in_all as f64 * (batch + 1.0).log2();
            if agreed.is_labelled() && bits >= labels as f64 {
                all.push(format!(
                    "client {client}: labels of yes and no can be solved for: it has {labels} of them, \
                     and up to {} answers about {batch} rows each may tell as many; lower \
                     limits.answers_in_all to less than {}",
                    limits.answers_in_all,
                    (labels as f64 / (batch + 1.0).log2()).ceil()
                ));
            }
            let told = limits.answers_in_all.saturating_mul(forecast.numbers as u64);
            if told >= numbers {
                all.push(format!(
                    "client {client}: the site gives up to {told} numbers, its rows are {numbers}: \
                     nothing rules out that they can be solved for; lower limits.answers_in_all to \
                     less than {}",
                    numbers.div_ceil(forecast.numbers as u64)
                ));
            }
        }
        if shown.draws.is_none() {
            all.push(format!(
                "client {client}: every update rests on all rows and the operator chooses the models: \
                 two that differ in how they judge one person differ by that person; limits.theta and \
                 limits.answers bound how well that can be done"
            ));
        }
    }
    if limits.rows == 1 {
        all.push("limits.rows is 1: an answer may rest on one person".into());
    }
    if agreed.plan.protocol.clip.is_none() {
        all.push("the plan has no algorithm.clip: one row can move an update at will".into());
    }
    if policy.plan.vary.contains_key("seed") {
        let why = "the operator may choose the seed, and with it which rows are drawn together";
        all.push(why.into());
    }
    let files = policy.clients.iter().filter_map(|client| policy.data_of(*client));
    for path in files.chain([policy.ledger.clone(), policy.origin.clone()]) {
        all.extend(open_to_others(&path));
    }
    all.extend(policy.program_files().iter().filter_map(|path| changed_by_others(path)));
    all.dedup();
    all
}

/// What is wrong with the modes of a file that is the site's own.
pub fn open_to_others(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        format!("{}: others than its owner may use it (mode {mode:03o}): chmod 600", path.display())
    })
}

/// What is wrong with the modes of a file that the site's program is made of.
pub fn changed_by_others(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o022 != 0).then(|| {
        let name = path.display();
        format!("{name}: others than its owner may change it (mode {mode:03o}): chmod go-w")
    })
}
