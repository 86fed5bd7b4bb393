//! Does repeated minimisation settle: θ ← T(θ) = argmin f(·; θ)?
//!
//! On affine problems the spectral radius of H⁻¹J decides for every start. Otherwise it decides near a
//! stable point, and whether a start leads there is found by doing it. Waiting until it rests takes as
//! many minimisations as the radius is close to one, so plain ones are only done until they contract:
//! Newton's method, T′ = −H⁻¹J being known, says where they would end, and
//! V(x) = Σ_k |A^k (x − end)|², A = T′(end), which a linear T lowers by |x − end|² each time, must fall by
//! half of that along the last of the path and at points between its last one and the end. The same of
//! T² shows that a path ends in a cycle of two. What neither shows is not known.
//!
//! Where populations remember, x is the model and what is remembered: θ ← argmin of the average risk under
//! the models that are answered to, and the deployed θ is taken in.

use fedback_core::federation::Federation;
use fedback_core::memory::{Memory, Past};
use fedback_core::population::Performative;
use nalgebra::{DMatrix, DVector};

use crate::newton;
use crate::round::{Recall, geometric};
use crate::spectrum;
use crate::stable::{StablePoint, minimiser};

/// What repeated minimisation does from a start.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimisation {
    /// Yes, no, or not known.
    pub settles: Option<bool>,
    /// Why.
    pub why: Why,
    /// Where it ends, or the last model that was looked at; none where it was not done.
    pub end: Option<Vec<f64>>,
}

/// Why repeated minimisation settles, why not, or why that is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// Each minimisation multiplies the error by this number at last.
    Radius(f64),
    /// It rests at a stable point that repels it with this radius.
    Rests(f64),
    /// It ends in a cycle of two models.
    Cycle,
    /// Every stable point that was found repels it, with this radius or a larger one.
    Repelled(f64),
    /// So many minimisations show nothing.
    Moves {
        /// How many.
        minimisations: usize,
        /// How far the last one moved, in units of its size.
        by: f64,
    },
    /// The risk for the data of one deployment has no minimum within reach.
    NoMinimum,
    /// The radius is not known.
    NoRadius,
}

/// A radius closer to one than this is one.
const ROUNDING: f64 = 1e-9;
/// A move in units of the model's size that is none.
const AT_REST: f64 = 1e-10;
/// Plain minimisations at most; the path is looked at after powers of two, this one the first.
const MOST: usize = 128;
const FIRST_LOOK: usize = 8;
/// Numbers that the model and what is remembered may be.
const MOST_NUMBERS: usize = 400;
/// Newton steps to the end of a path that contracts.
const NEWTON: usize = 8;
/// Moves of the path that must contract.
const LOOK_BACK: usize = 3;
/// How often the way from the path to its end is halved, a point each.
const HALVINGS: i32 = 8;

impl Minimisation {
    /// By the radius at the point in question, or everywhere.
    pub(crate) fn by_radius(radius: Option<f64>) -> Self {
        match radius {
            Some(radius) => Minimisation {
                settles: Some(radius < 1.0 - ROUNDING),
                why: Why::Radius(radius),
                end: None,
            },
            None => Minimisation::unknown(Why::NoRadius),
        }
    }

    fn unknown(why: Why) -> Self {
        Minimisation { settles: None, why, end: None }
    }

    /// From a start, by doing it.
    pub(crate) fn from_start(federation: &Federation, start: &[f64]) -> Self {
        let mut state = start.to_vec();
        let past = federation.past().filter(|_| memory(federation).is_some());
        state.extend(past.map_or(Vec::new(), Past::beginning));
        if state.len() > start.len().max(MOST_NUMBERS) {
            return Minimisation::unknown(Why::NoRadius);
        }
        let once = Round { federation, period: 1 };
        let (end, found) = once.follow(DVector::from_vec(state));
        Minimisation { end: Some(end.as_slice()[..start.len()].to_vec()), ..found }
    }

    /// The same where the stable points are known: what none of them attracts cannot settle.
    pub(crate) fn among(self, points: &[StablePoint]) -> Self {
        let radii = points.iter().map(|point| point.minimisation_radius.unwrap_or(0.0));
        let least = radii.min_by(f64::total_cmp).unwrap_or(0.0);
        match self.settles.is_none() && self.why != Why::NoMinimum && least > 1.0 + ROUNDING {
            true => Minimisation { settles: Some(false), why: Why::Repelled(least), ..self },
            false => self,
        }
    }
}

