//! What rounds of one kind lead to: radii and places of rest.
//!
//! A round takes the second moment X = E(y yᵀ) of errors to T(X) = B̄ X B̄ᵀ + Σ Cov(z_k, z_l) C_k X C_lᵀ + what
//! noise that grows with the error adds. T maps positive semidefinite matrices to such, so that its
//! spectral radius is an eigenvalue with a semidefinite eigenmatrix. Rounds of one step size rest at
//! the fixed point b = (I − B̄)⁻¹ b̄ of the mean, with the covariance Y = T(Y) + what chance and noise add there.

use nalgebra::{DMatrix, DVector};

use super::Moments;
use super::block::Block;
use super::frame::Joint;
use super::leap::{Leap, packed, unpacked};
use super::part::{Part, Rounds};
use crate::cohort::Chance;
use crate::spectrum;

/// Up to here T is written out as a matrix on symmetric matrices.
const MOST_COORDINATES: usize = 12;
/// Iterations with larger matrices, and numbers that they may touch.
const MOST_ITERATIONS: usize = 2000;
const MOST_TOUCHED: f64 = 2e9;
/// What a radius of one may be off by.
const ROUNDING: f64 = 1e-12;
/// Squarings after which nothing is left of what contracts.
const SQUARINGS: usize = 60;

/// What rounds like the prepared one lead to.
pub(crate) trait Second {
    /// What they multiply mean errors with in the long run.
    fn radius(&self) -> Option<f64>;
    /// The same for second moments.
    fn square_radius(&self, chance: Chance) -> Option<f64>;
    /// Whether that is below one, without working it out where that takes longer.
    fn contracts(&self, chance: Chance) -> bool;
    /// Whether that is above one, likewise.
    fn expands(&self, chance: Chance) -> bool;
    /// Where they end: the mean of the state, and its spread.
    fn rest(&self, chance: Chance) -> Option<(Vec<f64>, Vec<f64>)>;
    /// Many of them.
    fn leap(&self, chance: Chance) -> Leap;
    /// A bound on E|x|² now and after every later round, whose steps are those of the prepared round
    /// and so many times smaller ones.
    fn ceiling(&mut self, chance: Chance, now: Moments<'_>, times: i32) -> Option<f64>;
}

impl<T: Block, J: Joint<T>> Second for Rounds<T, J> {
    fn radius(&self) -> Option<f64> {
        self.work.touch(20.0 * self.work.of_move(None));
        spectrum::radius(&self.expected.map.matrix())
    }

    fn square_radius(&self, chance: Chance) -> Option<f64> {
        if !self.expected.map.slice().iter().all(|entry| entry.is_finite()) {
            return None;
        }
        if !self.is_random(chance) {
            return self.radius().map(|radius| radius * radius);
        }
        if self.frame.width() > MOST_COORDINATES {
            return self.iterated(chance, |low, high| high - low <= 1e-9 * (1.0 + high));
        }
        let dense = self.dense(chance);
        self.work.touch(10.0 * (dense.nrows() as f64).powi(3));
        spectrum::radius(&dense)
    }

    /// T maps semidefinite matrices to such, so that its radius is below one exactly where Y = T(Y) + I has a
    /// positive definite solution.
    fn contracts(&self, chance: Chance) -> bool {
        let width = self.frame.width();
        if !self.is_random(chance) || width > MOST_COORDINATES {
            return self.around_one(chance).is_some_and(|radius| radius < 1.0);
        }
        let solved = self.solve(chance, DMatrix::identity(width, width));
        let finite = solved.filter(|y| y.iter().all(|entry| entry.is_finite()));
        finite.is_some_and(|y| y.cholesky().is_some())
    }

    fn expands(&self, chance: Chance) -> bool {
        self.around_one(chance).is_none_or(|radius| radius > 1.0 + ROUNDING)
    }

