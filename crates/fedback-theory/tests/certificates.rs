//! Certificates of problems whose answer is known in closed form.

mod tables;

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{
    Aggregate, Batch, Deploy, LocalRule, Protocol, Scheme, ServerRule, StepSize,
};
use fedback_core::response::{Sensitivity, best_response, location};
use fedback_theory::certificate::{Certificate, Inapplicable, Tips, Verdict, Why};
use tables::table;

fn gaussian(weights: &[f64], mean: f64, sensitivity: Sensitivity, dim: usize) -> Federation {
    let mean = vec![mean; weights.len() * dim];
    Federation::new(
        weights,
        Base::Gaussian(Gaussian { dim, mean, noise: 1.0 }),
        location(&sensitivity, dim, false),
        Loss::Mean,
    )
    .unwrap()
}

fn scalars(sensitivity: &[f64]) -> Federation {
    let n = sensitivity.len();
    gaussian(&vec![1.0 / n as f64; n], 1.0, Sensitivity::Scalar(sensitivity.to_vec()), 1)
}

fn constant(size: f64) -> Protocol {
    Protocol {
        scheme: Scheme::Full,
        local_steps: 1,
        batch: Batch::Sampled(1),
        step_size: StepSize::Constant(size),
        local: LocalRule::Descent,
        server: ServerRule::Average,
        deploy: Deploy::Step,
        aggregate: Aggregate::Deltas,
        scale_objectives: false,
        clip: None,
    }
}

fn certify(federation: &Federation, protocol: &Protocol, start: &[f64]) -> Certificate {
    Certificate::of(federation, protocol, None, start, 100, &mut |_| ())
}

fn verdict(federation: &Federation, protocol: &Protocol) -> Verdict {
    certify(federation, protocol, &vec![0.0; federation.dim()]).judgement.verdict()
}

/// ε̄ < −1: minimisation oscillates and diverges, P-FedAvg converges for η < 2/(1 − ε̄).
#[test]
fn strongly_negative_sensitivity() {
    let federation = scalars(&[-1.5, -1.7]);
    let found = certify(&federation, &constant(0.2), &[0.0]);
    assert_eq!(found.judgement.verdict(), Verdict::SettlesWithSmallSteps);
    assert_eq!(found.judgement.own_steps.answer.settles, Some(true));
    assert_eq!(found.judgement.minimisation.settles, Some(false));
    assert!((found.stable.spectra().0.unwrap() - 1.6).abs() < 1e-12);
    assert!((found.stable.spectra().1.unwrap() - 2.6).abs() < 1e-12);
    assert!((found.points[0].largest_step.unwrap() - 2.0 / 2.6).abs() < 1e-9);
    let found = certify(&federation, &constant(0.9), &[0.0]);
    assert_eq!(found.judgement.verdict(), Verdict::SettlesWithSmallSteps);
    assert_eq!(found.judgement.own_steps.answer.settles, Some(false));
    assert!(found.judgement.small_steps.constant.unwrap() < 2.0 / 2.6);
    let (beta, gamma) = found.judgement.small_steps.decaying.unwrap();
    assert!(beta / gamma < 2.0 / 2.6 && beta * 2.6 > 0.5);
}

#[test]
fn the_edge_at_one() {
    let at = |average: f64| scalars(&[average - 0.3, average + 0.3]);
    assert_eq!(verdict(&at(0.99), &constant(0.05)), Verdict::Settles);
    let above = certify(&at(1.01), &constant(0.05), &[0.0]);
    assert_eq!(above.judgement.verdict(), Verdict::DoesNotSettle);
    assert!((above.stable.spectra().1.unwrap() + 0.01).abs() < 1e-12);
    let exactly = certify(&at(1.0), &constant(0.05), &[0.0]);
    assert_eq!(exactly.judgement.verdict(), Verdict::DoesNotSettle);
    assert_eq!(exactly.judgement.small_steps.answer.why, Why::Nowhere);
    // Averages that agree: every point is stable, none attracts.
    let line = gaussian(&[0.5, 0.5], 0.0, Sensitivity::Scalar(vec![0.7, 1.3]), 1);
    assert_eq!(verdict(&line, &constant(0.05)), Verdict::Unknown);
}

