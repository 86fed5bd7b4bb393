//! The lowest point of a function of one number: walk downhill until it is enclosed, then parabolas.
//!
//! The functions here are squares of something that passes through zero plus something that hardly
//! changes, so that a parabola through three points finds the bottom at once. Where later rounds
//! decide they have kinks, and where rounds are unstable they are infinite: there the longer side is
//! cut in the golden ratio.

/// A point of a function.
pub(super) type Point = (f64, f64);

/// How close is close enough.
#[derive(Clone, Copy)]
pub(super) struct Close {
    /// Places.
    pub(super) apart: f64,
    /// Values, in units of one more than theirs.
    pub(super) flat: f64,
}

/// The share of the longer side that is cut off: 2 − (1 + √5)/2.
const GOLDEN: f64 = 0.381_966_011_250_105;
/// Steps downhill, and points between, at most.
const MOST: usize = 24;

/// Encloses a low point of `function` from a place and a width, then goes there. A value of zero or
/// below is low enough: the search ends with it.
pub(super) fn lowest(
    function: &mut dyn FnMut(f64) -> f64,
    start: f64,
    width: f64,
    close: Close,
) -> Point {
    let mut at = |x: f64| (x, function(x));
    let mut middle = at(start);
    if middle.1 <= 0.0 {
        return middle;
    }
    let (mut left, mut right) = (at(start - width), at(start + width));
    let mut step = width;
    for _ in 0..MOST {
        step *= 1.6;
        if left.1 < middle.1 && left.1 <= right.1 {
            (left, middle, right) = (at(left.0 - step), left, middle);
        } else if right.1 < middle.1 {
            (left, middle, right) = (middle, right, at(right.0 + step));
        } else {
            break;
        }
        if middle.1 <= 0.0 {
            return middle;
        }
    }
    for turn in 0..MOST {
        let flat = left.1.max(right.1) - middle.1 <= close.flat * (1.0 + middle.1);
        if middle.1 <= 0.0 || flat || right.0 - left.0 <= close.apart {
            break;
        }
        // Every third cut is golden, so that both sides shrink.
        let vertex = if turn % 3 == 2 { None } else { parabola(left, middle, right) };
        let golden = match middle.0 - left.0 > right.0 - middle.0 {
            true => middle.0 - GOLDEN * (middle.0 - left.0),
            false => middle.0 + GOLDEN * (right.0 - middle.0),
        };
        let next = at(vertex.unwrap_or(golden));
        match (next.1 < middle.1, next.0 < middle.0) {
            (true, true) => (middle, right) = (next, middle),
            (true, false) => (left, middle) = (middle, next),
            (false, true) => left = next,
            (false, false) => right = next,
        }
    }
    middle
}

/// Where the parabola through three points is lowest, unless that is next to one of them.
fn parabola(left: Point, middle: Point, right: Point) -> Option<f64> {
    let (a, b) = (middle.0 - left.0, middle.0 - right.0);
    let (down, up) = (a * (middle.1 - right.1), b * (middle.1 - left.1));
    let x = middle.0 - 0.5 * (a * down - b * up) / (down - up);
    let apart = 0.02 * (right.0 - left.0);
    let inside = x - left.0 > apart && right.0 - x > apart && (x - middle.0).abs() > 0.1 * apart;
    (x.is_finite() && inside).then_some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_valley_is_found() {
        for (bottom, floor) in [(0.3, 0.5), (-2.0, 4.0), (7.0, 0.01)] {
            let mut count = 0;
            let mut valley = |x: f64| {
                count += 1;
                1e6 * (x - bottom) * (x - bottom) + floor
            };
            let (_, value) = lowest(&mut valley, 0.0, 0.1, Close { apart: 1e-9, flat: 0.003 });
            assert!(value < 1.02 * floor + 0.01, "{bottom}: {value}");
            assert!(count < 40, "{count}");
        }
    }

    #[test]
    fn a_kink_at_a_wall() {
        let mut valley = |x: f64| match x > 1.0 {
            true => f64::INFINITY,
            false => (3.0 * (x - 0.8)).max(40.0 * (0.8 - x)) + 1.0,
        };
        let (x, value) = lowest(&mut valley, 0.0, 0.3, Close { apart: 1e-4, flat: 0.003 });
        assert!((x - 0.8).abs() < 2e-3 && value < 1.03, "{x} {value}");
    }

    #[test]
    fn low_enough_ends_it() {
        let mut count = 0;
        let mut line = |x: f64| {
            count += 1;
            1.0 - x
        };
        assert!(lowest(&mut line, 0.0, 0.5, Close { apart: 1e-6, flat: 0.003 }).1 <= 0.0);
        assert!(count < 6, "{count}");
    }
}
