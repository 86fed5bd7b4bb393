//! What can go wrong with a store, in words for the user.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::ErrorCode;

use super::RunId;

/// An error of the store. Its text is complete: it names the file, what was found and the fix.
///
/// It can be cloned because an error of the writer thread is told at every later call.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is something else. It has not been touched.
    #[error(
        "{} is not a fedback store: {found}; name another file with --store PATH",
        path.display()
    )]
    NotAStore {
        /// The store as the user named it.
        path: PathBuf,
        /// What the file is instead.
        found: &'static str,
    },
    /// The store has a later format. It has not been touched.
    #[error(
        "{} was written by a newer fedback (store format {found}, this one knows {supported}); \
         upgrade fedback or use --store PATH",
        path.display()
    )]
    Newer {
        /// The store as the user named it.
        path: PathBuf,
        /// The store's format.
        found: i32,
        /// The latest format this version knows.
        supported: i32,
    },
    /// The file can be neither opened nor created.
    #[error("the store {} cannot be opened: {reason}", path.display())]
    Unopenable {
        /// The store as the user named it.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The store can be read only.
    #[error(
        "the store {} is read-only; make it and its directory writable or use --store PATH",
        path.display()
    )]
    ReadOnly {
        /// The store as the user named it.
        path: PathBuf,
    },
    /// There is no such run.
    #[error("run {id} is not in the store {}; {}", path.display(), in_words(known))]
    UnknownRun {
        /// The store as the user named it.
        path: PathBuf,
        /// The run that was asked for.
        id: RunId,
        /// The runs there are, in ascending order.
        known: Vec<RunId>,
    },
    /// Another process, or this one, holds the run.
    #[error("run {id} in the store {} is already running", path.display())]
    AlreadyRunning {
        /// The store as the user named it.
        path: PathBuf,
        /// The run that was asked for.
        id: RunId,
    },
    /// The run is done, nothing is left to write.
    #[error("run {id} in the store {} is already done", path.display())]
    AlreadyDone {
        /// The store as the user named it.
        path: PathBuf,
        /// The run that was asked for.
        id: RunId,
    },
    /// What the store has of a run is not what was written.
    #[error(
        "the store {} is damaged: run {id}: {what}; nothing of this run can be trusted: take the \
         store from a backup, or run its spec again",
        path.display()
    )]
    Damaged {
        /// The store as the user named it.
        path: PathBuf,
        /// The run that was asked for.
        id: RunId,
        /// What was found.
        what: String,
    },
    /// The caller broke the order of records and checkpoints.
    #[error("run {id}: {reason}")]
    Refused {
        /// The run that was being written.
        id: RunId,
        /// The rule that was broken.
        reason: String,
    },
    /// SQLite failed: disk full, I/O error, damaged file, …
    #[error("the store {} {}", path.display(), sqlite(cause))]
    Sqlite {
        /// The store as the user named it.
        path: PathBuf,
        /// The error of SQLite.
        cause: Arc<rusqlite::Error>,
    },
    /// The operating system failed.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file that was being worked on.
        path: PathBuf,
        /// The error of the operating system.
        cause: Arc<io::Error>,
    },
    /// The writer thread ended without saying why.
    #[error("the writer of the store {} stopped unexpectedly", path.display())]
    Stopped {
        /// The store as the user named it.
        path: PathBuf,
    },
}

impl StoreError {
    /// Whether it is about one run, or a part of the file, that is not what was written.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            StoreError::Damaged { .. } => true,
            StoreError::Sqlite { cause, .. } => is_corrupt(cause),
            _ => false,
        }
    }

    /// Whether the user asked for something that cannot be; otherwise something failed.
    pub fn is_input(&self) -> bool {
        match self {
            StoreError::NotAStore { .. }
            | StoreError::Newer { .. }
            | StoreError::Unopenable { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::UnknownRun { .. }
            | StoreError::AlreadyRunning { .. }
            | StoreError::AlreadyDone { .. } => true,
            StoreError::Refused { .. }
            | StoreError::Damaged { .. }
            | StoreError::Sqlite { .. }
            | StoreError::Io { .. }
            | StoreError::Stopped { .. } => false,
        }
    }
}

/// SQLite's errors with what to do about them.
fn sqlite(cause: &rusqlite::Error) -> String {
    match is_corrupt(cause) {
        true => format!(
            "is damaged ({cause}): take it from a backup, or record new runs elsewhere with --store \
             PATH"
        ),
        false => format!("cannot be used: {cause}"),
    }
}

fn is_corrupt(cause: &rusqlite::Error) -> bool {
    let code = cause.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// The known runs, consecutive ones as a range: a sweep may have left thousands.
fn in_words(known: &[RunId]) -> String {
    let ranges: Vec<String> = known
        .chunk_by(|left, right| left.0 + 1 == right.0)
        .map(|range| match range {
            [first, .., last] => format!("{first} to {last}"),
            _ => range[0].to_string(),
        })
        .collect();
    match known.len() {
        0 => "it has no runs".to_owned(),
        1 => format!("its only run is {}", ranges[0]),
        _ => format!("its runs are {}", ranges.join(", ")),
    }
}
