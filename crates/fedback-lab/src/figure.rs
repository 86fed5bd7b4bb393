//! Figures: a description of curves over two axes, drawn as an SVG file or as a terminal chart.
//!
//! A figure is plain data, so that a report is computed once and drawn wherever it is read. What the
//! two drawings must agree on lives here: which values can be drawn at all, the range of an axis
//! (`span`) and its ticks. What only one of them needs (pixels, colours, braille) stays in its own
//! file. There is no plotting dependency: line charts with logarithmic axes are all that
//! is needed, and the bytes of a figure have to be the same on every run.

mod size;
mod span;
mod svg;
mod text;

pub use size::Size;
use span::Span;
pub use svg::HeatMap;

/// Curves over two axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The headline.
    pub title: String,
    /// A second, quieter line; may be empty.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, drawn in this order.
    pub series: Vec<Series>,
}

/// Several small figures under one heading and with one legend; their own titles and subtitles are
/// not drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The headline.
    pub title: String,
    /// A second, quieter line; may be empty.
    pub subtitle: String,
    /// The figures, row after row.
    pub panels: Vec<Figure>,
    /// Panels with the same number here have the same axes; none where each has its own.
    pub axes: Vec<usize>,
}

impl Grid {
    /// A self-contained SVG document, as that of a figure.
    pub fn to_svg(&self, size: Size) -> String {
        svg::render_grid(self, size)
    }
}

/// What an axis measures (with its unit) and how it is scaled.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// How values are placed.
    pub scale: Scale,
}

/// How values are placed along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithms.
    Log,
}

/// One named curve. Points that are not finite, or not positive on a log axis, are gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// (x, y) in the order they are joined.
    pub points: Vec<(f64, f64)>,
    /// `(low, high)`, one per point; clipped at the edges of the panel. Bars where points are dots.
    pub band: Option<Vec<(f64, f64)>>,
    /// How the points are drawn.
    pub mark: Mark,
    /// Palette slot: series of one slot share a colour and a marker shape. More than eight of them
    /// are colours of a ramp, in their order.
    pub colour: usize,
    /// The legend entry that it shares with other series; one of its own if none.
    pub shared: Option<String>,
}

/// How the points of a series are drawn. `Dots` draws each point, so give it few of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A solid line.
    Line,
    /// A dashed line.
    Dashed,
    /// A dotted line.
    Dotted,
    /// A marker at each point.
    Dots,
    /// A thin line through a marker at each point.
    Joined,
}

impl Mark {
    /// Whether single points are marked, and a band is a bar at each of them.
    fn has_markers(self) -> bool {
        matches!(self, Mark::Dots | Mark::Joined)
    }
}

impl Figure {
    /// A self-contained SVG document that follows the reader's light or dark preference.
    pub fn to_svg(&self) -> String {
        svg::render(self, Size::Screen)
    }

    /// The same in another size. Those of a printed page have no heading, for there it is a caption,
    /// and literal colours, for other programs know no CSS variables.
    pub fn to_svg_of(&self, size: Size) -> String {
        svg::render(self, size)
    }

    /// A chart of at most `rows` lines of at most `columns` characters, without colour or bands.
    pub fn to_text(&self, columns: usize, rows: usize) -> String {
        text::render(self, columns, rows)
    }

    /// The ranges of both axes, fitted to every point that can be drawn and to the bands.
    fn spans(&self) -> (Span, Span) {
        let (mut xs, mut ys, mut lows) = (Vec::new(), Vec::new(), Vec::new());
        for series in &self.series {
            for &(x, y) in &series.points {
                if let (Some(x), Some(y)) = (self.x.scale.coordinate(x), self.y.scale.coordinate(y))
                {
                    xs.push(x);
                    ys.push(y);
                }
            }
            for (&(x, _), &(low, high)) in series.points.iter().zip(series.band.iter().flatten()) {
                if self.x.scale.coordinate(x).is_some() {
                    lows.extend(self.y.scale.coordinate(low));
                    ys.extend(self.y.scale.coordinate(high));
                }
            }
        }
        // Mean minus deviation may come arbitrarily close to zero, which on a log axis would squeeze
        // the curves into the upper edge: there a band reaches at most a decade below the curves.
        let floor = match self.y.scale {
            Scale::Linear => f64::NEG_INFINITY,
            Scale::Log => ys.iter().copied().fold(f64::INFINITY, f64::min) - 1.0,
        };
        ys.extend(lows.into_iter().map(|low| low.max(floor)));
        // Bars on the frame could not be told from it.
        let bars = |series: &Series| series.mark.has_markers() && series.band.is_some();
        let aside = if self.series.iter().any(bars) { 0.04 } else { 0.0 };
        (Span::fit(self.x.scale, &xs, aside), Span::fit(self.y.scale, &ys, 0.04))
    }
}

