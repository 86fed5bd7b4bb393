//! What is found of a problem that is only asked for risks and gradients, beside what is known of it.

mod tables;

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::response::{Sensitivity, best_response};
use fedback_core::stream::{Purpose, Seed, Stream};
use fedback_theory::optimal::optimal_point;
use fedback_theory::sampled::{Field, Place, Sample, Sampled};
use fedback_theory::stable::stable_points;
use nalgebra::DVector;
use tables::table;

/// A federation that tells its derivatives to nobody.
struct Mute<'a>(&'a Federation);

impl Sample for Mute<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn fields(&self, places: &[Place]) -> Vec<Field> {
        let field = |place: &Place| {
            let field = self.0.mean_field(place.theta.as_slice(), place.deployed.as_slice());
            Field { risk: field.risk, gradient: field.gradient }
        };
        places.iter().map(field).collect()
    }
}

fn logistic(sensitivity: f64, features: usize) -> Federation {
    let mut draws = Stream::for_problem(Seed(4), Purpose::Means).draws();
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..90 {
        let x: Vec<f64> = (0..features).map(|_| draws.normal()).collect();
        labels.push((x[0] - 0.7 * x[1] + 0.4 + draws.normal() > 0.0) as u8 as f64);
        values.extend(x);
    }
    let table = table(&values, &labels, 3, true);
    let sensitivity = Sensitivity::Scalar(vec![0.5 * sensitivity, sensitivity, 1.5 * sensitivity]);
    let response = best_response(&sensitivity, &[0, 1], table.dim);
    let loss = Loss::Logistic { l2: 0.1 };
    Federation::new([0.2, 0.5, 0.3], Base::Table(table), response, loss).unwrap()
}

/// In few coordinates derivatives are taken anew, in many they are carried along.
#[test]
fn points_are_those_of_theory() {
    for features in [3, 45] {
        let federation = logistic(0.6, features);
        let start = vec![0.0; federation.dim()];
        let truth = stable_points(&federation, &start).points.remove(0);
        let sampled = Sampled::new(Mute(&federation), true);
        assert!(sampled.is_seeded(&start) && sampled.is_smooth(&truth.theta));
        // Carried along, derivatives lead from the flow astray: in many coordinates only Newton's way is sure.
        let ways: &[bool] = if features < 40 { &[false, true] } else { &[true] };
        for &newton in ways {
            let found = sampled.root(&start, newton).unwrap();
            let away = DVector::from_vec(found.theta) - DVector::from_column_slice(&truth.theta);
            assert!(away.norm() < 1e-8, "{features} {}", away.norm());
        }
        let (radius, margin) = sampled.spectra(&truth.theta);
        assert!((radius.unwrap() - truth.minimisation_radius.unwrap()).abs() < 1e-5);
        assert!((margin.unwrap() - truth.gradient_margin.unwrap()).abs() < 1e-5);
        assert!(sampled.minimisation_reaches(&start, &truth.theta));
        let best = optimal_point(&federation, &[&truth.theta]).unwrap();
        let found = sampled.optimal(&truth.theta).unwrap();
        assert!((sampled.risk(&found) - best.risk).abs() < 1e-7);
    }
}

/// Repeated minimisation overshoots, and is not said to come near.
#[test]
fn minimisation_that_is_repelled_does_not_reach() {
    let federation = logistic(-6.0, 3);
    let start = vec![0.0; federation.dim()];
    let sampled = Sampled::new(Mute(&federation), true);
    let point = sampled.root(&start, true).unwrap();
    assert!(sampled.spectra(&point.theta).0.unwrap() > 1.0);
    assert!(!sampled.minimisation_reaches(&start, &point.theta));
}

/// What is deployed moves observations in jumps of a size.
struct Stairs(f64);

impl Sample for Stairs {
    fn dim(&self) -> usize {
        1
    }

    fn fields(&self, places: &[Place]) -> Vec<Field> {
        let field = |place: &Place| {
            let moved = (place.deployed[0] / self.0).floor() * self.0;
            let gradient = &place.theta - DVector::from_element(1, 1.0 + 0.5 * moved);
            Field { risk: 0.5 * gradient.norm_squared(), gradient }
        };
        places.iter().map(field).collect()
    }
}

#[test]
fn stairs_are_not_smooth() {
    for size in [1e-3, 1e-2] {
        assert!(!Sampled::new(Stairs(size), true).is_smooth(&[0.3]), "{size}");
        let wide = Sampled::new(Stairs(size), false);
        let root = wide.root(&[0.0], true).unwrap();
        assert!((root.theta[0] - 2.0).abs() < 0.02, "{size} {}", root.theta[0]);
    }
    assert!(Sampled::new(Stairs(1e-9), true).is_smooth(&[0.3]));
}