    fn rest(&self, chance: Chance) -> Option<(Vec<f64>, Vec<f64>)> {
        let width = self.frame.width();
        let system = DMatrix::identity(width, width) - self.expected.map.matrix();
        let mean = system.lu().solve(&self.expected.shift.matrix())?;
        let state = self.state(mean.as_slice());
        let nothing = self.expected.map.emptied();
        let source = match (self.grown_at(chance, &state, &nothing), self.grows()) {
            (Some(grown), _) => self.source(chance, &state, None).plus(1.0, &grown),
            (None, true) => self.noisier(&mean).source(chance, &state, None),
            (None, false) => self.source(chance, &state, None),
        };
        let spread = self.solve(chance, source.matrix())?;
        Some((mean.as_slice().to_vec(), spread.as_slice().to_vec()))
    }

    fn leap(&self, chance: Chance) -> Leap {
        let (map, shift) = (self.expected.map.matrix(), self.expected.shift.matrix());
        Leap::new(self.frame.dim, &map, &shift, |weight| {
            let (square, cross, constant) = self.pulled_back(chance, weight);
            (weight + square, cross, constant)
        })
    }

    fn ceiling(&mut self, chance: Chance, now: Moments<'_>, times: i32) -> Option<f64> {
        self.bounded(chance, now, times)
    }
}

impl<T: Block, J: Joint<T>> Rounds<T, J> {
    /// What a round makes of a weight P of second moments, less P: [T*(P) − P, q; qᵀ, c]. Of small steps it
    /// is small, and not the difference of two large numbers.
    pub(super) fn pulled_back(
        &self,
        chance: Chance,
        weight: &DMatrix<f64>,
    ) -> (DMatrix<f64>, DMatrix<f64>, f64) {
        self.work.touch(2.0 * self.work.of_move(chance));
        let (map, shift) = (self.expected.map.matrix(), self.expected.shift.matrix());
        let mut moves = map.clone();
        (0..moves.nrows()).for_each(|j| moves[(j, j)] -= 1.0);
        let once = weight * &moves;
        let mut square = &once + once.transpose() + moves.transpose() * once;
        let mut cross = map.transpose() * weight * &shift;
        let mut constant = (shift.transpose() * weight * &shift)[0];
        let mut noise = self.expected.noise.matrix();
        if let Some((draw, share)) = chance {
            let (drawn, more) = &self.drawn[draw];
            noise += more.matrix() * share;
            let (s, q, c) = J::pulled(drawn, weight);
            square += s * share;
            cross += q * share;
            constant += c * share;
        }
        constant += (weight * noise).trace();
        if let Some(grown) = self.grown_back(chance, weight) {
            let width = self.frame.width();
            square += grown.view((0, 0), (width, width));
            cross += grown.view((0, width), (width, 1));
            constant += grown[(width, width)];
        }
        (square, cross, constant)
    }

    /// Whether the map of a round is random, and not only what it adds.
    fn is_random(&self, chance: Chance) -> bool {
        chance.is_some() || self.grows()
    }

    /// The radius of T, or some bound of it that is on the same side of one.
    fn around_one(&self, chance: Chance) -> Option<f64> {
        match self.is_random(chance) && self.frame.width() > MOST_COORDINATES {
            true => self.iterated(chance, |low, high| low > 1.0 + ROUNDING || high < 1.0),
            false => self.square_radius(chance),
        }
    }

    /// T(X).
    fn apply(&self, chance: Chance, second: &DMatrix<f64>) -> DMatrix<f64> {
        let width = self.frame.width();
        let mut after = self.carry(chance, &self.covariance(second.as_slice()));
        if let Some(grown) = self.grown(chance, &second.clone().resize(width + 1, width + 1, 0.0)) {
            after.add(1.0, &grown);
        }
        after.matrix()
    }

    /// T on symmetric matrices, by what it does to a basis of them.
    fn dense(&self, chance: Chance) -> DMatrix<f64> {
        let width = self.frame.width();
        let count = width * (width + 1) / 2;
        let column = |place: usize| {
            let unit: Vec<f64> = (0..count).map(|k| f64::from(k == place)).collect();
            let image = self.apply(chance, &unpacked(&unit, width));
            DVector::from_vec(packed(width, |j, k| image[(j, k)]))
        };
        DMatrix::from_columns(&(0..count).map(column).collect::<Vec<_>>())
    }

