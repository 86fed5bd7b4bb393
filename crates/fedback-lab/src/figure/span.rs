//! The range of an axis, its ticks and their labels.
//!
//! Positions are fractions of the range, so that pixels and characters can both be made of them.
//! Ticks are whole multiples of a power of ten, kept as integers until they are written: no label
//! ever reads 0.30000000000000004.

use super::Scale;

/// Values beyond this, or below its inverse, are out of reach: sums and powers of ten stay finite.
const LARGEST: f64 = 1e250;

impl Scale {
    /// The value itself or its decimal logarithm; none where the scale cannot show it.
    pub(super) fn coordinate(self, value: f64) -> Option<f64> {
        let size = value.abs();
        match self {
            _ if !size.is_finite() || size > LARGEST => None,
            Scale::Linear => Some(if size < LARGEST.recip() { 0.0 } else { value }),
            Scale::Log => (value >= LARGEST.recip()).then(|| value.log10()),
        }
    }
}

/// The range an axis shows, in the coordinates of its scale; never empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub scale: Scale,
    pub low: f64,
    pub high: f64,
}

/// A place on an axis, as a fraction of its span. Minor ticks have an empty label.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub at: f64,
    pub label: String,
}

impl Span {
    /// The range of `coordinates`, widened by a fraction `margin` on either side, though never
    /// across zero on a linear scale: a distance should not seem to become negative.
    pub(super) fn fit(scale: Scale, coordinates: &[f64], margin: f64) -> Self {
        let low = coordinates.iter().copied().fold(f64::INFINITY, f64::min);
        let high = coordinates.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let size = low.abs().max(high.abs());
        if low > high {
            return Self { scale, low: 0.0, high: 1.0 };
        }
        // Below this relative width, labels would need more digits than anyone reads.
        if high - low <= 1e-9 * size || high == low {
            let reach = match scale {
                Scale::Linear if size > 0.0 => size / 2.0,
                Scale::Linear => 1.0,
                Scale::Log => 0.6,
            };
            return Self { scale, low: low - reach, high: high + reach };
        }
        let reach = margin * (high - low);
        let (lower, higher) = (low - reach, high + reach);
        let linear = scale == Scale::Linear;
        Self {
            scale,
            low: if linear && low >= 0.0 { lower.max(0.0) } else { lower },
            high: if linear && high <= 0.0 { higher.min(0.0) } else { higher },
        }
    }

    fn fraction(&self, coordinate: f64) -> f64 {
        (coordinate - self.low) / (self.high - self.low)
    }

