//! The algorithms that a plan may choose from.

use fedback_core::protocol::{LocalRule, Protocol, ServerRule};
use serde_json::{Value as Json, json};
use toml::{Table, Value};

use crate::plan::Plan;
use crate::spec::{
    Algorithm, FedOpt, FedProx, Fraction, KeyError, Momentum, NonNegative, Positive, RoundKeys,
    Server,
};

/// An algorithm without its rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rival {
    /// What clients do.
    pub local: LocalRule,
    /// What the server does.
    pub server: ServerRule,
}

/// Springs, and shares of the last step kept, that are tried where none is named.
const SPRINGS: [f64; 2] = [0.1, 1.0];
const KEPT: [f64; 2] = [0.5, 0.9];

impl Rival {
    /// A plan's own.
    pub fn of(plan: &Plan) -> Self {
        Rival { local: plan.protocol.local, server: plan.protocol.server }
    }

    /// By names on a command line: `p-fedavg`, `fedprox` or `fedprox:PROXIMAL`, `scaffold`, `momentum` or
    /// `momentum:BETA`. Without a number a few are tried.
    pub fn parse(names: &[String]) -> Result<Vec<Self>, KeyError> {
        let mut rivals = Vec::new();
        for name in names {
            let (kind, number) = match name.split_once(':') {
                Some((kind, number)) => (kind, Some(number.parse::<f64>().ok())),
                None => (name.as_str(), None),
            };
            let spring = |proximal: f64| Rival {
                local: LocalRule::Proximal { proximal },
                server: ServerRule::Average,
            };
            // A server that keeps β of its step moves 1/(1 − β) times as far: the rate makes up for it.
            let kept = |beta: f64| Rival {
                local: LocalRule::Descent,
                server: ServerRule::Momentum { rate: 1.0 - beta, beta },
            };
            let plain = |local| Rival { local, server: ServerRule::Average };
            match (kind, number) {
                ("p-fedavg", None) => rivals.push(plain(LocalRule::Descent)),
                ("scaffold", None) => rivals.push(plain(LocalRule::Scaffold)),
                ("fedprox", None) => rivals.extend(SPRINGS.map(spring)),
                ("momentum", None) => rivals.extend(KEPT.map(kept)),
                ("fedprox", Some(Some(proximal))) if proximal >= 0.0 && proximal.is_finite() => {
                    rivals.push(spring(proximal));
                }
                ("momentum", Some(Some(beta))) if (0.0..1.0).contains(&beta) => {
                    rivals.push(kept(beta));
                }
                _ => {
                    let allowed = "p-fedavg, scaffold, fedprox, fedprox:PROXIMAL with PROXIMAL 0 or \
                                   more, momentum, momentum:BETA with BETA at least 0 and below 1";
                    let why = format!("found {name}; allowed: {allowed}");
                    return Err(KeyError::new("algorithms", why));
                }
            }
        }
        Ok(rivals)
    }

    /// The protocol with this algorithm.
    pub(super) fn protocol(&self, protocol: &Protocol) -> Protocol {
        Protocol { local: self.local, server: self.server, ..*protocol }
    }

    /// The section of a spec with this algorithm; none for a combination that has no name.
    pub(super) fn section(&self, rounds: RoundKeys) -> Option<Algorithm> {
        match (self.local, self.server) {
            (LocalRule::Descent, ServerRule::Average) => Some(Algorithm::PFedavg(rounds)),
            (LocalRule::Scaffold, ServerRule::Average) => Some(Algorithm::Scaffold(rounds)),
            (LocalRule::Proximal { proximal }, ServerRule::Average) => {
                Some(Algorithm::Fedprox(FedProx { proximal: NonNegative(proximal), rounds }))
            }
            (LocalRule::Descent, ServerRule::Momentum { rate, beta }) => {
                let momentum = Momentum { rate: Positive(rate), beta: Fraction(beta) };
                Some(Algorithm::Fedopt(FedOpt { server: Server::Momentum(momentum), rounds }))
            }
            (_, ServerRule::Momentum { .. } | ServerRule::Adam { .. }) => None,
        }
    }

    /// As the keys of a spec.
    pub(super) fn keys(&self) -> Json {
        let kind = match (self.local, self.server) {
            (LocalRule::Proximal { .. }, _) => "fedprox",
            (LocalRule::Scaffold, _) => "scaffold",
            (LocalRule::Descent, ServerRule::Average) => "p-fedavg",
            (LocalRule::Descent, ServerRule::Momentum { .. } | ServerRule::Adam { .. }) => "fedopt",
        };
        let mut keys = json!({ "kind": kind });
        if let LocalRule::Proximal { proximal } = self.local {
            keys["proximal"] = json!(proximal);
        }
        if let ServerRule::Momentum { rate, beta } = self.server {
            keys["server"] = json!({ "kind": "momentum", "rate": rate, "beta": beta });
        }
        keys
    }

    /// Writes the keys into the `[algorithm]` section of a spec.
    pub(super) fn write(&self, section: &mut Table) {
        section.remove("proximal");
        section.remove("server");
        if let Ok(Value::Table(keys)) = Value::try_from(self.keys()) {
            section.extend(keys);
        }
    }

    /// In a line.
    pub fn label(&self) -> String {
        match (self.local, self.server) {
            (LocalRule::Descent, ServerRule::Average) => "p-fedavg".into(),
            (LocalRule::Scaffold, _) => "scaffold".into(),
            (LocalRule::Proximal { proximal }, _) => format!("fedprox, proximal {proximal}"),
            (LocalRule::Descent, ServerRule::Momentum { beta, .. }) => {
                format!("momentum, beta {beta}")
            }
            (LocalRule::Descent, ServerRule::Adam { .. }) => "fedopt, adam".into(),
        }
    }
}
