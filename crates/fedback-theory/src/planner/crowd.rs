//! Many clients as a few, for a search.
//!
//! Where objectives are not scaled a client's round is a(ε_i), r_i b(ε_i), v_i q(ε_i): functions of its
//! sensitivity that are the same for all, times its drive r and noise v. A round needs only sums over
//! clients of their products, such as Σ p r a b. Interpolated at Chebyshev points x_k of the range of ε,
//! Σ_i w_i f(ε_i) = Σ_k W_k f(x_k) with W_k = Σ_i w_i ℓ_k(ε_i), ℓ_k the Lagrange polynomials, so a hundred
//! clients cost as much as the points. The sums are exact for polynomials of a degree below the number
//! of points: for rounds that deploy once, where a is affine and b and q are the same for all, and for
//! few local steps. For many, a is close to exp(−ηE(1 − ε)), for which the error falls faster than
//! any power (Trefethen, Approximation Theory and Approximation Practice, 2013, chapter 8).

use fedback_core::protocol::Deploy;

use super::coordinates::{Drawn, Fold};

/// Points, where clients deploy every step.
const POINTS: usize = 20;
/// Points, where they deploy once a round: a² is a parabola.
const PARABOLA: usize = 3;

/// One client in one coordinate.
#[derive(Clone, Copy)]
pub(super) struct Person {
    pub(super) weight: f64,
    pub(super) sensitivity: f64,
    pub(super) drive: f64,
    pub(super) noise: f64,
}

/// The clients of one coordinate, on points.
pub(super) struct Crowd {
    pub(super) points: Vec<f64>,
    sums: Vec<Sums>,
    clients: f64,
}

/// The weights W of a point for w = p, p r, p r², p², p² r, p² r², p² v, p (1 − p) v.
#[derive(Clone, Copy, Default)]
struct Sums {
    weight: f64,
    drive: f64,
    drive_squared: f64,
    square: f64,
    square_drive: f64,
    square_drive_squared: f64,
    square_noise: f64,
    own_noise: f64,
}

impl Crowd {
    /// How many points a crowd has; none where there are not more clients than that.
    pub(super) fn points(deploy: Deploy, clients: usize) -> Option<usize> {
        let points = match deploy {
            Deploy::Step => POINTS,
            Deploy::Round => PARABOLA,
        };
        (clients > points).then_some(points)
    }

    pub(super) fn new(people: &[Person], count: usize) -> Self {
        let sensitivities = people.iter().map(|person| person.sensitivity);
        let low = sensitivities.clone().fold(f64::INFINITY, f64::min);
        let high = sensitivities.fold(f64::NEG_INFINITY, f64::max);
        // A range of a single value would make all points the same.
        let half = (0.5 * (high - low)).max(1e-6 * (1.0 + low.abs()));
        let angle = |k: usize| std::f64::consts::PI * (k as f64 + 0.5) / count as f64;
        let point = |k: usize| 0.5 * (low + high) + half * libm::cos(angle(k));
        let points: Vec<f64> = (0..count).map(point).collect();
        let mut sums = vec![Sums::default(); count];
        for person in people {
            let shares = lagrange(&points, person.sensitivity, |k| {
                libm::sin(angle(k)) * if k % 2 == 0 { 1.0 } else { -1.0 }
            });
            sums.iter_mut().zip(shares).for_each(|(sums, share)| sums.add(person, share));
        }
        Crowd { points, sums, clients: people.len() as f64 }
    }

    /// The clients' round folded, from those of the points with unit drive and unit noise; `kept` and
    /// `offset` as in [`super::coordinates`].
    pub(super) fn fold(
        &self,
        rounds: impl Iterator<Item = (f64, f64, f64)> + Clone,
        (kept, offset): (f64, f64),
    ) -> Fold {
        let (mut gain, mut drift, mut noise, mut own_noise) = (0.0, 0.0, 0.0, 0.0);
        for ((a, b, q), sums) in rounds.clone().zip(&self.sums) {
            gain += sums.weight * a;
            drift += sums.drive * b;
            noise += sums.square_noise * q;
            own_noise += sums.own_noise * q;
        }
        let (mut with, mut without) = (Drawn::default(), Drawn::default());
        for ((a, b, _), sums) in rounds.zip(&self.sums) {
            with.square += sums.weight * (a - gain) * (a - gain);
            with.cross += sums.drive * (a - gain) * b;
            with.constant += sums.drive_squared * b * b;
            let apart = a - kept;
            without.square += sums.square * apart * apart;
            without.cross += apart * (sums.square_drive * b + sums.square * offset);
            without.constant += sums.square_drive_squared * b * b
                + (2.0 * sums.square_drive * b + sums.square * offset) * offset;
        }
        let n = self.clients;
        let (slope, constant) = (gain - kept, drift + offset);
        let noise = noise.max(0.0);
        Fold {
            gain,
            drift,
            noise,
            with: Drawn {
                square: with.square.max(0.0),
                cross: with.cross,
                constant: (with.constant - drift * drift).max(0.0) + own_noise.max(0.0),
            },
            without: Drawn {
                square: (n * without.square - slope * slope).max(0.0),
                cross: n * without.cross - slope * constant,
                constant: (n * without.constant - constant * constant).max(0.0) + (n - 1.0) * noise,
            },
        }
    }
}

impl Sums {
    fn add(&mut self, person: &Person, share: f64) {
        let Person { weight: p, drive: r, noise: v, .. } = *person;
        self.weight += share * p;
        self.drive += share * p * r;
        self.drive_squared += share * p * r * r;
        self.square += share * p * p;
        self.square_drive += share * p * p * r;
        self.square_drive_squared += share * p * p * r * r;
        self.square_noise += share * p * p * v;
        self.own_noise += share * p * (1.0 - p) * v;
    }
}

/// ℓ_k(x) for every k, by the barycentric formula.
fn lagrange(points: &[f64], x: f64, weight: impl Fn(usize) -> f64) -> Vec<f64> {
    if let Some(at) = points.iter().position(|point| *point == x) {
        return (0..points.len()).map(|k| if k == at { 1.0 } else { 0.0 }).collect();
    }
    let terms: Vec<f64> = points.iter().enumerate().map(|(k, y)| weight(k) / (x - y)).collect();
    let sum: f64 = terms.iter().sum();
    terms.iter().map(|term| term / sum).collect()
}
