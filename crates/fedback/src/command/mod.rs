//! One file per command.

pub mod bounds;
pub mod check;
pub mod compare;
pub mod data;
pub mod exact;
pub mod export;
pub mod federate;
pub mod fit;
mod groups;
pub mod import;
pub mod new;
pub mod note;
pub mod plan;
pub mod replay;
pub mod reproduce;
pub mod resume;
pub mod rm;
pub mod run;
pub mod runs;
pub mod schema;
pub mod score;
pub mod serve;
pub mod show;
pub mod site;
pub mod solve;
mod summary;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::core::simd::Simd;
use crate::lab::chart::label_of;
use crate::lab::device::Placed;
use crate::lab::error::Error;
use crate::lab::experiment::Experiment;
use crate::lab::plan::{Outline, Plan};
use crate::lab::spec::Document;
use crate::lab::store::{RunId, Store};
use crate::lab::threads;
use crate::lab::warning::notes;

use crate::args::SpecArgs;
use crate::page::Page;
use crate::{output, screen};

/// What every command that takes time shares.
pub struct Context {
    /// No progress, no warnings.
    pub quiet: bool,
    /// Where runs are recorded.
    pub store: PathBuf,
    /// Set when the user asks to stop.
    pub stop: Arc<AtomicBool>,
    /// Set while there is something to save before stopping.
    running: Arc<AtomicBool>,
}

impl Context {
    /// Sets up threads and the answer to Ctrl-C: a run stops at the next slice, and at once the
    /// second time; anything else has nothing to save and stops at once.
    pub fn new(threads: Option<usize>, store: PathBuf, quiet: bool) -> Result<Self, Error> {
        Simd::chosen().map_err(|error| Error::Input(error.to_string()))?;
        if let Some(found) = threads.filter(|threads| !(1..=threads::MOST).contains(threads)) {
            let why = format!("found {found}; allowed: 1 to {}", threads::MOST);
            return Err(Error::input("--threads", why));
        }
        if let Some(threads) = threads::of_pool(threads) {
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build_global()
                .map_err(|error| Error::input("--threads", error))?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let running = Arc::new(AtomicBool::new(false));
        let (stopping, busy) = (stop.clone(), running.clone());
        ctrlc::set_handler(move || {
            if stopping.swap(true, Ordering::Relaxed) || !busy.load(Ordering::Relaxed) {
                crate::progress::clear();
                output::complain("interrupted");
                std::process::exit(130);
            }
        })
        .map_err(|error| Error::Failed(format!("Ctrl-C cannot be listened to: {error}")))?;
        Ok(Context { quiet, store, stop, running })
    }

    /// Says something that is no error, unless asked not to.
    pub fn warn(&self, message: &str) {
        if !self.quiet {
            output::complain(&format!("warning: {message}"));
        }
    }

    /// Says what was read, and repeats what the spec doubts.
    fn introduce(&self, plans: &[Plan]) {
        let read = plans.first().map(|plan| notes(plan)).unwrap_or_default();
        for note in read.iter().filter(|_| !self.quiet) {
            // Lines are broken where somebody reads them on a screen.
            match screen::columns() {
                Some(_) => Page::new(note, 0).text.lines().for_each(output::complain),
                None => output::complain(note),
            }
        }
        let doubts = plans.first().map_or(&[][..], |plan| &plan.spec.doubts);
        doubts.iter().for_each(|doubt| self.warn(&format!("doubted in the spec: {doubt}")));
    }

    /// Says which device was chosen, where that was left open.
    fn say_device(&self, placed: &Placed<'_>) {
        if let Some(chosen) = placed.chosen.as_ref().filter(|_| !self.quiet) {
            output::complain(&format!("device: {chosen}"));
        }
    }

    /// Does something that is saved before it is stopped.
    fn saving<T>(&self, work: impl FnOnce() -> T) -> T {
        self.running.store(true, Ordering::Relaxed);
        let done = work();
        self.running.store(false, Ordering::Relaxed);
        done
    }

    /// Where to record; nowhere with `--store none`.
    fn store(&self) -> Option<&Path> {
        Some(self.store.as_path()).filter(|store| *store != Path::new("none"))
    }

    /// The store to read from, which must be there.
    fn existing_store(&self) -> Result<Store, Error> {
        let place = format!("--store {}", self.store.display());
        let Some(store) = self.store() else {
            return Err(Error::input(place, "records nothing; name a store to read from"));
        };
        let missing = || Error::input(place, "no store is there; `fedback run SPEC` makes one");
        Store::open_existing(store)?.ok_or_else(missing)
    }

    /// The command that goes on with interrupted runs.
    fn resume_command(&self, runs: &[RunId]) -> String {
        let runs: Vec<String> = runs.iter().map(RunId::to_string).collect();
        let store = match self.store.to_str() {
            Some("fedback.db") => String::new(),
            _ => format!(" --store {}", self.store.display()),
        };
        format!("fedback resume {}{store}", runs.join(" "))
    }
}

/// Reads the spec of a command line.
fn document(args: &SpecArgs) -> Result<Document, Error> {
    let mut document = Document::read(&args.spec)?;
    args.set.iter().try_for_each(|assignment| document.set(assignment))?;
    Ok(document)
}

/// Reads and plans the spec of a command line.
fn experiment(args: &SpecArgs) -> Result<Experiment, Error> {
    Experiment::new(&document(args)?)
}

/// A complaint about a key with the spec that holds it.
fn in_spec(args: &SpecArgs) -> impl Fn(Error) -> Error {
    move |error| match error {
        Error::Input(message) => Error::input(args.spec.display(), message),
        other => other,
    }
}

/// How a point of a sweep is called in tables and legends.
pub fn label(plan: &Outline) -> String {
    label_of(&plan.spec.name, &plan.set)
}
