//! What a person who waits sees: a bar with rounds per second and the time left, on a terminal only.
//!
//! Every line fills the terminal and ends by returning to its beginning: what the terminal then writes
//! itself, `^C`, stays on the line, and the line can be cleared.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use console::Term;
use fedback::lab::error::Error;
use fedback::lab::event::{Event, Sink};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

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

/// The sink that draws the bar.
pub struct Progress {
    bar: ProgressBar,
    label: String,
}

impl Progress {
    /// A bar with a label, invisible where nobody looks.
    pub fn new(label: &str, quiet: bool) -> Self {
        Progress::of_point(label, None, quiet)
    }

    /// The bar of one point of a sweep, which says how far the sweep is.
    pub fn of_point(label: &str, point: Option<&SweepClock>, quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), target(quiet));
        let label = match point {
            Some(point) => format!("{}: {label}", point.words()),
            None => label.into(),
        };
        let room = screen::progress();
        let (template, taken) = match (point, room >= WIDE) {
            // The time left is the sweep's.
            (Some(_), _) => ("{msg} {wide_bar} {percent}%\r", SHORT),
            (None, true) => {
                ("{msg} {wide_bar} {human_pos}/{human_len} rounds · {rate} · {eta} left\r", WIDE)
            }
            (None, false) => ("{msg} {wide_bar} {percent}% · {eta} left\r", WIDE),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
                let _ = write!(out, "{:.0} rounds/s", state.per_sec());
            });
            bar.set_style(style.progress_chars("━╸ "));
        }
        Progress { bar, label: cut(&label, room.saturating_sub(taken).max(NARROW)) }
    }
}

/// How far a sweep is, and how long the rest of it will take.
pub struct SweepClock {
    began: Instant,
    /// Local steps of all points, and of those that are done.
    steps: (f64, f64),
    /// How many points there are, and how many have begun.
    points: (usize, usize),
}

impl SweepClock {
    /// Before the first of some points, of so many local steps each.
    pub fn new(steps: &[u64]) -> Self {
        let all = steps.iter().map(|steps| *steps as f64).sum();
        SweepClock { began: Instant::now(), steps: (all, 0.0), points: (steps.len(), 0) }
    }

    /// A point begins.
    pub fn begin(&mut self) {
        self.points.1 += 1;
    }

    /// A point of so many local steps is done.
    pub fn end(&mut self, steps: u64) {
        self.steps.1 += steps as f64;
    }

    fn words(&self) -> String {
        let ((count, place), (all, done)) = (self.points, self.steps);
        let left = self.began.elapsed().as_secs_f64() * (all - done) / done;
        match done > 0.0 {
            true => format!("point {place} of {count}, {} left", HumanDuration(seconds(left))),
            false => format!("point {place} of {count}"),
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

impl Sink for Progress {
    fn take(&mut self, event: &Event<'_>) -> Result<(), Error> {
        match event {
            Event::Started { plan, round } => {
                self.bar.set_length(plan.spec.rounds.0);
                self.bar.set_message(self.label.clone());
                self.bar.set_position(*round);
                self.bar.reset_eta();
            }
            Event::Advanced { round } => self.bar.set_position(*round),
            Event::Ended(_) => self.bar.finish_and_clear(),
            Event::Record { .. } | Event::Cohort(_) | Event::Checkpoint { .. } => {}
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
        clock.end(100);
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