/// One client with ε = 3 among nine of 0.1: ε̄ = 0.39. Its own steps expand by (1 + 2η)^E.
#[test]
fn one_wild_client() {
    let mut sensitivity = vec![0.1; 10];
    sensitivity[4] = 3.0;
    let federation = scalars(&sensitivity);
    assert_eq!(verdict(&federation, &constant(0.2)), Verdict::Settles);
    let long = Protocol { local_steps: 20, ..constant(0.2) };
    let found = certify(&federation, &long, &[0.0]);
    assert_eq!(found.judgement.verdict(), Verdict::SettlesWithSmallSteps);
    assert_eq!(found.judgement.own_steps.answer.settles, Some(false));
    assert_eq!(found.clients.parts[4].without.unwrap().verdict, Verdict::Settles);
    assert_eq!(found.clients.tips, Tips::Over { client: 4, of: 1 });
    // With half of the weight it is beyond any step: ε̄ = 1.55, and 0.1 without it.
    let mut weights = vec![0.5 / 9.0; 10];
    weights[4] = 0.5;
    let heavy = gaussian(&weights, 1.0, Sensitivity::Scalar(sensitivity), 1);
    let found = certify(&heavy, &constant(0.2), &[0.0]);
    assert_eq!(found.judgement.verdict(), Verdict::DoesNotSettle);
    let without = found.clients.parts[4].without.unwrap();
    assert_eq!(without.verdict, Verdict::Settles);
    assert!((without.average_sensitivity - 0.1).abs() < 1e-12);
    assert!((without.gradient_margin.unwrap() - 0.9).abs() < 1e-12);
    assert!((found.clients.parts[4].share.unwrap() - 1.5 / 1.55).abs() < 1e-12);
}

/// eig(H + J) = 0.5 ± 2i: minimisation turns outward (radius √4.25), steps below 1/4.25 turn inward.
#[test]
fn complex_eigenvalues() {
    let matrix = Sensitivity::Matrix(vec![vec![vec![0.5, -2.0], vec![2.0, 0.5]]]);
    let federation = gaussian(&[1.0], 1.0, matrix, 2);
    let found = certify(&federation, &constant(0.1), &[0.0, 0.0]);
    assert_eq!(found.judgement.verdict(), Verdict::SettlesWithSmallSteps);
    assert!((found.stable.spectra().0.unwrap() - 4.25f64.sqrt()).abs() < 1e-9);
    assert!((found.stable.spectra().1.unwrap() - 0.5).abs() < 1e-12);
    assert!((found.points[0].largest_step.unwrap() - 1.0 / 4.25).abs() < 1e-9);
    assert_eq!(found.judgement.own_steps.answer.settles, Some(true));
    let large = certify(&federation, &constant(0.24), &[0.0, 0.0]);
    assert_eq!(large.judgement.own_steps.answer.settles, Some(false));
}

/// H = diag(1, 3) and H⁻¹J = [[3, −9], [1, −3]], whose square is zero: rows (±1, ±√3) with the label −1
/// have the stable point 0, the residual 1 and hence J = M. Minimisation ends after two steps, the
/// eigenvalues of H + J are −1 ± √2 i.
#[test]
fn minimisation_only() {
    let root = 3f64.sqrt();
    let rows = [1.0, root, 1.0, -root, -1.0, root, -1.0, -root];
    let response = Sensitivity::Matrix(vec![vec![vec![3.0, -9.0], vec![3.0, -9.0]]]);
    let federation = Federation::new(
        vec![1.0],
        Base::Table(table(&rows, &[-1.0; 4], 1, false)),
        location(&response, 2, false),
        Loss::Squared { l2: 0.0 },
    )
    .unwrap();
    for start in [[0.0, 0.0], [1e-3, 2e-3]] {
        let found = certify(&federation, &constant(0.01), &start);
        assert_eq!(found.judgement.verdict(), Verdict::MinimisationOnly, "{:?}", found.judgement);
        assert!(found.stable.spectra().0.unwrap() < 1e-6);
        assert!((found.stable.spectra().1.unwrap() + 1.0).abs() < 1e-9);
    }
}

/// One row x = 1, a fifth positive, ε = 1: F = (σ((1 − θ)θ) − 0.2)(1 − θ). Two stable points attract,
/// θ(1 − θ) = −log 4; θ = 1 repels. Which one a run settles at depends on its start.
#[test]
fn several_stable_points() {
    let federation = Federation::new(
        vec![1.0],
        Base::Table(table(&[1.0; 5], &[1.0, 0.0, 0.0, 0.0, 0.0], 1, false)),
        best_response(&Sensitivity::Scalar(vec![1.0]), &[0], 1),
        Loss::Logistic { l2: 0.0 },
    )
    .unwrap();
    let root = (1.0 + 4.0 * 4f64.ln()).sqrt();
    for (start, end) in [(0.0, 0.5 - 0.5 * root), (1.2, 0.5 + 0.5 * root)] {
        let found = certify(&federation, &constant(0.05), &[start]);
        assert!(found.points.len() >= 2);
        let found_too =
            |end: f64| found.points.iter().any(|truth| (truth.theta[0] - end).abs() < 1e-9);
        assert!(found_too(0.5 - 0.5 * root) && found_too(0.5 + 0.5 * root));
        assert!((found.points[0].theta[0] - end).abs() < 1e-9, "{start}");
        assert_eq!(found.judgement.own_steps.answer.settles, Some(true), "{:?}", found.judgement);
        let repels = found.points.iter().filter(|truth| truth.largest_step.is_none());
        assert!(repels.into_iter().all(|truth| (truth.theta[0] - 1.0).abs() < 1e-9));
    }
}

