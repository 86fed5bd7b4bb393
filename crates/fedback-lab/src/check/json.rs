//! A check as JSON.

use fedback_theory::certificate::{LocalTruth, Verdict};
use fedback_theory::constants::Constant;
use serde_json::{Map, Value, json};

use super::Check;
use crate::outcome::with_doubts;
use crate::table_summary::with_table;
use crate::words;

impl Check {
    /// The object of the JSON contract.
    pub fn to_json(&self) -> Value {
        let certificate = &self.certificate;
        let judgement = &certificate.judgement;
        let constants = &certificate.constants;
        let point = certificate.point();
        let optimal = certificate.optimal.as_ref();
        let (own, small) = (&self.own_steps, &self.small_steps);
        let assumptions = &certificate.assumptions;
        let average = constants.average_sensitivity.value;
        let (radius, margin) = certificate.stable.spectra();
        let object = json!({
            "verdict": words::verdict(self.verdict),
            "reason": self.reason,
            "average_sensitivity": average,
            "mu": constants.mu.value,
            "smoothness": constants.smoothness.value,
            "threshold": certificate.threshold(),
            "condition": certificate.condition(),
            "minimisation_radius": radius,
            "gradient_margin": margin,
            "largest_step": small.largest.or(point.and_then(|point| point.largest)),
            "stable_point": point.map(|point| &point.point.theta),
            "optimal_point": optimal.map(|optimal| &optimal.theta),
            "risk_stable": point.map(|point| point.risk),
            "risk_optimal": optimal.map(|optimal| optimal.risk),
            "price_of_stability": point.and_then(|point| point.price),
            "degenerate": certificate.degeneracy.is_degenerate(),
            "per_client": self.clients(),
            "tips": self.tips,
            "minimisation": {
                "settles": judgement.minimisation.settles,
                "why": self.whys[0],
            },
            "own_steps": {
                "settles": own.answer.settles,
                "why": self.whys[1],
                "rounds": own.rounds,
                "peak": own.peak,
                "floor": own.floor,
                "scale": finite(own.scale),
            },
            "small_steps": {
                "settles": small.answer.settles,
                "why": self.whys[2],
                "largest_step": small.largest,
                "largest_step_in_mean": small.largest_in_mean,
                "constant": small.constant,
                "beta": small.decaying.map(|(beta, _)| beta),
                "gamma": small.decaying.map(|(_, gamma)| gamma),
            },
            "constants": {
                "average_sensitivity": constant(&constants.average_sensitivity),
                "mu": constant(&constants.mu),
                "smoothness": constant(&constants.smoothness),
            },
            "assumptions": {
                "ball": assumptions.ball,
                "mu": assumptions.mu,
                "smoothness": assumptions.smoothness,
                "condition": average.and_then(|average| assumptions.condition(average)),
                "words": words::assumptions(assumptions),
            },
            "stable_points": certificate.points.iter().map(local).collect::<Vec<_>>(),
            "local_optima": optimal.map(|optimal| optimal.minima),
            "approximation": {
                "distance": certificate.approximation.distance,
                "proposition": certificate.approximation.proposition.ok(),
                "local": certificate.approximation.local,
                "why": words::approximation(&certificate.approximation),
            },
            "degeneracy": {
                "absorbed": certificate.degeneracy.absorbed,
                "stable_minus_static": certificate.degeneracy.stable_minus_static,
                "stable_minus_static_features": certificate.degeneracy.stable_minus_static_features,
                "stable_minus_optimal": certificate.degeneracy.stable_minus_optimal,
                "words": words::degeneracy(&certificate.degeneracy),
            },
            "trial": self.trial.as_ref().map(|trial| json!({
                "repetitions": trial.repetitions,
                "rounds": trial.rounds,
                "distance": trial.distance,
                "astray": trial.astray,
                "objection": trial.objection,
            })),
            "first_arrivals": self.speed.as_ref().map(|speed| json!({
                "inclusion": speed.inclusion,
                "effective_weights": speed.effective_weights,
                "away_from_stable_point": self.away,
            })),
            "confidence": self.confidence.as_ref().map(|confidence| {
                let shares = Verdict::ALL.iter().map(|verdict| {
                    (words::verdict(*verdict).to_string(), json!(confidence.share(*verdict)))
                });
                json!({
                    "resamples": confidence.resamples,
                    "shares": Value::Object(shares.collect::<Map<_, _>>()),
                })
            }),
        });
        with_doubts(with_table(object, self.table.as_ref()), &self.doubts)
    }

    fn clients(&self) -> Vec<Value> {
        let parts = self.certificate.clients.parts.iter().enumerate();
        parts
            .map(|(client, part)| {
                json!({
                    "client": self.client_name(client),
                    "weight": part.weight,
                    "sensitivity": part.sensitivity,
                    "share": part.share,
                    "risk": part.risk,
                    "without": part.without.map(|without| json!({
                        "verdict": words::verdict(without.verdict),
                        "minimisation_radius": without.minimisation_radius,
                        "gradient_margin": without.gradient_margin,
                        "average_sensitivity": without.average_sensitivity,
                    })),
                })
            })
            .collect()
    }
}

fn local(truth: &LocalTruth) -> Value {
    json!({
        "theta": truth.point.theta,
        "stability": words::stability(truth.point.stability()),
        "risk": truth.risk,
        "price_of_stability": truth.price,
        "minimisation_radius": truth.point.minimisation_radius,
        "gradient_margin": truth.point.gradient_margin,
        "largest_step": truth.largest,
        "largest_step_in_mean": truth.largest_in_mean,
        "bias": truth.bias.as_ref().map(|bias| json!({
            "step_size": bias.step_size,
            "local_steps": bias.local_steps,
            "noise": bias.noise,
            "spread": bias.spread,
        })),
    })
}

fn constant(constant: &Constant) -> Value {
    json!({
        "value": constant.value,
        "origin": words::origin(constant.how),
        "how": words::how(constant.how),
    })
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
