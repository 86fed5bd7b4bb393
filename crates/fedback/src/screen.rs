//! How much room the reader has.

use std::io::IsTerminal;

use console::Term;

/// Where lines of words break if nobody says otherwise.
const USUAL: usize = 80;
/// Longer lines of words are hard to read.
const LONGEST_LINE: usize = 100;
/// A wider chart shows nothing more.
const WIDEST_CHART: usize = 200;

/// The columns of the screen that standard output goes to: those of the terminal, or what the
/// variable `COLUMNS` says. A file or a pipe has none: nothing of a table is broken there.
pub fn columns() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let terminal = || Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    let shown = std::io::stdout().is_terminal();
    asked.or_else(|| if shown { terminal() } else { None }).filter(|columns| *columns > 0)
}

/// Where lines of words break.
pub fn line() -> usize {
    columns().unwrap_or(USUAL).clamp(40, LONGEST_LINE)
}

/// The columns and rows of a chart, which grows with the screen.
pub fn chart() -> (usize, usize) {
    let columns = columns().unwrap_or(USUAL).min(WIDEST_CHART);
    (columns.saturating_sub(2), (columns / 5).clamp(16, 28))
}

/// The columns of the terminal that progress is shown on.
pub fn progress() -> usize {
    Term::stderr().size_checked().map_or(USUAL, |(_, columns)| usize::from(columns))
}
