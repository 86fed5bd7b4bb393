//! Stable and optimal points where people leave, move to thresholds and listen: against an independent solver
//! (scipy's `fsolve`, BFGS and Nelder-Mead on the definitions), and against what can be worked out by hand.

use fedback_core::base::{Base, Gaussian, Marks, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::response::{
    Bounded, By, Law, Outcome, Own, OwnResponse, Response, Retention, Row, Sensitivity, Shift,
    Strategic, Turnout, Wants, best_response, location,
};
use fedback_core::stream::Seed;
use fedback_theory::optimal::{Optimum, optimum};
use fedback_theory::stable::{Note, Stability, StableReport, stable_points};
use nalgebra::DVector;

const LOGISTIC: Loss = Loss::Logistic { l2: 0.1 };

/// Forty rows of three features without randomness, and an intercept; two halves, or one client.
fn sine(clients: usize, binary: bool) -> Base {
    let row =
        |k: f64| [(1.3 * k).sin(), (0.7 * k).cos() + 0.3 * (3.1 * k).sin(), (0.37 * k * k).sin()];
    let rows: Vec<[f64; 3]> = (1..=40).map(|k| row(k as f64)).collect();
    let score = |k: usize, x: &[f64; 3]| 0.8 * x[0] - 0.6 * x[1] + 0.9 * (5.0 * k as f64).sin();
    let label = |(k, x): (usize, &[f64; 3])| match binary {
        true => f64::from(u8::from(score(k + 1, x) > 0.1)),
        false => score(k + 1, x),
    };
    let raw = RawTable {
        features: ["x1", "x2", "x3"].map(String::from).to_vec(),
        values: rows.iter().flatten().copied().collect(),
        labels: rows.iter().enumerate().map(label).collect(),
        clients: None,
    };
    let names = (1..=40).map(|k| if k % 3 == 0 { "b" } else { "a" }.to_string()).collect();
    table(raw, clients, Some(names), true)
}

fn table(raw: RawTable, clients: usize, cells: Option<Vec<String>>, intercept: bool) -> Base {
    let how = Preparation {
        shuffle: false,
        standardize: false,
        intercept,
        partition: Partition::Equal(clients),
        by_class: false,
    };
    let marks = Marks { cells, ..Marks::default() };
    Base::Table(Table::split(raw, marks, &how, Seed(1)).unwrap().training)
}

fn problem(clients: usize, response: impl Into<Response>) -> Federation {
    Federation::new(vec![1.0 / clients as f64; clients], sine(clients, true), response, LOGISTIC)
        .unwrap()
}

fn retention(by: By, rate: f64, clients: usize) -> Retention {
    let (law, turnout) = (Law::Exponential, Turnout::Fixed);
    Retention { by, law, rate: vec![rate; clients], floor: 0.0, turnout }
}

fn strategic() -> Strategic {
    Strategic {
        features: vec![0, 1],
        wants: Wants::Negative,
        threshold: 0.0,
        budget: 0.5,
        share: 1.0,
        smoothing: 0.1,
    }
}

fn outcome(strength: &[f64]) -> Response {
    Response::Outcome(Outcome { strength: strength.to_vec() })
}

/// How far two points are apart, in the coordinate where that is most.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn best(federation: &Federation, report: &StableReport) -> Optimum {
    let zeros = vec![0.0; federation.dim()];
    let starts = report.points.iter().map(|point| point.theta.as_slice());
    optimum(federation, &starts.chain([zeros.as_slice()]).collect::<Vec<_>>())
}

/// A problem, its stable point, its optimal point, and the risks at both.
struct Known {
    name: &'static str,
    federation: Federation,
    stable: ([f64; 4], f64),
    optimal: ([f64; 4], f64),
}

