//! One client: what its local steps make of the error as broadcast.
//!
//! Near a point client i's expected gradient at a local error w under a deployed error φ is
//! g_i + H_i w + J_i φ. A local step of size η takes
//!
//! w ← (I − η K_i) w + η L_i x + η (c_i − c − g_i) + noise,
//!
//! x being the error as broadcast and c_i − c what SCAFFOLD adds. Which θ is deployed and a proximal term
//! of strength μ decide what K and L are:
//!
//! | deployed | K | L |
//! |---|---|---|
//! | every local step | H + J + μ | μ |
//! | once a round | H + μ | μ − J |
//!
//! Measured from x, E steps make of it w − x = F_i (c_i − c − g_i − (H_i + J_i) x) + noise of covariance Q_i: K − L
//! is H + J either way, and no step subtracts what is nearly equal.
//!
//! A population that remembers answers to an average of φ and of models r_j that it remembers ([`Recall`]).
//! Where φ is what was broadcast, those stay what they are, and −J Σ α_j (r_j − x) is added to what F_i multiplies.
//! Where every local step is deployed, they move with w: K is that of (w, r) and steps of no size already make
//! something of them, so that E steps make (w − x, r − x) = P_i (0, r − x) + F_i (…). This file is the only place
//! where steps are multiplied.

use std::sync::Arc;

use fedback_core::federation::Federation;
use fedback_core::protocol::{Deploy, LocalRule, Protocol};
use fedback_core::response::Shift;
use nalgebra::DMatrix;

use super::block::Block;
use super::grows::Grows;
use super::recall::Recall;

/// One client near a point.
#[derive(Clone)]
pub(crate) struct Client<T> {
    /// The length of θ as this block sees it.
    pub(crate) dim: usize,
    /// H + J.
    pub(crate) slope: T,
    /// J.
    pub(crate) reaction: T,
    /// μ.
    spring: f64,
    /// K.
    pub(crate) damping: T,
    /// What a step of no size does, where it does anything.
    still: Option<T>,
    /// Whether the local θ is what is deployed.
    deploy: Deploy,
    /// How its population remembers.
    recall: Option<Arc<Recall>>,
    /// −g.
    pub(crate) pull: T,
    /// The covariance of the gradient of one step.
    pub(crate) noise: T,
    /// How that grows with the error, where gradients have derivatives that vary between rows.
    pub(crate) grows: Option<Grows>,
}

/// What some local steps did.
#[derive(Clone)]
pub(crate) struct Local<T> {
    /// P.
    pub(crate) power: T,
    /// F.
    pub(crate) reply: T,
    /// Q.
    pub(crate) noise: T,
}

impl<T: Block> Local<T> {
    /// These steps and then others.
    fn then(&self, next: &Local<T>) -> Self {
        Local {
            power: next.power.times(&self.power),
            reply: next.power.times(&self.reply).plus(1.0, &next.reply),
            noise: next.power.around(&self.noise).plus(1.0, &next.noise),
        }
    }
}

/// What gradients are multiplied with: N p_i where objectives are scaled.
pub(crate) fn scale(federation: &Federation, protocol: &Protocol, client: usize) -> f64 {
    match protocol.scale_objectives {
        true => federation.clients() as f64 * federation.weights()[client],
        false => 1.0,
    }
}

/// μ.
pub(crate) fn proximal(protocol: &Protocol) -> f64 {
    match protocol.local {
        LocalRule::Descent | LocalRule::Scaffold => 0.0,
        LocalRule::Proximal { proximal } => proximal,
    }
}

/// The clients of a problem near a point, part after part: coordinate after coordinate, where these do not
/// mix.
pub(crate) enum Clients {
    /// As numbers.
    Numbers(Vec<Vec<Client<f64>>>),
    /// As matrices.
    Matrices(Vec<Vec<Client<DMatrix<f64>>>>),
}

