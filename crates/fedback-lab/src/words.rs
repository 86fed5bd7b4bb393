//! Theory's reasons in sentences: one function for each type of reason.

mod bounds;
mod points;

use fedback_theory::inclusion::NoInclusion;

pub use bounds::{how, undefined};
pub use points::{approximation, assumptions, degeneracy, minimisation, stable};

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

/// A number to four significant digits, for sentences.
pub(crate) fn short(number: f64) -> String {
    let size = number.abs();
    if !(1e-3..1e6).contains(&size) && size != 0.0 {
        return format!("{number:.3e}");
    }
    let exponent = if size == 0.0 { 0.0 } else { libm::floor(libm::log10(size)) };
    let text = format!("{number:.digits$}", digits = (3.0 - exponent).max(0.0) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}
