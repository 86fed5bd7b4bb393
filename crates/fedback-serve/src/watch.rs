//! Looks at the stores while somebody looks at the page, and tells that something has changed.
//!
//! One thread looks for all pages: twenty of them cost a running sweep what one costs. A look at a
//! store that nobody has written to is two questions to the file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

use crate::listing::{self, Listing};
use crate::stores::Stores;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(400);
/// How long a look may read before what it has found is shown.
const SLICE: Duration = Duration::from_millis(80);
/// However still a store seems to lie, it is read so often.
const ANYWAY: Duration = Duration::from_secs(5);
/// Who has asked is taken to look for so long.
const INTEREST: Duration = Duration::from_secs(10);
/// How long the first list may keep somebody waiting.
const PATIENCE: Duration = Duration::from_millis(500);

pub struct Watch {
    stores: Stores,
    seen: Mutex<Seen>,
    turned: Condvar,
    tell: watch::Sender<u64>,
}

struct Seen {
    listing: Listing,
    asked: Instant,
    looked: Option<Instant>,
}

/// By what a store is known to lie still.
type Stamp = [Option<(u64, SystemTime)>; 2];

impl Watch {
    /// Begins to look.
    pub fn start(stores: Stores) -> Arc<Self> {
        let listing = Listing::new(stores.paths.len());
        let (tell, _) = watch::channel(listing.version());
        let seen = Mutex::new(Seen { listing, asked: Instant::now(), looked: None });
        let watch = Arc::new(Watch { stores, seen, turned: Condvar::new(), tell });
        let weak = Arc::downgrade(&watch);
        thread::spawn(move || {
            let mut still: Vec<Option<(Stamp, Instant)>> = Vec::new();
            // It ends when the server does.
            while let Some(watch) = weak.upgrade() {
                let pause = watch.turn(&mut still);
                drop(watch);
                thread::sleep(pause);
            }
        });
        watch
    }

    /// Hears of every change by its number.
    pub fn listen(&self) -> watch::Receiver<u64> {
        self.tell.subscribe()
    }

    /// The list, or what has changed in it.
    pub fn list(&self, since: u64) -> String {
        let mut seen = self.lock();
        seen.asked = Instant::now();
        let until = seen.asked + PATIENCE;
        while seen.looked.is_none() && Instant::now() < until {
            let wait = self.turned.wait_timeout(seen, Duration::from_millis(20));
            seen = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        seen.listing.since(since, &self.stores)
    }

    /// Makes pages look again.
    pub fn tick(&self) {
        let mut seen = self.lock();
        seen.listing.tick();
        self.tell.send_replace(seen.listing.version());
    }

    /// One look at all stores; how long until the next.
    fn turn(&self, still: &mut Vec<Option<(Stamp, Instant)>>) -> Duration {
        still.resize(self.stores.paths.len(), None);
        let wanted = {
            let seen = self.lock();
            seen.looked.is_none()
                || seen.listing.is_incomplete()
                || seen.asked.elapsed() < INTEREST
                || self.tell.receiver_count() > 0
        };
        if !wanted {
            return PAUSE;
        }
        for (at, path) in self.stores.paths.iter().enumerate() {
            let stamp = stamp(path);
            let lies_still =
                |(then, when): (Stamp, Instant)| then == stamp && when.elapsed() < ANYWAY;
            if still[at].is_some_and(lies_still) {
                continue;
            }
            let known = self.lock().listing.marks(at);
            let found = listing::look(&self.stores, at, &known, SLICE);
            still[at] = (!found.unfinished).then(|| (stamp, Instant::now()));
            let mut seen = self.lock();
            if seen.listing.take(at, found) {
                self.tell.send_replace(seen.listing.version());
            }
            if seen.listing.is_incomplete() {
                still[at] = None;
            }
        }
        let mut seen = self.lock();
        seen.looked = Some(Instant::now());
        let incomplete = seen.listing.is_incomplete();
        self.turned.notify_all();
        if incomplete { Duration::from_millis(1) } else { PAUSE }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sizes and times of a store's file and of its log.
fn stamp(path: &Path) -> Stamp {
    let mut log = path.to_path_buf().into_os_string();
    log.push("-wal");
    [path.to_path_buf(), PathBuf::from(log)].map(|file| {
        let found = fs::metadata(file).ok()?;
        Some((found.len(), found.modified().ok()?))
    })
}
