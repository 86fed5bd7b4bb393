//! Where retraining settles if a part of the problem is a function: the answer of `solve` from samples.
//!
//! The functions that a run asks are asked here too, for many models at once, under streams of their own
//! that stay the same from question to question. Theory's numbers then belong to one sample; several of
//! them, independent of each other, give the numbers' means and standard errors. Of a table every row is
//! asked: one sample, and no error.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use fedback_core::base::Base;
use fedback_core::federation::ClientId;
use fedback_core::stream::{Purpose, Streams};
use fedback_engine::plain::{Blocks, Judged, Member};
use fedback_engine::work::WorkError;
use fedback_theory::sampled::{Field, Place, Root, Sample, Sampled};
use fedback_theory::stable::Stability;
use nalgebra::DVector;
use serde::Serialize;

use crate::custom::{Custom, SAMPLE};
use crate::error::Error;
use crate::solution::{Details, Minimisation, Solution};
use crate::words::short;

/// Independent samples.
const REPETITIONS: u64 = 16;
/// Coordinates beyond which matrices of differences are too dear.
const MOST_COORDINATES: usize = 600;
/// Coordinates up to which the optimal point is searched.
const MOST_SEARCHED: usize = 50;
/// Standard errors beyond which a sign is believed: of 16 samples, one in a thousand errs.
const SURE: f64 = 4.0;
/// Coordinates of models that functions are asked about.
const FARTHEST: f64 = 1e12;
/// Two searches that end so near, in units of the model's size, found one point.
const SAME: f64 = 1e-4;

/// What an answer rests on.
#[derive(Clone, Debug, Serialize)]
pub struct Samples {
    /// Observations a client in each; none where all rows of a table were asked.
    pub observations: Option<u64>,
    /// How many independent ones.
    pub repetitions: u64,
    /// Whether gradients move smoothly with the model and with what is deployed; none where there was
    /// no point to look at.
    pub smooth: Option<bool>,
}

/// Standard errors of the numbers of the same names.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StandardErrors {
    /// By coordinate.
    pub stable_point: Option<Vec<f64>>,
    /// Of f(θ^PS; θ^PS).
    pub risk_stable: Option<f64>,
    /// By coordinate.
    pub optimal_point: Option<Vec<f64>>,
    /// Of f(θ^PO; θ^PO).
    pub risk_optimal: Option<f64>,
    /// Of the radius.
    pub minimisation_radius: Option<f64>,
    /// Of the margin.
    pub gradient_margin: Option<f64>,
}

/// A custom problem's functions, asked on one sample.
struct Asked<'a, B> {
    custom: &'a Custom<B>,
    repetition: u64,
    stop: &'a AtomicBool,
    failed: &'a Mutex<Option<WorkError>>,
}

impl<B: Blocks> Asked<'_, B> {
    fn ask(&self, places: &[Place], out: &mut [Field]) -> Result<(), WorkError> {
        let (plan, blocks) = (&self.custom.plan, self.custom.gradients());
        let (dim, observations) = (plan.dim, observations(self.custom));
        let streams = Streams::new(plan.seed(), self.repetition, 0, Purpose::Sample);
        let counting = || (0..plan.clients()).filter(|client| plan.weights[*client] > 0.0);
        let asked: Vec<(usize, usize)> =
            (0..places.len()).flat_map(|place| counting().map(move |one| (place, one))).collect();
        for asked in asked.chunks(blocks.together(observations)) {
            let member =
                |&(_, client): &(usize, usize)| Member { streams, client: ClientId(client as u32) };
            let members: Vec<Member> = asked.iter().map(member).collect();
            let models = |of: fn(&Place) -> &DVector<f64>| -> Vec<f64> {
                asked
                    .iter()
                    .flat_map(|(place, _)| of(&places[*place]).as_slice())
                    .copied()
                    .collect()
            };
            let (theta, deployed) = (models(|place| &place.theta), models(|place| &place.deployed));
            let batch = match observations {
                Some(count) => {
                    let mut cursor = blocks.cursor(&members)?;
                    Some(blocks.draw(&mut cursor, &deployed, count)?)
                }
                None => blocks.everything(&members, &deployed)?,
            };
            let unlisted =
                || WorkError { client: 0, reason: "observations cannot be listed".into() };
            let batch = batch.ok_or_else(unlisted)?;
            let (mut losses, mut gradients) = (vec![0.0; members.len()], vec![0.0; theta.len()]);
            let judged = Judged { losses: &mut losses, gradients: &mut gradients };
            blocks.gradients(&members, &theta, &batch, None, judged)?;
            let each = asked.iter().zip(&losses).zip(gradients.chunks_exact(dim));
            for (((place, client), loss), gradient) in each {
                let (weight, field) = (plan.weights[*client], &mut out[*place]);
                field.risk += weight * loss;
                field.gradient.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += weight * g);
            }
        }
        Ok(())
    }
}

