//! One round, once: what it does to the mean and to the spread of everything that lives between rounds.
//!
//! E local steps make of the state y (the model's error, and what server and clients keep) works
//! δ_k that are affine in it (`client.rs`, `frame.rs`); the cohort's random coefficients z ([`crate::cohort`])
//! decide what they count. With effects C_k y + e_k + noise of covariance N_k, expected coefficients E(z) and
//! what happens without anybody's work,
//!
//! E(y) ← B̄ E(y) + b̄,
//! Cov(y) ← B̄ Cov(y) B̄ᵀ + Σ E(z_k²) N_k + Σ Cov(z_k, z_l) (C_k Cov(y) C_lᵀ + ε_k ε_lᵀ),
//!
//! ε_k = C_k E(y) + e_k. Exact curves are this, round by round; radii, largest steps and places of rest follow
//! from it at one step size (`second.rs`); plans repeat it. Exact where gradients are affine; elsewhere it is the
//! round linearised at a point. Where coordinates do not mix each is a part of its own, in numbers
//! rather than matrices.

mod block;
pub(crate) mod client;
mod frame;
mod grows;
mod second;
mod tail;
mod walk;

use std::ops::Range;
use std::sync::Arc;

use fedback_core::federation::Federation;
use fedback_core::misfit::Unsupported;
use fedback_core::protocol::{Protocol, ServerRule};
use nalgebra::DMatrix;

pub(crate) use block::Block;
use client::{Client, Clients, Local};
use frame::{Frame, Joint};
pub(crate) use second::{Leap, Second};
pub(crate) use tail::Tail;
pub(crate) use walk::Walk;

use crate::cohort::{Chance, Cohorts};

/// y ↦ map · y + shift, with noise of a covariance.
#[derive(Clone, Debug)]
pub(crate) struct Affine<J> {
    pub(crate) map: J,
    pub(crate) shift: J,
    pub(crate) noise: J,
}

/// A problem near a point under a protocol: its rounds, part by part. States are slices with the parts'
/// one after the other, each beginning with the model's error; spreads are their covariances.
pub(crate) struct System {
    pub(crate) parts: Vec<Box<dyn Part>>,
    dim: usize,
    chance: Chance,
}

/// One part of a problem: a coordinate, or all that mix.
pub(crate) trait Part: Second + Tail {
    /// The length of the part of the state.
    fn width(&self) -> usize;
    /// Of them the model's.
    fn dim(&self) -> usize;
    /// Works out a round with these step sizes, and what chance adds if that is asked for.
    fn prepare(&mut self, sizes: &[f64], drawing: bool);
    /// Moves a mean over the prepared round.
    fn mean(&self, mean: &[f64], after: &mut [f64]);
    /// Moves the spread of a chance, and returns the variance of the model; `mean` is the one before.
    /// `works` replace what the part takes for the clients' mean work.
    fn spread(
        &self,
        chance: Chance,
        mean: &[f64],
        works: Option<&[f64]>,
        before: &[f64],
        after: &mut [f64],
    ) -> f64;
    /// E Σ w_i |δ_i − Σ w δ|² of the prepared round.
    fn consensus(&self, weights: &[f64], mean: &[f64], spread: &[f64]) -> f64;
    /// A client's E|∇ℓ|² before each of these local steps of P-FedAvg.
    fn gradients(&self, client: usize, sizes: &[f64], mean: &[f64], spread: &[f64]) -> Vec<f64>;
    /// The norm of the steepest slope.
    fn steepest(&self) -> f64;
    /// Whether noise grows with the error, and whether that is bounded rather than exact.
    fn grows(&self) -> (bool, bool);
}

/// Clients' maps in blocks `T`, the state in blocks `J`.
#[derive(Clone)]
struct Rounds<T, J: Block> {
    clients: Vec<Client<T>>,
    frame: Frame,
    cohorts: Arc<Cohorts>,
    sizes: Vec<f64>,
    works: Vec<Affine<J>>,
    effects: Vec<Affine<J>>,
    expected: Affine<J>,
    /// What chance adds, for each draw and a share of one.
    drawn: Vec<(J::Drawn, J)>,
}

