//! What a prediction costs: ℓ(θ; z).
//!
//! `mean` is about an observation as a whole. `squared` and `logistic` are losses of a linear
//! model: a function of the margin x·θ and the label, a [`MarginLoss`], plus l2/2 |θ|² without the
//! intercept.

mod logistic;
mod squared;

pub use logistic::Logistic;
pub use squared::Squared;

/// One of the built-in losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// |θ − z|² / 2, whose expectation is least at the mean.
    Mean,
    /// (y − x·θ)² / 2 + l2/2 |θ|².
    Squared {
        /// Ridge penalty.
        l2: f64,
    },
    /// log(1 + exp(x·θ)) − y x·θ + l2/2 |θ|².
    Logistic {
        /// Ridge penalty.
        l2: f64,
    },
}

impl Loss {
    /// The ridge penalty.
    pub fn l2(self) -> f64 {
        match self {
            Loss::Mean => 0.0,
            Loss::Squared { l2 } | Loss::Logistic { l2 } => l2,
        }
    }
}

/// A loss of the margin x·θ.
pub trait MarginLoss: Copy + Send + Sync {
    /// The loss.
    fn value(self, margin: f64, label: f64) -> f64;
    /// Its first derivative in the margin.
    fn slope(self, margin: f64, label: f64) -> f64;
    /// Its second derivative in the margin.
    fn curvature(self, margin: f64, label: f64) -> f64;
}
