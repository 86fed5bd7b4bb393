//! Federated learning for populations that react to the model.
//!
//! The library under one name: [`core`] (problems), [`engine`] (rounds), [`theory`] (what should
//! happen), [`fit`] (what data say), [`lab`] (experiments) and [`paper`] (the paper, reproduced).
//! [`cli`] is the command.
//!
//! ```
//! use fedback::lab::{exact, experiment::Experiment, solution::Solution, spec::Document};
//!
//! let document = Document::parse(
//!     r#"
//!     rounds = 200
//!     [problem]
//!     weights = [0.7, 0.3]
//!     base = { kind = "gaussian", mean = [1.0, 4.0] }
//!     response = { kind = "location", sensitivity = [0.5, 0.9] }
//!     loss = { kind = "mean" }
//!     [algorithm]
//!     kind = "p-fedavg"
//!     scheme = "full"
//!     local_steps = 5
//!     step_size = { beta = 4.0, gamma = 20.0 }
//!     "#,
//!     "two-sites",
//! )?;
//! let plan = &Experiment::new(&document)?.plans[0];
//! let stable = Solution::of(plan).stable_point.unwrap()[0];
//! assert!((stable - 1.9 / 0.38).abs() < 1e-12);
//! let curve = exact::exact(plan)?.curve;
//! assert!(curve.points.last().unwrap().values[0].mean < 0.05);
//! # Ok::<(), fedback::lab::error::Error>(())
//! ```

pub use fedback_core as core;
pub use fedback_engine as engine;
pub use fedback_fit as fit;
pub use fedback_lab as lab;
pub use fedback_paper as paper;
pub use fedback_site as site;
pub use fedback_theory as theory;

pub mod cli;

mod args;
mod command;
mod output;
mod page;
mod progress;
mod screen;
mod table;

/// The Rust blocks of the documentation, as doctests.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/how-to/use-from-rust.md")]
    struct UseFromRust;
}
