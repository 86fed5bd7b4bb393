//! docs/errata.md, shown: the statement as printed fails, the corrected one holds.

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{
    Aggregate, Batch, Deploy, LocalRule, Protocol, Scheme, ServerRule, StepSize,
};
use fedback_core::response::{Sensitivity, location};
use fedback_core::stream::{Draws, Purpose, Seed, Stream};
use fedback_theory::asymptotic::{NoLaw, large_time};
use fedback_theory::bounds::{Bound, Bounds, Undefined, Value};
use fedback_theory::constants::{Constant, Constants};
use fedback_theory::exact::ExactCurve;
use fedback_theory::stable::{Stability, stable_point, stable_points};

fn gaussian(weights: &[f64], mean: &[f64], sensitivity: &[f64], noise: f64) -> Federation {
    Federation::new(
        weights,
        Base::Gaussian(Gaussian { dim: 1, mean: mean.to_vec(), noise }),
        location(&Sensitivity::Scalar(sensitivity.to_vec()), 1, false),
        Loss::Mean,
    )
    .unwrap()
}

fn protocol(scheme: Scheme, local_steps: usize, step_size: StepSize) -> Protocol {
    Protocol {
        scheme,
        local_steps,
        batch: Batch::Sampled(1),
        step_size,
        local: LocalRule::Descent,
        server: ServerRule::Average,
        deploy: Deploy::Step,
        aggregate: Aggregate::Deltas,
        scale_objectives: false,
        clip: None,
    }
}

const ANY_STEP: StepSize = StepSize::Decaying { beta: 1.0, gamma: 10.0 };

fn constants(federation: &Federation, protocol: &Protocol, start: &[f64]) -> Constants {
    let point = stable_point(federation, start);
    Constants::of(federation, protocol, start, point.as_deref())
}

fn bounds(
    federation: &Federation,
    protocol: &Protocol,
    start: &[f64],
    delta: Option<f64>,
) -> Bounds {
    let point = stable_point(federation, start);
    let constants = Constants::of(federation, protocol, start, point.as_deref());
    Bounds::new(federation, protocol, start, point.as_deref(), &constants, delta, 10)
}

/// The largest ratio of the exact error to `bound(t)`, over `rounds` rounds.
fn worst(
    federation: &Federation,
    protocol: &Protocol,
    start: &[f64],
    rounds: u64,
    bound: impl Fn(f64) -> f64,
) -> f64 {
    let point = stable_point(federation, start).unwrap();
    let mut curve = ExactCurve::new(federation, protocol, None, start, Some(&point)).unwrap();
    let mut worst: f64 = 0.0;
    for round in 0..=rounds {
        let step = (round * protocol.local_steps as u64) as f64;
        worst = worst.max(curve.moments().distance_sq.unwrap() / bound(step));
        curve.advance();
    }
    worst
}

/// The largest ratio of the exact error to a theorem's bound, under the theorem's own steps.
fn worst_of(
    federation: &Federation,
    protocol: &Protocol,
    start: &[f64],
    rounds: u64,
    bound: &Bound,
) -> f64 {
    let protocol = Protocol { step_size: bound.step_size().unwrap(), ..*protocol };
    worst(federation, &protocol, start, rounds, |step| bound.at(step).unwrap())
}

#[test]
fn erratum_1_theorem_3_3_needs_c3() {
    let federation = gaussian(&[0.5, 0.5], &[1.0, 1.0], &[0.5, 0.5], 0.0);
    let protocol = protocol(Scheme::WithoutReplacement { cohort: 1 }, 1, ANY_STEP);
    let found = bounds(&federation, &protocol, &[0.0], None);
    assert_eq!(found.delta, Some(0.5));
    assert_eq!(found.printed.c[4], Ok(0.0));
    assert_eq!(found.printed.gamma, Ok(1.0));
    // x doubles back: −3 at the first step, 3 after the second, where the bound is a third.
    let printed = worst_of(&federation, &protocol, &[0.0], 2, &found.printed);
    assert!((printed - 27.0).abs() < 1e-9, "{printed}");
    let corrected = worst_of(&federation, &protocol, &[0.0], 2000, &found.corrected);
    assert!(corrected <= 1.0 + 1e-12, "{corrected}");
}

