//! A heat map: one number for every pair of two parameters, as a colour and in words.

use super::super::{Scale, Size};
use super::lettering::{escaped, longest, text, wrapped};
use super::palette::{Palette, ramp_at};
use super::path::px;
use super::{LETTER, document, heading, margin};
use crate::words::short;

/// Values over two parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// The headline.
    pub title: String,
    /// A second, quieter line; may be empty.
    pub subtitle: String,
    /// What is shown.
    pub value: String,
    /// The parameter across, and its values.
    pub x: (String, Vec<String>),
    /// The parameter upwards, and its values.
    pub y: (String, Vec<String>),
    /// How values are placed between the first and the last colour.
    pub scale: Scale,
    /// The numbers, row after row from below; NaN where there is none.
    pub cells: Vec<Vec<f64>>,
}

impl HeatMap {
    /// A self-contained SVG document. Its colours go from dark, the lowest, to bright.
    pub fn to_svg(&self, size: Size) -> String {
        let mut body = String::new();
        let mut top = heading(&self.title, &self.subtitle, size, &mut body) + 22.0;
        for line in wrapped(&self.heading(), (size.width() - 2.0 * margin(size)) / LETTER) {
            body += &text(margin(size), top, "label", "start", &escaped(&line));
            top += 14.0;
        }
        let left = margin(size) + 14.0 + LETTER * longest(self.y.1.iter().map(String::as_str));
        let (columns, rows) = (self.x.1.len().max(1) as f64, self.y.1.len().max(1) as f64);
        let width = (size.width() - margin(size) - 6.0 - left) / columns;
        let height = (size.panel_height() / rows).clamp(22.0, 60.0);
        let bottom = top + rows * height;
        // Whatever the number of columns, none runs into the next.
        let numbers: Vec<String> = self.cells.iter().flatten().map(|&value| short(value)).collect();
        let widest = longest(numbers.iter().chain(&self.x.1).map(String::as_str));
        let letter = px(LETTER.min((width - 4.0).max(1.0) / widest));
        body += &format!("<g class=\"panel\" style=\"font-size:{letter}px\">\n");
        for (row, cells) in self.cells.iter().enumerate() {
            let y = bottom - (row + 1) as f64 * height;
            let middle = y + height / 2.0 + 4.0;
            body += &text(left - 9.0, middle, "quiet", "end", &escaped(&self.y.1[row]));
            for (column, &value) in cells.iter().enumerate() {
                let x = left + column as f64 * width;
                body += &self.cell(value, (x, y), (width, height));
            }
        }
        for (column, label) in self.x.1.iter().enumerate() {
            let middle = left + (column as f64 + 0.5) * width;
            body += &text(middle, bottom + 19.0, "quiet", "middle", &escaped(label));
        }
        let middle = left + columns * width / 2.0;
        body += &text(middle, bottom + 41.0, "label", "middle", &escaped(&self.x.0));
        body += "</g>\n";
        let description = format!("{}. {}.", self.subtitle, self.heading());
        document(&self.title, &description, size, bottom + 54.0, &Palette::of(&[]), &body)
    }

    fn heading(&self) -> String {
        format!("{} (colour), {} (upwards)", self.value, self.y.0)
    }

    fn cell(&self, value: f64, (x, y): (f64, f64), (width, height): (f64, f64)) -> String {
        let place = format!("x=\"{}\" y=\"{}\"", px(x + 0.5), px(y + 0.5));
        let extent = format!("width=\"{}\" height=\"{}\"", px(width - 1.0), px(height - 1.0));
        let (middle, line) = (x + width / 2.0, y + height / 2.0 + 4.0);
        let Some(share) = self.share(value) else {
            return text(middle, line, "quiet", "middle", &short(value));
        };
        // The brighter half of the ramp takes dark text.
        let ink = if share > 0.55 { "#000000" } else { "#ffffff" };
        let number = escaped(&short(value));
        format!(
            "<rect class=\"cell\" {place} {extent} fill=\"{}\"/>\n<text x=\"{}\" y=\"{}\" \
             text-anchor=\"middle\" style=\"fill:{ink}\">{number}</text>\n",
            ramp_at(share),
            px(middle),
            px(line)
        )
    }

    /// Where a value lies between the lowest and the highest.
    fn share(&self, value: f64) -> Option<f64> {
        let all = self.cells.iter().flatten().filter_map(|cell| self.scale.coordinate(*cell));
        let low = all.clone().fold(f64::INFINITY, f64::min);
        let high = all.fold(f64::NEG_INFINITY, f64::max);
        let place = self.scale.coordinate(value)?;
        Some(if high > low { (place - low) / (high - low) } else { 0.5 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_a_cell_and_gaps_have_none() {
        let map = HeatMap {
            title: "Map".into(),
            subtitle: String::new(),
            value: "risk".into(),
            x: ("local_steps".into(), vec!["1".into(), "5".into()]),
            y: ("cohort".into(), vec!["2".into(), "<3>".into()]),
            scale: Scale::Log,
            cells: vec![vec![0.01, 1.0], vec![100.0, f64::NAN]],
        };
        let svg = map.to_svg(Size::Single);
        assert_eq!(svg.matches("class=\"cell\"").count(), 3);
        for part in ["#3b0f70", "#c9b218", "width=\"85mm\"", "&lt;3&gt;"] {
            assert!(svg.contains(part), "{part} is missing in\n{svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("var("));
        assert_eq!(map.share(1.0), Some(0.5));
    }
}
