//! The parts of a check, named as in the JSON contract.

use fedback_theory::certificate::{self, ClientPart, Outlook};
use fedback_theory::{constants, degeneracy};
use serde::Serialize;

use super::lying::Lie;
use crate::dynamics::Speed;
use crate::words;

/// A client's part in the verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Client {
    /// Its name, or its number from 0.
    pub client: String,
    /// ε_i with the sign that it has in a spec; none where coordinates differ in it, or mix.
    pub signed_sensitivity: Option<f64>,
    /// What theory says of it.
    #[serde(flatten)]
    pub part: ClientPart,
    /// What it could do by lying.
    pub lying: Lie,
}

impl Client {
    /// ε_i, with its sign where it has one.
    pub fn sensitivity(&self) -> f64 {
        self.signed_sensitivity.unwrap_or(self.part.sensitivity)
    }
}

/// What the plan's own step sizes do.
#[derive(Clone, Debug, Serialize)]
pub struct OwnSteps {
    /// Yes, no, or not known.
    pub settles: Option<bool>,
    /// In words.
    pub why: String,
    /// Rounds until the error is near, about.
    pub rounds: Option<f64>,
    /// The largest root mean squared error on the way, in units of the scale.
    pub peak: Option<f64>,
    /// √E|θ − θ^PS|² in the long run of a constant step size.
    pub floor: Option<f64>,
    /// The scale that *near* is measured by.
    pub scale: f64,
}

impl OwnSteps {
    pub(super) fn new(found: &Outlook, why: String) -> Self {
        let Outlook { ref answer, rounds, peak, floor, scale, point: _ } = *found;
        OwnSteps { settles: answer.settles, why, rounds, peak, floor, scale }
    }
}

/// What small steps do, and how small they must be.
#[derive(Clone, Debug, Serialize)]
pub struct SmallSteps {
    /// Yes, no, or not known.
    pub settles: Option<bool>,
    /// In words.
    pub why: String,
    /// The largest constant step size up to which squared errors shrink.
    pub largest_step: Option<f64>,
    /// The same for mean errors.
    pub largest_step_in_mean: Option<f64>,
    /// A constant step size at which the plan settles.
    pub constant: Option<f64>,
    /// β of a decaying step size at which it does.
    pub beta: Option<f64>,
    /// Its γ.
    pub gamma: Option<f64>,
}

impl SmallSteps {
    pub(super) fn new(found: &certificate::SmallSteps, why: String) -> Self {
        let (beta, gamma) = found.decaying.unzip();
        SmallSteps {
            settles: found.answer.settles,
            why,
            largest_step: found.largest_step,
            largest_step_in_mean: found.largest_step_in_mean,
            constant: found.constant,
            beta,
            gamma,
        }
    }
}

/// The constants of the paper's condition.
#[derive(Clone, Debug, Serialize)]
pub struct Constants {
    /// ε̄.
    pub average_sensitivity: Constant,
    /// μ.
    pub mu: Constant,
    /// L.
    pub smoothness: Constant,
}

impl Constants {
    pub(super) fn new(found: &constants::Constants) -> Self {
        let [average_sensitivity, mu, smoothness] =
            [found.average_sensitivity, found.mu, found.smoothness].map(|one| Constant {
                value: one.value,
                origin: words::origin(one.how),
                how: words::how(one.how),
            });
        Constants { average_sensitivity, mu, smoothness }
    }
}

/// A constant.
#[derive(Clone, Debug, Serialize)]
pub struct Constant {
    /// Its value; none where it does not exist.
    pub value: Option<f64>,
    /// Where it comes from, in one word.
    pub origin: &'static str,
    /// How it was obtained, or why it does not exist.
    pub how: &'static str,
}

/// Where the assumptions behind the condition hold.
#[derive(Clone, Debug, Serialize)]
pub struct Assumptions {
    /// What theory says of them.
    #[serde(flatten)]
    pub found: certificate::Assumptions,
    /// Whether the condition is met there.
    pub condition: Option<bool>,
    /// In words.
    pub words: [String; 3],
}

impl Assumptions {
    pub(super) fn new(found: certificate::Assumptions, average: Option<f64>) -> Self {
        let condition = average.and_then(|average| found.condition(average));
        Assumptions { found, condition, words: words::assumptions(&found) }
    }
}

/// How far the stable point is from the optimal one.
#[derive(Clone, Debug, Serialize)]
pub struct Approximation {
    /// |θ^PS − θ^PO|.
    pub distance: Option<f64>,
    /// What Proposition 2.6 says, where it applies.
    pub proposition: Option<f64>,
    /// What its local repair says.
    pub local: Option<f64>,
    /// In words.
    pub why: &'static str,
}

impl Approximation {
    pub(super) fn new(found: &certificate::Approximation) -> Self {
        let certificate::Approximation { distance, proposition, local } = *found;
        let why = words::approximation(found);
        Approximation { distance, proposition: proposition.ok(), local, why }
    }
}

/// Whether the reaction matters at all.
#[derive(Clone, Debug, Serialize)]
pub struct Degeneracy {
    /// What theory says.
    #[serde(flatten)]
    pub found: degeneracy::Degeneracy,
    /// In words.
    pub words: String,
}

impl Degeneracy {
    pub(super) fn new(found: degeneracy::Degeneracy) -> Self {
        Degeneracy { words: words::degeneracy(&found), found }
    }
}

/// What speed makes of the weights, for first arrivals: the certificate is about the effective
/// ones.
#[derive(Clone, Debug, Serialize)]
pub struct FirstArrivals {
    /// Who arrives how often, and what weights that makes.
    #[serde(flatten)]
    pub speed: Speed,
    /// How far their stable point is from the problem's own, where both are known.
    pub away_from_stable_point: Option<f64>,
}
