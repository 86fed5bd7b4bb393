//! The description of an algorithm: what is done, never how.
//!
//! A [`Protocol`] has parts: who takes part ([`Scheme`]), what a gradient is taken over ([`Batch`]),
//! what a client makes of it ([`LocalRule`]), what the server makes of the clients' work
//! ([`ServerRule`], [`Aggregate`]), and which θ the populations react to ([`Deploy`]). Algorithms are
//! names for combinations of them. The engine samples a protocol, theory integrates it; both read
//! these types and nothing else of each other.

use crate::misfit::Misfit;

/// A communication round: `Round(r)` is the r-th one closed, `Round(0)` the state before any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round(pub u64);

/// A local gradient step, counted from the start of the run (the paper's t).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step(pub u64);

/// How a cohort is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Every client, every round.
    Full,
    /// `cohort` independent draws with the clients' weights as probabilities (the paper's
    /// Scheme I); a client drawn twice computes once and counts twice.
    WithReplacement {
        /// The paper's K.
        cohort: usize,
    },
    /// `cohort` different clients, each set equally likely (the paper's Scheme II).
    WithoutReplacement {
        /// The paper's K.
        cohort: usize,
    },
    /// The first `cohort` clients that answer, of all who work ("first K responded"). Who is fast is
    /// in it more often: unless latencies are equal, the weights that count are p_i π_i, with π_i
    /// the probability of being among the first. When they answer is described by
    /// [`Arrivals`](crate::arrivals::Arrivals), or is the clients' own business.
    FirstArrivals {
        /// The paper's K.
        cohort: usize,
        /// Whether coefficients are p_i/π_i, which makes up for speed, instead of p_i N/K.
        correct: bool,
    },
}

impl Scheme {
    /// K, where the scheme has one.
    pub fn cohort(self) -> Option<usize> {
        match self {
            Scheme::Full => None,
            Scheme::WithReplacement { cohort }
            | Scheme::WithoutReplacement { cohort }
            | Scheme::FirstArrivals { cohort, .. } => Some(cohort),
        }
    }
}

/// The step size η_t.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepSize {
    /// The same at every step.
    Constant(f64),
    /// η_t = beta / (t + gamma).
    Decaying {
        /// The paper's β.
        beta: f64,
        /// The paper's γ.
        gamma: f64,
    },
}

impl StepSize {
    /// η_t.
    pub fn at(self, step: Step) -> f64 {
        match self {
            StepSize::Constant(size) => size,
            StepSize::Decaying { beta, gamma } => beta / (step.0 as f64 + gamma),
        }
    }
}

/// Which θ the population of a working client reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deploy {
    /// The client's current local θ, at every local step (the paper).
    Step,
    /// The θ last broadcast, for the whole round.
    Round,
}

/// How the server combines a cohort's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// θ + Σ coefficient · (w − θ).
    Deltas,
    /// Σ coefficient · w, as the paper prints it. Differs where the coefficients do not sum to one.
    Iterates,
}

/// What the gradient of a local step is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// So many fresh observations, at least one.
    Sampled(usize),
    /// The whole population: every row with equal weight, the expectation for normal data.
    All,
}

impl Batch {
    /// What the variance of one observation's gradient is divided by: infinite for all of them.
    pub fn size(self) -> f64 {
        match self {
            Batch::Sampled(size) => size as f64,
            Batch::All => f64::INFINITY,
        }
    }
}

impl std::fmt::Display for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Batch::Sampled(size) => size.fmt(f),
            Batch::All => f.pad("all"),
        }
    }
}

/// What a client makes of a gradient, and what it keeps from one of its rounds to the next. Whatever
/// the rule, small steps lead to the stable point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LocalRule {
    /// w ← w − η g.
    Descent,
    /// w ← w − η (g + μ (w − θ)), θ the model as broadcast (FedProx, Li et al. 2020).
    Proximal {
        /// μ, at least zero.
        proximal: f64,
    },
    /// w ← w − η (g − c_i + c): clients keep c_i, an average of their own gradients, and the server
    /// sends c = Σ p_i c_i (SCAFFOLD, Karimireddy et al. 2020, option II).
    Scaffold,
}

