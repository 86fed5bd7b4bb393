//! Stable and optimal points against closed forms and against their definitions.

mod tables;

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::response::{Sensitivity, Shift, best_response, location};
use fedback_core::stream::{Purpose, Seed, Stream};
use fedback_theory::optimal::optimal_point;
use fedback_theory::stable::{Note, Stability, stable_point, stable_points};
use tables::table;

fn gaussian(weights: &[f64], mean: &[f64], sensitivity: &[f64]) -> Federation {
    Federation::new(
        weights,
        Base::Gaussian(Gaussian { dim: 1, mean: mean.to_vec(), noise: 1.0 }),
        location(&Sensitivity::Scalar(sensitivity.to_vec()), 1, false),
        Loss::Mean,
    )
    .unwrap()
}

fn rows(loss: Loss, response: impl Fn(usize) -> Shift, intercept: bool, seed: u64) -> Federation {
    let mut draws = Stream::for_problem(Seed(seed), Purpose::Means).draws();
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..90 {
        let x: [f64; 3] = std::array::from_fn(|_| draws.normal());
        let score = x[0] - 0.7 * x[1] + 0.4 + draws.normal();
        labels.push(if matches!(loss, Loss::Squared { .. }) {
            score
        } else {
            (score > 0.0) as u8 as f64
        });
        values.extend(x);
    }
    let table = table(&values, &labels, 3, intercept);
    let response = response(table.dim);
    Federation::new([0.2, 0.5, 0.3], Base::Table(table), response, loss).unwrap()
}

#[test]
fn gaussian_points_are_closed_forms() {
    let (p, m, e) = ([0.2, 0.5, 0.3], [1.0, -2.0, 4.0], [0.5, 0.9, -1.5]);
    let federation = gaussian(&p, &m, &e);
    let sum = |of: &dyn Fn(usize) -> f64| (0..3).map(|i| p[i] * of(i)).sum::<f64>();
    let stable = sum(&|i| m[i]) / (1.0 - sum(&|i| e[i]));
    let optimal = sum(&|i| (1.0 - e[i]) * m[i]) / sum(&|i| (1.0 - e[i]) * (1.0 - e[i]));
    let report = stable_points(&federation, &[0.0]);
    assert!((report.points[0].theta[0] - stable).abs() < 1e-13);
    assert_eq!(report.stability(), Stability::Attracting);
    let found = optimal_point(&federation, &[]).unwrap();
    assert!((found.theta[0] - optimal).abs() < 1e-13);
    let risk = sum(&|i| 0.5 * (((1.0 - e[i]) * optimal - m[i]).powi(2) + 1.0));
    assert!((found.risk - risk).abs() < 1e-13);
}

#[test]
fn average_sensitivity_decides() {
    let at =
        |e: f64| stable_points(&gaussian(&[0.5, 0.5], &[1.0, 2.0], &[e - 0.3, e + 0.3]), &[0.0]);
    assert_eq!(at(0.99).stability(), Stability::Attracting);
    assert!(at(0.99).notes.is_empty());
    assert_eq!(at(1.01).stability(), Stability::Repelling);
    assert!((at(1.01).points[0].theta[0] + 150.0).abs() < 1e-9);
    assert_eq!(at(1.0).stability(), Stability::None);
    assert!(at(1.0).points.is_empty() && at(1.0).notes == [Note::None]);
    // Below −1 repeated minimisation oscillates, small steps settle.
    let report = at(-3.0);
    assert_eq!(report.stability(), Stability::Attracting);
    assert!((report.points[0].minimisation_radius.unwrap() - 3.0).abs() < 1e-12);
    assert!(matches!(report.notes[..], [Note::RepelsMinimisation(_)]));
    // Means that average to zero leave a line of stable points.
    let line = stable_points(&gaussian(&[0.5, 0.5], &[1.0, -1.0], &[0.7, 1.3]), &[0.0]);
    assert!(line.points.is_empty() && line.notes == [Note::Line]);
}

/// H = I and J with complex eigenvalues: the margin is the real part.
#[test]
fn complex_eigenvalues() {
    let matrix = vec![vec![vec![0.5, -2.0], vec![2.0, 0.5]]];
    let federation = Federation::new(
        vec![1.0],
        Base::Gaussian(Gaussian { dim: 2, mean: vec![1.0, 0.0], noise: 1.0 }),
        location(&Sensitivity::Matrix(matrix), 2, false),
        Loss::Mean,
    )
    .unwrap();
    let report = stable_points(&federation, &[0.0, 0.0]);
    let point = &report.points[0];
    assert!((point.gradient_margin.unwrap() - 0.5).abs() < 1e-12);
    assert!((point.minimisation_radius.unwrap() - 4.25f64.sqrt()).abs() < 1e-12);
    // (I − M) θ = m.
    let theta = &point.theta;
    assert!((0.5 * theta[0] + 2.0 * theta[1] - 1.0).abs() < 1e-12);
    assert!((-2.0 * theta[0] + 0.5 * theta[1]).abs() < 1e-12);
}

