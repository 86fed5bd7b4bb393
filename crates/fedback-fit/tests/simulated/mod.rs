//! Clients whose response is known.

use fedback_core::stream::{Draws, Purpose, Seed, Streams};
use fedback_fit::model::{Deployments, Direction, Shape};
use fedback_fit::observations::{Observations, Sample};

/// What features look like before they move, less their mean; all have a spread of about one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(dead_code, reason = "not every test has all of them")]
pub enum Base {
    Normal,
    Lognormal,
    Exponential,
    /// Counts, as of open credit lines.
    Count,
    /// Zero for a share of the rows, exponential for the others.
    Zeros(f64),
    /// Heavier than [`Base::Lognormal`].
    Heavy,
}

impl Base {
    pub fn draw(self, draws: &mut Draws) -> f64 {
        match self {
            Base::Normal => draws.normal(),
            Base::Lognormal => (0.5 * draws.normal()).exp() - f64::exp(0.125),
            Base::Exponential => draws.exponential() - 1.0,
            Base::Zeros(share) if draws.uniform() < share => 0.0,
            Base::Zeros(_) => draws.exponential(),
            Base::Heavy => draws.normal().exp(),
            Base::Count => (2.0 * draws.exponential()).floor() - 1.0 / (f64::exp(0.5) - 1.0),
        }
    }
}

/// A design: who is seen, how often, under what.
#[derive(Clone, Debug)]
pub struct Design {
    pub base: Base,
    pub thetas: Vec<Vec<f64>>,
    pub direction: Direction,
    pub shape: Shape,
    /// Rows of each deployment.
    pub rows: Vec<usize>,
    /// The spread of the noise under each deployment.
    pub noise: Vec<f64>,
    /// Whether the same individuals are seen again, and how much they have in common.
    pub paired: Option<f64>,
}

impl Design {
    pub fn new(base: Base, thetas: &[&[f64]], rows: &[usize]) -> Self {
        Design {
            base,
            thetas: thetas.iter().map(|theta| theta.to_vec()).collect(),
            direction: Direction::BestResponse,
            shape: Shape::Scalar,
            rows: rows.to_vec(),
            noise: vec![1.0; rows.len()],
            paired: None,
        }
    }

    pub fn dim(&self) -> usize {
        self.thetas[0].len()
    }

    pub fn deployments(&self) -> Deployments {
        Deployments(self.thetas.clone())
    }

    /// True sensitivities of the design's shape.
    pub fn truth(&self, draws: &mut Draws) -> Vec<f64> {
        (0..self.shape.numbers(self.dim())).map(|_| 2.0 * draws.uniform() - 0.5).collect()
    }

    /// M θ of a deployment with its sign.
    pub fn shift(&self, truth: &[f64], deployment: usize) -> Vec<f64> {
        let (dim, theta) = (self.dim(), &self.thetas[deployment]);
        let sign = if self.direction == Direction::Location { 1.0 } else { -1.0 };
        (0..dim)
            .map(|j| {
                sign * match self.shape {
                    Shape::Scalar => truth[0] * theta[j],
                    Shape::Vector => truth[j] * theta[j],
                    Shape::Matrix => (0..dim).map(|l| truth[j * dim + l] * theta[l]).sum(),
                }
            })
            .collect()
    }

    /// Observations of a client; neighbouring features are correlated.
    pub fn observe(&self, truth: &[f64], draws: &mut Draws) -> Observations {
        let dim = self.dim();
        let people = self.rows.iter().copied().max().unwrap_or(0);
        let common: Vec<f64> = (0..people * dim).map(|_| self.base.draw(draws)).collect();
        let samples = (0..self.rows.len()).map(|k| {
            let shift = self.shift(truth, k);
            let mut values = Vec::with_capacity(self.rows[k] * dim);
            for i in 0..self.rows[k] {
                let mut before = 0.0;
                for j in 0..dim {
                    let fresh = self.noise[k] * self.base.draw(draws);
                    let own = match self.paired {
                        Some(share) => share * common[i * dim + j] + fresh,
                        None => fresh + 0.5 * before,
                    };
                    before = fresh;
                    values.push(own + shift[j]);
                }
            }
            let individuals = self.paired.map(|_| (0..self.rows[k]).collect());
            Sample { values, individuals }
        });
        Observations { dim, samples: samples.collect() }
    }
}

/// The random numbers of one repetition.
pub fn repetition(test: u64, number: usize) -> Draws {
    Streams::new(Seed(2025), test, number as u64, Purpose::Data).client(0).draws()
}
