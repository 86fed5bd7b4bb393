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
use nalgebra::{DMatrix, DVector};

use crate::minimisation::Minimisation;
use crate::newton::{self, Smooth};
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
    /// The word of the JSON contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Stability::Attracting => "attracting",
            Stability::Repelling => "repelling",
            Stability::None => "none",
            Stability::Unknown => "unknown",
        }
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
    /// The spectral radius of H⁻¹J; none where H is singular.
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
    /// The stability of the first one.
    pub stability: Stability,
    /// What there is to say of them: where there is none, the first one repels, or there are several.
    pub notes: Vec<Note>,
    /// Where there is no stable point but the derivatives are the same everywhere: the radius and
    /// the margin all the same.
    pub everywhere: Option<Spectra>,
    /// Whether there is a whole line of stable points, of which none is listed.
    pub line: bool,
    /// What repeated minimisation does from the given start.
    pub minimisation: Minimisation,
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
    /// So many were found.
    Several {
        /// How many.
        count: usize,
        /// How many of them attract small steps.
        attracting: usize,
    },
    /// An eigenvalue of H + J at the first one has this negative real part.
    Repels {
        /// The real part.
        margin: f64,
    },
    /// The first one attracts small steps, and repels repeated minimisation with this radius.
    RepelsMinimisation {
        /// The radius.
        radius: f64,
    },
    /// The smallest real part of an eigenvalue of H + J at the first one is zero to rounding.
    NoMargin,
}

/// A singular value this small against the size of the responses is zero.
const SINGULAR: f64 = 1e-12;

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
    if !federation.is_affine() {
        let attracting =
            flow(federation, start).filter(|point| point.stability() == Stability::Attracting);
        if let Some(point) = attracting {
            return Some(point.theta);
        }
    }
    stable_points(federation, start).points.into_iter().next().map(|point| point.theta)
}

fn affine(federation: &Federation) -> StableReport {
    match federation.response().is_diagonal() {
        true => by_coordinate(federation),
        false => by_matrix(federation),
    }
}

/// Coordinates that do not mix: (1 − ε̄_j) θ_j = m̄_j for each.
fn by_coordinate(federation: &Federation) -> StableReport {
    let dim = federation.dim();
    let (mut mean, mut reaction) = (vec![0.0; dim], vec![0.0; dim]);
    for (client, &p) in federation.weights().iter().enumerate() {
        let base = federation.population(client).base_mean();
        for j in 0..dim {
            mean[j] += p * base[j];
            reaction[j] += p * federation.response().diagonal(client, j);
        }
    }
    let largest = reaction.iter().fold(0.0f64, |largest, e| largest.max(e.abs()));
    let margin = reaction.iter().fold(f64::INFINITY, |least, e| least.min(1.0 - e));
    let negligible = SINGULAR * (1.0 + largest);
    let spectra = (Some(largest), Some(margin));
    if reaction.iter().all(|e| (1.0 - e).abs() > negligible) {
        let theta: Vec<f64> = mean.iter().zip(&reaction).map(|(m, e)| m / (1.0 - e)).collect();
        let left = |j: usize| theta[j] - mean[j] - reaction[j] * theta[j];
        let residual = (0..dim).map(|j| left(j) * left(j)).sum::<f64>().sqrt();
        return closed_form(theta, residual, spectra);
    }
    let stuck = |j: &usize| (1.0 - reaction[*j]).abs() <= negligible;
    let size = mean.iter().map(|m| m * m).sum::<f64>().sqrt();
    let consistent = (0..dim).filter(stuck).all(|j| mean[j].abs() <= 1e-9 * (1.0 + size));
    no_stable_point(consistent, spectra)
}

fn by_matrix(federation: &Federation) -> StableReport {
    let dim = federation.dim();
    let field = federation.mean_field(&vec![0.0; dim], &vec![0.0; dim]);
    let derivative = &field.curvature + &field.reaction;
    let spectra = spectra(&field.curvature, &field.reaction);
    if !derivative.iter().all(|entry| entry.is_finite()) {
        return too_far(spectra);
    }
    let singular = derivative.clone().svd(true, true);
    let negligible = SINGULAR * (1.0 + field.reaction.amax());
    if singular.singular_values.min() > negligible {
        let theta = derivative.lu().solve(&-&field.gradient).unwrap_or_else(|| DVector::zeros(dim));
        let residual = federation.mean_field(theta.as_slice(), theta.as_slice()).gradient.norm();
        return closed_form(theta.as_slice().to_vec(), residual, spectra);
    }
    let nearest =
        singular.solve(&-&field.gradient, negligible).unwrap_or_else(|_| DVector::zeros(dim));
    let left = (&derivative * nearest + &field.gradient).norm();
    no_stable_point(left <= 1e-9 * (1.0 + field.gradient.norm()), spectra)
}

/// The radius of repeated minimisation and the margin of small steps.
pub type Spectra = (Option<f64>, Option<f64>);

/// An affine problem without stable point.
fn no_point(note: Note, stability: Stability, spectra: Spectra) -> StableReport {
    StableReport {
        points: Vec::new(),
        stability,
        notes: vec![note],
        everywhere: Some(spectra),
        line: note == Note::Line,
        minimisation: Minimisation::by_radius(spectra.0),
    }
}

fn too_far(spectra: Spectra) -> StableReport {
    no_point(Note::TooFar, Stability::Unknown, spectra)
}

