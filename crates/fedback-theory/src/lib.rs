//! What should happen, by mathematics alone.
//!
//! [`round`](mod@round) is one round of any algorithm as it acts on means and covariances, with the coefficients of
//! a [`cohort`]; from it follow the [`exact`] moments where a problem is affine, [`limit`], the step sizes up to
//! which errors shrink, [`rest`](mod@rest), where rounds of one step size end, and [`asymptotic`], the law of large
//! t. [`stable`] finds the point that retraining settles at, [`optimal`] the best that could be had, [`degeneracy`]
//! whether a reaction matters at all, [`inclusion`] who is among the first to arrive. [`bounds`] are the paper's
//! theorems as numbers, from the [`constants`] of its assumptions. [`certificate`] puts all of it together into
//! a verdict, [`planner`] finds the cheapest way to an accuracy. [`sampled`] looks at problems that are known by
//! samples only. Nothing here samples, and nothing here sees the engine: that the two agree is a fact to be
//! tested.

// Whoever adds a loss, a response or a part of an algorithm must think wherever it matters.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod alternative;
pub mod asymptotic;
pub mod bounds;
pub mod certificate;
pub mod cohort;
pub mod constants;
pub mod degeneracy;
mod direct;
pub mod exact;
pub mod inclusion;
pub mod influence;
pub mod limit;
pub mod minimisation;
mod newton;
pub mod optimal;
mod path;
pub mod planner;
mod quasi_newton;
pub mod rest;
pub mod round;
pub mod sampled;
mod spectrum;
pub mod stable;
mod starts;
