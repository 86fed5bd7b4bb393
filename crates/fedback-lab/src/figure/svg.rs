//! The SVG drawing of a [`Figure`]: one file that needs no script, no font and no style sheet.
//!
//! The parts stand below each other (heading, panel, legend) at a fixed width, each as tall as it
//! needs to be. The legend is therefore never over a curve and never cut off.
//!
//! There are no ids, so that many figures can be pasted into one page. A script finds what it needs
//! to show values, or to hide a series, in the `data-` attributes of the panel, of each series and of
//! its legend entry.

mod grid;
mod heat;
mod legend;
mod lettering;
mod palette;
mod path;
mod style;

use super::span::{Span, Tick};
use super::{Figure, Mark, Scale, Series, Size, runs};
pub(super) use grid::render_grid;
pub use heat::HeatMap;
use lettering::{escaped, longest, raised, text, wrapped};
use palette::Palette;
use path::{Point, bars, curve, dots, polyline, px, thinned, thinned_band};

use crate::words::short;

pub(super) fn render(figure: &Figure, size: Size) -> String {
    let mut body = String::new();
    let palette = Palette::of(&figure.series);
    let top = heading(&figure.title, &figure.subtitle, size, &mut body);
    let panel = Panel::below(top, figure, size);
    panel.draw(figure, &palette, &mut body);
    let entries = legend::entries(&figure.series);
    let height = legend::draw(&entries, &palette, panel.bottom + 68.0, size, &mut body);
    document(&figure.title, &description(figure), size, height, &palette, &body)
}

/// Points whose values a script can show, at most: a pointer cannot tell more apart.
const MOST_VALUES: usize = 400;
/// Between bars of different series at the same place.
const BESIDE: f64 = 5.0;
/// All of them together.
const WIDEST: f64 = 24.0;

/// The size of letters, but for headings.
const LETTER: f64 = 12.0;

/// The room around everything.
fn margin(size: Size) -> f64 {
    if size.is_paper() { 9.0 } else { 22.0 }
}

/// The whole file around what was drawn.
fn document(
    title: &str,
    description: &str,
    size: Size,
    height: f64,
    palette: &Palette,
    body: &str,
) -> String {
    let (width, long, tall) = (size.width(), size.length(size.width()), size.length(height));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fedback-figure\" role=\"img\" \
         width=\"{long}\" height=\"{tall}\" viewBox=\"0 0 {width} {height}\">\n\
         <title>{}</title>\n<desc>{}</desc>\n<style>\n{}</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n",
        escaped(title),
        escaped(description),
        style::sheet(palette, size),
    )
}

fn description(figure: &Figure) -> String {
    let names: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join("; ") };
    let after = if figure.subtitle.is_empty() { "" } else { ". " };
    let Figure { subtitle, x, y, .. } = figure;
    format!("{subtitle}{after}{} against {}. Series: {names}.", y.label, x.label)
}

/// Title and subtitle, wrapped; returns where the next part may begin.
fn heading(title: &str, subtitle: &str, size: Size, out: &mut String) -> f64 {
    if size.is_paper() {
        return -8.0;
    }
    // Their letters' sizes; bold ones are wider.
    let title = (title, "title", 1.12 * 17.0, 22.0);
    let subtitle = (subtitle, "subtitle quiet", 13.0, 18.0);
    let margin = margin(size);
    let mut y = margin - 6.0;
    for (words, class, letter, line_height) in [title, subtitle] {
        for line in wrapped(words, (size.width() - 2.0 * margin) / letter) {
            y += line_height;
            *out += &text(margin, y - 4.0, class, "start", &escaped(&line));
        }
    }
    y
}

/// The rectangle the curves are drawn in.
struct Panel {
    /// Where the label of the vertical axis begins.
    edge: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Span,
    y: Span,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
}

impl Panel {
    fn below(top: f64, figure: &Figure, size: Size) -> Self {
        let edges = (margin(size), size.width() - margin(size) - 6.0);
        Panel::within(edges, top, size.panel_height(), size.intervals(), figure.spans())
    }