/// Averaging models of unequal weights never settles at decaying steps; averaging updates does.
#[test]
fn averaged_models() {
    let sensitivity = Sensitivity::Scalar(vec![0.1, 0.2, 0.3]);
    let federation = gaussian(&[0.6, 0.3, 0.1], 1.0, sensitivity, 1);
    let deltas = Protocol {
        scheme: Scheme::WithoutReplacement { cohort: 1 },
        step_size: StepSize::Decaying { beta: 4.0, gamma: 40.0 },
        ..constant(0.1)
    };
    assert_eq!(verdict(&federation, &deltas), Verdict::Settles);
    let iterates = Protocol { aggregate: Aggregate::Iterates, ..deltas };
    let found = certify(&federation, &iterates, &[0.0]);
    assert_eq!(found.judgement.verdict(), Verdict::MinimisationOnly, "{:?}", found.judgement);
}

/// Steps that are small at last but not at first: 30/(t + 1) multiplies by 29 before anything.
#[test]
fn the_first_steps_count() {
    let federation = scalars(&[0.0, 0.1]);
    let decaying = |beta: f64, gamma: f64| Protocol {
        step_size: StepSize::Decaying { beta, gamma },
        ..constant(0.1)
    };
    assert_eq!(verdict(&federation, &decaying(3.0, 10.0)), Verdict::Settles);
    let found = certify(&federation, &decaying(30.0, 1.0), &[0.0]);
    assert_eq!(found.judgement.verdict(), Verdict::SettlesWithSmallSteps);
    assert!(matches!(found.judgement.own_steps.answer.why, Why::TooLargeFirst { .. }));
    // β · margin = 0.0095: a million rounds do not halve the error.
    let found = certify(&federation, &decaying(0.01, 10.0), &[0.0]);
    assert_eq!(found.judgement.verdict(), Verdict::SettlesWithSmallSteps);
}

/// The paper's N = 25 setting in two clients: |PS − PO| by the local repair of Proposition 2.6.
#[test]
fn distance_to_the_optimum() {
    let federation = scalars(&[0.6, 1.2]);
    let found = certify(&federation, &constant(0.1), &[0.0]);
    let (stable, optimal) = (1.0 / 0.1, 0.1 / 0.1);
    let distance = found.approximation.distance.unwrap();
    assert!((distance - (stable - optimal)).abs() < 1e-9);
    let local: f64 =
        [0.6, 1.2].iter().map(|e| e * (optimal - 1.0 - e * (stable + optimal) / 2.0).abs()).sum();
    assert!((found.approximation.local.unwrap() - local).abs() < 1e-9);
    assert!(local >= distance && found.approximation.proposition == Err(Inapplicable::Mean));
    // The price is ½ Σ p (1 − ε)² |PS − PO|².
    let price = found.points[0].price_of_stability.unwrap();
    assert!((price - 0.5 * 0.1 * distance * distance).abs() < 1e-9);
    assert!(
        !found.degeneracy.is_degenerate()
            && certify(&scalars(&[0.0]), &constant(0.1), &[0.0]).degeneracy.is_degenerate()
    );
}

/// Without noise squared errors fall to rounding, which may be below zero: that is no growth.
#[test]
fn nothing_left_is_not_too_much() {
    let (weights, mean) = (vec![0.45, 0.55], vec![10.7, 0.01]);
    let federation = Federation::new(
        weights,
        Base::Gaussian(Gaussian { dim: 1, mean, noise: 0.0 }),
        location(&Sensitivity::Scalar(vec![0.42, -0.27]), 1, false),
        Loss::Mean,
    )
    .unwrap();
    for gamma in [200.0, 260.0, 314.0, 400.0] {
        let protocol = Protocol {
            scheme: Scheme::WithReplacement { cohort: 2 },
            local: LocalRule::Scaffold,
            step_size: StepSize::Decaying { beta: 1.13 * gamma, gamma },
            ..constant(0.0)
        };
        let found = certify(&federation, &protocol, &[-2.1]).judgement.own_steps.answer;
        assert_eq!(found.settles, Some(true), "{gamma}: {:?}", found.why);
    }
}
