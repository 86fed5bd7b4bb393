//! Rounds of affine problems whose coordinates do not mix: numbers instead of matrices.

use crate::p_fedavg::PFedAvg;
use fedback_core::federation::Federation;
use fedback_core::protocol::{Aggregate, Deploy};

use super::crowd::{Crowd, Person};
use super::dynamics::{Dynamics, Family, Sampling};
use super::leap::Rounds;
use super::rows::Detail;

/// Steps of one size beyond which powers are quicker than steps.
const MANY: usize = 12;

/// Client after client, coordinate after coordinate; or the points of a crowd instead of clients.
pub(super) struct Coordinates {
    dim: usize,
    deploy: Deploy,
    weights: Vec<f64>,
    expected: Vec<f64>,
    scale: Vec<f64>,
    sensitivity: Vec<f64>,
    drive: Vec<f64>,
    noise: Vec<f64>,
    /// What is aggregated besides deviations from θ^PS: θ^PS itself where iterates are, by
    /// coefficients that do not sum to one.
    offset: Option<Vec<f64>>,
    /// One for each coordinate, where clients are many.
    crowds: Vec<Crowd>,
    a: Vec<f64>,
    b: Vec<f64>,
    q: Vec<f64>,
    folds: Vec<Fold>,
    mean: Vec<f64>,
}

/// One coordinate of a round, clients folded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fold {
    pub(super) gain: f64,
    pub(super) drift: f64,
    pub(super) noise: f64,
    pub(super) with: Drawn,
    pub(super) without: Drawn,
}

/// What the draw of a cohort adds, before its share ρ: `square` · (V + m²) + 2 `cross` · m +
/// `constant`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drawn {
    pub(super) square: f64,
    pub(super) cross: f64,
    pub(super) constant: f64,
}

impl Coordinates {
    pub(super) fn new(
        federation: &Federation,
        protocol: &PFedAvg,
        centre: &[f64],
        detail: Detail,
    ) -> Self {
        let (dim, clients) = (federation.dim(), federation.clients());
        let n = clients as f64;
        let (mut sensitivity, mut drive, mut noise) = (Vec::new(), Vec::new(), Vec::new());
        for client in 0..clients {
            let population = federation.population(client);
            let (mean, variance) = (population.base_mean(), population.base_variance());
            for j in 0..dim {
                let epsilon = federation.response().diagonal(client, j);
                sensitivity.push(epsilon);
                drive.push(mean[j] + epsilon * centre[j] - centre[j]);
                noise.push(variance[j] / protocol.batch.size());
            }
        }
        let weights = federation.weights().to_vec();
        let (expected, scale) = match protocol.scale_objectives {
            true => (vec![1.0 / n; clients], weights.iter().map(|p| n * p).collect::<Vec<f64>>()),
            false => (weights.clone(), vec![1.0; clients]),
        };
        let unscaled = scale.iter().all(|q| (q - 1.0).abs() < 1e-12);
        let scale = scale.iter().flat_map(|q| std::iter::repeat_n(*q, dim)).collect();
        let printed = protocol.aggregate == Aggregate::Iterates && !protocol.scale_objectives;
        let mut coordinates = Coordinates {
            dim,
            deploy: protocol.deploy,
            weights,
            expected,
            scale,
            sensitivity,
            drive,
            noise,
            offset: printed.then(|| centre.to_vec()),
            crowds: Vec::new(),
            a: vec![1.0; clients * dim],
            b: vec![0.0; clients * dim],
            q: vec![0.0; clients * dim],
            folds: vec![Fold::default(); dim],
            mean: vec![0.0; dim],
        };
        let points = Crowd::points(protocol.deploy, clients);
        if let (Some(points), true, Detail::Sketch) = (points, unscaled, detail) {
            coordinates.gather(points);
        }
        coordinates
    }

