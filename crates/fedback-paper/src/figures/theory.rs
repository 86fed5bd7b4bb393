//! Measured against theory: the simulated mean, the exact expectation, the law of large t, and the
//! theorems' bounds as printed and as corrected, in one picture.

use fedback_core::protocol::{Protocol, Scheme};
use fedback_lab::figure::{Axis, Figure, Mark, Series};
use fedback_lab::measure::Measurement;
use fedback_lab::plan::Plan;
use fedback_theory::asymptotic::LargeTime;
use fedback_theory::bounds::{Bound, Bounds};
use fedback_theory::exact::ExactCurve;

use crate::bounds::{Guarantees, Overrides};
use crate::report::{Claim, Panel, Verdict};
use crate::study::{Studied, Study};

/// How far exact curves are followed, in local steps: to where the law of large t is visible.
const HORIZON: u64 = 1_000_000;

/// One panel a scheme, both axes logarithmic.
pub(super) fn panels(studies: &[Study], title: &str) -> Vec<Panel> {
    let points = &studies[0].points;
    points
        .iter()
        .map(|point| {
            let scheme = scheme_name(&point.plan.protocol);
            (format!("theory-{}", scheme.replace(' ', "-")), picture(point, title, &scheme))
        })
        .collect()
}

fn scheme_name(protocol: &Protocol) -> String {
    match protocol.scheme {
        Scheme::Full => "full participation".into(),
        Scheme::WithReplacement { .. } => "scheme I".into(),
        Scheme::WithoutReplacement { .. } => "scheme II".into(),
        Scheme::FirstArrivals { .. } => "first arrivals".into(),
    }
}

fn picture(point: &Studied, title: &str, scheme: &str) -> Figure {
    let guarantees = point.guarantees(&point.plan.protocol);
    let exact = long_curve(&point.plan, &point.plan.protocol);
    let simulated = point.run.curve.column(Measurement::Distance);
    let error = |sd: Option<f64>| 2.0 * sd.unwrap_or(0.0) / (point.run.repetitions as f64).sqrt();
    let measured = simulated.iter().map(|(t, s)| (*t as f64, s.mean)).collect();
    let band = simulated.iter().map(|(_, s)| (s.mean - error(s.sd), s.mean + error(s.sd)));
    let along = |of: &dyn Fn(f64) -> Option<f64>| -> Vec<(f64, f64)> {
        exact.iter().filter_map(|(t, _)| Some((*t, of(*t)?))).collect()
    };
    let bounds = &guarantees.bounds;
    let mut series = vec![
        Series::line("simulated", 0, measured).with_band(band.collect()),
        Series::line("exact", 0, exact.clone()).with_mark(Mark::Dashed),
    ];
    if let Ok(law) = &guarantees.asymptotic {
        let late = along(&|t| (t > 2000.0).then(|| law_at(law, t)));
        series.push(Series::line("law of large t", 1, late).with_mark(Mark::Dotted));
    }
    series.push(Series::line("bound as corrected", 2, along(&|t| bounds.corrected.at(t))));
    let printed = Series::line("bound as printed", 3, along(&|t| bounds.printed.at(t)));
    series.push(printed.with_mark(Mark::Dashed));
    Figure {
        title: format!("{title}: {scheme}"),
        subtitle: "the bounds are for the theorems' own, far smaller steps".into(),
        x: Axis::log("local step t"),
        y: Axis::log("squared distance to the stable point"),
        series,
    }
}

/// The law of large t with the square of the mean error, which is of lower order and yet the larger
/// part for long where there is little noise.
fn law_at(law: &LargeTime, step: f64) -> f64 {
    let mean = law.mean.iter().flatten().map(|m| (m / (step + law.gamma)).powi(2));
    law.at(step) + mean.sum::<f64>()
}

/// The exact mean square distance at geometrically spaced aggregations up to the horizon.
fn long_curve(plan: &Plan, protocol: &Protocol) -> Vec<(f64, f64)> {
    let stable = plan.stable_point.as_deref();
    let Ok(mut curve) = ExactCurve::new(plan.federation(), protocol, None, &plan.start, stable)
    else {
        return Vec::new();
    };
    let every = protocol.local_steps as u64;
    let (mut points, mut next) = (Vec::new(), every as f64);
    for step in (every..=HORIZON).step_by(every as usize) {
        curve.advance();
        if step as f64 >= next {
            points.extend(curve.moments().distance_sq.map(|distance| (step as f64, distance)));
            next = step as f64 * 1.04;
        }
    }
    points
}

