//! Responses that are not linear: derivatives against differences, and numbers worked out elsewhere.

use fedback_core::base::{Base, Gaussian, Marks, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Protocol, Scheme, StepSize};
use fedback_core::response::{
    Bounded, By, Law, Outcome, Own, OwnResponse, Response, Retention, Row, Sensitivity, Shift,
    Slopes, Strategic, Turnout, Wants, best_response, location,
};
use fedback_core::state::State;
use fedback_core::stream::{Purpose, Seed, Stream};
use nalgebra::DVector;

const L2: f64 = 0.1;
const LOGISTIC: Loss = Loss::Logistic { l2: L2 };
const SQUARED: Loss = Loss::Squared { l2: L2 };

/// Forty rows of three features without randomness, an intercept, two clients or one.
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
    let how = Preparation {
        shuffle: false,
        standardize: false,
        intercept: true,
        partition: Partition::Equal(clients),
        by_class: false,
    };
    let names = (1..=40).map(|k| if k % 3 == 0 { "b" } else { "a" }.to_string()).collect();
    let marks = Marks { cells: Some(names), ..Marks::default() };
    Base::Table(Table::split(raw, marks, &how, Seed(1)).unwrap().training)
}

fn problem(clients: usize, response: impl Into<Response>, loss: Loss) -> Federation {
    let base = sine(clients, matches!(loss, Loss::Logistic { .. }));
    Federation::new(vec![1.0 / clients as f64; clients], base, response, loss).unwrap()
}

fn retention(by: By, rate: Vec<f64>) -> Retention {
    Retention { by, law: Law::Exponential, rate, floor: 0.0, renewal: 1.0, turnout: Turnout::Fixed }
}

fn strategic(budget: f64, smoothing: f64) -> Strategic {
    let wants = Wants::Negative;
    Strategic { features: vec![0, 1], wants, threshold: 0.0, budget, share: 1.0, smoothing }
}

fn saturating(clients: usize) -> Shift {
    let of = Box::new(location(&Sensitivity::Scalar(vec![1.3; clients]), 3, true));
    Shift::Saturating { of, limit: 0.8 }
}

fn bounded(clients: usize) -> Bounded {
    let inf = f64::INFINITY;
    Bounded {
        shift: best_response(&Sensitivity::Scalar(vec![0.7; clients]), &[0, 2], 4),
        reference: vec![0.1, 0.0, -0.2, 0.3],
        low: vec![-1.0, -inf, -1.1, -inf],
        high: vec![1.0, inf, inf, inf],
    }
}

const THETA: [f64; 4] = [0.4, -1.0, 0.7, 0.2];
const DEPLOYED: [f64; 4] = [0.9, 0.3, -0.6, -0.4];

fn members() -> Vec<(&'static str, Federation)> {
    let logistic = Law::Logistic { tolerance: 0.6 };
    let follow = Turnout::Follow;
    let mut all = vec![
        ("saturating", problem(2, saturating(2), LOGISTIC)),
        ("bounded", problem(2, Response::Bounded(bounded(2)), LOGISTIC)),
        ("bounded squared", problem(2, Response::Bounded(bounded(2)), SQUARED)),
        ("strategic", problem(2, Response::Strategic(strategic(0.5, 0.1)), LOGISTIC)),
        ("strategic squared", problem(2, Response::Strategic(strategic(0.5, 0.3)), SQUARED)),
        ("outcome", problem(2, Response::Outcome(Outcome { strength: vec![0.6, -0.4] }), LOGISTIC)),
        (
            "outcome squared",
            problem(2, Response::Outcome(Outcome { strength: vec![0.7, -0.5] }), SQUARED),
        ),
    ];
    for by in [By::Client, By::Label, By::Column, By::Row] {
        for (floor, law) in
            [(0.0, Law::Exponential), (0.2, Law::Exponential), (0.0, logistic), (0.1, logistic)]
        {
            let own = Retention { law, floor, ..retention(by, vec![1.7, 0.8]) };
            all.push(("retention", problem(2, Response::Retention(own.clone()), LOGISTIC)));
            if by != By::Row {
                let slow = Retention { renewal: 0.3, ..own.clone() };
                all.push(("retention, renewed", problem(2, Response::Retention(slow), LOGISTIC)));
            }
            let own = Retention { turnout: follow, ..own };
            all.push(("retention, following", problem(2, Response::Retention(own), LOGISTIC)));
        }
    }
    for given in [false, true] {
        for loss in [LOGISTIC, SQUARED] {
            let rule = Own::new("fear", Fear { given });
            all.push(("a rule of one's own", problem(2, Response::Own(rule), loss)));
        }
    }
    all
}

