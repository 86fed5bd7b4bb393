//! Normal observations: client i draws z0 ~ N(mean_i, noise² I).

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
    /// The mean of one client.
    pub fn mean(&self, client: usize) -> &[f64] {
        &self.mean[client * self.dim..][..self.dim]
    }
}
