//! Who does the work of a run: memory, or real clients.
//!
//! The loop over rounds is written once, for any backend: one virtual call per slice of rounds, states
//! lent and taken as whole blocks. A backend that lives elsewhere, on another device, needs nothing
//! but these calls. [`assemble`] is where problem and protocol meet in memory.

use std::sync::Arc;

use fedback_core::federation::{ClientId, Federation};
use fedback_core::memory::{Memory, Past};
use fedback_core::misfit::{Misfit, Unsupported};
use fedback_core::protocol::{Protocol, Round, Scheme};
use fedback_core::state::{Layout, State};
use fedback_core::stream::Seed;

use crate::cohort::{CohortSampler, RecordedCohort, RecordedCohorts};
use crate::incident::Incident;
use crate::live::TransportError;
use crate::simulate::Simulation;
use crate::work::WorkError;

/// Something that closes rounds of all repetitions of a run.
pub trait Backend {
    /// Whether what a round brought cannot be computed again, so that every round is worth a
    /// checkpoint.
    fn is_irreplaceable(&self) -> bool;

    /// Where the run stands.
    fn state(&self) -> &State;

    /// The same, to give a repetition up or to note what has been written.
    fn state_mut(&mut self) -> &mut State;

    /// Closes rounds until `until` are closed. With `consensus`, all clients work in the last of
    /// them, and the consensus error just before its aggregation is kept.
    fn advance(&mut self, until: Round, consensus: bool) -> Result<(), BackendError>;

    /// The cohorts of rounds closed since this was last asked which the seed alone does not tell.
    fn take_cohorts(&mut self) -> Vec<RecordedCohort>;

    /// What went wrong with clients, as far as it is new or has changed since this was last asked.
    fn take_incidents(&mut self) -> Vec<Incident> {
        Vec::new()
    }
}

/// What a run is, whoever does its work.
#[derive(Clone, Debug)]
pub struct Course {
    /// The algorithm.
    pub protocol: Protocol,
    /// Who takes part in a round.
    pub sampler: Arc<CohortSampler>,
    /// The seed of everything random.
    pub seed: Seed,
    /// Where it stands.
    pub state: State,
    /// Cohorts that were recorded, and are not to be drawn.
    pub cohorts: RecordedCohorts,
}

impl Course {
    /// A run from the beginning, whose cohorts are drawn.
    pub fn new(
        protocol: Protocol,
        weights: Arc<[f64]>,
        seed: Seed,
        start: &[f64],
        repetitions: u64,
    ) -> Self {
        let state = State::beginning(&protocol, None, weights.len(), start, repetitions);
        let sampler = Arc::new(CohortSampler::new(&protocol, weights));
        Course { protocol, sampler, seed, state, cohorts: RecordedCohorts::default() }
    }

    /// The same from the beginning, of populations that remember.
    pub fn remembering(self, past: Option<&Past>) -> Self {
        let (start, repetitions) = (&self.state.repetitions, self.state.repetitions.len());
        let theta = start.first().map_or(Vec::new(), |first| first.theta().to_vec());
        let clients = self.state.layout().clients;
        let state = State::beginning(&self.protocol, past, clients, &theta, repetitions as u64);
        Course { state, ..self }
    }
}

/// Why there is no backend for a problem and a protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssemblyError {
    /// The protocol is none for this problem.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The backend cannot do it.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