/// What theory cannot write down as an affine round.
pub fn supported(protocol: &Protocol) -> Result<(), Unsupported> {
    // No `..`: whoever adds a part must say here what a round makes of it.
    let Protocol {
        scheme: _,
        local_steps: _,
        batch: _,
        step_size: _,
        local: _,
        server,
        deploy: _,
        aggregate: _,
        scale_objectives: _,
    } = *protocol;
    match server {
        ServerRule::Average | ServerRule::Momentum { .. } => Ok(()),
        ServerRule::Adam { .. } => Err(Unsupported::new(
            "algorithm.server",
            "found \"fedopt\" with a server that adapts its steps (Adam): its rounds are not linear \
             in the clients' work, so that there are no exact moments, certificates or plans (`run` \
             and `solve` know all kinds)",
        )),
    }
}

/// How fast rounds of small steps move, in units of P-FedAvg's with all clients.
pub(crate) fn speed(protocol: &Protocol) -> f64 {
    match protocol.server {
        ServerRule::Average | ServerRule::Adam { .. } => 1.0,
        ServerRule::Momentum { rate, beta } => rate / (1.0 - beta),
    }
}

impl System {
    /// All clients at `point`; refused where a round is not affine.
    pub(crate) fn new(
        federation: &Federation,
        protocol: &Protocol,
        cohorts: Cohorts,
        point: &[f64],
    ) -> Result<Self, Unsupported> {
        let all: Vec<usize> = (0..federation.clients()).collect();
        System::of_clients(federation, protocol, cohorts, &all, point)
    }

    /// Some clients, whose coefficients `cohorts` has.
    pub(crate) fn of_clients(
        federation: &Federation,
        protocol: &Protocol,
        cohorts: Cohorts,
        clients: &[usize],
        point: &[f64],
    ) -> Result<Self, Unsupported> {
        supported(protocol)?;
        let cohorts = Arc::new(cohorts);
        let frame = |origin: &[f64]| Frame::of(federation, protocol, origin);
        let part = |frame: Frame, clients: Vec<Client<f64>>| -> Box<dyn Part> {
            match frame.is_plain() {
                true => Box::new(Rounds::<f64, f64>::new(clients, frame, &cohorts)),
                false => Box::new(Rounds::<f64, DMatrix<f64>>::new(clients, frame, &cohorts)),
            }
        };
        let parts = match Clients::of(federation, protocol, clients, point) {
            Clients::Split(parts) => {
                let split = parts.into_iter().enumerate();
                split.map(|(j, clients)| part(frame(&point[j..=j]), clients)).collect()
            }
            Clients::Whole(clients) => {
                let whole = Rounds::<_, DMatrix<f64>>::new(clients, frame(point), &cohorts);
                vec![Box::new(whole) as Box<dyn Part>]
            }
        };
        let dim = point.len();
        Ok(System { parts, dim, chance: cohorts.schemes[0] })
    }

    /// What chance does under the scheme that the system was made for.
    pub(crate) fn chance(&self) -> Chance {
        self.chance
    }

    /// The length of a spread.
    pub(crate) fn spread_width(&self) -> usize {
        self.parts.iter().map(|part| part.width() * part.width()).sum()
    }

    /// Every part with its places in a state and in a spread.
    fn places(&self) -> impl Iterator<Item = (&dyn Part, Range<usize>, Range<usize>)> {
        self.parts.iter().scan((0, 0), |(done, from), part| {
            let (width, square) = (part.width(), part.width() * part.width());
            let places = (*done..*done + width, *from..*from + square);
            (*done, *from) = (places.0.end, places.1.end);
            Some((&**part, places.0, places.1))
        })
    }

    /// A state in which only the model's error is not zero.
    pub(crate) fn state_of(&self, error: &[f64]) -> Vec<f64> {
        let (mut state, mut done) = (Vec::new(), 0);
        for part in &self.parts {
            state.extend_from_slice(&error[done..done + part.dim()]);
            state.resize(state.len() + part.width() - part.dim(), 0.0);
            done += part.dim();
        }
        state
    }

    /// The model's error out of a state.
    pub(crate) fn error_of(&self, state: &[f64]) -> Vec<f64> {
        self.places().flat_map(|(part, own, _)| &state[own][..part.dim()]).copied().collect()
    }

    /// |x|² out of a state.
    pub(crate) fn square_of(&self, state: &[f64]) -> f64 {
        let square = |(part, own, _): (&dyn Part, Range<usize>, _)| {
            state[own][..part.dim()].iter().map(|x| x * x).sum::<f64>()
        };
        self.places().map(square).sum()
    }

