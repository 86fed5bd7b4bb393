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

#[cfg(test)]
mod tests {
    use super::*;

    /// E steps of size η: a, b and q of a sensitivity, with unit drive and unit noise.
    fn round(sensitivity: f64, size: f64, local_steps: usize) -> (f64, f64, f64) {
        let keep = 1.0 - size * (1.0 - sensitivity);
        (0..local_steps).fold((1.0, 0.0, 0.0), |(a, b, q), _| {
            (keep * a, keep * b + size, keep * keep * q + size * size)
        })
    }

    fn people() -> Vec<Person> {
        let wave = |k: usize, speed: f64| libm::sin(speed * (k + 1) as f64);
        let weights: Vec<f64> = (0..60).map(|k| 1.0 + 0.8 * wave(k, 2.3)).collect();
        let total: f64 = weights.iter().sum();
        let person = |(k, weight): (usize, &f64)| Person {
            weight: weight / total,
            sensitivity: 0.3 + 0.9 * wave(k, 1.1),
            drive: 2.0 * wave(k, 0.7),
            noise: 1.0 + 0.5 * wave(k, 3.1),
        };
        weights.iter().enumerate().map(person).collect()
    }

    /// Against the variance of the aggregate under either way of drawing, client by client.
    #[test]
    fn points_stand_for_all_clients() {
        let people = people();
        let n = people.len() as f64;
        for (size, local_steps, kept, offset) in
            [(0.3, 6, 1.0, 0.0), (0.9, 4, 0.0, 1.5), (0.05, 80, 1.0, 0.0)]
        {
            let crowd = Crowd::new(&people, POINTS);
            let rounds = crowd.points.iter().map(|x| round(*x, size, local_steps));
            let fold = crowd.fold(rounds, (kept, offset));
            let (mut gain, mut drift, mut noise) = (0.0, 0.0, 0.0);
            let each = people.iter().map(|person| {
                let (a, b, q) = round(person.sensitivity, size, local_steps);
                (person.weight, a, b * person.drive, q * person.noise)
            });
            for (p, a, b, q) in each.clone() {
                (gain, drift, noise) = (gain + p * a, drift + p * b, noise + p * p * q);
            }
            let close = |one: f64, other: f64, scale: f64| {
                assert!((one - other).abs() < 1e-9 * scale, "{size} {local_steps}: {one} {other}");
            };
            close(fold.gain, gain, 1.0);
            close(fold.drift, drift, 1.0);
            close(fold.noise, noise, 1.0);
            for mean in [-3.0, 0.0, 2.0] {
                let (mut with, mut without) = (0.0, (n - 1.0) * noise);
                for (p, a, b, q) in each.clone() {
                    let apart = (a - gain) * mean + b - drift;
                    with += p * apart * apart + p * (1.0 - p) * q;
                    let own = (a - kept) * mean + b + offset;
                    let all = (gain - kept) * mean + drift + offset;
                    without += (n * p * own - all) * (n * p * own - all) / n;
                }
                let at = |drawn: Drawn| {
                    (drawn.square * mean + 2.0 * drawn.cross) * mean + drawn.constant
                };
                close(at(fold.with), with, with);
                close(at(fold.without), without, without);
            }
        }
    }
}
