//! The page of `fedback serve`: runs as they happen, side by side, and what theory says of others.
//!
//! The data path is one way: store or theory → lab's answers (JSON, CSV, SVG, as the command prints
//! them) → page. Nothing here writes, computes numbers or draws; what has to be computed is asked of
//! lab. A request opens the store, reads and closes it, on a thread of its own, so that no reader is
//! in the way of a run's writer for longer than that; only the list of runs is kept (`listing.rs`),
//! because it is long and changes little.
//!
//! Every request passes `guard.rs` first: a browser lets any page of the web send requests to this
//! machine, so that being local is no protection.

mod answer;
mod assets;
mod compare;
mod exacts;
mod figure;
mod guard;
mod listing;
mod run;
mod server;
mod stores;
mod watch;
mod what_if;

pub use guard::new_token;
pub use server::{Server, Settings};
