//! Who is among the first to arrive, and which weights that leaves.

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
        match (protocol.server, protocol.local) {
            (ServerRule::Adam { .. }, _) => Err(Unsupported::new(
                "algorithm.server",
                "Adam's steps are not linear in the combined work: where it settles depends on the \
                 noise",
            )),
            (_, LocalRule::Scaffold) => Ok(WeightsThatCount::Own),
            (_, LocalRule::Descent | LocalRule::Proximal { .. }) => Ok(WeightsThatCount::Effective),
        }
    }
}

/// Who is among the first to arrive, and what they count.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// π_kl, with π_k on the diagonal.
    pub(super) pairs: DMatrix<f64>,
    /// a_k.
    counts: Vec<f64>,
    /// The probability that nobody comes, and the round changes nothing.
    pub(super) empty: f64,
}

impl Arrived {
    /// Of the first `cohort` to arrive. `pairs` are the probabilities that two clients are both among
    /// them, and on its diagonal that one is.
    pub fn new(weights: &[f64], pairs: DMatrix<f64>, cohort: usize, correct: bool) -> Self {
        let each = weights.len() as f64 / cohort as f64;
        let counts = weights.iter().enumerate().map(|(k, p)| match correct {
            true if pairs[(k, k)] > 0.0 => p / pairs[(k, k)],
            true => 0.0,
            false => p * each,
        });
        Arrived { counts: counts.collect(), pairs, empty: 0.0 }
    }

    /// The same where nobody comes with a probability.
    pub fn or_nobody(self, empty: f64) -> Self {
        Arrived { empty, ..self }
    }

    /// Whether nobody coming changes something: a server with momentum stands still.
    pub(super) fn idles(&self, protocol: &Protocol) -> bool {
        self.empty > 0.0 && protocol.server.vectors() > 0
    }

    /// Of the b_k or, where nothing is kept, the c_k; and of nobody coming, if that is asked for.
    pub(super) fn covariance(&self, keeps: bool, idle: bool) -> DMatrix<f64> {
        let n = self.counts.len();
        let factor = |k: usize| if keeps || k == n { 1.0 } else { self.counts[k] };
        let mean = |k: usize| if k < n { self.pairs[(k, k)] } else { self.empty };
        let both = |k: usize, l: usize| match (k < n, l < n) {
            (true, true) => self.pairs[(k, l)],
            (false, false) => self.empty,
            _ => 0.0,
        };
        let width = n + usize::from(idle);
        DMatrix::from_fn(width, width, |k, l| {
            factor(k) * factor(l) * (both(k, l) - mean(k) * mean(l))
        })
    }

    /// E(c_k).
    pub fn expected(&self) -> Vec<f64> {
        self.counts.iter().enumerate().map(|(k, a)| a * self.pairs[(k, k)]).collect()
    }

    /// Σ E(c_k): what the update of an expected round is multiplied with.
    pub fn speed(&self) -> f64 {
        self.expected().iter().sum()
    }

    /// The weights of an expected round.
    pub fn effective_weights(&self) -> Vec<f64> {
        let speed = self.speed();
        self.expected().iter().map(|expected| expected / speed).collect()
    }
}

/// In proportion to p_i π_i: the weights that first arrivals effectively use.
pub fn effective_weights(weights: &[f64], inclusion: &[f64]) -> Vec<f64> {
    let products: Vec<f64> = weights.iter().zip(inclusion).map(|(p, pi)| p * pi).collect();
    let sum: f64 = products.iter().sum();
    products.into_iter().map(|product| product / sum).collect()
}
