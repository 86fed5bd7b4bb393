//! How large a run may be: what is too large is refused before anything is allocated.

use fedback_core::memory::{Memory, Past};
use fedback_core::protocol::{Batch, Protocol};
use fedback_core::state::Layout;

use super::Shape;
use crate::measure::Measurement;
use crate::spec::{KeyError, Spec};

/// Steps and draws beyond this cannot be told apart as numbers.
const MOST_STEPS: u64 = 1 << 53;
/// Numbers a run may hold, and may record: 16 GiB of them.
pub(super) const MOST_NUMBERS: f64 = (1u64 << 31) as f64;
/// Numbers that a repetition takes besides its state: to keep account of it, and to print it.
const EACH_REPETITION: f64 = 170.0;
/// Means that a curve may have: some 10 GB of memory where they are printed as JSON.
const MOST_MEANS: f64 = 2e7;

/// Refuses sizes that would overflow a step counter, an index, memory or a disk.
pub(super) fn check(
    spec: &Spec,
    (protocol, past): (&Protocol, Option<&Past>),
    shape: &Shape,
) -> Result<(), KeyError> {
    let memory = past.map(|past| past.memory);
    let layout = Layout::new(protocol, memory, shape.dim, shape.weights.len());
    let steps = spec.rounds.0.checked_mul(protocol.local_steps as u64);
    if steps.is_none_or(|steps| steps > MOST_STEPS) {
        let why = format!("rounds · local_steps is above 2^53 = {MOST_STEPS}");
        return Err(KeyError::new("rounds", why));
    }
    check_memory(&layout, protocol, spec.repetitions.0)?;
    check_records(spec, shape)?;
    let batch = match protocol.batch {
        Batch::Sampled(size) => size as u64,
        Batch::All => 1,
    };
    let draws = (protocol.local_steps as u64).checked_mul(batch);
    if draws.is_none_or(|draws| draws > MOST_STEPS) {
        return Err(KeyError::new("algorithm.batch", "local_steps · batch is above 2^53"));
    }
    Ok(())
}

/// Refuses what does not fit in memory, by the key that takes most of it.
pub(super) fn check_memory(
    layout: &Layout,
    protocol: &Protocol,
    repetitions: u64,
) -> Result<(), KeyError> {
    let state = (2 * layout.server() + layout.all_kept()) as f64;
    let cohort = protocol.scheme.cohort().unwrap_or(0) as u64;
    let work = (layout.dim + layout.kept) as f64 + 3.0;
    let parts = [
        ("repetitions", repetitions, state + EACH_REPETITION),
        ("algorithm.cohort", cohort, work),
        ("algorithm.local_steps", protocol.local_steps as u64, 17.0),
    ];
    let numbers: f64 = parts.iter().map(|(_, count, each)| *count as f64 * each).sum();
    if numbers <= MOST_NUMBERS {
        return Ok(());
    }
    let size = |(_, count, each): &(&str, u64, f64)| *count as f64 * each;
    let (mut key, mut found, each) =
        parts.into_iter().max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(parts[0]);
    let mut most = (MOST_NUMBERS / each) as u64;
    if most == 0 {
        let count = |all: usize| (MOST_NUMBERS / (each / all as f64)) as u64;
        let models = layout.memory.map_or(0, Memory::vectors);
        (key, found, most) = match models > 1 {
            true => ("problem.response.memory", models as u64, count(models)),
            false => ("problem.base.dim", layout.dim as u64, count(layout.dim)),
        };
    }
    let gigabytes = |numbers: f64| (numbers * 8e-9).ceil();
    let why = format!(
        "found {found}; the run would hold {} GB of numbers, allowed are {}: lower it to {most} or \
         less",
        gigabytes(numbers),
        gigabytes(MOST_NUMBERS)
    );
    Err(KeyError::new(key, why))
}

/// Refuses curves that nobody can look at and stores that no disk holds.
fn check_records(spec: &Spec, shape: &Shape) -> Result<(), KeyError> {
    let columns = Measurement::asked(spec, true, shape.weights.len(), shape.table.as_ref()).len();
    let every = spec.measure.every.0;
    let means = columns.max(1) as f64 * (spec.rounds.0 / every) as f64;
    let numbers = means * spec.repetitions.0 as f64;
    let over = (means / MOST_MEANS).max(numbers / MOST_NUMBERS);
    if over <= 1.0 {
        return Ok(());
    }
    let (what, count, most) = match means > MOST_MEANS {
        true => ("the curve would have", means, MOST_MEANS),
        false => ("the run would record", numbers, MOST_NUMBERS),
    };
    let why = format!(
        "found {every}; in {} rounds {what} {count} numbers, allowed are {most}: raise it to {} or \
         more",
        spec.rounds.0,
        (every as f64 * over).ceil()
    );
    Err(KeyError::new("measure.every", why))
}
