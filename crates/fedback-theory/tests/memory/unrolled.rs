//! Second moments of everything there is, local step by local step and cohort by cohort.
//!
//! Another way to the numbers of `exact`: one vector holds the server, every client and a one, every local step
//! and every cohort that may be drawn is a matrix, and the second moment Z of the vector goes through all of
//! them. Nothing is in closed form, nothing is measured from a point.

use std::ops::Range;

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::memory::Memory;
use fedback_core::protocol::{Deploy, LocalRule, Protocol, Round, Scheme, ServerRule};
use fedback_core::response::{Sensitivity, location};
use nalgebra::DMatrix;

/// Clients with the loss `mean`, moved by matrices.
pub struct Problem {
    pub weights: Vec<f64>,
    pub dim: usize,
    /// Client after client.
    pub mean: Vec<f64>,
    /// Row after row of one client after the other.
    pub moves: Vec<Vec<Vec<f64>>>,
    pub noise: f64,
    pub memory: Option<Memory>,
    pub past: Vec<f64>,
}

impl Problem {
    /// The same as theory sees it.
    pub fn federation(&self) -> Federation {
        let base = Gaussian { dim: self.dim, mean: self.mean.clone(), noise: self.noise };
        let shift = location(&Sensitivity::Matrix(self.moves.clone()), self.dim, false);
        let weights = self.weights.clone();
        let problem = Federation::new(weights, Base::Gaussian(base), shift, Loss::Mean).unwrap();
        match self.memory {
            None => problem,
            Some(memory) => problem.remembering(memory, &self.past).unwrap(),
        }
    }

    fn matrix(&self, client: usize) -> DMatrix<f64> {
        DMatrix::from_fn(self.dim, self.dim, |j, k| self.moves[client][j][k])
    }

    fn remembered(&self) -> usize {
        self.memory.map_or(0, |memory| match memory {
            Memory::Inertia { .. } => 1,
            Memory::Delay { deployments } => deployments,
            Memory::Staggered { parts } => parts - 1,
            Memory::Renewal { .. } => 0,
        })
    }
}

/// What is where: x, v, then for every client c_i, w_i, what its population remembers, what it remembers while the
/// client works; a one.
struct Places {
    dim: usize,
    clients: usize,
    remembered: usize,
}

impl Places {
    fn block(&self, place: usize) -> Range<usize> {
        place * self.dim..(place + 1) * self.dim
    }

    fn of(&self, client: usize, what: usize) -> usize {
        2 + client * (2 + 2 * self.remembered) + what
    }

    fn past(&self, client: usize, model: usize) -> usize {
        self.of(client, 2 + model)
    }

    fn working(&self, client: usize, model: usize) -> usize {
        self.of(client, 2 + self.remembered + model)
    }

    fn one(&self) -> usize {
        self.of(self.clients, 0) * self.dim
    }

    /// The block as a function of the vector.
    fn take(&self, place: usize) -> DMatrix<f64> {
        let mut take = DMatrix::zeros(self.dim, self.one() + 1);
        take.view_mut((0, place * self.dim), (self.dim, self.dim)).fill_with_identity();
        take
    }
}

const X: usize = 0;
const V: usize = 1;

/// Z after each of these rounds, as E|θ − point|².
pub fn distances(
    problem: &Problem,
    protocol: &Protocol,
    start: &[f64],
    point: &[f64],
    rounds: &[u64],
) -> Vec<f64> {
    let (dim, clients) = (problem.dim, problem.weights.len());
    let places = Places { dim, clients, remembered: problem.remembered() };
    let mut begin = vec![0.0; places.one() + 1];
    begin[places.one()] = 1.0;
    begin[places.block(X)].copy_from_slice(start);
    for (client, model) in pairs(clients, places.remembered) {
        begin[places.block(places.past(client, model))].copy_from_slice(&problem.past);
    }
    let begin = DMatrix::from_vec(begin.len(), 1, begin);
    let mut second = &begin * begin.transpose();
    let mut found = Vec::new();
    for round in 0..rounds.iter().copied().max().unwrap_or(0) {
        second = one_round(problem, protocol, &places, Round(round), &second);
        if rounds.contains(&(round + 1)) {
            let mut apart = places.take(X);
            apart.column_mut(places.one()).copy_from_slice(point);
            apart.column_mut(places.one()).neg_mut();
            found.push((&apart * &second * apart.transpose()).trace());
        }
    }
    found
}

