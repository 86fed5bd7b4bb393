//! Runs on an NVIDIA device, with the bits of the engine.
//!
//! [`Cuda`] is a [`Backend`](fedback_engine::backend::Backend) like the simulation: the loop, the
//! store, measurements and resumes are those of every run. The kernels (`kernels/*.h`) spell the
//! engine's arithmetic once more, in the same order, and are compiled beforehand to PTX, which the
//! driver of any device since 2020 understands; the driver itself is looked for when a device is
//! asked for. So nothing but the driver need be installed, and nothing at all to build this.
//!
//! The same source is also C++: tests build it with the host's compiler into a driver whose device is
//! the processor (`tests/driver/`), and compare with the engine bit by bit.

// Whoever adds a loss, a response or a part of an algorithm must think wherever it matters.
#![deny(clippy::wildcard_enum_match_arm)]

mod algorithm;
mod backend;
mod driver;
mod error;
mod layout;
mod refused;
mod room;
mod tables;
mod way;

pub use backend::{Cuda, check};
pub use driver::Gpu;
pub use error::{DeviceError, StartError};
