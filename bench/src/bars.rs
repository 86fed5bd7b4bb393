//! A bar chart of times over a logarithmic axis, as SVG that follows the reader's theme.

use std::fmt::Write;

/// Bars that belong together.
pub struct Group {
    /// What they share.
    pub title: String,
    /// Names and nanoseconds a unit, ours first.
    pub bars: Vec<(String, f64)>,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 190.0;
const ROW: f64 = 22.0;

/// Draws the groups one under the other, on one axis.
pub fn svg(title: &str, groups: &[Group]) -> String {
    let values = || groups.iter().flat_map(|group| &group.bars).map(|(_, value)| value.log10());
    let low = values().fold(f64::INFINITY, f64::min).floor();
    let high = values().fold(f64::NEG_INFINITY, f64::max).ceil().max(low + 1.0);
    let place = |value: f64| (value.log10() - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    let rows: usize = groups.iter().map(|group| group.bars.len() + 2).sum();
    let height = 50.0 + rows as f64 * ROW;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\" role=\"img\">\n<title>{title}</title>\n\
         <style>svg{{background:#fff;fill:#222}}.ours{{fill:#0969da}}.peer{{fill:#9aa4af}}\
         @media(prefers-color-scheme:dark){{svg{{background:#0d1117;fill:#e6edf3}}\
         .peer{{fill:#57606a}}}}</style>\n\
         <text x=\"12\" y=\"24\" font-size=\"16\" font-weight=\"bold\">{title}</text>\n"
    );
    let mut y = 44.0;
    for group in groups {
        y += ROW;
        let _ =
            writeln!(out, "<text x=\"12\" y=\"{y}\" font-weight=\"bold\">{}</text>", group.title);
        let ours = group.bars.first().map_or(f64::NAN, |(_, value)| *value);
        for (k, (name, value)) in group.bars.iter().enumerate() {
            y += ROW;
            let (class, width) = (if k == 0 { "ours" } else { "peer" }, place(*value).max(1.0));
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{name}</text>\
                 <rect class=\"{class}\" x=\"{LEFT}\" y=\"{}\" width=\"{width:.1}\" height=\"15\"/>\
                 <text x=\"{:.1}\" y=\"{y}\">{} ns, {:.1}x</text>",
                LEFT - 8.0,
                y - 12.0,
                LEFT + width + 6.0,
                rounded(*value),
                value / ours,
            );
        }
        y += ROW;
    }
    out + "</svg>\n"
}

/// Three digits, and thousands separated.
fn rounded(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.*}", if value < 10.0 { 2 } else { 1 });
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (k, digit) in digits.chars().enumerate() {
        if k > 0 && (digits.len() - k).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(rounded(2.345), "2.35");
        assert_eq!(rounded(41.26), "41.3");
        assert_eq!(rounded(1234567.0), "1,234,567");
    }

    #[test]
    fn a_bar_for_everyone() {
        let bars = vec![("ours".into(), 2.0), ("theirs".into(), 30.0)];
        let svg = svg("t", &[Group { title: "g".into(), bars }]);
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains("30.0 ns, 15.0x"));
    }
}
