//! The legend: a sample and a name for each series.
//!
//! The series of one colour stand together, so that a simulated curve and its exact expectation are
//! read as a pair in whatever order they were given. Names are never shortened; long ones cost
//! columns, and lines, instead.

use super::super::Size;
use super::super::{Mark, Series};
use super::lettering::{escaped, longest, text, wrapped};
use super::palette::{INK, Palette};
use super::path::{curve, dots, polyline, px};
use super::{LETTER, margin, opening};

/// From entry to entry, and from line to line of a name.
const ENTRY_HEIGHT: f64 = 20.0;
const LINE_HEIGHT: f64 = 15.0;
/// Where a name begins.
const NAME: f64 = 37.0;

/// What the legend lists: every series once, and those that share an entry as one, in ink, last.
pub(super) fn entries(series: &[Series]) -> Vec<Series> {
    let mut entries: Vec<Series> = Vec::new();
    let (sharing, own): (Vec<&Series>, Vec<&Series>) =
        series.iter().partition(|series| series.shared.is_some());
    for one in own.into_iter().cloned().chain(sharing.into_iter().map(shared)) {
        let is_same = |known: &Series| (&known.name, known.mark) == (&one.name, one.mark);
        if !entries.iter().any(is_same) {
            entries.push(one);
        }
    }
    entries
}

fn shared(series: &Series) -> Series {
    let name = series.shared.clone().unwrap_or_default();
    Series { name, colour: INK, band: None, shared: None, ..series.clone() }
}

/// Samples and names below the panel; returns the height of the whole figure.
pub(super) fn draw(
    series: &[Series],
    palette: &Palette,
    top: f64,
    size: Size,
    out: &mut String,
) -> f64 {
    let room = size.width() - margin(size);
    let (mut x, mut bottom) = (margin(size), top);
    for column in columns(series, room) {
        let mut y = top;
        for series in &column {
            let lines = wrapped(&series.name, (room - x - NAME) / LETTER);
            *out += &entry(series, &lines, palette, x, y);
            y += ENTRY_HEIGHT + LINE_HEIGHT * lines.len().saturating_sub(1) as f64;
        }
        bottom = bottom.max(y);
        x += width(&column);
    }
    bottom
}

/// As many columns as fit side by side. Where all colours have equally many series, no column ends
/// within a colour.
fn columns(series: &[Series], room: f64) -> Vec<Vec<&Series>> {
    let same_colour = |entry: &Series| series.iter().filter(|s| s.colour == entry.colour).count();
    let first_of_colour = |entry: &Series| series.iter().position(|s| s.colour == entry.colour);
    let mut entries: Vec<&Series> = series.iter().collect();
    entries.sort_by_key(|entry| first_of_colour(entry));
    let group = entries.first().map_or(1, |entry| same_colour(entry));
    let even = entries.iter().all(|entry| same_colour(entry) == group);
    let mut rows = if even { group } else { 1 };
    loop {
        let columns: Vec<Vec<&Series>> = entries.chunks(rows).map(<[_]>::to_vec).collect();
        let width: f64 = columns.iter().map(|column| width(column)).sum();
        if columns.len() <= 1 || width <= room {
            return columns;
        }
        rows += if even { group } else { 1 };
    }
}

fn width(column: &[&Series]) -> f64 {
    NAME + 19.0 + LETTER * longest(column.iter().map(|series| series.name.as_str()))
}

fn entry(series: &Series, lines: &[String], palette: &Palette, x: f64, y: f64) -> String {
    let band = match series.band {
        None => String::new(),
        Some(_) if series.mark.has_markers() => String::new(),
        Some(_) => {
            let (x, y) = (px(x), px(y - 6.0));
            format!("<rect class=\"band\" x=\"{x}\" y=\"{y}\" width=\"28\" height=\"12\"/>")
        }
    };
    let sample = match series.mark {
        Mark::Dots => dots(&[(x + 14.0, y)], series.colour),
        Mark::Joined => {
            curve(Mark::Joined, &polyline(&[(x, y), (x + 28.0, y)]))
                + &dots(&[(x + 14.0, y)], series.colour)
        }
        mark => curve(mark, &polyline(&[(x, y), (x + 28.0, y)])),
    };
    let line = |(row, line): (usize, &String)| {
        text(x + NAME, y + 4.0 + row as f64 * LINE_HEIGHT, "name", "start", &escaped(line))
    };
    let name: String = lines.iter().enumerate().map(line).collect();
    format!("{}{band}{sample}{name}</g>\n", opening("legend", series, palette, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_one_colour_share_a_legend_column() {
        let name = "x".repeat(40);
        let slots = [0, 1, 2, 0, 1, 2];
        let series: Vec<Series> =
            slots.iter().map(|&slot| Series::line(name.as_str(), slot, vec![])).collect();
        let columns = columns(&series, 738.0);
        let slots: Vec<Vec<usize>> = columns
            .iter()
            .map(|column| column.iter().map(|series| series.colour).collect())
            .collect();
        assert_eq!(slots, [vec![0, 0, 1, 1], vec![2, 2]]);
    }
}
