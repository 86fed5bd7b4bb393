//! Inclusion probabilities against enumeration, identities and each other.

use std::sync::Arc;

use fedback_core::arrivals::{Arrivals, Latency, Trace};
use fedback_theory::inclusion::{NoInclusion, inclusion, pairs};
use nalgebra::DMatrix;

fn arrivals(latency: Latency, deadline: Option<f64>) -> Arrivals {
    Arrivals { latency: Arc::new(latency), deadline }
}

fn exponential(rates: &[f64]) -> Latency {
    Latency::Exponential { mean: rates.iter().map(|rate| 1.0 / rate).collect() }
}

const RATES: [f64; 6] = [4.0, 2.0, 1.0, 1.0, 0.5, 0.2];

/// Exponential clients race: the next to arrive is i with probability rate_i over the rates of all
/// who are left. All orders of the first K are enumerated.
fn races(rates: &[f64], cohort: usize) -> DMatrix<f64> {
    fn go(rates: &[f64], left: usize, chosen: &mut Vec<usize>, p: f64, sum: &mut DMatrix<f64>) {
        if left == 0 {
            for &i in chosen.iter() {
                chosen.iter().for_each(|&j| sum[(i, j)] += p);
            }
            return;
        }
        let open: Vec<usize> = (0..rates.len()).filter(|i| !chosen.contains(i)).collect();
        let total: f64 = open.iter().map(|&i| rates[i]).sum();
        for i in open {
            chosen.push(i);
            go(rates, left - 1, chosen, p * rates[i] / total, sum);
            chosen.pop();
        }
    }
    let mut sum = DMatrix::zeros(rates.len(), rates.len());
    go(rates, cohort, &mut Vec::new(), 1.0, &mut sum);
    sum
}

fn largest_difference(a: &DMatrix<f64>, b: &DMatrix<f64>) -> f64 {
    (a - b).amax()
}

#[test]
fn exponential_clients_race() {
    for rates in [&RATES[..], &[1000.0, 1.0, 1.0, 0.001], &[3.0, 3.0, 3.0, 1.0]] {
        for cohort in 1..=rates.len() {
            let arrivals = arrivals(exponential(rates), None);
            let expected = races(rates, cohort);
            let single = inclusion(&arrivals, cohort).unwrap();
            for (i, found) in single.iter().enumerate() {
                assert!((found - expected[(i, i)]).abs() < 1e-13, "{cohort} {i}: {found}");
            }
            let found = pairs(&arrivals, cohort).unwrap();
            assert!(largest_difference(&found, &expected) < 1e-13, "{cohort}: {found} {expected}");
        }
    }
}

/// All records of all clients, and all orders of equals.
fn enumerated(clients: &[Vec<f64>], cohort: usize, deadline: f64) -> DMatrix<f64> {
    let n = clients.len();
    let mut sum = DMatrix::zeros(n, n);
    let orders = permutations(n);
    let draws: usize = clients.iter().map(Vec::len).product();
    for mut draw in 0..draws {
        let latency: Vec<f64> = clients
            .iter()
            .map(|own| {
                let value = own[draw % own.len()];
                draw /= own.len();
                value
            })
            .collect();
        for lots in &orders {
            let mut arrived: Vec<usize> = (0..n).filter(|&i| latency[i] <= deadline).collect();
            arrived.sort_by(|&a, &b| latency[a].total_cmp(&latency[b]).then(lots[a].cmp(&lots[b])));
            arrived.truncate(cohort);
            for &i in &arrived {
                arrived.iter().for_each(|&j| sum[(i, j)] += 1.0);
            }
        }
    }
    sum / (draws * orders.len()) as f64
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(n - 1);
    let with = |at: usize| {
        shorter.iter().map(move |order| {
            let mut longer = order.clone();
            longer.insert(at, n - 1);
            longer
        })
    };
    (0..n).flat_map(with).collect()
}

/// Ties are broken by lot: against every draw and every lot.
#[test]
fn traces_are_exact() {
    let clients =
        [vec![1.0, 2.0], vec![2.0], vec![1.0, 3.0, 2.0], vec![2.0, 2.0, 4.0], vec![5.0, 1.0]];
    for cohort in 1..=5 {
        for deadline in [f64::INFINITY, 2.0, 1.5, 0.5] {
            let latency = Latency::Trace(Trace::new(&clients));
            let arrivals = arrivals(latency, deadline.is_finite().then_some(deadline));
            let expected = enumerated(&clients, cohort, deadline);
            let found = pairs(&arrivals, cohort).unwrap();
            assert!(largest_difference(&found, &expected) < 1e-14, "{cohort} {deadline}: {found}");
        }
    }
}

/// Everybody at once: a lottery, also where they are too many for an exact rule.
#[test]
fn constant_latencies_are_a_lottery() {
    for (clients, cohort) in [(7, 3), (120, 30)] {
        let trace = Latency::Trace(Trace::new(&vec![vec![2.0]; clients]));
        // A deadline after everybody changes nothing but the way it is computed.
        let found = inclusion(&arrivals(trace, Some(3.0)), cohort).unwrap();
        let expected = cohort as f64 / clients as f64;
        assert!(found.iter().all(|p| (p - expected).abs() < 1e-13), "{found:?}");
    }
}

#[test]
fn equal_latencies_are_exactly_uniform() {
    let equal = arrivals(exponential(&[3.0; 7]), None);
    assert_eq!(inclusion(&equal, 3).unwrap(), vec![3.0 / 7.0; 7]);
    assert_eq!(pairs(&equal, 3).unwrap()[(0, 1)], 6.0 / 42.0);
    // By the integral as well: a deadline that never comes.
    for latency in [exponential(&[3.0; 7]), lognormal(&[(2.0, 0.001); 7])] {
        let found = pairs(&arrivals(latency, Some(1e9)), 3).unwrap();
        for (i, j) in (0..7).flat_map(|i| (0..7).map(move |j| (i, j))) {
            let expected = if i == j { 3.0 / 7.0 } else { 6.0 / 42.0 };
            assert!((found[(i, j)] - expected).abs() < 1e-13, "{}", found[(i, j)]);
        }
    }
}