/// Where a path is drawn to, and what that means: a stable point, by one minimisation after the other
/// or by every second one, or one of a cycle of two.
fn attractor(
    federation: &Federation,
    path: &[DVector<f64>],
) -> Option<(DVector<f64>, Minimisation)> {
    let (once, twice) = (Round { federation, period: 1 }, Round { federation, period: 2 });
    let last = path.last()?;
    if let Some((end, slope)) = once.fixed_point(last)
        && (once.draws(path, &end, &slope) || twice.draws(path, &end, &(&slope * &slope)))
    {
        let found = once.at_rest(&end);
        return Some((end, found));
    }
    let (end, slope) = twice.fixed_point(last)?;
    let apart = (once.after(&end)?.0 - &end).norm() > AT_REST.sqrt() * (1.0 + end.norm());
    let cycle = Minimisation { settles: Some(false), why: Why::Cycle, end: None };
    (apart && twice.draws(path, &end, &slope)).then_some((end, cycle))
}

/// The models that are remembered from one minimisation to the next. Shares that are renewed have come to
/// rest before.
pub(crate) fn memory(federation: &Federation) -> Option<Memory> {
    federation.memory().filter(|memory| memory.models() > 0)
}

/// By what a minimisation multiplies an error at last, if −H⁻¹J = `reply`: that of the model, and of what is
/// remembered.
pub(crate) fn radius(memory: Option<Memory>, reply: &DMatrix<f64>) -> Option<f64> {
    match memory {
        None => spectrum::radius(reply),
        Some(memory) if reply.nrows() * (1 + memory.models()) > MOST_NUMBERS => None,
        Some(memory) => {
            let recall = Recall::of(memory);
            let share = 1.0 / recall.parts() as f64;
            let replies = vec![reply * share; recall.parts()];
            spectrum::radius(&with_past(&recall, &replies))
        }
    }
}

/// What a minimisation makes of small changes of the model and of what is remembered, `replies` being what it
/// makes of those of the models that are answered to.
fn with_past(recall: &Recall, replies: &[DMatrix<f64>]) -> DMatrix<f64> {
    let dim = replies[0].nrows();
    let width = dim * (1 + recall.count());
    let mut slope = DMatrix::zeros(width, width);
    let mut first = slope.rows_mut(0, dim);
    for (weights, reply) in recall.answered.row_iter().zip(replies) {
        first += weights.kronecker(reply);
    }
    let taken = recall.taken.kronecker(&DMatrix::identity(dim, dim));
    slope.rows_mut(dim, width - dim).copy_from(&taken);
    slope
}

/// So many minimisations at a time, of a model and what is remembered.
struct Round<'a> {
    federation: &'a Federation,
    period: usize,
}