impl<B: Blocks> Sample for Asked<'_, B> {
    fn dim(&self) -> usize {
        self.custom.plan.dim
    }

    fn fields(&self, places: &[Place]) -> Vec<Field> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fields =
            vec![Field { risk: 0.0, gradient: DVector::zeros(self.dim()) }; places.len()];
        let models = places.iter().flat_map(|place| place.theta.iter().chain(&place.deployed));
        let within = models.into_iter().all(|number| number.abs() <= FARTHEST);
        if within && failed.is_none() && !self.stop.load(Ordering::Relaxed) {
            match self.ask(places, &mut fields) {
                Ok(()) => return fields,
                Err(error) => *failed = Some(error),
            }
        }
        let nothing =
            Field { risk: f64::NAN, gradient: DVector::from_element(self.dim(), f64::NAN) };
        vec![nothing; places.len()]
    }
}

/// Observations a client; none where there are rows to be listed.
fn observations<B: Blocks>(custom: &Custom<B>) -> Option<usize> {
    match &custom.plan.populations().population {
        Some((Base::Table(_), _)) => None,
        _ => Some(custom.plan.spec.measure.sample.map_or(SAMPLE, |sample| sample.0) as usize),
    }
}

/// A number on every sample.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    /// Its mean.
    pub(crate) mean: f64,
    /// That of the mean; none of one sample, which is all there is.
    pub(crate) standard_error: Option<f64>,
}

impl Estimate {
    /// None where a sample has none.
    fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let standard_error = (count > 1.0).then(|| (squares / (count - 1.0) / count).sqrt());
        mean.is_finite().then_some(Estimate { mean, standard_error })
    }

    /// Of every coordinate.
    fn of_models(models: &[Vec<f64>]) -> (Vec<f64>, Option<Vec<f64>>) {
        let dim = models.first().map_or(0, Vec::len);
        let each = |j: usize| Estimate::of(models.iter().map(|model| Some(model[j])));
        let all: Vec<Estimate> = (0..dim).filter_map(each).collect();
        let errors = all.iter().map(|one| one.standard_error).collect();
        (all.iter().map(|one| one.mean).collect(), errors)
    }

    /// Its sign, where it is beyond doubt.
    fn is_above(&self, level: f64) -> Option<bool> {
        let doubt = SURE * self.standard_error.unwrap_or(0.0) + 1e-6 * (1.0 + self.mean.abs());
        ((self.mean - level).abs() > doubt).then_some(self.mean > level)
    }

    fn words(&self) -> String {
        match self.standard_error {
            Some(error) => format!("{} ± {}", short(self.mean), short(error)),
            None => short(self.mean),
        }
    }
}

/// What samples say of a problem.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sampling {
    pub(crate) smooth: Option<bool>,
    /// The stable points of the first sample, the one that is followed through the others first.
    points: Vec<Vec<f64>>,
    root: Option<Root>,
    /// On every sample, that point and the optimal one.
    stable: Vec<Vec<f64>>,
    optimal: Vec<Vec<f64>>,
    risk_stable: Option<Estimate>,
    risk_optimal: Option<Estimate>,
    radius: Option<Estimate>,
    pub(crate) margin: Option<Estimate>,
    /// Whether repeated minimisation was seen to come to that point from the start.
    reached: bool,
    /// √ of what one observation of every client adds to the squared gradient there.
    pub(crate) noise: f64,
    notes: Vec<String>,
}

