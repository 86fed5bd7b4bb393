//! One round of federated learning on reacting populations, and the loop over rounds.
//!
//! The server draws a [`cohort`], its members work by an [`algorithm`], the [`server`] folds their
//! updates into θ. [`simulate`] does all of it in memory, [`live`] with real clients; both are a
//! [`backend`] of the same loop.

pub mod algorithm;
mod arrival;
pub mod backend;
pub mod cohort;
pub mod live;
pub mod repetition;
pub mod server;
pub mod simulate;
