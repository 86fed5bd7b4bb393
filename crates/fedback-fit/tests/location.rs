//! The location test errs as often as it says on shifts, and finds what is none.

mod simulated;

use fedback_core::stream::{Draws, Seed};
use fedback_fit::location::{LocationTest, location_test};
use fedback_fit::selection::Evidence;
use simulated::{Base, Design, repetition};

const ONE: [&[f64]; 2] = [&[0.0], &[1.0]];
const THREE: [&[f64]; 2] = [&[0.0, 0.0, 0.0], &[1.0, 0.5, -0.5]];
const MANY: [&[f64]; 3] = [&[0.0, 0.0], &[1.0, 0.5], &[0.5, 1.0]];

fn designs() -> Vec<Design> {
    let mut all = Vec::new();
    for base in [Base::Normal, Base::Lognormal, Base::Exponential, Base::Count] {
        all.push(Design::new(base, &ONE, &[100, 100]));
        all.push(Design::new(base, &ONE, &[60, 200]));
        all.push(Design::new(base, &THREE, &[100, 150]));
        all.push(Design::new(base, &MANY, &[80, 80, 100]));
        all.push(Design { paired: Some(1.0), ..Design::new(base, &THREE, &[100, 100]) });
    }
    all
}

type Change<'a> = &'a dyn Fn(&mut [f64], &mut Draws);

/// How often the test rejects at 5 %, after a change to the rows of the last deployment.
fn rejected(design: &Design, test: u64, repetitions: usize, change: Change<'_>) -> f64 {
    let mut count = 0;
    for number in 0..repetitions {
        let mut draws = repetition(test, number);
        let truth = design.truth(&mut draws);
        let mut seen = design.observe(&truth, &mut draws);
        let last = seen.samples.len() - 1;
        for row in seen.samples[last].values.chunks_exact_mut(design.dim()) {
            change(row, &mut draws);
        }
        let evidence = Evidence::new(seen);
        let features: Vec<usize> = (0..design.dim()).collect();
        let seed = Seed(number as u64);
        let found = location_test(&evidence, &design.deployments(), &features, seed, 0, 1);
        count += usize::from(matches!(found, LocationTest::PValue(p) if p <= 0.05));
    }
    count as f64 / repetitions as f64
}

#[test]
fn shifts_are_rejected_as_often_as_said() {
    let size = |(at, design)| rejected(design, 3000 + at as u64, 25, &|_, _| {});
    let designs = designs();
    let sizes: Vec<f64> = designs.iter().enumerate().map(size).collect();
    let pooled = sizes.iter().sum::<f64>() / sizes.len() as f64;
    // 500 tests have a standard error of 1 %.
    assert!((0.02..=0.08).contains(&pooled), "{pooled}");
}

#[test]
#[ignore = "minutes"]
fn shifts_are_rejected_as_often_as_said_in_2000_repetitions() {
    for (at, design) in designs().iter().enumerate() {
        let size = rejected(design, 3000 + at as u64, 2000, &|_, _| {});
        println!("{size:.4} {design:?}");
        assert!((0.03..=0.08).contains(&size), "{size} {design:?}");
    }
}

/// Features that are often zero, and heavy tails in few rows.
fn awkward(repetitions: usize) -> Vec<f64> {
    let two: [&[f64]; 2] = [&[0.0, 0.0], &[1.0, 0.5]];
    let designs = [
        Design::new(Base::Zeros(0.6), &two, &[40, 150]),
        Design::new(Base::Zeros(0.6), &two, &[100, 100]),
        Design::new(Base::Zeros(0.3), &ONE, &[40, 40]),
        Design::new(Base::Zeros(0.3), &ONE, &[150, 150]),
        Design::new(Base::Heavy, &ONE, &[40, 40]),
        Design::new(Base::Heavy, &ONE, &[150, 150]),
    ];
    let size = |(at, design)| rejected(design, 3500 + at as u64, repetitions, &|_, _| {});
    designs.iter().enumerate().map(size).collect()
}

#[test]
fn awkward_shifts_are_rejected_as_often_as_said() {
    let sizes = awkward(50);
    let pooled = sizes.iter().sum::<f64>() / sizes.len() as f64;
    // 300 tests have a standard error of 1.3 %.
    assert!(pooled <= 0.09, "{sizes:?}");
}

#[test]
#[ignore = "minutes"]
fn awkward_shifts_are_rejected_as_often_as_said_in_400_repetitions() {
    let sizes = awkward(400);
    println!("{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 0.1), "{sizes:?}");
}

/// The score of the deployed model.
fn score(row: &[f64]) -> f64 {
    row.iter().zip([1.0, 0.5, -0.7]).map(|(x, theta)| x * theta).sum()
}

/// Those just above a threshold of the score move below it, and nobody else.
fn near_the_threshold(row: &mut [f64], _: &mut Draws) {
    let score = score(row);
    if (0.0..1.0).contains(&score) {
        row[0] -= score + 0.01;
    }
}

/// Whoever has a high score moves by as much as there is to gain.
fn above_the_threshold(row: &mut [f64], _: &mut Draws) {
    if score(row) > 0.0 {
        row[0] -= 1.0;
    }
}

/// Half of the individuals do not know of the model.
fn half(row: &mut [f64], draws: &mut Draws) {
    if draws.uniform() < 0.5 {
        row[0] -= 2.5;
    }
}

fn power(repetitions: usize, loud: bool) -> Vec<f64> {
    let mut powers = Vec::new();
    let changes: [(&str, Change<'_>); 3] =
        [("near", &near_the_threshold), ("above", &above_the_threshold), ("half", &half)];
    let two: [&[f64]; 2] = [&[0.0, 0.0], &[1.0, 0.5]];
    let three: [&[f64]; 2] = [&[0.0, 0.0, 0.0], &[1.0, 0.5, -0.7]];
    for (at, thetas) in [ONE, two, three].into_iter().enumerate() {
        for (which, (name, change)) in changes.iter().enumerate() {
            let mut design = Design::new(Base::Normal, &thetas, &[400, 400]);
            // The change is the response; nothing else moves.
            design.thetas[1].iter_mut().for_each(|theta| *theta *= 1e-9);
            let found =
                rejected(&design, 4000 + 10 * at as u64 + which as u64, repetitions, change);
            if loud {
                println!("{found:.3} {name} dim {}", design.dim());
            }
            powers.push(found);
        }
    }
    powers
}

#[test]
fn thresholds_are_found() {
    let powers = power(20, false);
    assert!(powers.iter().all(|power| *power >= 0.9), "{powers:?}");
}

#[test]
#[ignore = "minutes"]
fn thresholds_are_found_in_500_repetitions() {
    let powers = power(500, true);
    assert!(powers.iter().all(|power| *power >= 0.95), "{powers:?}");
}
