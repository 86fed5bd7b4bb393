//! One part of a problem: clients and their cohorts, worked out for the step sizes of a round.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;

use nalgebra::DMatrix;

use super::block::Block;
use super::client::{Client, Local};
use super::frame::{Frame, Joint};
use super::leap::unpacked;
use super::second::Second;
use super::{Affine, Moments};
use crate::cohort::{Chance, Cohorts, Draw};

/// One part of a problem: a coordinate, or all that mix.
pub(crate) trait Part: Second {
    /// The length of the part of the state.
    fn width(&self) -> usize;
    /// Of them the model's.
    fn dim(&self) -> usize;
    /// Where what populations remember is.
    fn pasts(&self) -> Range<usize>;
    /// Where what clients keep by their rule begins.
    fn kept_from(&self) -> usize;
    /// What it is before the first round.
    fn kept_first(&self) -> &[f64];
    /// What its rounds touch.
    fn work(&self) -> &Work;
    /// Works out a round with these step sizes, and what chance adds if that is asked for.
    fn prepare(&mut self, sizes: &[f64], drawing: bool);
    /// Moves a mean over the prepared round.
    fn mean(&self, mean: &[f64], after: &mut [f64]);
    /// Moves the spread of a chance; `works` replace what the part takes for the clients' mean work.
    fn spread(&self, chance: Chance, now: Moments<'_>, works: Option<&[f64]>, after: &mut [f64]);
    /// E Σ w_i |δ_i − Σ w δ|² of the prepared round.
    fn consensus(&self, weights: &[f64], now: Moments<'_>) -> f64;
    /// Every client's E|∇ℓ|² before each local step of the prepared round of P-FedAvg.
    fn gradients(&self, now: Moments<'_>) -> Vec<f64>;
    /// The norm of the steepest slope.
    fn steepest(&self) -> f64;
    /// Whether noise grows with the error.
    fn grows(&self) -> bool;
}

/// Numbers that the pieces of a round touch, roughly.
#[derive(Clone)]
pub(crate) struct Work {
    /// A local step of all clients.
    pub(crate) step: f64,
    /// What their works do to the state, and draws of them.
    close: f64,
    /// A product A V Aᵀ.
    around: f64,
    /// What chance adds to one.
    chance: f64,
    /// All that were touched so far.
    pub(crate) done: Cell<f64>,
}

impl Work {
    /// Of a part with some clients.
    fn of(clients: usize, frame: &Frame, cohorts: &Cohorts) -> Self {
        let (dim, width) = (frame.dim as f64, frame.width() as f64);
        let (clients, effects) = (clients as f64, cohorts.expected.len() as f64);
        // A matrix costs its allocation besides.
        let matrix = |number: f64, entries: f64| if width > 1.0 { 100.0 + entries } else { number };
        let pairs: f64 = cohorts.draws.iter().map(Draw::pairs_of_values).sum();
        let around = matrix(2.0, 100.0 + 4.0 * width.powi(3));
        Work {
            step: clients * matrix(3.0, 300.0 + 8.0 * dim.powi(3)),
            close: effects * matrix(6.0, 500.0 + 4.0 * width * width * (1.0 + dim))
                + pairs * matrix(2.0, 4.0 * width * width),
            around,
            chance: effects * around,
            done: Cell::new(0.0),
        }
    }

    /// Counts some more.
    pub(super) fn touch(&self, numbers: f64) {
        self.done.set(self.done.get() + numbers);
    }

    /// Working out a round of these steps, equal ones doubled.
    pub(crate) fn of_steps(&self, sizes: &[f64]) -> f64 {
        let runs = sizes.chunk_by(|a, b| a == b);
        let steps: f64 = runs.map(|run| 1.0 + 2.0 * libm::log2(run.len() as f64)).sum();
        self.close + steps * self.step + 2.0 * sizes.len() as f64
    }

    /// Moving a second moment over a round.
    pub(crate) fn of_move(&self, chance: Chance) -> f64 {
        self.around + chance.map_or(0.0, |_| self.chance)
    }
}

/// Clients' maps in blocks `T`, the state in blocks `J`.
#[derive(Clone)]
pub(super) struct Rounds<T, J: Block> {
    pub(super) clients: Vec<Client<T>>,
    pub(super) frame: Frame,
    first: Vec<f64>,
    pub(super) cohorts: Arc<Cohorts>,
    pub(super) sizes: Vec<f64>,
    works: Vec<Affine<J>>,
    effects: Vec<Affine<J>>,
    pub(super) expected: Affine<J>,
    /// What chance adds, for each draw and a share of one.
    pub(super) drawn: Vec<(J::Drawn, J)>,
    pub(super) work: Work,
    /// Whether noise that grows with the error is carried from round to round.
    closed: bool,
    /// What that noise makes of a basis of second moments, for one chance, where it was asked for.
    growth: RefCell<Option<(Chance, Vec<DMatrix<f64>>)>>,
}

impl<T: Block, J: Joint<T>> Rounds<T, J> {
    pub(super) fn new(mut clients: Vec<Client<T>>, frame: Frame, cohorts: &Arc<Cohorts>) -> Self {
        let (expected, mut first) = (J::stay(&frame), Vec::new());
        if let Some(weights) = &frame.kept {
            let mut mean = clients[0].pull.emptied();
            clients.iter().zip(weights).for_each(|(client, own)| mean.add(*own, &client.pull));
            for client in &mut clients {
                first.extend_from_slice(client.pull.clone().plus(-1.0, &mean).slice());
                client.pull = mean.clone();
            }
        }
        let work = Work::of(clients.len(), &frame, cohorts);
        Rounds {
            clients,
            frame,
            first,
            cohorts: Arc::clone(cohorts),
            sizes: Vec::new(),
            works: Vec::new(),
            effects: Vec::new(),
            expected,
            drawn: Vec::new(),
            work,
            closed: false,
            growth: RefCell::new(None),
        }
    }

    /// The same as a part of a problem; `closed` where noise that grows with the error does so exactly.
    pub(super) fn part(
        clients: Vec<Client<T>>,
        frame: Frame,
        cohorts: &Arc<Cohorts>,
        closed: bool,
    ) -> Box<dyn Part>
    where
        Self: 'static,
    {
        let rounds = Self::new(clients, frame, cohorts);
        Box::new(Rounds { closed, ..rounds })
    }

    /// Noise that grows with the error, where it is carried from round to round.
    pub(super) fn followed(&self) -> bool {
        self.closed && self.grows()
    }

    pub(super) fn state(&self, mean: &[f64]) -> J {
        J::of_slice(self.frame.width(), 1, mean)
    }

    pub(super) fn covariance(&self, spread: &[f64]) -> J {
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
            // What happens where nobody comes, instead of what does without anybody's work.
            let Affine { map, shift, noise } = J::stay(&self.frame);
            let map = J::idle(&self.frame).plus(-1.0, &map);
            effects.push(Affine { map, shift: shift.scaled(-1.0), noise });
        }
        effects
    }

    /// Σ E(z_k²) N_k where N_k is what noise that grows with a second moment adds: that of the state and of a one
    /// below it, or of an error alone, with zeros there.
    pub(super) fn grown(&self, chance: Chance, second: &DMatrix<f64>) -> Option<J> {
        let noisy = |(k, work): (usize, &Affine<J>)| {
            let grows = self.clients[k].grows.as_ref()?;
            let start = self.frame.start(k);
            let (rows, columns) = start.shape();
            let mut start = start.resize(rows + 1, columns + 1, 0.0);
            start[(rows, columns)] = 1.0;
            let noise = self.clients[k].grown(grows, &self.sizes, &start.around(second));
            let width = noise.nrows();
            Some(Affine { noise: J::of_slice(width, width, noise.as_slice()), ..work.clone() })
        };
        let works: Option<Vec<_>> = self.works.iter().enumerate().map(noisy).collect();
        let mut sum = self.expected.noise.emptied();
        for (effect, square) in self.effects_of(&works?).iter().zip(self.cohorts.squares(chance)) {
            sum.add(square, &effect.noise);
        }
        if self.followed() {
            // Round after round; elsewhere it is a small part of a radius.
            let each = self.work.step * self.sizes.len() as f64;
            self.work.touch(self.clients.len() as f64 * 100.0 + 4.0 * each);
        }
        Some(sum)
    }

    /// What noise that grows with the error adds at a state.
    pub(super) fn grown_at(&self, chance: Chance, mean: &J, spread: &J) -> Option<J> {
        if !self.followed() {
            return None;
        }
        let (mean, width) = (mean.matrix(), self.frame.width());
        let second = spread.matrix() + &mean * mean.transpose();
        let mut second = second.resize(width + 1, width + 1, 0.0);
        second.view_mut((0, width), (width, 1)).copy_from(&mean);
        second.view_mut((width, 0), (1, width)).tr_copy_from(&mean);
        second[(width, width)] = 1.0;
        self.grown(chance, &second)
    }

    /// What a weight of spreads is before noise that grows: ⟨P, N(Z)⟩ as a function of Z = E((y, 1)(y, 1)ᵀ).
    pub(super) fn grown_back(&self, chance: Chance, weight: &DMatrix<f64>) -> Option<DMatrix<f64>> {
        if !self.followed() {
            return None;
        }
        let count = self.frame.width() + 1;
        let mut images = self.growth.borrow_mut();
        if images.as_ref().is_none_or(|(known, _)| *known != chance) {
            let pairs = (0..count).flat_map(|k| (0..=k).map(move |j| (j, k)));
            let image = |(j, k): (usize, usize)| {
                let mut unit = DMatrix::zeros(count, count);
                unit[(j, k)] += 0.5;
                unit[(k, j)] += 0.5;
                Some(self.grown(chance, &unit)?.matrix())
            };
            *images = Some((chance, pairs.map(image).collect::<Option<_>>()?));
        }
        let values = images.iter().flat_map(|(_, images)| images);
        let values: Vec<f64> = values.map(|image| weight.dot(image)).collect();
        Some(unpacked(&values, count))
    }

    /// What a round adds to a spread, the state's mean being where it is.
    pub(super) fn source(&self, chance: Chance, mean: &J, works: Option<&[f64]>) -> J {
        let mut source = self.expected.noise.clone();
        if let Some((draw, share)) = chance {
            let (drawn, noise) = &self.drawn[draw];
            source.add(share, noise);
            let chance = match works {
                None => J::source(drawn, mean),
                Some(works) => {
                    let effects = self.effects_of(&self.fixed(works));
                    J::source(&self.cohorts.draws[draw].gather(&effects).0, mean)
                }
            };
            source.add(share, &chance);
        }
        source
    }

    /// Works that are what they are, whatever the state.
    fn fixed(&self, works: &[f64]) -> Vec<Affine<J>> {
        let width = works.len() / self.works.len();
        let work = |(own, works): (&Affine<J>, &[f64])| Affine {
            map: own.map.emptied(),
            shift: J::of_slice(width, 1, works),
            noise: own.noise.emptied(),
        };
        self.works.iter().zip(works.chunks_exact(width)).map(work).collect()
    }

    /// A client's δ alone out of its work.
    fn delta_of(&self, work: &Affine<J>) -> Affine<J> {
        let (dim, Affine { map, shift, noise }) = (self.frame.dim, work.clone());
        Affine {
            map: map.resized(dim, self.frame.width()),
            shift: shift.resized(dim, 1),
            noise: noise.resized(dim, dim),
        }
    }

    /// The linear part of a round on second moments.
    pub(super) fn carry(&self, chance: Chance, second: &J) -> J {
        self.work.touch(self.work.of_move(chance));
        let mut after = self.expected.map.around(second);
        if let Some((draw, share)) = chance {
            after.add(share, &J::carried(&self.drawn[draw].0, second));
        }
        after
    }
}

impl<T: Block, J: Joint<T>> Part for Rounds<T, J> {
    fn width(&self) -> usize {
        self.frame.width()
    }

    fn dim(&self) -> usize {
        self.frame.dim
    }

    fn pasts(&self) -> Range<usize> {
        self.frame.pasts()
    }

    fn kept_from(&self) -> usize {
        self.frame.place_of(0)
    }

    fn kept_first(&self) -> &[f64] {
        &self.first
    }

    fn work(&self) -> &Work {
        &self.work
    }

    fn prepare(&mut self, sizes: &[f64], drawing: bool) {
        self.sizes.clear();
        self.sizes.extend_from_slice(sizes);
        self.work.touch(self.work.of_steps(sizes));
        // Step after step of all clients: one does not wait for another.
        let mut locals: Vec<Local<T>> = self.clients.iter().map(Client::begin).collect();
        for run in sizes.chunk_by(|a, b| a == b) {
            let each = self.clients.iter().zip(&mut locals);
            each.for_each(|(client, local)| client.steps(local, run[0], run.len()));
        }
        let each = self.clients.iter().zip(&locals).enumerate();
        let work = |(k, (client, local)): (usize, (&Client<T>, &Local<T>))| {
            J::work(&self.frame, k, client, local)
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
        self.growth.take();
        if drawing {
            self.drawn.extend(self.cohorts.draws.iter().map(|draw| draw.gather(&self.effects)));
        }
    }

    fn mean(&self, mean: &[f64], after: &mut [f64]) {
        after.copy_from_slice(self.expected.at(&self.state(mean)).slice());
    }

    fn spread(&self, chance: Chance, now: Moments<'_>, works: Option<&[f64]>, after: &mut [f64]) {
        let (mean, before) = (self.state(now.0), self.covariance(now.1));
        let source = self.source(chance, &mean, works);
        let mut spread = self.carry(chance, &before).plus(1.0, &source);
        if let Some(grown) = self.grown_at(chance, &mean, &before) {
            spread.add(1.0, &grown);
        }
        after.copy_from_slice(spread.slice());
    }

    fn consensus(&self, weights: &[f64], (mean, spread): Moments<'_>) -> f64 {
        let deltas: Vec<Affine<J>> = self.works.iter().map(|work| self.delta_of(work)).collect();
        let (drawn, noise) = Draw::by_weight(weights).gather(&deltas);
        let shared = J::carried(&drawn, &self.covariance(spread)).plus(1.0, &noise);
        J::source(&drawn, &self.state(mean)).plus(1.0, &shared).matrix().trace()
    }

    fn gradients(&self, (mean, spread): Moments<'_>) -> Vec<f64> {
        let (mean, spread) = (self.state(mean), self.covariance(spread));
        let of_client = |(k, client): (usize, &Client<T>)| {
            let slope = J::of_slice(client.dim, client.dim, client.drawn_back().slice());
            let pull = J::of_slice(client.dim, 1, client.pull.slice());
            let mut local = client.begin();
            let before = |&size: &f64| {
                // The local error is the broadcast one and what was moved since.
                let mut error = self.delta_of(&J::work(&self.frame, k, client, &local));
                error.map.add(1.0, &J::identity(client.dim));
                client.steps(&mut local, size, 1);
                let gradient = slope.times(&error.at(&mean)).plus(-1.0, &pull);
                let covariance = error.map.around(&spread).plus(1.0, &error.noise);
                let noise = slope.around(&covariance).matrix() + client.noise.matrix();
                noise.trace() + gradient.matrix().norm_squared()
            };
            self.sizes.iter().map(before).collect::<Vec<f64>>()
        };
        self.clients.iter().enumerate().flat_map(of_client).collect()
    }

    fn steepest(&self) -> f64 {
        let slope =
            |client: &Client<T>| client.slope.matrix().norm().max(client.damping.matrix().norm());
        self.clients.iter().map(slope).fold(f64::MIN_POSITIVE, f64::max)
    }

    fn grows(&self) -> bool {
        self.clients.iter().any(|client| client.grows.is_some())
    }
}
