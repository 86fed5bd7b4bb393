//! The terminal drawing of a [`Figure`]: a look at a run without leaving the shell.
//!
//! Every curve is drawn in braille, which has eight dots to a character, because the shape is what a
//! glance is for. Which curve is which cannot be said in dots, so each carries its own glyph every
//! few columns, the glyphs of different series being out of step: curves that coincide show both.
//!
//! What surrounds the chart is given up in a fixed order when there is little room, and the chart
//! itself last.

use super::span::Tick;
use super::{Figure, Mark, Series};

const GLYPHS: [char; 8] = ['●', '×', '▲', '○', '■', '+', '◆', '△'];
/// Room the chart keeps before labels and legend may take any.
const FEWEST_ROWS: usize = 6;
const FEWEST_COLUMNS: usize = 12;
/// No terminal is larger.
const MOST: usize = 2000;

pub(super) fn render(figure: &Figure, columns: usize, rows: usize) -> String {
    let (columns, rows) = (columns.min(MOST), rows.min(MOST));
    if rows == 0 {
        return String::new();
    }
    let frame = Frame::new(figure, columns, rows);
    let (x, y) = figure.spans();
    let y_ticks = y.ticks((frame.chart_rows / 3).clamp(1, 6));
    let gutter = gutter(&y_ticks, columns);
    let mut canvas = Canvas::new(columns - gutter, frame.chart_rows);
    for (index, series) in figure.series.iter().enumerate() {
        canvas.draw(&series.runs(&x, &y), series.mark, index, figure.series.len());
    }
    let mut lines = frame.above;
    lines.extend(canvas.lines(&y_ticks, gutter));
    if frame.axis {
        lines.extend(x_axis(&x.ticks((canvas.columns / 12).clamp(1, 8)), canvas.columns, gutter));
    }
    lines.extend(frame.below);
    lines.iter().map(|line| clipped(line.trim_end(), columns) + "\n").collect()
}

fn glyph(index: usize) -> char {
    GLYPHS[index % GLYPHS.len()]
}

/// The lines around the chart, as far as there is room for them.
struct Frame {
    above: Vec<String>,
    below: Vec<String>,
    axis: bool,
    chart_rows: usize,
}

impl Frame {
    fn new(figure: &Figure, columns: usize, rows: usize) -> Self {
        let axis = rows >= FEWEST_ROWS && columns >= FEWEST_COLUMNS;
        let mut chart_rows = rows - if axis { 2 } else { 0 };
        let mut keep = |lines: Vec<String>| {
            let fits = chart_rows >= FEWEST_ROWS + lines.len();
            chart_rows -= if fits { lines.len() } else { 0 };
            if fits { lines } else { Vec::new() }
        };
        let line = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            if words.is_empty() { vec![] } else { vec![words.join(" ")] }
        };
        let legend = keep(legend(&figure.series, columns));
        let y_label = keep(line(&figure.y.label));
        let x_label = keep(line(&figure.x.label));
        let title = keep(line(&figure.title));
        let x_label = x_label.iter().map(|label| format!("{label:^columns$}"));
        Self {
            above: [title, y_label].concat(),
            below: x_label.chain(legend).collect(),
            axis,
            chart_rows,
        }
    }
}

/// Glyphs and names, as many to a line as fit.
fn legend(series: &[Series], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (index, series) in series.iter().enumerate() {
        let name: Vec<&str> = series.name.split_whitespace().collect();
        let entry = format!("{} {}", glyph(index), name.join(" "));
        match lines.last_mut() {
            Some(line) if line.chars().count() + 3 + entry.chars().count() <= columns => {
                *line += "   ";
                *line += &entry;
            }
            _ => lines.push(entry),
        }
    }
    lines
}

/// The columns that y labels and their axis take; none where the chart needs them all.
fn gutter(ticks: &[Tick], columns: usize) -> usize {
    let longest = ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0);
    if columns >= FEWEST_COLUMNS + longest + 2 { longest + 2 } else { 0 }
}

/// The axis line and the labels under it, leaving out those that would touch their neighbour.
fn x_axis(ticks: &[Tick], columns: usize, gutter: usize) -> [String; 2] {
    let mut axis = vec!['─'; columns];
    let mut labels = String::new();
    for tick in ticks.iter().filter(|tick| !tick.label.is_empty()) {
        let column = dot(tick.at, 2 * columns) / 2;
        let width = tick.label.chars().count();
        let latest = (gutter + columns).saturating_sub(width);
        let start = (gutter + column).saturating_sub(width / 2).min(latest);
        let used = labels.chars().count();
        if used == 0 || start > used {
            axis[column] = '┬';
            labels += &" ".repeat(start - used);
            labels += &tick.label;
        }
    }
    let corner = if gutter > 0 { format!("{}└", " ".repeat(gutter - 1)) } else { String::new() };
    [corner + &axis.iter().collect::<String>(), labels]
}

/// Which of `count` dots a fraction of a span falls on.
fn dot(fraction: f64, count: usize) -> usize {
    (fraction.clamp(0.0, 1.0) * count.saturating_sub(1) as f64).round() as usize
}

/// Characters of two by four braille dots, over which lies a layer of glyphs.
struct Canvas {
    columns: usize,
    rows: usize,
    braille: Vec<u8>,
    glyphs: Vec<Option<char>>,
}

impl Canvas {
    fn new(columns: usize, rows: usize) -> Self {
        let cells = columns * rows;
        Self { columns, rows, braille: vec![0; cells], glyphs: vec![None; cells] }
    }