    /// Cov(x_j, x_k) out of a spread.
    pub(crate) fn covariance_of(&self, spread: &[f64]) -> DMatrix<f64> {
        let mut covariance = DMatrix::zeros(self.dim, self.dim);
        let mut first = 0;
        for (part, _, own) in self.places() {
            let (dim, width) = (part.dim(), part.width());
            let all = DMatrix::from_column_slice(width, width, &spread[own]);
            covariance
                .view_mut((first, first), (dim, dim))
                .copy_from(&all.view((0, 0), (dim, dim)));
            first += dim;
        }
        covariance
    }

    /// Works out a round.
    pub(crate) fn prepare(&mut self, sizes: &[f64], drawing: bool) {
        self.parts.iter_mut().for_each(|part| part.prepare(sizes, drawing));
    }

    /// Moves a mean over the prepared round.
    pub(crate) fn mean(&self, mean: &[f64], after: &mut [f64]) {
        for (part, own, _) in self.places() {
            part.mean(&mean[own.clone()], &mut after[own]);
        }
    }

    /// Moves a spread, and returns the model's total variance.
    pub(crate) fn spread(
        &self,
        chance: Chance,
        mean: &[f64],
        works: Option<&[f64]>,
        before: &[f64],
        after: &mut [f64],
    ) -> f64 {
        let mut total = 0.0;
        for (part, own, square) in self.places() {
            let (before, after) = (&before[square.clone()], &mut after[square]);
            total += part.spread(chance, &mean[own], works, before, after);
        }
        total
    }

    /// Moves a mean and a spread over many rounds, part after part, and returns the model's total variance.
    pub(crate) fn leap(
        &self,
        leaps: &[Leap],
        (mean, spread): (&[f64], &[f64]),
        (mean_after, spread_after): (&mut [f64], &mut [f64]),
    ) -> f64 {
        let mut total = 0.0;
        for ((_, own, square), leap) in self.places().zip(leaps) {
            let before = (&mean[own.clone()], &spread[square.clone()]);
            total += leap.apply(before, (&mut mean_after[own], &mut spread_after[square]));
        }
        total
    }

    /// E Σ w_i |δ_i − Σ w δ|² of the prepared round.
    pub(crate) fn consensus(&self, weights: &[f64], mean: &[f64], spread: &[f64]) -> f64 {
        let one = |(part, own, square): (&dyn Part, Range<usize>, Range<usize>)| {
            part.consensus(weights, &mean[own], &spread[square])
        };
        self.places().map(one).sum()
    }

    /// max E|∇ℓ_i|² over so many clients and the local steps of a round.
    pub(crate) fn largest_gradient(
        &self,
        clients: usize,
        sizes: &[f64],
        mean: &[f64],
        spread: &[f64],
    ) -> f64 {
        let largest = |client: usize| {
            let mut sums = vec![0.0; sizes.len()];
            for (part, own, square) in self.places() {
                let own = part.gradients(client, sizes, &mean[own], &spread[square]);
                sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            }
            sums.into_iter().fold(0.0, f64::max)
        };
        (0..clients).map(largest).fold(0.0, f64::max)
    }

    /// The largest of a number of the parts; none where one has none.
    pub(crate) fn largest(&self, of: impl Fn(&dyn Part) -> Option<f64>) -> Option<f64> {
        self.parts.iter().try_fold(0.0, |most: f64, part| Some(most.max(of(&**part)?)))
    }
}

/// The length of the largest part of a state.
pub(crate) fn width(federation: &Federation, protocol: &Protocol) -> usize {
    let dim = if is_split(federation) { 1 } else { federation.dim() };
    Frame::of(federation, protocol, &vec![0.0; dim]).width()
}

/// Whether coordinates are affine and do not mix.
pub(crate) fn is_split(federation: &Federation) -> bool {
    federation.is_affine() && (federation.response().is_diagonal() || federation.dim() == 1)
}

impl<T: Block, J: Joint<T>> Rounds<T, J> {
    fn new(clients: Vec<Client<T>>, frame: Frame, cohorts: &Arc<Cohorts>) -> Self {
        let expected = J::stay(&frame);
        let cohorts = Arc::clone(cohorts);
        let (sizes, works, effects) = (Vec::new(), Vec::new(), Vec::new());
        Rounds { clients, frame, cohorts, sizes, works, effects, expected, drawn: Vec::new() }
    }

