//! The credit experiment (section 4.2 and its appendix): rows instead of moments, so verdicts are
//! made on means of a few runs, and say so where those do not decide.

use fedback_core::protocol::Step;
use fedback_lab::measure::Measurement;
use fedback_lab::words;
use fedback_theory::degeneracy::degeneracy;
use fedback_theory::optimal::optimal_point;

use crate::report::{Claim, Panel, Verdict};
use crate::study::{Studied, Study};

/// Two panels for every batch size: the distance and the loss of the three schemes.
pub(super) fn panels(studies: &[Study], title: &str) -> Vec<Panel> {
    let mut panels = Vec::new();
    for study in studies {
        let start = match study.name.ends_with("from-stable") {
            true => ", started at the stable point",
            false => "",
        };
        for group in study.by_batch() {
            let batch = group[0].plan.protocol.batch;
            for measurement in [Measurement::Distance, Measurement::Risk] {
                let title = format!("{title}: batch {batch}{start}");
                let name = format!("{}-batch-{batch}-{}", study.name, measurement.name());
                panels.push((name, study.chart(group, &title, measurement)));
            }
        }
    }
    panels
}

/// The root mean square distance at the end.
fn end(point: &Studied) -> f64 {
    point.last_distance().sqrt()
}

/// The mean and the standard error of a measurement at the end.
fn last(point: &Studied, measurement: Measurement) -> (f64, f64) {
    let column = point.run.curve.column(measurement);
    let runs = point.run.repetitions as f64;
    column.last().map_or((f64::NAN, f64::NAN), |(_, statistic)| {
        (statistic.mean, statistic.sd.unwrap_or(0.0) / runs.sqrt())
    })
}

/// How much closer `better` ends than `worse`, in standard errors of the difference.
fn advantage(worse: &Studied, better: &Studied) -> f64 {
    let (worse, better) = (last(worse, Measurement::Distance), last(better, Measurement::Distance));
    (worse.0 - better.0) / (worse.1 * worse.1 + better.1 * better.1).sqrt()
}

/// Claims about runs of three schemes (full, I, II) for each of three batch sizes, started at zeros
/// and at the stable point.
pub(super) fn claims(studies: &[Study]) -> Vec<Claim> {
    let [from_zeros, from_stable, ..] = studies else { return Vec::new() };
    vec![
        similar(from_zeros),
        second_beats_first(from_zeros),
        batches(from_zeros),
        large_batch(from_zeros),
        stabilises(from_stable),
        performative(&from_zeros.points[0]),
    ]
}

/// The three schemes at the batch size of the main figure, 4, or the middle one.
fn main_group(study: &Study) -> &[Studied] {
    let groups = study.by_batch();
    groups[groups.len() / 2]
}

fn similar(study: &Study) -> Claim {
    let [full, first, second] = main_group(study) else { unreachable!("three schemes a batch") };
    let ratio = end(first).max(end(second)) / end(full);
    let losses = [full, first, second].map(|point| last(point, Measurement::Risk).0);
    let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let apart = losses.iter().copied().fold(0.0, f64::max) / least - 1.0;
    Claim {
        id: "credit-schemes-alike",
        place: "section 4.2",
        statement: "The convergence behaviours of all three schemes are very similar",
        verdict: Verdict::under(
            apart < 0.01,
            ratio < 1.1,
            "the loss is looked at, not the distance",
        ),
        reason: format!(
            "At the end the losses differ by {:.3} %, the distances by a factor of {ratio:.2}.",
            100.0 * apart
        ),
        numbers: vec![
            ("largest loss to smallest, less one".into(), apart),
            ("distance of the worse partial scheme to full participation's".into(), ratio),
        ],
    }
}

fn second_beats_first(study: &Study) -> Claim {
    let mut numbers = Vec::new();
    let scores: Vec<f64> = study
        .by_batch()
        .iter()
        .map(|group| {
            let score = advantage(&group[1], &group[2]);
            let batch = group[0].plan.protocol.batch;
            numbers.push((format!("batch {batch}: advantage of II in standard errors"), score));
            score
        })
        .collect();
    let verdict = if scores.iter().all(|score| *score > 2.0) {
        Verdict::Holds
    } else if scores.iter().all(|score| *score < -2.0) {
        Verdict::DoesNotHold
    } else {
        Verdict::NotDecidable
    };
    Claim {
        id: "credit-scheme-2-beats-scheme-1",
        place: "section 3.4",
        statement: "Scheme II slightly outperforms scheme I",
        verdict,
        reason: "Mean squared distances at the end, their difference in standard errors: with \
                 this many runs two of them are needed to tell."
            .into(),
        numbers,
    }
}

