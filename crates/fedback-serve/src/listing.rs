//! The list of runs as it was last read, and what has changed since somebody asked.
//!
//! Reading ten thousand runs takes seconds, so that the list is read in slices, the newest runs
//! first, and is shown from the first slice on. A run is read again when its mark has changed. Every
//! change has a number, by which a page asks for what it does not have yet.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fedback_lab::store::{Glance, Mark, RunId, Store};
use serde_json::{Map, Value, json};

use crate::answer::Refusal;
use crate::stores::{RunKey, Stores};

/// Letters of a parameter's value in the list, at most.
const MOST_LETTERS: usize = 60;

/// What was last read of all stores.
#[derive(Debug, Default)]
pub struct Listing {
    shelves: Vec<Shelf>,
    /// Rises with every change.
    version: u64,
    /// Whoever has seen less has seen another server.
    first: u64,
    /// Every key of a spec that has been seen, once.
    names: HashSet<Arc<str>>,
    /// The keys in which the runs differ, and since when it is these.
    differing: Vec<Arc<str>>,
    differing_since: u64,
}

/// One store.
#[derive(Debug, Default)]
struct Shelf {
    rows: BTreeMap<RunId, Row>,
    removed: Vec<(RunId, u64)>,
    /// Runs that are yet to be read.
    unread: usize,
    /// Why it cannot be read now.
    trouble: Option<String>,
}

#[derive(Debug)]
struct Row {
    version: u64,
    fresh: Fresh,
}

/// A run as it was read just now.
#[derive(Debug)]
pub struct Fresh {
    mark: Mark,
    /// What is listed of it, as the inside of a JSON object: it is sent far more often than read.
    line: String,
    /// The keys of its spec that have been set or swept.
    set: Vec<String>,
    /// The keys of its spec, with their values as JSON.
    keys: Vec<(Arc<str>, Box<str>)>,
}

/// What a look at a store has found.
pub struct Found {
    gone: Vec<RunId>,
    fresh: Vec<(RunId, Fresh)>,
    unread: usize,
    trouble: Option<String>,
    /// Whether a run may change without anybody writing to the store.
    pub unfinished: bool,
}

impl Listing {
    pub fn new(stores: usize) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // A later server begins with a higher number.
        let first = now.map_or(1, |now| now.as_millis() as u64);
        let shelves = (0..stores).map(|_| Shelf::default()).collect();
        Listing { shelves, version: first, first, ..Listing::default() }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether runs are yet to be read.
    pub fn is_incomplete(&self) -> bool {
        self.shelves.iter().any(|shelf| shelf.unread > 0)
    }

    /// The marks of a store's runs as they were last read.
    pub fn marks(&self, store: usize) -> HashMap<RunId, Mark> {
        self.shelves[store].rows.iter().map(|(id, row)| (*id, row.fresh.mark)).collect()
    }

    /// Something changed that is no run: pages should look.
    pub fn tick(&mut self) {
        self.version += 1;
    }

    /// Takes in what was found; whether anything is new.
    pub fn take(&mut self, store: usize, found: Found) -> bool {
        let (version, shelf) = (self.version + 1, &mut self.shelves[store]);
        let same = found.gone.is_empty()
            && found.fresh.is_empty()
            && (found.unread, &found.trouble) == (shelf.unread, &shelf.trouble);
        if same {
            return false;
        }
        for id in found.gone {
            shelf.rows.remove(&id);
            shelf.removed.push((id, version));
        }
        for (id, mut fresh) in found.fresh {
            shelf.removed.retain(|(removed, _)| *removed != id);
            for (key, _) in &mut fresh.keys {
                match self.names.get(&**key) {
                    Some(known) => *key = known.clone(),
                    None => drop(self.names.insert(key.clone())),
                }
            }
            shelf.rows.insert(id, Row { version, fresh });
        }
        (shelf.unread, shelf.trouble) = (found.unread, found.trouble);
        self.version = version;
        let rows = self.shelves.iter().flat_map(|shelf| shelf.rows.values());
        let differing = differing(rows.map(|row| &row.fresh));
        if differing != self.differing {
            (self.differing, self.differing_since) = (differing, version);
        }
        true
    }

    /// What has changed since a version, as JSON.
    pub fn since(&self, since: u64, stores: &Stores) -> String {
        let whole = since < self.first || since < self.differing_since || since > self.version;
        let is_new = |version: u64| whole || version > since;
        let (mut runs, mut removed) = (String::new(), Vec::new());
        for (store, shelf) in self.shelves.iter().enumerate() {
            for (id, row) in shelf.rows.iter().rev().filter(|(_, row)| is_new(row.version)) {
                let key = RunKey { store, id: *id };
                let comma = if runs.is_empty() { "" } else { "," };
                let line = &row.fresh.line;
                runs +=
                    &format!("{comma}{{\"run\":\"{key}\",\"store\":{store},{line},\"values\":[");
                for (place, wanted) in self.differing.iter().enumerate() {
                    let found = row.fresh.keys.iter().find(|(key, _)| key == wanted);
                    runs += if place > 0 { "," } else { "" };
                    runs += found.map_or("null", |(_, value)| value);
                }
                runs += "]}";
            }
            let gone = shelf.removed.iter().filter(|(_, version)| is_new(*version));
            removed.extend(gone.map(|(id, _)| RunKey { store, id: *id }.to_string()));
        }
        let shelves = stores.paths.iter().zip(&self.shelves).map(|(path, shelf)| {
            json!({
                "path": path.display().to_string(), "runs": shelf.rows.len(),
                "unread": shelf.unread, "trouble": shelf.trouble,
            })
        });
        let differing: Vec<&str> = self.differing.iter().map(|key| &**key).collect();
        let (shelves, differing) = (json!(shelves.collect::<Vec<_>>()), json!(differing));
        let (version, removed) = (self.version, json!(removed));
        format!(
            "{{\"format\":1,\"version\":{version},\"whole\":{whole},\"stores\":{shelves},\
             \"parameters\":{differing},\"removed\":{removed},\"runs\":[{runs}]}}"
        )
    }
}