#[test]
fn erratum_2_variance_without_replacement() {
    let (n, k) = (5, 2);
    let federation = gaussian(&[0.2; 5], &[1.0, -2.0, 4.0, 0.5, 3.0], &[0.0; 5], 0.0);
    let scheme = Scheme::WithoutReplacement { cohort: k };
    let protocol = protocol(scheme, 1, StepSize::Constant(0.1));
    let point = stable_point(&federation, &[0.0]).unwrap();
    let mut curve = ExactCurve::new(&federation, &protocol, None, &point, Some(&point)).unwrap();
    curve.advance();
    let moments = curve.moments();
    let factor = moments.distance_sq.unwrap() / moments.consensus;
    // Every pair of values, one by one.
    let values = [1.0, -2.0, 4.0, 0.5, 3.0];
    let mean = values.iter().sum::<f64>() / 5.0;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / 5.0;
    let pairs = (0..5).flat_map(|i| (0..i).map(move |j| (i, j)));
    let of_pairs = pairs.map(|(i, j)| ((values[i] + values[j]) / 2.0 - mean).powi(2)).sum::<f64>();
    assert!((factor - of_pairs / 10.0 / variance).abs() < 1e-12);
    let corrected = (n - k) as f64 / (k * (n - 1)) as f64;
    assert!((factor - corrected).abs() < 1e-12 && corrected == 0.375);
    let printed = (n - k) as f64 / (k * n * (n - 1)) as f64;
    assert!(factor > 4.9 * printed && printed == 0.075);
}

#[test]
fn erratum_3_c7_is_quadratic() {
    let federation = gaussian(&[0.5, 0.5], &[1.0, -1.0], &[0.0, 0.0], 0.1);
    let (local_steps, step) = (20, 0.002);
    // The consensus error at the last step before an aggregation, and G on the way there.
    let before = protocol(Scheme::Full, local_steps - 1, StepSize::Constant(step));
    let mut curve = ExactCurve::new(&federation, &before, None, &[0.0], Some(&[0.0])).unwrap();
    let gradient_sq = curve.advance_watching_gradients();
    let consensus = curve.moments().consensus;
    let most = (local_steps - 1) as f64;
    let printed = 4.0 * most * gradient_sq * step * step;
    let corrected = 4.0 * most * most * gradient_sq * step * step;
    assert!(consensus > 4.3 * printed, "{}", consensus / printed);
    assert!(consensus < corrected);
    let whole = protocol(Scheme::Full, local_steps, ANY_STEP);
    let found = bounds(&federation, &whole, &[0.0], None);
    let (printed, corrected) = (found.printed.c[6], found.corrected.c[6]);
    assert!((corrected.unwrap() / printed.unwrap() - most).abs() < 1e-9);
}

#[test]
fn erratum_4_scaled_objectives() {
    // Clients that agree perfectly, with unequal weights.
    let weights = [0.55, 0.25, 0.2];
    let federation = gaussian(&weights, &[1.0; 3], &[0.5; 3], 1.0);
    let mut protocol = protocol(Scheme::WithoutReplacement { cohort: 2 }, 2, ANY_STEP);
    let unscaled = bounds(&federation, &protocol, &[0.0], Some(0.2));
    assert_eq!(unscaled.corrected.gamma, Err(Undefined::UnequalWeights));
    protocol.scale_objectives = true;
    let q = weights.map(|p| 3.0 * p);
    let known = constants(&federation, &protocol, &[0.0]);
    let (sigma, varsigma) = (known.sigma.value.unwrap(), known.varsigma.value.unwrap());
    assert_eq!((sigma, varsigma), (1.0, 0.0));
    // A4: the variance of q_i ∇ℓ is q_i² σ².
    assert!(q[0] * q[0] > q[0] * sigma * sigma);
    // A5: |∇f − q_i ∇f_i|² at x, where ∇f = ∇f_i = x/2; as printed it would be at most 0.
    for x in [0.1f64, 1.0, 30.0] {
        for q in q {
            let apart = ((1.0 - q) * 0.5 * x).powi(2);
            assert!(apart > 0.0);
            let corrected = 2.0 * (0.65f64 * 1.5).powi(2) * (1.0 + x * x);
            assert!(apart <= corrected);
        }
    }
    let found = bounds(&federation, &protocol, &[0.0], Some(0.2));
    // As printed not even μ̃ is positive; f itself is as convex as before.
    assert!(found.printed.mu_tilde.unwrap() < 0.0);
    assert!(found.printed.gamma.is_err());
    assert!((found.corrected.mu_tilde.unwrap() - (1.0 - 1.2 * 0.5)).abs() < 1e-12);
    let ratio = worst_of(&federation, &protocol, &[0.0], 3000, &found.corrected);
    assert!(ratio <= 1.0 + 1e-12, "{ratio}");
}

