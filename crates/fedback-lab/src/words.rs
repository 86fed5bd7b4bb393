//! Theory's reasons in sentences: one function for each type of reason.

mod constants;
mod number;
mod points;

use fedback_theory::inclusion::NoInclusion;

pub use constants::{how, origin};
pub use number::{NOTHING, factor, seconds, short, steps};
pub use points::{approximation, assumptions, at_infinity, degeneracy, minimisation, stable};

/// Why it is not known who is among the first to arrive.
pub fn no_inclusion(why: NoInclusion) -> String {
    match why {
        NoInclusion::TooMany { clients, trace } => format!(
            "the probabilities of being among the first of {clients} clients take too long to \
             compute; use fewer clients{}",
            if trace { " or a shorter trace" } else { "" }
        ),
        NoInclusion::TooSharp => "the probabilities of being among the first cannot be computed: \
             latencies differ too much in size, or too little from round to round"
            .into(),
    }
}
