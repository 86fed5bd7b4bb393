//! Several small panels under one heading and with one legend.

use super::super::{Grid, Mark, Series};
use super::{MARGIN, Panel, WIDTH, document, heading, legend};

/// Between two panels beside each other, and the height of one.
const GAP: f64 = 26.0;
const HEIGHT: f64 = 200.0;
/// What a row of panels needs beside their height: labels above and below.
const AROUND: f64 = 36.0 + 58.0;

pub(in super::super) fn render_grid(grid: &Grid) -> String {
    let mut body = String::new();
    let top = heading(&grid.title, &grid.subtitle, &mut body);
    let columns = grid.panels.len().clamp(1, 2);
    let width = (WIDTH - 2.0 * MARGIN - 6.0 - GAP * (columns - 1) as f64) / columns as f64;
    let height = if columns == 1 { 1.5 * HEIGHT } else { HEIGHT };
    for (at, figure) in grid.panels.iter().enumerate() {
        let left = MARGIN + (at % columns) as f64 * (width + GAP);
        let top = top + (at / columns) as f64 * (height + AROUND);
        let intervals = if columns == 1 { 8 } else { 5 };
        Panel::within((left, left + width), top, height, intervals, figure).draw(figure, &mut body);
    }
    let rows = grid.panels.len().div_ceil(columns) as f64;
    // Points stand beside the line of their name.
    let named = |series: &&Series| series.mark != Mark::Dots;
    let first = grid.panels.first().map_or(&[][..], |figure| &figure.series);
    let entries: Vec<Series> = first.iter().filter(named).cloned().collect();
    let bottom = legend::draw(&entries, top + rows * (height + AROUND) + 14.0, &mut body);
    let panels: Vec<&str> = grid.panels.iter().map(|figure| figure.title.as_str()).collect();
    let description = format!("{}. Panels: {}.", grid.subtitle, panels.join("; "));
    document(&grid.title, &description, bottom, &body)
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{figure, nasty_figures};
    use super::*;

    fn grid(panels: Vec<super::super::Figure>) -> Grid {
        Grid { title: "All".into(), subtitle: "of <them>".into(), panels }
    }

    #[test]
    fn panels_share_one_legend() {
        let line = Series::line("client", 0, vec![(0.0, 0.0), (1.0, 2.0)]);
        let dots = Series::line("client", 0, vec![(0.0, 0.1), (1.0, 1.8)])
            .with_mark(Mark::Dots)
            .with_band(vec![(0.0, 0.2), (1.5, 2.1)]);
        let panel = || figure(vec![line.clone(), dots.clone()]);
        let svg = render_grid(&grid(vec![panel(), panel(), panel()]));
        assert_eq!(svg.matches("class=\"panel\"").count(), 3);
        assert_eq!(svg.matches("class=\"legend\"").count(), 1);
        assert_eq!(svg.matches("class=\"bars\"").count(), 3);
        assert_eq!(svg.matches("class=\"band\"").count(), 0);
        assert_eq!(svg.matches("<svg").count(), 1);
    }

    #[test]
    fn nothing_unrepresentable_is_written() {
        let svg = render_grid(&grid(nasty_figures()));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(render_grid(&grid(vec![])).ends_with("</svg>\n"));
    }
}