fn pairs(clients: usize, models: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..clients).flat_map(move |client| (0..models).map(move |model| (client, model)))
}

/// The models that equal parts of a population answer to, and what it remembers next.
fn answered(
    memory: Option<Memory>,
    deployed: DMatrix<f64>,
    past: Vec<DMatrix<f64>>,
) -> (Vec<DMatrix<f64>>, Vec<DMatrix<f64>>) {
    match memory {
        None | Some(Memory::Renewal { .. }) => (vec![deployed], Vec::new()),
        Some(Memory::Inertia { rate }) => {
            let slow = &past[0] * (1.0 - rate) + deployed * rate;
            (vec![slow.clone()], vec![slow])
        }
        Some(Memory::Delay { deployments }) => {
            let oldest = past[deployments - 1].clone();
            let kept = past.into_iter().take(deployments - 1);
            (vec![oldest], std::iter::once(deployed).chain(kept).collect())
        }
        Some(Memory::Staggered { parts }) => {
            let all: Vec<_> = std::iter::once(deployed).chain(past).collect();
            let next = all[..parts - 1].to_vec();
            (all, next)
        }
    }
}

fn one_round(
    problem: &Problem,
    protocol: &Protocol,
    places: &Places,
    round: Round,
    before: &DMatrix<f64>,
) -> DMatrix<f64> {
    let (dim, clients, models) = (places.dim, places.clients, places.remembered);
    let all = places.one() + 1;
    let put = |map: &mut DMatrix<f64>, place: usize, rows: &DMatrix<f64>| {
        map.rows_mut(place * dim, dim).copy_from(rows);
    };
    let mut map = DMatrix::identity(all, all);
    for client in 0..clients {
        put(&mut map, places.of(client, 1), &places.take(X));
    }
    for (client, model) in pairs(clients, models) {
        put(&mut map, places.working(client, model), &places.take(places.past(client, model)));
    }
    let mut second = &map * before * map.transpose();
    let sizes: Vec<f64> = protocol.sizes(round).collect();
    let proximal = match protocol.local {
        LocalRule::Proximal { proximal } => proximal,
        LocalRule::Descent | LocalRule::Scaffold => 0.0,
    };
    for &size in &sizes {
        let mut map = DMatrix::identity(all, all);
        let mut noise = DMatrix::zeros(all, all);
        for client in 0..clients {
            let local = places.take(places.of(client, 1));
            let deployed = match protocol.deploy {
                Deploy::Step => local.clone(),
                Deploy::Round => places.take(X),
            };
            let past = (0..models).map(|model| places.take(places.working(client, model)));
            let (answers, next) = answered(problem.memory, deployed, past.collect());
            let share = 1.0 / answers.len() as f64;
            let average = answers.iter().fold(DMatrix::zeros(dim, all), |sum, a| sum + a * share);
            let moves = problem.matrix(client);
            let scale = match protocol.scale_objectives {
                true => clients as f64 * problem.weights[client],
                false => 1.0,
            };
            let mut gradient = &local - &moves * &average;
            let mean = &problem.mean[client * dim..][..dim];
            (0..dim).for_each(|j| gradient[(j, places.one())] -= mean[j]);
            gradient *= scale;
            gradient += (&local - places.take(X)) * proximal;
            if protocol.local == LocalRule::Scaffold {
                gradient -= places.take(places.of(client, 0));
                for (other, weight) in problem.weights.iter().enumerate() {
                    gradient += places.take(places.of(other, 0)) * *weight;
                }
            }
            put(&mut map, places.of(client, 1), &(&local - gradient * size));
            let mut own = DMatrix::identity(dim, dim) * (problem.noise * problem.noise);
            for answer in &answers {
                let apart = &moves * (answer - &average);
                own += &apart * &second * apart.transpose() * share;
            }
            let place = places.block(places.of(client, 1)).start;
            let own = own * (scale * size * scale * size / protocol.batch.size());
            noise.view_mut((place, place), (dim, dim)).copy_from(&own);
            if protocol.deploy == Deploy::Step {
                for (model, next) in next.iter().enumerate() {
                    put(&mut map, places.working(client, model), next);
                }
            }
        }
        second = &map * second * map.transpose() + noise;
    }
    let total: f64 = sizes.iter().sum();
    let mut after = DMatrix::zeros(all, all);
    for (chance, members) in cohorts(protocol, &problem.weights) {
        let map = closing(problem, protocol, places, &members, total);
        after += &map * &second * map.transpose() * chance;
    }
    after
}

