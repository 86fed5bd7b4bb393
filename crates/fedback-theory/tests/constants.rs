//! Constants against the assumptions that define them.

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{
    Aggregate, Batch, Deploy, LocalRule, Protocol, Scheme, ServerRule, StepSize,
};
use fedback_core::response::{Sensitivity, location};
use fedback_theory::constants::{Constants, How};
use fedback_theory::stable::stable_point;

fn federation(sensitivity: &Sensitivity) -> Federation {
    let mean = vec![1.0, 0.0, -1.0, 2.0, 0.5, 3.0];
    Federation::new(
        vec![0.5, 0.3, 0.2],
        Base::Gaussian(Gaussian { dim: 2, mean, noise: 0.7 }),
        location(sensitivity, 2, false),
        Loss::Mean,
    )
    .unwrap()
}

const PROTOCOL: Protocol = Protocol {
    scheme: Scheme::Full,
    local_steps: 1,
    batch: Batch::Sampled(4),
    step_size: StepSize::Constant(0.1),
    local: LocalRule::Descent,
    server: ServerRule::Average,
    deploy: Deploy::Step,
    aggregate: Aggregate::Deltas,
    scale_objectives: false,
    clip: None,
};

/// |∇f − ∇f_i|²/(1 + |x|²) never exceeds ς² and comes close to it, for every form of response.
#[test]
fn varsigma_is_tight() {
    let matrix = |a: f64, b: f64| vec![vec![a, -b], vec![0.5 * b, 0.5 * a]];
    for sensitivity in [
        Sensitivity::Scalar(vec![0.5, -0.7, 0.9]),
        Sensitivity::PerCoordinate(vec![vec![0.5, 0.1], vec![-3.0, 0.4], vec![0.9, 0.6]]),
        Sensitivity::Matrix(vec![matrix(0.4, 2.8), matrix(-0.3, 0.5), matrix(0.6, 0.2)]),
    ] {
        let federation = federation(&sensitivity);
        let point = stable_point(&federation, &[0.0, 0.0]).unwrap();
        let constants = Constants::of(&federation, &PROTOCOL, &[0.0, 0.0], Some(&point));
        let square = constants.varsigma.value.unwrap().powi(2);
        assert_eq!(constants.varsigma.how, How::SingularValue);
        let mut largest: f64 = 0.0;
        for turn in 0..180 {
            let angle = turn as f64 * std::f64::consts::PI / 90.0;
            for size in (-40..=40).map(|k| 10f64.powf(k as f64 / 10.0)) {
                let x = [size * angle.cos(), size * angle.sin()];
                let theta = [point[0] + x[0], point[1] + x[1]];
                let all = federation.mean_field(&theta, &theta).gradient;
                for i in 0..3 {
                    let own = federation.population(i).expand(&theta, &theta).gradient;
                    largest = largest.max((&all - own).norm_squared() / (1.0 + size * size));
                }
            }
        }
        assert!(largest <= square * (1.0 + 1e-9), "{largest} {square}");
        assert!(largest >= 0.99 * square, "{largest} {square}");
    }
}

#[test]
fn gaussian_constants() {
    let federation = federation(&Sensitivity::Scalar(vec![0.5, -0.7, 0.9]));
    let point = stable_point(&federation, &[0.0, 0.0]).unwrap();
    let constants = Constants::of(&federation, &PROTOCOL, &[0.0, 0.0], Some(&point));
    let close = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-12;
    assert!(close(constants.mu.value, 1.0) && close(constants.smoothness.value, 1.0));
    // Two coordinates of variance 0.49, batches of four.
    assert!(close(constants.sigma.value, (2.0 * 0.49f64 / 4.0).sqrt()));
    assert!(close(constants.average_sensitivity.value, 0.25 + 0.21 + 0.18));
    assert!(close(constants.largest_sensitivity.value, 0.9));
    assert!(close(constants.delta_0.value, point.iter().map(|x| x * x).sum()));
}
