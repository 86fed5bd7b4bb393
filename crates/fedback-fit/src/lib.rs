//! How clients react to a deployed model, estimated from what was observed under several: pure
//! statistics, without I/O and without threads.
//!
//! The way of the data of one client: [`observations`] (rows by deployment) → [`moments`] (means and
//! what is needed for the variance of any contrast of them) → [`model`] (a response of a shape is a
//! set of contrasts) and [`contrast`] (estimates, intervals, tests). Beside them stand what assumes no
//! model: the [`bracket`] of the sensitivity, the [`location`] test, and who is [`missing`].
//! [`selection`] decides for all clients together which features move and which shape is enough.
//!
//! Every estimate is a fixed linear combination of the deployments' means, so that one formula for
//! variances and degrees of freedom (Welch and Satterthwaite) serves scalars, vectors and matrices, two
//! deployments or ten, individuals that are identified or not.

pub mod bracket;
pub mod contrast;
pub mod distribution;
pub mod location;
pub mod missing;
pub mod model;
pub mod moments;
pub mod observations;
pub mod resample;
pub mod selection;

use fedback_core::stream::{Draws, Purpose, Seed, Streams};

/// What random numbers are for; each use has streams of its own, one per client.
#[derive(Clone, Copy, Debug)]
pub enum Use {
    /// The lower end of the bracket.
    Bracket = 0,
    /// Directions that data are sliced along.
    Slices = 1,
    /// Permutations of the location test.
    Permutations = 2,
    /// Plausible other estimates.
    Resamples = 3,
    /// Rows that stand for all of them.
    Rows = 4,
}

/// The random numbers of one client for one use.
pub fn draws(seed: Seed, of: Use, client: u32) -> Draws {
    Streams::new(seed, of as u64, 0, Purpose::Fit).client(client).draws()
}