/// F(θ) vanishes by its definition: central differences of f(·; θ) at θ.
#[test]
fn stable_points_of_rows_are_stationary() {
    let strong =
        |dim: usize| best_response(&Sensitivity::Scalar(vec![0.0, 8.0, 20.0]), &[0, 1], dim);
    let against =
        |dim: usize| best_response(&Sensitivity::Scalar(vec![-1.0, -3.0, 0.4]), &[0, 2], dim);
    let matrix = |_: usize| {
        let m = vec![vec![0.2, -1.0, 0.0], vec![1.0, 0.2, 0.3], vec![0.0, 0.0, -0.5]];
        location(&Sensitivity::Matrix(vec![m.clone(), m.clone(), m]), 3, false)
    };
    let responses: [&dyn Fn(usize) -> Shift; 3] = [&strong, &against, &matrix];
    for (k, response) in responses.into_iter().enumerate() {
        for loss in [Loss::Logistic { l2: 0.05 }, Loss::Squared { l2: 0.05 }] {
            let federation = rows(loss, response, k == 0, 5 + k as u64);
            let zeros = vec![0.0; federation.dim()];
            let theta = stable_point(&federation, &zeros).unwrap_or_else(|| {
                panic!("{k} {loss:?}: {:?}", stable_points(&federation, &zeros))
            });
            for j in 0..theta.len() {
                let (mut up, mut down) = (theta.clone(), theta.clone());
                up[j] += 1e-5;
                down[j] -= 1e-5;
                let slope = (federation.risk(&up, &theta) - federation.risk(&down, &theta)) / 2e-5;
                assert!(slope.abs() < 1e-8, "{k} {loss:?} {j}: {slope}");
            }
        }
    }
}

#[test]
fn derivatives_match_differences() {
    let response =
        |dim: usize| best_response(&Sensitivity::Scalar(vec![0.5, 2.0, -1.0]), &[0, 2], dim);
    for loss in [Loss::Logistic { l2: 0.1 }, Loss::Squared { l2: 0.1 }] {
        let federation = rows(loss, response, true, 3);
        let (theta, deployed) = ([0.3, -0.2, 0.5, 0.1], [0.1, 0.4, -0.3, 0.2]);
        let h = 1e-5;
        let shifted = |at: &[f64; 4], j: usize, by: f64| {
            let mut moved = *at;
            moved[j] += by;
            moved
        };
        let field = federation.mean_field(&theta, &deployed);
        let whole = federation.performative(&theta);
        assert!((field.risk - federation.risk(&theta, &deployed)).abs() < 1e-14);
        for j in 0..4 {
            let (up, down) = (shifted(&theta, j, h), shifted(&theta, j, -h));
            let slope =
                (federation.risk(&up, &deployed) - federation.risk(&down, &deployed)) / (2.0 * h);
            assert!((slope - field.gradient[j]).abs() < 1e-8);
            let slope = (federation.risk(&up, &up) - federation.risk(&down, &down)) / (2.0 * h);
            assert!((slope - whole.gradient[j]).abs() < 1e-8);
            let curvature = (federation.mean_field(&up, &deployed).gradient
                - federation.mean_field(&down, &deployed).gradient)
                / (2.0 * h);
            assert!((curvature - field.curvature.column(j)).norm() < 1e-8);
            let hessian = (federation.performative(&up).gradient
                - federation.performative(&down).gradient)
                / (2.0 * h);
            assert!((hessian - whole.hessian.column(j)).norm() < 1e-8);
            let (up, down) = (shifted(&deployed, j, h), shifted(&deployed, j, -h));
            let reaction = (federation.mean_field(&theta, &up).gradient
                - federation.mean_field(&theta, &down).gradient)
                / (2.0 * h);
            assert!((reaction - field.reaction.column(j)).norm() < 1e-8);
        }
    }
}

#[test]
fn the_optimum_is_never_worse_than_the_stable_point() {
    for seed in 0..6 {
        let response =
            |dim: usize| best_response(&Sensitivity::Scalar(vec![0.0, 1.0, 3.0]), &[0, 1], dim);
        let federation = rows(Loss::Logistic { l2: 0.02 }, response, seed % 2 == 0, seed);
        let stable = stable_point(&federation, &vec![0.0; federation.dim()]).unwrap();
        let optimal = optimal_point(&federation, &[&stable]).unwrap();
        assert!(optimal.risk <= federation.risk(&stable, &stable) + 1e-15);
        assert!(federation.performative(&optimal.theta).gradient.norm() < 1e-9);
    }
}

#[test]
fn separable_rows_without_penalty_have_no_stable_point() {
    let table = table(&[-2.0, -1.0, 1.0, 2.0], &[0.0, 0.0, 1.0, 1.0], 1, false);
    let federation =
        Federation::new([1.0], Base::Table(table), Shift::None, Loss::Logistic { l2: 0.0 })
            .unwrap();
    let report = stable_points(&federation, &[0.0]);
    assert_eq!(report.stability(), Stability::Unknown);
    assert_eq!(report.notes, [Note::NotFound]);
}
