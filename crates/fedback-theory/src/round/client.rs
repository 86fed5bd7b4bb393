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
//! so that E steps make w = P_i x + F_i (L_i x + c_i − c − g_i) + noise of covariance Q_i. As P_i = I − F_i K_i,
//! they move it by w − x = F_i (c_i − c − g_i − (H_i + J_i) x) + noise. This file is the only place where
//! steps are multiplied.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Deploy, LocalRule, Protocol};
use fedback_core::response::Shift;
use nalgebra::DMatrix;

use super::block::Block;
use super::grows::Grows;

/// One client near a point.
#[derive(Clone)]
pub(crate) struct Client<T> {
    /// The length of θ as this block sees it.
    pub(crate) dim: usize,
    /// K.
    pub(crate) damping: T,
    /// L; none where it is zero.
    pub(crate) tie: Option<T>,
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
    power: T,
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

/// The clients of a problem near a point.
pub(crate) enum Clients {
    /// Coordinate after coordinate, where these do not mix.
    Split(Vec<Vec<Client<f64>>>),
    /// With all coordinates.
    Whole(Vec<Client<DMatrix<f64>>>),
}

impl Clients {
    /// Some clients of a problem.
    pub(crate) fn of(
        federation: &Federation,
        protocol: &Protocol,
        clients: &[usize],
        point: &[f64],
    ) -> Self {
        if !super::is_split(federation) {
            let one = |&client: &usize| {
                let population = federation.population(client);
                let near = population.expand(point, point);
                let gradient = DMatrix::from_column_slice(point.len(), 1, near.gradient.as_slice());
                let noise = population.gradient_covariance(point);
                let terms = [near.curvature, near.reaction, gradient, noise];
                let grows = Grows::of(federation, protocol, client, point);
                Client { grows, ..Client::new(federation, protocol, client, terms) }
            };
            return Clients::Whole(clients.iter().map(one).collect());
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
                part.push(Client::new(federation, protocol, client, terms));
            }
        }
        Clients::Split(parts)
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
        let spring = T::identity(dim).scaled(proximal(protocol));
        let (damping, tie) = match protocol.deploy {
            Deploy::Step => (own.plus(1.0, &reaction).plus(1.0, &spring), spring),
            Deploy::Round => (own.plus(1.0, &spring), spring.plus(-1.0, &reaction)),
        };
        Client {
            dim,
            damping,
            tie: tie.slice().iter().any(|entry| *entry != 0.0).then_some(tie),
            pull: gradient.scaled(-scale),
            noise: noise.scaled(scale * scale / protocol.batch.size()),
            grows: None,
        }
    }

    /// Before the first step.
    pub(crate) fn begin(&self) -> Local<T> {
        self.step(0.0)
    }

    /// One step.
    fn step(&self, size: f64) -> Local<T> {
        let identity = T::identity(self.dim);
        let (reply, noise) = (identity.scaled(size), self.noise.scaled(size * size));
        Local { power: identity.plus(-size, &self.damping), reply, noise }
    }

    /// H + J = K − L.
    pub(crate) fn slope(&self) -> T {
        let damping = self.damping.clone();
        self.tie.iter().fold(damping, |slope, tie| slope.plus(-1.0, tie))
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

    /// What noise that grows with the error adds to a round beyond what its mean does, the second moment
    /// of the broadcast error (and of c_k − c) being `begin`.
    pub(crate) fn grown(&self, grows: &Grows, sizes: &[f64], begin: &DMatrix<f64>) -> DMatrix<f64> {
        let dim = self.dim;
        let (damping, tie) = (self.damping.matrix(), self.tie.as_ref().map(T::matrix));
        // The local error, the broadcast one where it is needed, and what is kept.
        let (broadcast, kept) = (grows.width() > dim || tie.is_some(), begin.nrows() > dim);
        let width = dim * (1 + usize::from(broadcast) + usize::from(kept));
        let source = |j: usize| match j {
            _ if j < dim => j,
            _ if broadcast => j - dim,
            _ => j,
        };
        let mut state = DMatrix::from_fn(width, width, |j, k| begin[(source(j), source(k))]);
        let mut added = DMatrix::zeros(width, width);
        for &size in sizes {
            let mut step = DMatrix::identity(width, width);
            let mut own = step.view_mut((0, 0), (dim, dim));
            own -= &damping * size;
            if let Some(tie) = &tie {
                step.view_mut((0, dim), (dim, dim)).copy_from(&(tie * size));
            }
            if kept {
                step.view_mut((0, width - dim), (dim, dim)).fill_diagonal(size);
            }
            let seen = (&state + &added).view((0, 0), (grows.width(), grows.width())).into_owned();
            let fresh = grows.apply(&seen) * (size * size);
            state = step.around(&state);
            added = step.around(&added);
            let mut place = added.view_mut((0, 0), (dim, dim));
            place += fresh;
        }
        added.view((0, 0), (dim, dim)).into_owned()
    }
}
