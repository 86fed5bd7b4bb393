//! Several small panels under one heading and with one legend.

use super::super::{Figure, Grid, Mark, Series, Size};
use super::palette::Palette;
use super::{Panel, document, heading, legend, margin};

/// Between two panels beside each other, and the height of one.
const GAP: f64 = 26.0;
const HEIGHT: f64 = 200.0;
/// What a row of panels needs beside their height: labels above and below.
const AROUND: f64 = 36.0 + 58.0;

pub(in super::super) fn render_grid(grid: &Grid, size: Size) -> String {
    let mut body = String::new();
    let all: Vec<Series> = grid.panels.iter().flat_map(|panel| panel.series.clone()).collect();
    let palette = Palette::of(&all);
    let top = heading(&grid.title, &grid.subtitle, size, &mut body);
    let columns = if size == Size::Single { 1 } else { grid.panels.len().clamp(1, 2) };
    let room = size.width() - 2.0 * margin(size) - 6.0;
    let width = (room - GAP * (columns - 1) as f64) / columns as f64;
    let height = match (columns, size.is_paper()) {
        (1, false) => 1.5 * HEIGHT,
        (_, false) => HEIGHT,
        (_, true) => 0.75 * HEIGHT,
    };
    let spans = |at: usize| {
        let alike = |other: &usize| grid.axes.get(at).is_some_and(|own| own == other);
        let with = grid.panels.iter().zip(&grid.axes).filter(|(_, axes)| alike(axes));
        let series: Vec<Series> = with.flat_map(|(panel, _)| panel.series.clone()).collect();
        match series.is_empty() {
            true => grid.panels[at].spans(),
            false => Figure { series, ..grid.panels[at].clone() }.spans(),
        }
    };
    for (at, figure) in grid.panels.iter().enumerate() {
        let left = margin(size) + (at % columns) as f64 * (width + GAP);
        let top = top + (at / columns) as f64 * (height + AROUND);
        let intervals = if columns == 1 { size.intervals() } else { 5 };
        Panel::within((left, left + width), top, height, intervals, spans(at))
            .draw(figure, &palette, &mut body);
    }
    let rows = grid.panels.len().div_ceil(columns) as f64;
    let mut entries = legend::entries(&all);
    // Points stand beside the line of their name.
    let lines: Vec<String> =
        entries.iter().filter(|one| one.mark != Mark::Dots).map(|one| one.name.clone()).collect();
    entries.retain(|one| one.mark != Mark::Dots || !lines.contains(&one.name));
    let below = top + rows * (height + AROUND) + 14.0;
    let bottom = legend::draw(&entries, &palette, below, size, &mut body);
    let panels: Vec<&str> = grid.panels.iter().map(|figure| figure.title.as_str()).collect();
    let description = format!("{}. Panels: {}.", grid.subtitle, panels.join("; "));
    document(&grid.title, &description, size, bottom, &palette, &body)
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{figure, nasty_figures};
    use super::*;

    fn grid(panels: Vec<super::super::Figure>) -> Grid {
        Grid { title: "All".into(), subtitle: "of <them>".into(), panels, axes: Vec::new() }
    }

    #[test]
    fn panels_share_one_legend() {
        let line = Series::line("client", 0, vec![(0.0, 0.0), (1.0, 2.0)]);
        let dots = Series::line("client", 0, vec![(0.0, 0.1), (1.0, 1.8)])
            .with_mark(Mark::Dots)
            .with_band(vec![(0.0, 0.2), (1.5, 2.1)]);
        let panel = || figure(vec![line.clone(), dots.clone()]);
        let svg = render_grid(&grid(vec![panel(), panel(), panel()]), Size::Screen);
        assert_eq!(svg.matches("class=\"panel\"").count(), 3);
        assert_eq!(svg.matches("class=\"legend\"").count(), 1);
        assert_eq!(svg.matches("class=\"bars\"").count(), 3);
        assert_eq!(svg.matches("class=\"band\"").count(), 0);
        assert_eq!(svg.matches("<svg").count(), 1);
    }

    #[test]
    fn nothing_unrepresentable_is_written() {
        let svg = render_grid(&grid(nasty_figures()), Size::Screen);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(render_grid(&grid(vec![]), Size::Double).ends_with("</svg>\n"));
    }
}