    /// Draws the `index`-th of `count` series.
    fn draw(&mut self, runs: &[Vec<(f64, f64)>], mark: Mark, index: usize, count: usize) {
        if self.braille.is_empty() {
            return;
        }
        let mut trace = vec![None; self.columns];
        for run in runs {
            let dots: Vec<(usize, usize)> = run.iter().map(|&point| self.dot_at(point)).collect();
            if mark == Mark::Dots || dots.len() == 1 {
                for at in dots {
                    let cell = self.cell(at);
                    self.glyphs[cell] = Some(glyph(index));
                }
                continue;
            }
            for (x, y) in dots.windows(2).flat_map(|ends| stretch(ends[0], ends[1])) {
                let cell = self.cell((x, y));
                trace[x / 2] = Some(cell);
                if shown(mark, x) {
                    self.braille[cell] |= BRAILLE[y % 4][x % 2];
                }
            }
        }
        let period = (4 * count).max(10).min(self.columns);
        let labelled = trace.iter().skip(index * period / count).step_by(period);
        for &cell in labelled.flatten() {
            self.glyphs[cell] = Some(glyph(index));
        }
    }

    fn dot_at(&self, (x, y): (f64, f64)) -> (usize, usize) {
        (dot(x, 2 * self.columns), dot(1.0 - y, 4 * self.rows))
    }

    fn cell(&self, (x, y): (usize, usize)) -> usize {
        y / 4 * self.columns + x / 2
    }

    fn lines(&self, ticks: &[Tick], gutter: usize) -> Vec<String> {
        let mut margin = vec![String::new(); self.rows];
        if gutter > 0 {
            margin.fill(format!("{}│", " ".repeat(gutter - 1)));
            for tick in ticks.iter().filter(|tick| !tick.label.is_empty()) {
                let row = dot(1.0 - tick.at, 4 * self.rows) / 4;
                margin[row] = format!("{:>1$} ┤", tick.label, gutter - 2);
            }
        }
        let character = |cell: usize| match (self.glyphs[cell], self.braille[cell]) {
            (Some(glyph), _) => glyph,
            (None, 0) => ' ',
            (None, dots) => char::from_u32(0x2800 + u32::from(dots)).expect("a braille pattern"),
        };
        let row = |(row, margin): (usize, String)| {
            let cells = row * self.columns..(row + 1) * self.columns;
            margin + &cells.map(character).collect::<String>()
        };
        margin.into_iter().enumerate().map(row).collect()
    }
}

/// The bit of each dot of a braille character, by row and column.
const BRAILLE: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

fn shown(mark: Mark, x: usize) -> bool {
    match mark {
        Mark::Line | Mark::Dots | Mark::Joined => true,
        Mark::Dashed => x % 6 < 3,
        Mark::Dotted => x.is_multiple_of(3),
    }
}

/// The dots of a straight line, both ends included.
fn stretch(
    (x0, y0): (usize, usize),
    (x1, y1): (usize, usize),
) -> impl Iterator<Item = (usize, usize)> {
    let steps = x0.abs_diff(x1).max(y0.abs_diff(y1)).max(1);
    let between = move |from: usize, to: usize, step: usize| {
        (from * (steps - step) + to * step + steps / 2) / steps
    };
    (0..=steps).map(move |step| (between(x0, x1, step), between(y0, y1, step)))
}

/// At most `columns` characters, the last being an ellipsis where some are missing.
fn clipped(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let kept = line.chars().take(columns.saturating_sub(1));
    kept.chain((columns > 0).then_some('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::super::tests::{figure, nasty_figures};
    use super::*;

    fn decay() -> Figure {
        let line =
            |factor: f64| (0..100).map(|t| (f64::from(t), factor * 0.9f64.powi(t))).collect();
        let exact = Series::line("exact", 1, vec![(0.0, 1.0), (50.0, 1.0)]).with_mark(Mark::Dots);
        let mut decay = figure(vec![Series::line("simulated", 0, line(1e3)), exact]);
        decay.y.scale = Scale::Log;
        decay
    }

    #[test]
    fn fills_exactly_the_rows_and_never_exceeds_the_columns() {
        let mut figures = nasty_figures();
        figures.push(decay());
        for figure in figures {
            for columns in (0..30).chain([80, 200]) {
                for rows in (0..16).chain([24, 60]) {
                    let chart = figure.to_text(columns, rows);
                    assert_eq!(chart.lines().count(), rows, "{columns} x {rows}\n{chart}");
                    let longest = chart.lines().map(|line| line.chars().count()).max();
                    assert!(longest.unwrap_or(0) <= columns, "{columns} x {rows}\n{chart}");
                }
            }
        }
        assert!(decay().to_text(usize::MAX, 3).lines().count() == 3);
    }

    #[test]
    fn shows_labels_ticks_and_legend() {
        let chart = decay().to_text(60, 16);
        for part in ["Title", "distance", "100 ┤", "step", "● simulated   × exact", "┬"] {
            assert!(chart.contains(part), "{part} is missing in\n{chart}");
        }
        assert_eq!(chart.matches('×').count(), 3, "two points and the legend\n{chart}");
    }

    #[test]
    fn a_falling_line_falls() {
        let line = Series::line("", 0, vec![(0.0, 1.0), (1.0, 0.0)]).with_mark(Mark::Line);
        let mut canvas = Canvas::new(4, 2);
        canvas.draw(&[line.points], Mark::Line, 0, 1);
        canvas.glyphs.fill(None);
        assert_eq!(canvas.lines(&[], 0), ["⠑⢄  ", "  ⠑⢄"]);
    }
}
