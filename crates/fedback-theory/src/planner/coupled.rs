//! Rounds of problems whose coordinates mix, or whose gradients are not affine: matrices.
//!
//! Where gradients are not affine the mean path is the mean field's own, followed without noise, and
//! the spread is that of the problem linearised at the stable point.

use crate::p_fedavg::PFedAvg;
use fedback_core::federation::Federation;
use fedback_core::protocol::{Aggregate, Deploy};
use nalgebra::{DMatrix, DVector};

use super::dynamics::{Dynamics, Family, Sampling};
use super::rows::{Detail, Rows};

/// All clients.
pub(super) struct Coupled<'a> {
    dim: usize,
    deploy: Deploy,
    members: Vec<Member>,
    rows: Option<Rows<'a>>,
    /// As in [`super::coordinates`].
    offset: Option<DVector<f64>>,
    /// Whether what draws of cohorts add is wanted.
    drawing: bool,
    gain: DMatrix<f64>,
    drift: DVector<f64>,
    noise: DMatrix<f64>,
    with: Drawn,
    without: Drawn,
    mean: DVector<f64>,
    scratch: Scratch,
}

/// One client, seen from the stable point, and its round.
struct Member {
    client: usize,
    weight: f64,
    expected: f64,
    scale: f64,
    gradient: DVector<f64>,
    curvature: DMatrix<f64>,
    reaction: DMatrix<f64>,
    noise: DMatrix<f64>,
    a: DMatrix<f64>,
    b: DVector<f64>,
    q: DMatrix<f64>,
    u: DVector<f64>,
    /// The remainder that was worked out last on this path, and where: error and deployed.
    last: Option<(DVector<f64>, DVector<f64>, DVector<f64>)>,
}

/// What a local step needs for a while.
struct Scratch {
    kept: DMatrix<f64>,
    turned: DMatrix<f64>,
    reacted: DMatrix<f64>,
    product: DMatrix<f64>,
    drift: DVector<f64>,
}

/// What the draw of a cohort adds, before its share ρ.
struct Drawn {
    maps: Vec<(f64, DMatrix<f64>)>,
    noise: DMatrix<f64>,
    source: DMatrix<f64>,
}

impl<'a> Coupled<'a> {
    pub(super) fn new(
        federation: &'a Federation,
        protocol: &PFedAvg,
        point: &[f64],
        start: &[f64],
        detail: Detail,
    ) -> Self {
        let dim = federation.dim();
        let n = federation.clients() as f64;
        let zeros = || DMatrix::zeros(dim, dim);
        let members = federation.weights().iter().enumerate().map(|(client, &weight)| {
            let expansion = federation.population(client).expand(point, point);
            let (expected, scale) = match protocol.scale_objectives {
                true => (1.0 / n, n * weight),
                false => (weight, 1.0),
            };
            Member {
                client,
                weight,
                expected,
                scale,
                gradient: expansion.gradient,
                curvature: expansion.curvature,
                reaction: expansion.reaction,
                noise: federation.population(client).gradient_covariance(point)
                    / protocol.batch.size(),
                a: zeros(),
                b: DVector::zeros(dim),
                q: zeros(),
                u: DVector::zeros(dim),
                last: None,
            }
        });
        let printed = protocol.aggregate == Aggregate::Iterates && !protocol.scale_objectives;
        let drawn = || Drawn { maps: Vec::new(), noise: zeros(), source: zeros() };
        Coupled {
            dim,
            deploy: protocol.deploy,
            members: members.collect(),
            rows: Rows::new(federation, point, start, detail),
            offset: printed.then(|| DVector::from_column_slice(point)),
            drawing: true,
            gain: zeros(),
            drift: DVector::zeros(dim),
            noise: zeros(),
            with: drawn(),
            without: drawn(),
            mean: DVector::zeros(dim),
            scratch: Scratch {
                kept: zeros(),
                turned: zeros(),
                reacted: zeros(),
                product: zeros(),
                drift: DVector::zeros(dim),
            },
        }
    }

    fn drawn(&self, family: Family) -> Option<&Drawn> {
        match family {
            Family::Full => None,
            Family::With => Some(&self.with),
            Family::Without => Some(&self.without),
        }
    }

