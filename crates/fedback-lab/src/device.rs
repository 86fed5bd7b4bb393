//! Where a run is worked out: on the processor, or on a device with memory of its own.
//!
//! The bits are the same, so a device is no part of a plan: a run has one from the start of the command
//! to its end, and may be resumed on the other. What has no kernel is refused before anything is
//! written; `auto` takes the processor then, and says why.

use std::str::FromStr;

use fedback_core::federation::Federation;
use fedback_cuda::{Cuda, DeviceError, Gpu, StartError};
use fedback_engine::backend::{Backend, Course};

use crate::error::Error;
use crate::facts;
use crate::measure::Judge;
use crate::outcome::Outcome;
use crate::plan::Outline;
use crate::runner::Runnable;

/// The device that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA device.
    Cuda,
    /// An NVIDIA device where there is one, it has kernels for the run and that is large enough; the
    /// processor elsewhere.
    Auto,
}

/// Repetitions from which `auto` takes a device: below, most of its threads would have nothing to do.
const WORTH_A_DEVICE: u64 = 64;

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cpu" => Ok(Device::Cpu),
            "cuda" => Ok(Device::Cuda),
            "auto" => Ok(Device::Auto),
            other => Err(format!("found \"{other}\"; allowed: cpu, cuda, auto")),
        }
    }
}

/// A plan and where it is worked out.
pub struct Placed<'a> {
    plan: &'a dyn Runnable,
    gpu: Option<Gpu>,
    /// What `auto` chose, and why.
    pub chosen: Option<String>,
}

impl Device {
    /// Finds plans a place; refuses those that a device was asked for which does not take them.
    pub fn place<'a>(
        self,
        plans: impl IntoIterator<Item = &'a dyn Runnable>,
    ) -> Result<Vec<Placed<'a>>, Error> {
        let found = match self {
            Device::Cpu => None,
            Device::Cuda | Device::Auto => Some(Gpu::open()),
        };
        plans.into_iter().map(|plan| self.place_at(plan, found.as_ref())).collect()
    }

    /// Finds one plan a place.
    pub fn place_one(self, plan: &dyn Runnable) -> Result<Placed<'_>, Error> {
        match self {
            Device::Cpu => self.place_at(plan, None),
            Device::Cuda | Device::Auto => self.place_at(plan, Some(&Gpu::open())),
        }
    }

    /// The same where the driver's device is known, or why there is none.
    fn place_at<'a>(
        self,
        plan: &'a dyn Runnable,
        found: Option<&Result<Gpu, DeviceError>>,
    ) -> Result<Placed<'a>, Error> {
        match (self, found) {
            (Device::Cpu, _) | (_, None) => Ok(Placed { plan, gpu: None, chosen: None }),
            (Device::Cuda, Some(Err(why))) => Err(Error::input("device", why)),
            (Device::Cuda, Some(Ok(gpu))) => {
                accepts(gpu, plan)?;
                Ok(Placed { plan, gpu: Some(gpu.clone()), chosen: None })
            }
            (Device::Auto, Some(found)) => Ok(better(found.as_ref(), plan)),
        }
    }
}

/// Refuses a plan that a device does not take.
fn accepts(gpu: &Gpu, plan: &dyn Runnable) -> Result<(), Error> {
    let Some(problem) = plan.built_in() else {
        let why = "a population or a loss that is a function has no kernel; use device = \"cpu\"";
        return Err(Error::input("device", why));
    };
    let outline = plan.outline();
    let (repetitions, consensus) =
        (outline.spec.repetitions.0 as usize, outline.spec.measure.consensus);
    let (protocol, sampler) = (&outline.protocol, outline.sampler());
    Ok(fedback_cuda::check(gpu, problem, protocol, &sampler, repetitions, consensus)?)
}

/// Where a plan is probably done first.
fn better<'a>(found: Result<&Gpu, &DeviceError>, plan: &'a dyn Runnable) -> Placed<'a> {
    let repetitions = plan.outline().spec.repetitions.0;
    let on_cpu = |why: &str| Placed { plan, gpu: None, chosen: Some(format!("cpu ({why})")) };
    match found {
        Err(why) => on_cpu(&why.to_string()),
        Ok(_) if repetitions < WORTH_A_DEVICE => on_cpu(&format!(
            "found {repetitions} repetitions; cuda is taken from {WORTH_A_DEVICE} on"
        )),
        Ok(gpu) => match accepts(gpu, plan) {
            Err(why) => on_cpu(&why.to_string()),
            Ok(()) => {
                let chosen = format!("cuda ({}, {repetitions} repetitions)", gpu.name());
                Placed { plan, gpu: Some(gpu.clone()), chosen: Some(chosen) }
            }
        },
    }
}

impl Runnable for Placed<'_> {
    fn outline(&self) -> &Outline {
        self.plan.outline()
    }

    fn backend(&self, course: Course) -> Result<Box<dyn Backend + '_>, Error> {
        match (&self.gpu, self.plan.built_in()) {
            (Some(gpu), Some(problem)) => Ok(Box::new(Cuda::new(gpu, problem, course)?)),
            _ => self.plan.backend(course),
        }
    }

    fn judge(&self) -> Box<dyn Judge + '_> {
        self.plan.judge()
    }

    fn built_in(&self) -> Option<&Federation> {
        self.plan.built_in()
    }

    fn machine(&self) -> String {
        match &self.gpu {
            None => self.plan.machine(),
            Some(gpu) => format!("{}; cuda: {}", facts::machine(), gpu.name()),
        }
    }

    fn warnings(&self) -> Vec<String> {
        self.plan.warnings()
    }

    fn exact(&self) -> Option<Outcome> {
        self.plan.exact()
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Assembly(error) => error.into(),
            StartError::Device(error) => Error::input("device", error),
        }
    }
}
