//! The paper's guarantees for a plan: constants, bounds, the law of large t.

mod words;

use fedback_core::protocol::{Protocol, Scheme};
use fedback_lab::check::words::algorithm;
use fedback_lab::error::Error;
use fedback_lab::plan::Plan;
use fedback_lab::spec::KeyError;
use fedback_lab::words::{how, origin};
use fedback_theory::asymptotic::{LargeTime, large_time};
use fedback_theory::bounds::{Bound, Bounds, Cost, Value, are_about};
use fedback_theory::constants::{Constant, Constants};
use fedback_theory::stable;
use serde_json::{Map, Value as Json, json};

use words::no_law;
pub use words::undefined;

/// What the user says instead of what would be derived.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overrides {
    /// δ.
    pub delta: Option<f64>,
    /// σ.
    pub sigma: Option<f64>,
    /// ς.
    pub varsigma: Option<f64>,
    /// μ.
    pub mu: Option<f64>,
    /// L.
    pub smoothness: Option<f64>,
    /// ε of T_ε, a squared distance; 1% of Δ₀ if left out.
    pub accuracy: Option<f64>,
    /// C, in local steps.
    pub communication_cost: Option<f64>,
}

impl Overrides {
    /// Refuses what makes no sense; keys are the fields' names.
    pub fn check(&self) -> Result<(), KeyError> {
        for (key, value, zero) in [
            ("delta", self.delta, false),
            ("sigma", self.sigma, true),
            ("varsigma", self.varsigma, true),
            ("mu", self.mu, false),
            ("smoothness", self.smoothness, false),
            ("accuracy", self.accuracy, false),
            ("communication_cost", self.communication_cost, true),
        ] {
            let fits = |value: f64| value.is_finite() && (value > 0.0 || (zero && value == 0.0));
            if let Some(value) = value.filter(|value| !fits(*value)) {
                let allowed = if zero { "0 or more" } else { "above 0" };
                let why = format!("found {value}; allowed: a number {allowed}");
                return Err(KeyError::new(key, why));
            }
        }
        Ok(())
    }
}

/// The answer of `fedback bounds`.
#[derive(Clone, Debug)]
pub struct Guarantees {
    /// The theorem of the plan's scheme.
    pub theorem: &'static str,
    /// The constants of the assumptions.
    pub constants: Constants,
    /// The bounds.
    pub bounds: Bounds,
    /// The law of large t under the plan's own steps.
    pub asymptotic: Result<LargeTime, String>,
    /// ε of T_ε.
    pub accuracy: Option<f64>,
    /// C.
    pub communication_cost: f64,
    /// E.
    pub local_steps: usize,
}

impl Guarantees {
    /// The guarantees of a plan; refused where the theorems are not about it.
    pub fn of_plan(plan: &Plan, overrides: &Overrides) -> Result<Self, Error> {
        let protocol = &plan.protocol;
        if !are_about(protocol) {
            let why = format!(
                "found {}; the theorems are about \"p-fedavg\" (`exact`, `check` and `plan` know \
                 the other kinds too)",
                algorithm(protocol)
            );
            return Err(Error::input("algorithm.kind", why));
        }
        if plan.federation().memory().is_some() {
            return Err(Error::input(
                "problem.response.memory",
                "the theorems are about populations that answer to the model deployed last; these \
                 remember earlier ones (`exact`, `check` and `plan` know them)",
            ));
        }
        if let Scheme::FirstArrivals { .. } = protocol.scheme {
            return Err(Error::input(
                "algorithm.scheme",
                "found \"first-arrivals\"; the theorems are about full, with-replacement and \
                 without-replacement: cohorts drawn by chance, not by speed",
            ));
        }
        Ok(Guarantees::of(plan, protocol, overrides))
    }

    /// The guarantees of a plan under a protocol that the theorems are about.
    pub fn of(plan: &Plan, protocol: &Protocol, overrides: &Overrides) -> Self {
        let (federation, start, rounds) = (plan.federation(), &plan.start, plan.spec.rounds.0);
        let solved = || stable::stable_point(federation, start);
        let stable_point = plan.stable_point.clone().or_else(solved);
        let (point, delta) = (stable_point.as_deref(), overrides.delta);
        let mut constants = Constants::of(federation, protocol, start, point);
        for (place, given) in [
            (&mut constants.mu, overrides.mu),
            (&mut constants.smoothness, overrides.smoothness),
            (&mut constants.sigma, overrides.sigma),
            (&mut constants.varsigma, overrides.varsigma),
        ] {
            if let Some(value) = given {
                *place = Constant::given(value);
            }
        }
        let bounds = Bounds::new(federation, protocol, start, point, &constants, delta, rounds);
        let far = constants.delta_0.value.filter(|far| *far > 0.0 && far.is_finite());
        Guarantees {
            theorem: match protocol.scheme {
                Scheme::Full => "Theorem 3.1",
                Scheme::WithReplacement { .. } => "Theorem 3.2",
                Scheme::WithoutReplacement { .. } => "Theorem 3.3",
                Scheme::FirstArrivals { .. } => "none",
            },
            asymptotic: large_time(federation, protocol, point).map_err(|no| no_law(&no)),
            accuracy: overrides.accuracy.or(far.map(|far| far / 100.0)),
            communication_cost: overrides.communication_cost.unwrap_or(1.0),
            local_steps: protocol.local_steps,
            constants,
            bounds,
        }
    }

