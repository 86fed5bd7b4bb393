//! A certificate in words.

use fedback_core::protocol::{LocalRule, Protocol, ServerRule, StepSize};
use fedback_theory::certificate::{Clients, Tips, Verdict, Why};
use fedback_theory::limit::NoMap;

use super::Check;
use crate::words::{factor, short};

/// How an algorithm is called in sentences.
pub fn algorithm(protocol: &Protocol) -> &'static str {
    match (protocol.local, protocol.server) {
        (LocalRule::Descent, ServerRule::Average) => "P-FedAvg",
        (LocalRule::Descent, ServerRule::Momentum { .. }) => "FedOpt with momentum",
        (LocalRule::Descent, ServerRule::Adam { .. }) => "FedOpt with Adam",
        (LocalRule::Proximal { .. }, _) => "FedProx",
        (LocalRule::Scaffold, _) => "SCAFFOLD",
    }
}

/// A reason as part of a sentence, of small steps or others; `nowhere` is why no stable point is
/// known.
pub(super) fn why(why: &Why, nowhere: &str, small: bool) -> String {
    match why {
        Why::RunsAway(_) if small => "small steps from this start diverge even without noise".into(),
        Why::KeepsMoving if small => {
            "small steps do not converge even without noise: no stable point attracts them".into()
        }
        Why::NoStablePoint => "no stable point is known".into(),
        Why::Nowhere => nowhere.into(),
        Why::Rescaled => "unequal weights without replacement, and models are averaged rather than \
                          updates (aggregate = \"iterates\"): every round multiplies the whole model \
                          by a random number, however small the steps; aggregate = \"deltas\" does \
                          not"
            .into(),
        Why::NotLinear(no) => not_linear(no),
        Why::NotFinite(size) => format!("a round at step size {} is not finite", short(*size)),
        Why::MeanGrows { size, by } => format!(
            "at step size {} each round multiplies the mean error by {}, which is above 1",
            short(*size),
            factor(*by)
        ),
        // A factor that is only known not to be below one.
        Why::SquareGrows { size, by } if *by <= 1.0 => {
            format!("at step size {} a round does not shrink the mean squared error", short(*size))
        }
        Why::SquareGrows { size, by } => format!(
            "at step size {} each round multiplies the mean squared error by {}, which is above 1",
            short(*size),
            factor(*by)
        ),
        Why::NotAttracting => "rounds contract, but to no attracting stable point".into(),
        Why::NoFloor => "the stationary error of the constant step size was not found".into(),
        Why::HighFloor { size, level, bias } => format!(
            "at the constant step size {} the mean squared error does not fall below {} (squared \
             bias {}), which is not near the stable point",
            short(*size),
            short(level * level),
            short(bias * bias)
        ),
        Why::SlowRounds { rounds, left } => format!(
            "convergence would take {} rounds: each round multiplies the squared error by {}",
            short(*rounds),
            factor(*left)
        ),
        Why::Floor { by, level } => format!(
            "contraction factor {} per round for squared errors, which level off at a mean squared \
             distance of {}",
            factor(*by),
            short(level * level)
        ),
        Why::Away => "small steps lead away from the stable point".into(),
        Why::TooLargeFirst { peak, untold } => {
            let grown = format!(
                "the first steps are too large: the mean squared error first grows to {}",
                short(peak * peak)
            );
            match untold {
                None => grown,
                Some(rounds) => format!(
                    "{grown}, and after {rounds} rounds the steps are still too large to tell what \
                     follows"
                ),
            }
        }
        Why::PowerLaw { rate, squares } => {
            let rate = short(*rate);
            match squares {
                true => format!(
                    "the mean squared error converges to zero, the mean error as (t+gamma)^−{rate}"
                ),
                false => format!("the error converges to zero as (t+gamma)^−{rate}"),
            }
        }
        Why::SlowPower { rate, rounds } => format!(
            "beta · margin is {}: the error decays as so small a power of t that convergence would \
             take {} rounds",
            short(*rate),
            short(*rounds)
        ),
        Why::RunsAway(rounds) => format!(
            "even without noise, rounds from this start diverge within {} rounds",
            short(*rounds)
        ),
        Why::KeepsMoving => {
            "even without noise, rounds do not converge: no stable point attracts them".into()
        }
        Why::NotArrived(rounds) => format!(
            "the path without noise was followed for {} rounds without reaching a stable point",
            short(*rounds)
        ),
        Why::TooMuchWork => "following its rounds would take too much computation".into(),
        Why::FlowLost => {
            "the averaged gradient flow from the start was not followed to its end".into()
        }
        Why::FirstStep(inner) => {
            format!("the first step is too large: {}", self::why(inner, nowhere, small))
        }
        Why::LaterSteps { most } => format!(
            "what populations remember may swing with the smaller steps that come later: only steps up to \
             {} are certain not to make it",
            short(*most)
        ),
        Why::OnTheWay { size, by } => format!(
            "on the way from the start a round at step size {} multiplies squared errors by {}",
            short(*size),
            factor(*by)
        ),
        Why::CarriedAway { size, reach } => format!(
            "noise at step size {} moves the model to a distance of {} from the stable point, where \
             rounds do not reliably move it back",
            short(*size),
            short(*reach)
        ),
        Why::Far(rounds) => format!("convergence would take {} rounds", short(*rounds)),
        Why::RescaledMore => "averaging models of unequal weights rescales them at random, the \
                              worse the smaller the steps"
            .into(),
        Why::LeadThere => "small steps converge to the stable point".into(),
        Why::NoMargin => "the stability margin of small steps is zero to rounding".into(),
        Why::NoneCertain => {
            "small steps converge to the stable point, but no step size was found that is certain to"
                .into()
        }
        Why::FasterThanScatter => "steps that are not too small contract faster than the averaging \
                                   of models of unequal weights scatters"
            .into(),
    }
}