impl Clients {
    /// Some clients of a problem.
    pub(crate) fn of(
        federation: &Federation,
        protocol: &Protocol,
        clients: &[usize],
        point: &[f64],
    ) -> Self {
        let recall = federation.memory().map(|memory| Arc::new(Recall::of(memory)));
        let deploys = recall.clone().filter(|_| protocol.deploy == Deploy::Step);
        if !super::is_split(federation) {
            let one = |&client: &usize| {
                let population = federation.population(client);
                let near = population.expand(point, point);
                let gradient = DMatrix::from_column_slice(point.len(), 1, near.gradient.as_slice());
                let noise = population.gradient_covariance(point);
                let terms = [near.curvature, near.reaction, gradient, noise];
                let grows = Grows::of(federation, protocol, client, point);
                let client = Client::new(federation, protocol, client, terms);
                let client = Client { grows, recall: recall.clone(), ..client };
                match &deploys {
                    None => client,
                    Some(recall) => client.deploying(recall),
                }
            };
            return Clients::Matrices(vec![clients.iter().map(one).collect()]);
        }
        let shift = federation.shift().unwrap_or(&Shift::None);
        let mut parts: Vec<Vec<Client<f64>>> = vec![Vec::new(); point.len()];
        for &client in clients {
            let population = federation.population(client);
            let (mean, variance) = (population.base_mean(), population.base_variance());
            for (j, part) in parts.iter_mut().enumerate() {
                let epsilon = shift.diagonal(client, j);
                let gradient = -(mean[j] + epsilon * point[j] - point[j]);
                let terms = [1.0, -epsilon, gradient, variance[j]];
                let near = Client::new(federation, protocol, client, terms);
                let reaction = DMatrix::from_element(1, 1, near.reaction);
                let grows = recall.as_ref().and_then(|r| Grows::of_ages(protocol, r, reaction));
                part.push(Client { grows, recall: recall.clone(), ..near });
            }
        }
        match deploys {
            None => Clients::Numbers(parts),
            Some(recall) => {
                let part = |part: Vec<Client<f64>>| {
                    part.into_iter().map(|client| client.deploying(&recall)).collect()
                };
                Clients::Matrices(parts.into_iter().map(part).collect())
            }
        }
    }
}

impl<T: Block> Client<T> {
    /// H, J and g of a client, and the covariance of the gradient at a single observation.
    fn new(
        federation: &Federation,
        protocol: &Protocol,
        client: usize,
        [curvature, reaction, gradient, noise]: [T; 4],
    ) -> Self {
        let (dim, scale) = (gradient.slice().len(), scale(federation, protocol, client));
        let (own, reaction) = (curvature.scaled(scale), reaction.scaled(scale));
        let spring = proximal(protocol);
        let slope = own.clone().plus(1.0, &reaction);
        let damping = match protocol.deploy {
            Deploy::Step => slope.clone(),
            Deploy::Round => own,
        };
        Client {
            dim,
            slope,
            reaction,
            spring,
            damping: damping.plus(spring, &T::identity(dim)),
            still: None,
            deploy: protocol.deploy,
            recall: None,
            pull: gradient.scaled(-scale),
            noise: noise.scaled(scale * scale / protocol.batch.size()),
            grows: None,
        }
    }

    /// The same client where its own steps are what its population remembers: the local state is θ and
    /// what is remembered.
    fn deploying(self, recall: &Recall) -> Client<DMatrix<f64>> {
        let (dim, width) = (self.dim, self.dim * (1 + recall.count()));
        let (slope, reaction) = (self.slope.matrix(), self.reaction.matrix());
        let mut damping = self.damping.matrix().resize(width, width, 0.0);
        for (j, weight) in recall.weights().into_iter().enumerate() {
            let less = if j == 0 { weight - 1.0 } else { weight };
            let mut place = damping.view_mut((0, j * dim), (dim, dim));
            place += &reaction * less;
        }
        let mut still = DMatrix::identity(width, width);
        let taken = recall.taken.kronecker(&DMatrix::identity(dim, dim));
        still.view_mut((dim, 0), (width - dim, width)).copy_from(&taken);
        Client {
            dim,
            slope,
            reaction,
            spring: self.spring,
            damping,
            still: Some(still),
            deploy: self.deploy,
            recall: self.recall,
            pull: self.pull.matrix(),
            noise: self.noise.matrix(),
            grows: self.grows,
        }
    }

    /// Its first coordinate, as if that did not mix with others.
    #[cfg(test)]
    pub(super) fn first_coordinate(&self) -> Client<f64> {
        let first = |block: &T| block.slice()[0];
        Client {
            dim: 1,
            slope: first(&self.slope),
            reaction: first(&self.reaction),
            spring: self.spring,
            damping: first(&self.damping),
            still: None,
            deploy: self.deploy,
            recall: None,
            pull: first(&self.pull),
            noise: first(&self.noise),
            grows: None,
        }
    }

    /// The length of the local state: θ, and what is remembered of local steps.
    fn width(&self) -> usize {
        self.damping.rows()
    }

    /// Before the first step.
    pub(crate) fn begin(&self) -> Local<T> {
        let (dim, width) = (self.dim, self.width());
        let nothing = T::identity(dim).emptied();
        Local {
            power: T::identity(width),
            reply: nothing.clone().resized(width, dim),
            noise: nothing.resized(width, width),
        }
    }

    /// One step.
    fn step(&self, size: f64) -> Local<T> {
        let (dim, width) = (self.dim, self.width());
        let still = self.still.clone().unwrap_or_else(|| T::identity(width));
        Local {
            power: still.plus(-size, &self.damping),
            reply: T::identity(dim).scaled(size).resized(width, dim),
            noise: self.noise.scaled(size * size).resized(width, width),
        }
    }