    /// A panel of some height between two edges, with at most so many labelled intervals an axis.
    fn within(
        (edge, right): (f64, f64),
        top: f64,
        height: f64,
        intervals: usize,
        (x, y): (Span, Span),
    ) -> Self {
        let (x_ticks, y_ticks) = (x.ticks(intervals), y.ticks(intervals));
        let labels = longest(y_ticks.iter().map(|tick| tick.label.as_str()));
        let left = edge + 12.0 + LETTER * labels;
        let top = top + 36.0;
        Self { edge, left, right, top, bottom: top + height, x, y, x_ticks, y_ticks }
    }

    fn draw(&self, figure: &Figure, palette: &Palette, out: &mut String) {
        self.draw_axes(figure, out);
        let joined = |series: &&Series| series.mark == Mark::Joined;
        let gaps = figure.series.iter().filter(joined).count().saturating_sub(1) as f64;
        let mut places: Vec<f64> = figure
            .series
            .iter()
            .filter(joined)
            .flat_map(|one| one.points.iter())
            .map(|p| p.0)
            .collect();
        places.sort_by(f64::total_cmp);
        // Bars at the same place stand beside each other, those at places of their own where they are.
        let meet = places.windows(2).any(|pair| pair[0] == pair[1]);
        let (beside, middle) = (BESIDE.min(WIDEST / gaps.max(1.0)), gaps / 2.0);
        let mut place = 0.0;
        for series in &figure.series {
            let moved = joined(&series) && meet;
            let aside = if moved { beside * (place - middle) } else { 0.0 };
            place += if joined(&series) { 1.0 } else { 0.0 };
            self.draw_series(series, aside, palette, out);
        }
    }

    fn at(&self, (x, y): (f64, f64)) -> Point {
        let (width, height) = (self.right - self.left, self.bottom - self.top);
        (self.left + x * width, self.bottom - y * height)
    }

    fn draw_axes(&self, figure: &Figure, out: &mut String) {
        let x_domain = domain("x", &self.x, self.left, self.right);
        let y_domain = domain("y", &self.y, self.bottom, self.top);
        let (left, right) = (px(self.left), px(self.right));
        let (top, bottom) = (px(self.top), px(self.bottom));
        let mut grid = String::new();
        let mut axis = format!("M{left} {top}V{bottom}H{right}");
        let mut labels = String::new();
        for tick in &self.x_ticks {
            let (x, _) = self.at((tick.at, 0.0));
            axis += &format!("M{} {bottom}v{}", px(x), tick_length(tick));
            if !tick.label.is_empty() {
                grid += &format!("M{} {bottom}V{top}", px(x));
                labels += &text(x, self.bottom + 19.0, "quiet", "middle", &raised(&tick.label));
            }
        }
        for tick in &self.y_ticks {
            let (_, y) = self.at((0.0, tick.at));
            axis += &format!("M{left} {}h-{}", px(y), tick_length(tick));
            if !tick.label.is_empty() {
                grid += &format!("M{left} {}H{right}", px(y));
                labels += &text(self.left - 9.0, y + 4.0, "quiet", "end", &raised(&tick.label));
            }
        }
        let (middle_x, middle_y) = self.at((0.5, 0.5));
        labels += &text(self.edge, self.top - 14.0, "label", "start", &escaped(&figure.y.label));
        labels += &text(middle_x, self.bottom + 41.0, "label", "middle", &escaped(&figure.x.label));
        if figure.series.iter().all(|series| series.runs(&self.x, &self.y).is_empty()) {
            labels += &text(middle_x, middle_y, "subtitle quiet", "middle", "no data");
        }
        *out += &format!(
            "<g class=\"panel\"{x_domain}{y_domain}>\n<path class=\"grid\" d=\"{grid}\"/>\n\
             <path class=\"axis\" fill=\"none\" d=\"{axis}\"/>\n{labels}</g>\n"
        );
    }

