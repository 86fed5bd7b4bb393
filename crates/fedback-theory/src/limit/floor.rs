//! Where rounds of a constant step size end up: a fixed point beside the stable point, and a cloud
//! around it.
//!
//! Near θ a client's local steps are x ↦ B_k x + d_k with noise of covariance Q_k. The mean of a round
//! has the fixed point b = (I − B̄)⁻¹ Σ E(c_k) d_k, the bias of E local steps; around it the covariance
//! solves Y = T(Y) + Cov(Σ c_k δ_k) + Σ E(c_k²) Q_k with δ_k = D_k b + d_k (and θ + b added where models
//! are averaged whose coefficients do not sum to one). Exact where the problem is
//! affine, to first order in the step size otherwise.

use crate::p_fedavg::PFedAvg;
use fedback_core::federation::Federation;
use fedback_core::protocol::Deploy;
use nalgebra::{DMatrix, DVector};

use super::second_moment::SecondMoment;
use super::{LocalMap, RoundMap};

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

impl RoundMap {
    /// The long run under the constant step size `size`, about the `theta` of the map; none where
    /// squared errors do not shrink.
    pub fn floor(
        &self,
        federation: &Federation,
        protocol: &PFedAvg,
        theta: &[f64],
        size: f64,
    ) -> Option<Floor> {
        if self.mean_square_radius(size)? >= 1.0 {
            return None;
        }
        let dim = self.dim;
        let identity = DMatrix::identity(dim, dim);
        let drifts: Vec<DVector<f64>> = self
            .clients
            .iter()
            .map(|client| {
                let gradient = federation.population(client.number).expand(theta, theta).gradient;
                self.drift(client, &gradient, size * client.scale)
            })
            .collect();
        let drift = self
            .clients
            .iter()
            .zip(&drifts)
            .map(|(client, d)| d * client.expected)
            .sum::<DVector<_>>();
        let bias = (&identity - self.gain(size)).lu().solve(&drift)?;
        // Where models and not updates are averaged, what varies is measured from zero.
        let origin = match self.rescales {
            true => DVector::from_column_slice(theta) + &bias,
            false => DVector::zeros(dim),
        };
        let mut source = &origin * origin.transpose() * self.pairs;
        let columns = self.factor.as_ref().map_or(0, DMatrix::ncols);
        let mut together = vec![DVector::zeros(dim); columns];
        for (place, (client, drift)) in self.clients.iter().zip(&drifts).enumerate() {
            let own = size * client.scale;
            let moved = (self.local(client, own) - &identity) * &bias + drift + &origin;
            source += &moved * moved.transpose() * client.choice;
            if let Some(factor) = &self.factor {
                for (sum, part) in together.iter_mut().zip(factor.row(place).iter()) {
                    *sum += &moved * *part;
                }
            }
            let noise = federation.population(client.number).gradient_covariance(theta);
            let noise = noise / protocol.batch.size();
            let noise = match &client.noise {
                Some(multiplicative) => noise + multiplicative.apply(&self.spread_out(&bias)),
                None => noise,
            };
            source += self.collected(client, &noise, own) * client.square;
        }
        together.iter().for_each(|moved| source += moved * moved.transpose());
        let covariance = SecondMoment::new(self, size).solve(&source)?;
        Some(Floor { bias, covariance })
    }

    /// d_k: where local steps from θ lead.
    fn drift(&self, client: &LocalMap, gradient: &DVector<f64>, size: f64) -> DVector<f64> {
        let keep = self.keep(client, size);
        let mut drift = DVector::zeros(self.dim);
        for _ in 0..self.local_steps {
            drift = &keep * drift - gradient * size;
        }
        drift
    }

    /// Q_k: the noise of E local steps, each of covariance `noise`.
    fn collected(&self, client: &LocalMap, noise: &DMatrix<f64>, size: f64) -> DMatrix<f64> {
        let keep = self.keep(client, size);
        let mut sum = DMatrix::zeros(self.dim, self.dim);
        for _ in 0..self.local_steps {
            sum = &keep * sum * keep.transpose() + noise * (size * size);
        }
        sum
    }

    /// What one local step multiplies the local error with.
    fn keep(&self, client: &LocalMap, size: f64) -> DMatrix<f64> {
        self.step(client, size).view((0, 0), (self.dim, self.dim)).into_owned()
    }