impl LocalRule {
    /// Whether clients keep a vector of θ's length, whose average over clients is sent with θ.
    pub fn keeps(self) -> bool {
        match self {
            LocalRule::Descent | LocalRule::Proximal { .. } => false,
            LocalRule::Scaffold => true,
        }
    }
}

/// What the server makes of Δ, the clients' combined work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServerRule {
    /// θ ← θ + Δ.
    Average,
    /// v ← β v + Δ, θ ← θ + rate · v (Hsu, Qi and Brown 2019).
    Momentum {
        /// The server's rate, above zero.
        rate: f64,
        /// β, at least zero and below one.
        beta: f64,
    },
    /// m ← β₁ m + (1 − β₁) Δ, v ← β₂ v + (1 − β₂) Δ², θ ← θ + rate · m / (√v + τ), without
    /// correction of the bias and v₀ = τ² (FedAdam, Reddi et al. 2021).
    Adam {
        /// The server's rate, above zero.
        rate: f64,
        /// β₁, at least zero and below one.
        beta1: f64,
        /// β₂, at least zero and below one.
        beta2: f64,
        /// τ, above zero.
        tau: f64,
    },
}

impl ServerRule {
    /// How many vectors of θ's length the server keeps beside θ.
    pub fn vectors(self) -> usize {
        match self {
            ServerRule::Average => 0,
            ServerRule::Momentum { .. } => 1,
            ServerRule::Adam { .. } => 2,
        }
    }
}

/// An algorithm, described.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Protocol {
    /// How a cohort is drawn.
    pub scheme: Scheme,
    /// Local steps per round (the paper's E), at least one.
    pub local_steps: usize,
    /// What the gradient of a local step is taken over.
    pub batch: Batch,
    /// The step size η_t.
    pub step_size: StepSize,
    /// What a client makes of a gradient.
    pub local: LocalRule,
    /// What the server makes of the clients' combined work.
    pub server: ServerRule,
    /// Which θ the populations react to.
    pub deploy: Deploy,
    /// How the server combines a cohort's work.
    pub aggregate: Aggregate,
    /// Without replacement: gradients times N·p_i and coefficients 1/K, the paper's remedy for
    /// unequal weights.
    pub scale_objectives: bool,
    /// The longest average gradient that a client's work may come to: its delta is shortened to
    /// `clip` · Σ η_t where it is longer.
    pub clip: Option<f64>,
}

impl Protocol {
    /// P-FedAvg as the paper has it: single observations, deployed at every local step, deltas
    /// averaged.
    ///
    /// ```
    /// use fedback_core::protocol::{Batch, Protocol, Scheme, StepSize};
    /// let usual = Protocol::p_fedavg(Scheme::Full, 5, StepSize::Constant(0.02));
    /// let larger = Protocol { batch: Batch::Sampled(16), ..usual };
    /// assert!(larger.check(3).is_ok());
    /// ```
    pub fn p_fedavg(scheme: Scheme, local_steps: usize, step_size: StepSize) -> Self {
        Protocol {
            scheme,
            local_steps,
            batch: Batch::Sampled(1),
            step_size,
            local: LocalRule::Descent,
            server: ServerRule::Average,
            deploy: Deploy::Step,
            aggregate: Aggregate::Deltas,
            scale_objectives: false,
            clip: None,
        }
    }

    /// The first local step of the round that follows `round`.
    pub fn first_step(&self, round: Round) -> Step {
        Step(round.0 * self.local_steps as u64)
    }

    /// The step sizes of the round that follows `round`.
    pub fn sizes(&self, round: Round) -> impl Iterator<Item = f64> + use<> {
        let (first, size) = (self.first_step(round).0, self.step_size);
        (first..first + self.local_steps as u64).map(move |step| size.at(Step(step)))
    }

    /// How long a delta may be after steps of Σ η_t in all.
    pub fn longest(&self, total_step: f64) -> Option<f64> {
        self.clip.map(|clip| clip * total_step)
    }