    fn draw_series(&self, series: &Series, aside: f64, palette: &Palette, out: &mut String) {
        let moved = |(x, y): Point| (x + aside, y);
        let points = series.points.len();
        *out += &opening("series", series, palette, &self.values(series));
        let dotted = series.mark.has_markers();
        if dotted && series.band.is_some() {
            let pairs = self.band(series).concat().into_iter();
            let pairs = pairs.map(|(upper, lower)| (moved(upper), moved(lower)));
            *out += &bars(&pairs.collect::<Vec<_>>());
        }
        for band in self.band(series).into_iter().filter(|_| !dotted) {
            let band = thinned_band(band, points).into_iter();
            let (upper, mut lower): (Vec<Point>, Vec<Point>) = band.unzip();
            lower.reverse();
            let outline = polyline(&[upper, lower].concat());
            *out += &format!("<path class=\"band\" d=\"{outline}Z\"/>");
        }
        let runs = series.runs(&self.x, &self.y).into_iter();
        let runs = runs.map(|run| run.into_iter().map(|place| moved(self.at(place))).collect());
        let runs: Vec<Vec<Point>> = runs.map(|run| thinned(run, points)).collect();
        if series.mark == Mark::Joined {
            *out += &curve(Mark::Joined, &runs.iter().map(|run| polyline(run)).collect::<String>());
        }
        if dotted {
            *out += &dots(&runs.concat(), series.colour);
        } else {
            let (lone, lines): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run.len() == 1);
            let drawn = |runs: &[Vec<Point>]| runs.iter().map(|run| polyline(run)).collect();
            let (lone, lines): (String, String) = (drawn(&lone), drawn(&lines));
            *out += &curve(series.mark, &lines);
            if !lone.is_empty() {
                *out += &format!("<path class=\"curve lone\" d=\"{lone}\"/>");
            }
        }
        *out += "</g>\n";
    }

    /// What a script shows under the pointer: where a point is, its x and its y, as people read them.
    fn values(&self, series: &Series) -> String {
        let last = series.points.len().saturating_sub(1);
        let every = last / MOST_VALUES + 1;
        let kept =
            series.points.iter().enumerate().filter(|(at, _)| at % every == 0 || *at == last);
        let shown = kept.filter_map(|(_, &(x, y))| {
            let (place, _) = self.at((self.x.place(x)?, self.y.place(y)?));
            Some(format!("{} {} {}", px(place), short(x), short(y)))
        });
        format!(" data-values=\"{}\"", shown.collect::<Vec<_>>().join(";"))
    }

    /// The unbroken stretches of the band, as pairs of an upper and a lower point.
    fn band(&self, series: &Series) -> Vec<Vec<(Point, Point)>> {
        let edges = series.points.iter().zip(series.band.iter().flatten());
        runs(edges.map(|(&(x, _), &(low, high))| {
            let x = self.x.place(x)?;
            let (low, high) = (self.y.place_clipped(low)?, self.y.place_clipped(high)?);
            Some((self.at((x, high)), self.at((x, low))))
        }))
    }
}

fn opening(class: &str, series: &Series, palette: &Palette, values: &str) -> String {
    let (name, slot) = (escaped(&series.name), palette.slot(series.colour));
    let shared = series.shared.as_ref().map(|entry| format!(" data-shared=\"{}\"", escaped(entry)));
    let shared = shared.unwrap_or_default();
    format!("<g class=\"{class}\" data-name=\"{name}\"{shared} data-colour=\"{slot}\"{values}>")
}

/// What a script needs to turn pixels back into values.
fn domain(axis: &str, span: &Span, from: f64, to: f64) -> String {
    let (scale, low, high) = match span.scale {
        Scale::Linear => ("linear", span.low, span.high),
        Scale::Log => ("log", 10f64.powf(span.low), 10f64.powf(span.high)),
    };
    let (from, to) = (px(from), px(to));
    format!(
        " data-{axis}-scale=\"{scale}\" data-{axis}-domain=\"{low:.6e} {high:.6e}\" \
         data-{axis}-range=\"{from} {to}\""
    )
}

