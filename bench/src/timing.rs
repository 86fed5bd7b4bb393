//! How the benchmarks measure: every candidate in turn, many times over, the least time of each.
//!
//! Machines are shared and noisy. The least time of many alternating tries is what the code needs
//! when nothing is in its way, and a ratio of two of them survives a slow hour.

use std::time::Instant;

use cpu_time::ProcessTime;
use serde::{Deserialize, Serialize};

/// Seconds that something took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Seconds {
    /// CPU time of the process, all its threads together.
    pub cpu: f64,
    /// Time on the wall.
    pub wall: f64,
}

/// What `work` returns, and the seconds it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Seconds) {
    let (cpu, wall) = (ProcessTime::now(), Instant::now());
    let result = std::hint::black_box(work());
    (result, Seconds { cpu: cpu.elapsed().as_secs_f64(), wall: wall.elapsed().as_secs_f64() })
}

/// The times of many tries, in the order they were taken.
#[derive(Clone, Debug, Default)]
pub struct Tries(pub Vec<f64>);

impl Tries {
    /// The least.
    pub fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The one in the middle.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// How far the median lies above the least, as a share of it: the noise of the machine.
    pub fn spread(&self) -> f64 {
        self.median() / self.least() - 1.0
    }
}

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

/// The least nanoseconds of CPU time a unit of every candidate, measured in turn `tries` times.
pub fn least(candidates: &mut [Candidate<'_>], tries: usize) -> Vec<f64> {
    let mut best = vec![f64::INFINITY; candidates.len()];
    for _ in 0..tries {
        for (best, candidate) in best.iter_mut().zip(candidates.iter_mut()) {
            let (_, seconds) = timed(&mut candidate.work);
            *best = best.min(seconds.cpu * 1e9 / candidate.units);
        }
    }
    best
}

/// Prints a Markdown table of the results, as ratios to the first.
pub fn report(title: &str, unit: &str, candidates: &[Candidate<'_>], best: &[f64]) {
    println!("\n### {title}\n\n| | ns a {unit} | ratio |\n|---|---:|---:|");
    for (candidate, nanoseconds) in candidates.iter().zip(best) {
        println!("| {} | {nanoseconds:.2} | {:.2} |", candidate.name, nanoseconds / best[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_summarised() {
        let tries = Tries(vec![3.0, 2.0, 5.0, 2.5, 9.0]);
        assert_eq!((tries.least(), tries.median(), tries.spread()), (2.0, 3.0, 0.5));
    }
}
