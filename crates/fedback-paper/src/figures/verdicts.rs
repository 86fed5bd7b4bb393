//! What the numbers say of the paper's claims.
//!
//! Decisions are made on exact expectations, never on noise; what single runs show is given beside
//! where a claim was read off one.

use fedback_core::protocol::StepSize;
use fedback_lab::exact::exact;
use fedback_lab::plan::Plan;
use fedback_lab::spec::{All, Batch, Count};
use fedback_lab::words::short;
use fedback_theory::optimal::optimal_point;

use crate::report::{Claim, Verdict};
use crate::study::{Studied, Study};

/// A run has converged as far as its step sizes let it when less than this share of the error is
/// left.
const CONVERGED: f64 = 0.1;

/// Whether each value is at most the one before.
pub(super) fn falls(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-12))
}

/// The share of common records at which `a` is expected closer than `b`.
fn share_closer(a: &Studied, b: &Studied) -> f64 {
    let (a, b) = (a.distances(), b.distances());
    let closer = a.iter().zip(&b).skip(1).filter(|(a, b)| a.1 < b.1 * (1.0 - 1e-12)).count();
    closer as f64 / (a.len().min(b.len()) - 1) as f64
}

/// The share of repetitions in which `a` ends closer than `b`.
fn share_of_runs_closer(a: &Studied, b: &Studied) -> f64 {
    let (a, b) = (a.final_distances(), b.final_distances());
    a.iter().zip(&b).filter(|(a, b)| a < b).count() as f64 / a.len() as f64
}

fn cohort_size(plan: &Plan) -> f64 {
    plan.spec
        .algorithm
        .rounds()
        .cohort
        .map_or(plan.federation().clients() as f64, |cohort| cohort.0 as f64)
}

/// Convergence of the three schemes: full, I, II in this order.
pub(super) fn convergence(studies: &[Study]) -> Vec<Claim> {
    let [full, first, second, ..] = studies[0].points.as_slice() else { return Vec::new() };
    let left = [full, first, second].map(Studied::left_at_the_end);
    let converges = Claim {
        id: "all-schemes-converge",
        place: "section 4.1",
        statement: "P-FedAvg converges to the performatively stable solution in all three settings",
        verdict: Verdict::of(left.iter().all(|share| *share < CONVERGED)),
        reason: format!(
            "Of the root mean square distance {:.2} %, {:.2} % and {:.2} % are left at the end.",
            100.0 * left[0],
            100.0 * left[1],
            100.0 * left[2]
        ),
        numbers: vec![
            ("left at the end, full".into(), left[0]),
            ("left at the end, scheme I".into(), left[1]),
            ("left at the end, scheme II".into(), left[2]),
        ],
    };
    let (expected, runs) = (share_closer(second, full), share_of_runs_closer(second, full));
    let fastest = Claim {
        id: "scheme-2-fastest",
        place: "section 4.1",
        statement: "Partial participation with scheme II converges the fastest",
        verdict: Verdict::of(expected > 0.5),
        reason: format!(
            "Scheme II is expected closer than full participation at {:.0} % of the records: its \
             mean is the same and sampling adds variance. In single runs chance decides as well: \
             {:.0} % of these ended closer.",
            100.0 * expected,
            100.0 * runs
        ),
        numbers: vec![
            ("share of records where II is expected closer than full".into(), expected),
            ("share of runs where II ended closer than full".into(), runs),
        ],
    };
    let better = share_closer(second, first);
    let against_first = Claim {
        id: "scheme-2-beats-scheme-1",
        place: "sections 3.4 and 4.1",
        statement: "With equal weights scheme II converges better than scheme I",
        verdict: Verdict::of(better == 1.0),
        reason: format!(
            "Scheme II is expected closer than scheme I at {:.0} % of the records.",
            100.0 * better
        ),
        numbers: vec![("share of records where II is expected closer than I".into(), better)],
    };
    vec![converges, fastest, against_first, similar(full, first), stable_and_optimal(full)]
}

/// All schemes alike: true as long as the mean error dominates, and then not.
fn similar(full: &Studied, partial: &Studied) -> Claim {
    let ratio = |(f, p): (&(u64, f64), &(u64, f64))| (f.0, (p.1 / f.1).sqrt());
    let ratios: Vec<(u64, f64)> =
        full.distances().iter().zip(&partial.distances()).map(ratio).collect();
    let alike = ratios.iter().take_while(|(_, ratio)| *ratio < 1.1).last().map_or(0, |r| r.0);
    let last = ratios[ratios.len() - 1];
    let early = format!("the distance of the start still dominates (here up to step {alike})");
    Claim {
        id: "schemes-alike",
        place: "sections 3.4 and 4.1",
        statement: "The schemes behave very similarly, with a weak dependence on K",
        verdict: Verdict::under(true, last.1 < 1.1, &early),
        reason: format!(
            "The expected distance under scheme I stays within 10 % of full participation up to \
             step {alike}; at step {} it is {:.1} times as large.",
            last.0, last.1
        ),
        numbers: vec![
            ("last step within 10 % of full participation".into(), alike as f64),
            ("ratio of distances at the end, scheme I to full".into(), last.1),
        ],
    }
}

