//! The rounds of a run, closed on a device.
//!
//! The state lies on the device while rounds go on, and comes back after every slice, as the loop
//! wants to see it. A slice is one launch or a few: every block takes its repetitions through all
//! rounds of it. Step sizes are worked out here, a list for every launch, because a division costs a
//! device as much as the rest of a step.

use std::ffi::CStr;

use fedback_core::base::Base;
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::misfit::Unsupported;
use fedback_core::protocol::{Aggregate, Deploy, LocalRule, Protocol, Round, Scheme, ServerRule};
use fedback_core::state::State;
use fedback_engine::backend::{AssemblyError, Backend, BackendError, Course};
use fedback_engine::cohort::{CohortSampler, RecordedCohort};
use fedback_engine::work::Order;

use crate::driver::{Buffer, DeviceError, Gpu, Kernel, Module};
use crate::layout::{Problem, Slice};
use crate::refused::refuse;
use crate::room::{Extent, Plan};
use crate::tables::{self, Tables};

/// The kernels, compiled from `kernels/` by `dev/ptx`, with the zero that the driver reads up to.
const PTX: &str = concat!(include_str!("../kernels/rounds.ptx"), "\0");

/// Most rounds of a launch, so that a person who stops a run does not wait, and lists of step sizes
/// stay short.
const ROUNDS: u64 = 4096;
/// Most step sizes of a launch.
const SIZES: u64 = 1 << 20;

/// Why a run does not start on a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Something is no run, or has no kernel.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// The device does not take it.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// All repetitions of a run, on a device.
pub struct Cuda {
    gpu: Gpu,
    course: Course,
    module: Module,
    kernel: Kernel,
    extent: Extent,
    /// Where what `problem` points at is kept.
    _tables: Tables,
    _numbers: Buffer<u64>,
    servers: Buffer<f64>,
    kept: Buffer<f64>,
    failed: Buffer<u64>,
    consensus: Buffer<f64>,
    /// The step sizes of a launch, their sums and the longest deltas, round after round.
    sizes: Buffer<f64>,
    totals: Buffer<f64>,
    longest: Buffer<f64>,
    /// Room for rounds that blocks cannot share, made when it is needed.
    memory: Option<Buffer<u64>>,
    /// Whether the device has the state that is here.
    is_current: bool,
}

/// The kernel of a problem, how many threads a client keeps busy in it, and what it shares.
fn kernel(problem: &Federation) -> (&'static CStr, usize, usize) {
    let dim = problem.dim();
    match (problem.base(), problem.loss()) {
        // The edges of the ziggurat's layers, and one number so that rooms begin at an even place.
        (Base::Gaussian(_), _) => (c"normal_rounds", dim, 8 * 1026),
        (Base::Table(_), Loss::Mean) => (c"mean_rounds", dim, 0),
        (Base::Table(_), Loss::Squared { .. } | Loss::Logistic { .. }) => {
            let name = match dim {
                ..=4 => c"margin_rounds_4",
                ..=8 => c"margin_rounds_8",
                ..=12 => c"margin_rounds_12",
                ..=16 => c"margin_rounds_16",
                ..=32 => c"margin_rounds_32",
                _ => c"margin_rounds_64",
            };
            (name, 4, 0)
        }
    }
}

/// What a round consists of, as long as nobody watches how far clients are apart.
fn extent(problem: &Federation, protocol: &Protocol, sampler: &CohortSampler) -> Extent {
    let (_, threads, table) = kernel(problem);
    let (clients, dim) = (problem.clients(), problem.dim());
    let kept = if protocol.local.keeps() { dim } else { 0 };
    Extent {
        clients,
        dim,
        draws: protocol.scheme.cohort().unwrap_or(0),
        workers: sampler.capacity(),
        server: dim + kept + dim * protocol.server.vectors(),
        watched: false,
        threads,
        table,
    }
}

/// Refuses a run for which there is no kernel, or no room on the device.
pub fn check(
    gpu: &Gpu,
    problem: &Federation,
    protocol: &Protocol,
    sampler: &CohortSampler,
    repetitions: usize,
) -> Result<(), StartError> {
    refuse(problem, protocol).map_err(AssemblyError::from)?;
    let extent = extent(problem, protocol, sampler);
    let kept = if protocol.local.keeps() { extent.clients * extent.dim } else { 0 };
    let state = repetitions * (extent.server + kept + 3);
    let memory = extent.plan(gpu.multiprocessors(), repetitions).memory;
    let needed = 8 * (tables::numbers(problem) + state) as u64 + memory as u64;
    match gpu.free()? {
        free if free < needed => Err(DeviceError::OutOfMemory { needed, free }.into()),
        _ => Ok(()),
    }
}

