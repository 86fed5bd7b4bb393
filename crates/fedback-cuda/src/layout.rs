//! What the kernels are told, in the layout of `kernels/problem.h`: the same fields in the same order,
//! eight bytes each.

#![allow(unsafe_code, reason = "structures that the device reads as they are")]

use std::ffi::CStr;

use crate::driver::Constant;

/// The same for all rounds. Fields that end in a plural of numbers are places in the device's memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Problem {
    pub(crate) seed: u64,
    pub(crate) repetitions: u64,
    pub(crate) clients: u64,
    pub(crate) dim: u64,
    pub(crate) kept: u64,
    pub(crate) own: u64,
    pub(crate) local_steps: u64,
    /// Observations a step; 0 for all.
    pub(crate) batch: u64,
    pub(crate) scheme: u64,
    pub(crate) cohort: u64,
    pub(crate) scaled: u64,
    pub(crate) deployed_once: u64,
    pub(crate) rule: u64,
    pub(crate) iterates: u64,
    pub(crate) server: u64,
    pub(crate) clipped: u64,
    pub(crate) loss: u64,
    pub(crate) penalised: u64,
    pub(crate) pitch: u64,
    pub(crate) noise: f64,
    pub(crate) l2: f64,
    pub(crate) proximal: f64,
    pub(crate) rate: f64,
    pub(crate) beta1: f64,
    pub(crate) beta2: f64,
    pub(crate) tau: f64,
    pub(crate) edge: u64,
    pub(crate) density: u64,
    pub(crate) weights: u64,
    pub(crate) scales: u64,
    pub(crate) means: u64,
    pub(crate) reactions: u64,
    pub(crate) rows: u64,
    pub(crate) labels: u64,
    pub(crate) starts: u64,
    pub(crate) alias_keep: u64,
    pub(crate) alias_other: u64,
    pub(crate) numbers: u64,
    pub(crate) servers: u64,
    pub(crate) all_kept: u64,
    pub(crate) failed: u64,
    pub(crate) consensus: u64,
}

/// What is wanted of one launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slice {
    pub(crate) first_round: u64,
    pub(crate) rounds: u64,
    /// Whether all clients work, to see how far they are apart.
    pub(crate) watched: u64,
    /// Repetitions a block.
    pub(crate) together: u64,
    pub(crate) sizes: u64,
    pub(crate) totals: u64,
    pub(crate) longest: u64,
    /// Where rooms lie; 0 where a block shares them.
    pub(crate) memory: u64,
    pub(crate) room: Room,
}

/// What is where in the room that a repetition needs for a round, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// All of it.
    pub(crate) stride: u64,
    pub(crate) streams: u64,
    pub(crate) count: u64,
    pub(crate) bits: u64,
    pub(crate) upto: u64,
    pub(crate) drawn: u64,
    pub(crate) chosen: u64,
    pub(crate) members: u64,
    pub(crate) times: u64,
    pub(crate) deltas: u64,
    pub(crate) next: u64,
    pub(crate) mean: u64,
}

// SAFETY: numbers of eight bytes in the layout of C.
unsafe impl Constant for Problem {
    const NAME: &'static CStr = c"problem";
}

// SAFETY: the same.
unsafe impl Constant for Slice {
    const NAME: &'static CStr = c"slice";
}