fn batches(study: &Study) -> Claim {
    let groups = study.by_batch();
    let improves = (0..3)
        .all(|scheme| groups.windows(2).all(|pair| end(&pair[1][scheme]) < end(&pair[0][scheme])));
    Claim {
        id: "credit-larger-batch-faster",
        place: "appendix",
        statement: "A larger batch size improves the convergence of all three schemes",
        verdict: Verdict::of(improves),
        reason: "Distances at the end, scheme by scheme.".into(),
        numbers: study.numbers("distance at the end", end),
    }
}

fn large_batch(study: &Study) -> Claim {
    let groups = study.by_batch();
    let [full, first, second] = groups[groups.len() - 1] else { unreachable!("three schemes") };
    let ratios = [end(first) / end(full), end(second) / end(full)];
    let batch = full.plan.protocol.batch;
    let clear = [first, second].iter().any(|partial| advantage(partial, full) > 2.0);
    Claim {
        id: "credit-large-batch-as-fast-as-full",
        place: "appendix",
        statement: "With batch size 16 both partial schemes converge as fast as full participation",
        verdict: match (ratios.iter().all(|ratio| *ratio < 1.1), clear) {
            (true, _) => Verdict::Holds,
            (false, true) => Verdict::DoesNotHold,
            (false, false) => Verdict::NotDecidable,
        },
        reason: format!(
            "With batch {batch} the distances at the end are {:.2} (I) and {:.2} (II) times that \
             of full participation: batches lower the noise of observations, not that of cohorts.",
            ratios[0], ratios[1]
        ),
        numbers: vec![
            ("distance at the end, scheme I to full".into(), ratios[0]),
            ("distance at the end, scheme II to full".into(), ratios[1]),
        ],
    }
}

fn stabilises(study: &Study) -> Claim {
    let share = |point: &Studied| {
        let peak = point.distances().iter().map(|(_, d)| *d).fold(0.0, f64::max);
        (point.last_distance() / peak).sqrt()
    };
    let worst = |single: bool| {
        let is_meant = |point: &&Studied| (point.plan.protocol.batch.size() == 1.0) == single;
        study.points.iter().filter(is_meant).map(share).fold(0.0, f64::max)
    };
    let (large, single) = (worst(false), worst(true));
    // The noise goes with the root of the step: before that has fallen to a quarter nothing can
    // have come back to half.
    let first = &study.points[0];
    let step = |t: u64| first.plan.protocol.step_size.at(Step(t));
    let decayed = step(first.last_step()) / step(0);
    Claim {
        id: "credit-stabilises-from-stable-point",
        place: "appendix",
        statement: "Started at the stable point the model deviates and stabilises back, for batch \
                    sizes larger than 1",
        verdict: match (large < 0.5, single < 0.5) {
            _ if decayed > 0.25 => Verdict::NotDecidable,
            (true, false) => Verdict::Holds,
            (true, true) => Verdict::HoldsOnlyWhere(
                "the restriction is dropped: a batch of 1 stabilises back as well".into(),
            ),
            (false, _) => Verdict::DoesNotHold,
        },
        reason: format!(
            "At the end at most {:.0} % of the largest distance is left with larger batches, \
             {:.0} % with a batch of 1.",
            100.0 * large,
            100.0 * single
        ),
        numbers: study.numbers("left of the peak", share),
    }
}

fn performative(point: &Studied) -> Claim {
    let stable = point.plan.stable_point.as_deref();
    let starts: Vec<&[f64]> = stable.into_iter().collect();
    let optimal = optimal_point(point.plan.federation(), &starts).map(|optimal| optimal.theta);
    let found = degeneracy(point.plan.federation(), stable, optimal.as_deref());
    let stable = stable.unwrap_or_default();
    let size = stable.iter().map(|t| t * t).sum::<f64>().sqrt();
    let number = |distance: Option<f64>| distance.unwrap_or(f64::NAN);
    Claim {
        id: "credit-is-performative",
        place: "section 4.2",
        statement: "The credit experiment shows learning under a performative shift",
        verdict: Verdict::under(
            true,
            !found.absorbed && !found.is_small(),
            "sensitivities differ far more between clients: here the free intercept nearly \
             absorbs the reaction",
        ),
        reason: words::degeneracy(&found),
        numbers: vec![
            ("size of the stable point".into(), size),
            ("its distance to the static minimiser".into(), number(found.stable_minus_static)),
            ("the same without the intercept".into(), number(found.stable_minus_static_features)),
            ("its distance to the optimal point".into(), number(found.stable_minus_optimal)),
        ],
    }
}
