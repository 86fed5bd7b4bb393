//! The legend: a sample and a name for each series.
//!
//! The series of one colour stand together, so that a simulated curve and its exact expectation are
//! read as a pair in whatever order they were given. Names are never shortened; long ones cost
//! columns instead.

use super::super::{Mark, Series};
use super::path::{curve, dots, polyline, px};
use super::{MARGIN, WIDTH, escaped, opening, text};

const LINE_HEIGHT: f64 = 20.0;

/// Samples and names below the panel; returns the height of the whole figure.
pub(super) fn draw(series: &[Series], top: f64, out: &mut String) -> f64 {
    let columns = columns(series);
    let mut x = MARGIN;
    for column in &columns {
        for (row, series) in column.iter().enumerate() {
            *out += &entry(series, x, top + row as f64 * LINE_HEIGHT);
        }
        x += width(column);
    }
    top + columns.first().map_or(0, Vec::len) as f64 * LINE_HEIGHT
}

/// As many columns as fit side by side. Where all colours have equally many series, no column ends
/// within a colour.
fn columns(series: &[Series]) -> Vec<Vec<&Series>> {
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
        if columns.len() <= 1 || width <= WIDTH - MARGIN {
            return columns;
        }
        rows += if even { group } else { 1 };
    }
}

fn width(column: &[&Series]) -> f64 {
    let longest = column.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    56.0 + 6.5 * longest as f64
}

fn entry(series: &Series, x: f64, y: f64) -> String {
    let band = match series.band {
        None => String::new(),
        Some(_) => {
            let (x, y) = (px(x), px(y - 6.0));
            format!("<rect class=\"band\" x=\"{x}\" y=\"{y}\" width=\"28\" height=\"12\"/>")
        }
    };
    let sample = match series.mark {
        Mark::Dots => dots(&[(x + 14.0, y)], series.colour),
        mark => curve(mark, &polyline(&[(x, y), (x + 28.0, y)])),
    };
    let name = text(x + 37.0, y + 4.0, "name", "start", &escaped(&series.name));
    format!("{}{band}{sample}{name}</g>\n", opening("legend", series))
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
        let columns = columns(&series);
        let slots: Vec<Vec<usize>> = columns
            .iter()
            .map(|column| column.iter().map(|series| series.colour).collect())
            .collect();
        assert_eq!(slots, [vec![0, 0, 1, 1], vec![2, 2]]);
    }
}