fn known() -> Vec<Known> {
    let logistic = Retention {
        law: Law::Logistic { tolerance: 0.6 },
        floor: 0.1,
        ..retention(By::Label, 2.0, 1)
    };
    let reaching = Strategic {
        features: vec![0, 2],
        wants: Wants::Positive,
        threshold: 0.3,
        budget: 0.8,
        share: 0.7,
        smoothing: 0.2,
    };
    let inf = f64::INFINITY;
    let bounded = Bounded {
        shift: best_response(&Sensitivity::Scalar(vec![0.9]), &[0, 2], 4),
        reference: vec![0.0; 4],
        low: vec![-1.0, -inf, -1.0, -inf],
        high: vec![1.0, inf, 1.0, inf],
    };
    let squared = |binary: bool| {
        let (response, loss) = (outcome(&[0.7, -0.5]), Loss::Squared { l2: 0.0 });
        Federation::new([0.5, 0.5], sine(2, binary), response, loss).unwrap()
    };
    vec![
        Known {
            name: "who is served badly leaves, by the values of a column",
            federation: problem(2, Response::Retention(retention(By::Column, 3.0, 2))),
            stable: ([-0.289459184, -1.300847307, 0.175726859, -0.028188591], 0.498805635),
            optimal: ([-0.2972104, -1.2984916, 0.1722149, -0.0379165], 0.498793793),
        },
        Known {
            name: "labels leave by the logistic law, a tenth never",
            federation: problem(1, Response::Retention(logistic)),
            stable: ([-0.28481779, -1.302653773, 0.176892295, -0.023779347], 0.498912572),
            optimal: ([-0.1127647, -0.4727678, 0.0745151, -2.7940735], 0.388950644),
        },
        Known {
            name: "to the threshold, with a blurred budget",
            federation: problem(1, Response::Strategic(strategic())),
            stable: ([-0.259886212, -1.245454519, 0.191671781, 0.05888638], 0.518123987),
            optimal: ([-0.2766843, -1.2043061, 0.4048904, 0.2455894], 0.508700555),
        },
        Known {
            name: "seven in ten reach for a threshold above 0",
            federation: problem(1, Response::Strategic(reaching)),
            stable: ([-0.292663048, -1.301021517, 0.180528674, -0.032760623], 0.498356818),
            optimal: ([-0.2793983, -1.3057899, 0.1680829, -0.0323536], 0.498278915),
        },
        Known {
            name: "a prophecy that fulfils itself",
            federation: problem(1, outcome(&[0.6])),
            stable: ([-0.15916118, -0.756384614, 0.112451378, -0.016706819], 0.622730366),
            optimal: ([-0.2688022, -1.2144545, 0.1876683, -0.5446621], 0.606968194),
        },
        Known {
            name: "one that fulfils, one that defeats itself",
            federation: problem(2, outcome(&[0.5, -0.8])),
            stable: ([-0.071775505, -0.400988721, -0.012509383, -0.044453196], 0.673514385),
            optimal: ([-0.0732288, -0.3683306, -0.0323076, -0.0475738], 0.673284326),
        },
        Known {
            name: "numbers that listen, labels of 0 and 1",
            federation: squared(true),
            stable: ([-0.136669213, -0.523351997, -0.030803121, 0.531979063], 0.130631737),
            optimal: ([-0.1117228, -0.3409824, 0.0276823, 0.3860452], 0.106041553),
        },
        Known {
            name: "numbers that listen",
            federation: squared(false),
            stable: ([-0.054242034, -0.672732179, -0.075078203, -0.009934706], 0.070039557),
            optimal: ([-0.0079087, -0.480434, -0.0158185, -0.0015827], 0.057706693),
        },
        Known {
            name: "features between bounds",
            federation: problem(1, Response::Bounded(bounded)),
            stable: ([-0.277499026, -1.303783936, 0.158818177, 0.057455198], 0.500294487),
            optimal: ([-0.2438688, -1.3037043, 0.1417852, 0.0399727], 0.500179886),
        },
    ]
}

#[test]
fn points_are_those_of_an_independent_solver() {
    for Known { name, federation, stable, optimal } in known() {
        let report = stable_points(&federation, &[0.5, -0.5, 0.2, 0.1]);
        let found = &report.points[0];
        assert_eq!(found.stability(), Stability::Attracting, "{name}");
        assert!(apart(&found.theta, &stable.0) < 1e-6, "{name}: {:?}", found.theta);
        let risk = federation.risk(&found.theta, &found.theta);
        assert!((risk - stable.1).abs() < 1e-8, "{name}: {risk}");
        let Optimum::At(found) = best(&federation, &report) else { panic!("{name}: no optimum") };
        assert!((found.risk - optimal.1).abs() < 1e-8, "{name}: {}", found.risk);
        assert!(apart(&found.theta, &optimal.0) < 2e-5, "{name}: {:?}", found.theta);
    }
}

/// Margins and radii that were worked out elsewhere.
#[test]
fn margins_and_radii() {
    let first = |federation: &Federation| stable_points(federation, &[0.0; 4]).points.remove(0);
    let leaving = first(&problem(2, Response::Retention(retention(By::Column, 3.0, 2))));
    assert!((leaving.gradient_margin.unwrap() - 0.1618981).abs() < 1e-6);
    let moving = first(&problem(1, Response::Strategic(strategic())));
    assert!((moving.minimisation_radius.unwrap() - 0.1381450).abs() < 1e-6);
    // Half the labels are 1, and there is nothing but an intercept: F is 0 everywhere.
    for rate in [0.4, 1.0, 1.9] {
        let raw = RawTable {
            features: vec!["x".into()],
            values: vec![0.0; 4],
            labels: vec![1.0, 0.0, 1.0, 0.0],
            clients: None,
        };
        let response = Response::Retention(retention(By::Label, rate, 1));
        let loss = Loss::Logistic { l2: 0.1 };
        let federation = Federation::new([1.0], table(raw, 1, None, true), response, loss).unwrap();
        let field = federation.mean_field(&[0.0, 0.0], &[0.0, 0.0]);
        assert!(field.gradient.norm() < 1e-15);
        let margin = field.curvature[(1, 1)] + field.reaction[(1, 1)];
        assert!((margin - (1.0 - rate) / 4.0).abs() < 1e-12, "{margin}");
    }
}

