//! The rounds of a problem as the planner follows them: the moments of [`crate::round`], many times over.
//!
//! The mean follows its own path whatever the cohorts are, and all that the size of a cohort enters by is a
//! share ρ of what chance adds. One path therefore serves every cohort and scheme. Where gradients are not
//! affine the mean path is the mean field's own, followed without noise, and the spread is that of the
//! problem linearised at the stable point.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Protocol, Scheme};

use super::Task;
use super::rows::{Detail, Rows};
use crate::cohort::{self, Chance, Cohorts};
use crate::round::{Leap, System, Walk};

/// Up to here many rounds at once are quicker than one after the other.
const MOST_COORDINATES: usize = 8;

/// Paths of one problem from one start.
pub(super) struct Paths {
    pub(super) system: System,
    /// θ⁰ − θ^PS.
    pub(super) start: Vec<f64>,
    /// What the problem is away from its stable point, where it is not affine.
    bent: Option<(Rows, Walk)>,
    /// The clients' works in the last round, where the path is bent.
    pub(super) done: Option<Vec<f64>>,
    /// Numbers that bent paths touched so far.
    walked: f64,
}

impl Paths {
    /// Of a task whose protocol is `protocol`, for schemes that share a mean path.
    pub(super) fn new(
        task: &Task<'_>,
        protocol: &Protocol,
        cohorts: Cohorts,
        detail: Detail,
    ) -> Option<Self> {
        let Task { federation, stable_point, start, .. } = *task;
        let system = System::new(federation, protocol, cohorts, stable_point).ok()?;
        let rows = Rows::new(federation, stable_point, detail);
        let bent = rows.map(|rows| (rows, Walk::new(federation, protocol, None)));
        let start = start.iter().zip(stable_point).map(|(start, stable)| start - stable).collect();
        Some(Paths { system, start, bent, done: None, walked: 0.0 })
    }

    /// Numbers that were touched so far.
    pub(super) fn worked(&self) -> f64 {
        self.system.worked() + self.walked
    }

    /// Numbers that a local step of all clients touches.
    pub(super) fn work_of_step(&self) -> f64 {
        self.system.parts.iter().map(|part| part.work().step).sum()
    }

    /// The state that a path begins with.
    pub(super) fn begin(&mut self) -> Vec<f64> {
        if let Some((rows, _)) = &mut self.bent {
            rows.begin();
        }
        self.system.state_of(&self.start)
    }

    /// Moves a mean error over the prepared round.
    pub(super) fn mean(&mut self, mean: &[f64], sizes: &[f64], after: &mut [f64]) {
        self.done = None;
        let bent = self.bent.as_mut().filter(|(rows, walk)| !rows.is_straight(walk.farthest(mean)));
        let Some((rows, walk)) = bent else { return self.system.mean(mean, after) };
        let part = &self.system.parts[0];
        // Vectors, where its own steps are matrices.
        self.walked += 0.2 * sizes.len() as f64 * part.work().step;
        let works = walk.works(mean, sizes, |client, local, deployed, gradient| {
            rows.gradient(client, local, deployed, gradient);
            // What clients keep is measured from their own gradients.
            let own = part.kept_first().iter().skip(client * part.dim());
            gradient.iter_mut().zip(own).for_each(|(gradient, first)| *gradient += first);
        });
        after.copy_from_slice(mean);
        walk.close(after, &works, sizes.iter().sum());
        self.done = Some(works);
    }

    /// Whether the prepared round enlarges errors in mean square.
    pub(super) fn expands(&self, chance: Chance) -> bool {
        self.system.parts.iter().any(|part| part.expands(chance))
    }

    /// Time constants of the slowest direction that the prepared round is long.
    pub(super) fn settles(&self) -> f64 {
        let radius = self.system.largest(|part| part.radius()).unwrap_or(f64::INFINITY);
        -libm::log(radius.clamp(1e-6, 1.0))
    }

    /// Rounds like the prepared one, part after part; none where one by one is as quick.
    pub(super) fn leap(&self, chance: Chance) -> Option<Vec<Leap>> {
        let small = self.system.parts.iter().all(|part| part.width() <= MOST_COORDINATES);
        (self.bent.is_none() && small)
            .then(|| self.system.parts.iter().map(|part| part.leap(chance)).collect())
    }
}

/// The draws of all schemes that may be asked for, and their chances.
pub(super) fn cohorts(federation: &Federation, protocol: &Protocol, schemes: &[Scheme]) -> Cohorts {
    let (own, keeps) = ([protocol.scheme], cohort::keeps(federation, protocol));
    let schemes = if keeps { &own } else { schemes };
    Cohorts::of_schemes(federation.weights(), protocol, None, schemes, keeps)
}
