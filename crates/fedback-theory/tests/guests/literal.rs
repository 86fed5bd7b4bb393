//! Every algorithm as it is written down, run from every coordinate of the state, with every noise of
//! a step, for every cohort that can be drawn.

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Aggregate, Deploy, LocalRule, Protocol, Scheme, ServerRule};
use fedback_core::response::{Sensitivity, location};
use fedback_theory::cohort::Arrived;
use nalgebra::{DMatrix, DVector};

pub const CLIENTS: usize = 3;
pub const WEIGHTS: [f64; CLIENTS] = [0.5, 0.3, 0.2];
pub const NOISE: f64 = 0.8;
/// Who comes first, and how often.
const RACES: [([usize; 2], f64); 3] = [([0, 1], 0.55), ([0, 2], 0.15), ([1, 2], 0.3)];

/// The means of the clients, and what they move by.
pub struct Problem {
    means: Vec<DVector<f64>>,
    reactions: Vec<DMatrix<f64>>,
}

/// One cohort: how probable it is, what each client counts, and who takes part.
pub struct Cohort {
    pub probability: f64,
    pub coefficients: [f64; CLIENTS],
    pub present: [bool; CLIENTS],
}

/// A state (θ, v, c_1, …, c_N) as one vector, and the clients' models before aggregation.
pub struct Outcome {
    pub state: DVector<f64>,
    pub locals: Vec<DVector<f64>>,
}

/// y ↦ map · y + shift + Σ noise columns.
pub struct Affine {
    pub map: DMatrix<f64>,
    pub shift: DVector<f64>,
    pub noise: DMatrix<f64>,
}

impl Problem {
    fn of(reactions: &[&[f64]]) -> Self {
        let dim = reactions[0].len().isqrt();
        let mean = |i: usize| DVector::from_fn(dim, |j, _| 1.0 + ((3 * i + 5 * j) % 4) as f64);
        Problem {
            means: (0..CLIENTS).map(mean).collect(),
            reactions: reactions.iter().map(|r| DMatrix::from_row_slice(dim, dim, r)).collect(),
        }
    }

    /// One dimension, two that mix, two that do not.
    pub fn all() -> Vec<Problem> {
        let mixing: [&[f64]; 3] =
            [&[0.4, 0.9, -0.7, 0.2], &[0.1, -1.1, 0.5, 0.3], &[-0.5, 0.2, 0.7, -0.6]];
        let apart: [&[f64]; 3] =
            [&[0.4, 0.0, 0.0, -0.7], &[0.9, 0.0, 0.0, 0.3], &[-0.5, 0.0, 0.0, 0.6]];
        vec![Problem::of(&[&[0.4], &[0.9], &[-0.7]]), Problem::of(&mixing), Problem::of(&apart)]
    }

    pub fn dim(&self) -> usize {
        self.means[0].len()
    }

    pub fn federation(&self) -> Federation {
        let dim = self.dim();
        let sensitivity = |r: &DMatrix<f64>| {
            r.row_iter().map(|row| row.iter().copied().collect()).collect::<Vec<Vec<f64>>>()
        };
        let sensitivity = match dim == 2 && self.reactions.iter().all(|r| r[(0, 1)] == 0.0) {
            true => {
                let diagonal = |r: &DMatrix<f64>| r.diagonal().as_slice().to_vec();
                Sensitivity::PerCoordinate(self.reactions.iter().map(diagonal).collect())
            }
            false => Sensitivity::Matrix(self.reactions.iter().map(sensitivity).collect()),
        };
        let mean = self.means.iter().flat_map(|m| m.as_slice().to_vec()).collect();
        Federation::new(
            WEIGHTS.to_vec(),
            Base::Gaussian(Gaussian { dim, mean, noise: NOISE }),
            location(&sensitivity, dim, false),
            Loss::Mean,
        )
        .unwrap()
    }

    /// What a client's gradients, noise included, are multiplied with.
    fn scale(protocol: &Protocol, client: usize) -> f64 {
        if protocol.scale_objectives { CLIENTS as f64 * WEIGHTS[client] } else { 1.0 }
    }

    /// The local steps of one client; `noise` is added to the gradient of each.
    fn local(
        &self,
        protocol: &Protocol,
        sizes: &[f64],
        client: usize,
        (theta, control): (&DVector<f64>, &DVector<f64>),
        noise: &dyn Fn(usize) -> DVector<f64>,
    ) -> DVector<f64> {
        let mut w = theta.clone();
        for (step, eta) in sizes.iter().enumerate() {
            let deployed = if protocol.deploy == Deploy::Step { &w } else { theta };
            let data = &self.means[client] + &self.reactions[client] * deployed;
            let mut direction = (&w - data + noise(step)) * Problem::scale(protocol, client);
            match protocol.local {
                LocalRule::Descent => {}
                LocalRule::Proximal { proximal } => direction += (&w - theta) * proximal,
                LocalRule::Scaffold => direction -= control,
            }
            w -= direction * *eta;
        }
        w
    }