fn leaving(weights: [f64; 2], mean: [f64; 2], rate: f64) -> Federation {
    let base = Base::Gaussian(Gaussian { dim: 1, mean: mean.to_vec(), noise: 1.0 });
    let response = Response::Retention(retention(By::Client, rate, 2));
    Federation::new(weights, base, response, Loss::Mean).unwrap()
}

/// The stable points in their order, with their margins.
fn in_order(federation: &Federation, start: f64) -> Vec<(f64, f64)> {
    let report = stable_points(federation, &[start]);
    let margin = |point: &fedback_theory::stable::StablePoint| point.gradient_margin.unwrap();
    let mut all: Vec<_> = report.points.iter().map(|p| (p.theta[0], margin(p))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

#[test]
fn several_stable_points_are_found_and_each_judged() {
    let towns = leaving([0.6, 0.4], [0.0, 3.0], 1.2);
    let expected = [(0.0093121, 0.966580), (1.6793891, -1.661383), (2.9781739, 0.921998)];
    for start in [0.0, 1.7, 5.0] {
        let found = in_order(&towns, start);
        assert_eq!(found.len(), 3);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found.0 - expected.0).abs() < 1e-6 && (found.1 - expected.1).abs() < 1e-5);
        }
    }
    let reached = |start: f64| {
        let report = stable_points(&towns, &[start]);
        report.points[report.reached.unwrap()].theta[0]
    };
    assert!((reached(1.67) - 0.0093121).abs() < 1e-6);
    assert!((reached(1.69) - 2.9781739).abs() < 1e-6);
    let Optimum::At(optimal) = best(&towns, &stable_points(&towns, &[0.0])) else { panic!() };
    assert!((optimal.theta[0] + 0.035757).abs() < 1e-6);
    // Equal clients part once rate times the square of their distance from the middle is above 1.
    let one = in_order(&leaving([0.5, 0.5], [-1.0, 1.0], 0.9), 0.3);
    assert!(one.len() == 1 && one[0].0.abs() < 1e-9);
    let three = in_order(&leaving([0.5, 0.5], [-1.0, 1.0], 1.1), 0.3);
    for (found, expected) in three.iter().zip([-0.502941, 0.0, 0.502941]) {
        assert!((found.0 - expected).abs() < 1e-6);
    }
    assert_eq!(three.iter().map(|point| point.1 > 0.0).collect::<Vec<_>>(), [true, false, true]);
    let base = Base::Gaussian(Gaussian { dim: 1, mean: vec![0.2], noise: 1.0 });
    let of = Box::new(location(&Sensitivity::Scalar(vec![2.0]), 1, false));
    let shift = Shift::Saturating { of, limit: 1.0 };
    let saturating = Federation::new([1.0], base, shift, Loss::Mean).unwrap();
    let found = in_order(&saturating, 0.0);
    for (found, expected) in found.iter().zip([-0.6732017, -0.2298664, 1.1825016]) {
        assert!((found.0 - expected).abs() < 1e-6);
    }
    assert_eq!(found.iter().map(|point| point.1 > 0.0).collect::<Vec<_>>(), [true, false, true]);
}

/// By label, with a free intercept and no floor, no risk is as small as where one label has left.
#[test]
fn an_optimum_at_infinity_is_called_that() {
    let federation = problem(1, Response::Retention(retention(By::Label, 1.5, 1)));
    let report = stable_points(&federation, &[0.0; 4]);
    let best = best(&federation, &report);
    assert!(matches!(best, Optimum::AtInfinity(_)), "{best:?}");
}

/// Rows x of one number that want a score of 1, with their labels.
fn reaching(rows: &[(f64, f64)], budget: f64) -> Federation {
    let raw = RawTable {
        features: vec!["x".into()],
        values: rows.iter().map(|row| row.0).collect(),
        labels: rows.iter().map(|row| row.1).collect(),
        clients: None,
    };
    let response = Response::Strategic(Strategic {
        features: vec![0],
        wants: Wants::Positive,
        threshold: 1.0,
        budget,
        share: 1.0,
        smoothing: 0.0,
    });
    let loss = Loss::Squared { l2: 0.0 };
    Federation::new([1.0], table(raw, 1, None, false), response, loss).unwrap()
}

