//! One round of federated learning on reacting populations, and the loop over rounds.
//!
//! The server draws a [`cohort`]; its members [`work`]: the `clients` of a built-in problem are a
//! local [`rule`] times an `oracle`, those of others are [`plain`]; the [`fold`] takes their updates
//! into the state. [`simulate`] does all of it in memory, [`live`] with real clients and a [`server`];
//! both are a [`backend`] of the same loop.

// Whoever adds a loss, a response or a part of an algorithm must think wherever it matters.
#![deny(clippy::wildcard_enum_match_arm)]

/// The format of the arithmetic: in which order sums are folded and how rounds are computed. Raised
/// when the same plan comes to other bits than before; a run goes on only under its own.
pub const ARITHMETIC_FORMAT: u32 = 1;

mod arrival;
pub mod backend;
mod clients;
pub mod cohort;
pub mod fold;
pub mod incident;
pub mod live;
pub mod lying;
mod observations;
mod oracle;
pub mod plain;
pub mod rule;
pub mod server;
pub mod simulate;
pub mod work;
