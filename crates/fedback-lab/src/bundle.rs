//! Runs that travel: a bundle is a store of its own, with one run and without its data.

use std::path::Path;

use crate::error::Error;
use crate::recorded::RecordedRun;
use crate::store::{RunId, Store, StoredRun};

/// Writes a run as a store of its own, to a file that is not there yet.
pub fn write(run: &RecordedRun, path: &Path) -> Result<(), Error> {
    if path.exists() {
        return Err(Error::input(path.display(), "is there already; name another file"));
    }
    // Runs of old stores get what lets them be read without their data.
    let mut stored = run.stored.clone();
    stored.run.facts = serde_json::to_string(&run.facts).ok();
    let written = Store::open(path).and_then(|bundle| bundle.insert(&stored));
    written.map(|_| ()).map_err(|error| {
        let _ = std::fs::remove_file(path);
        error.into()
    })
}

/// Takes every run of a bundle, or of another store, into a store, which is made where there is
/// none; the oldest first.
pub fn read(path: &Path, into: &Path) -> Result<Vec<RunId>, Error> {
    let missing = || Error::input(path.display(), "no such file; needed: a bundle, or a store");
    let bundle = Store::open_existing(path)?.ok_or_else(missing)?;
    // All are read, and found sound, before the store is made.
    let runs: Vec<StoredRun> =
        bundle.ids()?.into_iter().map(|id| bundle.load(id)).collect::<Result<_, _>>()?;
    let store = Store::open(into)?;
    if bundle.path() == store.path() {
        return Err(Error::input(path.display(), "is the store itself; needed: another one"));
    }
    runs.iter().map(|run| Ok(store.insert(run)?)).collect()
}