    /// Where `value` lies in the span, as a fraction; none where the scale cannot show it.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        self.scale.coordinate(value).map(|coordinate| self.fraction(coordinate))
    }

    /// As [`Span::place`], with everything out of reach moved to the nearer edge.
    pub(super) fn place_clipped(&self, value: f64) -> Option<f64> {
        let edge = if value > 0.0 { 1.0 } else { 0.0 };
        (!value.is_nan()).then(|| self.place(value).unwrap_or(edge).clamp(0.0, 1.0))
    }

    /// Ticks in increasing order, whose labels leave at most `most` intervals.
    pub(super) fn ticks(&self, most: usize) -> Vec<Tick> {
        let most = most.max(1);
        let decades = self.high - self.low;
        match self.scale {
            Scale::Linear => self.round_ticks(self.low, self.high, most),
            // Too narrow for two of the labels 1, 2 and 5.
            Scale::Log if decades < 0.7 => {
                self.round_ticks(10f64.powf(self.low), 10f64.powf(self.high), most)
            }
            Scale::Log => self.decade_ticks(if decades < 2.0 { 0 } else { most }),
        }
    }

    /// Multiples of 1, 2 or 5 times a power of ten between two values.
    fn round_ticks(&self, low: f64, high: f64, most: usize) -> Vec<Tick> {
        let raw = (high - low) / most as f64;
        let exponent = raw.log10().floor() as i32;
        let (digit, exponent) = match raw / 10f64.powi(exponent) {
            ..=1.0 => (1, exponent),
            ..=2.0 => (2, exponent),
            ..=5.0 => (5, exponent),
            _ => (1, exponent + 1),
        };
        let step = digit as f64 * 10f64.powi(exponent);
        // The slack keeps a tick that rounding has put just outside its own edge.
        let first = (low / step - 1e-6).ceil() as i64;
        let last = (high / step + 1e-6).floor() as i64;
        let largest = first.abs().max(last.abs()) * digit;
        (first..=last)
            .filter_map(|multiple| {
                let label = number(multiple * digit, exponent, largest);
                let at = self.place(multiple as f64 * step)?.clamp(0.0, 1.0);
                Some(Tick { at, label })
            })
            .collect()
    }

    /// Powers of ten, at most `most` of them labelled; with `most == 0` also their multiples by 2
    /// and 5. The other multiples, or else the powers passed over, become minor ticks.
    fn decade_ticks(&self, most: usize) -> Vec<Tick> {
        let (first, last) = (self.low.floor() as i32, self.high.floor() as i32);
        let shown = (last - self.low.ceil() as i32 + 1).max(1) as usize;
        let stride = if most == 0 { 1 } else { shown.div_ceil(most) as i32 };
        let plain = self.low >= -3.3 && self.high <= 3.3;
        let digits = if stride == 1 { 1..=9 } else { 1..=1 };
        (first..=last)
            .flat_map(|exponent| digits.clone().map(move |digit| (digit, exponent)))
            .map(|(digit, exponent)| {
                let label = match digit {
                    1 if exponent % stride != 0 => String::new(),
                    1 if plain || most == 0 => number(1, exponent, 1),
                    1 => format!("10{}", superscript(exponent)),
                    2 | 5 if most == 0 => number(digit, exponent, digit),
                    _ => String::new(),
                };
                Tick { at: self.fraction(f64::from(exponent) + (digit as f64).log10()), label }
            })
            .filter(|tick| (0.0..=1.0).contains(&tick.at))
            .collect()
    }
}

/// The decimal `digits` × 10^`exponent`, in the form that suits the `largest` on its axis.
fn number(digits: i64, exponent: i32, largest: i64) -> String {
    if digits == 0 {
        return "0".to_owned();
    }
    let sign = if digits < 0 { "−" } else { "" };
    let leading = exponent + largest.max(1).ilog10() as i32;
    let scientific = !(-4..7).contains(&leading);
    let shift = if scientific { leading } else { 0 };
    let decimals = usize::try_from(shift - exponent).unwrap_or(0);
    let value = digits.unsigned_abs() as f64 * 10f64.powi(exponent - shift);
    let value = format!("{value:.decimals$}");
    let power = if scientific { format!("×10{}", superscript(leading)) } else { String::new() };
    format!("{sign}{}{power}", grouped(&value))
}

/// Thin spaces between thousands, from five digits on.
fn grouped(value: &str) -> String {
    let whole = value.find('.').unwrap_or(value.len());
    let mut out = value.to_owned();
    if whole > 4 {
        for at in (1..whole).filter(|at| (whole - at).is_multiple_of(3)).rev() {
            out.insert(at, '\u{2009}');
        }
    }
    out
}

pub(super) const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