    fn state(&self, mean: &[f64]) -> J {
        J::of_slice(self.frame.width(), 1, mean)
    }

    fn covariance(&self, spread: &[f64]) -> J {
        J::of_slice(self.frame.width(), self.frame.width(), spread)
    }

    /// The effects of works, one for each random number.
    fn effects_of(&self, works: &[Affine<J>]) -> Vec<Affine<J>> {
        let total: f64 = self.sizes.iter().sum();
        let once = |work: &Affine<J>| J::effect(&self.frame, work, 1.0, None);
        let mut effects: Vec<Affine<J>> = match &self.cohorts.counts {
            None => works.iter().map(once).collect(),
            Some(counts) => {
                let own = works.iter().zip(counts).enumerate();
                own.map(|(k, (work, count))| J::effect(&self.frame, work, *count, Some((k, total))))
                    .collect()
            }
        };
        if self.cohorts.rests {
            effects.extend(works.iter().map(once));
        }
        if self.cohorts.idle {
            // Nothing happens, instead of what does without anybody's work.
            let mut nothing = J::stay(&self.frame);
            nothing.map.scale(-1.0);
            nothing.map.add(1.0, &J::identity(self.frame.width()));
            nothing.shift.scale(-1.0);
            effects.push(nothing);
        }
        effects
    }

    /// Σ E(z_k²) N_k where N_k is what noise that grows with a second moment adds.
    fn grown(&self, chance: Chance, second: &J) -> Option<J> {
        if self.clients.iter().all(|client| client.grows.is_none()) {
            return None;
        }
        let squares = self.cohorts.squares(chance);
        let (second, total) = (second.matrix(), self.sizes.iter().sum::<f64>());
        let width = self.frame.width();
        let mut sum = DMatrix::<f64>::zeros(width, width);
        for (k, client) in self.clients.iter().enumerate() {
            let Some(grows) = &client.grows else { continue };
            let begin = self.frame.start(k).around(&second);
            let noise = client.grown(grows, &self.sizes, &begin);
            let kept = self.cohorts.counts.as_ref().map(|counts| (counts[k], (k, total)));
            let reach = match kept {
                None => self.frame.reach(1.0, None),
                Some((count, kept)) => self.frame.reach(count, Some(kept)),
            };
            sum += reach.around(&noise) * squares[k];
            if self.cohorts.rests {
                let rest = squares[self.clients.len() + k];
                sum += self.frame.reach(1.0, None).around(&noise) * rest;
            }
        }
        Some(J::of_slice(width, width, sum.as_slice()))
    }

    /// What a round adds to a spread, the state's mean being where it is.
    fn source(&self, chance: Chance, mean: &J, works: Option<&[f64]>) -> J {
        let mut source = self.expected.noise.clone();
        if let Some((draw, share)) = chance {
            let (drawn, noise) = &self.drawn[draw];
            source.add(share, noise);
            let chance = match works {
                None => J::source(drawn, mean),
                Some(works) => {
                    let fixed = self.effects_of(&self.fixed(works));
                    let constant = |effect: &Affine<J>| Affine {
                        map: effect.map.emptied(),
                        shift: effect.at(mean),
                        noise: effect.noise.clone(),
                    };
                    let values: Vec<Affine<J>> = fixed.iter().map(constant).collect();
                    J::source(&self.cohorts.draws[draw].gather(&values).0, mean)
                }
            };
            source.add(share, &chance);
        }
        source
    }

    /// Works that are what they are, whatever the state.
    fn fixed(&self, works: &[f64]) -> Vec<Affine<J>> {
        let dim = self.frame.dim;
        let work = |(own, works): (&Affine<J>, &[f64])| Affine {
            map: own.map.emptied(),
            shift: J::of_slice(dim, 1, works),
            noise: own.noise.emptied(),
        };
        self.works.iter().zip(works.chunks_exact(dim)).map(work).collect()
    }

    /// The linear part of a round on second moments.
    fn carry(&self, chance: Chance, second: &J) -> J {
        let mut after = self.expected.map.around(second);
        if let Some((draw, share)) = chance {
            after.add(share, &J::carried(&self.drawn[draw].0, second));
        }
        after
    }
}

