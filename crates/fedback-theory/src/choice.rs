//! The moments of a cohort's coefficients, where they depend on who is fast.
//!
//! Full participation and sampling have coefficients whose covariance is known by a formula with one
//! number for all pairs. The coefficients c_k of the first to arrive are a_k where client k is among
//! them and zero otherwise, so that
//!
//! E(c_k) = a_k π_k,  Cov(c_k, c_l) = a_k a_l (π_kl − π_k π_l)
//!
//! with π_kk = π_k. With a_k = p_k N/K the expected round is one at the *effective weights*, in
//! proportion to p_k π_k, whose update is multiplied by (N/K) Σ p_k π_k; with a_k = p_k/π_k (Horvitz and
//! Thompson 1952) it is one at the weights p_k themselves.

use fedback_core::misfit::Unsupported;
use fedback_core::protocol::{LocalRule, Protocol, ServerRule};
use nalgebra::DMatrix;

/// Which weights decide where small steps settle when fast clients come more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightsThatCount {
    /// The clients' own, p_i.
    Own,
    /// The effective ones, in proportion to E(c_k).
    Effective,
}

impl WeightsThatCount {
    /// Of a protocol. Rules that keep nothing rest where the expected combined work vanishes.
    /// SCAFFOLD rests where every client's corrected gradient does, whoever comes more often: the
    /// weights are those of c = Σ p_i c_i.
    pub fn of(protocol: &Protocol) -> Result<Self, Unsupported> {
        // No `..`: whoever adds a part must say what it does to the place of rest. Those that are
        // not named do nothing to it where steps are small.
        let Protocol {
            local,
            server,
            scheme: _,
            local_steps: _,
            batch: _,
            step_size: _,
            deploy: _,
            aggregate: _,
            scale_objectives: _,
        } = *protocol;
        match (server, local) {
            (ServerRule::Adam { .. }, _) => Err(Unsupported::new(
                "algorithm.server",
                "Adam's steps are not linear in the combined work: where it settles depends on the \
                 noise",
            )),
            (ServerRule::Average | ServerRule::Momentum { .. }, LocalRule::Scaffold) => {
                Ok(WeightsThatCount::Own)
            }
            (
                ServerRule::Average | ServerRule::Momentum { .. },
                LocalRule::Descent | LocalRule::Proximal { .. },
            ) => Ok(WeightsThatCount::Effective),
        }
    }
}

/// The mean and the covariance of the coefficients of a cohort.
#[derive(Clone, Debug)]
pub struct Choice {
    /// E(c_k).
    pub expected: Vec<f64>,
    /// Cov(c_k, c_l).
    pub covariance: DMatrix<f64>,
}

impl Choice {
    /// Of the first `cohort` to arrive. `pairs` are the probabilities that two clients are both among
    /// them, and on its diagonal that one is.
    pub fn of_first_arrivals(
        weights: &[f64],
        pairs: &DMatrix<f64>,
        cohort: usize,
        correct: bool,
    ) -> Self {
        let each = weights.len() as f64 / cohort as f64;
        let share = |k: usize| match correct {
            true if pairs[(k, k)] > 0.0 => weights[k] / pairs[(k, k)],
            true => 0.0,
            false => weights[k] * each,
        };
        let shares: Vec<f64> = (0..weights.len()).map(share).collect();
        let covariance = DMatrix::from_fn(weights.len(), weights.len(), |k, l| {
            shares[k] * shares[l] * (pairs[(k, l)] - pairs[(k, k)] * pairs[(l, l)])
        });
        let expected = (0..weights.len()).map(|k| shares[k] * pairs[(k, k)]).collect();
        Choice { expected, covariance }
    }

    /// Σ E(c_k): what the update of an expected round is multiplied with.
    pub fn speed(&self) -> f64 {
        self.expected.iter().sum()
    }

    /// The weights of an expected round.
    pub fn effective_weights(&self) -> Vec<f64> {
        let speed = self.speed();
        self.expected.iter().map(|expected| expected / speed).collect()
    }

    /// Columns l_m with Σ l_m l_mᵀ the covariance of the clients that are listed.
    pub(crate) fn factor(&self, clients: &[usize]) -> DMatrix<f64> {
        let part = DMatrix::from_fn(clients.len(), clients.len(), |k, l| {
            self.covariance[(clients[k], clients[l])]
        });
        let largest = part.amax();
        let axes = part.symmetric_eigen();
        let relevant: Vec<usize> =
            (0..clients.len()).filter(|m| axes.eigenvalues[*m] > 1e-15 * largest).collect();
        DMatrix::from_fn(clients.len(), relevant.len(), |k, m| {
            axes.eigenvectors[(k, relevant[m])] * axes.eigenvalues[relevant[m]].sqrt()
        })
    }
}

/// In proportion to p_i π_i: the weights that first arrivals effectively use.
pub fn effective_weights(weights: &[f64], inclusion: &[f64]) -> Vec<f64> {
    let products: Vec<f64> = weights.iter().zip(inclusion).map(|(p, pi)| p * pi).collect();
    let sum: f64 = products.iter().sum();
    products.into_iter().map(|product| product / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two of three clients, with given probabilities of every pair.
    #[test]
    fn moments_by_enumeration() {
        let chance = [((0, 1), 0.6), ((0, 2), 0.3), ((1, 2), 0.1)];
        let weights = [0.2, 0.3, 0.5];
        let mut pairs = DMatrix::zeros(3, 3);
        for ((k, l), p) in chance {
            for place in [(k, k), (l, l), (k, l), (l, k)] {
                pairs[place] += p;
            }
        }
        for correct in [false, true] {
            let choice = Choice::of_first_arrivals(&weights, &pairs, 2, correct);
            let share =
                |k: usize| weights[k] * if correct { 1.0 / pairs[(k, k)] } else { 3.0 / 2.0 };
            let (mut mean, mut square) = ([0.0; 3], DMatrix::<f64>::zeros(3, 3));
            for ((k, l), p) in chance {
                for i in [k, l] {
                    mean[i] += p * share(i);
                    [k, l].into_iter().for_each(|j| square[(i, j)] += p * share(i) * share(j));
                }
            }
            let factor = choice.factor(&[0, 1, 2]);
            let rebuilt = &factor * factor.transpose();
            let expected = nalgebra::DVector::from_column_slice(&mean);
            let found = nalgebra::DVector::from_column_slice(&choice.expected);
            assert!((found - &expected).amax() < 1e-15);
            let covariance = square - &expected * expected.transpose();
            assert!((&choice.covariance - &covariance).amax() < 1e-15);
            assert!((rebuilt - covariance).amax() < 1e-14);
            let effective = choice.effective_weights();
            let diagonal = pairs.diagonal();
            let expected = match correct {
                true => weights.to_vec(),
                false => effective_weights(&weights, diagonal.as_slice()),
            };
            effective.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-15));
        }
    }
}
