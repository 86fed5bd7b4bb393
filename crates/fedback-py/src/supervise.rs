//! Long work beside a Python thread that stays alive: the interpreter is free while Rust works,
//! Ctrl-C is noticed, progress is shown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fedback_lab::threads;
use pyo3::prelude::*;

/// How long Ctrl-C may wait to be noticed.
const TICK: Duration = Duration::from_millis(50);

/// The same once the work has taken long: looking costs, and a federation waits for hours.
const LONG: Duration = Duration::from_secs(5);
const LONG_TICK: Duration = Duration::from_millis(250);

/// Does `work` on another thread and waits for it. `tick` is called now and then; an exception, of it
/// or of a signal, sets `stop` and is raised when the work has stopped.
pub fn supervise<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let (done, waiting) = mpsc::channel();
    let (mut raised, started) = (None, Instant::now());
    let result = std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let result = work();
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
pub fn with_threads<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> T {
    let threads = threads.map(|threads| threads.min(threads::MOST));
    let pool = threads.and_then(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().ok());
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}
