//! Benchmarks of fedback: what a client step and a sample gradient cost, beside what others need.
//!
//! [`workload`] has the problems, [`side`] whoever solves them (the engine, a [`plain`] loop, a peer
//! in another process), [`timing`] says how time is taken.

pub mod bars;
pub mod limits;
pub mod memory;
pub mod plain;
pub mod side;
pub mod timing;
pub mod workload;
