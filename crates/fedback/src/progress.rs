//! What a person who waits sees: a bar with rounds per second and the time left, on a terminal only.
//!
//! Every line fills the terminal and ends by returning to its beginning: what the terminal then writes
//! itself, `^C`, stays on the line, and the line can be cleared.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::lab::error::Error;
use crate::lab::event::{Event, Sink};
use crate::lab::plan::{Outline, Plan};
use console::Term;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::command::label;
use crate::screen;

/// Columns from which on rounds and their rate are shown beside the bar.
const WIDE: usize = 66;
/// Columns of a bar with nothing but its percentage.
const SHORT: usize = 16;
/// Columns that a label may always have.
const NARROW: usize = 12;

/// A label that leaves room for the rest of its line: a line that wraps cannot be cleared.
fn cut(label: &str, room: usize) -> String {
    match label.char_indices().nth(room) {
        Some(_) => label.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        None => label.into(),
    }
}

/// Clears the line of a bar that will not be drawn again.
pub fn clear() {
    let _ = Term::stderr().is_term().then(|| Term::stderr().clear_line());
}

/// The sink that draws a bar for every run it hears of.
pub struct Progress {
    bar: ProgressBar,
    /// What is done besides running, where it is that.
    doing: &'static str,
    clock: SweepClock,
    quiet: bool,
}

impl Progress {
    /// Bars of single runs, invisible where nobody looks.
    pub fn new(quiet: bool) -> Self {
        Progress { bar: ProgressBar::hidden(), doing: "", clock: SweepClock::new(&[]), quiet }
    }

    /// Bars of runs that serve a purpose.
    pub fn doing(doing: &'static str, quiet: bool) -> Self {
        Progress { doing, ..Progress::new(quiet) }
    }

    /// The bars of all points of a sweep, which say how far it is.
    pub fn of_sweep(plans: &[Plan], quiet: bool) -> Self {
        let steps: Vec<u64> = plans.iter().map(|plan| steps(plan)).collect();
        Progress { clock: SweepClock::new(&steps), ..Progress::new(quiet) }
    }

    fn begin(&mut self, plan: &Outline, round: u64) {
        self.clock.begin();
        let (room, swept) = (screen::progress(), self.clock.is_of_several());
        let label = match swept {
            true => format!("{}: {}", self.clock.words(), label(plan)),
            false => format!("{}{}", label(plan), self.doing),
        };
        let (template, taken) = match (swept, room >= WIDE) {
            // The time left is the sweep's.
            (true, _) => ("{msg} {wide_bar} {percent}%\r", SHORT),
            (false, true) => {
                ("{msg} {wide_bar} {human_pos}/{human_len} rounds · {rate} · {eta} left\r", WIDE)
            }
            (false, false) => ("{msg} {wide_bar} {percent}% · {eta} left\r", WIDE),
        };
        let rounds = Some(plan.spec.rounds.0);
        self.bar = ProgressBar::with_draw_target(rounds, target(self.quiet));
        if let Ok(style) = ProgressStyle::with_template(template) {
            let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
                let _ = write!(out, "{:.0} rounds/s", state.per_sec());
            });
            self.bar.set_style(style.progress_chars("━╸ "));
        }
        self.bar.set_message(cut(&label, room.saturating_sub(taken).max(NARROW)));
        self.bar.set_position(round);
        self.bar.reset_eta();
    }
}

/// The local steps of a run.
fn steps(plan: &Outline) -> u64 {
    plan.spec.rounds.0.saturating_mul(plan.protocol.local_steps as u64)
}

/// How far a sweep is, and how long the rest of it will take.
pub struct SweepClock {
    began: Instant,
    /// Local steps of every point.
    steps: Vec<u64>,
    /// How many points have begun, and how many are done.
    points: (usize, usize),
}

impl SweepClock {
    /// Before the first of some points, of so many local steps each.
    pub fn new(steps: &[u64]) -> Self {
        SweepClock { began: Instant::now(), steps: steps.to_vec(), points: (0, 0) }
    }

    /// Whether there is more than one point.
    fn is_of_several(&self) -> bool {
        self.steps.len() > 1
    }

    /// A point begins.
    pub fn begin(&mut self) {
        self.points.0 += 1;
    }

    /// It is done.
    pub fn end(&mut self) {
        self.points.1 += 1;
    }

    fn words(&self) -> String {
        let (place, done) = (self.points.0, self.points.1.min(self.steps.len()));
        let of = |steps: &[u64]| steps.iter().map(|steps| *steps as f64).sum::<f64>();
        let (done, rest) = (of(&self.steps[..done]), of(&self.steps[done..]));
        let left = self.began.elapsed().as_secs_f64() * rest / done;
        let point = format!("point {place} of {}", self.steps.len());
        match done > 0.0 {
            true => format!("{point}, {} left", HumanDuration(seconds(left))),
            false => point,
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

impl Sink for Progress {
    fn take(&mut self, event: &Event<'_>) -> Result<(), Error> {
        match event {
            Event::Started { plan, round } => self.begin(plan, *round),
            Event::Advanced { round } => self.bar.set_position(*round),
            Event::Ended(_) => {
                self.bar.finish_and_clear();
                self.clock.end();
            }
            Event::Record(_) | Event::Cohort(_) => {}
            Event::Incident(_) | Event::Checkpoint { .. } => {}
        }
        Ok(())
    }
}

/// The stage of something without rounds: a spinner with words, on a terminal only.
pub struct Stages {
    bar: ProgressBar,
    label: String,
}

impl Stages {
    /// A spinner with a label, invisible where nobody looks.
    pub fn new(label: &str, quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, target(quiet));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}\r") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        Stages { bar, label: label.into() }
    }

    /// Says what is being done.
    pub fn now(&self, stage: &str) {
        self.bar.set_message(format!("{}: {stage}", self.label));
    }
}

impl Drop for Stages {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn target(quiet: bool) -> ProgressDrawTarget {
    match quiet || !std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr_with_hz(10),
    }
}

/// A bar for a share of work that is done, invisible where nobody looks.
pub struct Share {
    bar: ProgressBar,
}

impl Share {
    /// A bar with a label.
    pub fn new(label: &str, quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(1000), target(quiet));
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent}% · {elapsed}\r")
        {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_message(cut(label, screen::progress() / 2));
        Share { bar }
    }

    /// Shows a share between 0 and 1; gone once all is done.
    pub fn set(&self, share: f64) {
        self.bar.set_position((1000.0 * share) as u64);
        if share >= 1.0 {
            self.bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_sweep_says_how_far_it_is() {
        let mut clock = super::SweepClock::new(&[100, 100, 200]);
        clock.begin();
        assert_eq!(clock.words(), "point 1 of 3");
        clock.end();
        clock.begin();
        clock.began -= std::time::Duration::from_secs(60);
        assert_eq!(clock.words(), "point 2 of 3, 3 minutes left");
    }

    #[test]
    fn labels_are_cut_to_the_room_there_is() {
        assert_eq!(super::cut("two-sites", 9), "two-sites");
        assert_eq!(super::cut("two-sites, cohort 5", 9), "two-site…");
    }
}
