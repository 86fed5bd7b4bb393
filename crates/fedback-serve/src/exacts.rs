//! Exact curves of runs, each worked out once, one after the other, beside the answers: they are not to
//! take the machine from the runs, and a picture is drawn without one that is not there yet.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fedback_lab::exact;
use fedback_lab::outcome::Outcome;
use fedback_lab::plan::Built;
use fedback_lab::recorded::RecordedRun;
use fedback_lab::spec::Loss;

use crate::watch::Watch;

/// Records of an exact curve, at most: it is smooth.
const MOST_RECORDS: u64 = 500;
/// Curves that are kept; more than are compared at once.
const KEPT: usize = 1000;
/// Pages are told of new ones so often.
const TOLD: Duration = Duration::from_secs(1);

/// What is known, by the hash of the plan.
pub struct Exacts {
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Default)]
struct Work {
    /// None where there is none.
    known: HashMap<String, Option<Arc<Outcome>>>,
    waiting: VecDeque<(String, Built)>,
    /// The one that is being worked out.
    now: Option<String>,
}

impl Exacts {
    /// Begins to work.
    pub fn start(watch: Arc<Watch>) -> Arc<Self> {
        let exacts = Arc::new(Exacts { work: Mutex::default(), changed: Condvar::new() });
        let own = exacts.clone();
        thread::spawn(move || {
            let mut told = Instant::now();
            loop {
                let (key, plan) = own.next();
                let work = || plan.whole().and_then(|plan| exact::at(plan, MOST_RECORDS));
                // A mistake in one is none in the others.
                let found = catch_unwind(AssertUnwindSafe(work)).unwrap_or_default();
                let mut work = own.lock();
                work.known.insert(key, found.map(Arc::new));
                work.now = None;
                let rests = work.waiting.is_empty();
                drop(work);
                own.changed.notify_all();
                if rests || told.elapsed() > TOLD {
                    watch.tick();
                    told = Instant::now();
                }
            }
        });
        exacts
    }

    /// The exact curve beside a run, and whether it is still to come.
    pub fn of(&self, run: &RecordedRun, until: Instant) -> (Option<Outcome>, bool) {
        if run.spec.problem.loss != Loss::Mean {
            return (None, false);
        }
        let key = &run.stored.run.plan_hash;
        let mut work = self.lock();
        if !work.has(key) {
            drop(work);
            // Reads the data again: others are not to wait for it.
            let plan = run.plan();
            work = self.lock();
            if work.known.len() > KEPT {
                work.known.clear();
            }
            match plan {
                Ok(plan) if !work.has(key) => work.waiting.push_back((key.clone(), plan)),
                Ok(_) => {}
                Err(_) => drop(work.known.insert(key.clone(), None)),
            }
            self.changed.notify_all();
        }
        loop {
            if let Some(found) = work.known.get(key) {
                return (found.as_deref().cloned(), false);
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return (None, true);
            };
            let waited = self.changed.wait_timeout(work, left);
            work = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn next(&self) -> (String, Built) {
        let mut work = self.lock();
        loop {
            if let Some((key, plan)) = work.waiting.pop_front() {
                work.now = Some(key.clone());
                return (key, plan);
            }
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    fn has(&self, key: &String) -> bool {
        self.known.contains_key(key)
            || self.now.as_ref() == Some(key)
            || self.waiting.iter().any(|(waiting, _)| waiting == key)
    }
}
