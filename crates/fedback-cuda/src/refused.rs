//! What the device does not do, by name. Whatever is not refused here has a kernel with the engine's
//! bits; nothing is computed otherwise without a word.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::misfit::Unsupported;
use fedback_core::protocol::{Protocol, Scheme};
use fedback_core::response::{By, Response, Shift};

/// Most coordinates of a model that is trained on rows by a loss of margins.
const MOST_COORDINATES: usize = 4096;
/// Largest cohort that is drawn: every draw is compared with those before it.
const LARGEST_COHORT: usize = 4096;
/// Most numbers in the updates of a round's clients in one repetition.
const MOST_NUMBERS: usize = 1 << 24;

fn refused(part: &'static str, what: impl Into<String>, instead: &str) -> Unsupported {
    let what = what.into();
    Unsupported::new(part, format!("{what} has no kernel for device = \"cuda\"; {instead}"))
}

const CPU: &str = "use device = \"cpu\"";

/// Refuses a problem or an algorithm that has no kernel.
pub fn refuse(problem: &Federation, protocol: &Protocol) -> Result<(), Unsupported> {
    response(problem)?;
    if problem.memory().is_some() {
        let what = "a population that remembers";
        return Err(refused("problem.response.memory", what, CPU));
    }
    let (clients, dim) = (problem.clients(), problem.dim());
    match (problem.base(), problem.loss()) {
        (Base::Gaussian(_), _) | (Base::Table(_), Loss::Mean) => {}
        (Base::Table(_), Loss::Squared { .. } | Loss::Logistic { .. }) => {
            if dim > MOST_COORDINATES {
                let what = format!("a linear model of {dim} coordinates");
                let most = format!("it takes up to {MOST_COORDINATES}; {CPU}");
                return Err(refused("problem.loss.kind", what, &most));
            }
        }
    }
    if let Base::Table(table) = problem.base()
        && table.is_partial()
    {
        return Err(refused("problem.base", "a table of which rows lie elsewhere", CPU));
    }
    match protocol.scheme {
        Scheme::Full => {}
        Scheme::WithReplacement { cohort } | Scheme::WithoutReplacement { cohort } => {
            if cohort > LARGEST_COHORT {
                let what = format!("a drawn cohort of {cohort}");
                let most = format!("it draws up to {LARGEST_COHORT}; {CPU}");
                return Err(refused("algorithm.cohort", what, &most));
            }
        }
        Scheme::FirstArrivals { .. } => {
            return Err(refused("algorithm.scheme", "a cohort of first arrivals", CPU));
        }
    }
    if clients.saturating_mul(dim) > MOST_NUMBERS {
        let what = format!("{clients} clients with {dim} coordinates each");
        let most = format!("it takes up to {MOST_NUMBERS} coordinates in all; {CPU}");
        return Err(refused("problem.clients", what, &most));
    }
    Ok(())
}

/// Refuses what is more than a number for every coordinate.
fn response(problem: &Federation) -> Result<(), Unsupported> {
    let part = "problem.response.kind";
    match problem.response() {
        Response::Shift(shift) => match shift {
            Shift::None | Shift::Scaled { .. } | Shift::Diagonal { .. } => Ok(()),
            Shift::Matrix { .. } => {
                let what = "a matrix of sensitivities";
                Err(refused("problem.response.sensitivity", what, CPU))
            }
            Shift::Saturating { .. } => {
                Err(refused("problem.response.limit", "a response that saturates", CPU))
            }
        },
        Response::Bounded(_) => Err(refused(part, "a response within bounds", CPU)),
        Response::Strategic(_) => Err(refused(part, "a response of rows one by one", CPU)),
        Response::Outcome(_) => Err(refused(part, "a response of labels", CPU)),
        Response::Own(_) => Err(refused(part, "a response of somebody's own", CPU)),
        Response::Retention(retention) => match retention.by {
            By::Client => Err(refused(part, "a response of the clients' weights", CPU)),
            By::Row | By::Label | By::Column => Err(refused(part, "a response of who stays", CPU)),
        },
    }
}