/// The first step at which a curve is at most `goal`; infinite where none is.
fn arrival(curve: &[(f64, f64)], goal: f64) -> f64 {
    let first = curve.iter().find(|(_, distance)| *distance <= goal);
    first.map_or(f64::INFINITY, |(step, _)| *step)
}

/// T_ε by a bound.
fn steps_by(bound: &Bound, found: &Guarantees) -> f64 {
    found.cost(bound).map_or(f64::NAN, |cost| cost.steps)
}

/// What the theorems say against what happens.
pub(super) fn claims(studies: &[Study]) -> Vec<Claim> {
    let points = &studies[0].points;
    let mut claims = vec![rate(points), looseness(points)];
    claims.extend(constants(points));
    claims
}

fn rate(points: &[Studied]) -> Claim {
    let mut numbers = Vec::new();
    let mut agrees = true;
    for point in points {
        let scheme = scheme_name(&point.plan.protocol);
        let law = point.guarantees(&point.plan.protocol).asymptotic;
        let end = long_curve(&point.plan, &point.plan.protocol).last().copied();
        let ratio = match (law, end) {
            (Ok(law), Some((step, distance))) => distance / law_at(&law, step),
            _ => f64::NAN,
        };
        agrees &= (0.9..1.1).contains(&ratio);
        numbers.push((format!("{scheme}: exact distance to the law of large t, late"), ratio));
    }
    Claim {
        id: "rate-one-over-t",
        place: "section 3",
        statement: "P-FedAvg converges at the rate O(1/T)",
        verdict: Verdict::under(true, agrees, "2β times the gradient margin is above one"),
        reason: format!(
            "After {HORIZON} steps the exact mean square distance is compared with the law of \
             large t: the variance from a Lyapunov equation, over t, and the squared bias of \
             local steps, over t²."
        ),
        numbers,
    }
}

/// The bounds under their own steps against the exact recursion under these very steps.
fn looseness(points: &[Studied]) -> Claim {
    let mut numbers = Vec::new();
    let mut held = true;
    for point in points {
        let scheme = scheme_name(&point.plan.protocol);
        let guarantees = point.guarantees(&point.plan.protocol);
        let reached = long_curve(&point.plan, &point.plan.protocol);
        for (version, bound) in
            [("printed", &guarantees.bounds.printed), ("corrected", &guarantees.bounds.corrected)]
        {
            let Some(step_size) = bound.step_size() else { continue };
            let protocol = Protocol { step_size, ..point.plan.protocol };
            let curve = long_curve(&point.plan, &protocol);
            let above = |(t, distance): &(f64, f64)| {
                bound.at(*t).is_some_and(|b| *distance <= b * (1.0 + 1e-9))
            };
            held &= curve.iter().all(above);
            let name = format!("{scheme}, {version}: steps until 1 % by the bound");
            numbers.push((name, steps_by(bound, &guarantees)));
            if let Some(ratio) =
                reached.last().and_then(|(t, distance)| Some(bound.at(*t)? / distance))
            {
                numbers.push((format!("{scheme}, {version}: bound to exact, late"), ratio));
            }
        }
        let goal = guarantees.accuracy.unwrap_or(f64::NAN);
        numbers.push((format!("{scheme}: steps until 1 % in fact"), arrival(&reached, goal)));
    }
    Claim {
        id: "bounds-hold",
        place: "theorems 3.1 to 3.3",
        statement: "The mean square distance is at most υ/(γ + t)",
        verdict: Verdict::of(held),
        reason:
            "Under the theorems' own steps. The numbers of steps that the bounds ask for stand \
                 beside those that are needed with the steps of the figure."
                .into(),
        numbers,
    }
}

