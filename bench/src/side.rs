//! Whoever solves a workload: the engine, a plain loop, or a peer in a process of its own.
//!
//! A peer is a Python script (`bench/peers`) that is given the folder of a problem. It prints one line
//! when it is ready, then answers every job on its standard input with one line. Processes stay
//! from the agreement check to the last try, so that neither imports nor compilation are timed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use fedback_core::protocol::Round;
use fedback_engine::backend::Backend;
use serde::{Deserialize, Serialize};

use crate::plain;
use crate::timing::{Seconds, timed};
use crate::workload::Workload;

/// A run to be made.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The seed of its random numbers.
    pub seed: u64,
    /// Rounds.
    pub rounds: u64,
    /// Repetitions.
    pub repetitions: usize,
}

/// A run that was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// What it took.
    #[serde(flatten)]
    pub seconds: Seconds,
    /// The final θ of every repetition.
    pub thetas: Vec<Vec<f64>>,
}

/// One who solves.
pub enum Side<'a> {
    /// The engine.
    Engine(&'a Workload),
    /// The plain loop.
    Plain(&'a Workload),
    /// A peer.
    Peer(Box<Peer>),
}

impl Side<'_> {
    /// Makes a run.
    pub fn run(&mut self, job: &Job) -> Result<Done, String> {
        let (thetas, seconds) = match self {
            Side::Engine(workload) => timed(|| engine(workload, job)),
            Side::Plain(Workload { federation, protocol, .. }) => {
                timed(|| plain::run(federation, protocol, job.seed, job.rounds, job.repetitions))
            }
            Side::Peer(peer) => return peer.run(job),
        };
        Ok(Done { seconds, thetas })
    }
}

/// A whole run through the engine's public interface, from nothing to the final θ.
pub fn engine(workload: &Workload, job: &Job) -> Vec<Vec<f64>> {
    let mut simulation = workload.simulation(job.seed, job.repetitions);
    simulation.advance(Round(job.rounds), false).expect("built-in work does not fail");
    let repetitions = simulation.state().repetitions.iter();
    repetitions.map(|repetition| repetition.theta().to_vec()).collect()
}

/// A peer's process.
pub struct Peer {
    name: String,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    log: std::path::PathBuf,
}

impl Peer {
    /// Starts `command`, whose messages go to a file in `folder`, and waits until it is ready; also
    /// returns its versions.
    pub fn start(
        name: &str,
        mut command: Command,
        folder: &Path,
    ) -> Result<(Peer, String), String> {
        let log = folder.join(format!("{name}.log"));
        let messages = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(messages);
        let mut process = command
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let mut peer = Peer { name: name.into(), process, input, output, log };
        let versions = peer.line()?;
        Ok((peer, versions.trim().into()))
    }

    fn run(&mut self, job: &Job) -> Result<Done, String> {
        let order = serde_json::to_string(job).expect("numbers");
        let input = self.input.as_mut().expect("open until dropped");
        // A process that has ended says why when its answer is read.
        let _ = writeln!(input, "{order}");
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|error| format!("{}: {error}: {line}", self.name))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        if read == 0 {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let last = log.lines().rev().find(|line| !line.trim().is_empty());
            return Err(format!("{} ended: {}", self.name, last.unwrap_or("no message")));
        }
        Ok(line)
    }
}

impl Drop for Peer {
    /// The end of its input ends a peer, and whatever it has started; if not, it is killed.
    fn drop(&mut self) {
        self.input = None;
        for _ in 0..200 {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How far two samples of final θ lie apart, in standard errors: the largest difference among the
/// first coordinate, the last, |θ|², and (with eight repetitions or more) the logarithms of their
/// variances. The variance of `ours`, which should be many, stands for both.
pub fn disagreement(ours: &[Vec<f64>], theirs: &[Vec<f64>]) -> f64 {
    let statistics: [fn(&[f64]) -> f64; 3] = [
        |theta| theta[0],
        |theta| theta[theta.len() - 1],
        |theta| theta.iter().map(|t| t * t).sum(),
    ];
    let (n, m) = (ours.len() as f64, theirs.len() as f64);
    let mut largest = 0.0f64;
    for statistic in statistics {
        let (mean, variance) = moments(ours, statistic);
        let (their_mean, their_variance) = moments(theirs, statistic);
        let error = libm::sqrt(variance * (1.0 / n + 1.0 / m));
        let mut z = (mean - their_mean).abs() / error;
        if theirs.len() >= 8 {
            let ratio = libm::log(variance / their_variance).abs();
            z = z.max(ratio / libm::sqrt(2.0 / (n - 1.0) + 2.0 / (m - 1.0)));
        }
        // What is not a number does not agree.
        largest = if z.is_nan() { f64::INFINITY } else { largest.max(z) };
    }
    largest
}

fn moments(thetas: &[Vec<f64>], of: impl Fn(&[f64]) -> f64) -> (f64, f64) {
    let n = thetas.len() as f64;
    let mean = thetas.iter().map(|theta| of(theta)).sum::<f64>() / n;
    let square = |theta: &Vec<f64>| (of(theta) - mean) * (of(theta) - mean);
    (mean, thetas.iter().map(square).sum::<f64>() / (n - 1.0))
}

#[cfg(test)]
mod tests {
    use fedback_core::response::Shift;

    use super::*;
    use crate::workload::{Kind, Sizes};

    fn thetas(kind: Kind, plainly: bool, change: impl Fn(&mut Workload)) -> Vec<Vec<f64>> {
        let sizes = Sizes { dim: (kind == Kind::Ridge).then_some(40), ..Sizes::default() };
        let mut workload = Workload::new(kind, &sizes);
        change(&mut workload);
        let job = Job { seed: 3, rounds: 10, repetitions: 64 };
        let mut side = if plainly { Side::Plain(&workload) } else { Side::Engine(&workload) };
        side.run(&job).unwrap().thetas
    }

    #[test]
    fn the_plain_loop_agrees_and_another_problem_does_not() {
        for kind in [Kind::Gaussian, Kind::Credit, Kind::Ridge] {
            let ours = thetas(kind, false, |_| ());
            assert!(disagreement(&ours, &thetas(kind, true, |_| ())) < 5.0, "{kind:?}");
            let fewer = thetas(kind, true, |workload| workload.protocol.local_steps = 4);
            assert!(disagreement(&ours, &fewer) > 5.0, "{kind:?}");
            // In the shape of the credit data the free intercept absorbs nearly all of the reaction.
            if kind != Kind::Credit {
                let still = |workload: &mut Workload| {
                    if let Ok(still) = workload.federation.with_response(Shift::None) {
                        workload.federation = still;
                    }
                };
                assert!(disagreement(&ours, &thetas(kind, true, still)) > 5.0, "{kind:?}");
            }
        }
    }

    #[test]
    fn what_is_not_a_number_does_not_agree() {
        let ours = vec![vec![1.0], vec![2.0]];
        assert_eq!(disagreement(&ours, &[vec![f64::NAN]]), f64::INFINITY);
    }
}
