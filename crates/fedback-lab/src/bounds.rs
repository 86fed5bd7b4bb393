//! The paper's guarantees for a plan: constants, bounds, the law of large t.

use crate::error::Error;
use fedback_core::protocol::{LocalRule, Protocol, Scheme, ServerRule, StepSize};
use fedback_theory::asymptotic::{LargeTime, NoLaw, large_time};
use fedback_theory::bounds::{Bound, Bounds, Value};
use fedback_theory::constants::{Constant, Constants};
use fedback_theory::stable;
use serde_json::{Map, Value as Json, json};

use crate::check::words::algorithm;
use crate::plan::Plan;
use crate::spec::KeyError;
use crate::words;

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
    pub local_steps: u64,
    /// The plan's own step size.
    pub step_size: StepSize,
}

/// What reaching an accuracy costs by a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// T_ε = υ/ε − γ.
    pub steps: f64,
    /// 2⌊T_ε/E⌋: up and down.
    pub communications: f64,
    /// T_ε + C · T_ε/E, in local steps.
    pub total_time: f64,
}

impl Guarantees {
    /// The guarantees of a plan; refused where the theorems are not about it.
    pub fn of_plan(plan: &Plan, overrides: &Overrides) -> Result<Self, Error> {
        let protocol = &plan.protocol;
        covered(protocol)?;
        match protocol.scheme {
            Scheme::FirstArrivals { .. } => Err(Error::input(
                "algorithm.scheme",
                "found \"first-arrivals\"; the theorems are about full, with-replacement and \
                 without-replacement: cohorts drawn by chance, not by speed",
            )),
            Scheme::Full | Scheme::WithReplacement { .. } | Scheme::WithoutReplacement { .. } => {
                Ok(Guarantees::of(plan, protocol, overrides))
            }
        }
    }

    /// The guarantees of a plan under a protocol that the theorems are about.
    pub fn of(plan: &Plan, protocol: &Protocol, overrides: &Overrides) -> Self {
        let federation = &plan.federation;
        let stable_point =
            plan.stable_point.clone().or_else(|| stable::stable_point(federation, &plan.start));
        let point = stable_point.as_deref();
        let mut constants = Constants::of(federation, protocol, &plan.start, point);
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
        let rounds = plan.spec.rounds.0;
        let bounds = Bounds::new(
            federation,
            protocol,
            &plan.start,
            point,
            &constants,
            overrides.delta,
            rounds,
        );
        let percent = constants
            .delta_0
            .value
            .filter(|far| *far > 0.0 && far.is_finite())
            .map(|far| far / 100.0);
        Guarantees {
            theorem: match protocol.scheme {
                Scheme::Full => "Theorem 3.1",
                Scheme::WithReplacement { .. } => "Theorem 3.2",
                Scheme::WithoutReplacement { .. } => "Theorem 3.3",
                Scheme::FirstArrivals { .. } => "none",
            },
            asymptotic: large_time(federation, protocol, point).map_err(|no| no_law(&no)),
            accuracy: overrides.accuracy.or(percent),
            communication_cost: overrides.communication_cost.unwrap_or(1.0),
            local_steps: protocol.local_steps as u64,
            step_size: protocol.step_size,
            constants,
            bounds,
        }
    }

    /// What a bound says that the accuracy costs.
    pub fn cost(&self, bound: &Bound) -> Option<Cost> {
        let (steps, e) = (bound.steps_to(self.accuracy?)?, self.local_steps as f64);
        Some(Cost {
            steps,
            communications: 2.0 * (steps / e).floor(),
            total_time: steps + self.communication_cost * steps / e,
        })
    }

    /// Every constant that one version does not have, with the reason.
    pub fn undefined(&self) -> Vec<(&'static str, String)> {
        let (printed, corrected) = (entries(&self.bounds.printed), entries(&self.bounds.corrected));
        let both = printed.into_iter().zip(corrected);
        let words = |value: Value| value.map_err(words::undefined).err();
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
            let (origin, how) = (words::origin(constant.how), words::how(constant.how));
            (key, json!({"value": constant.value, "origin": origin, "how": how}))
        });
        let undefined = self.undefined().into_iter().map(|(key, why)| (key, json!(why)));
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
            "undefined": object(undefined),
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
                "reason": self.bounds.own_step.map_err(words::undefined).err(),
                "upsilon": self.bounds.own_step.ok(),
            },
            "alternative": {
                "beta": alternative.step.ok().map(|step| step.0),
                "gamma": alternative.step.ok().map(|step| step.1),
                "gradient_bound": alternative.gradient_bound.ok(),
                "upsilon_printed": alternative.printed.ok(),
                "upsilon_corrected": alternative.corrected.ok(),
                "reason": alternative.corrected.map_err(words::undefined).err(),
            },
            "asymptotic": {
                "limit": self.asymptotic.as_ref().ok().map(|law| law.distance),
                "mean_limit": self.asymptotic.as_ref().ok().and_then(|law| law.mean.clone()),
                "reason": self.asymptotic.as_ref().err(),
            },
        })
    }
}

/// Refuses algorithms that the theorems are not about.
fn covered(protocol: &Protocol) -> Result<(), Error> {
    match (protocol.local, protocol.server) {
        (LocalRule::Descent, ServerRule::Average) => Ok(()),
        _ => Err(Error::input(
            "algorithm.kind",
            format!(
                "found {}; the theorems are about \"p-fedavg\" (`exact`, `check` and `plan` know the \
                 other kinds too)",
                algorithm(protocol)
            ),
        )),
    }
}

/// Why there is no law of large t, in words.
fn no_law(why: &NoLaw) -> String {
    match why {
        NoLaw::NotAffine => {
            "the law is computed for affine problems (the loss \"mean\") only".into()
        }
        NoLaw::NoStablePoint => "there is no stable point".into(),
        NoLaw::ConstantStep => {
            "with a constant step size the error does not vanish: it tends to a \
                                bias and a noise floor, not to a law of order 1/t"
                .into()
        }
        NoLaw::FirstArrivals => {
            "the law is not computed for first arrivals of unequal speed".into()
        }
        NoLaw::Rescaled => "unequal weights without replacement, aggregating iterates: every \
                            aggregation rescales θ at random, and the error does not vanish"
            .into(),
        NoLaw::TooLarge(most) => {
            format!("matrix responses in more than {most} dimensions are too many unknowns")
        }
        NoLaw::NotSolved => "the Lyapunov equation is singular".into(),
        NoLaw::TooSlow { twice_rate, beta } => format!(
            "2 · beta · (smallest real part of an eigenvalue of I − Σ p_i M_i) is {}, not \
             above 1: the error decays more slowly than 1/t; choose beta above {}",
            words::factor(*twice_rate),
            words::short(*beta)
        ),
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