/// What section 3.4 says of B, T_ε, E and K.
fn constants(points: &[Studied]) -> Vec<Claim> {
    let [full, first, second] = points else { return Vec::new() };
    let local_steps = [2usize, 5, 10, 20, 50];
    let mut numbers = Vec::new();
    let spread: Vec<f64> = points
        .iter()
        .map(|point| {
            let values: Vec<f64> = local_steps
                .iter()
                .map(|&e| point.guarantees(&Protocol { local_steps: e, ..point.plan.protocol }))
                .filter_map(|found| found.bounds.printed.b.ok())
                .collect();
            let largest = values.iter().copied().fold(0.0, f64::max);
            let ratio = largest / values.iter().copied().fold(f64::INFINITY, f64::min);
            let scheme = scheme_name(&point.plan.protocol);
            numbers.push((format!("{scheme}: largest B to smallest, E = 2 to 50"), ratio));
            ratio
        })
        .collect();
    let almost_constant = Claim {
        id: "b-almost-constant",
        place: "section 3.4",
        statement: "B, B1 and B2 are almost constant with respect to E",
        verdict: Verdict::under(
            spread[0] < 2.0,
            spread[1].max(spread[2]) < 2.0,
            "all clients participate",
        ),
        reason: "As printed, over E = 2, 5, 10, 20, 50.".into(),
        numbers,
    };
    let b = |point: &Studied| {
        point.guarantees(&point.plan.protocol).bounds.printed.b.unwrap_or(f64::NAN)
    };
    let (b1, b2) = (b(first), b(second));
    let (left1, left2) = (first.left_at_the_end(), second.left_at_the_end());
    let agree = if (b1 > b2) == (left1 > left2) { "agree" } else { "do not agree" };
    let order = Claim {
        id: "b1-above-b2",
        place: "section 4.1",
        statement: "Scheme II is better because B1 > B2",
        verdict: Verdict::of(b1 > b2),
        reason: format!("The constants as printed; the exact expectations {agree} with the order."),
        numbers: vec![
            ("B1".into(), b1),
            ("B2".into(), b2),
            ("B, full".into(), b(full)),
            ("left at the end, scheme I".into(), left1),
            ("left at the end, scheme II".into(), left2),
        ],
    };
    vec![almost_constant, more_with_e(full), order, fewer_with_k(first)]
}

fn more_with_e(point: &Studied) -> Claim {
    let mut numbers = Vec::new();
    let costs: Vec<f64> = [1usize, 2, 5, 10, 20, 50]
        .iter()
        .map(|&e| {
            let found = point.guarantees(&Protocol { local_steps: e, ..point.plan.protocol });
            let steps = steps_by(&found.bounds.printed, &found);
            numbers.push((format!("E = {e}: T_eps for 1 % as printed"), steps));
            steps
        })
        .collect();
    let grows = costs.windows(2).all(|pair| pair[1] > pair[0]);
    let mut needed = |e: usize| {
        let protocol = Protocol { local_steps: e, ..point.plan.protocol };
        let curve = long_curve(&point.plan, &protocol);
        let goal = 0.01 * curve.first().map_or(f64::NAN, |(_, distance)| *distance);
        let steps = arrival(&curve, goal);
        numbers.push((format!("E = {e}: steps needed for 1 %"), steps));
        steps
    };
    let in_fact = needed(1) <= needed(10);
    Claim {
        id: "steps-grow-with-e",
        place: "section 3.4",
        statement: "The number of steps T_ε grows with E",
        verdict: Verdict::under(
            grows,
            in_fact,
            "the bound is meant, not the steps that are needed",
        ),
        reason: "The printed bound of full participation, for a hundredth of the first squared \
                 distance."
            .into(),
        numbers,
    }
}

impl Studied {
    /// The guarantees of the run under a protocol.
    fn guarantees(&self, protocol: &Protocol) -> Guarantees {
        Guarantees::of(&self.plan, protocol, &Overrides::default())
    }
}

fn fewer_with_k(point: &Studied) -> Claim {
    let mut numbers = Vec::new();
    let mut steps = |version: &str, of: fn(&Bounds) -> &Bound| {
        [5, 10, 20].map(|cohort| {
            let scheme = Scheme::WithReplacement { cohort };
            let found = point.guarantees(&Protocol { scheme, ..point.plan.protocol });
            let steps = steps_by(of(&found.bounds), &found);
            numbers.push((format!("{version}, K = {cohort}: T_eps for 1 %"), steps));
            steps
        })
    };
    let printed = steps("printed", |bounds| &bounds.printed);
    let corrected = steps("corrected", |bounds| &bounds.corrected);
    let falls = |values: &[f64]| values.windows(2).all(|pair| pair[1] < pair[0] * (1.0 - 1e-9));
    Claim {
        id: "steps-fall-with-k",
        place: "section 3.4",
        statement: "T_ε decreases monotonically with K",
        verdict: Verdict::under(
            falls(&printed) || falls(&corrected),
            falls(&printed),
            "the bounds are corrected",
        ),
        reason: "Scheme I. Where υ is γ times the first distance, the printed bound does not \
                 depend on K."
            .into(),
        numbers,
    }
}
