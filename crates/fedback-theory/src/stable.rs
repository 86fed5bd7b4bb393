//! The performatively stable point θ^PS: the root of F(θ) = Σ p_i ∇f_i(θ; θ).
//!
//! Closed form where the problem is affine. Otherwise damped Newton on F′ = H + J from several
//! starts: along the gradient flow from where the run starts and from zeros, by Newton's method
//! from zeros, and from where repeated minimisation ends, and from points
//! around the static minimiser. Repeated minimisation is a start, not
//! the criterion: it oscillates on problems whose stable point exists and which P-FedAvg reaches.
//! The two have their own conditions at a stable point: minimisation contracts where the spectral
//! radius of H⁻¹J is below one, P-FedAvg with small steps where every eigenvalue of H + J has a
//! positive real part. Neither implies the other.

use fedback_core::federation::Federation;
use fedback_core::memory::Memory;
use fedback_core::population::Performative;
use fedback_core::response::Shift;
use nalgebra::{DMatrix, DVector};
use serde::{Serialize, Serializer};

use crate::minimisation::{self, Minimisation};
use crate::newton;
pub use crate::path::Jump;
use crate::path::{self, End};
use crate::spectrum;
use crate::starts::starts;

/// What P-FedAvg with small steps does near the stable point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// It is drawn in.
    Attracting,
    /// It is driven away.
    Repelling,
    /// There is no stable point.
    None,
    /// No stable point was found, or its margin is zero to rounding.
    Unknown,
}

impl Stability {
    /// As the JSON contract calls it.
    pub fn name(self) -> &'static str {
        match self {
            Stability::Attracting => "attracting",
            Stability::Repelling => "repelling",
            Stability::None => "none",
            Stability::Unknown => "unknown",
        }
    }
}

impl Serialize for Stability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One stable point.
#[derive(Clone, Debug)]
pub struct StablePoint {
    /// θ^PS.
    pub theta: Vec<f64>,
    /// |F(θ^PS)|.
    pub residual: f64,
    /// Newton iterations it took; 1 for a closed form.
    pub iterations: usize,
    /// The spectral radius of H⁻¹J, or with memory that of repeated minimisation and what is remembered;
    /// none where H is singular.
    pub minimisation_radius: Option<f64>,
    /// The smallest real part of an eigenvalue of H + J.
    pub gradient_margin: Option<f64>,
}

impl StablePoint {
    /// What P-FedAvg with small steps does near this point.
    pub fn stability(&self) -> Stability {
        match self.gradient_margin {
            Some(margin) if margin > 0.0 => Stability::Attracting,
            Some(margin) if margin < 0.0 => Stability::Repelling,
            _ => Stability::Unknown,
        }
    }
}

/// All that was found.
#[derive(Clone, Debug)]
pub struct StableReport {
    /// The stable points found, each once, the one that a run from the given start settles at
    /// first.
    pub points: Vec<StablePoint>,
    /// What there is to say of them: where there is none, the first one repels, or there are several.
    pub notes: Vec<Note>,
    /// The radius of repeated minimisation and the margin of small steps where they are the same everywhere.
    pub everywhere: Spectra,
    /// What repeated minimisation does from the given start.
    pub minimisation: Minimisation,
    /// The one at which the noise-free path of small steps from the start ends, by its place in the list;
    /// none where that is not known.
    pub reached: Option<usize>,
    /// Where that path ends at a place where the averaged gradient jumps.
    pub jump: Option<Jump>,
}

/// The radius of repeated minimisation and the margin of small steps.
pub type Spectra = (Option<f64>, Option<f64>);

impl StableReport {
    /// The stability of the first one.
    pub fn stability(&self) -> Stability {
        let none = |note: &Note| matches!(note, Note::Line | Note::None | Note::Jumps);
        let nowhere = self.notes.iter().any(none);
        let otherwise = if nowhere { Stability::None } else { Stability::Unknown };
        self.points.first().map_or(otherwise, StablePoint::stability)
    }

    /// The radius of repeated minimisation and the margin of small steps at the first one, or everywhere.
    pub fn spectra(&self) -> Spectra {
        let first = self.points.first();
        first.map_or(self.everywhere, |point| (point.minimisation_radius, point.gradient_margin))
    }