impl Round<'_> {
    /// Repeats minimisation from a state: where that ends, and what it shows.
    fn follow(&self, start: DVector<f64>) -> (DVector<f64>, Minimisation) {
        let (mut path, mut by) = (vec![start], f64::NAN);
        for count in 1..=MOST {
            let last = &path[count - 1];
            let Some(next) = self.next(last) else {
                return (last.clone(), Minimisation::unknown(Why::NoMinimum));
            };
            by = (&next - last).norm() / (1.0 + last.norm());
            if by <= AT_REST {
                let found = self.at_rest(&next);
                return (next, found);
            }
            path.push(next);
            if count >= FIRST_LOOK
                && count.is_power_of_two()
                && let Some(found) = attractor(self.federation, &path)
            {
                return found;
            }
        }
        (path.swap_remove(MOST), Minimisation::unknown(Why::Moves { minimisations: MOST, by }))
    }

    /// What to make of a state that minimisation does not move.
    fn at_rest(&self, state: &DVector<f64>) -> Minimisation {
        let radius = self.slope(state, state).and_then(|slope| spectrum::radius(&slope));
        let found = Minimisation::by_radius(radius);
        match (found.settles, radius) {
            (Some(false), Some(radius)) => Minimisation { why: Why::Rests(radius), ..found },
            _ => found,
        }
    }

    /// The models that populations answer to where a state's is deployed.
    fn answered(&self, state: &DVector<f64>) -> Vec<Vec<f64>> {
        let dim = self.federation.dim();
        let (theta, past) = state.as_slice().split_at(dim);
        let Some(memory) = memory(self.federation) else { return vec![theta.to_vec()] };
        let mut answered = vec![0.0; memory.answers() * dim];
        memory.answer(theta, past, &mut answered);
        answered.chunks_exact(dim).map(<[f64]>::to_vec).collect()
    }

    /// The state after one minimisation.
    fn next(&self, state: &DVector<f64>) -> Option<DVector<f64>> {
        let Round { federation, .. } = *self;
        let dim = federation.dim();
        let theta = state.rows(0, dim).into_owned();
        let answered = self.answered(state);
        let best = match &answered[..] {
            [model] => minimiser(federation, model, &theta)?,
            models => newton::minimise(&theta, |at| {
                let mut sum = federation.mean_field(at, &models[0]);
                for model in &models[1..] {
                    let other = federation.mean_field(at, model);
                    sum.risk += other.risk;
                    sum.gradient += other.gradient;
                    sum.curvature += other.curvature;
                }
                let share = 1.0 / models.len() as f64;
                Performative {
                    risk: sum.risk * share,
                    gradient: sum.gradient * share,
                    hessian: sum.curvature * share,
                }
            })?,
        };
        let mut past = state.as_slice()[dim..].to_vec();
        if let Some(memory) = memory(federation) {
            memory.take_in(theta.as_slice(), &mut past);
        }
        past.splice(0..0, best.iter().copied());
        Some(DVector::from_vec(past))
    }

    /// The derivative of one minimisation at `before`, of which `after` is the value.
    fn slope(&self, after: &DVector<f64>, before: &DVector<f64>) -> Option<DMatrix<f64>> {
        let Round { federation, .. } = *self;
        let theta = &after.as_slice()[..federation.dim()];
        let fields = self.answered(before);
        let fields: Vec<_> = fields.iter().map(|a| federation.mean_field(theta, a)).collect();
        let curvature: DMatrix<f64> = fields.iter().map(|field| &field.curvature).sum();
        let curvature = curvature.lu();
        let replies = fields.iter().map(|field| curvature.solve(&-&field.reaction));
        let replies: Vec<DMatrix<f64>> = replies.collect::<Option<_>>()?;
        match memory(federation) {
            None => replies.into_iter().next(),
            Some(memory) => Some(with_past(&Recall::of(memory), &replies)),
        }
    }

    /// What the round makes of a state, and its derivative there.
    fn after(&self, state: &DVector<f64>) -> Option<(DVector<f64>, DMatrix<f64>)> {
        let start = (state.clone(), DMatrix::identity(state.len(), state.len()));
        (0..self.period).try_fold(start, |(at, slope), _| {
            let next = self.next(&at)?;
            let slope = self.slope(&next, &at)? * slope;
            Some((next, slope))
        })
    }

    /// A point that the round does not move, by Newton's method, and the round's derivative there.
    fn fixed_point(&self, start: &DVector<f64>) -> Option<(DVector<f64>, DMatrix<f64>)> {
        let mut theta = start.clone();
        let identity = DMatrix::identity(theta.len(), theta.len());
        for _ in 0..NEWTON {
            let (at, slope) = self.after(&theta)?;
            let left = at - &theta;
            if left.norm() <= AT_REST * (1.0 + theta.norm()) {
                return Some((theta, slope));
            }
            theta += (&identity - slope).lu().solve(&left)?;
        }
        None
    }

    /// Whether V falls along the path and between its last point and its end.
    fn draws(&self, path: &[DVector<f64>], end: &DVector<f64>, slope: &DMatrix<f64>) -> bool {
        let contracts = spectrum::radius(slope).is_some_and(|radius| radius < 1.0 - ROUNDING);
        let identity = || DMatrix::identity(end.len(), end.len());
        let sum = contracts.then(|| geometric(&slope.transpose(), identity())).flatten();
        let Some(sum) = sum else { return false };
        let value = |x: &DVector<f64>| x.dot(&(&sum * x));
        let falls = |from: &DVector<f64>, to: &DVector<f64>| {
            let (from, to) = (from - end, to - end);
            let arrived = from.norm() <= AT_REST.sqrt() * (1.0 + end.norm());
            arrived || value(&to) <= value(&from) - 0.5 * from.norm_squared()
        };
        let (last, moves) = (path.len() - 1, LOOK_BACK * self.period);
        let mut late = (last - moves..last).step_by(self.period);
        let mut between = (0..HALVINGS).map(|n| end + (&path[last] - end) * 0.5f64.powi(n));
        late.all(|k| falls(&path[k], &path[k + self.period]))
            && between.all(|from| self.after(&from).is_some_and(|(to, _)| falls(&from, &to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_solves_its_equation() {
        // Far from normal: powers grow before they fall. S = I + AᵀSA.
        let slope = DMatrix::from_row_slice(2, 2, &[0.99, 50.0, 0.0, -0.7]);
        let sum = geometric(&slope.transpose(), DMatrix::identity(2, 2)).unwrap();
        let again = DMatrix::identity(2, 2) + slope.transpose() * &sum * &slope;
        assert!((&sum - again).amax() < 1e-12 * sum.amax());
        assert!(geometric(&(slope * 1.1), DMatrix::identity(2, 2)).is_none());
    }
}
