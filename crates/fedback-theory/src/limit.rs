//! Up to which step size a round shrinks errors, on average and in mean square, and where rounds of a
//! constant step size end up.
//!
//! Errors shrink on average while the spectral radius of the expected round is below one. The choice
//! of a cohort and, on tables, the choice of a batch make the map of a round itself random; then squared
//! errors may grow although their mean error shrinks, and the radius that decides is that of the round
//! acting on second moments.

use fedback_core::federation::Federation;
use fedback_core::misfit::Unsupported;
use fedback_core::protocol::Protocol;
use nalgebra::{DMatrix, DVector};

use crate::cohort::{self, Arrived, Cohorts};
use crate::round::{self, System};

/// Multiplications that one radius may cost: a scan asks for a few hundred.
const BUDGET: f64 = 4e6;
/// The same where only a few radii are asked for: up to a hundred times as many clients are taken
/// each for itself.
pub(crate) const LARGE_BUDGET: f64 = 4e8;

/// Tenths of a tiny step that are tried where it is not tiny enough.
const TENTHS: usize = 8;

/// The long run of a constant step size.
#[derive(Clone, Debug)]
pub struct Floor {
    /// E x: the fixed point less the point of linearisation.
    pub bias: DVector<f64>,
    /// Cov x.
    pub covariance: DMatrix<f64>,
}

impl Floor {
    /// E|x|².
    pub fn distance_sq(&self) -> f64 {
        self.bias.norm_squared() + self.covariance.trace()
    }
}

/// Why rounds could not be linearised.
#[derive(Clone, Debug, PartialEq)]
pub enum NoMap {
    /// The algorithm's rounds are not linear.
    Algorithm(Unsupported),
    /// A state of this many numbers is too large.
    TooLarge(usize),
}

/// The round map of a problem near one point.
pub struct RoundMap {
    system: System,
    local_steps: usize,
    /// How many rounds later than at once populations answer.
    late: f64,
    /// The step size that the system is prepared for, and its mean-square radius once that was asked for.
    prepared: Option<f64>,
    square: Option<Option<f64>>,
}

impl RoundMap {
    /// Linearises the rounds of a protocol at `theta`. Where clients are too many for a scan, evenly
    /// spaced ones stand for all; none where the dimension alone is too high.
    pub fn new(
        federation: &Federation,
        protocol: &Protocol,
        arrived: Option<&Arrived>,
        theta: &[f64],
    ) -> Result<Self, NoMap> {
        RoundMap::within(BUDGET, federation, protocol, arrived, theta)
    }

    /// The same within a budget of multiplications that one radius may cost.
    pub(crate) fn within(
        budget: f64,
        federation: &Federation,
        protocol: &Protocol,
        arrived: Option<&Arrived>,
        theta: &[f64],
    ) -> Result<Self, NoMap> {
        round::supported(federation, protocol).map_err(NoMap::Algorithm)?;
        let weights = federation.weights();
        let (width, keeps) =
            (round::width(federation, protocol), cohort::keeps(federation, protocol));
        let block = if round::is_split(federation) { 1 } else { theta.len() };
        let local = (2.0 + (protocol.local_steps as f64).log2()) * (2.0 * block as f64).powi(3);
        let more = keeps || federation.memory().is_some();
        let each = local + if more { (width as f64).powi(3) } else { 0.0 };
        let affordable = (budget / each).floor() as usize;
        let all = Cohorts::of(federation, protocol, arrived);
        let every = federation.clients().div_ceil(affordable.max(1));
        if affordable == 0 || keeps && every > 1 {
            return Err(NoMap::TooLarge(width));
        }
        let system = if every == 1 {
            System::new(federation, protocol, all, theta)
        } else {
            let chosen: Vec<usize> = federation.counting().step_by(every).collect();
            let share: f64 = chosen.iter().map(|&i| weights[i]).sum();
            let few = all.of_few(&chosen, weights.iter().sum::<f64>() / share);
            let few = few.ok_or(NoMap::TooLarge(width))?;
            System::of_clients(federation, protocol, few, &chosen, theta)
        };
        let system = system.map_err(NoMap::Algorithm)?;
        Ok(RoundMap {
            system,
            local_steps: protocol.local_steps,
            late: round::late(federation, protocol),
            prepared: None,
            square: None,
        })
    }

    fn at(&mut self, size: f64) -> &System {
        if self.prepared != Some(size) {
            self.system.prepare(&vec![size; self.local_steps], true);
            (self.prepared, self.square) = (Some(size), None);
        }
        &self.system
    }

    /// The spectral radius of the round at step size η: below one the mean error shrinks.
    pub fn radius(&mut self, size: f64) -> Option<f64> {
        self.at(size).largest(|part| part.radius())
    }

    /// The spectral radius of the round on second moments at step size η: below one the squared error
    /// shrinks to a floor, and its square root by √radius a round at last.
    pub fn mean_square_radius(&mut self, size: f64) -> Option<f64> {
        let chance = self.system.chance;
        self.at(size);
        if self.square.is_none() {
            self.square = Some(self.system.largest(|part| part.square_radius(chance)));
        }
        self.square.flatten()
    }

    /// The long run under the constant step size `size`; none where squared errors do not shrink.
    pub fn floor(&mut self, size: f64) -> Option<Floor> {
        if self.mean_square_radius(size)? >= 1.0 {
            return None;
        }
        let (mean, spread) = self.system.rest()?;
        let bias = DVector::from_vec(self.system.error_of(&mean).collect());
        let covariance = self.system.covariance_of(&spread);
        Some(Floor { bias, covariance })
    }

    /// The largest η such that every smaller one shrinks mean errors: the first crossing of radius one
    /// on a geometric scan, refined by bisection. None where even tiny steps do not shrink them, or
    /// no step within the scan fails to.
    pub fn largest_step(&mut self) -> Option<f64> {
        self.first_crossing(1.05, |map, size| map.radius(size).is_some_and(|radius| radius < 1.0))
    }

    /// The same for squared errors. Where batches make the map itself random a radius is expensive and
    /// the scan is coarser.
    pub fn largest_step_in_mean_square(&mut self) -> Option<f64> {
        let costly = self.system.parts.iter().any(|part| part.grows() || part.width() > 12);
        let ratio = if costly { 1.25 } else { 1.05 };
        self.first_crossing(ratio, |map, size| {
            let chance = map.system.chance;
            map.at(size).parts.iter().all(|part| part.contracts(chance))
        })
    }

    fn first_crossing(
        &mut self,
        ratio: f64,
        shrinks: impl Fn(&mut Self, f64) -> bool,
    ) -> Option<f64> {
        let steepest = self.system.parts.iter().map(|part| part.steepest()).fold(0.0, f64::max);
        // Tiny beside what populations remember as well: it may swing with steps that are not.
        let tiny = 1e-4 / (steepest * self.local_steps as f64 * (1.0 + self.late));
        let mut shrinks = |size: f64| shrinks(self, size);
        let mut below =
            (0..TENTHS).map(|k| tiny * libm::pow(0.1, k as f64)).find(|s| shrinks(*s))?;
        let widest = tiny * 1.05f64.powi(600);
        while below < widest {
            let mut above = below * ratio;
            if shrinks(above) {
                below = above;
                continue;
            }
            // As finely as the scan is coarse: to a millionth, or to rounding.
            let halvings = if ratio > 1.1 { 16 } else { 50 };
            for _ in 0..halvings {
                let middle = 0.5 * (below + above);
                if shrinks(middle) { below = middle } else { above = middle }
            }
            return Some(below);
        }
        None
    }
}