    /// The stable point that Newton's method finds from a point close to it.
    pub(crate) fn near(federation: &Federation, theta: &[f64]) -> Self {
        let points: Vec<_> = search(federation, theta, NEWTON).into_iter().collect();
        let radius = points.first().and_then(|point| point.minimisation_radius);
        StableReport::new(points, Minimisation::by_radius(radius))
    }

    fn new(points: Vec<StablePoint>, minimisation: Minimisation) -> Self {
        let notes = notes(&points);
        let reached = (points.len() == 1).then_some(0);
        StableReport { notes, points, everywhere: (None, None), minimisation, reached, jump: None }
    }
}

/// Something to say of stable points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Note {
    /// The numbers of the problem are so large that the stable point cannot be represented.
    TooFar,
    /// The average response cancels the average curvature, and all points of a line are stable.
    Line,
    /// The average response cancels the average curvature, and no point is stable.
    None,
    /// None was found from any start.
    NotFound,
    /// There is none where the path of small steps leads: the averaged gradient jumps there, and points
    /// towards the place from all sides ([`StableReport::jump`]).
    Jumps,
    /// So many were found.
    Several {
        /// How many.
        count: usize,
        /// How many of them attract small steps.
        attracting: usize,
    },
    /// An eigenvalue of H + J at the first one has this negative real part.
    Repels(f64),
    /// The first one attracts small steps, and repels repeated minimisation with this radius.
    RepelsMinimisation(f64),
    /// The smallest real part of an eigenvalue of H + J at the first one is zero to rounding.
    NoMargin,
}

/// A singular value this small against the size of the responses is zero.
const SINGULAR: f64 = 1e-12;
/// How cautiously searches begin: along the gradient flow, where P-FedAvg with small steps goes.
const FLOW: f64 = 0.5;
/// The same for Newton's method.
const NEWTON: f64 = f64::INFINITY;

/// Everything about the stable points of a problem.
pub fn stable_points(federation: &Federation, start: &[f64]) -> StableReport {
    match federation.is_affine() {
        true => affine(federation),
        false => general(federation, start),
    }
}

/// The stable point that a run from `start` settles at, without looking for others where the first
/// search is successful.
pub fn stable_point(federation: &Federation, start: &[f64]) -> Option<Vec<f64>> {
    let affine = federation.is_affine();
    let first = if affine { None } else { search(federation, start, FLOW) };
    first
        .filter(|point| point.stability() == Stability::Attracting)
        .or_else(|| stable_points(federation, start).points.into_iter().next())
        .map(|point| point.theta)
}

/// The stable point of an affine problem, or why there is none.
type ClosedForm = Result<Vec<f64>, Note>;

fn affine(federation: &Federation) -> StableReport {
    let (found, spectra) = match federation.shift().is_some_and(Shift::is_diagonal) {
        true => by_coordinate(federation),
        false => by_matrix(federation),
    };
    let (minimisation_radius, gradient_margin) = spectra;
    let found = found.and_then(|theta| {
        let residual = federation.mean_field(&theta, &theta).gradient.norm();
        let point =
            StablePoint { theta, residual, iterations: 1, minimisation_radius, gradient_margin };
        residual.is_finite().then_some(point).ok_or(Note::TooFar)
    });
    let none = found.as_ref().err().copied();
    let points: Vec<StablePoint> = found.into_iter().collect();
    StableReport {
        notes: none.map_or_else(|| notes(&points), |note| vec![note]),
        reached: points.first().filter(|p| p.stability() == Stability::Attracting).map(|_| 0),
        points,
        everywhere: spectra,
        minimisation: Minimisation::by_radius(minimisation_radius),
        jump: None,
    }
}

