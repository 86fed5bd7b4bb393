//! The mathematics of reacting populations, without I/O and without threads.
//!
//! A problem is a [`federation::Federation`]: clients with weights, data before any model is
//! deployed ([`base`]), how they react to one ([`response`]), and what a prediction costs
//! ([`loss`]). An algorithm is described by a [`protocol::Protocol`]. Everything random comes from
//! a [`stream::Stream`], a pure function of its key.

// Whoever adds a loss, a response or a part of an algorithm must think wherever it matters.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod arrivals;
pub mod base;
pub mod exp;
pub mod federation;
pub mod groups;
pub mod lanes;
pub mod loss;
pub mod memory;
pub mod misfit;
pub mod normal;
pub mod population;
pub mod protocol;
pub mod response;
pub mod risk;
pub mod score;
pub mod simd;
pub mod state;
pub mod stream;
pub mod turnout;