    /// What a bound says that the accuracy costs.
    pub fn cost(&self, bound: &Bound) -> Option<Cost> {
        bound.cost(self.accuracy?, self.communication_cost, self.local_steps)
    }

    /// Every constant that one version does not have, with the reason.
    pub fn undefined(&self) -> Vec<(&'static str, String)> {
        let (printed, corrected) = (entries(&self.bounds.printed), entries(&self.bounds.corrected));
        let both = printed.into_iter().zip(corrected);
        let words = |value: Value| value.map_err(undefined).err();
        both.filter_map(|((key, printed), (_, corrected))| {
            let why = match (words(printed), words(corrected)) {
                (None, None) => return None,
                (Some(why), None) => format!("as printed: {why}"),
                (None, Some(why)) => format!("as corrected: {why}"),
                (Some(one), Some(other)) if one == other => one,
                (Some(one), Some(other)) => format!("as printed: {one}; as corrected: {other}"),
            };
            Some((key, why))
        })
        .collect()
    }

    /// The constants of the assumptions under their keys.
    pub fn constants(&self) -> [(&'static str, &Constant); 7] {
        let c = &self.constants;
        [
            ("mu", &c.mu),
            ("smoothness", &c.smoothness),
            ("average_sensitivity", &c.average_sensitivity),
            ("largest_sensitivity", &c.largest_sensitivity),
            ("sigma", &c.sigma),
            ("varsigma", &c.varsigma),
            ("delta_0", &c.delta_0),
        ]
    }

    /// The object of the JSON contract.
    pub fn to_json(&self) -> Json {
        let constants = self.constants().map(|(key, constant)| {
            let (value, origin, how) = (constant.value, origin(constant.how), how(constant.how));
            (key, json!({"value": value, "origin": origin, "how": how}))
        });
        let missing = self.undefined().into_iter().map(|(key, why)| (key, json!(why)));
        let cost = |bound: &Bound| {
            self.cost(bound).map(|cost| {
                json!({
                    "steps": cost.steps,
                    "communications": cost.communications,
                    "total_time": cost.total_time,
                })
            })
        };
        let Bounds { printed, corrected, alternative, .. } = &self.bounds;
        json!({
            "delta": self.bounds.delta,
            "printed": numbers(printed),
            "corrected": numbers(corrected),
            "undefined": object(missing),
            "theorem": self.theorem,
            "constants": object(constants),
            "sensitivities": self.constants.sensitivities,
            "steps_to_accuracy": {
                "accuracy": self.accuracy,
                "communication_cost": self.communication_cost,
                "printed": cost(printed),
                "corrected": cost(corrected),
            },
            "own_step": {
                "covered": self.bounds.own_step.is_ok(),
                "reason": self.bounds.own_step.map_err(undefined).err(),
                "upsilon": self.bounds.own_step.ok(),
            },
            "alternative": {
                "beta": alternative.step.ok().map(|step| step.0),
                "gamma": alternative.step.ok().map(|step| step.1),
                "gradient_bound": alternative.gradient_bound.ok(),
                "upsilon_printed": alternative.printed.ok(),
                "upsilon_corrected": alternative.corrected.ok(),
                "reason": alternative.corrected.map_err(undefined).err(),
            },
            "asymptotic": {
                "limit": self.asymptotic.as_ref().ok().map(|law| law.distance),
                "mean_limit": self.asymptotic.as_ref().ok().and_then(|law| law.mean.clone()),
                "reason": self.asymptotic.as_ref().err(),
            },
        })
    }
}

/// Every constant of a version, by its key.
pub fn entries(bound: &Bound) -> Vec<(&'static str, Value)> {
    let keys = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"];
    let mut entries = vec![("mu_tilde", bound.mu_tilde)];
    entries.extend(keys.into_iter().zip(bound.c));
    entries.extend([("eta0", bound.eta0), ("B", bound.b), ("beta", bound.beta)]);
    entries.extend([("gamma", bound.gamma), ("upsilon", bound.upsilon)]);
    entries
}

fn numbers(bound: &Bound) -> Json {
    object(entries(bound).into_iter().map(|(key, value)| (key, json!(value.ok()))))
}

fn object<'a>(pairs: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    Json::Object(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect::<Map<_, _>>())
}