impl Sampling {
    /// Asks the functions; an error is that of a function, or of the person who stopped it.
    pub(crate) fn of<B: Blocks>(custom: &Custom<B>, stop: &AtomicBool) -> Result<Self, Error> {
        let failed = Mutex::new(None);
        let sampling = Sampling::ask(custom, stop, &failed);
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            _ if stop.load(Ordering::Relaxed) => Err(Error::Interrupted("interrupted".into())),
            Some(error) => Err(Error::Failed(error.to_string())),
            None => Ok(sampling),
        }
    }

    fn ask<B: Blocks>(
        custom: &Custom<B>,
        stop: &AtomicBool,
        failed: &Mutex<Option<WorkError>>,
    ) -> Self {
        let plan = &custom.plan;
        let asked = |repetition| Asked { custom, repetition, stop, failed };
        let sample = |repetition, smooth| Sampled::new(asked(repetition), smooth);
        let mut found = Sampling::default();
        let first = sample(0, true);
        if !first.is_seeded(&plan.start) {
            return found.noted(
                "the functions answer the same question differently each time: draw from rng alone",
            );
        }
        if plan.dim > MOST_COORDINATES {
            let dim = plan.dim;
            return found.noted(format!(
                "θ has {dim} coordinates; up to {MOST_COORDINATES} are solved by differences"
            ));
        }
        let first = sample(0, first.is_smooth(&plan.start));
        let roots = roots(custom, &first);
        let attracts =
            |root: &Root| first.spectra(&root.theta).1.is_some_and(|margin| margin > 0.0);
        let place = roots.iter().position(attracts).unwrap_or(0);
        found.points = roots.iter().map(|root| root.theta.clone()).collect();
        let Some(root) = roots.into_iter().nth(place) else {
            return found.noted(
                "no stable point was found: from the start and from zeros, the averaged gradient at \
                 the deployed model has no root within reach",
            );
        };
        found.points.swap(0, place);
        let smooth = first.is_smooth(&root.theta);
        found.smooth = Some(smooth);
        found.root = Some(root);
        found.measure(custom, sample, smooth);
        found
    }

    /// Follows the stable and the optimal point through all samples.
    fn measure<'a, B: Blocks + 'a>(
        &mut self,
        custom: &Custom<B>,
        sample: impl Fn(u64, bool) -> Sampled<Asked<'a, B>>,
        smooth: bool,
    ) {
        let plan = &custom.plan;
        let from = self.points[0].clone();
        let (mut spectra, mut risks, mut best) = (Vec::new(), Vec::new(), Vec::new());
        let searched = plan.dim <= MOST_SEARCHED;
        let samples: Vec<_> = (0..repetitions(custom)).map(|k| sample(k, smooth)).collect();
        for sample in &samples {
            let root = sample.root(&from, true).filter(|root| {
                let away = distance(&root.theta, &from);
                away <= 0.5 * (1.0 + norm(&from))
            });
            let Some(root) = root else {
                self.stable.clear();
                self.notes.push("independent samples do not agree on a stable point".into());
                return;
            };
            let theta = root.theta;
            let (radius, margin) = match smooth && sample.is_smooth(&theta) {
                true => sample.spectra(&theta),
                false => {
                    self.smooth = Some(false);
                    (None, None)
                }
            };
            spectra.push((radius, margin));
            risks.push(Some(sample.risk(&theta)));
            if searched {
                let near = self.optimal.first().unwrap_or(&theta);
                if let Some(optimal) = sample.optimal(near) {
                    best.push(Some(sample.risk(&optimal)));
                    self.optimal.push(optimal);
                }
            }
            self.stable.push(theta);
        }
        self.risk_stable = Estimate::of(risks);
        if self.optimal.len() == samples.len() {
            self.risk_optimal = Estimate::of(best);
        } else {
            self.optimal.clear();
            self.notes.push(match searched {
                true => "no minimum of the risk was found from the stable point".into(),
                false => format!("the optimal point is searched up to {MOST_SEARCHED} coordinates"),
            });
        }
        self.radius = Estimate::of(spectra.iter().map(|(radius, _)| *radius));
        self.margin = Estimate::of(spectra.iter().map(|(_, margin)| *margin));
        if self.smooth == Some(false) {
            self.radius = None;
            self.margin = None;
            self.notes.push(
                "gradients jump or bend sharply with the model or with what is deployed under fixed \
                 random numbers: differences tell no margin and no radius"
                    .into(),
            );
        }
        let point = self.point();
        self.noise = noise(&samples, &point, observations(custom));
        let contracts = self.radius.as_ref().and_then(|radius| radius.is_above(1.0));
        if contracts == Some(false) && searched {
            self.reached = samples[0].minimisation_reaches(&plan.start, &self.stable[0]);
        }
        self.notes.extend(self.stability_in_words());
    }

    fn noted(mut self, why: impl Into<String>) -> Self {
        self.notes.push(why.into());
        self
    }

    /// The stable point, the mean over samples.
    pub(crate) fn point(&self) -> Vec<f64> {
        Estimate::of_models(&self.stable).0
    }

    /// What small steps do near it.
    pub(crate) fn stability(&self) -> Stability {
        match self.margin.as_ref().and_then(|margin| margin.is_above(0.0)) {
            Some(true) => Stability::Attracting,
            Some(false) => Stability::Repelling,
            None => Stability::Unknown,
        }
    }

    fn stability_in_words(&self) -> Option<String> {
        let margin = self.margin.as_ref()?;
        let words = margin.words();
        match self.stability() {
            Stability::Attracting => None,
            Stability::Repelling => Some(format!(
                "the stable point repels: an eigenvalue of H + J has the real part {words}, so small \
                 steps lead away from it"
            )),
            Stability::None | Stability::Unknown => Some(format!(
                "the margin is {words}: on these samples it cannot be told from zero (a larger \
                 measure.sample tells more)"
            )),
        }
    }

    /// What repeated minimisation does.
    pub(crate) fn minimisation(&self) -> Minimisation {
        let unknown = |why: String| Minimisation { settles: None, why };
        let Some(radius) = &self.radius else {
            return unknown("the radius of repeated risk minimisation is not known".into());
        };
        let words = radius.words();
        match radius.is_above(1.0) {
            Some(false) if self.reached => Minimisation {
                settles: Some(true),
                why: format!("contraction factor {words} per minimisation, below 1"),
            },
            Some(false) => unknown(format!(
                "contraction factor {words} per minimisation near the stable point, which it was not \
                 seen to reach from the start"
            )),
            Some(true) => {
                unknown(format!("the stable point that was found repels it (radius {words})"))
            }
            None => unknown(format!("its radius {words} cannot be told from 1 on these samples")),
        }
    }

    pub(crate) fn reason(&self) -> Option<String> {
        (!self.notes.is_empty()).then(|| self.notes.join("; "))
    }
}

