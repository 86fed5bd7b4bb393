//! Normal observations: client i draws z0 ~ N(mean_i, noise² I).

use crate::misfit::Misfit;

/// Normal observations in any dimension.
#[derive(Clone, Debug)]
pub struct Gaussian {
    /// Coordinates of an observation.
    pub dim: usize,
    /// The clients' means, one after the other.
    pub mean: Vec<f64>,
    /// The standard deviation of every coordinate.
    pub noise: f64,
}

impl Gaussian {
    pub(super) fn check(&self) -> Result<(), Misfit> {
        let Gaussian { dim, mean, noise } = self;
        if *dim == 0 || mean.len() % dim != 0 {
            let why = format!("found {dim} for {} numbers in means; needed: a divisor", mean.len());
            return Err(Misfit::new("problem.base.dim", why));
        }
        if let Some(wrong) = mean.iter().find(|mean| !mean.is_finite()) {
            return Err(Misfit::new(
                "problem.base.mean",
                format!("found {wrong}; allowed: finite"),
            ));
        }
        match *noise >= 0.0 && noise.is_finite() {
            true => Ok(()),
            false => Err(Misfit::new("problem.base.noise", format!("found {noise}; allowed: ≥ 0"))),
        }
    }

    /// The mean of one client.
    pub fn mean(&self, client: usize) -> &[f64] {
        &self.mean[client * self.dim..][..self.dim]
    }
}
