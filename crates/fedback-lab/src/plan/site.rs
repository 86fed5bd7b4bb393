//! What a site of a real federation needs of a plan: the work of its clients, not where it leads.

use std::path::Path;
use std::sync::Arc;

use fedback_core::federation::{ClientId, Federation};
use fedback_core::memory::Memory;
use fedback_core::protocol::{Protocol, Round};
use fedback_core::state::Layout;
use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_engine::work::{Order, Scratch, Task, Work, WorkError, step_sizes};

use super::{CustomPlan, Outline, Plan, Shape, arrivals, build_protocol, hash, memory, problem};
use crate::error::Error;
use crate::spec::{KeyError, Point, Spec};

/// The part of a plan that sites share.
#[derive(Clone, Debug)]
pub struct SitePlan {
    /// The clients' weights p_i.
    pub weights: Arc<[f64]>,
    /// Coordinates of θ.
    pub dim: usize,
    /// The algorithm.
    pub protocol: Protocol,
    /// How populations remember, where they do.
    pub memory: Option<Memory>,
    /// The spec, with its budget as rounds.
    pub spec: Spec,
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
        let shape = Shape::of(&built.federation, built.table, built.data);
        Ok((SitePlan::new(&point, &shape, directory).map_err(fail)?, built.federation))
    }
}

impl SitePlan {
    pub(super) fn new(point: &Point, shape: &Shape, directory: &Path) -> Result<Self, KeyError> {
        let clients = shape.weights.len();
        let mut spec = point.spec.clone();
        spec.spend(clients)?;
        let (_, latencies) = arrivals::describe(&spec, spec.algorithm.rounds(), shape, directory)?;
        Ok(SitePlan {
            weights: shape.weights.clone(),
            dim: shape.dim,
            protocol: build_protocol(&spec.algorithm, clients)?,
            memory: memory::past(&spec.problem.response, shape.dim)?.map(|past| past.memory),
            hash: hash(&spec, &[shape.data.clone(), latencies]),
            spec,
        })
    }

    /// What is where in what the server sends.
    pub fn layout(&self) -> Layout {
        Layout::new(&self.protocol, self.memory, self.dim, self.weights.len())
    }

    /// The work asked for in one round, client after client.
    pub fn work(
        &self,
        work: &impl Work,
        (seed, round): (Seed, Round),
        given: Given<'_>,
    ) -> Result<Updates, WorkError> {
        let mut sizes = Vec::new();
        step_sizes(&self.protocol, round, &mut sizes);
        let order = Order { protocol: &self.protocol, step_sizes: &sizes };
        let (layout, asked) = (self.layout(), given.asked);
        let (dim, each, sent) = (layout.dim, layout.kept, layout.broadcast());
        let mut updates =
            Updates { deltas: vec![0.0; asked.len() * dim], kept: given.kept.to_vec() };
        let (mut scratch, mut clients) = (Scratch::default(), Vec::new());
        let (mut deltas, mut kept) = (Vec::new(), Vec::new());
        // A kernel has the clients of a repetition together, however they were asked.
        let mut places: Vec<usize> = (0..asked.len()).collect();
        places.sort_by_key(|&place| (asked[place].repetition, asked[place].client));
        for same in places.chunk_by(|&a, &b| {
            asked[a].repetition == asked[b].repetition && asked[a].client < asked[b].client
        }) {
            let repetition = asked[same[0]].repetition as usize;
            clients.clear();
            clients.extend(same.iter().map(|&place| asked[place].client));
            deltas.resize(same.len() * dim, 0.0);
            kept.clear();
            same.iter().for_each(|place| kept.extend(&given.kept[place * each..][..each]));
            let task = Task {
                streams: Streams::new(seed, repetition as u64, round.0, Purpose::Data),
                broadcast: &given.broadcasts[repetition * sent..][..sent],
                clients: &clients,
            };
            work.work(&order, &[task], &mut deltas, &mut kept, &mut scratch)?;
            for (from, to) in same.iter().enumerate() {
                updates.deltas[to * dim..][..dim].copy_from_slice(&deltas[from * dim..][..dim]);
                updates.kept[to * each..][..each].copy_from_slice(&kept[from * each..][..each]);
            }
        }
        Ok(updates)
    }
}

/// What a site is given in a round.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Whose work is asked for.
    pub asked: &'a [Asked],
    /// The model of every repetition and what is sent with it, one after the other.
    pub broadcasts: &'a [f64],
    /// What those who are asked keep, one after the other.
    pub kept: &'a [f64],
}

/// What a site gives back, in the order in which it was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Updates {
    /// The updates, one after the other.
    pub deltas: Vec<f64>,
    /// What clients keep now, one after the other.
    pub kept: Vec<f64>,
}

impl From<&Outline> for SitePlan {
    fn from(outline: &Outline) -> Self {
        SitePlan {
            weights: outline.weights.clone(),
            dim: outline.dim,
            protocol: outline.protocol,
            memory: outline.past.as_ref().map(|past| past.memory),
            spec: outline.spec.clone(),
            hash: outline.hash.clone(),
        }
    }
}

impl From<&CustomPlan> for SitePlan {
    fn from(plan: &CustomPlan) -> Self {
        SitePlan::from(&plan.outline)
    }
}
