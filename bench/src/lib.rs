//! How the benchmarks measure: every candidate in turn, many times over, the least CPU time of each.
//!
//! Machines are shared and noisy. The least time of many alternating tries is what the code needs
//! when nothing is in its way, and a ratio of two of them survives a slow hour.

use std::time::{Duration, Instant};

use cpu_time::ThreadTime;

/// One thing to be timed.
pub struct Candidate<'a> {
    /// Its name in the table.
    pub name: &'static str,
    /// Units of work a call does.
    pub units: f64,
    /// The work; returns something that depends on it.
    pub work: Box<dyn FnMut() -> f64 + 'a>,
}

impl<'a> Candidate<'a> {
    /// A candidate.
    pub fn new(name: &'static str, units: f64, work: impl FnMut() -> f64 + 'a) -> Self {
        Candidate { name, units, work: Box::new(work) }
    }
}

/// The least nanoseconds a unit of every candidate, measured in turn `tries` times.
pub fn least(candidates: &mut [Candidate<'_>], tries: usize, clock: Clock) -> Vec<f64> {
    let mut best = vec![f64::INFINITY; candidates.len()];
    for _ in 0..tries {
        for (best, candidate) in best.iter_mut().zip(candidates.iter_mut()) {
            let began = clock.start();
            std::hint::black_box((candidate.work)());
            *best = best.min(began.elapsed().as_secs_f64() * 1e9 / candidate.units);
        }
    }
    best
}

/// Which time counts.
#[derive(Clone, Copy)]
pub enum Clock {
    /// CPU time of this thread.
    Cpu,
    /// Time on the wall, for what runs on several threads.
    Wall,
}

enum Began {
    Cpu(ThreadTime),
    Wall(Instant),
}

impl Clock {
    fn start(self) -> Began {
        match self {
            Clock::Cpu => Began::Cpu(ThreadTime::now()),
            Clock::Wall => Began::Wall(Instant::now()),
        }
    }
}

impl Began {
    fn elapsed(&self) -> Duration {
        match self {
            Began::Cpu(time) => time.elapsed(),
            Began::Wall(time) => time.elapsed(),
        }
    }
}

/// Prints a Markdown table of the results, as ratios to the first.
pub fn report(title: &str, unit: &str, candidates: &[Candidate<'_>], best: &[f64]) {
    println!("\n### {title}\n\n| | ns a {unit} | ratio |\n|---|---:|---:|");
    for (candidate, nanoseconds) in candidates.iter().zip(best) {
        println!("| {} | {nanoseconds:.2} | {:.2} |", candidate.name, nanoseconds / best[0]);
    }
}