/// Rows that move, change their minds and leave, all by what they think of their score.
#[derive(Debug)]
struct Fear {
    /// Whether it knows its derivatives.
    given: bool,
}

impl Fear {
    fn told(row: &Row<'_>, deployed: &[f64]) -> f64 {
        1.0 / (1.0 + (-row.score(deployed)).exp())
    }
}

impl OwnResponse for Fear {
    fn features(&self, row: &Row<'_>, deployed: &[f64], out: &mut [f64]) {
        out.copy_from_slice(row.x);
        out[1] -= 0.8 * Fear::told(row, deployed);
    }

    fn label(&self, row: &Row<'_>, deployed: &[f64]) -> f64 {
        0.7 * row.label + 0.3 * Fear::told(row, deployed)
    }

    fn stays(&self, row: &Row<'_>, deployed: &[f64]) -> f64 {
        1.0 - 0.4 * Fear::told(row, deployed)
    }

    fn leaves(&self) -> bool {
        true
    }

    fn slopes(&self, row: &Row<'_>, deployed: &[f64], out: &mut Slopes) -> bool {
        let told = Fear::told(row, deployed);
        for (k, x) in row.x.iter().enumerate() {
            let steep = told * (1.0 - told) * x;
            out.share[k] = -0.4 * steep;
            out.label[k] = 0.3 * steep;
            if let Some(moves) = &mut out.x {
                moves[(1, k)] = -0.8 * steep;
            }
        }
        self.given
    }
}

/// Four numbers between −1.5 and 1.5.
fn anywhere(n: u64) -> [f64; 4] {
    let mut draws = Stream::for_problem(Seed(n), Purpose::Means).draws();
    [0; 4].map(|_| 3.0 * draws.uniform() - 1.5)
}

/// Central differences of a function of four numbers, a column each.
fn differences(at: &[f64; 4], of: impl Fn(&[f64]) -> DVector<f64>) -> Vec<DVector<f64>> {
    let aside = |j: usize, by: f64| {
        let mut there = *at;
        there[j] += by;
        of(&there)
    };
    (0..4).map(|j| (aside(j, 1e-5) - aside(j, -1e-5)) / 2e-5).collect()
}

/// Of every member, at random θ ≠ φ: g, H, J and c, weights that react included, and what these count for.
#[test]
fn derivatives_are_those_of_differences() {
    let places = (0..3).map(|n| (anywhere(n), anywhere(100 + n)));
    for (theta, deployed) in places.chain([(THETA, DEPLOYED)]) {
        compare_derivatives(theta, deployed);
    }
}

fn compare_derivatives(at: [f64; 4], elsewhere: [f64; 4]) {
    for (name, federation) in members() {
        let field = federation.mean_field(&at, &elsewhere);
        let turnout = federation.turnout(&elsewhere, true);
        for (client, slope) in turnout.slopes.iter().enumerate() {
            let share =
                |at: &[f64]| DVector::from_element(1, federation.turnout(at, false).shares[client]);
            for (j, found) in differences(&elsewhere, share).iter().enumerate() {
                assert!((found[0] - slope[j]).abs() < 1e-7, "{name}: q {client} {j}");
            }
        }
        let risk = |theta: &[f64], deployed: &[f64]| {
            DVector::from_element(1, federation.risk(theta, deployed))
        };
        let own = differences(&at, |theta| risk(theta, &elsewhere));
        let cost = differences(&elsewhere, |deployed| risk(&at, deployed));
        let curvature = differences(&at, |theta| federation.gradient(theta, &elsewhere));
        let reaction = differences(&elsewhere, |deployed| federation.gradient(&at, deployed));
        assert!((federation.risk(&at, &elsewhere) - field.risk).abs() < 1e-12, "{name}");
        let gradient = federation.gradient(&at, &elsewhere);
        assert!((gradient - &field.gradient).norm() < 1e-12, "{name}");
        for j in 0..4 {
            assert!((own[j][0] - field.gradient[j]).abs() < 1e-7, "{name}: g {j}");
            assert!((cost[j][0] - field.cost[j]).abs() < 1e-7, "{name}: c {j}");
            assert!((&curvature[j] - field.curvature.column(j)).norm() < 1e-7, "{name}: H {j}");
            assert!((&reaction[j] - field.reaction.column(j)).norm() < 1e-7, "{name}: J {j}");
        }
        let there = federation.performative(&at);
        let slopes = differences(&at, |at| risk(at, at));
        for (j, slope) in slopes.iter().enumerate() {
            assert!((slope[0] - there.gradient[j]).abs() < 1e-7, "{name}");
        }
    }
}

