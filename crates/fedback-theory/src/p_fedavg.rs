//! The algorithm whose rounds this theory writes out.
//!
//! Whatever is asked here about a problem and a protocol goes through [`PFedAvg::of`], which looks at
//! every part of the protocol: an answer is about that very algorithm, or there is none.

use fedback_core::misfit::Unsupported;
use fedback_core::protocol::{
    Aggregate, Batch, Deploy, LocalRule, Protocol, Round, Scheme, ServerRule, Step, StepSize,
};

/// P-FedAvg: gradient descent by the clients, an average by the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PFedAvg {
    /// How a cohort is drawn.
    pub scheme: Scheme,
    /// Local steps a round (the paper's E).
    pub local_steps: usize,
    /// What the gradient of a local step is taken over.
    pub batch: Batch,
    /// The step size η_t.
    pub step_size: StepSize,
    /// Which θ the populations react to.
    pub deploy: Deploy,
    /// How the server combines a cohort's work.
    pub aggregate: Aggregate,
    /// Gradients times N·p_i and coefficients 1/K.
    pub scale_objectives: bool,
}

impl PFedAvg {
    /// A protocol that is P-FedAvg; refused where a part of it is another one's.
    ///
    /// ```
    /// use fedback_core::protocol::{LocalRule, Protocol, Scheme, StepSize};
    /// use fedback_theory::p_fedavg::PFedAvg;
    /// let usual = Protocol::p_fedavg(Scheme::Full, 5, StepSize::Constant(0.02));
    /// assert!(PFedAvg::of(&usual).is_ok());
    /// let scaffold = Protocol { local: LocalRule::Scaffold, ..usual };
    /// assert_eq!(PFedAvg::of(&scaffold).unwrap_err().part, "algorithm.kind");
    /// ```
    pub fn of(protocol: &Protocol) -> Result<Self, Unsupported> {
        // No `..`: whoever adds a part must say here what theory makes of it.
        let Protocol {
            scheme,
            local_steps,
            batch,
            step_size,
            local,
            server,
            deploy,
            aggregate,
            scale_objectives,
        } = *protocol;
        let other = match (local, server) {
            (LocalRule::Descent, ServerRule::Average) => {
                return Ok(PFedAvg {
                    scheme,
                    local_steps,
                    batch,
                    step_size,
                    deploy,
                    aggregate,
                    scale_objectives,
                });
            }
            (LocalRule::Proximal { .. }, _) => "\"fedprox\", clients held back by a proximal term",
            (LocalRule::Scaffold, _) => "\"scaffold\", clients that correct their drift",
            (LocalRule::Descent, ServerRule::Momentum { .. }) => {
                "\"fedopt\", a server with momentum"
            }
            (LocalRule::Descent, ServerRule::Adam { .. }) => {
                "\"fedopt\", a server that adapts its steps (Adam)"
            }
        };
        let why = format!(
            "found {other}; exact moments, certificates, bounds and plans know \"p-fedavg\" only \
             so far (`run` and `solve` know all kinds)"
        );
        Err(Unsupported::new("algorithm.kind", why))
    }

    /// The first local step of the round that follows `round`.
    pub fn first_step(&self, round: Round) -> Step {
        Step(round.0 * self.local_steps as u64)
    }
}

impl From<PFedAvg> for Protocol {
    fn from(protocol: PFedAvg) -> Protocol {
        let PFedAvg { scheme, local_steps, batch, step_size, deploy, aggregate, scale_objectives } =
            protocol;
        Protocol {
            scheme,
            local_steps,
            batch,
            step_size,
            local: LocalRule::Descent,
            server: ServerRule::Average,
            deploy,
            aggregate,
            scale_objectives,
        }
    }
}
