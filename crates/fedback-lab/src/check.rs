//! The stability certificate of a plan: verdict, numbers, a picture.
//!
//! Theory certifies. Where a problem is not affine its certificate rests on linearised noise, so that
//! *settles* is tried as well: a few seeded repetitions of the run itself must end where it was said
//! ([`trial`]).

mod answer;
mod confidence;
mod lying;
mod picture;
mod sampled;
pub mod trial;
pub mod words;

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_theory::certificate::{Case, Certificate, LocalTruth, Verdict};
use fedback_theory::stable;
use rayon::iter::{ParallelBridge, ParallelIterator};
use serde::Serialize;

use crate::dynamics::Dynamics;
use crate::error::Error;
use crate::plan::Plan;
use crate::sampled::{Samples, StandardErrors};
use crate::solution::Minimisation;
use crate::spec;
use crate::table_summary::TableSummary;
use crate::words::short;
use trial::Trial;

pub use answer::{
    Approximation, Assumptions, Client, Constant, Constants, Degeneracy, FirstArrivals, OwnSteps,
    SmallSteps,
};
pub use confidence::Confidence;
pub use lying::{Lie, Lies};
pub use picture::picture;

/// Rows of all resamples together that are judged where every judgement reads the rows again and again.
const AFFORDABLE: usize = 60_000;
/// Where no reason is given.
const NOWHERE: &str = "no stable point is known";
/// Resamples below which a share says little.
const FEWEST: usize = 40;

/// The answer of `fedback check`.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The verdict: the certificate's, unless a trial speaks against it.
    pub verdict: Verdict,
    /// In one sentence.
    pub reason: String,
    /// ε̄.
    pub average_sensitivity: Option<f64>,
    /// μ.
    pub mu: Option<f64>,
    /// L.
    pub smoothness: Option<f64>,
    /// μ/L.
    pub threshold: Option<f64>,
    /// Whether the paper's condition ε̄ < μ/L is met.
    pub condition: Option<bool>,
    /// The spectral radius of repeated minimisation, where it can be told.
    pub minimisation_radius: Option<f64>,
    /// The margin of small gradient steps, where it can be told.
    pub gradient_margin: Option<f64>,
    /// The largest constant step size up to which squared errors shrink.
    pub largest_step: Option<f64>,
    /// θ^PS: the one that the run is about.
    pub stable_point: Option<Vec<f64>>,
    /// θ^PO.
    pub optimal_point: Option<Vec<f64>>,
    /// f(θ^PS; θ^PS).
    pub risk_stable: Option<f64>,
    /// f(θ^PO; θ^PO).
    pub risk_optimal: Option<f64>,
    /// Their difference.
    pub price_of_stability: Option<f64>,
    /// Whether nothing here is performative.
    pub degenerate: bool,
    /// Every client's part.
    pub per_client: Vec<Client>,
    /// Who tips the federation over, in one sentence.
    pub tips: String,
    /// What repeated minimisation does.
    pub minimisation: Minimisation,
    /// What the plan's own step sizes do: the certificate's answer, unless a trial speaks against it.
    pub own_steps: OwnSteps,
    /// The same of small steps.
    pub small_steps: SmallSteps,
    /// The constants of the paper's condition.
    pub constants: Constants,
    /// Where the assumptions behind it hold.
    pub assumptions: Assumptions,
    /// All stable points found, the one that the run is about first.
    pub stable_points: Vec<LocalTruth>,
    /// How many local minima of the risk were found.
    pub local_optima: Option<usize>,
    /// How far the stable point is from the optimal one.
    pub approximation: Approximation,
    /// Whether the reaction matters at all.
    pub degeneracy: Degeneracy,
    /// What the run itself said, where it was asked.
    pub trial: Option<Trial>,
    /// What speed makes of the weights, for first arrivals.
    pub first_arrivals: Option<FirstArrivals>,
    /// What was tried of clients that lie.
    pub lying: Option<Lies>,
    /// The share of every verdict among resampled estimates, where the response was fitted.
    pub confidence: Option<Confidence>,
    /// What the table was found to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableSummary>,
    /// What the spec doubts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// What the answer rests on, where a part of the problem is a function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Samples>,
    /// How far its numbers may be off, then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<StandardErrors>,
}

/// How far first arrivals settle from the stable point of the problem itself.
fn away(plan: &Plan, point: Option<&LocalTruth>) -> Option<f64> {
    let there = &point?.theta;
    let own = stable::stable_point(plan.federation(), &plan.start)?;
    Some(own.iter().zip(there).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt())
}