/// Coordinates that do not mix: (1 − ε̄_j) θ_j = m̄_j for each.
fn by_coordinate(federation: &Federation) -> (ClosedForm, Spectra) {
    let dim = federation.dim();
    let shift = federation.shift().unwrap_or(&Shift::None);
    let (mut mean, mut reaction) = (vec![0.0; dim], vec![0.0; dim]);
    for (client, &p) in federation.weights().iter().enumerate() {
        let base = federation.population(client).base_mean();
        for j in 0..dim {
            mean[j] += p * base[j];
            reaction[j] += p * shift.diagonal(client, j);
        }
    }
    let largest = reaction.iter().fold(0.0f64, |largest, e| largest.max(e.abs()));
    let margin = reaction.iter().fold(f64::INFINITY, |least, e| least.min(1.0 - e));
    let negligible = SINGULAR * (1.0 + largest);
    let radius = |epsilon: &f64| {
        minimisation::radius(
            minimisation::memory(federation),
            &DMatrix::from_element(1, 1, *epsilon),
        )
    };
    let radii = reaction.iter().try_fold(0.0, |most: f64, e| Some(most.max(radius(e)?)));
    let spectra = (radii, Some(margin));
    if reaction.iter().all(|e| (1.0 - e).abs() > negligible) {
        let theta = mean.iter().zip(&reaction).map(|(m, e)| m / (1.0 - e)).collect();
        return (Ok(theta), spectra);
    }
    let stuck = |j: &usize| (1.0 - reaction[*j]).abs() <= negligible;
    let zero = 1e-9 * (1.0 + norm(&mean));
    (Err(nowhere((0..dim).filter(stuck).all(|j| mean[j].abs() <= zero))), spectra)
}

fn by_matrix(federation: &Federation) -> (ClosedForm, Spectra) {
    let zeros = vec![0.0; federation.dim()];
    let field = federation.mean_field(&zeros, &zeros);
    let derivative = &field.curvature + &field.reaction;
    let spectra = spectra(minimisation::memory(federation), &field.curvature, &field.reaction);
    if !derivative.iter().all(|entry| entry.is_finite()) {
        return (Err(Note::TooFar), spectra);
    }
    let singular = derivative.clone().svd(true, true);
    let negligible = SINGULAR * (1.0 + field.reaction.amax());
    let away = -&field.gradient;
    if singular.singular_values.min() > negligible {
        let theta = derivative.lu().solve(&away).map_or(zeros, |theta| theta.as_slice().to_vec());
        return (Ok(theta), spectra);
    }
    let reached = singular
        .solve(&away, negligible)
        .map_or_else(|_| DVector::zeros(away.len()), |x| derivative * x);
    (Err(nowhere((reached - &away).norm() <= 1e-9 * (1.0 + away.norm()))), spectra)
}

/// The average response cancels the average curvature; are the equations that it leaves consistent?
fn nowhere(consistent: bool) -> Note {
    if consistent { Note::Line } else { Note::None }
}

fn general(federation: &Federation, start: &[f64]) -> StableReport {
    let minimisation = Minimisation::from_start(federation, start);
    let mut points: Vec<StablePoint> = Vec::new();
    let look = |points: &mut Vec<StablePoint>, from: &[f64], caution: f64| {
        let found = search(federation, from, caution);
        let new = |found: &StablePoint| !points.iter().any(|p| is_same(&p.theta, &found.theta));
        points.extend(found.filter(new));
    };
    look(&mut points, start, FLOW);
    look(&mut points, &vec![0.0; federation.dim()], NEWTON);
    minimisation.end.iter().for_each(|end| look(&mut points, end, NEWTON));
    starts(federation).iter().for_each(|from| look(&mut points, from.as_slice(), FLOW));
    ways_out(&points).iter().for_each(|from| look(&mut points, from, FLOW));
    between(&points).iter().for_each(|from| look(&mut points, from, NEWTON));
    // A run settles at an attracting point; the sort keeps the order of the searches otherwise.
    points.sort_by_key(|point| point.stability() != Stability::Attracting);
    let mut end = path::follow(federation, start, &points);
    if let End::At(place) = end {
        points[..=place].rotate_right(1);
        end = End::At(0);
    }
    let minimisation = minimisation.among(&points);
    let mut report = StableReport::new(points, minimisation);
    report.reached = (end == End::At(0)).then_some(0);
    if let End::Jump(place) = end {
        if report.points.is_empty() {
            report.notes.clear();
        }
        report.notes.push(Note::Jumps);
        report.jump = Some(place);
    }
    report
}

/// Pairs of stable points that are looked between; more would cost more than they find.
const MOST_PAIRS: usize = 6;