#[test]
fn erratum_5_alternative_rate() {
    let federation = gaussian(&[1.0], &[0.05], &[0.95], 1.0);
    let (delta, sensitivity) = (0.02, 0.95);
    let mu_tilde: f64 = 1.0 - (1.0 + delta) * sensitivity;
    let beta = 2.0 / mu_tilde;
    // η_1 ≤ 1/(4L), as printed.
    let gamma = 4.0 * beta;
    let protocol = protocol(Scheme::Full, 1, StepSize::Decaying { beta, gamma });
    let start = stable_point(&federation, &[0.0]).unwrap();
    // E = 1 and full participation: c7 = 0 and 2σ² is all there is.
    let first = (beta / gamma).powi(2);
    let printed = (2.0 * beta * beta / (beta - 1.0)).max((gamma + 1.0) * first);
    let ratio = worst(&federation, &protocol, &start, 40_000, |t| printed / (gamma + t));
    assert!(ratio > 5.5 && ratio < 6.0, "{ratio}");
    let found = bounds(&federation, &protocol, &start, Some(delta)).alternative;
    let ((beta, gamma), upsilon) = (found.step.unwrap(), found.corrected.unwrap());
    let protocol = Protocol { step_size: StepSize::Decaying { beta, gamma }, ..protocol };
    let ratio = worst(&federation, &protocol, &start, 40_000, |t| upsilon / (gamma + t));
    assert!(ratio < 0.1, "{ratio}");
}

#[test]
fn erratum_6_gradients_are_bounded_along_the_trajectory_only() {
    let federation = gaussian(&[0.5, 0.5], &[0.0, 0.0], &[0.5, -0.5], 1.0);
    let protocol = protocol(Scheme::Full, 1, ANY_STEP);
    let along = |start: f64| {
        let mut curve =
            ExactCurve::new(&federation, &protocol, None, &[start], Some(&[0.0])).unwrap();
        (0..200).map(|_| curve.advance_watching_gradients()).fold(0.0, f64::max)
    };
    // 9/4 θ² + σ² at the start, and so without bound over starts.
    for start in [0.0, 1.0, 1e3] {
        let expected = 2.25 * start * start + 1.0;
        assert!(along(start) >= expected * (1.0 - 1e-12));
        assert!(along(start) < 1.2 * expected, "{}", along(start));
    }
}

#[test]
fn erratum_8_first_step() {
    let federation = gaussian(&[0.5, 0.5], &[1.0, 3.0], &[0.8, 0.8], 0.01);
    let protocol = protocol(Scheme::Full, 1, ANY_STEP);
    let found = bounds(&federation, &protocol, &[0.0], None);
    let allowed = found.corrected.mu_tilde.unwrap() / found.corrected.c[1].unwrap();
    let first = |bound: &Bound| bound.beta.unwrap() / bound.gamma.unwrap();
    assert!(first(&found.printed) > 5.0 * allowed);
    assert!(first(&found.corrected) <= allowed * (1.0 + 1e-12));
}

