//! What a site of a federation decides for itself.
//!
//! A [`Policy`] is a file at the site: which plan it works for, on whose rows, how often. The [`Keeper`]
//! holds every question against it and against the [`Ledger`], which remembers all that was ever
//! answered. The [`service`] listens on a local socket: whatever the operator of a federation starts at
//! the site can ask there, and has no other way to the rows.
//!
//! One way: frame → request → keeper (policy, ledger, rows, work) → ledger → reply → frame. Where the
//! rows come from a [`program`] of the site's own, they are drawn before policy and ledger are asked.

mod agreed;
pub mod forecast;
pub mod frame;
pub mod keeper;
pub mod ledger;
pub mod message;
pub mod observed;
pub mod policy;
pub mod program;
pub mod refused;
pub mod rests;
pub mod service;

pub use keeper::Keeper;
pub use ledger::Ledger;
pub use policy::Policy;
