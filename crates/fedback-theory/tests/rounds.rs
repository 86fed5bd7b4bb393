//! Rounds of every algorithm against numbers derived elsewhere.

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{LocalRule, Protocol, Scheme, ServerRule, StepSize};
use fedback_core::response::{Sensitivity, location};
use fedback_theory::exact::ExactCurve;
use fedback_theory::limit::RoundMap;
use fedback_theory::stable::stable_point;

fn line(weights: &[f64], mean: &[f64], sensitivity: &[f64]) -> Federation {
    Federation::new(
        weights.to_vec(),
        Base::Gaussian(Gaussian { dim: 1, mean: mean.to_vec(), noise: 1.0 }),
        location(&Sensitivity::Scalar(sensitivity.to_vec()), 1, false),
        Loss::Mean,
    )
    .unwrap()
}

/// Three clients whose rest is known in closed form.
fn three() -> Federation {
    line(&[0.5, 0.3, 0.2], &[1.0, 2.0, 4.0], &[0.2, 0.5, 0.9])
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 6e-8 * (1.0 + expected.abs()), "{found} {expected}");
}

#[test]
fn rests_of_every_algorithm() {
    let federation = three();
    let usual = Protocol::p_fedavg(Scheme::Full, 10, StepSize::Constant(0.1));
    let proximal = |proximal| LocalRule::Proximal { proximal };
    let point = stable_point(&federation, &[0.0]).unwrap();
    let momentum = ServerRule::Momentum { rate: 0.7, beta: 0.5 };
    for (local, server, bias, variance) in [
        (LocalRule::Descent, ServerRule::Average, 0.4552883, Some(0.0342003)),
        (LocalRule::Descent, momentum, 0.4552883, None),
        (proximal(0.5), ServerRule::Average, 0.4276893, None),
        (proximal(5.0), ServerRule::Average, 0.1817348, None),
        (LocalRule::Scaffold, ServerRule::Average, 0.0, Some(0.0345261)),
    ] {
        let protocol = Protocol { local, server, ..usual };
        let mut map = RoundMap::new(&federation, &protocol, None, &point).unwrap();
        let floor = map.floor(0.1).unwrap();
        close(floor.bias[0], bias);
        if let Some(variance) = variance {
            close(floor.covariance[0], variance);
        }
        let mut curve =
            ExactCurve::new(&federation, &protocol, None, &[0.0], Some(&point)).unwrap();
        (0..600).for_each(|_| curve.advance());
        close(curve.moments().distance_sq.unwrap(), floor.distance_sq());
    }
    let scaffold = Protocol { local: LocalRule::Scaffold, ..usual };
    let mut map = RoundMap::new(&federation, &scaffold, None, &point).unwrap();
    close(map.radius(0.1).unwrap(), 0.5347296);
}