fn closed_form(theta: Vec<f64>, residual: f64, spectra: Spectra) -> StableReport {
    if !residual.is_finite() {
        return too_far(spectra);
    }
    let (minimisation_radius, gradient_margin) = spectra;
    let iterations = 1;
    let point = StablePoint { theta, residual, iterations, minimisation_radius, gradient_margin };
    let (stability, notes) = judge(std::slice::from_ref(&point));
    StableReport {
        points: vec![point],
        stability,
        notes,
        everywhere: None,
        line: false,
        minimisation: Minimisation::by_radius(minimisation_radius),
    }
}

fn no_stable_point(consistent: bool, spectra: Spectra) -> StableReport {
    let note = if consistent { Note::Line } else { Note::None };
    no_point(note, Stability::None, spectra)
}

fn general(federation: &Federation, start: &[f64]) -> StableReport {
    let zeros = vec![0.0; federation.dim()];
    let mut points: Vec<StablePoint> = Vec::new();
    add(&mut points, flow(federation, start));
    add(&mut points, search(federation, &zeros, f64::INFINITY));
    let minimisation = Minimisation::from_start(federation, start);
    let end = minimisation.end.as_deref();
    add(&mut points, end.and_then(|end| search(federation, end, f64::INFINITY)));
    for start in starts(federation) {
        add(&mut points, flow(federation, start.as_slice()));
    }
    for way_out in ways_out(&points) {
        add(&mut points, flow(federation, &way_out));
    }
    // A run settles at an attracting point; the sort keeps the order of the searches otherwise.
    points.sort_by_key(|point| point.stability() != Stability::Attracting);
    let minimisation = minimisation.among(&points);
    let (stability, notes) = judge(&points);
    StableReport { points, stability, notes, everywhere: None, line: false, minimisation }
}

/// Keeps a point that is not known yet.
fn add(points: &mut Vec<StablePoint>, found: Option<StablePoint>) {
    let Some(found) = found else { return };
    if points.iter().all(|point| distance(&point.theta, &found.theta) > 1e-6) {
        points.push(found);
    }
}

/// Points to both sides of every stable point that repels: the flow leads from there to others.
fn ways_out(points: &[StablePoint]) -> Vec<Vec<f64>> {
    let repelling = points.iter().filter(|point| point.stability() != Stability::Attracting);
    repelling
        .flat_map(|point| {
            let size = 1.0 + point.theta.iter().map(|t| t * t).sum::<f64>().sqrt();
            // Multiples of the golden ratio: a direction that no symmetry is likely to share.
            let aside = |j: usize| 0.2 * size * (((j + 1) as f64 * 0.618_034).fract() - 0.5);
            [1.0, -1.0].map(|sign| {
                point.theta.iter().enumerate().map(|(j, t)| t + sign * aside(j)).collect()
            })
        })
        .collect()
}

fn judge(points: &[StablePoint]) -> (Stability, Vec<Note>) {
    let Some(first) = points.first() else {
        return (Stability::Unknown, vec![Note::NotFound]);
    };
    let attracting = points.iter().filter(|p| p.stability() == Stability::Attracting).count();
    let several = Note::Several { count: points.len(), attracting };
    let own = match (first.stability(), first.minimisation_radius) {
        (Stability::Repelling, _) => {
            Some(Note::Repels { margin: first.gradient_margin.unwrap_or(f64::NAN) })
        }
        (Stability::Attracting, Some(radius)) if radius >= 1.0 => {
            Some(Note::RepelsMinimisation { radius })
        }
        (Stability::Attracting, _) => None,
        (Stability::None | Stability::Unknown, _) => Some(Note::NoMargin),
    };
    let notes = (points.len() > 1).then_some(several).into_iter().chain(own).collect();
    (first.stability(), notes)
}

/// The stable point that Newton's method finds from a point close to it.
pub(crate) fn stable_point_near(federation: &Federation, theta: &[f64]) -> Option<StablePoint> {
    search(federation, theta, f64::INFINITY)
}

/// Along the gradient flow: where P-FedAvg with small steps goes.
fn flow(federation: &Federation, start: &[f64]) -> Option<StablePoint> {
    search(federation, start, 0.5)
}

fn search(federation: &Federation, start: &[f64], caution: f64) -> Option<StablePoint> {
    let start = DVector::from_column_slice(start);
    let found = newton::root(&start, caution, |at| {
        let field = federation.mean_field(at, at);
        (field.gradient, field.curvature + field.reaction)
    })?;
    let theta = found.point.as_slice().to_vec();
    let field = federation.mean_field(&theta, &theta);
    let zeros = vec![0.0; theta.len()];
    let scale = federation.mean_field(&zeros, &zeros).gradient.norm().max(1.0);
    let residual = field.gradient.norm();
    if residual.is_nan() || residual > 1e-8 * scale {
        return None;
    }
    let (minimisation_radius, gradient_margin) = spectra(&field.curvature, &field.reaction);
    Some(StablePoint {
        theta,
        residual,
        iterations: found.iterations,
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
    let found = newton::minimise(start, |at| {
        let field = federation.mean_field(at, deployed);
        Smooth { value: field.risk, gradient: field.gradient, hessian: field.curvature }
    });
    found.map(|found| found.point)
}

fn spectra(curvature: &DMatrix<f64>, reaction: &DMatrix<f64>) -> Spectra {
    let radius =
        curvature.clone().lu().solve(reaction).and_then(|best_reply| spectrum::radius(&best_reply));
    (radius, spectrum::smallest_real_part(&(curvature + reaction)))
}

/// |a − b| against the size of the points.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let size: f64 = a.iter().map(|x| x * x).sum::<f64>().sqrt();
    let apart: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
    apart / (1.0 + size)
}