/// From wherever small steps start, they chatter around the place at which the row's way becomes too long.
#[test]
fn where_the_gradient_jumps_over_zero_the_place_is_named() {
    let federation = reaching(&[(1.0, 0.75)], 1.0);
    for start in [0.1, 0.4999, 0.5001, 0.9, 2.0] {
        let report = stable_points(&federation, &[start]);
        assert!(report.points.is_empty());
        assert_eq!((report.stability(), report.notes), (Stability::None, vec![Note::Jumps]));
        let jump = report.jump.unwrap();
        assert!((jump.theta[0] - 0.5).abs() < 1e-9, "{start}: {:?}", jump.theta);
        // Below it stays, and its score is too small; above, its score is 1 where .75 was wanted.
        let below = jump.before[0].min(jump.behind[0]);
        let above = jump.before[0].max(jump.behind[0]);
        assert!((below + 0.25).abs() < 1e-6, "{below}");
        assert!((above - 0.5).abs() < 1e-6, "{above}");
    }
}

/// With more coordinates a path slides along the jump before it rests; there some average of both sides vanishes.
#[test]
fn a_sliding_path_ends_where_both_sides_cancel() {
    let sharp = Strategic { smoothing: 0.0, ..strategic() };
    let mut rests = 0;
    for budget in [0.3, 0.5, 0.8, 1.1, 1.4] {
        let sharp = Response::Strategic(Strategic { budget, ..sharp.clone() });
        let federation = problem(1, sharp);
        let start = [0.5, -0.5, 0.2, 0.1];
        let report = stable_points(&federation, &start);
        for point in &report.points {
            let away = federation.gradient(&point.theta, &point.theta).norm();
            assert!(away < 1e-8, "a root that is none: {away}");
        }
        let Some(jump) = &report.jump else { continue };
        rests += 1;
        let gradient = |side: f64| {
            let towards = DVector::from_vec(jump.before.clone()).normalize() * (1e-7 * side);
            let at: Vec<f64> = jump.theta.iter().zip(&towards).map(|(t, by)| t - by).collect();
            federation.gradient(&at, &at)
        };
        let (before, behind) = (gradient(-1.0), gradient(1.0));
        let across = &behind - &before;
        let part = (-before.dot(&across) / across.norm_squared()).clamp(0.0, 1.0);
        let rest = (&before + &across * part).norm();
        assert!(rest < 2e-3 * before.norm().max(behind.norm()), "{budget}: {rest}");
        assert!(across.norm() > 0.1 * before.norm());
    }
    println!("{rests} of 5 paths end at a jump");
}

/// What `outcome` and `strategic` say, said by rules of one's own.
#[derive(Debug)]
struct Listens(f64);

impl OwnResponse for Listens {
    fn label(&self, row: &Row<'_>, deployed: &[f64]) -> f64 {
        let told = 1.0 / (1.0 + (-row.score(deployed)).exp());
        (1.0 - self.0) * row.label + self.0 * told
    }

    fn has_kinks(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct Follows(f64);

impl OwnResponse for Follows {
    fn features(&self, row: &Row<'_>, deployed: &[f64], out: &mut [f64]) {
        for j in 0..3 {
            out[j] = row.x[j] - self.0 * deployed[j];
        }
        out[3] = row.x[3];
    }

    fn has_kinks(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct Leaves(f64);

impl OwnResponse for Leaves {
    fn stays(&self, row: &Row<'_>, deployed: &[f64]) -> f64 {
        (-self.0 * row.cost(deployed)).exp()
    }

    fn leaves(&self) -> bool {
        true
    }
}

#[test]
fn rules_of_ones_own_come_to_the_points_of_those_built_in() {
    let built_in = [
        problem(2, outcome(&[0.6, 0.6])),
        problem(2, best_response(&Sensitivity::Scalar(vec![0.8; 2]), &[0, 1, 2], 4)),
        problem(2, Response::Retention(retention(By::Row, 0.7, 2))),
    ];
    let own = [
        problem(2, Response::Own(Own::new("listens", Listens(0.6)))),
        problem(2, Response::Own(Own::new("follows", Follows(0.8)))),
        problem(2, Response::Own(Own::new("leaves", Leaves(0.7)))),
    ];
    let start = [0.5, -0.5, 0.2, 0.1];
    for (built_in, own) in built_in.iter().zip(&own) {
        let (one, other) = (stable_points(built_in, &start), stable_points(own, &start));
        let (one, other) = (&one.points[0], &other.points[0]);
        assert!(apart(&one.theta, &other.theta) < 1e-8);
        let margins = [one, other].map(|point| point.gradient_margin.unwrap());
        assert!((margins[0] - margins[1]).abs() < 1e-7, "{margins:?}");
        let retained = [built_in, own].map(|f| f.turnout(&one.theta, false).retained);
        assert!((retained[0] - retained[1]).abs() < 1e-12, "{retained:?}");
    }
}