fn superscript(exponent: i32) -> String {
    let sign = if exponent < 0 { "⁻" } else { "" };
    let digits = exponent.unsigned_abs().to_string();
    sign.chars()
        .chain(digits.bytes().map(|digit| SUPERSCRIPTS[usize::from(digit - b'0')]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, low: f64, high: f64) -> String {
        let coordinates: Vec<f64> =
            [low, high].into_iter().filter_map(|value| scale.coordinate(value)).collect();
        let ticks = Span::fit(scale, &coordinates, 0.0).ticks(6);
        assert!(ticks.is_sorted_by(|a, b| a.at < b.at), "{ticks:?}");
        assert!(ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.at)), "{ticks:?}");
        let labels = ticks.into_iter().map(|tick| tick.label).filter(|label| !label.is_empty());
        labels.collect::<Vec<String>>().join(" | ")
    }

    #[test]
    fn linear_ticks_are_round() {
        let labels = |low, high| labels(Scale::Linear, low, high);
        assert_eq!(labels(0.0, 1.0), "0 | 0.2 | 0.4 | 0.6 | 0.8 | 1.0");
        assert_eq!(labels(0.1, 0.7), "0.1 | 0.2 | 0.3 | 0.4 | 0.5 | 0.6 | 0.7");
        assert_eq!(labels(-3.0, 7.0), "−2 | 0 | 2 | 4 | 6");
        assert_eq!(labels(0.0, 24e3), "0 | 5000 | 10\u{2009}000 | 15\u{2009}000 | 20\u{2009}000");
        assert_eq!(
            labels(0.0, 3e8),
            "0 | 0.5×10⁸ | 1.0×10⁸ | 1.5×10⁸ | 2.0×10⁸ | 2.5×10⁸ | 3.0×10⁸"
        );
        assert_eq!(
            labels(0.101, 0.104),
            "0.1010 | 0.1015 | 0.1020 | 0.1025 | 0.1030 | 0.1035 | 0.1040"
        );
        assert_eq!(labels(0.0, 4e-7), "0 | 1×10⁻⁷ | 2×10⁻⁷ | 3×10⁻⁷ | 4×10⁻⁷");
    }

    #[test]
    fn log_ticks_follow_the_decades() {
        let labels = |low, high| labels(Scale::Log, low, high);
        assert_eq!(labels(1e-4, 50.0), "10⁻⁴ | 10⁻³ | 10⁻² | 10⁻¹ | 10⁰ | 10¹");
        assert_eq!(labels(1e-3, 1e4), "10⁻² | 10⁰ | 10² | 10⁴");
        assert_eq!(labels(0.5, 900.0), "1 | 10 | 100");
        assert_eq!(labels(2.0, 60.0), "2 | 5 | 10 | 20 | 50");
        assert_eq!(labels(3.0, 6.0), "3.0 | 3.5 | 4.0 | 4.5 | 5.0 | 5.5 | 6.0");
        assert_eq!(labels(1e-9, 2e-8), "1×10⁻⁹ | 2×10⁻⁹ | 5×10⁻⁹ | 1×10⁻⁸ | 2×10⁻⁸");
    }

    #[test]
    fn unlabelled_ticks_mark_the_multiples_of_a_decade() {
        let ticks = Span { scale: Scale::Log, low: 0.0, high: 3.0 }.ticks(6);
        assert_eq!(ticks.len(), 3 * 9 + 1);
        assert!((ticks[1].at - 2f64.log10() / 3.0).abs() < 1e-15 && ticks[1].label.is_empty());
    }

    #[test]
    fn spans_are_never_empty() {
        for values in [vec![], vec![0.0], vec![7.0, 7.0], vec![-2.0], vec![1e250, -1e250]] {
            let span = Span::fit(Scale::Linear, &values, 0.04);
            assert!(span.low < span.high, "{values:?} gives {span:?}");
            assert!(span.ticks(6).len() >= 2, "{values:?} gives {:?}", span.ticks(6));
        }
    }

    #[test]
    fn the_margin_does_not_cross_zero() {
        let edges = |low, high| {
            let span = Span::fit(Scale::Linear, &[low, high], 0.1);
            (span.low, span.high)
        };
        assert_eq!(edges(0.0, 10.0), (0.0, 11.0));
        assert_eq!(edges(0.5, 10.5), (0.0, 11.5));
        assert_eq!(edges(-10.0, -0.5), (-10.95, 0.0));
        assert_eq!(edges(-5.0, 5.0), (-6.0, 6.0));
    }

    #[test]
    fn what_is_out_of_reach_moves_to_the_nearer_edge() {
        let span = Span { scale: Scale::Log, low: 0.0, high: 2.0 };
        let places = [-5.0, 0.0, 0.1, 10.0, 1e9, f64::INFINITY, f64::NAN];
        let places = places.map(|value| span.place_clipped(value));
        let expected = [0.0, 0.0, 0.0, 0.5, 1.0, 1.0].map(Some);
        assert_eq!(places[..6], expected);
        assert_eq!(places[6], None);
    }
}