impl<J: Block> Affine<J> {
    /// The mean value at a mean.
    fn at(&self, mean: &J) -> J {
        let mut value = self.map.times(mean);
        value.add(1.0, &self.shift);
        value
    }
}

impl<T: Block, J: Joint<T>> Part for Rounds<T, J>
where
    Rounds<T, J>: Second,
{
    fn width(&self) -> usize {
        self.frame.width()
    }

    fn dim(&self) -> usize {
        self.frame.dim
    }

    fn prepare(&mut self, sizes: &[f64], drawing: bool) {
        self.sizes.clear();
        self.sizes.extend_from_slice(sizes);
        // Step after step of all clients: one does not wait for another.
        let mut locals: Vec<Local<T>> = self.clients.iter().map(Client::begin).collect();
        for run in sizes.chunk_by(|a, b| a == b) {
            let each = self.clients.iter().zip(&mut locals);
            each.for_each(|(client, local)| client.steps(local, run[0], run.len()));
        }
        let each = self.clients.iter().zip(&locals).enumerate();
        let work = |(k, (client, local)): (usize, (&Client<T>, &Local<T>))| {
            J::work(&self.frame, k, local, &client.pull)
        };
        self.works = each.map(work).collect();
        self.effects = self.effects_of(&self.works);
        self.expected = J::stay(&self.frame);
        for (effect, g) in self.effects.iter().zip(&self.cohorts.expected) {
            self.expected.map.add(*g, &effect.map);
            self.expected.shift.add(*g, &effect.shift);
            self.expected.noise.add(g * g, &effect.noise);
        }
        self.drawn.clear();
        if drawing {
            self.drawn.extend(self.cohorts.draws.iter().map(|draw| draw.gather(&self.effects)));
        }
    }

    fn mean(&self, mean: &[f64], after: &mut [f64]) {
        after.copy_from_slice(self.expected.at(&self.state(mean)).slice());
    }

    fn spread(
        &self,
        chance: Chance,
        mean: &[f64],
        works: Option<&[f64]>,
        before: &[f64],
        after: &mut [f64],
    ) -> f64 {
        let mut spread = self.carry(chance, &self.covariance(before));
        spread.add(1.0, &self.source(chance, &self.state(mean), works));
        after.copy_from_slice(spread.slice());
        let width = self.frame.width();
        (0..self.frame.dim).map(|j| after[j * width + j]).sum()
    }

    fn consensus(&self, weights: &[f64], mean: &[f64], spread: &[f64]) -> f64 {
        let draw = crate::cohort::Draw::by_weight(weights);
        let (drawn, noise) = draw.gather(&self.works);
        let shared = J::carried(&drawn, &self.covariance(spread));
        J::source(&drawn, &self.state(mean)).trace() + shared.trace() + noise.trace()
    }

    fn gradients(&self, client: usize, sizes: &[f64], mean: &[f64], spread: &[f64]) -> Vec<f64> {
        let (mean, spread) = (self.state(mean), self.covariance(spread));
        let (own, mut local) = (&self.clients[client], self.clients[client].begin());
        let slope = J::of_slice(own.dim, own.dim, own.damping.slice());
        let pull = J::of_slice(own.dim, 1, own.pull.slice());
        let before = |&size: &f64| {
            // The local error is the broadcast one and what was moved since.
            let mut error = J::work(&self.frame, client, &local, &own.pull);
            error.map.add(1.0, &J::identity(own.dim));
            let mut gradient = slope.times(&error.at(&mean));
            gradient.add(-1.0, &pull);
            let mut covariance = error.map.around(&spread);
            covariance.add(1.0, &error.noise);
            let mut square = gradient.times(&gradient.turned());
            square.add(1.0, &slope.around(&covariance));
            own.steps(&mut local, size, 1);
            square.trace() + own.noise.trace()
        };
        sizes.iter().map(before).collect()
    }

    fn steepest(&self) -> f64 {
        let slope =
            |client: &Client<T>| client.slope().matrix().norm().max(client.damping.matrix().norm());
        self.clients.iter().map(slope).fold(f64::MIN_POSITIVE, f64::max)
    }

    fn grows(&self) -> (bool, bool) {
        let mut all = self.clients.iter().filter_map(|client| client.grows.as_ref());
        let bounded = all.clone().any(|grows| matches!(grows, grows::Grows::Bound(..)));
        (all.next().is_some(), bounded)
    }
}
