//! Expected gradients of clients along a path of errors, where they are not affine.
//!
//! A search asks for them at thousands of points, so they are averaged over some rows of the table that
//! stand for all. Only the remainder is, what a gradient's linearisation at the stable point misses: value
//! and derivatives there come from every row.

use fedback_core::federation::Federation;
use fedback_core::population::Expansion;
use nalgebra::DVector;

/// How closely remainders are looked at.
#[derive(Clone, Copy)]
pub(super) struct Detail {
    /// Rows that stand for all, about.
    pub(super) rows: usize,
    /// The share of an error that a path may move by before the remainder is worked out anew, and the
    /// share of the linear part below which it is none, there and closer to the stable point.
    pub(super) share: f64,
}

/// In a search.
pub(super) const SKETCH: Detail = Detail { rows: 240, share: 0.05 };
/// In a forecast.
pub(super) const FULL: Detail = Detail { rows: 4000, share: 0.01 };

/// The rows of a federation seen from its stable point.
pub(super) struct Rows {
    sample: Federation,
    point: DVector<f64>,
    /// Every client at the stable point, over all rows and over the sampled ones.
    centres: Vec<[Expansion; 2]>,
    /// The remainder that was worked out last, and where: error and deployed.
    last: Vec<Option<[DVector<f64>; 3]>>,
    share: f64,
}

impl Rows {
    /// Of a federation; none where gradients are affine.
    pub(super) fn new(
        federation: &Federation,
        point: &[f64],
        Detail { rows, share }: Detail,
    ) -> Option<Self> {
        if federation.is_affine() {
            return None;
        }
        let sample = federation.thinned(rows);
        let centre = |of: &Federation, client| of.population(client).expand(point, point);
        let both = |client| [centre(federation, client), centre(&sample, client)];
        let centres = (0..federation.clients()).map(both).collect();
        let (point, last) = (DVector::from_column_slice(point), vec![None; federation.clients()]);
        Some(Rows { sample, point, centres, last, share })
    }

    /// Forgets the path before.
    pub(super) fn begin(&mut self) {
        self.last.fill(None);
    }

    /// Whether the linearisations will do for errors up to this norm.
    pub(super) fn is_straight(&self, farthest: f64) -> bool {
        let straight = |[then, before, remainder]: &[DVector<f64>; 3]| {
            remainder.amax() == 0.0 && 2.0 * farthest <= then.norm() + before.norm()
        };
        self.last.iter().any(Option::is_some) && self.last.iter().flatten().all(straight)
    }

    /// Writes a client's gradient at errors (x, φ); its remainder is worked out anew where the path has
    /// moved on.
    pub(super) fn gradient(
        &mut self,
        client: usize,
        error: &[f64],
        deployed: &[f64],
        out: &mut [f64],
    ) {
        let at = [error, deployed].map(DVector::from_column_slice);
        let lasts = |[then, before, remainder]: &&[DVector<f64>; 3]| {
            let moved = (&at[0] - then).norm() + (&at[1] - before).norm();
            let closer = at[0].norm() + at[1].norm() <= then.norm() + before.norm();
            moved <= self.share * at[0].norm() || closer && remainder.amax() == 0.0
        };
        let [whole, sampled] = &self.centres[client];
        let remainder = match self.last[client].as_ref().filter(lasts) {
            Some([_, _, remainder]) => remainder.clone(),
            None => {
                let [theta, phi] = [&self.point + &at[0], &self.point + &at[1]];
                let population = self.sample.population(client);
                population.gradient(theta.as_slice(), phi.as_slice(), out);
                let near = linear(sampled, &at);
                let mut remainder = DVector::from_column_slice(out) - &near;
                if remainder.norm() <= self.share * (near - &sampled.gradient).norm() {
                    remainder.fill(0.0);
                }
                self.last[client] = Some([at[0].clone(), at[1].clone(), remainder.clone()]);
                remainder
            }
        };
        out.copy_from_slice((remainder + linear(whole, &at)).as_slice());
    }
}

/// The linearisation of a gradient.
fn linear(centre: &Expansion, [error, deployed]: &[DVector<f64>; 2]) -> DVector<f64> {
    &centre.gradient + &centre.curvature * error + &centre.reaction * deployed
}