/// Points on the way from one attracting point to another: somewhere there the one's basin ends, at a
/// point that repels.
fn between(points: &[StablePoint]) -> Vec<Vec<f64>> {
    let attracting = || points.iter().filter(|point| point.stability() == Stability::Attracting);
    let pairs = attracting()
        .enumerate()
        .flat_map(|(place, a)| attracting().skip(place + 1).map(move |b| (&a.theta, &b.theta)));
    let on_the_way = |(a, b): (&Vec<f64>, &Vec<f64>)| {
        [0.5, 0.3, 0.7].map(|part| a.iter().zip(b).map(|(a, b)| a + part * (b - a)).collect())
    };
    pairs.take(MOST_PAIRS).flat_map(on_the_way).collect()
}

/// Points to both sides of every stable point that repels: the flow leads from there to others.
fn ways_out(points: &[StablePoint]) -> Vec<Vec<f64>> {
    let repelling = points.iter().filter(|point| point.stability() != Stability::Attracting);
    repelling.flat_map(|point| [0.2, -0.2].map(|by| aside(&point.theta, by, 0.5))).collect()
}

/// Beside a point by a share of its size, in a direction that no symmetry is likely to share: multiples
/// of the golden ratio less `centre`.
pub(crate) fn aside(theta: &[f64], share: f64, centre: f64) -> Vec<f64> {
    let by = share * (1.0 + norm(theta));
    let golden = |j: usize| ((j + 1) as f64 * 0.618_034).fract();
    theta.iter().enumerate().map(|(j, t)| t + by * (golden(j) - centre)).collect()
}

fn notes(points: &[StablePoint]) -> Vec<Note> {
    let Some(first) = points.first() else { return vec![Note::NotFound] };
    let attracting = points.iter().filter(|p| p.stability() == Stability::Attracting).count();
    let several = Note::Several { count: points.len(), attracting };
    let own = match first.stability() {
        Stability::Repelling => first.gradient_margin.map(Note::Repels),
        Stability::Attracting => {
            let repels = first.minimisation_radius.filter(|radius| *radius >= 1.0);
            repels.map(Note::RepelsMinimisation)
        }
        Stability::None | Stability::Unknown => Some(Note::NoMargin),
    };
    (points.len() > 1).then_some(several).into_iter().chain(own).collect()
}

fn search(federation: &Federation, start: &[f64], caution: f64) -> Option<StablePoint> {
    let start = DVector::from_column_slice(start);
    let (theta, iterations) = newton::root(&start, caution, |at| {
        let field = federation.mean_field(at, at);
        (field.gradient, field.curvature + field.reaction)
    })?;
    let theta = theta.as_slice().to_vec();
    let field = federation.mean_field(&theta, &theta);
    let zeros = vec![0.0; theta.len()];
    let scale = federation.mean_field(&zeros, &zeros).gradient.norm().max(1.0);
    let residual = field.gradient.norm();
    let (minimisation_radius, gradient_margin) =
        spectra(minimisation::memory(federation), &field.curvature, &field.reaction);
    (residual <= 1e-8 * scale).then_some(StablePoint {
        theta,
        residual,
        iterations,
        minimisation_radius,
        gradient_margin,
    })
}

/// argmin f(·; deployed), searched from `start`.
pub(crate) fn minimiser(
    federation: &Federation,
    deployed: &[f64],
    start: &DVector<f64>,
) -> Option<DVector<f64>> {
    newton::minimise(start, |at| {
        let field = federation.mean_field(at, deployed);
        Performative { risk: field.risk, gradient: field.gradient, hessian: field.curvature }
    })
}

/// The radius of repeated minimisation and the margin of small steps.
pub(crate) fn spectra(
    memory: Option<Memory>,
    curvature: &DMatrix<f64>,
    reaction: &DMatrix<f64>,
) -> Spectra {
    let reply = curvature.clone().lu().solve(&-reaction);
    let radius = reply.and_then(|reply| minimisation::radius(memory, &reply));
    (radius, spectrum::smallest_real_part(&(curvature + reaction)))
}

/// Whether two searches found one point.
pub(crate) fn is_same(a: &[f64], b: &[f64]) -> bool {
    distance(a, b) <= 1e-6 * (1.0 + norm(a))
}

/// |a − b|.
pub(crate) fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// |θ|.
pub(crate) fn norm(theta: &[f64]) -> f64 {
    theta.iter().map(|t| t * t).sum::<f64>().sqrt()
}
