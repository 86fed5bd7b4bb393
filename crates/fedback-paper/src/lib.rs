//! "Performative Federated Learning", reproduced by means of the lab, as any user could.
//!
//! [`figures`] are the paper's experiments with the claims made of them, a [`study`] is one of
//! their panels as it was run, a [`report`] the page that shows and judges them; [`reproduce`]
//! makes it. [`bounds`] are the theorems as numbers, [`credit_data`] gets the table of the credit
//! experiment.

pub mod bounds;
pub mod credit_data;
pub mod figures;
pub mod report;
pub mod reproduce;
pub mod study;