/// Why rounds were not linearised.
pub(crate) fn not_linear(no: &NoMap) -> String {
    match no {
        NoMap::Algorithm(unsupported) => unsupported.reason.clone(),
        NoMap::TooLarge(_) => "the dimension is too high to linearise a round".into(),
    }
}

/// The verdict's reason in one sentence.
pub(super) fn reason(check: &Check, protocol: &Protocol) -> String {
    let name = algorithm(protocol);
    let (minimisation, nowhere) = (&check.minimisation, check.stable_points.is_empty());
    let (own, small) = (&check.own_steps, &check.small_steps);
    let (again, own_why, small_why) = (&minimisation.why, &own.why, &small.why);
    match check.verdict {
        Verdict::Settles => format!("repeated risk minimisation: {again}; {name}: {own_why}"),
        Verdict::SettlesWithSmallSteps => {
            let named = named(check, protocol.step_size);
            let why = match (own.settles, minimisation.settles) {
                (Some(true), None) => {
                    format!("whether repeated risk minimisation does is not known: {again}")
                }
                (Some(true), _) => format!("repeated risk minimisation does not: {again}"),
                (_, Some(true) | None) => format!("at its own step sizes it may not: {own_why}"),
                (_, Some(false)) => format!(
                    "at its own step sizes it may not: {own_why}; repeated risk minimisation does \
                     not: {again}"
                ),
            };
            format!("{name} settles {named}; {why}")
        }
        Verdict::MinimisationOnly => {
            format!("repeated risk minimisation: {again}; {name} at any step size: {small_why}")
        }
        Verdict::DoesNotSettle if nowhere => small_why.clone(),
        Verdict::DoesNotSettle => {
            format!("{name}: {small_why}; repeated risk minimisation: {again}")
        }
        Verdict::Unknown => {
            let open = [
                (small.settles.is_none(), "small steps", small_why),
                (own.settles.is_none() && !nowhere, "its own step sizes", own_why),
                (minimisation.settles.is_none(), "repeated risk minimisation", again),
            ];
            let open = open.into_iter().filter(|(open, ..)| *open);
            let open: Vec<String> = open.map(|(_, of, why)| format!("{of}: {why}")).collect();
            format!("not known: {}", open.join("; "))
        }
    }
}

/// The step sizes that a verdict names.
fn named(check: &Check, own: StepSize) -> String {
    let small = &check.small_steps;
    if check.own_steps.settles == Some(true) {
        return match own {
            StepSize::Constant(size) => format!("at its own constant step size {}", short(size)),
            StepSize::Decaying { beta, gamma } => {
                format!("at its own step sizes {}/(t + {})", short(beta), short(gamma))
            }
        };
    }
    let constant = small.constant.map(|size| format!("a constant step size of {}", short(size)));
    let decaying = small.beta.zip(small.gamma);
    let decaying = decaying.map(|(beta, gamma)| format!("{}/(t + {})", short(beta), short(gamma)));
    let limit = small.largest_step.map_or(String::new(), |largest| {
        format!(" (squared errors shrink at steps below {})", short(largest))
    });
    match (constant, decaying) {
        (Some(constant), Some(decaying)) => format!("with {constant} or {decaying}{limit}"),
        (Some(one), None) | (None, Some(one)) => format!("with {one}{limit}"),
        (None, None) => "with small steps".into(),
    }
}

/// Who tips the federation over, in one sentence.
pub(super) fn tips(clients: &Clients, describe: impl Fn(usize) -> String) -> String {
    let looked = if clients.all { "" } else { " among the most influential" };
    let verdict =
        |client: usize| clients.parts[client].without.map_or("", |without| without.verdict.name());
    match clients.tips {
        Tips::Unasked => {
            "no client was left out to see what changes: with first arrivals the others would then \
             take part more often"
                .into()
        }
        Tips::Nobody => "no client can be left out".into(),
        Tips::Over { client, of } => {
            let alone = match of {
                1 => String::new(),
                more => {
                    format!(" (leaving out any one of {more} clients{looked} improves the verdict)")
                }
            };
            format!(
                "{} destabilises the federation: without it the verdict is {}{alone}",
                describe(client),
                verdict(client)
            )
        }
        Tips::Holds(client) => format!(
            "{} stabilises the federation: without it the verdict is {}",
            describe(client),
            verdict(client)
        ),
        Tips::Pulls { client, margins: (without, with) } => format!(
            "no single client{looked} changes the verdict; leaving out {} raises the stability \
             margin most, to {} from {}",
            describe(client),
            short(without),
            short(with)
        ),
        Tips::Undecided => format!("no single client{looked} changes the verdict"),
    }
}