fn stable_and_optimal(point: &Studied) -> Claim {
    let federation = point.plan.federation();
    let stable = point.plan.stable_point.clone().unwrap_or_default();
    let risk_stable = federation.risk(&stable, &stable);
    let optimal = optimal_point(federation, &[]);
    let (theta, risk) = optimal.map_or((f64::NAN, f64::NAN), |o| (o.theta[0], o.risk));
    let near = (risk_stable - risk) <= 0.1 * risk;
    Claim {
        id: "stable-approximates-optimal",
        place: "section 2.3",
        statement: "The stable solution is a provable approximation of the optimal one",
        verdict: Verdict::under(
            true,
            near,
            "the loss is Lipschitz in the data, which this problem's is not",
        ),
        reason: format!(
            "Here the stable point is {:.2} at a risk of {risk_stable:.1}, the optimal one \
             {theta:.2} at {risk:.1}.",
            stable.first().copied().unwrap_or(f64::NAN)
        ),
        numbers: vec![
            ("stable point".into(), stable.first().copied().unwrap_or(f64::NAN)),
            ("optimal point".into(), theta),
            ("risk at the stable point".into(), risk_stable),
            ("risk at the optimal point".into(), risk),
        ],
    }
}

/// K ascending; scheme I, then scheme II.
pub(super) fn cohort(studies: &[Study]) -> Vec<Claim> {
    let numbers = |study: &Study| -> Vec<(String, f64)> {
        let name = |point: &Studied| {
            format!("{}, K = {}: left at the end", study.caption(), cohort_size(&point.plan))
        };
        study.points.iter().map(|point| (name(point), point.left_at_the_end())).collect()
    };
    let (first, second) = (&studies[0], &studies[1]);
    let improves = Claim {
        id: "scheme-1-improves-with-k",
        place: "section 4.1",
        statement: "For scheme I a larger K leads to faster convergence",
        verdict: Verdict::of(falls(&first.each(Studied::left_at_the_end))),
        reason: "The sampling variance is the consensus error over K.".into(),
        numbers: numbers(first),
    };
    let monotone = falls(&second.each(Studied::left_at_the_end));
    let mut deciding = numbers(second);
    let single = best_in_single_runs(second);
    // The largest K is full participation.
    let smaller: f64 = single.iter().rev().skip(1).map(|(_, share)| share).sum();
    deciding.extend(single);
    let turns = Claim {
        id: "scheme-2-not-monotone-in-k",
        place: "section 4.1",
        statement: "For scheme II the convergence rate first increases and then decreases with K",
        verdict: Verdict::of(!monotone),
        reason: match monotone {
            true => format!(
                "In expectation every larger K is closer, up to full participation. In single runs \
                 chance decides as well: in {:.0} % of them a smaller K ends closest.",
                100.0 * smaller
            ),
            false => "The expected distances are not monotone in K.".into(),
        },
        numbers: deciding,
    };
    vec![improves, turns]
}

/// How often each K ends closest in a single repetition.
fn best_in_single_runs(study: &Study) -> Vec<(String, f64)> {
    let ends: Vec<Vec<f64>> = study.points.iter().map(Studied::final_distances).collect();
    let runs = ends.first().map_or(0, Vec::len);
    let best = |run: usize| {
        (0..ends.len()).min_by(|&a, &b| ends[a][run].total_cmp(&ends[b][run])).unwrap_or(0)
    };
    let winners: Vec<usize> = (0..runs).map(best).collect();
    study
        .points
        .iter()
        .enumerate()
        .map(|(k, point)| {
            let wins = winners.iter().filter(|winner| **winner == k).count();
            let name =
                format!("K = {}: share of runs it ends closest in", cohort_size(&point.plan));
            (name, wins as f64 / runs as f64)
        })
        .collect()
}