    /// Replaces clients by points of crowds, of unit drive and unit noise.
    fn gather(&mut self, points: usize) {
        let dim = self.dim;
        let person = |i: usize, j: usize| Person {
            weight: self.weights[i],
            sensitivity: self.sensitivity[i * dim + j],
            drive: self.drive[i * dim + j],
            noise: self.noise[i * dim + j],
        };
        let people = |j: usize| (0..self.weights.len()).map(|i| person(i, j)).collect::<Vec<_>>();
        self.crowds = (0..dim).map(|j| Crowd::new(&people(j), points)).collect();
        let crowds = &self.crowds;
        let point = |k: usize| crowds[k % dim].points[k / dim];
        self.sensitivity = (0..points * dim).map(point).collect();
        for ones in [&mut self.scale, &mut self.drive, &mut self.noise] {
            *ones = vec![1.0; points * dim];
        }
        for numbers in [&mut self.a, &mut self.b, &mut self.q] {
            numbers.truncate(points * dim);
        }
    }

    /// A local step of size η multiplies what is there by `keep` and adds `reaction`.
    fn map(&self, k: usize, size: f64) -> (f64, f64) {
        let epsilon = self.sensitivity[k];
        match self.deploy {
            Deploy::Step => (1.0 - size * (1.0 - epsilon), 0.0),
            Deploy::Round => (1.0 - size, size * epsilon),
        }
    }

    /// A few local steps of one size.
    fn steps(&mut self, size: f64, count: usize) {
        // As [`Self::map`], without a choice in the innermost loop.
        let (follows, reacts) = match self.deploy {
            Deploy::Step => (1.0, 0.0),
            Deploy::Round => (0.0, 1.0),
        };
        let each = self.a.len();
        let (a, b, q) = (&mut self.a[..each], &mut self.b[..each], &mut self.q[..each]);
        let (scale, sensitivity) = (&self.scale[..each], &self.sensitivity[..each]);
        let (drive, noise) = (&self.drive[..each], &self.noise[..each]);
        for _ in 0..count {
            for k in 0..each {
                let size = size * scale[k];
                let keep = 1.0 - size * (1.0 - follows * sensitivity[k]);
                a[k] = keep * a[k] + reacts * size * sensitivity[k];
                b[k] = keep * b[k] + size * drive[k];
                q[k] = keep * keep * q[k] + size * size * noise[k];
            }
        }
    }

    /// Many local steps of one size: powers and geometric sums.
    fn many_steps(&mut self, size: f64, count: usize) {
        for k in 0..self.a.len() {
            let size = size * self.scale[k];
            let (keep, reaction) = self.map(k, size);
            let (power, sum) = powers(keep, count);
            let (square, squares) = powers(keep * keep, count);
            self.a[k] = power * self.a[k] + reaction * sum;
            self.b[k] = power * self.b[k] + size * self.drive[k] * sum;
            self.q[k] = square * self.q[k] + size * size * self.noise[k] * squares;
        }
    }

    fn fold(&self, j: usize, drawing: bool) -> Fold {
        let (kept, offset) = match &self.offset {
            Some(centre) => (0.0, centre[j]),
            None => (1.0, 0.0),
        };
        if let Some(crowd) = self.crowds.get(j) {
            let rounds = (j..self.a.len()).step_by(self.dim);
            let rounds = rounds.map(|k| (self.a[k], self.b[k], self.q[k]));
            return crowd.fold(rounds, (kept, offset));
        }
        let clients = self.weights.len();
        let n = clients as f64;
        let at = |i: usize| i * self.dim + j;
        let (mut gain, mut drift, mut noise, mut own_noise) = (0.0, 0.0, 0.0, 0.0);
        for (i, (&g, &p)) in self.expected.iter().zip(&self.weights).enumerate() {
            let k = at(i);
            gain += g * self.a[k];
            drift += g * self.b[k];
            noise += g * g * self.q[k];
            own_noise += p * (1.0 - p) * self.q[k];
        }
        if !drawing {
            return Fold { gain, drift, noise, ..Fold::default() };
        }
        let mut with = Drawn { constant: own_noise, ..Drawn::default() };
        let mut without = Drawn { constant: (n - 1.0) * noise, ..Drawn::default() };
        let total: f64 = self.expected.iter().sum();
        for (i, (&g, &p)) in self.expected.iter().zip(&self.weights).enumerate() {
            let k = at(i);
            with.add(p, self.a[k] - gain, self.b[k] - drift);
            let (own, share) = (n * g, 1.0 / n);
            let square = own * (self.a[k] - kept) - (gain - kept * total);
            let constant = own * (self.b[k] + offset) - (drift + offset * total);
            without.add(share, square, constant);
        }
        Fold { gain, drift, noise, with, without }
    }
}

