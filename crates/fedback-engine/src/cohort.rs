//! The choice of a cohort: whose updates a round averages, and with which coefficients.
//!
//! A draw costs O(K), whatever the number of clients: an alias table (Vose 1991) with replacement,
//! Floyd's algorithm (Bentley and Floyd 1987) without. First arrivals cost O(N), since everybody's
//! latency is drawn. Members come in the order of their ids, so
//! that every fold over a cohort has one fixed order. For every scheme the expected coefficient of
//! client i is its weight p_i (1/N where objectives are scaled), except for first arrivals that are
//! not corrected for speed: there it is p_i π_i N/K, π_i the probability of being among the first.

use std::collections::HashMap;
use std::sync::Arc;

use fedback_core::arrivals::Arrivals;
use fedback_core::federation::ClientId;
use fedback_core::protocol::{Protocol, Round, Scheme};
use fedback_core::stream::{Purpose, Seed, Streams};

use crate::arrival::{self, Clocked};

/// The clients of one round with their aggregation coefficients. A buffer that is filled again
/// every round.
#[derive(Clone, Debug, Default)]
pub struct Cohort {
    /// The members, in the order of their ids, each once.
    pub members: Vec<ClientId>,
    /// What a member's work is multiplied with.
    pub coefficients: Vec<f64>,
    drawn: Vec<u32>,
    seen: Vec<u64>,
    counts: Vec<u32>,
    arrived: Vec<Clocked>,
}

/// Draws cohorts for one protocol and one set of weights.
#[derive(Clone, Debug)]
pub struct CohortSampler {
    scheme: Scheme,
    scaled: bool,
    weights: Arc<[f64]>,
    alias: Alias,
    arrivals: Option<Arrivals>,
    /// π_i, where coefficients are corrected.
    inclusion: Option<Arc<[f64]>>,
}

impl CohortSampler {
    /// Prepares the draw.
    pub fn new(protocol: &Protocol, weights: Arc<[f64]>) -> Self {
        let alias = match protocol.scheme {
            Scheme::WithReplacement { .. } => Alias::new(&weights),
            Scheme::Full | Scheme::WithoutReplacement { .. } | Scheme::FirstArrivals { .. } => {
                Alias::default()
            }
        };
        CohortSampler {
            scheme: protocol.scheme,
            scaled: protocol.scale_objectives,
            weights,
            alias,
            arrivals: None,
            inclusion: None,
        }
    }

    /// The same sampler where it is known when clients answer, and with which probability each of
    /// them is among the first.
    pub fn with_arrivals(self, arrivals: Arrivals, inclusion: Option<Arc<[f64]>>) -> Self {
        CohortSampler { arrivals: Some(arrivals), inclusion, ..self }
    }

    /// The same sampler where clients count for something else.
    pub fn with_weights(&self, weights: Vec<f64>) -> Self {
        let alias = match self.scheme {
            Scheme::WithReplacement { .. } => Alias::new(&weights),
            Scheme::Full | Scheme::WithoutReplacement { .. } | Scheme::FirstArrivals { .. } => {
                Alias::default()
            }
        };
        let (arrivals, inclusion) = (self.arrivals.clone(), self.inclusion.clone());
        let (scheme, scaled) = (self.scheme, self.scaled);
        CohortSampler { scheme, scaled, weights: weights.into(), alias, arrivals, inclusion }
    }

    /// The clients' weights p_i.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The alias table of draws with replacement, empty for other schemes: of every column the
    /// probability of staying there, and the client that one goes to otherwise.
    pub fn alias(&self) -> (&[f64], &[u32]) {
        (&self.alias.keep, &self.alias.other)
    }