/// Little and much variance under each scheme; in the means, then in the sensitivities.
pub(super) fn heterogeneity(studies: &[Study]) -> Vec<Claim> {
    let all = studies.iter().flat_map(|study| &study.points);
    let worst = all.map(Studied::left_at_the_end).fold(0.0, f64::max);
    // Pairs of little and much variance, one pair a scheme.
    let effect = |study: &Study| {
        let ends = study.each(Studied::left_at_the_end);
        ends.chunks_exact(2).map(|pair| pair[1] / pair[0]).fold(0.0, f64::max)
    };
    let (means, sensitivities) = (effect(&studies[0]), effect(&studies[1]));
    let stable = studies[0].points[0].plan.stable_point.as_ref().map_or(f64::NAN, |s| s[0]);
    vec![
        Claim {
            id: "converges-under-heterogeneity",
            place: "section 4.1",
            statement: "The algorithm still converges under a certain amount of heterogeneity",
            verdict: Verdict::of(worst < CONVERGED),
            reason: format!(
                "In the worst case {:.1} % of the root mean square distance is left.",
                100.0 * worst
            ),
            numbers: vec![("largest share left at the end".into(), worst)],
        },
        Claim {
            id: "shift-heterogeneity-dominates",
            place: "section 4.1",
            statement: "Shifting heterogeneity is the main factor",
            verdict: Verdict::under(
                sensitivities > means,
                stable * stable <= 10.0,
                "the stable point is large: it multiplies the variance of sensitivities",
            ),
            reason: format!(
                "The clients disagree at the stable point by Var(m) + θ² Var(ε) with θ = \
                 {stable:.0}. The larger variance multiplies the distance at the end by \
                 {means:.2} for the means and by {sensitivities:.2} for the sensitivities."
            ),
            numbers: vec![
                ("distance at the end, large Var(m) to small".into(), means),
                ("distance at the end, large Var(eps) to small".into(), sensitivities),
                ("stable point".into(), stable),
            ],
        },
    ]
}

/// Many local steps with a constant step, one local step with it, many with a decaying one.
pub(super) fn constant_step(studies: &[Study]) -> Vec<Claim> {
    let [drifting, single, decaying, ..] = studies[0].points.as_slice() else { return Vec::new() };
    // The limit, by rounds enough for every transient to be gone.
    let limit = |point: &Studied, noise: bool| {
        let plan = point.plan.with(|spec| {
            spec.rounds = Count(20_000);
            spec.measure.every = spec.rounds;
            if !noise {
                spec.algorithm.rounds_mut().batch = Batch::All(All::All);
            }
        });
        let outcome = plan.and_then(|plan| exact(&plan));
        let end = outcome.ok().and_then(|o| o.curve.points.last().map(|p| p.values[0].mean));
        end.unwrap_or(f64::INFINITY).sqrt()
    };
    let (whole, drift) = (limit(drifting, true), limit(drifting, false));
    let noise = (whole * whole - drift * drift).max(0.0).sqrt();
    let one = limit(single, true);
    let with_decay = decaying.last_distance().sqrt();
    let constant = matches!(drifting.plan.protocol.step_size, StepSize::Constant(_));
    vec![Claim {
        id: "constant-step-fails",
        place: "sections 3.4 and 4.1",
        statement: "Constant learning rates fail to converge",
        verdict: Verdict::of(constant && whole > 2.0 * with_decay),
        reason: format!(
            "With E = {} the distance settles at {whole:.3}: {drift:.3} of it is {}, {noise:.3} is \
             noise. With one local step {one:.3} would be left.",
            drifting.plan.protocol.local_steps,
            if drift > noise { "client drift, the larger part" } else { "client drift" },
        ),
        numbers: vec![
            ("limit of the root mean square distance".into(), whole),
            ("of it drift (the limit without noise)".into(), drift),
            ("of it noise".into(), noise),
            ("limit with one local step".into(), one),
            ("decaying step at the end".into(), with_decay),
        ],
    }]
}

/// The printed rule, deltas, scaled objectives, scheme I, all at the same steps.
pub(super) fn unequal_weights(studies: &[Study]) -> Vec<Claim> {
    let names = ["the printed rule", "deltas", "scaled objectives", "scheme I"];
    let left = studies[0].each(Studied::left_at_the_end);
    let numbers: Vec<(String, f64)> = names
        .iter()
        .zip(&left)
        .map(|(name, share)| (format!("{name}: left at the end"), *share))
        .collect();
    let others = left.iter().skip(1).copied().fold(0.0, f64::max);
    vec![Claim {
        id: "scheme-2-fails-with-unequal-weights",
        place: "sections 3.4 and 4.1",
        statement: "With highly unequal weights scheme II may fail to train at all",
        verdict: Verdict::under(
            left[0] > 1.0,
            false,
            match others > 0.5 {
                true => {
                    "iterates rather than deltas are averaged; the distance that the other rules \
                     leave is due to the small steps"
                }
                false => "iterates rather than deltas are averaged",
            },
        ),
        reason: format!(
            "Coefficients p_k N/K do not sum to one and rescale the averaged iterates at random, \
             and {} times the first distance is left. Averaged as deltas, with scaled \
             objectives or under scheme I they do not; at these steps at most {:.0} % of the \
             distance is left there.",
            short(left[0]),
            100.0 * others
        ),
        numbers,
    }]
}
