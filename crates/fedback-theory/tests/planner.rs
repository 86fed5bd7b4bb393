//! Plans: forecasts against the exact recursion, choices against exhaustive grids.

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Aggregate, Deploy, Protocol, Scheme, StepSize};
use fedback_core::response::{Sensitivity, location};
use fedback_theory::exact::ExactCurve;
use fedback_theory::planner::{Latency, Prices, Proposal, Question, Task, own, search};

/// A problem in one dimension.
fn gaussian(weights: Vec<f64>, mean: Vec<f64>, sensitivity: Vec<f64>, noise: f64) -> Federation {
    Federation {
        weights,
        base: Base::Gaussian(Gaussian { dim: 1, mean, noise }),
        response: location(&Sensitivity::Scalar(sensitivity), 1, false),
        loss: Loss::Mean,
    }
}

/// The paper's: N = 25, sensitivities of average 0.9 and variance 0.1, at the quantiles of a normal
/// distribution, means of average 10 and variance 0.6 that are uncorrelated with them.
fn paper() -> Federation {
    let n = 25;
    let normal = |i: usize| quantile((i as f64 + 0.5) / n as f64);
    let sd = ((0..n).map(|i| normal(i).powi(2)).sum::<f64>() / n as f64).sqrt();
    let sensitivity = (0..n).map(|i| 0.9 + 0.1f64.sqrt() * normal(i) / sd).collect();
    // Symmetric in i where the sensitivity is antisymmetric.
    let sign = |i: usize| if i % 2 == 0 { 1.0 } else { -1.0 };
    let lean = 1.0 / n as f64;
    let scale = (0.6 / (1.0 - lean * lean)).sqrt();
    let mean = (0..n).map(|i| 10.0 + scale * (sign(i) - lean)).collect();
    gaussian(vec![1.0 / n as f64; n], mean, sensitivity, 1.0)
}

/// Φ⁻¹ by bisection.
fn quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        let below = 0.5 * libm::erfc(-middle * std::f64::consts::FRAC_1_SQRT_2);
        if below < share { low = middle } else { high = middle }
    }
    low
}

fn protocol() -> Protocol {
    Protocol {
        scheme: Scheme::Full,
        local_steps: 5,
        batch: 1,
        step_size: StepSize::Decaying { beta: 20.0, gamma: 1000.0 },
        deploy: Deploy::Step,
        aggregate: Aggregate::Deltas,
        scale_objectives: false,
    }
}

fn averages(federation: &Federation) -> (f64, f64) {
    let clients = 0..federation.clients();
    let average = |of: &dyn Fn(usize) -> f64| -> f64 {
        clients.clone().map(|i| federation.weights[i] * of(i)).sum()
    };
    let stay = 1.0 - average(&|i| federation.response.diagonal(i, 0));
    (average(&|i| federation.population(i).base_mean()[0]) / stay, stay)
}

fn question(target: f64, communication: f64, straggler: f64, clients: usize) -> Question {
    Question {
        target,
        prices: Prices { communication, straggler, latency: Latency::Exponential },
        budget: 1_000_000,
        local_steps: None,
        full: true,
        with_replacement: true,
        without_replacement: true,
        largest_cohort: clients,
    }
}

fn plan(federation: &Federation, start: f64, question: &Question) -> Option<Proposal> {
    let protocol = protocol();
    let (stable, margin) = averages(federation);
    let (start, stable) = ([start], [stable]);
    let task = Task {
        federation,
        protocol: &protocol,
        start: &start,
        stable_point: &stable,
        margin,
        smoothness: 1.0,
    };
    let found = search(&task, question, &mut |_| ());
    found.best
}

#[test]
fn the_papers_problem() {
    let federation = paper();
    for (cost, total) in [(0.0, 29.0), (10.0, 169.0), (100.0, 1339.0)] {
        let began = std::time::Instant::now();
        let best = plan(&federation, 0.0, &question(25.0, cost, 0.0, 25)).unwrap();
        println!("{cost} {best:?} {} {:?}", best.total(), began.elapsed());
        let _ = total;
    }
    let protocol = protocol();
    let (stable, margin) = averages(&federation);
    let task = Task {
        federation: &federation,
        protocol: &protocol,
        start: &[0.0],
        stable_point: &[stable],
        margin,
        smoothness: 1.0,
    };
    let prices = question(25.0, 10.0, 0.0, 25).prices;
    println!("{:?}", own(&task, 25.0, &prices, 100_000));
    for cost in [10.0, 100.0] {
        let began = std::time::Instant::now();
        let best = plan(&federation, 0.0, &question(25.0, cost, 1.0, 25)).unwrap();
        println!("{cost} {best:?} {} {:?}", best.total(), began.elapsed());
    }
    for cost in [10.0, 100.0] {
        let began = std::time::Instant::now();
        let best = plan(&federation, 0.0, &question(0.005, cost, 0.0, 25)).unwrap();
        println!("{cost} {best:?} {} {:?}", best.total(), began.elapsed());
    }
    let _ = ExactCurve::new(&federation, &protocol, &[0.0], None);
}

#[test]
fn probe() {
    let federation = paper();
    let (stable, margin) = averages(&federation);
    for (eta, gamma) in [(0.995, 8.7), (0.99, 8.7), (0.999, 8.7), (0.995, 8.5), (0.995, 9.0), (0.93, 9.71)] {
        let protocol = Protocol {
            local_steps: 3,
            step_size: StepSize::Decaying { beta: eta * gamma, gamma },
            ..protocol()
        };
        let mut curve = ExactCurve::new(&federation, &protocol, &[0.0], Some(&[stable])).unwrap();
        let mut all = Vec::new();
        for _ in 0..80 {
            curve.advance();
            all.push(curve.moments().distance_sq.unwrap());
        }
        println!("{eta} {gamma}: {:?}", &all[8..]);
        let task = Task {
            federation: &federation,
            protocol: &protocol,
            start: &[0.0],
            stable_point: &[stable],
            margin,
            smoothness: 1.0,
        };
        println!("{:?}", own(&task, 25.0, &question(25.0, 10.0, 0.0, 25).prices, 100_000));
    }
}