#[test]
fn erratum_18_contraction() {
    // ∇ℓ(θ; z) = μθ − Lz and z = εφ + 1: minimisation is θ ← L(ε θ + 1)/μ.
    let (mu, l) = (1.0, 2.0);
    let moved = |sensitivity: f64| {
        let phi = |theta: f64| l * (sensitivity * theta + 1.0) / mu;
        let (mut theta, mut last) = (0.0, 1.0);
        for _ in 0..50 {
            last = phi(theta) - theta;
            theta = phi(theta);
        }
        f64::abs(last)
    };
    // 0.8 < L/μ = 2, and minimisation diverges; 0.45 < μ/L = 1/2, and it settles.
    assert!(moved(0.8) > 1e9 && moved(0.45) < 0.02);
    let federation = gaussian(&[1.0], &[1.0], &[0.8], 1.0);
    let protocol = protocol(Scheme::Full, 1, ANY_STEP);
    let mut known = constants(&federation, &protocol, &[0.0]);
    known.smoothness = Constant::given(2.0);
    let point = [5.0];
    let found = Bounds::new(&federation, &protocol, &[0.0], Some(&point), &known, None, 1);
    assert!(found.delta.is_none());
    assert!(matches!(found.corrected.mu_tilde, Err(Undefined::NoDelta { .. })));
}

#[test]
fn erratum_19_stable_point_above_one() {
    let federation = gaussian(&[0.5, 0.5], &[1.0, 1.0], &[1.5, 1.5], 0.0);
    let report = stable_points(&federation, &[0.0]);
    assert_eq!((report.points.len(), report.stability()), (1, Stability::Repelling));
    let point = report.points[0].theta.clone();
    assert_eq!(point, [-2.0]);
    let stay = protocol(Scheme::Full, 3, StepSize::Constant(0.1));
    let mut curve = ExactCurve::new(&federation, &stay, None, &point, Some(&point)).unwrap();
    (0..100).for_each(|_| curve.advance());
    assert_eq!(curve.moments().distance_sq, Some(0.0));
    let found = bounds(&federation, &stay, &[0.0], None);
    assert!(matches!(found.printed.gamma, Err(Undefined::NoDelta { .. })));
}

#[test]
fn erratum_20_signed_sensitivities() {
    let federation = gaussian(&[0.5, 0.5], &[1.0, 2.0], &[1.6, -1.0], 1.0);
    let steps = StepSize::Decaying { beta: 4.0, gamma: 40.0 };
    let protocol = protocol(Scheme::Full, 1, steps);
    let found = bounds(&federation, &protocol, &[0.0], None);
    assert!(found.delta.is_none());
    for bound in [&found.printed, &found.corrected] {
        let Err(Undefined::NoDelta { average, .. }) = bound.upsilon else { panic!("{bound:?}") };
        assert!((average - 1.3).abs() < 1e-12);
    }
    let point = stable_point(&federation, &[0.0]).unwrap();
    assert!((point[0] - 1.5 / 0.7).abs() < 1e-12);
    let mut curve = ExactCurve::new(&federation, &protocol, None, &[0.0], Some(&point)).unwrap();
    (0..20_000).for_each(|_| curve.advance());
    assert!(curve.moments().distance_sq.unwrap() < 1e-3);
}

/// The Gaussian problem of section 4: N = 25, averages 0.9 and 10, variances 0.1 and 0, noise 1, at
/// normal quantiles.
fn paper_problem() -> Federation {
    // The 13th to 25th quantiles (k − 1/2)/25 of a standard normal; the others mirror them.
    let upper = [
        0.0, 0.1004, 0.2019, 0.3055, 0.4125, 0.5244, 0.6433, 0.7722, 0.9154, 1.0803, 1.2816,
        1.5548, 2.0537,
    ];
    let lower = upper[1..].iter().rev().map(|z| -z);
    let quantiles: Vec<f64> = lower.chain(upper).collect();
    let scale = (quantiles.iter().map(|z| z * z).sum::<f64>() / 25.0 / 0.1).sqrt();
    let sensitivity: Vec<f64> = quantiles.iter().map(|z| 0.9 + z / scale).collect();
    gaussian(&[0.04; 25], &[10.0; 25], &sensitivity, 1.0)
}

