//! The rounds of a problem as the planner follows them: the moments of [`crate::round`], many times over.
//!
//! The mean follows its own path whatever the cohorts are, and all that the size of a cohort enters by is a
//! share ρ of what chance adds. One path therefore serves every cohort and scheme. Where gradients are not
//! affine the mean path is the mean field's own, followed without noise, and the spread is that of the
//! problem linearised at the stable point.

use fedback_core::protocol::{Protocol, Scheme};

use super::Task;
use super::rows::{Detail, Rows};
use crate::cohort::{Chance, Cohorts};
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
    clients: usize,
    drawing: bool,
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
        Some(Paths {
            system,
            start,
            bent,
            done: None,
            clients: federation.clients(),
            drawing: true,
        })
    }

    /// Numbers that [`Paths::prepare`] touches for each local step, roughly.
    pub(super) fn step_work(&self) -> f64 {
        let part = |dim: usize| if dim == 1 { 1 } else { 200 + 4 * dim.pow(3) };
        let each: usize = self.system.parts.iter().map(|p| part(p.dim())).sum();
        let rows = if self.bent.is_some() { 60 * self.system.parts[0].dim() } else { 0 };
        (rows + self.clients * each) as f64
    }

    /// Numbers that it touches besides, that maps of many rounds take, and that a bound on all later ones does.
    pub(super) fn works(&self) -> [f64; 3] {
        let round = self.system.work(&[]);
        let width = self.system.parts.iter().map(|p| p.width()).fold(1, usize::max) as f64;
        let leap = 0.25 * width * width * round + 2.0 * width.powi(6);
        [round, leap, 50.0 * round + 5e3 * (width.powi(3) - 1.0)]
    }

    /// Numbers that a round touches besides, with so many schemes.
    pub(super) fn round_work(&self, schemes: usize) -> f64 {
        let pairs = if self.drawing { self.clients } else { 0 };
        let part = |width: usize| match width {
            1 => 4 * (1 + schemes),
            _ => (1 + pairs) * (1 + schemes) * (100 + 2 * width.pow(3)),
        };
        8.0 + self.system.parts.iter().map(|p| part(p.width()) as f64).sum::<f64>()
    }

    /// The state that a path begins with.
    pub(super) fn begin(&mut self) -> Vec<f64> {
        if let Some((rows, _)) = &mut self.bent {
            rows.begin();
        }
        self.system.state_of(&self.start)
    }

    /// Works out a round with these step sizes, and what draws add if any scheme draws.
    pub(super) fn prepare(&mut self, sizes: &[f64], drawing: bool) {
        self.drawing = drawing;
        self.system.prepare(sizes, drawing);
    }

    /// Moves a mean error over the prepared round.
    pub(super) fn mean(&mut self, mean: &[f64], sizes: &[f64], after: &mut [f64]) {
        self.done = None;
        let bent = self.bent.as_mut().filter(|(rows, _)| !rows.is_straight(mean));
        let Some((rows, walk)) = bent else { return self.system.mean(mean, after) };
        let works = walk.works(mean, sizes, |client, local, deployed, gradient| {
            rows.gradient(client, local, deployed, gradient);
        });
        after.copy_from_slice(mean);
        walk.close(after, &works, sizes.iter().sum());
        self.done = Some(works);
    }

    /// The largest mean-square radius of the prepared round.
    pub(super) fn radius(&self, chance: Chance) -> f64 {
        self.system.largest(|part| part.square_radius(chance)).unwrap_or(f64::INFINITY)
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
pub(super) fn cohorts(weights: &[f64], protocol: &Protocol, schemes: &[Scheme]) -> Cohorts {
    match protocol.local.keeps() {
        true => Cohorts::of(weights, protocol, None),
        false => Cohorts::of_schemes(weights, protocol, None, schemes),
    }
}
