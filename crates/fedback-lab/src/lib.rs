//! Experiments on reacting populations.
//!
//! The way of a run: [`spec`] (what the user typed) → [`plan`] (checked and built) → [`runner`] (the
//! only loop) → [`event`] → sinks, of which the [`store`] is one. [`exact`] and [`solution`] are
//! what theory says of the same plan ([`dynamics`] is what it looks at), [`check`] is its verdict, [`advice`] what the plan
//! should have been; [`chart`] puts runs and theory side by side in a [`figure`]. [`fit`] makes a spec
//! of what was observed. Theory gives reasons as data, [`words`] makes sentences of them.

pub mod advice;
pub mod bundle;
pub mod chart;
pub mod check;
pub mod costs;
pub mod credit;
mod csv_file;
pub mod custom;
pub mod device;
pub mod difference;
mod draw;
pub mod dynamics;
pub mod error;
pub mod event;
pub mod exact;
pub mod experiment;
pub mod facts;
pub mod figure;
pub mod fit;
pub mod measure;
pub mod npz;
pub mod outcome;
pub mod own;
pub mod plan;
pub mod plot;
pub mod recorded;
pub mod runner;
pub mod sampled;
pub mod scoring;
pub mod show;
pub mod solution;
pub mod spec;
pub mod store;
pub mod table_file;
pub mod table_summary;
pub mod threads;
mod trace_file;
pub mod warning;
pub mod whole_file;
pub mod words;
