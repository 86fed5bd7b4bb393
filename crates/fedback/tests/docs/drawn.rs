//! Pictures of mathematics, which no command draws: made here by the renderer of all figures, from what
//! core and theory say of the problems of the pages.

use fedback::core::base::{Base, Gaussian, Marks, Partition, Preparation, RawTable, Table};
use fedback::core::federation::Federation;
use fedback::core::loss::Loss;
use fedback::core::response::{
    By, Law, Response, Retention, Sensitivity, Shift, Strategic, Turnout, Wants, location,
};
use fedback::core::stream::Seed;
use fedback::lab::figure::{Axis, Figure, Mark, Series};
use fedback::theory::stable::stable_points;

use super::compare_drawing;

/// Places between two numbers.
fn grid(low: f64, high: f64) -> impl Iterator<Item = f64> {
    (0..=300).map(move |step| low + (high - low) * f64::from(step) / 300.0)
}

/// The stable points of a problem in one dimension, on a curve.
fn marked(federation: &Federation, colour: usize, on: impl Fn(f64) -> f64) -> Series {
    let found = stable_points(federation, &[0.0]).points;
    let points = found.iter().map(|point| (point.theta[0], on(point.theta[0]))).collect();
    Series::line("", colour, points).with_mark(Mark::Dots)
}

fn normal(mean: Vec<f64>, weights: Vec<f64>, response: impl Into<Response>) -> Federation {
    let base = Base::Gaussian(Gaussian { dim: 1, mean, noise: 1.0 });
    Federation::new(weights, base, response, Loss::Mean).unwrap()
}

/// Two towns of `leaving.toml`: Ψ for several rates.
#[test]
fn valleys() {
    let shares = [0.6, 0.4];
    let mut series = Vec::new();
    for (colour, rate) in [0.3, 0.6, 1.2].into_iter().enumerate() {
        let leave = Retention {
            by: By::Client,
            law: Law::Exponential,
            rate: vec![rate; 2],
            floor: 0.0,
            renewal: 1.0,
            turnout: Turnout::Fixed,
        };
        let towns = normal(vec![0.0, 3.0], shares.to_vec(), Response::Retention(leave));
        let potential = |theta: f64| {
            let stays =
                |k: usize| shares[k] * (-rate * towns.population(k).risk(&[theta], &[theta])).exp();
            -(stays(0) + stays(1)).ln() / rate
        };
        let name = format!("rate {rate}");
        let curve = grid(-1.5, 4.5).map(|theta| (theta, potential(theta))).collect();
        series.push(Series::line(name, colour, curve));
        series.push(marked(&towns, colour, potential).sharing("stable points"));
    }
    let figure = Figure {
        title: "Potential Ψ of two clients whose people leave".into(),
        subtitle: "Small steps go downhill; stable points are where it is flat".into(),
        x: Axis::linear("model θ"),
        y: Axis::linear("Ψ(θ)"),
        series,
    };
    compare_drawing("valleys.svg", &figure.to_svg());
}

/// The row of `one.toml`: the averaged gradient at the deployed model.
#[test]
fn jump() {
    let raw = RawTable {
        features: vec!["x".into()],
        values: vec![1.0],
        labels: vec![0.75],
        clients: None,
    };
    let how = Preparation {
        shuffle: false,
        standardize: false,
        intercept: false,
        partition: Partition::Equal(1),
        by_class: false,
    };
    let table = Table::split(raw, Marks::default(), &how, Seed(1)).unwrap().training;
    let mut series =
        vec![Series::line("zero", 7, vec![(0.2, 0.0), (1.0, 0.0)]).with_mark(Mark::Dotted)];
    for (colour, smoothing) in [0.0, 0.05, 0.2].into_iter().enumerate() {
        let (wants, share) = (Wants::Positive, 1.0);
        let (threshold, budget) = (1.0, 1.0);
        let moves = Strategic { features: vec![0], wants, threshold, budget, share, smoothing };
        let response = Response::Strategic(moves);
        let base = Base::Table(table.clone());
        let row = Federation::new([1.0], base, response, Loss::Squared { l2: 0.0 }).unwrap();
        let gradient = |theta: f64| row.gradient(&[theta], &[theta])[0];
        let mut curve: Vec<(f64, f64)> = Vec::new();
        for theta in grid(0.2, 1.0) {
            let here = gradient(theta);
            // A jump is no line.
            if curve.last().is_some_and(|(_, before)| (here - before).abs() > 0.1) {
                curve.push((theta, f64::NAN));
            }
            curve.push((theta, here));
        }
        let name = format!("smoothing {smoothing}");
        series.push(Series::line(name, colour, curve));
        series.push(marked(&row, colour, gradient).sharing("stable points"));
    }
    let figure = Figure {
        title: "Averaged gradient where a row moves to a threshold".into(),
        subtitle: "Without smoothing it jumps past zero: there is no stable point".into(),
        x: Axis::linear("model θ"),
        y: Axis::linear("averaged gradient F(θ)"),
        series,
    };
    compare_drawing("jump.svg", &figure.to_svg());
}

/// Where the mean of the data goes, and where that is the model itself.
#[test]
fn following() {
    let line = vec![(-2.0, -2.0), (2.5, 2.5)];
    let mut series = vec![Series::line("the model itself", 7, line).with_mark(Mark::Dotted)];
    let shift = |sensitivity: f64| location(&Sensitivity::Scalar(vec![sensitivity]), 1, false);
    let saturating =
        |sensitivity| Shift::Saturating { of: Box::new(shift(sensitivity)), limit: 1.0 };
    for (colour, name, shift) in [
        (0, "saturating, sensitivity 0.5", saturating(0.5)),
        (1, "saturating, sensitivity 2", saturating(2.0)),
    ] {
        let people = normal(vec![0.2], vec![1.0], shift);
        let mean = |theta: f64| theta - people.gradient(&[theta], &[theta])[0];
        let curve = grid(-2.0, 2.5).map(|theta| (theta, mean(theta))).collect();
        series.push(Series::line(name, colour, curve));
        series.push(marked(&people, colour, |theta| theta).sharing("stable points"));
    }
    let people = normal(vec![0.2], vec![1.0], shift(2.0));
    let mean = |theta: f64| theta - people.gradient(&[theta], &[theta])[0];
    let curve = vec![(-1.1, mean(-1.1)), (1.15, mean(1.15))];
    series.push(Series::line("location, sensitivity 2", 2, curve).with_mark(Mark::Dashed));
    let figure = Figure {
        title: "Mean of the data under a deployed model".into(),
        subtitle: "One client, loss mean: stable points are where the curve meets the model itself"
            .into(),
        x: Axis::linear("deployed model θ"),
        y: Axis::linear("mean of the data"),
        series,
    };
    compare_drawing("following.svg", &figure.to_svg());
}