    /// Moves a spread by the linear part of the round.
    fn carry(&self, sampling: Sampling, spread: &DMatrix<f64>) -> DMatrix<f64> {
        let mut next = &self.gain * spread * self.gain.transpose();
        if let Some(drawn) = self.drawn(sampling.family) {
            for (weight, map) in &drawn.maps {
                next += map * spread * map.transpose() * (weight * sampling.share);
            }
        }
        next
    }

    /// N g_i, what a client drawn without replacement counts.
    fn coefficient(&self, member: &Member) -> f64 {
        self.members.len() as f64 * member.expected
    }
}

impl Member {
    /// Some local steps of one size.
    fn steps(&mut self, size: f64, count: usize, deploy: Deploy, scratch: &mut Scratch) {
        let size = size * self.scale;
        let Scratch { kept, turned, reacted, product, drift } = scratch;
        kept.copy_from(&self.curvature);
        if deploy == Deploy::Step {
            *kept += &self.reaction;
        }
        *kept *= -size;
        for j in 0..kept.nrows() {
            kept[(j, j)] += 1.0;
        }
        kept.transpose_to(turned);
        reacted.copy_from(&self.reaction);
        *reacted *= if deploy == Deploy::Round { -size } else { 0.0 };
        for _ in 0..count {
            product.gemm(1.0, kept, &self.a, 0.0);
            self.a.copy_from(product);
            self.a += &*reacted;
            drift.gemv(1.0, kept, &self.b, 0.0);
            self.b.copy_from(drift);
            self.b.axpy(-size, &self.gradient, 1.0);
            product.gemm(1.0, kept, &self.q, 0.0);
            self.q.copy_from(&self.noise);
            self.q.gemm(1.0, product, turned, size * size);
        }
    }

    /// Local steps from a broadcast, the gradient's remainder included.
    fn travel(&mut self, rows: &Rows<'_>, mean: &DVector<f64>, sizes: &[f64], deploy: Deploy) {
        let mut error = mean.clone();
        for size in sizes {
            let deployed = match deploy {
                Deploy::Step => error.clone(),
                Deploy::Round => mean.clone(),
            };
            let mut gradient = self.remainder(rows, &error, &deployed).clone();
            gradient += &self.gradient;
            gradient.gemv(1.0, &self.curvature, &error, 1.0);
            gradient.gemv(1.0, &self.reaction, &deployed, 1.0);
            error.axpy(-size * self.scale, &gradient, 1.0);
        }
        self.u = error;
    }

    /// The gradient's remainder, worked out anew where the path has moved on.
    fn remainder(
        &mut self,
        rows: &Rows<'_>,
        error: &DVector<f64>,
        deployed: &DVector<f64>,
    ) -> &DVector<f64> {
        let near = |(then, before, _): &(DVector<f64>, DVector<f64>, DVector<f64>)| {
            let moved = (error - then).norm() + (deployed - before).norm();
            moved <= rows.lasting * error.norm()
        };
        let last = self.last.take().filter(near);
        let fresh = || {
            let remainder = rows.remainder(self.client, error, deployed);
            (error.clone(), deployed.clone(), remainder)
        };
        &self.last.insert(last.unwrap_or_else(fresh)).2
    }
}