    /// The same rounds with the noise that gradients have at a state.
    fn noisier(&self, state: &DMatrix<f64>) -> Self {
        let mut noisier = self.clone();
        for (k, client) in noisier.clients.iter_mut().enumerate() {
            let Some(grows) = &client.grows else { continue };
            let (dim, start) = (client.dim, self.frame.start(k) * state);
            let seen = DMatrix::from_fn(grows.width(), 1, |j, _| start[j % dim]);
            let more = grows.apply(&(&seen * seen.transpose()));
            client.noise.add(1.0, &T::of_slice(dim, dim, more.as_slice()));
        }
        noisier.prepare(&self.sizes, true);
        noisier
    }

    /// Y = T(Y) + W; none where T does not contract.
    fn solve(&self, chance: Chance, source: DMatrix<f64>) -> Option<DMatrix<f64>> {
        let width = self.frame.width();
        if !self.is_random(chance) {
            return geometric(&self.expected.map.matrix(), source);
        }
        if width <= MOST_COORDINATES {
            let dense = self.dense(chance);
            self.work.touch((dense.nrows() as f64).powi(3));
            let system = DMatrix::identity(dense.nrows(), dense.nrows()) - dense;
            let solved =
                system.lu().solve(&DVector::from_vec(packed(width, |j, k| source[(j, k)])))?;
            return Some(unpacked(solved.as_slice(), width));
        }
        let (mut sum, mut term) = (source.clone(), source);
        for _ in 0..MOST_ITERATIONS {
            term = self.apply(chance, &term);
            sum += &term;
            if term.norm() <= 1e-9 * sum.norm() {
                return Some(sum);
            }
        }
        None
    }