    /// The largest number of members a cohort can have.
    pub fn capacity(&self) -> usize {
        match self.scheme {
            Scheme::Full => self.weights.len(),
            Scheme::WithReplacement { cohort } => cohort.min(self.weights.len()),
            Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. } => cohort,
        }
    }

    /// Fills `cohort` with the cohort of one round. First arrivals are nobody where it is not
    /// described when clients answer: then [`CohortSampler::of_arrivals`] takes those who did.
    pub fn draw(&self, seed: Seed, repetition: u64, round: Round, cohort: &mut Cohort) {
        let stream = || Streams::new(seed, repetition, round.0, Purpose::Cohort).client(0);
        match self.scheme {
            Scheme::Full => self.everyone(cohort),
            Scheme::WithReplacement { cohort: size } => {
                let stream = stream();
                cohort.drawn.clear();
                cohort.drawn.extend((0..size as u64).map(|n| self.alias.pick(stream.word(n))));
                let share = 1.0 / size as f64;
                cohort.gather(self.weights.len(), |_, times| times as f64 * share);
            }
            Scheme::WithoutReplacement { cohort: size } => {
                let stream = stream();
                let clients = self.weights.len();
                cohort.seen.resize(clients.div_ceil(64), 0);
                cohort.drawn.clear();
                for (n, last) in (clients - size..clients).enumerate() {
                    let pick = stream.index(n as u64, last + 1);
                    let taken = cohort.seen[pick / 64] >> (pick % 64) & 1 == 1;
                    let chosen = if taken { last } else { pick };
                    cohort.seen[chosen / 64] |= 1 << (chosen % 64);
                    cohort.drawn.push(chosen as u32);
                }
                for &client in &cohort.drawn {
                    cohort.seen[client as usize / 64] = 0;
                }
                cohort.gather(clients, |client, _| self.coefficient(client as usize, size));
            }
            Scheme::FirstArrivals { cohort: size, .. } => {
                let streams = Streams::new(seed, repetition, round.0, Purpose::Latency);
                cohort.arrived.clear();
                if let Some(arrivals) = &self.arrivals {
                    arrival::first(arrivals, streams, size, &mut cohort.arrived);
                }
                cohort.drawn.clear();
                cohort.drawn.extend(cohort.arrived.iter().map(|arrival| arrival.client));
                cohort.gather(self.weights.len(), |client, _| {
                    self.coefficient(client as usize, size)
                });
            }
        }
    }

    /// Whether it is described when clients answer.
    pub fn knows_arrivals(&self) -> bool {
        self.arrivals.is_some()
    }

    /// Whether it is known how likely every client is to be among the first.
    pub fn knows_inclusion(&self) -> bool {
        self.inclusion.is_some()
    }

    /// Fills `cohort` with clients who really were the first to arrive: `members` in the order of
    /// their ids, each once, with the coefficients that first arrivals have.
    pub fn of_arrivals(&self, members: &[ClientId], cohort: &mut Cohort) {
        let size = self.scheme.cohort().unwrap_or(self.weights.len());
        cohort.members.clear();
        cohort.members.extend_from_slice(members);
        cohort.coefficients.clear();
        let coefficients = members.iter().map(|member| self.coefficient(member.0 as usize, size));
        cohort.coefficients.extend(coefficients);
    }

    fn everyone(&self, cohort: &mut Cohort) {
        if cohort.coefficients.len() != self.weights.len() {
            cohort.members = (0..self.weights.len() as u32).map(ClientId).collect();
            cohort.coefficients = self.weights.to_vec();
        }
    }

    /// What a client's update is multiplied with in a round in which it works; with replacement, for
    /// every time that it is drawn.
    pub fn multiplier(&self, client: ClientId) -> f64 {
        match self.scheme {
            Scheme::Full => self.weights[client.0 as usize],
            Scheme::WithReplacement { cohort } => 1.0 / cohort as f64,
            Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. } => {
                self.coefficient(client.0 as usize, cohort)
            }
        }
    }

    /// p_k N/K, or 1/K where objectives are scaled, or p_k/π_k where speed is corrected for.
    fn coefficient(&self, client: usize, size: usize) -> f64 {
        let corrected = matches!(self.scheme, Scheme::FirstArrivals { correct: true, .. });
        match &self.inclusion {
            Some(inclusion) if corrected => self.weights[client] / inclusion[client],
            _ if self.scaled => 1.0 / size as f64,
            _ => self.weights[client] * (self.weights.len() as f64 / size as f64),
        }
    }
}