impl Check {
    /// Checks a plan; `stage` is told what is being done. Of a plan that shortens updates it is judged
    /// what it would be without that.
    pub fn of(plan: &Plan, stage: &mut dyn FnMut(&'static str)) -> Result<Self, Error> {
        let mut check = match plan.protocol.clip {
            None => Check::judged(plan, stage)?,
            Some(_) => {
                let free = plan.with(|spec| spec.algorithm.rounds_mut().clip = None)?;
                let mut check = Check::judged(&free, stage)?;
                let (equal, words) = (check.verdict.name(), &check.reason);
                check.reason = format!(
                    "algorithm.clip shortens updates, which is not linear in the clients' work, so \
                     that nothing is certain; without it, it would be: {equal} ({words})"
                );
                check.verdict = Verdict::Unknown;
                check
            }
        };
        let point = check.stable_point.as_deref();
        let mut lies = lying::bounds(plan, point);
        if plan.protocol.clip.is_some() {
            stage("trying lies");
            check.lying = lying::try_out(plan, point, &mut lies);
        }
        check.per_client.iter_mut().zip(lies).for_each(|(client, lie)| client.lying = lie);
        Ok(check)
    }

    /// What is certified, tried and resampled.
    fn judged(plan: &Plan, stage: &mut dyn FnMut(&'static str)) -> Result<Self, Error> {
        // A file that is wrong is said before anything takes time.
        let resamples = plan.resampled()?;
        if plan.arrivals.is_some() {
            stage("looking who is first");
        }
        let dynamics = Dynamics::of(plan)?;
        let (federation, protocol) = (dynamics.federation.as_ref(), &dynamics.protocol);
        let (arrived, rounds) = (dynamics.arrived.as_ref(), plan.spec.rounds.0);
        let certificate =
            Certificate::of(federation, protocol, arrived, &plan.start, rounds, stage);
        let mut check = Check::certified(plan, &dynamics, &certificate);
        if !federation.is_affine() && dynamics.unknown.is_none() {
            stage("trying");
            check.try_out(plan, &dynamics, &certificate);
        }
        let (own, small) = (check.own_steps.settles, check.small_steps.settles);
        let nowhere = certificate.judgement.nowhere;
        check.verdict = Verdict::of(check.minimisation.settles, own, small, nowhere);
        check.reason = words::reason(&check, protocol);
        if let Some(why) = &dynamics.unknown {
            let (equal, words) = (check.verdict.name(), &check.reason);
            check.reason =
                format!("{why}; were all clients equally fast it would be: {equal} ({words})");
            check.verdict = Verdict::Unknown;
        }
        if let Some(resamples) = resamples {
            stage("judging resamples");
            check.confidence = confidence(plan, &dynamics, resamples);
        }
        Ok(check)
    }

    /// What theory says, before its reason is given in words.
    fn certified(plan: &Plan, dynamics: &Dynamics<'_>, certificate: &Certificate) -> Self {
        let (judgement, constants) = (&certificate.judgement, &certificate.constants);
        let (own, small) = (&judgement.own_steps, &judgement.small_steps);
        let (point, optimal) = (certificate.point(), certificate.optimal.as_ref());
        let nowhere = crate::words::stable(&certificate.stable).unwrap_or_else(|| NOWHERE.into());
        let (minimisation_radius, gradient_margin) = certificate.stable.spectra();
        let names = dynamics.federation.client_names();
        // A best response moves against θ, and a spec counts that as positive.
        let best = matches!(plan.spec.problem.response, spec::Response::BestResponse(_));
        let sign = if best { -1.0 } else { 1.0 };
        let parts = certificate.clients.parts.iter().cloned().enumerate();
        let per_client = parts.map(|(client, part)| {
            let shift = dynamics.federation.shift().filter(|_| !dynamics.federation.weighs());
            let signed = shift.and_then(|shift| shift.signed_sensitivity(client, plan.dim));
            Client {
                client: names.map_or(client.to_string(), |names| names[client].clone()),
                signed_sensitivity: signed.map(|signed| sign * signed + 0.0),
                part,
                lying: Lie { one_round: None, tried: None },
            }
        });
        let per_client: Vec<Client> = per_client.collect();
        let tips = words::tips(&certificate.clients, |client| {
            let Client { client: name, part, .. } = &per_client[client];
            let name = names.map_or(format!("client {name}"), |_| format!("\"{name}\""));
            let (weight, sensitivity) = (part.weight, per_client[client].sensitivity());
            format!("{name} (weight {}, sensitivity {})", short(weight), short(sensitivity))
        });
        let first_arrivals = dynamics
            .speed
            .clone()
            .map(|speed| FirstArrivals { speed, away_from_stable_point: away(plan, point) });
        Check {
            verdict: judgement.verdict(),
            reason: String::new(),
            average_sensitivity: constants.average_sensitivity.value,
            mu: constants.mu.value,
            smoothness: constants.smoothness.value,
            threshold: certificate.threshold(),
            condition: certificate.condition(),
            minimisation_radius,
            gradient_margin,
            largest_step: small.largest_step.or(point.and_then(|point| point.largest_step)),
            stable_point: point.map(|point| point.theta.clone()),
            optimal_point: optimal.map(|optimal| optimal.theta.clone()),
            risk_stable: point.map(|point| point.risk),
            risk_optimal: optimal.map(|optimal| optimal.risk),
            price_of_stability: point.and_then(|point| point.price_of_stability),
            degenerate: certificate.degeneracy.is_degenerate(),
            per_client,
            tips,
            minimisation: Minimisation::of(&judgement.minimisation),
            own_steps: OwnSteps::new(own, words::why(&own.answer.why, &nowhere, false)),
            small_steps: SmallSteps::new(small, words::why(&small.answer.why, &nowhere, true)),
            constants: Constants::new(constants),
            assumptions: Assumptions::new(
                certificate.assumptions,
                constants.average_sensitivity.value,
            ),
            stable_points: certificate.points.clone(),
            local_optima: optimal.map(|optimal| optimal.minima),
            approximation: Approximation::new(&certificate.approximation),
            degeneracy: Degeneracy::new(certificate.degeneracy),
            trial: None,
            first_arrivals,
            lying: None,
            confidence: None,
            table: plan.table.clone(),
            doubts: plan.spec.doubts.clone(),
            sample: None,
            standard_error: None,
        }
    }

    /// Tries what theory says of steps by running them.
    fn try_out(&mut self, plan: &Plan, dynamics: &Dynamics<'_>, certificate: &Certificate) {
        let (own, small) = (&mut self.own_steps, &mut self.small_steps);
        if !trial::of_named_steps(plan, dynamics, certificate, small) {
            small.settles = None;
            small.why =
                "small steps lead to the stable point, but none were found that do so in a \
                         trial"
                    .into();
        }
        if own.settles == Some(true) {
            self.trial = trial::of(plan, certificate);
        }
        if let Some(why) = self.trial.as_ref().and_then(|trial| trial.objection.as_ref()) {
            own.settles = None;
            own.why = format!("it should settle, but a trial run did not: {why}");
        }
    }
}

/// Whether a plan settles with its own step sizes, by theory alone: yes, no, or not known. A verdict
/// takes longer, and says why.
pub fn settles(plan: &Plan) -> Result<Option<bool>, Error> {
    if plan.protocol.clip.is_some() {
        return Ok(None);
    }
    let dynamics = Dynamics::of(plan)?;
    let (federation, arrived) = (dynamics.federation.as_ref(), dynamics.arrived.as_ref());
    let stable = stable::stable_points(federation, &plan.start);
    let case = Case::new(federation, arrived, &plan.start, &stable);
    let answer = case.outlook(&dynamics.protocol).answer;
    Ok(answer.settles.filter(|_| dynamics.unknown.is_none()))
}

/// The share of every verdict among resampled problems; of those of a large table the first, as many
/// as some seconds allow.
fn confidence(
    plan: &Plan,
    dynamics: &Dynamics<'_>,
    resamples: impl Iterator<Item = Federation> + Send,
) -> Option<Confidence> {
    let most = match plan.federation().base() {
        Base::Table(table) if !plan.federation().is_affine() => {
            (AFFORDABLE / table.len().max(1)).max(FEWEST)
        }
        Base::Table(_) | Base::Gaussian(_) => usize::MAX,
    };
    let (protocol, arrived) = (&dynamics.protocol, dynamics.arrived.as_ref());
    let weights = dynamics.federation.weights();
    let resamples = resamples.filter_map(|one| one.with_weights(weights.clone()).ok());
    let judged = resamples.take(most).par_bridge().map(|one| {
        let stable = stable::stable_points(&one, &plan.start);
        Case::new(&one, arrived, &plan.start, &stable).judge(protocol).verdict()
    });
    Confidence::of(judged.collect::<Vec<_>>())
}