impl Axis {
    /// An evenly scaled axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log }
    }
}

impl Series {
    /// A solid line without a band; see [`Series::with_band`] and [`Series::with_mark`].
    pub fn line(name: impl Into<String>, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, band: None, mark: Mark::Line, colour, shared: None }
    }

    /// The same curve with others in one legend entry.
    pub fn sharing(self, entry: impl Into<String>) -> Self {
        Self { shared: Some(entry.into()), ..self }
    }

    /// The same curve with a band around it.
    pub fn with_band(self, band: Vec<(f64, f64)>) -> Self {
        Self { band: Some(band), ..self }
    }

    /// The same curve drawn another way.
    pub fn with_mark(self, mark: Mark) -> Self {
        Self { mark, ..self }
    }

    /// The unbroken stretches of the curve, as fractions of the two spans.
    fn runs(&self, x: &Span, y: &Span) -> Vec<Vec<(f64, f64)>> {
        runs(self.points.iter().map(|&(px, py)| Some((x.place(px)?, y.place(py)?))))
    }
}

/// Splits a sequence at its gaps.
fn runs<T>(items: impl Iterator<Item = Option<T>>) -> Vec<Vec<T>> {
    let mut runs = vec![Vec::new()];
    for item in items {
        match item {
            Some(item) => runs.last_mut().expect("starts with one run").push(item),
            None => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn figure(series: Vec<Series>) -> Figure {
        let (x, y) = (Axis::linear("step"), Axis::linear("distance"));
        Figure { title: "Title".to_owned(), subtitle: String::new(), x, y, series }
    }

    #[test]
    fn bands_of_points_that_cannot_be_drawn_do_not_stretch_an_axis() {
        let series = Series::line("loss", 0, vec![(0.0, 9.0), (1.0, 1.0), (2.0, 1.1)])
            .with_band(vec![(8.0, 10.0), (0.9, 1.1), (1.0, 1.2)]);
        let figure = Figure { x: Axis::log("step"), ..figure(vec![series]) };
        assert!(figure.spans().1.place(2.0).is_some_and(|place| place > 1.0));
    }

    /// Figures of values that break careless arithmetic, on every pair of scales.
    pub(super) fn nasty_figures() -> Vec<Figure> {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let cases: [&[(f64, f64)]; 10] = [
            &[],
            &[(nan, 1.0), (1.0, nan)],
            &[(3.0, 7.0)],
            &[(-1e200, -1e200), (-1.000000003e200, -1.000000003e200)],
            &[(0.0, 0.0), (0.0, 0.0)],
            &[(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)],
            &[(1.0, f64::MAX), (2.0, f64::MIN), (inf, -inf)],
            &[(1e249, 1e249), (-1e249, -1e249), (1e-249, 1e-249)],
            &[(f64::MIN_POSITIVE, 5e-324), (1e-320, -5e-324)],
            &[(1.0, 1.0), (2.0, 1.0 + f64::EPSILON), (3.0, -1.0), (4.0, inf), (5.0, 2.0)],
        ];
        let mut figures = Vec::new();
        for points in cases {
            for (x, y) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let scale = |log| if log == 1 { Scale::Log } else { Scale::Linear };
                let band = vec![(-inf, inf), (nan, 1.0), (-1.0, 1e300)];
                let series = |mark| Series::line("", usize::MAX, points.to_vec()).with_mark(mark);
                let plain = [Mark::Dashed, Mark::Dotted, Mark::Dots, Mark::Joined].map(series);
                let mut nasty = figure(plain.to_vec());
                nasty.series.push(series(Mark::Line).with_band(band));
                (nasty.x.scale, nasty.y.scale) = (scale(x), scale(y));
                figures.push(nasty);
            }
        }
        figures
    }

    #[test]
    fn a_band_reaches_at_most_a_decade_below_the_curves() {
        let series = Series::line("a", 0, vec![(0.0, 1.0), (1.0, 10.0)]);
        let mut banded = figure(vec![series.with_band(vec![(1e-9, 2.0), (-5.0, 100.0)])]);
        banded.y.scale = Scale::Log;
        let (_, y) = banded.spans();
        // Three decades and a margin of 4 % on either side.
        assert!((y.low - -1.12).abs() < 1e-12 && (y.high - 2.12).abs() < 1e-12, "{y:?}");
    }

    #[test]
    fn points_with_a_gap_in_either_coordinate_do_not_stretch_the_axes() {
        let points = vec![(0.0, 1.0), (f64::NAN, 900.0), (900.0, f64::NAN), (1.0, 2.0)];
        let (x, y) = figure(vec![Series::line("a", 0, points)]).spans();
        assert_eq!((x.low, x.high), (0.0, 1.0));
        assert_eq!((y.low, y.high), (0.96, 2.04));
    }
}
