//! The description of an algorithm: what is done, never how.
//!
//! The engine samples a [`Protocol`], theory integrates it; both read these types and nothing else
//! of each other.

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

/// P-FedAvg, described.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Protocol {
    /// How a cohort is drawn.
    pub scheme: Scheme,
    /// Local steps a round (the paper's E), at least one.
    pub local_steps: usize,
    /// Observations a local step, at least one.
    pub batch: usize,
    /// The step size η_t.
    pub step_size: StepSize,
    /// Which θ the populations react to.
    pub deploy: Deploy,
    /// How the server combines a cohort's work.
    pub aggregate: Aggregate,
    /// Without replacement: gradients times N·p_i and coefficients 1/K, the paper's remedy for
    /// unequal weights.
    pub scale_objectives: bool,
}

impl Protocol {
    /// The first local step of the round that follows `round`.
    pub fn first_step(&self, round: Round) -> Step {
        Step(round.0 * self.local_steps as u64)
    }
}
