//! The rounds of a run, closed on a device.
//!
//! The state lies on the device while rounds go on, and comes back after every slice, as the loop
//! wants to see it. A slice is one launch or a few: every block takes its repetitions through all
//! rounds of it. Step sizes are worked out here, a list for every launch, because a division costs a
//! device as much as the rest of a step.

use std::ffi::CStr;

use fedback_core::federation::{ClientId, Federation};
use fedback_core::misfit::Unsupported;
use fedback_core::protocol::{Protocol, Round};
use fedback_core::state::State;
use fedback_engine::backend::{AssemblyError, Backend, BackendError, Course};
use fedback_engine::cohort::{CohortSampler, RecordedCohort};
use fedback_engine::work::Order;

use crate::algorithm::described;
use crate::driver::{Buffer, Gpu, Kernel, Module, Shape};
use crate::error::{DeviceError, StartError};
use crate::layout::{Problem, Slice};
use crate::refused::refuse;
use crate::room::{Extent, MOST_THREADS, Plan};
use crate::tables::{self, Tables};
use crate::way::{ALONE, Way, can_be_alone, extent, way};

/// The kernels, compiled from `kernels/` by `dev/ptx`, with the zero that the driver reads up to.
const PTX: &str = concat!(include_str!("../kernels/rounds.ptx"), "\0");

/// Most rounds of a launch, so that a person who stops a run does not wait, and lists of step sizes
/// stay short.
const ROUNDS: u64 = 4096;
/// Most step sizes of a launch.
const SIZES: u64 = 1 << 20;

/// All repetitions of a run, on a device.
pub struct Cuda {
    gpu: Gpu,
    course: Course,
    module: Module,
    kernels: Vec<Kernel>,
    /// The kernel in which every repetition has one thread, where there is one.
    alone: Option<Kernel>,
    way: Way,
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

/// Refuses a run for which there is no kernel, or no room on the device. With `consensus`, there is
/// to be room for the work of all clients.
pub fn check(
    gpu: &Gpu,
    problem: &Federation,
    protocol: &Protocol,
    sampler: &CohortSampler,
    repetitions: usize,
    consensus: bool,
) -> Result<(), StartError> {
    refuse(problem, protocol).map_err(AssemblyError::from)?;
    let extent = match extent(problem, protocol, sampler) {
        extent if consensus => extent.watched(),
        extent => extent,
    };
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
        course.check(problem.memory(), problem.dim())?;
        if !course.cohorts.is_empty() {
            let why = "cohorts that were recorded have no kernel for device = \"cuda\"; use device = \"cpu\"";
            return Err(AssemblyError::from(Unsupported::new("device", why)).into());
        }
        let Course { protocol, sampler, state, .. } = &course;
        check(gpu, problem, protocol, sampler, state.repetitions.len(), false)?;
        let module = Module::of(gpu, ptx())?;
        let way = way(problem);
        let kernels =
            way.kernels.iter().map(|name| module.kernel(name)).collect::<Result<_, _>>()?;
        let (count, layout) = (state.repetitions.len(), state.layout());
        let alone = match can_be_alone(problem, protocol) && count >= ALONE * gpu.multiprocessors()
        {
            true => Some(module.kernel(c"normal_alone")?),
            false => None,
        };
        let (rounds, steps) = (ROUNDS as usize, protocol.local_steps);
        let numbers: Vec<u64> = state.repetitions.iter().map(|one| one.number).collect();
        let numbers = Buffer::of(gpu, &numbers)?;
        let tables = Tables::of(gpu, problem, protocol, sampler)?;
        let servers = Buffer::room(gpu, count * layout.server())?;
        let kept = Buffer::room(gpu, count * layout.all_kept())?;
        let failed = Buffer::room(gpu, count)?;
        let consensus = Buffer::room(gpu, count)?;
        let mut whole = described(&course);
        tables.describe(problem, protocol, &mut whole);
        let whole = Problem {
            numbers: numbers.at(),
            servers: servers.at(),
            all_kept: kept.at(),
            failed: failed.at(),
            consensus: consensus.at(),
            ..whole
        };
        module.put(&whole)?;
        Ok(Cuda {
            gpu: gpu.clone(),
            module,
            kernels,
            alone,
            way,
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
        let extent = if watched { self.extent.watched() } else { self.extent };
        let workers = extent.workers;
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
        if let Some(alone) = self.alone.filter(|_| !watched) {
            let blocks = repetitions.div_ceil(ALONE);
            let shape = Shape { blocks, threads: ALONE, shared: self.way.table };
            self.module.launch(alone, shape)?;
            return self.gpu.wait();
        }
        match (self.kernels.as_slice(), self.way.worker) {
            ([open, work, close], Some(shared)) => {
                let blocks = repetitions * workers;
                self.module.launch(*open, shape)?;
                self.module.launch(*work, Shape { blocks, threads: MOST_THREADS, shared })?;
                self.module.launch(*close, shape)?;
            }
            (all, _) => all.iter().try_for_each(|kernel| self.module.launch(*kernel, shape))?,
        }
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
        let most = match self.way.worker {
            Some(_) => 1,
            None => (SIZES / self.course.protocol.local_steps as u64).clamp(1, ROUNDS),
        };
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
        let failed = |error: DeviceError| {
            let how = "what was recorded is kept, and can go on with device = \"cpu\"";
            BackendError::Device(format!("{error}; {how}"))
        };
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
