//! Oracles: draws, reactions, gradients and losses of built-in populations, for any local rule.
//!
//! Where coordinates do not mix (normal data, diagonal response) every coordinate of every client is
//! a lane of its own (`lanes.rs`). Elsewhere a few clients work together (`group.rs`): on the rows of
//! a table (`rows.rs`), or on normal data that a matrix mixes (`normals.rs`). Rows that react one by one are
//! drawn and changed one by one (`people.rs`, in the loop of `reacting.rs`). The mean of a normal
//! batch is drawn as such, N(mean, noise²/batch), since the gradient depends on the batch through it
//! alone.

mod batch;
mod group;
pub(crate) mod lanes;
mod normals;
mod people;
mod reacting;
mod rows;

pub(crate) use group::{Clients, Losses, Oracle, Vectors};
pub(crate) use lanes::LaneBlock;
pub(crate) use normals::NormalBatch;
pub(crate) use reacting::{Reacting, ReactingLosses};
pub(crate) use rows::{MarginRows, MeanRows};
