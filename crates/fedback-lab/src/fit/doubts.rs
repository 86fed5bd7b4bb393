//! Tests of clients that raise doubts, corrected for their number, and the doubts in sentences.

use fedback_fit::bracket::Upper;
use fedback_fit::contrast::holm;
use fedback_fit::model::Direction;
use fedback_fit::selection::DOUBT;

use super::{Fitted, FittedClient};
use crate::words::short;

/// A test of what a fit takes for granted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tested {
    /// Its p-value.
    pub p_value: f64,
    /// The same after Holm's correction for all tests of all clients.
    pub corrected: f64,
}

impl Tested {
    /// Not corrected yet.
    pub(super) fn new(p_value: f64) -> Self {
        Tested { p_value, corrected: p_value }
    }

    /// Whether it raises a doubt. Over all tests together, it does so without reason with
    /// a probability of at most [`DOUBT`].
    pub fn rejects(&self) -> bool {
        self.corrected < DOUBT
    }
}

fn family(clients: &mut [FittedClient]) -> impl Iterator<Item = &mut Tested> {
    clients.iter_mut().flat_map(|client| {
        let single = [&mut client.location, &mut client.linearity, &mut client.labels];
        let missing = client.missing.iter_mut().map(|(_, test)| test);
        single.into_iter().chain(missing).flatten()
    })
}

/// The number of tests.
pub(super) fn count(clients: &mut [FittedClient]) -> usize {
    family(clients).count()
}

/// Corrects all tests for their number, and returns it.
pub(super) fn correct(clients: &mut [FittedClient]) -> usize {
    let corrected = holm(&family(clients).map(|test| test.p_value).collect::<Vec<_>>());
    family(clients).zip(&corrected).for_each(|(test, corrected)| test.corrected = *corrected);
    corrected.len()
}

/// What is doubted of a client.
#[derive(Clone, Copy)]
enum About {
    Location,
    Bracket,
    Linearity,
    Labels,
    /// Leaving after a deployment.
    Missing(usize),
}

impl Fitted {
    /// What is doubted of clients; of several at once where it is the same.
    pub(super) fn doubts_of_clients(&self) -> Vec<String> {
        self.said(&self.shown_order())
    }

    /// What is doubted of one client.
    pub(super) fn client_doubts(&self, client: usize) -> Vec<String> {
        self.said(&[client])
    }

    fn said(&self, clients: &[usize]) -> Vec<String> {
        let steps = (0..self.input.names.len() - 1).map(About::Missing);
        let all = [About::Location, About::Bracket, About::Linearity, About::Labels];
        let sentence = |about: About| {
            let doubted = clients.iter().filter_map(|&at| Some((at, self.doubted(at, about)?)));
            let doubted: Vec<(usize, Tested)> = doubted.collect();
            (!doubted.is_empty()).then(|| self.sentence(about, &doubted))
        };
        all.into_iter().chain(steps).filter_map(sentence).collect()
    }

    /// The test that raises a doubt of a client.
    fn doubted(&self, at: usize, about: About) -> Option<Tested> {
        let client = &self.clients[at];
        let test = match about {
            About::Location => client.location,
            About::Bracket => client.location.filter(|_| client.bracket.upper == Upper::Sliced),
            About::Linearity => client.linearity,
            About::Labels => client.labels,
            About::Missing(from) => {
                client.missing.iter().find(|(missing, _)| missing.from == from)?.1
            }
        };
        test.filter(Tested::rejects)
    }

    fn sentence(&self, about: About, doubted: &[(usize, Tested)]) -> String {
        let clients = self.listed(doubted, |at| self.input.clients[at].clone());
        let p = self.p_values(doubted);
        match about {
            About::Location => format!(
                "evidence against a location shift at {clients}: {p}; the distribution seems to \
                 change its form, not only its place, as where only some individuals react, and \
                 the fitted response is then an average"
            ),
            About::Bracket => format!(
                "the upper end of the bracket at {clients} is that of a location shift; identified \
                 individuals would give one without that assumption"
            ),
            About::Linearity => {
                format!("evidence against means that are linear in θ at {clients}: {p}")
            }
            About::Labels => {
                let meaning = match self.model.direction {
                    Direction::BestResponse => "a best response leaves them alone",
                    Direction::Location => "only features respond here",
                };
                format!("evidence that the labels changed too at {clients}: {p}; {meaning}")
            }
            About::Missing(from) => {
                let share = |at: usize| {
                    let all = &self.clients[at].missing;
                    let own = all.iter().find(|(missing, _)| missing.from == from);
                    let share = own.map_or(0.0, |(missing, _)| 100.0 * missing.share());
                    format!("{share:.0} % at {}", self.input.clients[at])
                };
                format!(
                    "evidence that who leaves depends on the score: of those seen under \"{}\", {} \
                     are missing under \"{}\"; {p}; the estimates are of those who stay",
                    self.input.names[from],
                    self.listed(doubted, share),
                    self.input.names[from + 1],
                )
            }
        }
    }

    fn listed(&self, doubted: &[(usize, Tested)], name: impl Fn(usize) -> String) -> String {
        let first: Vec<String> = doubted.iter().take(3).map(|(at, _)| name(*at)).collect();
        match doubted.len() - first.len() {
            0 => first.join(", "),
            1 => format!("{} and 1 more client", first.join(", ")),
            more => format!("{} and {more} more clients", first.join(", ")),
        }
    }

    fn p_values(&self, doubted: &[(usize, Tested)]) -> String {
        let all = doubted.iter().map(|(_, test)| test.corrected);
        let (low, high) = (all.clone().fold(1.0, f64::min), all.fold(0.0, f64::max));
        let range = match short(low) == short(high) {
            true => short(low),
            false => format!("{} to {}", short(low), short(high)),
        };
        match self.tests {
            1 => format!("p = {range}"),
            tests => format!("p = {range} after correction for {tests} tests"),
        }
    }
}
