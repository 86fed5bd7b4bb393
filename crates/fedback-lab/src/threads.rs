//! How many threads a pool may have.

/// More threads than any machine has cores only wait for each other.
pub const MOST: usize = 1024;

/// The number of threads to build a pool with: what was asked for, or [`MOST`] where the environment
/// asks for more than that; none where the pool's own choice will do.
pub fn of_pool(asked: Option<usize>) -> Option<usize> {
    let environment = || std::env::var("RAYON_NUM_THREADS").ok()?.parse().ok();
    let threads = asked.or_else(|| environment().filter(|threads| *threads > MOST));
    threads.map(|threads| threads.min(MOST))
}