/// Where a model stays deployed, shares that are renewed come to those that expectations take.
#[test]
fn shares_come_to_rest_where_expectations_take_them() {
    for renewal in [0.05, 0.4, 1.0] {
        let slow = |by| Retention { renewal, ..retention(by, vec![1.7, 0.8]) };
        let by_label = problem(2, Response::Retention(slow(By::Label)), LOGISTIC);
        let rows = by_label.rows(1).unwrap();
        let mut shares = vec![0.5, 0.5];
        for _ in 0..2000 {
            by_label.retention().unwrap().renew(&rows, &DEPLOYED, &mut shares);
        }
        let expected = by_label.shares(1, &DEPLOYED).unwrap();
        assert!((shares[0] - expected[0]).abs() < 1e-12, "{renewal}: {shares:?} {expected:?}");

        let by_client = problem(2, Response::Retention(slow(By::Client)), LOGISTIC);
        let protocol = Protocol::p_fedavg(Scheme::Full, 1, StepSize::Constant(0.1));
        if let Some(past) = by_client.past() {
            let mut state = State::beginning(&protocol, Some(past), 2, &DEPLOYED, 1);
            (0..2000).for_each(|_| by_client.renew(&mut state.repetitions[0]));
            let found = state.repetitions[0].past_mut()[0];
            let expected = by_client.turnout(&DEPLOYED, false).shares[0];
            assert!((found - expected).abs() < 1e-12, "{renewal}: {found} {expected}");
        }
    }
    // Without renewal those who are served best are left.
    let replicator = Retention { renewal: 0.0, ..retention(By::Label, vec![1.7]) };
    let shares =
        problem(1, Response::Retention(replicator), LOGISTIC).shares(0, &DEPLOYED).unwrap();
    assert!(shares.contains(&0.0) && shares.contains(&1.0), "{shares:?}");
}

/// F(φ) at (.5, −.5, .2, .1), worked out by an independent program.
#[test]
fn gradients_where_a_model_is_deployed() {
    let at = [0.5, -0.5, 0.2, 0.1];
    let f = |federation: &Federation| federation.gradient(&at, &at);
    let one = |response: Response| f(&problem(1, response, LOGISTIC));
    for (found, expected) in [
        (one(Response::Shift(Shift::None)), [0.171114, 0.172081, 0.005024, 0.033760]),
        (one(Response::Strategic(strategic(0.5, 0.1))), [0.174359, 0.167807, 0.003887, 0.022054]),
        (
            one(Response::Outcome(Outcome { strength: vec![0.6] })),
            [0.098446, 0.038832, 0.014009, 0.013504],
        ),
        (
            f(&problem(2, Response::Retention(retention(By::Column, vec![3.0; 2])), LOGISTIC)),
            [0.144968, 0.167309, -0.012809, 0.006975],
        ),
    ] {
        for j in 0..4 {
            assert!((found[j] - expected[j]).abs() < 6e-7, "{found} {expected:?}");
        }
    }
}

/// A rule that says nothing.
#[derive(Debug)]
struct Nothing;

impl OwnResponse for Nothing {}