/// Roots on a sample: near the stable point that the spec says, along the flow from the start, by
/// Newton's method from zeros.
fn roots<B: Blocks>(custom: &Custom<B>, sample: &Sampled<Asked<'_, B>>) -> Vec<Root> {
    let plan = &custom.plan;
    let said = plan.populations().stable_point.as_ref();
    let zeros = vec![0.0; plan.dim];
    let starts = said.map(|said| (said, true)).into_iter();
    let starts = starts.chain([(&plan.start, false), (&zeros, true)]);
    let mut roots: Vec<Root> = Vec::new();
    for (start, newton) in starts {
        let same = |root: &Root, other: &Root| {
            distance(&root.theta, &other.theta) <= SAME * (1.0 + norm(&root.theta))
        };
        if let Some(root) = sample.root(start, newton)
            && !roots.iter().any(|known| same(known, &root))
        {
            roots.push(root);
        }
    }
    roots
}

/// √ of the variance of F at a point for one observation a client, from how samples differ.
fn noise<S: Sample>(samples: &[Sampled<S>], point: &[f64], observations: Option<usize>) -> f64 {
    let Some(count) = observations else { return 0.0 };
    let gradients: Vec<Vec<f64>> = samples.iter().map(|sample| sample.gradient(point)).collect();
    let (_, errors) = Estimate::of_models(&gradients);
    let variance = |error: &f64| error * error * (samples.len() * count) as f64;
    errors.unwrap_or_default().iter().map(variance).sum::<f64>().sqrt()
}