impl Dynamics for Coupled<'_> {
    fn step_work(&self) -> f64 {
        let rows = if self.rows.is_some() { 60 * self.dim } else { 0 };
        (rows + self.members.len() * (200 + 4 * self.dim.pow(3))) as f64
    }

    fn round_work(&self, schemes: usize) -> f64 {
        let maps = if self.drawing { self.members.len() } else { 0 };
        ((1 + maps) * (1 + schemes) * (100 + 2 * self.dim.pow(3))) as f64
    }

    fn begin(&mut self) {
        self.members.iter_mut().for_each(|member| member.last = None);
    }

    fn prepare(&mut self, sizes: &[f64], drawing: bool) {
        let (dim, n) = (self.dim, self.members.len() as f64);
        let identity = DMatrix::identity(dim, dim);
        for member in &mut self.members {
            member.a.copy_from(&identity);
            member.b.fill(0.0);
            member.q.fill(0.0);
            for run in sizes.chunk_by(|a, b| a == b) {
                member.steps(run[0], run.len(), self.deploy, &mut self.scratch);
            }
        }
        self.drawing = drawing;
        self.gain.fill(0.0);
        self.drift.fill(0.0);
        self.noise.fill(0.0);
        self.with.noise.fill(0.0);
        for member in &self.members {
            let (g, p) = (member.expected, member.weight);
            self.gain += &member.a * g;
            self.drift.axpy(g, &member.b, 1.0);
            self.noise += &member.q * (g * g);
            self.with.noise += &member.q * (p * (1.0 - p));
        }
        if !drawing {
            return;
        }
        self.without.noise = &self.noise * (n - 1.0);
        let kept = if self.offset.is_some() { DMatrix::zeros(dim, dim) } else { identity };
        let members = self.members.iter();
        self.with.maps = members.clone().map(|m| (m.weight, &m.a - &self.gain)).collect();
        let moved = &self.gain - &kept;
        self.without.maps =
            members.map(|m| (1.0 / n, (&m.a - &kept) * self.coefficient(m) - &moved)).collect();
    }

    fn work(&mut self, mean: &[f64], sizes: &[f64]) {
        let (dim, n) = (self.dim, self.members.len() as f64);
        let broadcast = DVector::from_column_slice(mean);
        let bent = self.rows.as_ref().filter(|rows| broadcast.norm() > rows.linear_within);
        if bent.is_none() && !self.drawing {
            self.mean.copy_from(&self.drift);
            self.mean.gemv(1.0, &self.gain, &broadcast, 1.0);
            return;
        }
        for member in &mut self.members {
            match bent {
                Some(rows) => member.travel(rows, &broadcast, sizes, self.deploy),
                None => member.u = &member.a * &broadcast + &member.b,
            }
        }
        self.mean.fill(0.0);
        self.members.iter().for_each(|m| self.mean.axpy(m.expected, &m.u, 1.0));
        if !self.drawing {
            return;
        }
        self.with.source.fill(0.0);
        self.without.source.fill(0.0);
        let origin = match &self.offset {
            Some(centre) => -centre,
            None => broadcast,
        };
        let mut apart = DVector::zeros(dim);
        for member in &self.members {
            apart.copy_from(&(&member.u - &self.mean));
            self.with.source.ger(member.weight, &apart, &apart, 1.0);
            let own = self.coefficient(member);
            apart.copy_from(&((&member.u - &origin) * own - (&self.mean - &origin)));
            self.without.source.ger(1.0 / n, &apart, &apart, 1.0);
        }
    }

    fn aggregate(&self, mean: &mut [f64]) {
        mean.copy_from_slice(self.mean.as_slice());
    }

    fn no_spread(&self) -> Vec<f64> {
        vec![0.0; self.dim * self.dim]
    }

    fn spread(&self, sampling: Sampling, spread: &mut [f64]) -> f64 {
        let before = DMatrix::from_column_slice(self.dim, self.dim, spread);
        let mut after = self.carry(sampling, &before) + &self.noise;
        if let Some(drawn) = self.drawn(sampling.family) {
            after += (&drawn.source + &drawn.noise) * sampling.share;
        }
        spread.copy_from_slice(after.as_slice());
        after.trace()
    }

    /// The map of spreads keeps them positive, so its growth from the identity is its largest
    /// eigenvalue's in the long run.
    fn radius(&self, sampling: Sampling) -> f64 {
        const ROUNDS: usize = 60;
        let mut spread = DMatrix::identity(self.dim, self.dim);
        let mut logarithm = 0.0;
        for round in 0..2 * ROUNDS {
            let next = self.carry(sampling, &spread);
            let growth = next.trace() / spread.trace();
            if !(growth > 0.0 && growth.is_finite()) {
                return if growth == 0.0 { 0.0 } else { f64::INFINITY };
            }
            if round >= ROUNDS {
                logarithm += libm::log(growth);
            }
            spread = next / growth;
        }
        libm::exp(logarithm / ROUNDS as f64)
    }
}