/// A rule that is wrong in one way.
#[derive(Debug)]
struct Wrong(&'static str);

impl OwnResponse for Wrong {
    fn features(&self, row: &Row<'_>, deployed: &[f64], out: &mut [f64]) {
        out.copy_from_slice(row.x);
        match self.0 {
            "feature" => out[0] = f64::NAN,
            "intercept" => out[3] += deployed[0],
            _ => {}
        }
    }

    fn label(&self, row: &Row<'_>, deployed: &[f64]) -> f64 {
        let score = row.score(deployed);
        if self.0 == "label" { row.label + score } else { row.label }
    }

    fn stays(&self, row: &Row<'_>, deployed: &[f64]) -> f64 {
        match self.0 {
            "stay" => 1.0 + row.score(deployed),
            "no row leaves" => 0.5,
            _ => 1.0,
        }
    }

    fn leaves(&self) -> bool {
        self.0 == "stay"
    }

    fn slopes(&self, _: &Row<'_>, _: &[f64], out: &mut Slopes) -> bool {
        out.label.fill(1.0);
        self.0 == "derivatives"
    }
}

#[test]
fn rules_that_make_nonsense_of_rows_are_refused() {
    for wrong in ["feature", "intercept", "label", "stay", "no row leaves", "derivatives"] {
        let rule = Own::new("mine", Wrong(wrong));
        let refused = Federation::new([1.0], sine(1, true), Response::Own(rule), LOGISTIC);
        let misfit = refused.unwrap_err();
        assert_eq!(misfit.part, "problem.response.kind");
        assert!(misfit.reason.contains(wrong), "{wrong}: {misfit}");
        assert!(misfit.reason.contains("\"mine\"") && misfit.reason.contains("of client 0"));
    }
    let base = Base::Gaussian(Gaussian { dim: 1, mean: vec![0.0], noise: 1.0 });
    let rule = Response::Own(Own::new("mine", Nothing));
    let misfit = Federation::new([1.0], base, rule, Loss::Mean).unwrap_err();
    assert!(misfit.reason.contains("normal data have none"));
}

/// Limits in which nothing reacts.
#[test]
fn no_reaction_is_none() {
    let none = problem(2, Shift::None, LOGISTIC).mean_field(&THETA, &DEPLOYED);
    let still = [
        Response::Strategic(Strategic { share: 0.0, ..strategic(0.5, 0.1) }),
        Response::Outcome(Outcome { strength: vec![0.0; 2] }),
        Response::Retention(retention(By::Client, vec![0.0; 2])),
        Response::Retention(retention(By::Label, vec![0.0; 2])),
        Response::Retention(retention(By::Row, vec![0.0; 2])),
        Response::Retention(Retention {
            turnout: Turnout::Follow,
            law: Law::Logistic { tolerance: 0.3 },
            ..retention(By::Column, vec![0.0; 2])
        }),
        Response::Strategic(Strategic { budget: 0.0, ..strategic(0.5, 0.0) }),
        Response::Own(Own::new("nothing", Nothing)),
    ];
    for response in still {
        let field = problem(2, response, LOGISTIC).mean_field(&THETA, &DEPLOYED);
        assert!((field.gradient - &none.gradient).norm() < 1e-14);
        assert!((field.curvature - &none.curvature).norm() < 1e-14);
        assert!(field.reaction.norm() < 1e-14 && field.cost.norm() < 1e-14);
    }
}

/// Two normal clients at 0 and 3 of whom the badly served leave: numbers worked out by an independent program.
#[test]
fn clients_leave() {
    let base = Base::Gaussian(Gaussian { dim: 1, mean: vec![0.0, 3.0], noise: 1.0 });
    let response = Response::Retention(retention(By::Client, vec![1.2; 2]));
    let federation = Federation::new([0.6, 0.4], base, response, Loss::Mean).unwrap();
    let at = [0.0093121];
    let turnout = federation.turnout(&at, false);
    assert!((turnout.shares[0] - 0.996896).abs() < 1e-6);
    assert!((turnout.retained - 0.330295).abs() < 1e-6);
    assert!((federation.risk(&at, &at) - 0.513925).abs() < 1e-6);
    assert!((federation.base_risk(&at) - 2.288869).abs() < 1e-6);
    for (point, margin) in [(0.0093121, 0.966580), (1.6793891, -1.661383), (2.9781739, 0.921998)] {
        let field = federation.mean_field(&[point], &[point]);
        assert!(field.gradient[0].abs() < 1e-6);
        assert!((field.curvature[(0, 0)] + field.reaction[(0, 0)] - margin).abs() < 1e-5);
    }
}

/// Rows to the threshold: how many move, and how far in all.
#[test]
fn rows_move_to_the_threshold() {
    let base = sine(1, true);
    let Base::Table(table) = &base else { unreachable!() };
    let phi = [1.0, -1.0, 0.5, 0.2];
    for (budget, count, far) in [(0.5, 10, 3.0129477), (1.0, 20, 11.1888972)] {
        for times in [1.0, 3.7] {
            let strategic = strategic(budget, 0.0);
            let phi = phi.map(|t| times * t);
            let lure = strategic.lure(&phi).unwrap();
            let (mut moved, mut total) = (0, 0.0);
            for (x, _) in table.rows_of(0) {
                let score = x.iter().zip(&phi).map(|(x, t)| x * t).sum();
                let (chance, by) = strategic.moves(&lure, score);
                moved += usize::from(chance == 1.0);
                total += chance * by.abs() * phi[0].hypot(phi[1]);
            }
            assert_eq!(moved, count);
            assert!((total - far).abs() < 1e-6, "{total}");
        }
    }
}