/// What the end of a round makes of the vector, if these clients worked.
fn closing(
    problem: &Problem,
    protocol: &Protocol,
    places: &Places,
    members: &[(usize, f64)],
    total: f64,
) -> DMatrix<f64> {
    let (dim, all) = (places.dim, places.one() + 1);
    let mut map = DMatrix::identity(all, all);
    let put = |map: &mut DMatrix<f64>, place: usize, rows: &DMatrix<f64>| {
        map.rows_mut(place * dim, dim).copy_from(rows);
    };
    let delta = |client: usize| places.take(places.of(client, 1)) - places.take(X);
    let parts = members.iter().map(|&(client, coefficient)| delta(client) * coefficient);
    let moved = parts.fold(DMatrix::zeros(dim, all), |sum, part| sum + part);
    match protocol.server {
        ServerRule::Average => put(&mut map, X, &(places.take(X) + moved)),
        ServerRule::Momentum { rate, beta } => {
            let velocity = places.take(V) * beta + moved;
            put(&mut map, V, &velocity);
            put(&mut map, X, &(places.take(X) + velocity * rate));
        }
        ServerRule::Adam { .. } => panic!("not linear"),
    }
    let pasts = pairs(places.clients, places.remembered);
    match protocol.deploy {
        Deploy::Round => {
            for client in 0..places.clients {
                let past = (0..places.remembered).map(|m| places.take(places.past(client, m)));
                let (_, next) = answered(problem.memory, places.take(X), past.collect());
                for (model, next) in next.iter().enumerate() {
                    put(&mut map, places.past(client, model), next);
                }
            }
        }
        Deploy::Step => {
            for (client, model) in pasts.filter(|(i, _)| members.iter().any(|(k, _)| k == i)) {
                let worked = places.take(places.working(client, model));
                put(&mut map, places.past(client, model), &worked);
            }
        }
    }
    if protocol.local == LocalRule::Scaffold {
        for &(client, _) in members {
            let mut kept = places.take(places.of(client, 0)) - delta(client) / total;
            for (other, weight) in problem.weights.iter().enumerate() {
                kept -= places.take(places.of(other, 0)) * *weight;
            }
            put(&mut map, places.of(client, 0), &kept);
        }
    }
    map
}

/// A probability, and clients with their coefficients.
type Drawn = (f64, Vec<(usize, f64)>);

/// Every cohort that may be drawn.
fn cohorts(protocol: &Protocol, weights: &[f64]) -> Vec<Drawn> {
    let n = weights.len();
    let everybody = || weights.iter().copied().enumerate().collect();
    match protocol.scheme {
        Scheme::Full => vec![(1.0, everybody())],
        Scheme::WithReplacement { cohort } => {
            let mut sequences: Vec<(f64, Vec<usize>)> = vec![(1.0, vec![0; n])];
            for _ in 0..cohort {
                let longer = sequences.iter().flat_map(|(chance, counts)| {
                    weights.iter().enumerate().map(move |(client, weight)| {
                        let mut counts = counts.clone();
                        counts[client] += 1;
                        (chance * weight, counts)
                    })
                });
                sequences = longer.collect();
            }
            let drawn = |(chance, counts): (f64, Vec<usize>)| {
                let came = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
                (chance, came.map(|(i, count)| (i, count as f64 / cohort as f64)).collect())
            };
            sequences.into_iter().map(drawn).collect()
        }
        Scheme::WithoutReplacement { cohort } => {
            let sets: Vec<usize> =
                (0..1usize << n).filter(|set| set.count_ones() as usize == cohort).collect();
            let coefficient = |i: usize| match protocol.scale_objectives {
                true => 1.0 / cohort as f64,
                false => weights[i] * n as f64 / cohort as f64,
            };
            let members = |set: &usize| {
                let own = (0..n).filter(|i| set >> i & 1 == 1);
                (1.0 / sets.len() as f64, own.map(|i| (i, coefficient(i))).collect())
            };
            sets.iter().map(members).collect()
        }
        Scheme::FirstArrivals { .. } => panic!("who is fast is not drawn"),
    }
}