    /// One round from a state; `noise` says what is added to the gradient of a client's step.
    fn round(
        &self,
        protocol: &Protocol,
        sizes: &[f64],
        cohort: &Cohort,
        state: &DVector<f64>,
        noise: &dyn Fn(usize, usize) -> DVector<f64>,
    ) -> Outcome {
        let dim = self.dim();
        let block = |k: usize| state.rows(k * dim, dim).into_owned();
        let (theta, velocity) = (block(0), block(1));
        let shared: DVector<f64> =
            (0..CLIENTS).map(|i| block(2 + i) * protocol.weight(&WEIGHTS, i)).sum();
        let locals: Vec<DVector<f64>> = (0..CLIENTS)
            .map(|i| {
                let control = block(2 + i) - &shared;
                self.local(protocol, sizes, i, (&theta, &control), &|step| noise(i, step))
            })
            .collect();
        let mut work: DVector<f64> = match protocol.aggregate {
            Aggregate::Deltas => DVector::zeros(dim),
            Aggregate::Iterates => -&theta,
        };
        for (w, coefficient) in locals.iter().zip(cohort.coefficients) {
            work += coefficient
                * match protocol.aggregate {
                    Aggregate::Deltas => w - &theta,
                    Aggregate::Iterates => w.clone(),
                };
        }
        // What nobody keeps is zero.
        let mut after = DVector::zeros(state.len());
        let mut set =
            |k: usize, value: DVector<f64>| after.rows_mut(k * dim, dim).copy_from(&value);
        match protocol.server {
            ServerRule::Average => set(0, &theta + work),
            ServerRule::Momentum { rate, beta } => {
                let velocity = velocity * beta + work;
                set(0, &theta + &velocity * rate);
                set(1, velocity);
            }
            ServerRule::Adam { .. } => unreachable!("no linear rounds"),
        }
        if protocol.local == LocalRule::Scaffold {
            let total: f64 = sizes.iter().sum();
            for (i, w) in locals.iter().enumerate() {
                let own = block(2 + i);
                set(
                    2 + i,
                    match cohort.present[i] {
                        true => own - &shared + (&theta - w) / total,
                        false => own,
                    },
                );
            }
        }
        Outcome { state: after, locals }
    }

    /// What a function of the round's outcome is, as an affine map of the state.
    pub fn affine(
        &self,
        protocol: &Protocol,
        sizes: &[f64],
        cohort: &Cohort,
        read: impl Fn(Outcome) -> DVector<f64>,
    ) -> Affine {
        let (dim, width) = (self.dim(), self.dim() * (2 + CLIENTS));
        let silent = |_: usize, _: usize| DVector::zeros(dim);
        let from = |state: &DVector<f64>| read(self.round(protocol, sizes, cohort, state, &silent));
        let origin = DVector::zeros(width);
        let shift = from(&origin);
        let unit = |k: usize| DVector::from_fn(width, |j, _| if j == k { 1.0 } else { 0.0 });
        let columns: Vec<DVector<f64>> = (0..width).map(|k| from(&unit(k)) - &shift).collect();
        let deviation = NOISE / protocol.batch.size().sqrt();
        let mut noise = Vec::new();
        for client in 0..CLIENTS {
            for step in 0..sizes.len() {
                for j in 0..dim {
                    let injected = |i: usize, s: usize| {
                        let mut one = DVector::zeros(dim);
                        one[j] = if (i, s) == (client, step) { deviation } else { 0.0 };
                        one
                    };
                    let after = self.round(protocol, sizes, cohort, &origin, &injected);
                    noise.push(read(after) - &shift);
                }
            }
        }
        Affine { map: DMatrix::from_columns(&columns), shift, noise: DMatrix::from_columns(&noise) }
    }
}

/// Every cohort of a scheme.
pub fn cohorts(protocol: &Protocol) -> Vec<Cohort> {
    let n = CLIENTS as f64;
    let of = |probability: f64, coefficients: [f64; CLIENTS]| Cohort {
        probability,
        coefficients,
        present: coefficients.map(|c| c > 0.0),
    };
    let chosen = |pair: [usize; 2], each: &dyn Fn(usize) -> f64| {
        std::array::from_fn(|i| if pair.contains(&i) { each(i) } else { 0.0 })
    };
    match protocol.scheme {
        Scheme::Full => vec![of(1.0, WEIGHTS)],
        Scheme::WithReplacement { cohort } => {
            let mut draws = vec![of(1.0, [0.0; CLIENTS])];
            for _ in 0..cohort {
                let more = |so_far: &Cohort, i: usize| {
                    let mut coefficients = so_far.coefficients;
                    coefficients[i] += 1.0 / cohort as f64;
                    of(so_far.probability * WEIGHTS[i], coefficients)
                };
                draws = draws.iter().flat_map(|d| (0..CLIENTS).map(move |i| more(d, i))).collect();
            }
            draws
        }
        Scheme::WithoutReplacement { cohort } => {
            assert_eq!(cohort, 2);
            let each =
                |i: usize| if protocol.scale_objectives { 0.5 } else { WEIGHTS[i] * n / 2.0 };
            RACES.iter().map(|(pair, _)| of(1.0 / n, chosen(*pair, &each))).collect()
        }
        Scheme::FirstArrivals { cohort, correct } => {
            assert_eq!(cohort, 2);
            let among = |i: usize| {
                RACES.iter().filter(|(pair, _)| pair.contains(&i)).map(|(_, p)| p).sum::<f64>()
            };
            let each = |i: usize| WEIGHTS[i] * if correct { 1.0 / among(i) } else { n / 2.0 };
            RACES.iter().map(|(pair, p)| of(*p, chosen(*pair, &each))).collect()
        }
    }
}

/// What theory is told of the races.
pub fn arrived(scheme: Scheme) -> Option<Arrived> {
    let Scheme::FirstArrivals { cohort, correct } = scheme else { return None };
    let mut pairs = DMatrix::zeros(CLIENTS, CLIENTS);
    for ([k, l], p) in RACES {
        [(k, k), (l, l), (k, l), (l, k)].into_iter().for_each(|place| pairs[place] += p);
    }
    Some(Arrived::new(&WEIGHTS, pairs, cohort, correct))
}
