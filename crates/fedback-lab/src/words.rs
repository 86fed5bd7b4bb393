//! Theory's reasons in sentences: one function for each type of reason.

use fedback_theory::inclusion::NoInclusion;
use fedback_theory::minimisation::{Minimisation, Why};

use crate::check::words::short;

/// Why it is not known who is among the first to arrive.
pub fn no_inclusion(why: NoInclusion) -> String {
    match why {
        NoInclusion::TooMany { clients, trace } => format!(
            "the probabilities of being among the first of {clients} clients take too long to \
             compute; fewer clients{} would do",
            if trace { " or a shorter trace" } else { "" }
        ),
        NoInclusion::TooSharp => "the probabilities of being among the first cannot be computed: \
             latencies differ too much in size, or too little from round to round"
            .into(),
    }
}

/// Why repeated minimisation settles, or does not, or why that is not known.
pub fn minimisation(found: &Minimisation) -> String {
    match found.why {
        Why::Radius(radius) => {
            let below = found.settles == Some(true);
            let words = if below { "below 1 it settles" } else { "it needs a radius below 1" };
            format!("each minimisation multiplies the error by {}: {words}", short(radius))
        }
        Why::Rests(radius) => {
            format!("it rests at a stable point that repels it (radius {})", short(radius))
        }
        Why::Cycle => "from this start it ends in a cycle of two models".into(),
        Why::Repelled(radius) => {
            format!("every stable point that was found repels it (radius {})", short(radius))
        }
        Why::Moves { minimisations, by } => format!(
            "after {minimisations} minimisations from this start it still moves by {} of its size",
            short(by)
        ),
        Why::NoMinimum => {
            "the risk for the data of one deployment has no minimum within reach".into()
        }
        Why::NoRadius => "the radius of repeated minimisation is not known".into(),
    }
}