impl Cuda {
    /// A run that goes on from where it stands.
    pub fn new(gpu: &Gpu, problem: &Federation, course: Course) -> Result<Self, StartError> {
        course.check(problem.dim())?;
        if !course.cohorts.is_empty() {
            let why = "cohorts that were recorded have no kernel for device = \"cuda\"; use device = \"cpu\"";
            return Err(AssemblyError::from(Unsupported::new("device", why)).into());
        }
        let Course { protocol, sampler, state, .. } = &course;
        check(gpu, problem, protocol, sampler, state.repetitions.len())?;
        let module = Module::of(gpu, ptx())?;
        let kernel = module.kernel(kernel(problem).0)?;
        let (count, layout) = (state.repetitions.len(), state.layout());
        let (rounds, steps) = (ROUNDS as usize, protocol.local_steps);
        let numbers: Vec<u64> = state.repetitions.iter().map(|one| one.number).collect();
        let numbers = Buffer::of(gpu, &numbers)?;
        let tables = Tables::of(gpu, problem, protocol, sampler)?;
        let servers = Buffer::room(gpu, count * layout.server())?;
        let kept = Buffer::room(gpu, count * layout.all_kept())?;
        let failed = Buffer::room(gpu, count)?;
        let consensus = Buffer::room(gpu, count)?;
        let mut described = describe(&course);
        tables.describe(problem, protocol, &mut described);
        let described = Problem {
            numbers: numbers.at(),
            servers: servers.at(),
            all_kept: kept.at(),
            failed: failed.at(),
            consensus: consensus.at(),
            ..described
        };
        module.put(&described)?;
        Ok(Cuda {
            gpu: gpu.clone(),
            module,
            kernel,
            extent: extent(problem, protocol, sampler),
            _tables: tables,
            _numbers: numbers,
            servers,
            kept,
            failed,
            consensus,
            sizes: Buffer::room(gpu, (SIZES as usize).min(rounds * steps).max(steps))?,
            totals: Buffer::room(gpu, rounds)?,
            longest: Buffer::room(gpu, rounds)?,
            memory: None,
            is_current: false,
            course,
        })
    }

    /// Gives the device the state that is here.
    fn upload(&mut self) -> Result<(), DeviceError> {
        let state = &self.course.state;
        let servers: Vec<f64> = state.servers().collect();
        self.servers.put(&servers)?;
        let kept: Vec<f64> = state.repetitions.iter().flat_map(|one| &one.kept).copied().collect();
        self.kept.put(&kept)?;
        let failed = state.repetitions.iter().map(|one| one.failed.map_or(0, |round| round.0));
        self.failed.put(&failed.collect::<Vec<u64>>())?;
        self.is_current = true;
        Ok(())
    }

    /// Closes rounds in one launch.
    fn launch(&mut self, first: u64, rounds: u64, watched: bool) -> Result<(), DeviceError> {
        let workers = if watched { self.extent.clients } else { self.extent.workers };
        let extent = Extent { workers, watched, ..self.extent };
        let repetitions = self.course.state.repetitions.len();
        let Plan { room, together, shape, memory } =
            extent.plan(self.gpu.multiprocessors(), repetitions);
        if self.memory.as_ref().map_or(0, Buffer::len) < memory / 8 {
            self.memory = None;
            self.memory = Some(Buffer::room(&self.gpu, memory / 8)?);
        }
        let protocol = &self.course.protocol;
        let (mut sizes, mut totals, mut longest) = (Vec::new(), Vec::new(), Vec::new());
        for round in first..first + rounds {
            let begin = sizes.len();
            sizes.extend(protocol.sizes(Round(round)));
            let order = Order { protocol, step_sizes: &sizes[begin..] };
            totals.push(order.total_step());
            longest.push(order.longest().unwrap_or(0.0));
        }
        self.sizes.put(&sizes)?;
        self.totals.put(&totals)?;
        self.longest.put(&longest)?;
        self.module.put(&Slice {
            first_round: first,
            rounds,
            watched: u64::from(watched),
            together: together as u64,
            sizes: self.sizes.at(),
            totals: self.totals.at(),
            longest: self.longest.at(),
            memory: match (memory, &self.memory) {
                (1.., Some(memory)) => memory.at(),
                _ => 0,
            },
            room,
        })?;
        self.module.launch(self.kernel, shape)?;
        self.gpu.wait()
    }

