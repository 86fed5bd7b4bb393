//! Which kernels close the rounds of a problem, and what a round consists of for them.

use std::ffi::CStr;

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::Protocol;
use fedback_engine::cohort::CohortSampler;

use crate::room::Extent;
use crate::tables::pitch;

/// How a problem's rounds are closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// The kernels of a round, or the one of all rounds.
    pub(crate) kernels: &'static [&'static CStr],
    /// Threads that a worker keeps busy.
    pub(crate) threads: usize,
    /// Bytes that blocks share beside their rooms.
    pub(crate) table: usize,
    /// Bytes that blocks of single workers share, where a round is several launches.
    pub(crate) worker: Option<usize>,
}

/// That of a problem.
pub(crate) fn way(problem: &Federation) -> Way {
    let dim = problem.dim();
    let whole = |kernels, threads, table| Way { kernels, threads, table, worker: None };
    match (problem.base(), problem.loss()) {
        // The edges of the ziggurat's layers, and one number so that rooms begin at an even place.
        (Base::Gaussian(_), _) => whole(&[c"normal_rounds"], dim, 8 * 1026),
        (Base::Table(_), Loss::Mean) => whole(&[c"mean_rounds"], dim, 0),
        (Base::Table(_), Loss::Squared { .. } | Loss::Logistic { .. }) => match dim {
            0..=4 => whole(&[c"margin_rounds_4"], 4, 0),
            5..=8 => whole(&[c"margin_rounds_8"], 4, 0),
            9..=12 => whole(&[c"margin_rounds_12"], 4, 0),
            13..=16 => whole(&[c"margin_rounds_16"], 4, 0),
            17..=32 => whole(&[c"margin_rounds_32"], 4, 0),
            33..=64 => whole(&[c"margin_rounds_64"], 4, 0),
            // The model, and 64 rows' slopes and places.
            _ => Way {
                kernels: &[c"wide_open", c"wide_work", c"wide_close"],
                threads: dim,
                table: 0,
                worker: Some(8 * (pitch(dim) + 1) + 64 * 12),
            },
        },
    }
}

/// Threads of a block in which every repetition has one, and repetitions a multiprocessor from which
/// that is done.
pub(crate) const ALONE: usize = 128;

/// Whether a repetition can be the work of one thread: one coordinate, and clients that are few and
/// keep nothing.
pub(crate) fn can_be_alone(problem: &Federation, protocol: &Protocol) -> bool {
    let one = matches!(problem.base(), Base::Gaussian(base) if base.dim == 1);
    let cohort = protocol.scheme.cohort().unwrap_or(0);
    one && problem.clients() <= 64
        && cohort <= 255
        && !protocol.local.keeps()
        && protocol.clip.is_none()
}

/// What a round consists of, as long as nobody watches how far clients are apart.
pub(crate) fn extent(problem: &Federation, protocol: &Protocol, sampler: &CohortSampler) -> Extent {
    let Way { threads, table, worker, .. } = way(problem);
    let (clients, dim) = (problem.clients(), problem.dim());
    let kept = if protocol.local.keeps() { dim } else { 0 };
    Extent {
        clients,
        dim,
        draws: protocol.scheme.cohort().unwrap_or(0),
        workers: sampler.capacity(),
        server: dim + kept + dim * protocol.server.vectors(),
        watched: false,
        threads,
        table,
        apart: worker.is_some(),
    }
}
