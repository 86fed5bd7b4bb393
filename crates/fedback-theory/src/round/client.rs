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
//! so that E steps make w = A_i x + F_i (c_i − c − g_i) + noise of covariance Q_i. This file is the only
//! place where steps are multiplied.

use fedback_core::federation::Federation;
use fedback_core::protocol::{Deploy, LocalRule, Protocol};
use nalgebra::DMatrix;

use super::block::Block;
use super::grows::Grows;

/// Steps of one size beyond which doubling is quicker than stepping.
const MANY: usize = 12;

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
    /// A.
    pub(crate) gain: T,
    /// F.
    pub(crate) reply: T,
    /// Q.
    pub(crate) noise: T,
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
            let one = |&client: &usize| Client::linearised(federation, protocol, client, point);
            return Clients::Whole(clients.iter().map(one).collect());
        }
        let mut parts: Vec<Vec<Client<f64>>> = vec![Vec::new(); point.len()];
        for &client in clients {
            let population = federation.population(client);
            let (mean, variance) = (population.base_mean(), population.base_variance());
            for (j, part) in parts.iter_mut().enumerate() {
                let (place, base) = ((client, j), (mean[j], variance[j]));
                part.push(Client::of_coordinate(federation, protocol, place, base, point[j]));
            }
        }
        Clients::Split(parts)
    }
}

impl Client<f64> {
    /// Coordinate j of an affine problem whose coordinates do not mix; `mean` and `variance` are those
    /// of the base.
    pub(crate) fn of_coordinate(
        federation: &Federation,
        protocol: &Protocol,
        (client, j): (usize, usize),
        (mean, variance): (f64, f64),
        point: f64,
    ) -> Self {
        let (scale, proximal) = (scale(federation, protocol, client), proximal(protocol));
        let epsilon = federation.response().diagonal(client, j);
        let (damping, tie) = match protocol.deploy {
            Deploy::Step => (scale * (1.0 - epsilon) + proximal, proximal),
            Deploy::Round => (scale + proximal, proximal + scale * epsilon),
        };
        Client {
            dim: 1,
            damping,
            tie: (tie != 0.0).then_some(tie),
            pull: scale * (mean + epsilon * point - point),
            noise: scale * scale * variance / protocol.batch.size(),
            grows: None,
        }
    }
}

impl Client<DMatrix<f64>> {
    /// A client linearised at `point`.
    pub(crate) fn linearised(
        federation: &Federation,
        protocol: &Protocol,
        client: usize,
        point: &[f64],
    ) -> Self {
        let dim = point.len();
        let (scale, proximal) = (scale(federation, protocol, client), proximal(protocol));
        let population = federation.population(client);
        let expansion = population.expand(point, point);
        let spring = DMatrix::identity(dim, dim) * proximal;
        let (own, reaction) = (expansion.curvature * scale, expansion.reaction * scale);
        let (damping, tie) = match protocol.deploy {
            Deploy::Step => (own + reaction + &spring, spring),
            Deploy::Round => (own + &spring, spring - reaction),
        };
        let noise = population.gradient_covariance(point);
        Client {
            dim,
            damping,
            tie: (tie.amax() != 0.0).then_some(tie),
            pull: DMatrix::from_column_slice(dim, 1, expansion.gradient.as_slice()) * -scale,
            noise: noise * (scale * scale / protocol.batch.size()),
            grows: Grows::of(federation, protocol, client, point),
        }
    }
}

impl<T: Block> Client<T> {
    /// Before the first step.
    pub(crate) fn begin(&self) -> Local<T> {
        Local {
            gain: T::identity(self.dim),
            reply: T::zeros(self.dim, self.dim),
            noise: T::zeros(self.dim, self.dim),
        }
    }

    /// H + J = K − L.
    pub(crate) fn slope(&self) -> T {
        let mut slope = self.damping.clone();
        if let Some(tie) = &self.tie {
            slope.add(-1.0, tie);
        }
        slope
    }

    /// I − η K.
    fn keep(&self, size: f64) -> T {
        let mut keep = T::identity(self.dim);
        keep.add(-size, &self.damping);
        keep
    }

    /// Some steps of one size.
    pub(crate) fn steps(&self, local: &mut Local<T>, size: f64, count: usize) {
        let keep = self.keep(size);
        let identity = T::identity(self.dim);
        if count <= MANY {
            for _ in 0..count {
                local.gain = keep.times(&local.gain);
                if let Some(tie) = &self.tie {
                    local.gain.add(size, tie);
                }
                local.reply = keep.times(&local.reply);
                local.reply.add(size, &identity);
                local.noise = keep.around(&local.noise);
                local.noise.add(size * size, &self.noise);
            }
            return;
        }
        let mut fresh = self.noise.clone();
        fresh.scale(size * size);
        let Repeated { power, sum, noise } = repeated(&keep, &fresh, count, self.dim);
        local.gain = power.times(&local.gain);
        if let Some(tie) = &self.tie {
            local.gain.add(size, &sum.times(tie));
        }
        local.reply = power.times(&local.reply);
        local.reply.add(size, &sum);
        local.noise = power.around(&local.noise);
        local.noise.add(1.0, &noise);
    }
}

impl<T: Block> Client<T> {
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

/// Bⁿ, Σ_{k<n} Bᵏ and Σ_{k<n} Bᵏ N Bᵏᵀ.
struct Repeated<T> {
    power: T,
    sum: T,
    noise: T,
}

/// By doubling.
fn repeated<T: Block>(step: &T, fresh: &T, count: usize, dim: usize) -> Repeated<T> {
    let mut all = Repeated { power: step.clone(), sum: T::identity(dim), noise: fresh.clone() };
    let bits = usize::BITS - count.leading_zeros();
    for bit in (0..bits.saturating_sub(1)).rev() {
        let Repeated { power, sum, noise } = &all;
        let (mut sums, mut noises) = (power.times(sum), power.around(noise));
        sums.add(1.0, sum);
        noises.add(1.0, noise);
        all = Repeated { power: power.times(power), sum: sums, noise: noises };
        if count >> bit & 1 == 1 {
            all.power = step.times(&all.power);
            all.sum = step.times(&all.sum);
            all.sum.add(1.0, &T::identity(dim));
            all.noise = step.around(&all.noise);
            all.noise.add(1.0, fresh);
        }
    }
    all
}
