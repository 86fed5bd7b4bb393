//! The stores that are shown. Each is opened anew for every question: one that vanishes, is locked or
//! replaced is then noticed, and nobody holds it open in the meantime.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use fedback_lab::recorded::RecordedRun;
use fedback_lab::store::{RunId, Store};
use serde::{Deserialize, Deserializer};

use crate::answer::Refusal;

/// A run by the place of its store among those that are shown, and its number there: `0.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    pub store: usize,
    pub id: RunId,
}

impl fmt::Display for RunKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.store, self.id)
    }
}

impl FromStr for RunKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('.');
        let key = parts.and_then(|(store, id)| {
            Some(RunKey { store: store.parse().ok()?, id: RunId(id.parse().ok()?) })
        });
        key.ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            format!("found run \"{shown}\"; allowed: STORE.RUN, as in 0.3")
        })
    }
}

impl<'de> Deserialize<'de> for RunKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The stores, in the order in which they were named.
#[derive(Clone, Debug)]
pub struct Stores {
    pub paths: Vec<PathBuf>,
}

impl Stores {
    /// Opens one; none where there is no file yet.
    pub fn open(&self, at: usize) -> Result<Option<Store>, Refusal> {
        let path = self.paths.get(at).ok_or_else(|| {
            Refusal::missing(format!("there is no store {at}: {} are shown", self.paths.len()))
        })?;
        Ok(Store::open_existing(path)?)
    }

    /// Reads a run for a look at it: of a long curve about `most` records.
    pub fn read(&self, key: RunKey, most: usize) -> Result<RecordedRun, Refusal> {
        Ok(RecordedRun::of(self.of(key)?.load_thinned(key.id, most)?)?)
    }

    fn of(&self, key: RunKey) -> Result<Store, Refusal> {
        self.open(key.store)?.ok_or_else(|| {
            let path = self.paths[key.store].display();
            Refusal::missing(format!("the store {path} is gone: no file is there"))
        })
    }
}
