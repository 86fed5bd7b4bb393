//! Problems that are not affine: the noise-free path of the very protocol says where it leads, the
//! round linearised there how noise fares.

use fedback_core::protocol::{Protocol, Round, StepSize};

use super::mean_path::{self, Arrival};
use super::outlook::{Case, Outlook, Place, constant};
use super::why::{Answer, Why};
use crate::limit::Floor;
use crate::stable::{StablePoint, norm};

/// Rounds after which a path that is not near yet is not called settling.
const MOST_ROUNDS: f64 = 1e6;
/// What a round may multiply squared errors with on the way to a stable point.
const LARGEST_ON_THE_WAY: f64 = 1.05;

/// What a protocol does from the start of the case.
pub(super) fn outlook(case: &Case<'_>, protocol: &Protocol, anywhere: f64) -> Outlook {
    let (index, end, travelled) = match mean_path::follow(case, protocol) {
        Ok(Arrival { point, theta, rounds }) => (point, theta, rounds),
        Err(answer) => return Outlook::new(answer, anywhere),
    };
    let place = Place { at: &end, ..case.place(&case.stable.points[index]) };
    let (mut found, floor) = at_first_step(case, protocol, &place);
    found.point = Some(index);
    let Some(floor) = floor else { return found };
    let first = first_size(protocol);
    let calm = on_the_way(case, protocol, &end, first)
        .and_then(|()| robust(case, protocol, &place, &floor, first));
    if let Err(why) = calm {
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
        found.answer = Answer::new(None, Why::Far(travelled));
    }
    found
}

/// What a run does that is at the point already.
pub(super) fn local_outlook(case: &Case<'_>, protocol: &Protocol, point: &StablePoint) -> Outlook {
    let place = case.place(point);
    match case.always_rescales(protocol) {
        true => Outlook::new(Answer::new(Some(false), Why::Rescaled), place.scale),
        false => at_first_step(case, protocol, &place).0,
    }
}

/// The size of the first step. One that decays is judged as if it stayed what it is at first: then every
/// later one is calmer, unless populations remember.
fn first_size(protocol: &Protocol) -> f64 {
    protocol.step_size.at(protocol.first_step(Round(0)))
}

/// What a run does at the end of its way, and the cloud that it ends in where it settles.
fn at_first_step(
    case: &Case<'_>,
    protocol: &Protocol,
    place: &Place<'_>,
) -> (Outlook, Option<Floor>) {
    let mut map = match case.map(protocol, place.at) {
        Ok(map) => map,
        Err(why) => {
            return (Outlook::new(Answer::new(None, Why::NotLinear(why)), place.scale), None);
        }
    };
    let size = first_size(protocol);
    let mut found = constant(&mut map, place, size, 0.0);
    if let (StepSize::Decaying { .. }, Some(_)) = (protocol.step_size, case.federation.memory())
        && let Some(most) = map.largest_step_in_mean_square().filter(|most| *most < size)
    {
        // What populations remember may swing with steps that come later.
        found.answer = Answer::new(None, Why::LaterSteps { most });
    }
    match (found.answer.settles, protocol.step_size) {
        (Some(true), _) => (found, map.floor(size)),
        (_, StepSize::Constant(_)) => (found, None),
        // Steps that decay get smaller: that the first one is too large says nothing of the others.
        (_, StepSize::Decaying { .. }) => {
            let why = Why::FirstStep(Box::new(found.answer.why));
            (Outlook { answer: Answer::new(None, why), ..found }, None)
        }
    }
}

/// Whether noise stays small between the start and the end: rounds of the first step size hardly
/// expand at the start, nor halfway.
fn on_the_way(case: &Case<'_>, protocol: &Protocol, end: &[f64], size: f64) -> Result<(), Why> {
    for share in [0.0, 0.5] {
        let between = case.start.iter().zip(end).map(|(a, b)| a + share * (b - a));
        let radius = square_radius(case, protocol, &between.collect::<Vec<_>>(), size);
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
        if reach <= 1e-9 * (1.0 + norm(end)) {
            continue;
        }
        for out in [reach, -reach].map(|reach| cloud.eigenvectors.column(axis) * reach) {
            let there: Vec<f64> = end.iter().zip(out.iter()).map(|(e, o)| e + o).collect();
            let gradient = case.federation.mean_field(&there, &there).gradient;
            let back = inverse.solve(&gradient).map_or(f64::NAN, |newton| newton.dot(&out));
            let radius = square_radius(case, protocol, &there, size);
            if !(back > 0.25 * out.norm_squared() && radius.is_some_and(|radius| radius < 1.0)) {
                return Err(Why::CarriedAway { size, reach });
            }
        }
    }
    Ok(())
}

/// What a round near `theta` multiplies squared errors by.
fn square_radius(case: &Case<'_>, protocol: &Protocol, theta: &[f64], size: f64) -> Option<f64> {
    case.map(protocol, theta).ok()?.mean_square_radius(size)
}
