//! What a prediction costs: ℓ(θ; z).
//!
//! `mean` is about an observation as a whole. `squared` and `logistic` are losses of a linear
//! model: a function of the margin x·θ and the label, a [`MarginLoss`], plus l2/2 |θ|² without the
//! intercept.

mod logistic;
mod squared;

pub use logistic::Logistic;
pub use squared::Squared;

use crate::base::Base;
use crate::misfit::Misfit;

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
    /// Coordinates of θ where observations have `width` of them.
    #[inline]
    pub fn dim(self, width: usize) -> usize {
        match self {
            Loss::Mean | Loss::Squared { .. } | Loss::Logistic { .. } => width,
        }
    }

    /// Refuses data that the loss is not about.
    pub(crate) fn check(self, base: &Base) -> Result<(), Misfit> {
        let l2 = self.l2();
        if !(l2 >= 0.0 && l2.is_finite()) {
            return Err(Misfit::new("problem.loss.l2", format!("found {l2}; allowed: 0 or more")));
        }
        match (self, base) {
            (Loss::Mean, Base::Gaussian(_)) => Ok(()),
            (Loss::Squared { .. } | Loss::Logistic { .. }, Base::Gaussian(_)) => Err(Misfit::new(
                "problem.loss.kind",
                "normal data have no label; allowed with the base \"gaussian\": mean",
            )),
            (Loss::Mean, Base::Table(table)) => match table.intercept {
                false => Ok(()),
                true => Err(Misfit::new(
                    "problem.base.intercept",
                    "the loss \"mean\" has no linear model for an intercept; leave it out",
                )),
            },
            (Loss::Squared { .. }, Base::Table(_)) => Ok(()),
            (Loss::Logistic { .. }, Base::Table(table)) => {
                match table.labels().iter().find(|label| **label != 0.0 && **label != 1.0) {
                    None => Ok(()),
                    Some(label) => Err(Misfit::new(
                        "problem.base.label",
                        format!("found {label}; the loss \"logistic\" needs labels 0 and 1"),
                    )),
                }
            }
        }
    }

    /// The ridge penalty.
    pub fn l2(self) -> f64 {
        match self {
            Loss::Mean => 0.0,
            Loss::Squared { l2 } | Loss::Logistic { l2 } => l2,
        }
    }

    /// The loss of one observation, without penalty.
    pub fn value(self, theta: &[f64], x: &[f64], label: f64) -> f64 {
        match self {
            Loss::Mean => 0.5 * theta.iter().zip(x).map(|(t, x)| (t - x) * (t - x)).sum::<f64>(),
            Loss::Squared { .. } => Squared.value(margin(x, theta), label),
            Loss::Logistic { .. } => Logistic.value(margin(x, theta), label),
        }
    }

    /// Adds a multiple of its gradient.
    pub fn add_gradient(self, theta: &[f64], x: &[f64], label: f64, times: f64, out: &mut [f64]) {
        let slope = match self {
            Loss::Mean => {
                for ((out, theta), x) in out.iter_mut().zip(theta).zip(x) {
                    *out += times * (theta - x);
                }
                return;
            }
            Loss::Squared { .. } => Squared.slope(margin(x, theta), label),
            Loss::Logistic { .. } => Logistic.slope(margin(x, theta), label),
        };
        out.iter_mut().zip(x).for_each(|(out, x)| *out += times * slope * x);
    }

    /// Turns margins into the slopes ℓ′ of their losses. A loss of the whole observation has none.
    #[inline]
    pub fn slopes<const COUNT: usize>(self, margins: &mut [f64; COUNT], labels: &[f64; COUNT]) {
        for lane in 0..COUNT {
            margins[lane] = match self {
                Loss::Mean => 0.0,
                Loss::Squared { .. } => Squared.slope(margins[lane], labels[lane]),
                Loss::Logistic { .. } => Logistic.slope(margins[lane], labels[lane]),
            };
        }
    }

    /// ℓ″ of the margin; none for a loss of the whole observation, whose Hessian is the identity.
    pub fn curvature(self, theta: &[f64], x: &[f64], label: f64) -> Option<f64> {
        match self {
            Loss::Mean => None,
            Loss::Squared { .. } => Some(Squared.curvature(margin(x, theta), label)),
            Loss::Logistic { .. } => Some(Logistic.curvature(margin(x, theta), label)),
        }
    }
}

fn margin(x: &[f64], theta: &[f64]) -> f64 {
    x.iter().zip(theta).map(|(x, theta)| x * theta).sum()
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
