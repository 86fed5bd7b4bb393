//! Problems that are not affine: the noise-free path of the very protocol says where it leads, the
//! round linearised there how noise fares.

use fedback_core::protocol::{Protocol, Round, StepSize};

use super::mean_path::{self, Ending};
use super::outlook::{Case, Outlook, Place, always_rescales, constant, distance, scale};
use super::why::{Answer, Why};
use crate::limit::Floor;
use crate::stable::StablePoint;

/// Rounds after which a path that is not near yet is not called settling.
const MOST_ROUNDS: f64 = 1e6;
/// What a round may multiply squared errors with on the way to a stable point.
const LARGEST_ON_THE_WAY: f64 = 1.05;

/// What a protocol does from the start of the case.
pub(super) fn outlook(case: &Case<'_>, protocol: &Protocol, anywhere: f64) -> Outlook {
    let (index, end, travelled) = match mean_path::follow(case, protocol) {
        Ending::Reached { point, theta, rounds } => (point, theta, rounds),
        Ending::Escaped { rounds } => {
            return Outlook::new(Some(false), Why::RunsAway { rounds }, anywhere);
        }
        Ending::Wanders => return Outlook::new(Some(false), Why::KeepsMoving, anywhere),
        Ending::Lost(why) => return Outlook::new(None, why, anywhere),
    };
    let point = &case.points[index];
    let place = Place { point, at: &end, scale: scale(case, point) };
    Outlook { point: Some(index), ..at_end(case, protocol, &place, travelled) }
}

/// The end of a path that is known to lead there.
fn at_end(case: &Case<'_>, protocol: &Protocol, place: &Place<'_>, travelled: f64) -> Outlook {
    let mut map = match case.map(protocol, place.at) {
        Ok(map) => map,
        Err(why) => return Outlook::new(None, Why::NotLinear(why), place.scale),
    };
    let first = protocol.step_size.at(protocol.first_step(Round(0)));
    // A decaying step is judged as if it stayed what it is at first: then every later one is calmer.
    let mut found = constant(&mut map, place, first, 0.0);
    if found.answer.settles != Some(true) {
        return undecided(protocol, found);
    }
    let floor = map.floor(first);
    let robust =
        || floor.as_ref().map_or(Ok(()), |floor| robust(case, protocol, place, floor, first));
    if let Err(why) = on_the_way(case, protocol, place.at, first).and_then(|()| robust()) {
        return Outlook { answer: Answer::new(None, why), ..found };
    }
    found.rounds = Some(travelled);
    if let StepSize::Decaying { beta, .. } = protocol.step_size {
        let margin = place.point.gradient_margin.unwrap_or(f64::NAN);
        let rate = beta * margin * case.speed(protocol);
        found.floor = None;
        found.answer.why = Why::PowerLaw { rate, squares: false };
    }
    if travelled > MOST_ROUNDS {
        found.answer = Answer::new(None, Why::Far { rounds: travelled });
    }
    found
}

/// Steps that decay get smaller: that the first one is too large says nothing of the others.
fn undecided(protocol: &Protocol, found: Outlook) -> Outlook {
    match protocol.step_size {
        StepSize::Constant(_) => found,
        StepSize::Decaying { .. } => {
            let why = Why::FirstStep(Box::new(found.answer.why.clone()));
            Outlook { answer: Answer::new(None, why), ..found }
        }
    }
}

/// What a run does that is at the point already.
pub(super) fn local_outlook(case: &Case<'_>, protocol: &Protocol, point: &StablePoint) -> Outlook {
    let scale = scale(case, point);
    if always_rescales(case, protocol) {
        return Outlook::new(Some(false), Why::Rescaled, scale);
    }
    let mut map = match case.map(protocol, &point.theta) {
        Ok(map) => map,
        Err(why) => return Outlook::new(None, Why::NotLinear(why), scale),
    };
    let first = protocol.step_size.at(protocol.first_step(Round(0)));
    let place = Place { point, at: &point.theta, scale };
    let found = constant(&mut map, &place, first, 0.0);
    match found.answer.settles {
        Some(true) => found,
        Some(false) | None => undecided(protocol, found),
    }
}

/// Whether noise stays small between the start and the end: rounds of the first step size hardly
/// expand at the start, nor halfway.
fn on_the_way(case: &Case<'_>, protocol: &Protocol, end: &[f64], size: f64) -> Result<(), Why> {
    for share in [0.0, 0.5] {
        let between = case.start.iter().zip(end).map(|(a, b)| a + share * (b - a));
        let between: Vec<f64> = between.collect();
        let map = case.map(protocol, &between).ok();
        let radius = map.and_then(|mut map| map.mean_square_radius(size));
        if radius.is_none_or(|radius| radius > LARGEST_ON_THE_WAY) {
            return Err(Why::OnTheWay { size, by: radius.unwrap_or(f64::NAN) });
        }
    }
    Ok(())
}

/// Axes of the cloud that are looked along.
const AXES: usize = 3;
/// Standard deviations that are looked out to.
const REACH: f64 = 4.0;

/// Whether rounds still contract, and the averaged gradient still points back, as far out as noise
/// carries.
fn robust(
    case: &Case<'_>,
    protocol: &Protocol,
    place: &Place<'_>,
    floor: &Floor,
    size: f64,
) -> Result<(), Why> {
    let Place { point, at: end, .. } = *place;
    let cloud = floor.covariance.clone().symmetric_eigen();
    let field = case.federation.mean_field(&point.theta, &point.theta);
    let inverse = (field.curvature + field.reaction).lu();
    let mut axes: Vec<usize> = (0..end.len()).collect();
    axes.sort_by(|a, b| cloud.eigenvalues[*b].total_cmp(&cloud.eigenvalues[*a]));
    for &axis in axes.iter().take(AXES) {
        let reach = REACH * cloud.eigenvalues[axis].max(0.0).sqrt();
        for sign in [reach, -reach] {
            if reach <= 1e-9 * (1.0 + distance(end, &vec![0.0; end.len()])) {
                continue;
            }
            let out = cloud.eigenvectors.column(axis) * sign;
            let there: Vec<f64> = end.iter().zip(out.iter()).map(|(e, o)| e + o).collect();
            let gradient = case.federation.mean_field(&there, &there).gradient;
            let back = inverse.solve(&gradient).map_or(f64::NAN, |newton| newton.dot(&out));
            let map = case.map(protocol, &there).ok();
            let radius = map.and_then(|mut map| map.mean_square_radius(size));
            let holds =
                back > 0.25 * out.norm_squared() && radius.is_some_and(|radius| radius < 1.0);
            if !holds {
                return Err(Why::CarriedAway { size, reach });
            }
        }
    }
    Ok(())
}
