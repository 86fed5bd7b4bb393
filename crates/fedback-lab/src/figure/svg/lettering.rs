//! Text: how wide it is, where it breaks, how it is written.
//!
//! Who opens a figure decides on the font, and may not be able to measure it: the converters in use
//! (librsvg, CairoSVG) know neither embedded fonts nor `textLength`. Room is therefore left for the
//! widest font in common use, DejaVu Sans, which is about as wide as Verdana.

use super::super::span::SUPERSCRIPTS;
use super::path::px;

/// How wide a text is at most, in units of the font's size.
pub(super) fn width(text: &str) -> f64 {
    text.chars().map(letter).sum()
}

fn letter(c: char) -> f64 {
    match c {
        ' ' | 'i' | 'j' | 'l' | 'I' | 'J' | '.' | ',' | ':' | ';' | '!' | '|' | '\'' | '·' => 0.34,
        'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '-' | '/' | '"' => 0.47,
        'm' | 'M' | 'w' | 'W' | '%' | '@' | '\u{2014}' | '\u{2026}' | '\u{2e80}'.. => 1.0,
        'A'..='Z' | '+' | '=' | '<' | '>' | '−' | '~' => 0.84,
        _ => 0.65,
    }
}

/// The width of the longest of some labels.
pub(super) fn longest<'a>(labels: impl Iterator<Item = &'a str>) -> f64 {
    labels.map(width).fold(0.0, f64::max)
}

/// Lines of at most a width, broken between words; a word that is wider is broken anywhere.
pub(super) fn wrapped(words: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        let fits = |line: &mut String| width(line) + width(" ") + width(word) <= room;
        let mut line = match lines.pop_if(fits) {
            Some(line) => line + " ",
            None => String::new(),
        };
        for c in word.chars() {
            if !line.is_empty() && width(&line) + letter(c) > room {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
        lines.push(line);
    }
    lines
}

pub(super) fn text(x: f64, y: f64, class: &str, anchor: &str, content: &str) -> String {
    let place = format!("x=\"{}\" y=\"{}\"", px(x), px(y));
    format!("<text class=\"{class}\" {place} text-anchor=\"{anchor}\">{content}</text>\n")
}

/// A tick label with its exponent set as a raised span: few fonts have all superscript digits in
/// one size.
pub(super) fn raised(label: &str) -> String {
    let digit = |c: char| match SUPERSCRIPTS.iter().position(|&superscript| superscript == c) {
        Some(digit) => digit.to_string(),
        None => "−".to_owned(),
    };
    let Some(at) = label.find(|c| c == '⁻' || SUPERSCRIPTS.contains(&c)) else {
        return label.to_owned();
    };
    let exponent: String = label[at..].chars().map(digit).collect();
    format!("{}<tspan dy=\"-5\" font-size=\"9\">{exponent}</tspan>", &label[..at])
}

/// Text fit for XML content and attributes. Characters that XML forbids even when escaped are
/// replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\r' | '\t' => out.push(' '),
            '\0'..' ' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_lose_nothing() {
        let words = "WITHOUT replacement, a_name_without_any_space_that_is_long  and 銀行の名前";
        for room in [1.0, 4.0, 9.0, 30.0, 100.0] {
            let lines = wrapped(words, room);
            assert!(lines.iter().all(|line| width(line) <= room), "{lines:?}");
            let all = |text: &str| text.replace(' ', "");
            assert_eq!(all(&lines.concat()), all(words));
        }
        assert_eq!(wrapped(words, 100.0).len(), 1);
        assert_eq!(wrapped("local steps", 4.0), ["local", "steps"]);
        assert!(wrapped("  ", 4.0).is_empty());
    }
}
