//! Path data: lines, markers, and as few points of a long series as give the same picture.

use super::super::Mark;
use super::style::SLOTS;

/// In pixels.
pub(super) type Point = (f64, f64);

/// Series of more points than this are thinned to about as many.
const MANY_POINTS: usize = 1000;
/// Two points survive in each column of this width when a series is thinned.
const COLUMN_WIDTH: f64 = 1.5;

/// A run out of a series of `points` points. If those are many it keeps its ends and, in every
/// narrow column, the lowest and the highest point: what a pen of some width would have covered.
pub(super) fn thinned(run: Vec<Point>, points: usize) -> Vec<Point> {
    if points <= MANY_POINTS {
        return run;
    }
    let mut kept: Vec<Point> = run.first().copied().into_iter().collect();
    for stack in run.chunk_by(|a, b| column(a) == column(b)) {
        let by_height = |&a: &usize, &b: &usize| stack[a].1.total_cmp(&stack[b].1);
        let highest = (0..stack.len()).min_by(by_height);
        let lowest = (0..stack.len()).max_by(by_height);
        kept.extend(highest.min(lowest).map(|index| stack[index]));
        kept.extend(highest.max(lowest).map(|index| stack[index]));
    }
    kept.extend(run.last());
    kept.dedup();
    kept
}

/// As [`thinned`], for a band of upper and lower points: each column keeps its widest extent, which
/// is calmer than two jagged edges and hides nothing.
pub(super) fn thinned_band(run: Vec<(Point, Point)>, points: usize) -> Vec<(Point, Point)> {
    if points <= MANY_POINTS {
        return run;
    }
    let mut kept: Vec<(Point, Point)> = run.first().copied().into_iter().collect();
    for stack in run.chunk_by(|a, b| column(&a.0) == column(&b.0)) {
        let uppers = stack.iter().map(|pair| pair.0);
        let lowers = stack.iter().map(|pair| pair.1);
        let upper = uppers.min_by(|a, b| a.1.total_cmp(&b.1));
        kept.extend(upper.zip(lowers.max_by(|a, b| a.1.total_cmp(&b.1))));
    }
    kept.extend(run.last());
    kept.dedup();
    kept
}

fn column(point: &Point) -> f64 {
    (point.0 / COLUMN_WIDTH).floor()
}

pub(super) fn curve(mark: Mark, path: &str) -> String {
    format!("<path class=\"curve {mark:?}\" d=\"{path}\"/>")
}

/// A line through the points; a single point has no length and shows by its round caps.
pub(super) fn polyline(points: &[Point]) -> String {
    let mut path = String::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        let command = ["M", "L", " "][index.min(2)];
        path += &format!("{command}{} {}", px(x), px(y));
    }
    if points.len() == 1 { path + "h0" } else { path }
}

/// A hollow marker at each point, so that it stays visible on a line of its own colour.
pub(super) fn dots(points: &[Point], colour: usize) -> String {
    let shapes: [&str; SLOTS] = [
        "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
        "m-3.2-3.2h6.4v6.4h-6.4z",
        "m0-4.2l4 7.2h-8z",
        "m0-4.6l4.6 4.6-4.6 4.6-4.6-4.6z",
        "m0 4.2l4-7.2h-8z",
        "m-4 0h8m-4-4v8",
        "m-3-3l6 6m0-6l-6 6",
        "m-4 0l2-3.5h4l2 3.5-2 3.5h-4z",
    ];
    let shape = shapes[colour % SLOTS];
    let marker = |&(x, y): &Point| format!("M{} {}{shape}", px(x), px(y));
    curve(Mark::Dots, &points.iter().map(marker).collect::<String>())
}

/// An upright bar between each pair of an upper and a lower point.
pub(super) fn bars(pairs: &[(Point, Point)]) -> String {
    let bar = |(upper, lower): &(Point, Point)| {
        format!("M{} {}V{}", px(upper.0), px(upper.1), px(lower.1))
    };
    let path: String = pairs.iter().map(bar).collect();
    let style = "fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\"";
    format!("<path class=\"bars\" {style} d=\"{path}\"/>")
}

/// A pixel coordinate to a tenth, without a negative zero.
pub(super) fn px(value: f64) -> String {
    format!("{}", (value * 10.0).round() / 10.0 + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_ends_order_and_extremes() {
        let mut run: Vec<Point> =
            (0..10_000).map(|i| (f64::from(i) * 0.07, f64::from(i * 37 % 100))).collect();
        run[5_001].1 = -900.0;
        run[5_003].1 = 900.0;
        let thin = thinned(run.clone(), run.len());
        assert!(thin.len() <= 1000, "{} points", thin.len());
        assert!(thin.contains(&run[5_001]) && thin.contains(&run[5_003]));
        assert_eq!((thin.first(), thin.last()), (run.first(), run.last()));
        assert!(thin.is_sorted_by(|a, b| a.0 < b.0));
        let stacks = run.chunk_by(|a, b| column(a) == column(b));
        for (stack, kept) in stacks.zip(thin.chunk_by(|a, b| column(a) == column(b))) {
            let range = |points: &[Point]| {
                let ys = points.iter().map(|point| point.1);
                (ys.clone().fold(f64::INFINITY, f64::min), ys.fold(f64::NEG_INFINITY, f64::max))
            };
            assert_eq!(range(stack), range(kept));
        }
    }

    #[test]
    fn a_thinned_band_keeps_its_widest_extent() {
        let pair = |x: f64, high: f64, low: f64| ((x, high), (x, low));
        let band = vec![
            pair(0.0, 5.0, 6.0),
            pair(0.1, 1.0, 7.0),
            pair(0.2, 2.0, 9.0),
            pair(9.0, 3.0, 4.0),
        ];
        let kept = vec![band[0], ((0.1, 1.0), (0.2, 9.0)), band[3]];
        assert_eq!(thinned_band(band, 1001), kept);
    }

    #[test]
    fn short_series_are_left_alone() {
        let run: Vec<Point> = (0..1000).map(|i| (0.0, f64::from(i))).collect();
        assert_eq!(thinned(run.clone(), 1000), run);
        assert_eq!(thinned(run, 1001).len(), 2);
    }

    #[test]
    fn paths_are_rounded_to_a_tenth() {
        assert_eq!(polyline(&[(1.0, 2.04), (-0.01, 3.25), (1.0 / 3.0, 5.0)]), "M1 2L0 3.3 0.3 5");
        assert_eq!(polyline(&[(1.0, 2.0)]), "M1 2h0");
        assert_eq!(polyline(&[]), "");
    }
}
