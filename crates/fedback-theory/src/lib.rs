//! What should happen, by mathematics alone.
//!
//! [`stable`] finds the point that retraining settles at, [`optimal`] the best that could be had,
//! [`exact`] the exact moments of P-FedAvg where the problem is affine, [`limit`] the step sizes up
//! to which errors shrink, [`asymptotic`] the law of large t, [`bounds`] the paper's theorems as
//! numbers, from the [`constants`] of its assumptions, [`degeneracy`] whether a reaction matters at
//! all, [`inclusion`] who is among the first to arrive, [`choice`] what that
//! makes of their weights; [`certificate`] puts them together into a verdict, [`planner`] finds the cheapest way to an
//! accuracy. Nothing here samples, and nothing here sees the engine: that the two agree is a fact to be
//! tested.

// Whoever adds a loss, a response or a part of an algorithm must think wherever it matters.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod alternative;
pub mod asymptotic;
pub mod bounds;
pub mod certificate;
pub mod choice;
pub mod constants;
pub mod degeneracy;
pub mod exact;
pub mod inclusion;
pub mod limit;
mod newton;
pub mod optimal;
pub mod p_fedavg;
pub mod planner;
mod spectrum;
pub mod stable;
mod starts;