/// Samples that are asked: one of a table.
fn repetitions<B: Blocks>(custom: &Custom<B>) -> u64 {
    observations(custom).map_or(1, |_| REPETITIONS)
}

pub(crate) fn norm(theta: &[f64]) -> f64 {
    theta.iter().map(|t| t * t).sum::<f64>().sqrt()
}

pub(crate) fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

impl Solution {
    /// Solves a problem of which a part is a function, on samples.
    pub fn sampled<B: Blocks>(custom: &Custom<B>, stop: &AtomicBool) -> Result<Self, Error> {
        Ok(Solution::of_samples(custom, &Sampling::of(custom, stop)?))
    }

    pub(crate) fn of_samples<B: Blocks>(custom: &Custom<B>, found: &Sampling) -> Self {
        let plan = &custom.plan;
        let (stable, stable_error) = Estimate::of_models(&found.stable);
        let (optimal, optimal_error) = Estimate::of_models(&found.optimal);
        let some = |theta: Vec<f64>| (!theta.is_empty()).then_some(theta);
        let mean = |one: &Option<Estimate>| one.as_ref().map(|one| one.mean);
        let error = |one: &Option<Estimate>| one.as_ref().and_then(|one| one.standard_error);
        let (stable, optimal) = (some(stable), some(optimal));
        let others = found.points.iter().skip(1).cloned();
        let details = stable.iter().zip(mean(&found.risk_stable)).map(|(theta, risk)| Details {
            theta: theta.clone(),
            stability: found.stability(),
            gradient_margin: mean(&found.margin),
            minimisation_radius: mean(&found.radius),
            risk,
            left: None,
        });
        Solution {
            format: 1,
            name: plan.spec.name.clone(),
            coordinates: plan.coordinates.clone(),
            stability: found.stability(),
            reason: found.reason(),
            risk_stable: mean(&found.risk_stable),
            risk_optimal: mean(&found.risk_optimal),
            minimisation_radius: mean(&found.radius),
            minimisation: found.minimisation(),
            gradient_margin: mean(&found.margin),
            iterations: found.root.as_ref().map(|root| root.iterations),
            residual: found.root.as_ref().map(|root| root.residual),
            stable_points: stable.iter().cloned().chain(others).collect(),
            stable_point_details: details.collect(),
            // The path is not followed on samples.
            reached_from_start: None,
            jump: None,
            optimal_reason: None,
            local_optima: None,
            rest: None,
            rest_reason: Some("rounds of a problem with functions are not linearised".into()),
            arrivals: None,
            table: plan.table.clone(),
            sample: Some(Samples {
                observations: observations(custom).map(|count| count as u64),
                repetitions: repetitions(custom),
                smooth: found.smooth,
            }),
            standard_error: Some(StandardErrors {
                stable_point: stable.as_ref().and(stable_error),
                risk_stable: error(&found.risk_stable),
                optimal_point: optimal.as_ref().and(optimal_error),
                risk_optimal: error(&found.risk_optimal),
                minimisation_radius: error(&found.radius),
                gradient_margin: error(&found.margin),
            }),
            stable_point: stable,
            optimal_point: optimal,
        }
    }
}