    /// The weight with which client i enters averages over all clients: p_i, or 1/N where objectives
    /// are scaled.
    pub fn weight(&self, weights: &[f64], client: usize) -> f64 {
        match self.scale_objectives {
            true => 1.0 / weights.len() as f64,
            false => weights[client],
        }
    }

    /// Refuses what is no protocol for so many clients.
    pub fn check(&self, clients: usize) -> Result<(), Misfit> {
        let Protocol { scheme, local_steps, batch, step_size, local, server, clip, .. } = *self;
        let within = |part, what: &str, found: f64, allowed: &str, fits: bool| match fits {
            true => Ok(()),
            false => Err(Misfit::new(part, format!("{what}found {found}; allowed: {allowed}"))),
        };
        let above = |part, what: &str, found: f64| {
            within(part, what, found, "a finite number above 0", found > 0.0 && found.is_finite())
        };
        let at_least_one =
            |part, found: usize| within(part, "", found as f64, "1 or more", found > 0);
        at_least_one("algorithm.local_steps", local_steps)?;
        if let Batch::Sampled(size) = batch {
            at_least_one("algorithm.batch", size)?;
        }
        match step_size {
            StepSize::Constant(size) => above("algorithm.step_size", "constant: ", size)?,
            StepSize::Decaying { beta, gamma } => {
                above("algorithm.step_size", "beta: ", beta)?;
                above("algorithm.step_size", "gamma: ", gamma)?;
            }
        }
        if let Some(cohort) = scheme.cohort() {
            let (most, kind) = match scheme {
                Scheme::Full | Scheme::WithReplacement { .. } => (usize::MAX, ""),
                Scheme::WithoutReplacement { .. } => (clients, "without replacement "),
                Scheme::FirstArrivals { .. } => (clients, "of first arrivals "),
            };
            let fits = (1..=most).contains(&cohort);
            let allowed = match most {
                usize::MAX => "1 or more".into(),
                most => format!("1 to N = {most}"),
            };
            if !fits {
                let why = format!("found {cohort}; {kind}allowed: {allowed}");
                return Err(Misfit::new("algorithm.cohort", why));
            }
        }
        match local {
            LocalRule::Descent | LocalRule::Scaffold => {}
            LocalRule::Proximal { proximal } => {
                let fits = proximal >= 0.0 && proximal.is_finite();
                within("algorithm.proximal", "", proximal, "0 or more", fits)?;
            }
        }
        clip.map_or(Ok(()), |clip| above("algorithm.clip", "", clip))?;
        let part = "algorithm.server";
        let fraction = |what: &str, found: f64| {
            within(part, what, found, "at least 0 and below 1", (0.0..1.0).contains(&found))
        };
        match server {
            ServerRule::Average => {}
            ServerRule::Momentum { rate, beta } => {
                above(part, "rate: ", rate)?;
                fraction("beta: ", beta)?;
            }
            ServerRule::Adam { rate, beta1, beta2, tau } => {
                above(part, "rate: ", rate)?;
                fraction("beta1: ", beta1)?;
                fraction("beta2: ", beta2)?;
                let fits = tau > 0.0 && (tau * tau).is_finite();
                within(part, "tau: ", tau, "above 0, with a square that is finite", fits)?;
            }
        }
        self.check_combination()
    }

    /// Refuses parts that do not go with the scheme.
    fn check_combination(&self) -> Result<(), Misfit> {
        let first = matches!(self.scheme, Scheme::FirstArrivals { .. });
        let without = matches!(self.scheme, Scheme::WithoutReplacement { .. });
        if self.scale_objectives && !without {
            let only = "is for the scheme \"without-replacement\" only; ";
            let why = match first {
                true => "what makes up for speed is correct = true",
                false => "the others need no scaling",
            };
            return Err(Misfit::new("algorithm.scale_objectives", format!("{only}{why}")));
        }
        if first && self.aggregate == Aggregate::Iterates {
            let why = "found \"iterates\"; the coefficients of the first to arrive do not sum to \
                       one, so that averaging models would rescale them at random: use \"deltas\"";
            return Err(Misfit::new("algorithm.aggregate", why));
        }
        Ok(())
    }
}