    /// What a local error is drawn back with while all that is remembered goes with it.
    pub(crate) fn drawn_back(&self) -> T {
        match self.deploy {
            Deploy::Step => self.slope.clone().plus(self.spring, &T::identity(self.dim)),
            Deploy::Round => self.damping.clone(),
        }
    }

    /// Some steps of one size, twice as many at a time.
    pub(crate) fn steps(&self, local: &mut Local<T>, size: f64, count: usize) {
        let (mut step, mut left) = (self.step(size), count);
        while left > 0 {
            if left & 1 == 1 {
                *local = local.then(&step);
            }
            left >>= 1;
            if left > 0 {
                step = step.then(&step);
            }
        }
    }

    /// What noise that grows with the error adds to a round beyond what its mean does: a covariance of the
    /// local state. `begin` is the second moment of what the steps start from ([`Frame::start`]), and of a one
    /// below it where the pull and the noise that does not grow are to be met as well.
    ///
    /// [`Frame::start`]: super::frame::Frame::start
    pub(crate) fn grown(&self, grows: &Grows, sizes: &[f64], begin: &DMatrix<f64>) -> DMatrix<f64> {
        let dim = self.dim;
        let remembered = self.recall.as_ref().map_or(0, |recall| recall.count());
        // The local error, what is remembered, the broadcast error where it is needed, what is kept, a one.
        let local = dim * (1 + remembered);
        let shared = self.deploy == Deploy::Round;
        let broadcast = shared || self.spring != 0.0;
        let kept = begin.nrows() - 1 - local;
        let width = local + if broadcast { dim } else { 0 } + kept + 1;
        let source = |j: usize| match j {
            _ if j < local => j,
            _ if broadcast && j < local + dim => j - local,
            _ => j + local + kept + 1 - width,
        };
        let mut state = DMatrix::from_fn(width, width, |j, k| begin[(source(j), source(k))]);
        let mut added = DMatrix::zeros(width, width);
        let seen = self.seen(width, grows.width());
        for &size in sizes {
            let step = self.whole_step(size, width, kept);
            let fresh = seen.around(&(&state + &added));
            let fresh = grows.apply(&fresh) * (size * size);
            state = step.around(&state);
            added = step.around(&added);
            let mut place = added.view_mut((0, 0), (dim, dim));
            place += fresh;
            let known = state[(width - 1, width - 1)] * size * size;
            let mut place = state.view_mut((0, 0), (dim, dim));
            place += self.noise.matrix() * known;
        }
        added.resize(self.width(), self.width(), 0.0)
    }

    /// One step of all that [`Client::grown`] follows.
    fn whole_step(&self, size: f64, width: usize, kept: usize) -> DMatrix<f64> {
        let dim = self.dim;
        let mut step = DMatrix::identity(width, width);
        let own = self.width();
        let still = self.still.as_ref().map_or_else(|| DMatrix::identity(own, own), T::matrix);
        step.view_mut((0, 0), (own, own)).copy_from(&(still - self.damping.matrix() * size));
        if self.deploy == Deploy::Round || self.spring != 0.0 {
            let place = width - 1 - kept - dim;
            let tie = DMatrix::identity(dim, dim) * (size * self.spring);
            step.view_mut((0, place), (dim, dim)).copy_from(&tie);
            if self.deploy == Deploy::Round {
                let reaction = self.reaction.matrix() * size;
                let weights = self.recall.as_ref().map_or(vec![1.0], |recall| recall.weights());
                for (j, weight) in weights.into_iter().enumerate() {
                    let from = if j == 0 { place } else { j * dim };
                    let mut entry = step.view_mut((0, from), (dim, dim));
                    entry -= &reaction * weight;
                }
            }
        }
        if kept > 0 {
            step.view_mut((0, width - 1 - kept), (dim, dim)).fill_diagonal(size);
        }
        step.view_mut((0, width - 1), (dim, 1)).copy_from(&(self.pull.matrix() * size));
        step
    }

    /// What gradients meet, out of that: the local error, and the models that are answered to where those are
    /// others.
    fn seen(&self, width: usize, count: usize) -> DMatrix<f64> {
        let dim = self.dim;
        let remembered = self.recall.as_ref().map_or(0, |recall| recall.count());
        let deployed = match self.deploy {
            Deploy::Step => 0,
            Deploy::Round => dim * (1 + remembered),
        };
        let mut seen = DMatrix::zeros(count, width);
        (0..dim).for_each(|j| seen[(j, j)] = 1.0);
        let answered = match &self.recall {
            Some(recall) => recall.answered.clone(),
            None => DMatrix::from_element(1, 1, 1.0),
        };
        for part in 0..answered.nrows().min(count / dim - 1) {
            for (model, weight) in answered.row(part).iter().enumerate() {
                let from = if model == 0 { deployed } else { model * dim };
                (0..dim).for_each(|j| seen[((1 + part) * dim + j, from + j)] += weight);
            }
        }
        seen
    }
}
