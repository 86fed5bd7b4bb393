//! Tests of the store.

mod claiming;
mod crash;
mod damage;
mod glancing;
mod managing;
mod opening;
mod writing;

use std::fs;
use std::path::{Path, PathBuf};

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_engine::cohort::RecordedCohort;
use fedback_engine::incident::{Incident, Trouble};
use tempfile::TempDir;

use super::*;
use crate::event::Ending;

/// A place for a store that goes with the test.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { directory: TempDir::new().unwrap() }
    }

    fn store(&self) -> PathBuf {
        self.directory.path().join("fedback.db")
    }

    fn open(&self) -> Store {
        Store::open(&self.store()).unwrap()
    }

    /// The names of the files in the directory, sorted.
    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn new_run() -> NewRun {
    NewRun {
        name: "paper-gaussian".into(),
        spec: "format = 1\nname = \"paper-gaussian\"\n".into(),
        directory: "/home/ada/experiments".into(),
        plan_hash: "9f86d081".into(),
        stream_format: 1,
        version: "0.1.0".into(),
        rounds: 40,
        repetitions: 2,
        set: r#"{"algorithm.local_steps":5}"#.into(),
        facts: Some(r#"{"clients":3}"#.into()),
    }
}

fn record(round: u64) -> Record {
    Record { round, seconds: Some(0.25), values: vec![round as f64, -1.5 * round as f64] }
}

fn checkpoint(round: u64) -> Checkpoint {
    let server = vec![0.25 * round as f64; 3];
    Checkpoint { round, server, seconds: 0.5, ..Checkpoint::default() }
}

fn rounds(run: &StoredRun) -> Vec<u64> {
    run.records.iter().map(|record| record.round).collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}
