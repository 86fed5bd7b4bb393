//! What a site of a real federation needs of a plan: the work of its clients, not where it leads.

use std::path::Path;
use std::sync::Arc;

use fedback_core::federation::{ClientId, Federation};
use fedback_core::protocol::{Protocol, Round};
use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_engine::algorithm::{Order, Scratch, Task, Work, WorkError, step_sizes};

use super::{CustomPlan, Outline, Plan, Shape, arrivals, build_protocol, hash, problem};
use crate::error::Error;
use crate::spec::{Algorithm, KeyError, Point};

/// The part of a plan that sites share.
#[derive(Clone, Debug)]
pub struct SitePlan {
    /// The clients' weights p_i.
    pub weights: Arc<[f64]>,
    /// Coordinates of θ.
    pub dim: usize,
    /// The algorithm.
    pub protocol: Protocol,
    /// The plan's hash: the same as the server's, or the site does something else.
    pub hash: String,
}

/// Work asked of one client in one repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The repetition.
    pub repetition: u32,
    /// The client.
    pub client: ClientId,
}

impl Plan {
    /// Builds a problem that is built in, and what a site needs besides; nothing is solved for.
    pub fn site(
        point: Point,
        directory: &Path,
        origin: &str,
    ) -> Result<(SitePlan, Federation), Error> {
        let fail = |error: KeyError| Error::input(origin, error);
        let built = problem::build(&point.spec, directory).map_err(fail)?;
        let shape = Shape::of(&built.federation, built.data);
        Ok((SitePlan::new(&point, &shape, directory).map_err(fail)?, built.federation))
    }
}

impl SitePlan {
    pub(super) fn new(point: &Point, shape: &Shape, directory: &Path) -> Result<Self, KeyError> {
        let Algorithm::PFedavg(algorithm) = &point.spec.algorithm;
        let (_, latencies) = arrivals::describe(&point.spec, algorithm, shape, directory)?;
        Ok(SitePlan {
            weights: shape.weights.clone(),
            dim: shape.dim,
            protocol: build_protocol(algorithm, shape.weights.len())?,
            hash: hash(&point.spec, &[&shape.data[..], &latencies].concat()),
        })
    }

    /// The work asked for in one round, client after client; `thetas` has the model of every
    /// repetition, one after the other.
    pub fn work(
        &self,
        work: &impl Work,
        (seed, round): (Seed, Round),
        asked: &[Asked],
        thetas: &[f64],
    ) -> Result<Vec<f64>, WorkError> {
        let mut sizes = Vec::new();
        step_sizes(&self.protocol, round, &mut sizes);
        let order = Order {
            step_sizes: &sizes,
            batch: self.protocol.batch,
            deploy: self.protocol.deploy,
            scale_objectives: self.protocol.scale_objectives,
        };
        let dim = self.dim;
        let mut deltas = vec![0.0; asked.len() * dim];
        let (mut scratch, mut clients, mut done) = (Scratch::default(), Vec::new(), Vec::new());
        // A kernel has the clients of a repetition together, however they were asked.
        let mut places: Vec<usize> = (0..asked.len()).collect();
        places.sort_by_key(|&place| (asked[place].repetition, asked[place].client));
        for same in places.chunk_by(|&a, &b| {
            asked[a].repetition == asked[b].repetition && asked[a].client < asked[b].client
        }) {
            let repetition = asked[same[0]].repetition as usize;
            clients.clear();
            clients.extend(same.iter().map(|&place| asked[place].client));
            done.resize(same.len() * dim, 0.0);
            let task = Task {
                streams: Streams::new(seed, repetition as u64, round.0, Purpose::Data),
                theta: &thetas[repetition * dim..][..dim],
                clients: &clients,
            };
            work.work(&order, &[task], &mut done, &mut scratch)?;
            for (place, delta) in same.iter().zip(done.chunks_exact(dim)) {
                deltas[place * dim..][..dim].copy_from_slice(delta);
            }
        }
        Ok(deltas)
    }
}

impl From<&Outline> for SitePlan {
    fn from(outline: &Outline) -> Self {
        SitePlan {
            weights: outline.weights.clone(),
            dim: outline.dim,
            protocol: outline.protocol,
            hash: outline.hash.clone(),
        }
    }
}

impl From<&CustomPlan> for SitePlan {
    fn from(plan: &CustomPlan) -> Self {
        SitePlan::from(&plan.outline)
    }
}