    /// Power iteration on T + τ, which has one dominant eigenvalue where T may have several of one
    /// modulus (a complex pair of B̄ gives three). The answer is the upper one of the bounds of Collatz
    /// and Wielandt: T(X) ≤ r X for a positive definite X proves a radius of at most r.
    fn iterated(&self, chance: Chance, enough: impl Fn(f64, f64) -> bool) -> Option<f64> {
        let width = self.frame.width();
        let mut x = DMatrix::<f64>::identity(width, width);
        let mut best = f64::INFINITY;
        let affordable = (MOST_TOUCHED / self.work.of_move(chance)) as usize;
        for _ in 0..affordable.clamp(2, MOST_ITERATIONS) {
            let image = self.apply(chance, &x);
            self.work.touch(10.0 * self.work.of_move(None));
            let Some(factor) = x.clone().cholesky() else { break };
            let bounds = spectrum::relative(&image, &factor.l())?;
            best = best.min(bounds.max());
            if enough(bounds.min(), bounds.max()) {
                break;
            }
            x = &x * (0.2 * best) + image;
            x /= x.norm();
        }
        best.is_finite().then_some(best)
    }
}

/// Σ Bᵏ W Bᵏᵀ, by doubling; none where B does not contract.
pub(crate) fn geometric(map: &DMatrix<f64>, source: DMatrix<f64>) -> Option<DMatrix<f64>> {
    let (mut power, mut sum) = (map.clone(), source);
    for _ in 0..SQUARINGS {
        let more = power.around(&sum);
        sum += &more;
        // Squares of large entries, which a norm sums, are not finite before the entries are.
        if !sum.iter().all(|entry| entry.is_finite()) {
            return None;
        }
        if more.amax() <= 1e-16 * sum.amax() {
            return Some(sum);
        }
        power = &power * &power;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::client::{Client, Clients};
    use super::super::frame::Frame;
    use super::*;
    use crate::cohort::Cohorts;
    use fedback_core::base::{Base, Gaussian};
    use fedback_core::federation::Federation;
    use fedback_core::loss::Loss;
    use fedback_core::protocol::{Deploy, Protocol, Scheme, StepSize};
    use fedback_core::response::{Sensitivity, location};

    /// Matrices that do not commute, and an expected round with complex eigenvalues.
    fn mixing(deploy: Deploy) -> Rounds<DMatrix<f64>, DMatrix<f64>> {
        let sensitivity = vec![
            vec![vec![0.4, 0.9], vec![-0.9, 0.4]],
            vec![vec![0.1, -2.0], vec![0.5, 0.3]],
            vec![vec![-0.5, 0.0], vec![0.7, -1.0]],
        ];
        let mean = vec![1.0, 2.0, 5.0, 5.0, 2.0, 1.0];
        let federation = Federation::new(
            vec![1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0],
            Base::Gaussian(Gaussian { dim: 2, mean, noise: 1.0 }),
            location(&Sensitivity::Matrix(sensitivity), 2, false),
            Loss::Mean,
        )
        .unwrap();
        let scheme = Scheme::WithReplacement { cohort: 2 };
        let usual = Protocol::p_fedavg(scheme, 3, StepSize::Constant(0.2));
        let protocol = Protocol { deploy, ..usual };
        let clients = Clients::of(&federation, &protocol, &[0, 1, 2], &[0.0, 0.0]);
        let Clients::Matrices(mut parts) = clients else { panic!("coordinates mix") };
        let frame = Frame::of(&federation, &protocol, &[0.0, 0.0]);
        let cohorts = Cohorts::of(&federation, &protocol, None);
        Rounds::new(parts.remove(0), frame, &Arc::new(cohorts))
    }

    /// Whatever the route, one radius.
    #[test]
    fn power_iteration_agrees_with_the_written_out_matrix() {
        for deploy in [Deploy::Step, Deploy::Round] {
            let mut rounds = mixing(deploy);
            let chance = rounds.cohorts.schemes[0];
            // Small steps have eigenvalues close together; what is left after all iterations is a bound.
            for (size, close) in [(0.01, 4e-3), (0.3, 1e-6), (0.9, 1e-6)] {
                rounds.prepare(&[size; 3], true);
                let dense = rounds.square_radius(chance).unwrap();
                let iterated = rounds.iterated(chance, |low, high| high - low <= 1e-9).unwrap();
                assert!(iterated - dense < close * dense, "{dense} {iterated}");
                assert!(iterated > dense - 1e-9 * dense, "no upper bound: {dense} {iterated}");
            }
        }
    }

    /// 2³ rounds at once and one by one.
    fn leap_and_walk<T: Block, J: Joint<T>>(rounds: &mut Rounds<T, J>, start: (&[f64], &[f64])) {
        let chance = rounds.cohorts.schemes[0];
        rounds.prepare(&[0.2; 3], true);
        let (mut mean, mut spread) = (start.0.to_vec(), start.1.to_vec());
        let (mut next, mut wider) = (mean.clone(), spread.clone());
        let leap = rounds.leap(chance).doubled().doubled().doubled();
        let total = leap.apply(start, (&mut next, &mut wider));
        let (after, width) = (next.clone(), wider.clone());
        let mut variance = 0.0;
        for _ in 0..8 {
            rounds.spread(chance, (&mean, &spread), None, &mut wider);
            variance = (0..mean.len()).map(|j| wider[j * mean.len() + j]).sum();
            rounds.mean(&mean, &mut next);
            (mean, spread) = (next.clone(), wider.clone());
        }
        assert!((total - variance).abs() < 1e-12 * variance, "{total} {variance}");
        after.iter().zip(&mean).for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
        width.iter().zip(&spread).for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
    }

    #[test]
    fn a_leap_is_so_many_rounds() {
        for deploy in [Deploy::Step, Deploy::Round] {
            let mut rounds = mixing(deploy);
            leap_and_walk(&mut rounds, (&[3.0, -2.0], &[0.5, 0.1, 0.1, 0.8]));
            let clients = rounds.clients.iter().map(Client::first_coordinate).collect();
            let frame = Frame { dim: 1, ..rounds.frame.clone() };
            let mut rounds = Rounds::<f64, f64>::new(clients, frame, &rounds.cohorts);
            leap_and_walk(&mut rounds, (&[3.0], &[0.5]));
        }
    }
}
