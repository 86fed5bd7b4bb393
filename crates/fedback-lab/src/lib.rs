//! Experiments on reacting populations.
//!
//! The way of a run: [`spec`] (what the user typed) → [`plan`] (checked and built) → [`runner`] (the
//! only loop) → [`event`] → sinks, of which the [`store`] is one. [`exact`], [`solution`] and
//! [`bounds`] are what theory says of the same plan, [`advice`] what it should have been; [`chart`] puts them side by side in a [`figure`].

pub mod advice;
pub mod bounds;
pub mod chart;
pub mod credit;
mod draw;
pub mod error;
pub mod event;
pub mod exact;
pub mod experiment;
pub mod figure;
pub mod measure;
pub mod outcome;
pub mod paper;
pub mod plan;
pub mod report;
pub mod runner;
pub mod solution;
pub mod spec;
pub mod store;
mod table_file;