/// A cohort that the seed alone does not tell, because a member was missing or because the first
/// arrivals made it: what a replay needs.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCohort {
    /// The repetition.
    pub repetition: u64,
    /// Rounds closed before this one.
    pub round: Round,
    /// The members, in the order of their ids, each once.
    pub members: Vec<ClientId>,
    /// What a member's work was multiplied with.
    pub coefficients: Vec<f64>,
}

impl RecordedCohort {
    /// Fills `cohort` with it.
    pub(crate) fn copy_to(&self, cohort: &mut Cohort) {
        cohort.members.clone_from(&self.members);
        cohort.coefficients.clone_from(&self.coefficients);
    }
}

/// Recorded cohorts, found by repetition and round.
#[derive(Clone, Debug, Default)]
pub struct RecordedCohorts(HashMap<(u64, Round), RecordedCohort>);

impl RecordedCohorts {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one of a repetition in the round that follows `round`.
    pub fn of(&self, repetition: u64, round: Round) -> Option<&RecordedCohort> {
        self.0.get(&(repetition, round))
    }
}

impl FromIterator<RecordedCohort> for RecordedCohorts {
    fn from_iter<I: IntoIterator<Item = RecordedCohort>>(cohorts: I) -> Self {
        let keyed = cohorts.into_iter().map(|cohort| ((cohort.repetition, cohort.round), cohort));
        RecordedCohorts(keyed.collect())
    }
}

impl Cohort {
    /// Nobody.
    pub fn clear(&mut self) {
        self.members.clear();
        self.coefficients.clear();
    }

    /// Only those members for whom `keep` holds, with their coefficients.
    pub(crate) fn keep(&mut self, keep: impl Fn(ClientId) -> bool) {
        let mut kept = self.members.iter().map(|&member| keep(member));
        self.coefficients.retain(|_| kept.next().unwrap_or(false));
        self.members.retain(|&member| keep(member));
    }

    /// Turns the ids drawn into members in the order of their ids: by counting, without branches,
    /// where they are dense among `clients`, and by sorting where they are not.
    fn gather(&mut self, clients: usize, coefficient: impl Fn(u32, u32) -> f64) {
        self.members.clear();
        self.coefficients.clear();
        if clients > 8 * self.drawn.len() {
            self.drawn.sort_unstable();
            for same in self.drawn.chunk_by(|a, b| a == b) {
                self.members.push(ClientId(same[0]));
                self.coefficients.push(coefficient(same[0], same.len() as u32));
            }
            return;
        }
        self.counts.clear();
        self.counts.resize(clients, 0);
        self.drawn.iter().for_each(|&id| self.counts[id as usize] += 1);
        self.members.resize(clients, ClientId(0));
        self.coefficients.resize(clients, 0.0);
        let mut place = 0;
        for (id, &times) in self.counts.iter().enumerate() {
            self.members[place] = ClientId(id as u32);
            self.coefficients[place] = coefficient(id as u32, times);
            place += usize::from(times > 0);
        }
        self.members.truncate(place);
        self.coefficients.truncate(place);
    }
}

/// An alias table (Vose 1991): for each column the probability of staying there, and where one goes
/// otherwise. Two arrays, since a million clients have a million of each.
#[derive(Clone, Debug, Default)]
struct Alias {
    keep: Vec<f64>,
    other: Vec<u32>,
}