#[test]
fn erratum_26_cost_in_local_steps() {
    let federation = paper_problem();
    let at = |scheme: Scheme, local_steps: usize| {
        bounds(&federation, &protocol(scheme, local_steps, ANY_STEP), &[0.0], None).printed
    };
    // T_ε/E for 1% of Δ₀ only grows.
    let costs: Vec<f64> = [1, 2, 5, 10, 20, 50]
        .map(|e| at(Scheme::Full, e).steps_to(100.0).unwrap() / e as f64)
        .to_vec();
    assert!(costs.windows(2).all(|pair| pair[0] < pair[1]), "{costs:?}");
    // Its form a/E + bE log E decreases first where a is large.
    let form = |e: f64| 100.0 / e + e * e.ln();
    assert!(form(1.0) > form(5.0) && form(5.0) < form(50.0));
    let sampled = |e: usize| at(Scheme::WithReplacement { cohort: 20 }, e).b.unwrap();
    assert!(sampled(50) > 1e3 * sampled(1));
}

/// What the printed and the corrected theorems say of the paper's own problem.
#[test]
fn the_papers_problem() {
    let federation = paper_problem();
    let close = |found: &Value, expected: f64| {
        let found = found.unwrap();
        assert!((found / expected - 1.0).abs() < 0.05, "{found:e} {expected:e}");
    };
    for (scheme, printed, corrected) in [
        (Scheme::Full, 2.7e13, 5.0e6),
        (Scheme::WithReplacement { cohort: 20 }, 4.4e13, 7.7e8),
        (Scheme::WithoutReplacement { cohort: 20 }, 4.4e13, 1.6e8),
    ] {
        let found = bounds(&federation, &protocol(scheme, 5, ANY_STEP), &[0.0], None);
        close(&found.printed.gamma, printed);
        close(&found.corrected.gamma, corrected);
    }
}

struct Problem {
    federation: Federation,
    protocol: Protocol,
    start: Vec<f64>,
}

fn random_problem(draws: &mut Draws, kind: usize) -> Problem {
    let clients = 2 + (draws.uniform() * 5.0) as usize;
    let cohort = 1 + (draws.uniform() * (clients - 1) as f64) as usize;
    let scaled = kind == 3;
    let scheme = match kind {
        0 => Scheme::Full,
        1 => Scheme::WithReplacement { cohort },
        _ => Scheme::WithoutReplacement { cohort },
    };
    let mut weights: Vec<f64> =
        (0..clients).map(|_| if kind == 2 { 1.0 } else { 0.2 + draws.uniform() }).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|p| *p /= sum);
    let dim = 1 + (draws.uniform() * 2.0) as usize;
    let size = 0.3 + 0.6 * draws.uniform();
    let matrices: Vec<Vec<Vec<f64>>> = (0..clients)
        .map(|_| {
            let mut entry = || size * (2.0 * draws.uniform() - 1.0) / dim as f64;
            (0..dim).map(|_| (0..dim).map(|_| entry()).collect()).collect()
        })
        .collect();
    let mean = (0..clients * dim).map(|_| 2.0 * draws.normal()).collect();
    let noise = 2.0 * draws.uniform();
    let far = 10f64.powf(3.0 * draws.uniform() - 2.0);
    let federation = Federation::new(
        weights,
        Base::Gaussian(Gaussian { dim, mean, noise }),
        location(&Sensitivity::Matrix(matrices), dim, false),
        Loss::Mean,
    )
    .unwrap();
    let local_steps = [1, 2, 5][(draws.uniform() * 3.0) as usize];
    let protocol = Protocol { scale_objectives: scaled, ..protocol(scheme, local_steps, ANY_STEP) };
    let point = stable_point(&federation, &vec![0.0; dim]).unwrap();
    let start = point.iter().map(|x| x + far * draws.normal()).collect();
    Problem { federation, protocol, start }
}

