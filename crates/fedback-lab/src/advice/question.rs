//! What a plan is asked for, and what makes no sense to ask.

use fedback_core::protocol::Scheme;
use fedback_theory::planner::{Latency, Prices};
use fedback_theory::round;

use super::Rival;
use crate::error::Error;
use crate::plan::Plan;
use crate::spec::{KeyError, SchemeName};

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// A: E|θ − θ^PS|² to reach and to keep.
    pub accuracy: f64,
    /// What a run costs.
    pub prices: Prices,
    /// The most local steps.
    pub budget: u64,
    /// The local steps to choose from; none: any.
    pub local_steps: Option<Vec<usize>>,
    /// The schemes to choose from.
    pub schemes: Vec<SchemeName>,
    /// The algorithms to choose from; none: the spec's own.
    pub algorithms: Vec<Rival>,
    /// The largest cohort; none: all clients.
    pub most_clients: Option<usize>,
    /// The share of A that is planned for; none: [`super::EXACT`] or [`super::APPROXIMATE`].
    pub safety: Option<f64>,
    /// L instead of the derived one.
    pub smoothness: Option<f64>,
    /// Repetitions of the simulation; none: as many as a few seconds allow.
    pub repetitions: Option<u64>,
    /// Whether the cost over E is drawn: alternatives are then those of each E searched on its own.
    pub drawn: bool,
}

impl Question {
    /// Refuses plans that cannot be planned for, and what makes no sense to ask of this one.
    pub fn check(&self, plan: &Plan) -> Result<(), Error> {
        round::supported(plan.federation(), &plan.protocol)?;
        if let Scheme::FirstArrivals { .. } = plan.protocol.scheme {
            let why = "found \"first-arrivals\"; plans are made for full, with-replacement and \
                       without-replacement, since who is fast is not for a plan to choose: set one \
                       of them, without latency, deadline and correct";
            return Err(Error::input("algorithm.scheme", why));
        }
        self.check_values(plan).map_err(Error::Question)
    }

    /// Keys are the fields' names.
    fn check_values(&self, plan: &Plan) -> Result<(), KeyError> {
        let clients = plan.clients();
        let numbers = [
            ("accuracy", Some(self.accuracy), self.accuracy > 0.0, "a number above 0"),
            (
                "communication_cost",
                Some(self.prices.communication),
                self.prices.communication >= 0.0,
                "a number 0 or more",
            ),
            (
                "straggler",
                Some(self.prices.straggler),
                (0.0..=1.0).contains(&self.prices.straggler),
                "a number between 0 and 1",
            ),
            (
                "safety",
                self.safety,
                self.safety.is_none_or(|share| share > 0.0 && share <= 1.0),
                "a number above 0, at most 1",
            ),
            (
                "smoothness",
                self.smoothness,
                self.smoothness.is_none_or(|value| value > 0.0),
                "a number above 0",
            ),
        ];
        for (key, value, fits, allowed) in numbers {
            if let Some(value) = value.filter(|value| !fits || !value.is_finite()) {
                return Err(KeyError::new(key, format!("found {value}; allowed: {allowed}")));
            }
        }
        let most = self.most_clients.unwrap_or(clients);
        if most > clients {
            let why = format!("found {most}; allowed: 1 to N = {clients}");
            return Err(KeyError::new("max_cohort", why));
        }
        if self.schemes == [SchemeName::Full] && most < clients {
            let why = format!("found {most}; the scheme full asks all {clients} clients");
            return Err(KeyError::new("max_cohort", why));
        }
        let largest = self.local_steps.iter().flatten().max();
        if let Some(largest) = largest.filter(|largest| **largest as u64 > self.budget) {
            let why = format!("found {largest}; the budget is {} steps", self.budget);
            return Err(KeyError::new("local_steps", why));
        }
        self.repetitions.map_or(Ok(()), |repetitions| plan.check_repetitions(repetitions))
    }
}

/// Latencies by their name on a command line: `constant`, `exponential` or `lognormal:SIGMA`.
pub fn latency(text: &str) -> Result<Latency, KeyError> {
    let sigma = |text: &str| text.parse().ok().filter(|s: &f64| (0.0..=10.0).contains(s));
    let found = match text.split_once(':') {
        None if text == "constant" => Some(Latency::Constant),
        None if text == "exponential" => Some(Latency::Exponential),
        Some(("lognormal", rest)) => sigma(rest).map(|sigma| Latency::Lognormal { sigma }),
        _ => None,
    };
    found.ok_or_else(|| {
        let allowed = "constant, exponential, or lognormal:SIGMA with SIGMA between 0 and 10";
        KeyError::new("latency", format!("found {text}; allowed: {allowed}"))
    })
}
