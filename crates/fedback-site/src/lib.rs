//! What a site of a federation decides for itself.
//!
//! A [`Policy`] is a file at the site: which plan it works for, on whose rows, how often. The [`Gate`]
//! holds every question against it and against the [`Ledger`], which remembers all that was ever
//! answered. The [`service`] listens on a local socket: whatever the operator of a federation starts at
//! the site can ask there, and has no other way to the rows.
//!
//! One way: frame → request → gate (policy, ledger, rows, work) → ledger → reply → frame.

pub mod forecast;
pub mod frame;
pub mod gate;
pub mod ledger;
pub mod message;
pub mod policy;
pub mod rests;
pub mod service;

pub use gate::Gate;
pub use ledger::Ledger;
pub use policy::Policy;