    /// Takes the state back from the device.
    fn download(&mut self, watched: bool) -> Result<(), DeviceError> {
        let mut servers = vec![0.0; self.servers.len()];
        let mut kept = vec![0.0; self.kept.len()];
        let mut failed = vec![0; self.failed.len()];
        let mut consensus = vec![0.0; self.consensus.len()];
        self.servers.take(&mut servers)?;
        self.kept.take(&mut kept)?;
        self.failed.take(&mut failed)?;
        if watched {
            self.consensus.take(&mut consensus)?;
        }
        let layout = self.course.state.layout();
        for (place, one) in self.course.state.repetitions.iter_mut().enumerate() {
            let size = layout.server();
            one.server.copy_from_slice(&servers[place * size..][..size]);
            for client in 0..layout.clients * usize::from(layout.kept > 0) {
                let now = &kept[place * layout.all_kept() + client * layout.kept..][..layout.kept];
                let client = ClientId(client as u32);
                let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
                if !one.kept_by(client).iter().zip(now).all(same) {
                    one.keep(client, now);
                }
            }
            if one.failed.is_some() {
                continue;
            }
            if watched {
                one.consensus = Some(consensus[place]);
            }
            if failed[place] != 0 {
                one.failed = Some(Round(failed[place]));
                one.consensus = None;
            }
        }
        Ok(())
    }

    /// Closes rounds until `until` are closed.
    fn close(&mut self, until: u64, consensus: bool) -> Result<(), DeviceError> {
        self.gpu.use_it()?;
        if !self.is_current {
            self.upload()?;
        }
        let first = self.course.state.round.0;
        let watched = consensus && until > first;
        let most = (SIZES / self.course.protocol.local_steps as u64).clamp(1, ROUNDS);
        let mut round = first;
        while round < until - u64::from(watched) {
            let rounds = most.min(until - u64::from(watched) - round);
            self.launch(round, rounds, false)?;
            round += rounds;
        }
        if watched {
            self.launch(round, 1, true)?;
        }
        self.download(watched)
    }
}

impl Backend for Cuda {
    fn is_irreplaceable(&self) -> bool {
        false
    }

    fn state(&self) -> &State {
        &self.course.state
    }

    fn state_mut(&mut self) -> &mut State {
        self.is_current = false;
        &mut self.course.state
    }

    fn advance(&mut self, until: Round, consensus: bool) -> Result<(), BackendError> {
        let failed = |error: DeviceError| BackendError::Device(error.to_string());
        self.close(until.0, consensus).map_err(failed)?;
        self.course.state.round = until;
        Ok(())
    }

    fn take_cohorts(&mut self) -> Vec<RecordedCohort> {
        Vec::new()
    }
}

fn ptx() -> &'static CStr {
    CStr::from_bytes_until_nul(PTX.as_bytes()).unwrap_or_default()
}

/// What kernels are told of an algorithm.
fn describe(course: &Course) -> Problem {
    let Course { protocol, seed, state, .. } = course;
    let Protocol { scheme, local, server, .. } = *protocol;
    let layout = state.layout();
    let mut problem = Problem {
        seed: seed.0,
        repetitions: state.repetitions.len() as u64,
        kept: layout.kept as u64,
        own: layout.own as u64,
        local_steps: protocol.local_steps as u64,
        scheme: match scheme {
            Scheme::Full | Scheme::FirstArrivals { .. } => 0,
            Scheme::WithReplacement { .. } => 1,
            Scheme::WithoutReplacement { .. } => 2,
        },
        cohort: scheme.cohort().unwrap_or(0) as u64,
        scaled: u64::from(protocol.scale_objectives),
        deployed_once: u64::from(protocol.deploy == Deploy::Round),
        iterates: u64::from(protocol.aggregate == Aggregate::Iterates),
        clipped: u64::from(protocol.clip.is_some()),
        ..Problem::default()
    };
    match local {
        LocalRule::Descent => {}
        LocalRule::Proximal { proximal } => (problem.rule, problem.proximal) = (1, proximal),
        LocalRule::Scaffold => problem.rule = 2,
    }
    match server {
        ServerRule::Average => {}
        ServerRule::Momentum { rate, beta } => {
            (problem.server, problem.rate, problem.beta1) = (1, rate, beta);
        }
        ServerRule::Adam { rate, beta1, beta2, tau } => {
            (problem.server, problem.rate, problem.tau) = (2, rate, tau);
            (problem.beta1, problem.beta2) = (beta1, beta2);
        }
    }
    problem
}