fn tick_length(tick: &Tick) -> u8 {
    if tick.label.is_empty() { 3 } else { 5 }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{figure, nasty_figures};
    use super::*;

    fn path_of(svg: &str, class: &str) -> String {
        let start = format!("<path class=\"{class}\" d=\"");
        let (_, rest) = svg.split_once(&start).expect("the path is drawn");
        rest.split('"').next().expect("split is never empty").to_owned()
    }

    #[test]
    fn text_is_escaped_everywhere() {
        let mut hostile = figure(vec![Series::line("a<b> & \"c\"\u{1}", 0, vec![(0.0, 1.0)])]);
        hostile.title = "</title><script>".to_owned();
        hostile.subtitle = "x < y".to_owned();
        hostile.x.label = "p & q".to_owned();
        hostile.y.label = "<y>".to_owned();
        let svg = hostile.to_svg();
        assert!(svg.contains("data-name=\"a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}\""));
        assert!(!svg.contains("<script") && !svg.contains("p & q") && !svg.contains("<y>"));
        assert!(!svg.contains("x < y"));
        assert_eq!(svg.matches("<title>").count(), 1);
    }

    /// Where the first bar of every series is, and where its value is.
    fn bars_and_values(places: [f64; 2]) -> Vec<(String, String)> {
        let series = places.map(|x| {
            let series = Series::line("a", 0, vec![(x, 1.0)]).with_mark(Mark::Joined);
            series.with_band(vec![(0.5, 1.5)])
        });
        let svg = figure(series.to_vec()).to_svg();
        let values = svg.split("data-values=\"").skip(1).filter_map(|rest| rest.split(' ').next());
        let bars = svg.split("class=\"bars\"").skip(1).filter_map(|rest| {
            rest.split_once("d=\"M").and_then(|(_, path)| path.split(' ').next())
        });
        bars.zip(values).map(|(bar, value)| (bar.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn only_bars_that_meet_are_moved_aside() {
        let apart = bars_and_values([0.0, 1.0]);
        assert!(apart.len() == 2 && apart.iter().all(|(bar, value)| bar == value), "{apart:?}");
        let met = bars_and_values([0.5, 0.5]);
        assert!(met.len() == 2 && met.iter().all(|(bar, value)| bar != value), "{met:?}");
    }

    #[test]
    fn nothing_unrepresentable_is_written() {
        for figure in nasty_figures() {
            let svg = figure.to_svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{figure:?}\n{svg}");
            assert_eq!(svg, figure.to_svg());
        }
        assert!(figure(vec![]).to_svg().contains("no data"));
    }

    #[test]
    fn gaps_break_the_line_and_lone_points_show() {
        let ys = [1.0, 2.0, f64::NAN, 3.0, f64::INFINITY, 4.0, 0.0, 5.0, 6.0];
        let points = ys.iter().enumerate().map(|(x, &y)| (x as f64, y)).collect();
        let mut gaps = figure(vec![Series::line("gaps", 0, points)]);
        let linear = gaps.to_svg();
        assert_eq!(path_of(&linear, "curve Line").matches('M').count(), 2);
        assert_eq!(path_of(&linear, "curve lone").matches('M').count(), 1);
        gaps.y.scale = Scale::Log;
        let log = gaps.to_svg();
        assert_eq!(path_of(&log, "curve Line").matches('M').count(), 2);
        assert_eq!(path_of(&log, "curve lone").matches('M').count(), 2);
    }

    #[test]
    fn a_band_below_zero_ends_at_the_lower_edge_of_a_log_panel() {
        let series = Series::line("a", 0, vec![(0.0, 1.0), (1.0, 1.0)]);
        let mut clipped = figure(vec![series.with_band(vec![(-1.0, 2.0), (0.5, 2.0)])]);
        clipped.y.scale = Scale::Log;
        let panel = Panel::below(0.0, &clipped, Size::Screen);
        let band = panel.band(&clipped.series[0]).concat();
        assert_eq!(band[0].1.1, panel.bottom);
        assert!(band[1].1.1 < panel.bottom && band[1].0.1 > panel.top);
    }

    #[test]
    fn long_series_stay_small() {
        let points = (0..10_000).map(|t| (f64::from(t), f64::from(t * 7919 % 1000)));
        let points: Vec<_> = points.collect();
        let band = points.iter().map(|&(_, y)| (y - 1.0, y + 1.0)).collect();
        let svg = figure(vec![Series::line("long", 0, points).with_band(band)]).to_svg();
        assert!(path_of(&svg, "curve Line").matches([' ', 'L']).count() <= 2 * 1000);
        assert!(svg.len() < 50_000, "{} bytes", svg.len());
    }
}
