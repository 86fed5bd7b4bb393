//! What the numbers say of the paper's claims about the number of local steps E.

use super::verdicts::falls;
use crate::report::{Claim, Verdict};
use crate::study::{Studied, Study};

fn local_steps(point: &Studied) -> f64 {
    point.plan.protocol.local_steps as f64
}

/// E = 1 first, the largest last; scheme I, then scheme II.
pub(super) fn claims(studies: &[Study]) -> Vec<Claim> {
    let mut numbers = Vec::new();
    let (mut helps, mut mirrored_helps, mut mirrored_slows) = (true, true, true);
    let mut too_many = true;
    let mut rounds_then_grow = true;
    for study in studies {
        let (times, steps) = (study.each(Studied::steps_to_a_tenth), study.each(local_steps));
        let mirrored = study.each(Studied::mirrored_steps_to_a_tenth);
        let scheme = study.caption();
        for ((e, t), m) in steps.iter().zip(&times).zip(&mirrored) {
            numbers.push((format!("{scheme}, E = {e}: steps to a tenth"), *t));
            numbers.push((format!("{scheme}, E = {e}: the same from the mirrored start"), *m));
        }
        let last = times.len() - 1;
        helps &= falls(&times[..last]);
        mirrored_helps &= falls(&mirrored[..last]);
        mirrored_slows &= mirrored[..last].windows(2).all(|pair| pair[1] > pair[0]);
        too_many &= times[last] > times[0];
        let rounds: Vec<f64> = times.iter().zip(&steps).map(|(t, e)| t / e).collect();
        rounds_then_grow &= rounds[1] < rounds[0] && rounds[last] > rounds[last - 1];
    }
    let slightly = Claim {
        id: "larger-e-faster",
        place: "section 4.1",
        statement: "A slightly larger E leads to faster convergence",
        verdict: Verdict::under(
            helps,
            mirrored_helps,
            "the run starts on the side towards which local steps push",
        ),
        reason: format!(
            "Local steps shift the point that rounds settle at, by (E − 1)η/2 · Σ p r ε / (1 − \
             ε̄) to first order. From a start on the other side {}.",
            match (mirrored_slows, mirrored_helps) {
                (true, _) => "the same shift makes every larger E slower, the largest aside",
                (false, true) => "a larger E is faster as well, the largest aside",
                (false, false) => "a larger E is sometimes faster and sometimes slower",
            }
        ),
        numbers: numbers.clone(),
    };
    let extreme = Claim {
        id: "very-large-e-slower",
        place: "section 4.1",
        statement: "An extremely large E causes slower convergence",
        verdict: Verdict::of(too_many),
        reason: "Compared with E = 1, in local steps until a tenth of the distance is left.".into(),
        numbers: numbers.clone(),
    };
    let rounds = Claim {
        id: "rounds-over-e",
        place: "section 3.4",
        statement: "The number of aggregations T/E first grows and then decreases with E",
        verdict: match rounds_then_grow {
            true => Verdict::DoesNotHold,
            false => Verdict::NotDecidable,
        },
        reason: match rounds_then_grow {
            true => {
                "It is the other way round: with more local steps fewer rounds are needed, until \
                 the clients drift too far apart in a round. That is what makes a middle E best."
            }
            false => "Steps to a tenth of the distance, over E, do not fall first and then grow.",
        }
        .into(),
        numbers,
    };
    let mut claims = vec![slightly, extreme, rounds];
    claims.extend(choice_of_e(&studies[0]));
    claims
}

/// What section 3.4 advises about E, by the total time T + C T/E until a tenth of the distance is
/// left.
fn choice_of_e(study: &Study) -> Vec<Claim> {
    let (times, steps) = (study.each(Studied::steps_to_a_tenth), study.each(local_steps));
    let best = |times: &[f64], cost: f64| {
        let total = |k: usize| times[k] + cost * times[k] / steps[k];
        let k = (0..times.len()).min_by(|&a, &b| total(a).total_cmp(&total(b))).unwrap_or(0);
        steps[k]
    };
    let mirrored = study.each(Studied::mirrored_steps_to_a_tenth);
    let (smallest, largest) = (steps[0], steps[steps.len() - 1]);
    let (fast, fast_mirrored) = (best(&times, 0.0), best(&mirrored, 0.0));
    let (slow, slow_mirrored) = (best(&times, 100.0), best(&mirrored, 100.0));
    let middle = |e: f64| e > smallest && e < largest;
    vec![
        Claim {
            id: "small-e-when-communication-is-fast",
            place: "section 3.4",
            statement: "When communication is fast, smaller E are preferable",
            verdict: match (fast == smallest, fast_mirrored == smallest) {
                (true, true) => Verdict::Holds,
                (false, true) => Verdict::HoldsOnlyWhere(
                    "the run starts on the side away from which local steps push".into(),
                ),
                (true, false) => Verdict::HoldsOnlyWhere(
                    "the run starts on the side towards which local steps push".into(),
                ),
                (false, false) => Verdict::DoesNotHold,
            },
            reason: format!(
                "Counting local steps alone, E = {fast} is best from this start and E = \
                 {fast_mirrored} from the mirrored one."
            ),
            numbers: vec![
                ("best E at C = 0".into(), fast),
                ("best E at C = 0, mirrored start".into(), fast_mirrored),
            ],
        },
        Claim {
            id: "middle-e-when-communication-is-slow",
            place: "section 3.4",
            statement: "When communication is slow, some middle E are preferable",
            verdict: Verdict::of(middle(slow) && middle(slow_mirrored)),
            reason: format!(
                "With a communication a hundred times as long as a step, E = {slow} is best of \
                 {smallest} to {largest}, and E = {slow_mirrored} from the mirrored start."
            ),
            numbers: vec![
                ("best E at C = 100".into(), slow),
                ("best E at C = 100, mirrored start".into(), slow_mirrored),
            ],
        },
    ]
}
