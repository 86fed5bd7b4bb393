//! From an `[algorithm]` to a protocol.

use fedback_core::protocol::{self, LocalRule, Protocol, Scheme, ServerRule};

use crate::spec::{
    Aggregate, Algorithm, Batch, Deploy, KeyError, RoundKeys, SchemeName, Server, StepSize,
};

/// The algorithm of a spec, checked.
pub(super) fn build_protocol(algorithm: &Algorithm, clients: usize) -> Result<Protocol, KeyError> {
    let keys = algorithm.rounds();
    let step_size = match keys.step_size {
        StepSize::Constant { constant } => protocol::StepSize::Constant(constant.0),
        StepSize::Decaying { beta, gamma } => {
            protocol::StepSize::Decaying { beta: beta.0, gamma: gamma.0 }
        }
    };
    let protocol = Protocol {
        scheme: build_scheme(keys)?,
        local_steps: keys.local_steps.0 as usize,
        batch: match keys.batch {
            Batch::Sampled(size) => protocol::Batch::Sampled(size.0 as usize),
            Batch::All(_) => protocol::Batch::All,
        },
        step_size,
        local: match algorithm {
            Algorithm::PFedavg(_) | Algorithm::Fedopt(_) => LocalRule::Descent,
            Algorithm::Fedprox(fedprox) => LocalRule::Proximal { proximal: fedprox.proximal.0 },
            Algorithm::Scaffold(_) => LocalRule::Scaffold,
        },
        server: match algorithm {
            Algorithm::PFedavg(_) | Algorithm::Fedprox(_) | Algorithm::Scaffold(_) => {
                ServerRule::Average
            }
            Algorithm::Fedopt(fedopt) => match fedopt.server {
                Server::Momentum(momentum) => {
                    ServerRule::Momentum { rate: momentum.rate.0, beta: momentum.beta.0 }
                }
                Server::Adam(adam) => ServerRule::Adam {
                    rate: adam.rate.0,
                    beta1: adam.beta1.0,
                    beta2: adam.beta2.0,
                    tau: adam.tau.0,
                },
            },
        },
        deploy: match keys.deploy {
            Deploy::Step => protocol::Deploy::Step,
            Deploy::Round => protocol::Deploy::Round,
        },
        aggregate: match keys.aggregate {
            Aggregate::Deltas => protocol::Aggregate::Deltas,
            Aggregate::Iterates => protocol::Aggregate::Iterates,
        },
        scale_objectives: keys.scale_objectives,
        clip: keys.clip.map(|clip| clip.0),
    };
    protocol.check(clients)?;
    Ok(protocol)
}

fn build_scheme(keys: &RoundKeys) -> Result<Scheme, KeyError> {
    let fail = |message: String| KeyError::new("algorithm.cohort", message);
    let missing = || fail("is missing; every scheme but \"full\" needs its size K".into());
    let cohort = || keys.cohort.map(|cohort| cohort.0 as usize).ok_or_else(missing);
    Ok(match (keys.scheme, keys.cohort) {
        (SchemeName::Full, None) => Scheme::Full,
        (SchemeName::Full, Some(cohort)) => {
            let why = "the scheme \"full\" uses every client: leave cohort out";
            return Err(fail(format!("found {}; {why}", cohort.0)));
        }
        (SchemeName::WithReplacement, _) => Scheme::WithReplacement { cohort: cohort()? },
        (SchemeName::WithoutReplacement, _) => Scheme::WithoutReplacement { cohort: cohort()? },
        (SchemeName::FirstArrivals, _) => {
            Scheme::FirstArrivals { cohort: cohort()?, correct: keys.correct }
        }
    })
}
