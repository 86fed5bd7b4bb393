//! The picture of a certificate: the contraction factor per round over the step size.
//!
//! Below one errors shrink. The curve crosses one at the largest stable step; the run's own steps are
//! marked on it, so that one sees on which side they are and how far from the edge.

use fedback_core::protocol::{Step, StepSize};
use fedback_theory::limit::RoundMap;

use super::Check;
use crate::chart::label_of;
use crate::dynamics::Dynamics;
use crate::figure::{Axis, Figure, Mark, Series};
use crate::plan::Plan;

/// Points of a curve.
const POINTS: usize = 32;
/// Factors beyond this are all alike.
const HIGHEST: f64 = 1.6;

/// The factor of one plan over step sizes.
struct Curve {
    /// How the legend calls it.
    label: String,
    /// (η, spectral radius of the mean round).
    mean: Vec<(f64, f64)>,
    /// (η, √ of the spectral radius on second moments).
    square: Vec<(f64, f64)>,
    /// The plan's own steps: the only one, or the first and the last.
    own: Vec<(f64, f64)>,
    /// Where squared errors stop shrinking.
    limit: Option<f64>,
}

impl Curve {
    /// The curve at the stable point of a check; at zeros where there is none but derivatives are
    /// the same everywhere. None where a round cannot be linearised.
    fn of(plan: &Plan, check: &Check, label: String) -> Option<Self> {
        let zeros = vec![0.0; plan.federation().dim()];
        let at = match &check.stable_point {
            Some(point) => point.as_slice(),
            None if plan.federation().is_affine() => &zeros,
            None => return None,
        };
        let dynamics = Dynamics::of(plan).ok()?;
        let arrived = dynamics.arrived.as_ref();
        let mut map = RoundMap::new(&dynamics.federation, &dynamics.protocol, arrived, at).ok()?;
        let own = own_steps(plan);
        let limit = check.stable_points.first().and_then(|point| point.largest_step);
        let around = own.iter().copied().chain(limit);
        let low = around.clone().fold(f64::INFINITY, f64::min);
        let high = around.fold(0.0, f64::max);
        let (low, high) = (0.3 * low, 1.5 * high);
        let ratio = libm::pow(high / low, 1.0 / (POINTS - 1) as f64);
        let mut sizes: Vec<f64> = (0..POINTS).map(|k| low * libm::pow(ratio, k as f64)).collect();
        // The edge is steep: it is looked at more closely.
        let edge = |limit: f64| (0..POINTS).map(move |k| limit * (0.3 + k as f64 / POINTS as f64));
        sizes.extend(limit.into_iter().flat_map(edge));
        sizes.sort_by(f64::total_cmp);
        let (mut mean, mut square) = (Vec::new(), Vec::new());
        for size in sizes {
            mean.extend(map.radius(size).filter(|r| *r <= HIGHEST).map(|r| (size, r)));
            let factor = map.mean_square_radius(size).map(f64::sqrt);
            square.extend(factor.filter(|r| *r <= HIGHEST).map(|r| (size, r)));
        }
        let own = own
            .into_iter()
            .map(|size| {
                let factor = map.mean_square_radius(size).map(f64::sqrt);
                (size, factor.unwrap_or(HIGHEST).min(HIGHEST))
            })
            .collect();
        Some(Curve { label, mean, square, own, limit })
    }
}

fn own_steps(plan: &Plan) -> Vec<f64> {
    match plan.protocol.step_size {
        StepSize::Constant(size) => vec![size],
        decaying => {
            let last = plan.spec.rounds.0 * plan.protocol.local_steps as u64 - 1;
            let mut sizes = vec![decaying.at(Step(0)), decaying.at(Step(last))];
            sizes.dedup();
            sizes
        }
    }
}

/// Curves that one figure can tell apart.
const MOST_CURVES: usize = 6;

/// The figure of one check, or of the points of a sweep; none where no round can be linearised.
pub fn picture(checks: &[(&Plan, Check)]) -> Option<Figure> {
    let label = |plan: &Plan| label_of(&plan.spec.name, &plan.set);
    let curves: Vec<Curve> = checks
        .iter()
        .take(MOST_CURVES)
        .filter_map(|(plan, check)| Curve::of(plan, check, label(plan)))
        .collect();
    let (plan, check) = checks.first()?;
    let title = match checks.len() {
        1 => format!("{}: {}", label(plan), check.verdict.name()),
        _ => format!("{}: which steps are small enough", plan.spec.name),
    };
    (!curves.is_empty()).then(|| figure(title, &curves))
}

fn figure(title: String, curves: &[Curve]) -> Figure {
    let mut series = Vec::new();
    let everywhere = curves.iter().flat_map(|curve| curve.mean.iter().chain(&curve.square));
    let sizes = everywhere.chain(curves.iter().flat_map(|curve| &curve.own)).map(|point| point.0);
    let low = sizes.clone().fold(f64::INFINITY, f64::min);
    let high = sizes.fold(0.0, f64::max);
    let several = curves.len() > 1;
    for (colour, curve) in curves.iter().enumerate() {
        let name = |what: &str| match several {
            true => format!("{}: {what}", curve.label),
            false => what.to_string(),
        };
        series.push(Series::line(name("squared errors, rooted"), colour, curve.square.clone()));
        if !several {
            let mean = Series::line(name("mean errors"), colour + 1, curve.mean.clone());
            series.push(mean.with_mark(Mark::Dashed));
        }
        let own = match curve.own.len() {
            1 => "the spec's own step",
            _ => "the spec's first and last step",
        };
        let own = Series::line(name(own), colour + 2, curve.own.clone());
        series.push(own.with_mark(Mark::Dots));
        if let Some(limit) = curve.limit.filter(|_| !several) {
            let name = name("largest stable step");
            series.push(Series::line(name, colour + 3, vec![(limit, 1.0)]).with_mark(Mark::Dots));
        }
    }
    let edge = Series::line("1: errors stay", 7, vec![(low, 1.0), (high, 1.0)]);
    series.push(edge.with_mark(Mark::Dotted));
    Figure {
        title,
        subtitle: "below 1 errors shrink from round to round, near the stable point".into(),
        x: Axis::log("step size"),
        y: Axis::linear("contraction factor per round"),
        series,
    }
}