/// x^n and 1 + x + … + x^(n−1), by doubling.
fn powers(x: f64, n: usize) -> (f64, f64) {
    let (mut power, mut sum) = (1.0, 0.0);
    for bit in (0..usize::BITS - n.leading_zeros()).rev() {
        (power, sum) = (power * power, sum * (1.0 + power));
        if n >> bit & 1 == 1 {
            (power, sum) = (power * x, sum * x + 1.0);
        }
    }
    (power, sum)
}

impl Drawn {
    /// Adds w · (s m + c)² as a polynomial of m.
    fn add(&mut self, weight: f64, slope: f64, constant: f64) {
        self.square += weight * slope * slope;
        self.cross += weight * slope * constant;
        self.constant += weight * constant * constant;
    }
}

impl Fold {
    fn drawn(&self, family: Family) -> Drawn {
        match family {
            Family::Full => Drawn::default(),
            Family::With => self.with,
            Family::Without => self.without,
        }
    }

    fn factor(&self, sampling: Sampling) -> f64 {
        self.gain * self.gain + sampling.share * self.drawn(sampling.family).square
    }
}

impl Dynamics for Coordinates {
    fn step_work(&self) -> f64 {
        self.a.len() as f64
    }

    fn round_work(&self, schemes: usize) -> f64 {
        (8 + 4 * self.dim * (1 + schemes)) as f64
    }

    fn prepare(&mut self, sizes: &[f64], drawing: bool) {
        self.a.fill(1.0);
        self.b.fill(0.0);
        self.q.fill(0.0);
        for run in sizes.chunk_by(|a, b| a == b) {
            match run.len() > MANY {
                true => self.many_steps(run[0], run.len()),
                false => self.steps(run[0], run.len()),
            }
        }
        for j in 0..self.dim {
            self.folds[j] = self.fold(j, drawing);
        }
    }

    fn work(&mut self, mean: &[f64], _sizes: &[f64]) {
        self.mean.copy_from_slice(mean);
    }

    fn aggregate(&self, mean: &mut [f64]) {
        for (j, fold) in self.folds.iter().enumerate() {
            mean[j] = fold.gain * self.mean[j] + fold.drift;
        }
    }

    fn no_spread(&self) -> Vec<f64> {
        vec![0.0; self.dim]
    }

    fn spread(&self, sampling: Sampling, spread: &mut [f64]) -> f64 {
        let mut total = 0.0;
        for (j, fold) in self.folds.iter().enumerate() {
            let (m, drawn) = (self.mean[j], fold.drawn(sampling.family));
            let source = (drawn.square * m + 2.0 * drawn.cross) * m + drawn.constant;
            spread[j] =
                fold.factor(sampling) * spread[j] + fold.noise + sampling.share * source.max(0.0);
            total += spread[j];
        }
        total
    }

    fn maps(&self, sampling: Sampling, maps: &mut Vec<Rounds>) {
        maps.extend(self.folds.iter().map(|fold| {
            let drawn = fold.drawn(sampling.family);
            Rounds {
                gain: fold.gain,
                drift: fold.drift,
                factor: fold.factor(sampling),
                square: sampling.share * drawn.square,
                cross: sampling.share * drawn.cross,
                constant: fold.noise + sampling.share * drawn.constant,
            }
        }));
    }

    fn radius(&self, sampling: Sampling) -> f64 {
        self.folds.iter().map(|fold| fold.factor(sampling)).fold(0.0, f64::max)
    }
}