fn lognormal(clients: &[(f64, f64)]) -> Latency {
    let (median, sigma) = clients.iter().copied().unzip();
    Latency::Lognormal { median, sigma }
}

/// Two log-normal clients: the first is faster with Φ(ln(m₂/m₁)/√(σ₁² + σ₂²)).
#[test]
fn two_lognormal_clients() {
    for (a, b) in [((1.0, 0.5), (2.0, 1.5)), ((1.0, 1e-4), (1.001, 3.0)), ((1.0, 0.1), (9.0, 0.1))]
    {
        let z = libm::log(b.0 / a.0) / libm::sqrt(a.1 * a.1 + b.1 * b.1);
        let expected = 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2);
        let found = inclusion(&arrivals(lognormal(&[a, b]), None), 1).unwrap();
        assert!((found[0] - expected).abs() < 1e-13, "{a:?} {b:?}: {found:?} {expected}");
        assert!((found[1] - (1.0 - expected)).abs() < 1e-13);
    }
}

/// Σ π_i = K and Σ_j π_ij = (K − 1) π_i, for latencies of all kinds, many clients among them.
#[test]
fn probabilities_sum_to_the_cohort() {
    let spread: Vec<f64> = (0..60).map(|i| libm::exp(i as f64 / 10.0)).collect();
    let mixed: Vec<(f64, f64)> =
        (0..40).map(|i| (1.0 + (i * 7 % 13) as f64, 0.05 + (i % 5) as f64)).collect();
    let records: Vec<Vec<f64>> = (0..30)
        .map(|i| (0..9).map(|k| ((i * 31 + k * k * 17) % 23) as f64 / 2.0).collect())
        .collect();
    let latencies = [exponential(&spread), lognormal(&mixed), Latency::Trace(Trace::new(&records))];
    for latency in latencies {
        let arrivals = arrivals(latency, None);
        for cohort in [1, 2, 11, 29] {
            let found = pairs(&arrivals, cohort).unwrap();
            let sum = found.diagonal().sum();
            assert!((sum - cohort as f64).abs() < 1e-11, "{cohort}: {sum}");
            for (i, row) in found.row_iter().enumerate() {
                let others = row.sum() - found[(i, i)];
                let expected = (cohort as f64 - 1.0) * found[(i, i)];
                assert!((others - expected).abs() < 1e-11, "{cohort} {i}: {others} {expected}");
            }
        }
    }
}

/// With a deadline before the K-th arrival is likely, inclusion is arrival.
#[test]
fn deadlines_cut_the_integral() {
    let rates = [4.0, 2.0, 1.0];
    let at = |deadline: f64, cohort: usize| {
        inclusion(&arrivals(exponential(&rates), Some(deadline)), cohort).unwrap()
    };
    for (found, rate) in at(0.3, 3).into_iter().zip(rates) {
        assert!((found - (1.0 - libm::exp(-rate * 0.3))).abs() < 1e-14);
    }
    for (found, rate) in at(1e-12, 1).into_iter().zip(rates) {
        assert!((found / (rate * 1e-12) - 1.0).abs() < 1e-9, "{found}");
    }
    // The first of three exponential clients before d: rate_i/Σ · (1 − e^(−Σ d)).
    for (found, rate) in at(0.2, 1).into_iter().zip(rates) {
        assert!((found - rate / 7.0 * (1.0 - libm::exp(-1.4))).abs() < 1e-14, "{found}");
    }
}

/// Before a deadline that hardly anybody meets the fastest come in proportion to their rates: the
/// first of two exponential clients is i with rate_i/Σ (1 − e^(−Σ d)), to relative rounding.
#[test]
fn tiny_deadlines_are_exact() {
    let rates = [1.0, 0.2];
    for digits in 1..=300 {
        let deadline = libm::pow(10.0, -f64::from(digits));
        let found = inclusion(&arrivals(exponential(&rates), Some(deadline)), 1).unwrap();
        for (found, rate) in found.into_iter().zip(rates) {
            let expected = rate / 1.2 * -libm::expm1(-1.2 * deadline);
            assert!((found / expected - 1.0).abs() < 1e-9, "{deadline}: {found} {expected}");
        }
    }
}

/// Equal medians: only the ratios of the spreads count, however small the spreads are.
#[test]
fn sharp_latencies_are_resolved() {
    let at = |sigma: f64, cohort: usize| {
        pairs(&arrivals(lognormal(&[(3.0, sigma), (3.0, sigma), (3.0, 2.0 * sigma)]), None), cohort)
    };
    for cohort in 1..=3 {
        let expected = at(0.1, cohort).unwrap();
        for sigma in [1e-2, 1e-4, 1e-5, 1e-6, 1e-8] {
            let found = at(sigma, cohort).unwrap();
            assert!(largest_difference(&found, &expected) < 1e-7, "{sigma} {cohort}: {found}");
        }
        // Where the logarithm of a time cannot tell them apart, that is said.
        assert!(cohort == 3 || at(1e-300, cohort) == Err(NoInclusion::TooSharp));
    }
}

#[test]
fn too_many_clients_are_refused() {
    let rates: Vec<f64> = (1..=20_000).map(f64::from).collect();
    let refused = inclusion(&arrivals(exponential(&rates), None), 5);
    assert_eq!(refused, Err(NoInclusion::TooMany { clients: 20_000, trace: false }));
}
