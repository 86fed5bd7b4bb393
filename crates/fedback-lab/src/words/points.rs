//! Stable points, what leads there, and what they are like, in words.

use fedback_theory::certificate::{Approximation, Assumptions, Inapplicable, Reach};
use fedback_theory::degeneracy::Degeneracy;
use fedback_theory::minimisation::{Minimisation, Why};
use fedback_theory::optimal::OptimalPoint;
use fedback_theory::stable::{Note, StableReport};

use super::{factor, short};

/// What there is to say of stable points; nothing where all is well.
pub fn stable(report: &StableReport) -> Option<String> {
    let notes: Vec<String> = report.notes.iter().map(|note| noted(note, report)).collect();
    match (notes.is_empty(), report.minimisation.settles) {
        (false, _) => Some(notes.join("; ")),
        (true, Some(true)) => None,
        (true, Some(false)) => {
            Some("repeated risk minimisation does not settle from the start".into())
        }
        (true, None) => Some("whether repeated risk minimisation settles is not known".into()),
    }
}

fn noted(note: &Note, report: &StableReport) -> String {
    match note {
        Note::TooFar => "the stable point is too far out to be represented: the numbers of the \
                         problem are too large"
            .into(),
        Note::Line => {
            "the average response cancels the average curvature exactly and the averages \
                       agree: there is a whole line of stable points, none of them attracting"
                .into()
        }
        Note::None => "the average response cancels the average curvature exactly (for location \
                       shifts: the average sensitivity is 1), so the data move away as fast as the \
                       model follows: there is no stable point"
            .into(),
        Note::NotFound => "no stable point was found from any start: the averaged gradient at the \
                           deployed model has no root within reach (rows that can be separated and \
                           l2 = 0, or a response too strong for the loss)"
            .into(),
        Note::Jumps => {
            let list = |numbers: &[f64]| {
                let numbers: Vec<String> = numbers.iter().map(|t| short(*t)).collect();
                format!("[{}]", numbers.join(", "))
            };
            let Some(jump) = &report.jump else { return String::new() };
            format!(
                "where small steps from the start lead there is no stable point: at {} the averaged \
                 gradient changes sign without a root, from {} to {}, so that a run chatters around it",
                list(&jump.theta),
                list(&jump.before),
                list(&jump.behind)
            )
        }
        Note::Several { count, attracting } => {
            let this = match report.reached == Some(0) {
                true => "the one that small steps from the start reach",
                false => "the first one found",
            };
            format!(
                "{count} stable points were found, {attracting} of them attracting; this is {this}"
            )
        }
        Note::Repels(margin) => format!(
            "the stable point repels: an eigenvalue of H + J has the real part {}, so small steps \
             lead away from it",
            short(*margin)
        ),
        Note::RepelsMinimisation(radius) => format!(
            "small gradient steps settle here, repeated risk minimisation does not (its spectral \
             radius is {})",
            factor(*radius)
        ),
        Note::NoMargin => {
            "the smallest real part of an eigenvalue of H + J is zero to rounding".into()
        }
    }
}

/// That the optimal point is at infinity.
pub fn at_infinity(far: &OptimalPoint) -> String {
    let way: Vec<String> = far.theta.iter().map(|t| short(*t)).collect();
    format!(
        "there is no optimal point: the risk of those who are there falls for ever on the way through \
         [{}], where it is {}",
        way.join(", "),
        short(far.risk)
    )
}

/// Why repeated risk minimisation settles, or does not, or why that is not known.
pub fn minimisation(found: &Minimisation) -> String {
    match found.why {
        Why::Radius(radius) => {
            let side = if found.settles == Some(true) { "below" } else { "not below" };
            format!("contraction factor {} per minimisation, {side} 1", factor(radius))
        }
        Why::Rests(radius) => {
            format!("it starts at a stable point that repels it (radius {})", factor(radius))
        }
        Why::Cycle => "from this start it ends in a cycle of two models".into(),
        Why::Repelled(radius) => {
            format!("every stable point that was found repels it (radius {})", factor(radius))
        }
        Why::Moves { minimisations, by } => format!(
            "after {minimisations} minimisations from this start the model still changes by {} % each \
             time",
            short(100.0 * by)
        ),
        Why::NoMinimum => {
            "the risk for the data of one deployment has no minimum within reach".into()
        }
        Why::NoRadius => "the radius of repeated risk minimisation is not known".into(),
    }
}