/// The backend of a built-in problem in memory.
///
/// ```
/// use fedback_core::base::{Base, Gaussian};
/// use fedback_core::federation::Federation;
/// use fedback_core::loss::Loss;
/// use fedback_core::protocol::{Protocol, Round, Scheme, StepSize};
/// use fedback_core::response::{Sensitivity, location};
/// use fedback_core::stream::Seed;
/// use fedback_engine::backend::{Course, assemble};
///
/// let data = Base::Gaussian(Gaussian { dim: 1, mean: vec![1.0, 4.0], noise: 0.0 });
/// let react = location(&Sensitivity::Scalar(vec![0.5, 0.9]), 1, false);
/// let problem = Federation::new([0.7, 0.3], data, react, Loss::Mean)?;
/// let protocol = Protocol::p_fedavg(Scheme::Full, 1, StepSize::Constant(0.1));
/// let course = Course::new(protocol, problem.weights().clone(), Seed(7), &[0.0], 1);
/// let mut backend = assemble(&problem, course)?;
/// backend.advance(Round(2000), false)?;
/// let stable_point = 1.9 / (1.0 - 0.62);
/// assert!((backend.state().repetitions[0].theta()[0] - stable_point).abs() < 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn assemble<'a>(
    problem: &'a Federation,
    course: Course,
) -> Result<Box<dyn Backend + 'a>, AssemblyError> {
    course.check(problem.memory(), problem.dim())?;
    if course.sampler.weights() != &**problem.weights() {
        let why = "the course has other weights than the problem; needed: the same, in its order";
        return Err(Misfit::new("problem.weights", why).into());
    }
    Ok(Box::new(Simulation::new(problem, course)))
}

impl Course {
    /// Refuses what is no run in memory of a model with `dim` coordinates, on populations that remember
    /// in this way.
    pub fn check(&self, memory: Option<Memory>, dim: usize) -> Result<(), AssemblyError> {
        let clients = self.sampler.weights().len();
        self.protocol.check(clients)?;
        let layout = self.state.layout();
        if layout != Layout::new(&self.protocol, memory, dim, clients) {
            let why =
                format!("a state of {} coordinates and {} clients", layout.dim, layout.clients);
            let needed = format!("needed: one of this protocol and problem, {dim} and {clients}");
            return Err(Misfit::new("state", format!("{why}; {needed}")).into());
        }
        if !self.state.servers().all(f64::is_finite) {
            return Err(Misfit::new("algorithm.start", "found a number that is not finite").into());
        }
        let known = self.sampler.knows_arrivals() || !self.cohorts.is_empty();
        Ok(check_arrivals(self.protocol.scheme, known)?)
    }
}

/// Refuses first arrivals in memory where it is not known when clients answer.
pub fn check_arrivals(scheme: Scheme, known: bool) -> Result<(), Unsupported> {
    match scheme {
        Scheme::FirstArrivals { .. } if !known => Err(Unsupported::new(
            "algorithm.latency",
            "is missing; in memory nobody knows who answers first: give the clients' latencies, \
             for example latency = { kind = \"exponential\", mean = 1.0 }",
        )),
        Scheme::FirstArrivals { .. } | Scheme::Full => Ok(()),
        Scheme::WithReplacement { .. } | Scheme::WithoutReplacement { .. } => Ok(()),
    }
}

/// Why a backend cannot go on. Of real clients, the rounds closed before stand; in memory, repetitions
/// may have come to different rounds, and a run goes on from its last checkpoint.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BackendError {
    /// A client could not work.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// Nothing comes from the clients any more, or somebody asked to stop.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The device on which the work is done fails.
    #[error("{0}")]
    Device(String),
    /// Too few members of a cohort answered.
    #[error("{}", too_few(*.repetition, *.present, *.minimum, .missing, &|c| format!("client {}", c.0)))]
    TooFew {
        /// The repetition.
        repetition: u64,
        /// How many answered.
        present: usize,
        /// How many were needed.
        minimum: usize,
        /// Who did not, and what is known of the reason.
        missing: Vec<(ClientId, Option<String>)>,
    },
}

/// [`BackendError::TooFew`] in words, with names for the clients.
pub fn too_few(
    repetition: u64,
    present: usize,
    minimum: usize,
    missing: &[(ClientId, Option<String>)],
    name: &dyn Fn(ClientId) -> String,
) -> String {
    let shown = missing.iter().take(MOST_NAMED).map(|(client, reason)| match reason {
        Some(reason) => format!("{} ({reason})", name(*client)),
        None => name(*client),
    });
    let mut shown: Vec<String> = shown.collect();
    if missing.len() > MOST_NAMED {
        shown.push(format!("{} more", missing.len() - MOST_NAMED));
    }
    format!(
        "repetition {repetition}: {present} of {} answered, at least {minimum} must; missing: {}",
        present + missing.len(),
        shown.join(", ")
    )
}

/// Missing clients that a message names.
const MOST_NAMED: usize = 20;