#[test]
fn corrected_bounds_hold_on_random_problems() {
    let mut draws = Stream::for_problem(Seed(26), Purpose::Means).draws();
    let (mut held, mut alternative) = (0, 0);
    for count in 0..120 {
        let Problem { federation, protocol, start } = random_problem(&mut draws, count % 4);
        let found = bounds(&federation, &protocol, &start, None);
        let bound = &found.corrected;
        let rounds = 400;
        let ratio = worst_of(&federation, &protocol, &start, rounds, bound);
        assert!(ratio <= 1.0 + 1e-9, "problem {count}: {ratio} {bound:?}");
        held += 1;
        // The alternative theorem holds for as long as G was followed: 10 rounds.
        if let (Ok((beta, gamma)), Ok(upsilon)) =
            (&found.alternative.step, &found.alternative.corrected)
        {
            let steps = StepSize::Decaying { beta: *beta, gamma: *gamma };
            let protocol = Protocol { step_size: steps, ..protocol };
            let ratio = worst(&federation, &protocol, &start, 10, |t| upsilon / (gamma + t));
            assert!(ratio <= 1.0 + 1e-9, "problem {count}: {ratio}");
            alternative += 1;
        }
    }
    assert_eq!((held, alternative), (120, 120));
}

/// Started at the stable point with nothing but noise to bound, and followed past γ.
#[test]
fn corrected_bounds_hold_past_gamma() {
    for (local_steps, scheme) in
        [(1, Scheme::Full), (2, Scheme::Full), (1, Scheme::WithReplacement { cohort: 1 })]
    {
        let federation = gaussian(&[0.5, 0.5], &[0.1, -0.1], &[0.3, 0.2], 0.5);
        let protocol = protocol(scheme, local_steps, ANY_STEP);
        for start in [[0.0], [3.0]] {
            let found = bounds(&federation, &protocol, &start, None);
            let gamma = found.corrected.gamma.unwrap();
            let rounds = (3.0 * gamma / local_steps as f64) as u64;
            assert!(rounds < 2_000_000);
            let ratio = worst_of(&federation, &protocol, &start, rounds, &found.corrected);
            assert!(ratio <= 1.0 + 1e-9, "{ratio}");
        }
    }
}

#[test]
fn undefined_cases_are_answered_in_words() {
    let federation = gaussian(&[0.5, 0.5], &[1.0, 2.0], &[0.5, 0.3], 1.0);
    let many = protocol(Scheme::Full, 5, ANY_STEP);
    let point = stable_point(&federation, &[0.0]).unwrap();
    // Δ₀ = 0.
    let found = bounds(&federation, &many, &point, None);
    assert_eq!(found.printed.gamma, Err(Undefined::AtStablePoint));
    let Bound { mu_tilde, eta0, b, beta, gamma, upsilon, .. } = found.corrected;
    assert!([mu_tilde, eta0, b, beta, gamma, upsilon].iter().all(Result::is_ok));
    // E = 1, full participation: c4 is not needed.
    let one = bounds(&federation, &Protocol { local_steps: 1, ..many }, &point, None);
    assert_eq!(one.printed.b, Ok(2.0));
    assert!(one.printed.gamma.is_ok());
    // Nothing reacts.
    let still = gaussian(&[0.5, 0.5], &[1.0, 2.0], &[0.0, 0.0], 1.0);
    let found = bounds(&still, &many, &[0.0], None);
    assert!(found.delta.is_none());
    assert_eq!(found.printed.gamma, Err(Undefined::C1WithoutReaction));
    assert_eq!(found.corrected.mu_tilde, Ok(0.5));
    assert!(worst_of(&still, &many, &[0.0], 500, &found.corrected) <= 1.0 + 1e-12);
    // A delta that leaves nothing of μ.
    let found = bounds(&federation, &many, &[0.0], Some(3.0));
    assert!(matches!(found.corrected.upsilon, Err(Undefined::NotConvex { .. })));
    // The model deployed once a round.
    let found = bounds(&federation, &Protocol { deploy: Deploy::Round, ..many }, &[0.0], None);
    assert_eq!(found.printed.b, Err(Undefined::DeployedOnce));
}

