//! A plan of a problem that no spec describes.

use fedback_core::federation::Federation;
use fedback_core::protocol::Protocol;

use super::{BuiltIn, Plan, Shape};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::spec::Document;

/// A spec in which everything is replaced but its measurements.
const SPEC: &str = r#"
    [problem]
    clients = 1
    base = { kind = "gaussian", mean = [0.0] }
    loss = { kind = "mean" }
    [algorithm]
    kind = "p-fedavg"
    scheme = "full"
    step_size = { constant = 1.0 }
    [measure]
    distance = false
"#;

impl Plan {
    /// The plan of a problem and a protocol that were built in Rust, to be asked what theory says of
    /// them, and to be tried. Its spec is not theirs: such a run cannot be recorded.
    pub fn by_hand(
        federation: Federation,
        protocol: Protocol,
        start: Vec<f64>,
        rounds: u64,
    ) -> Result<Self, Error> {
        protocol.check(federation.clients()).map_err(|misfit| Error::input("protocol", misfit))?;
        if start.len() != federation.dim() {
            let why = format!("{} numbers; θ has {}", start.len(), federation.dim());
            return Err(Error::input("start", why));
        }
        let mut document = Document::parse(SPEC, "by hand")?;
        document.set(&format!("rounds={rounds}"))?;
        let Plan { mut outline, .. } = Experiment::new(&document)?.plans.remove(0);
        let Shape { weights, dim, client_names, coordinates, .. } =
            Shape::of(&federation, None, Vec::new());
        (outline.weights, outline.dim) = (weights, dim);
        (outline.client_names, outline.coordinates) = (client_names, coordinates);
        (outline.protocol, outline.start) = (protocol, start);
        outline.past = federation.past().cloned();
        Ok(Plan { outline, populations: BuiltIn { federation, holdout: None } })
    }
}