/// Whether the reaction matters, in one sentence.
pub fn degeneracy(found: &Degeneracy) -> String {
    if !found.reacts {
        return "nothing reacts: the stable, the optimal and the static point are the same".into();
    }
    if found.absorbed {
        return "every row moves by the same amount, which the free intercept absorbs: the stable \
                and the optimal point are the static one up to the intercept, however strong the \
                reaction"
            .into();
    }
    let (Some(fixed), Some(optimal)) =
        (found.stable_minus_static_features, found.stable_minus_optimal)
    else {
        return "the stable, the optimal and the static point cannot be compared: not all of them \
                were found"
            .into();
    };
    let share = |distance: f64| match found.size > 0.0 {
        true => format!("{} % of |θ^PS|", short(100.0 * distance / found.size)),
        false => short(distance),
    };
    let (from_static, from_optimal) = (share(fixed), share(optimal));
    let matters = if found.is_small() { "hardly matters" } else { "matters" };
    // Only an intercept can make a difference between the two.
    let intercept = found.stable_minus_static != found.stable_minus_static_features;
    let intercept = if intercept { " (without the intercept)" } else { "" };
    format!(
        "the reaction {matters}: the distance from the stable point to the static one is \
         {from_static}{intercept}, to the optimal one {from_optimal}"
    )
}

/// Whether and where the paper's assumptions A1, A2 and A3 hold.
pub fn assumptions(found: &Assumptions) -> [String; 3] {
    let third = match found.reach {
        Reach::Linear => {
            "A3 holds everywhere: every response is linear, ε_i is the largest singular value of \
             client i's matrix"
        }
        Reach::AtMost => "A3 holds everywhere: client i's data move by at most ε_i |θ − φ|",
        Reach::Unbounded => {
            "A3: no sensitivity is known; a small change of the model may move much of the data"
        }
    };
    let third = third.to_string();
    let Some((mu, smoothness)) = found.mu.zip(found.smoothness) else {
        let none = match found.rows_stay_together {
            true => "no stable point to put a ball around",
            false => "not known on a ball: rows or labels react one by one",
        };
        return [format!("A1: {none}"), format!("A2: {none}"), third];
    };
    let Some(radius) = found.ball else {
        return [
            "A1 holds everywhere with μ = 1: the loss |θ − z|²/2 has the Hessian I".into(),
            "A2 holds everywhere with L = 1: ∇ℓ = θ − z".into(),
            third,
        ];
    };
    let single = match found.single {
        Some(l2) => format!("everywhere with μ = l2 = {}", short(l2)),
        None => "for no single observation (l2 = 0, or the intercept is free)".into(),
    };
    let (mu, smoothness, radius) = (short(mu), short(smoothness), short(radius));
    [
        format!(
            "A1 holds {single}; for the average over all rows with μ ≥ {mu} where |θ − θ^PS| ≤ \
             {radius}"
        ),
        format!(
            "A2 holds on no unbounded set, because ∂∇ℓ/∂x grows with |θ|; with L ≤ {smoothness} \
             where |θ − θ^PS| ≤ {radius}"
        ),
        third,
    ]
}

/// Why Proposition 2.6 applies, or why not.
pub fn approximation(found: &Approximation) -> &'static str {
    match found.proposition {
        Ok(_) => {
            "Proposition 2.6 applies: at θ^PO the logistic loss is |θ^PO|-Lipschitz in x, and l2 is \
             its strong convexity"
        }
        Err(Inapplicable::Mean) => {
            "Proposition 2.6 does not apply: |θ − z|²/2 is not Lipschitz in z"
        }
        Err(Inapplicable::Squared) => {
            "Proposition 2.6 does not apply: (y − x·θ)²/2 is not Lipschitz in x"
        }
        Err(Inapplicable::NotConvex) => {
            "Proposition 2.6 does not apply: without l2, or with a free intercept, the logistic loss \
             is not strongly convex everywhere"
        }
        Err(Inapplicable::NoOptimum) => "there is no optimal point to compare",
    }
}