/// The law of large t against the recursion it is the limit of.
#[test]
fn large_time_law_is_the_limit() {
    let matrix = |a: f64, b: f64| vec![vec![a, -b], vec![b, 0.5 * a]];
    let matrices = vec![matrix(0.4, 0.8), matrix(-0.3, 0.5), matrix(0.6, 0.2)];
    let turning = Federation::new(
        vec![0.5, 0.3, 0.2],
        Base::Gaussian(Gaussian { dim: 2, mean: vec![1.0, 0.0, -1.0, 2.0, 0.5, 3.0], noise: 0.7 }),
        location(&Sensitivity::Matrix(matrices), 2, false),
        Loss::Mean,
    )
    .unwrap();
    let line = gaussian(&[0.5, 0.3, 0.2], &[1.0, -1.0, 2.0], &[0.4, -0.6, 0.7], 0.7);
    let steps = StepSize::Decaying { beta: 4.0, gamma: 40.0 };
    for federation in [&turning, &line] {
        let point = stable_point(federation, &vec![0.0; federation.dim()]).unwrap();
        for (scheme, scale_objectives) in [
            (Scheme::Full, false),
            (Scheme::WithReplacement { cohort: 2 }, false),
            (Scheme::WithoutReplacement { cohort: 2 }, false),
            (Scheme::WithoutReplacement { cohort: 2 }, true),
        ] {
            for deploy in [Deploy::Step, Deploy::Round] {
                let protocol = Protocol { scale_objectives, deploy, ..protocol(scheme, 4, steps) };
                let law = large_time(federation, &protocol, Some(&point)).unwrap();
                let start = vec![1.0; federation.dim()];
                let mut curve =
                    ExactCurve::new(federation, &protocol, None, &start, Some(&point)).unwrap();
                let rounds = 20_000u64;
                (0..rounds).for_each(|_| curve.advance());
                let found = curve.moments().distance_sq.unwrap();
                let ratio = found / law.at((rounds * 4) as f64);
                assert!((ratio - 1.0).abs() < 5e-3, "{scheme:?} {deploy:?}: {ratio}");
            }
        }
    }
    // Without noise, all that is left under full participation is the mean.
    let still = gaussian(line.weights(), &[1.0, -1.0, 2.0], &[0.4, -0.6, 0.7], 0.0);
    let protocol_of = |scale: bool, deploy: Deploy| match scale {
        false => Protocol { deploy, ..protocol(Scheme::Full, 4, steps) },
        true => {
            let all = Scheme::WithoutReplacement { cohort: 3 };
            Protocol { deploy, scale_objectives: true, ..protocol(all, 4, steps) }
        }
    };
    let point = stable_point(&still, &[0.0]).unwrap();
    for (scale, deploy, drifts) in [
        (false, Deploy::Step, true),
        (false, Deploy::Round, false),
        (true, Deploy::Step, true),
        (true, Deploy::Round, true),
    ] {
        let protocol = protocol_of(scale, deploy);
        let law = large_time(&still, &protocol, Some(&point)).unwrap();
        let mut curve = ExactCurve::new(&still, &protocol, None, &point, Some(&point)).unwrap();
        (0..20_000).for_each(|_| curve.advance());
        let found = curve.moments().distance_sq.unwrap().sqrt() * (80_000.0 + law.gamma);
        let expected = law.mean.unwrap()[0].abs();
        assert!((found - expected).abs() <= 5e-3 * (1.0 + expected), "{found} {expected}");
        assert_eq!(expected > 0.1, drifts, "{scale} {deploy:?} {expected}");
    }
    let slow = protocol(Scheme::Full, 1, StepSize::Decaying { beta: 0.5, gamma: 10.0 });
    let law = large_time(&line, &slow, Some(&[0.0]));
    assert!(matches!(law, Err(NoLaw::TooSlow { .. })));
}
