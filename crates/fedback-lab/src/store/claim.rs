//! The lock by which a process holds a run.
//!
//! The lock lies on a file of its own, one per run, which is removed when the run is let go. Two
//! processes must not end up with locks on a removed file and on its successor of the same name;
//! therefore [`Claim::take`] and [`Claim::release`] work inside a write transaction of the store,
//! of which there is one at a time. [`Claim::is_taken`] needs none: it neither creates nor removes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

/// How long a claim waits for those that only look; they hold the lock for microseconds.
const LOOKERS: Duration = Duration::from_secs(5);

/// A held run. Dropping it, or the end of the process, lets the run go.
#[derive(Debug)]
pub(super) struct Claim {
    file: File,
    path: PathBuf,
}

impl Claim {
    /// Locks the file at `path`; `None` when another claim holds it. The caller has a write
    /// transaction open.
    pub(super) fn take(path: &Path) -> io::Result<Option<Claim>> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        let deadline = Instant::now() + LOOKERS;
        while Instant::now() < deadline {
            if locked(file.try_lock())? {
                return Ok(Some(Claim { file, path: path.to_owned() }));
            }
            // Those who look take shared locks, which admit another shared lock; a claim does not.
            if !locked(file.try_lock_shared())? {
                return Ok(None);
            }
            file.unlock()?;
            thread::yield_now();
        }
        Ok(None)
    }

    /// Whether a claim holds the file at `path`.
    pub(super) fn is_taken(path: &Path) -> io::Result<bool> {
        match File::open(path) {
            Ok(file) => Ok(!locked(file.try_lock_shared())?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the file and unlocks it. Where the store cannot be locked for writing the file stays:
    /// unlocked it means nothing, and the next claim of the run uses it again.
    pub(super) fn release(self, connection: &mut Connection) {
        let releasing = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        if releasing.is_ok() {
            let _ = fs::remove_file(&self.path);
        }
        drop(self.file);
        drop(releasing);
    }
}

fn locked(attempt: Result<(), TryLockError>) -> io::Result<bool> {
    match attempt {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
