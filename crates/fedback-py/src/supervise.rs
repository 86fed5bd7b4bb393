//! Work while the interpreter is free; long work beside a Python thread that stays alive, so that Ctrl-C is
//! noticed and progress is shown.
//!
//! All work of the library goes through here, because of threads. The one pool of all calls does not survive
//! a fork: a child has a copy of it without its threads and would wait for them for ever. So a process that
//! did not import the package itself makes a pool for every call. A new one pool for the child was weighed:
//! it takes a lock, and a fork may copy that as well while it is held.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use fedback_lab::threads;
use pyo3::prelude::*;

/// How long Ctrl-C may wait to be noticed.
const TICK: Duration = Duration::from_millis(50);

/// The same once the work has taken long: looking costs, and a federation waits for hours.
const LONG: Duration = Duration::from_secs(5);
const LONG_TICK: Duration = Duration::from_millis(250);

/// The process that imported the package, whose pool has threads.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// Says that this process imports the package.
pub fn imported() {
    let _ = PROCESS.set(std::process::id());
}

/// Does `work` while the interpreter is free.
pub fn free<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(|| with_threads(None, work))
}

/// Does `work` on so many threads (see [`with_threads`]) and waits for it. `tick` is called now and then; an exception, of it
/// or of a signal, sets `stop` and is raised when the work has stopped.
pub fn supervise<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    stop: &AtomicBool,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let (done, waiting) = mpsc::channel();
    let (mut raised, started) = (None, Instant::now());
    let result = std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let result = with_threads(threads, work);
            // The other end is there as long as this thread is waited for.
            let _ = done.send(());
            result
        });
        let wait = std::sync::Mutex::new(waiting);
        let over = || {
            let waiting = wait.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let tick = if started.elapsed() < LONG { TICK } else { LONG_TICK };
            !matches!(waiting.recv_timeout(tick), Err(mpsc::RecvTimeoutError::Timeout))
        };
        while !py.detach(over) {
            if let Err(error) = py.check_signals().and_then(|()| tick(py)) {
                stop.store(true, Ordering::Relaxed);
                raised.get_or_insert(error);
            }
        }
        py.detach(|| worker.join())
    });
    if raised.is_none() {
        tick(py)?;
    }
    match (raised, result) {
        (Some(error), _) => Err(error),
        (None, Ok(result)) => Ok(result),
        (None, Err(panic)) => std::panic::resume_unwind(panic),
    }
}

/// Runs `work` with so many threads; with all of the machine's where none is said.
fn with_threads<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> T {
    let threads = threads.map(|threads| threads.min(threads::MOST));
    let forked = PROCESS.get() != Some(&std::process::id());
    if threads.is_none() && !forked {
        return work();
    }
    // As many as there are cores, or as the environment says, are 0 to the builder.
    let threads = threads.or(threads::of_pool(None)).unwrap_or(0);
    match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    }
}