    /// The second moment of a fixed error as the derivatives of rows see it.
    fn spread_out(&self, error: &DVector<f64>) -> DMatrix<f64> {
        let width = match self.deploy {
            Deploy::Step => self.dim,
            Deploy::Round => 2 * self.dim,
        };
        let wide = DVector::from_fn(width, |j, _| error[j % self.dim]);
        &wide * wide.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::super::RoundMap;
    use super::super::tests::Problem;
    use crate::choice::Choice;
    use crate::exact::ExactCurve;
    use crate::p_fedavg::PFedAvg;
    use crate::stable::stable_points;
    use fedback_core::protocol::{Aggregate, Deploy, Scheme};
    use nalgebra::DMatrix;

    /// The floor is where the exact recursion ends, for every scheme, rule and deployment.
    #[test]
    fn exact_moments_end_at_the_floor() {
        let problem = Problem {
            sensitivity: vec![
                vec![vec![0.4, 0.5], vec![-0.5, 0.4]],
                vec![vec![0.0, -1.0], vec![0.5, 0.3]],
                vec![vec![-0.5, 0.0], vec![0.7, -1.0]],
            ],
            local_steps: 4,
            ..Problem::default()
        };
        let (deltas, iterates) = (Aggregate::Deltas, Aggregate::Iterates);
        let schemes = [
            (Scheme::Full, false, deltas),
            (Scheme::WithReplacement { cohort: 2 }, false, deltas),
            (Scheme::WithoutReplacement { cohort: 2 }, false, deltas),
            (Scheme::WithoutReplacement { cohort: 2 }, false, iterates),
            (Scheme::WithoutReplacement { cohort: 2 }, true, deltas),
        ];
        for (scheme, scale_objectives, aggregate) in schemes {
            for deploy in [Deploy::Step, Deploy::Round] {
                let problem = Problem { scheme, deploy, scale_objectives, ..problem.clone() };
                let federation = problem.federation();
                let protocol = PFedAvg { aggregate, ..problem.protocol() };
                let map = RoundMap::new(&federation, &protocol, &[0.0, 0.0]).unwrap();
                let point = stable_points(&federation, &[0.0, 0.0]).points.remove(0).theta;
                let size = 0.2;
                let floor = map.floor(&federation, &protocol, &point, size).unwrap();
                let mut curve =
                    ExactCurve::new(&federation, &protocol, &[3.0, -2.0], Some(&point)).unwrap();
                (0..400).for_each(|_| curve.advance());
                let expected = curve.moments().distance_sq.unwrap();
                let found = floor.distance_sq();
                assert!(
                    (found - expected).abs() < 1e-9 * expected,
                    "{scheme:?} {deploy:?}: {found} {expected}"
                );
                // The radius is the rate at which the rest vanishes.
                let mut far =
                    ExactCurve::new(&federation, &protocol, &[1e100, 3e99], Some(&point)).unwrap();
                (0..40).for_each(|_| far.advance());
                let early = far.moments().distance_sq.unwrap();
                (0..20).for_each(|_| far.advance());
                let rate = (far.moments().distance_sq.unwrap() / early).powf(0.05);
                let radius = map.mean_square_radius(size).unwrap();
                assert!((rate - radius).abs() < 0.05 * radius, "{scheme:?}: {rate} {radius}");
            }
        }
    }

    /// The same for first arrivals of unequal speed, corrected and not, at the effective weights. The
    /// pairs are of latencies whose order is known: rates 4, 2 and 1 race for two places.
    #[test]
    fn first_arrivals_end_at_the_floor() {
        let race = |first: f64, second: f64, third: f64| {
            let total = first + second + third;
            first / total * second / (second + third) + second / total * first / (first + third)
        };
        let (a, b, c) = (race(4.0, 2.0, 1.0), race(4.0, 1.0, 2.0), race(2.0, 1.0, 4.0));
        let pairs = DMatrix::from_row_slice(3, 3, &[a + b, a, b, a, a + c, c, b, c, b + c]);
        for correct in [false, true] {
            for deploy in [Deploy::Step, Deploy::Round] {
                let problem = Problem {
                    sensitivity: vec![
                        vec![vec![0.4, 0.5], vec![-0.5, 0.4]],
                        vec![vec![0.0, -1.0], vec![0.5, 0.3]],
                        vec![vec![-0.5, 0.0], vec![0.7, -1.0]],
                    ],
                    scheme: Scheme::FirstArrivals { cohort: 2, correct },
                    local_steps: 4,
                    deploy,
                    ..Problem::default()
                };
                let (federation, protocol) = (problem.federation(), problem.protocol());
                let choice = Choice::of_first_arrivals(federation.weights(), &pairs, 2, correct);
                let federation = federation.with_weights(choice.effective_weights()).unwrap();
                let point = stable_points(&federation, &[0.0, 0.0]).points.remove(0).theta;
                let chosen = Some(&choice);
                let map = RoundMap::of_choice(&federation, &protocol, chosen, &point).unwrap();
                let floor = map.floor(&federation, &protocol, &point, 0.2).unwrap();
                let curve = |start: &[f64]| {
                    ExactCurve::of_choice(&federation, &protocol, chosen, start, Some(&point))
                        .unwrap()
                };
                let mut near = curve(&[3.0, -2.0]);
                (0..400).for_each(|_| near.advance());
                let expected = near.moments().distance_sq.unwrap();
                let found = floor.distance_sq();
                assert!((found - expected).abs() < 1e-9 * expected, "{found} {expected}");
                let mut far = curve(&[1e100, 3e99]);
                (0..40).for_each(|_| far.advance());
                let early = far.moments().distance_sq.unwrap();
                (0..20).for_each(|_| far.advance());
                let rate = (far.moments().distance_sq.unwrap() / early).powf(0.05);
                let radius = map.mean_square_radius(0.2).unwrap();
                assert!((rate - radius).abs() < 0.05 * radius, "{rate} {radius}");
            }
        }
    }
}