impl Alias {
    fn new(weights: &[f64]) -> Self {
        let count = weights.len() as f64;
        let mut keep: Vec<f64> = weights.iter().map(|p| p * count).collect();
        let mut other: Vec<u32> = (0..weights.len() as u32).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|&i| keep[i as usize] < 1.0);
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            other[poor as usize] = rich;
            keep[rich as usize] -= 1.0 - keep[poor as usize];
            if keep[rich as usize] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        // What is left differs from one by rounding only, except that a client of weight zero must
        // never be picked: it goes to the heaviest one.
        small.into_iter().chain(large).for_each(|i| keep[i as usize] = 1.0);
        let heaviest = weights.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let heaviest = heaviest.map_or(0, |(i, _)| i as u32);
        for i in 0..weights.len() {
            if weights[i] == 0.0 && other[i] == i as u32 {
                (keep[i], other[i]) = (0.0, heaviest);
            }
        }
        Alias { keep, other }
    }

    /// The client that a uniform word stands for.
    #[inline]
    fn pick(&self, word: u64) -> u32 {
        let product = word as u128 * self.keep.len() as u128;
        let column = (product >> 64) as usize;
        let within = (product as u64 >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
        if within < self.keep[column] { column as u32 } else { self.other[column] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedback_core::protocol::StepSize;
    use proptest::prelude::*;

    fn protocol(scheme: Scheme, scale_objectives: bool) -> Protocol {
        let usual = Protocol::p_fedavg(scheme, 1, StepSize::Constant(0.1));
        Protocol { scale_objectives, ..usual }
    }

    fn sampler(scheme: Scheme, scaled: bool, weights: &[f64]) -> CohortSampler {
        CohortSampler::new(&protocol(scheme, scaled), weights.into())
    }

    #[test]
    fn cohorts_are_pinned() {
        let weights = [0.1, 0.4, 0.0, 0.2, 0.3];
        let mut cohort = Cohort::default();
        let mut members = |scheme| {
            let sampler = sampler(scheme, false, &weights);
            (0..3)
                .map(|round| {
                    sampler.draw(Seed(7), 0, Round(round), &mut cohort);
                    cohort.members.iter().map(|c| c.0).collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(members(Scheme::WithReplacement { cohort: 4 }), PINNED_WITH);
        assert_eq!(members(Scheme::WithoutReplacement { cohort: 3 }), PINNED_WITHOUT);
    }

    const PINNED_WITH: [&[u32]; 3] = [&[1, 4], &[1, 3], &[1, 3]];
    const PINNED_WITHOUT: [&[u32]; 3] = [&[0, 1, 2], &[0, 3, 4], &[0, 1, 2]];

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 24,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        /// E[coefficient_i] = p_i for every scheme, within 5.5 standard errors: there are about a
        /// thousand comparisons.
        #[test]
        fn expected_coefficients_are_the_weights(
            raw in prop::collection::vec(0.0f64..1.0, 2..9),
            cohort in 1usize..6,
            scaled: bool,
            seed: u64,
        ) {
            let total: f64 = raw.iter().sum();
            prop_assume!(total > 0.1);
            let weights: Vec<f64> = raw.iter().map(|w| w / total).collect();
            let n = weights.len();
            let without = Scheme::WithoutReplacement { cohort: cohort.min(n) };
            for scheme in [Scheme::Full, Scheme::WithReplacement { cohort }, without] {
                let scaled = scaled && scheme == without;
                let sampler = sampler(scheme, scaled, &weights);
                let mut buffer = Cohort::default();
                let rounds = 4000;
                let (mut sum, mut squares) = (vec![0.0; n], vec![0.0; n]);
                for round in 0..rounds {
                    sampler.draw(Seed(seed), 1, Round(round), &mut buffer);
                    prop_assert!(buffer.members.is_sorted());
                    prop_assert!(buffer.members.len() <= sampler.capacity());
                    for (member, c) in buffer.members.iter().zip(&buffer.coefficients) {
                        sum[member.0 as usize] += c;
                        squares[member.0 as usize] += c * c;
                    }
                }
                for i in 0..n {
                    let expected = if scaled { 1.0 / n as f64 } else { weights[i] };
                    let mean = sum[i] / rounds as f64;
                    let variance = (squares[i] / rounds as f64 - mean * mean).max(0.0);
                    let error = (variance / rounds as f64).sqrt() + 1e-12;
                    prop_assert!((mean - expected).abs() < 5.5 * error, "{scheme:?} {i}: {mean} {expected}");
                }
            }
        }
    }

    #[test]
    fn clients_without_weight_are_never_drawn() {
        let sampler = sampler(Scheme::WithReplacement { cohort: 5 }, false, &[0.0, 0.5, 0.0, 0.5]);
        let mut cohort = Cohort::default();
        for round in 0..2000 {
            sampler.draw(Seed(3), 0, Round(round), &mut cohort);
            assert!(cohort.members.iter().all(|c| c.0 % 2 == 1));
        }
    }
}