/// Looks what is new in a store, for about so long.
pub fn look(stores: &Stores, at: usize, known: &HashMap<RunId, Mark>, time: Duration) -> Found {
    let until = Instant::now() + time;
    let nothing = || Found {
        gone: Vec::new(),
        fresh: Vec::new(),
        unread: 0,
        trouble: None,
        unfinished: true,
    };
    let read = || -> Result<Found, Refusal> {
        let Some(store) = stores.open(at)? else {
            let path = stores.paths[at].display();
            let why = match known.is_empty() {
                true => format!("no store is at {path} yet; `fedback run SPEC` makes one"),
                false => format!("the store {path} is gone; what is shown was read before"),
            };
            return Ok(Found { trouble: Some(why), ..nothing() });
        };
        let marks = store.marks()?;
        let there: HashMap<RunId, Mark> = marks.iter().copied().collect();
        let gone = known.keys().filter(|id| !there.contains_key(id)).copied().collect();
        let mut changed: Vec<(RunId, Mark)> =
            marks.into_iter().filter(|(id, mark)| known.get(id) != Some(mark)).collect();
        let unfinished = there.values().any(|mark| !mark.has_ended());
        let mut fresh = Vec::new();
        while let Some((id, mark)) = changed.pop() {
            fresh.push((id, Fresh::read(&store, id, mark)));
            if Instant::now() > until {
                break;
            }
        }
        Ok(Found { gone, fresh, unread: changed.len(), trouble: None, unfinished })
    };
    read().unwrap_or_else(|refusal| Found { trouble: Some(refusal.words().into()), ..nothing() })
}

impl Fresh {
    fn read(store: &Store, id: RunId, mark: Mark) -> Self {
        let glance = match store.glance(id) {
            Ok(glance) => glance,
            Err(error) => {
                let line = inside(&json!({
                    "id": id, "name": "", "state": "damaged", "problem": error.to_string(),
                }));
                return Fresh { mark, line, set: Vec::new(), keys: Vec::new() };
            }
        };
        let mut line = json!(glance.summary);
        let last = glance.measured().into_iter().map(|(name, value)| (name.into(), json!(value)));
        line["final"] = Value::Object(last.collect::<Map<String, Value>>());
        let set = glance.summary.set.keys().cloned().collect();
        if let Some(line) = line.as_object_mut() {
            line.remove("set");
        }
        Fresh { mark, line: inside(&line), set, keys: keys(&glance) }
    }
}

/// A JSON object without its braces.
fn inside(object: &Value) -> String {
    let text = object.to_string();
    text[1..text.len() - 1].into()
}

/// The keys of a run's spec by which it could differ from others, but its name.
fn keys(glance: &Glance) -> Vec<(Arc<str>, Box<str>)> {
    let mut found = Vec::new();
    let table: toml::Table = toml::from_str(&glance.spec).unwrap_or_default();
    gather("", json!(table), &mut found);
    found.retain(|(key, _)| key != "name");
    found.into_iter().map(|(key, value)| (key.into(), value.to_string().into())).collect()
}

fn gather(key: &str, value: Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(map) => {
            let dot = if key.is_empty() { "" } else { "." };
            for (name, value) in map {
                gather(&format!("{key}{dot}{name}"), value, found);
            }
        }
        Value::Array(list) => {
            let text = Value::Array(list).to_string();
            let short = match text.char_indices().nth(MOST_LETTERS) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            };
            found.push((key.into(), short.into()));
        }
        other => found.push((key.into(), other)),
    }
}

/// The keys whose values are not the same in all runs: those that were set or swept, then the others,
/// in the order in which runs have them.
fn differing<'a>(rows: impl Iterator<Item = &'a Fresh> + Clone) -> Vec<Arc<str>> {
    struct Seen<'a> {
        first: &'a str,
        differs: bool,
        count: usize,
    }
    let (mut order, mut seen, mut total) = (Vec::new(), HashMap::<&str, Seen<'_>>::new(), 0);
    for row in rows.clone().filter(|row| !row.keys.is_empty()) {
        total += 1;
        for (key, value) in &row.keys {
            let one = seen.entry(key).or_insert_with(|| {
                order.push(key);
                Seen { first: value, differs: false, count: 0 }
            });
            one.differs |= *one.first != **value;
            one.count += 1;
        }
    }
    order.retain(|key| seen[&***key].differs || seen[&***key].count < total);
    let set: BTreeSet<&String> = rows.flat_map(|row| &row.set).collect();
    let is_set = |key: &str| {
        let below = |one: &&String| {
            key.strip_prefix(one.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        set.iter().any(below)
    };
    order.sort_by_key(|key| !is_set(key));
    order.into_iter().cloned().collect()
}
