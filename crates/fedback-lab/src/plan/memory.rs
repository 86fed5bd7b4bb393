//! From `memory = { … }` of `[problem.response]` to what populations remember.

use fedback_core::federation::Federation;
use fedback_core::memory::{Memory, Past};

use crate::spec::{self, KeyError, Model, Response};

/// What populations remember before the first round of a model of `dim` coordinates; none where they forget
/// at once.
pub(super) fn past(response: &Response, dim: usize) -> Result<Option<Past>, KeyError> {
    let Some(described) = response.memory() else { return Ok(None) };
    let memory = match described {
        spec::Memory::Inertia(inertia) => Memory::Inertia { rate: inertia.rate.0 },
        spec::Memory::Delay(delay) => {
            Memory::Delay { deployments: few("deployments", delay.deployments.0)? }
        }
        spec::Memory::Staggered(staggered) => {
            Memory::Staggered { parts: few("parts", staggered.parts.0)? }
        }
    };
    let start = match described.start() {
        Some(Model::Number(number)) => vec![*number; dim],
        Some(Model::List(list)) => list.clone(),
        None => response.reference().unwrap_or_else(|| vec![0.0; dim]),
    };
    if start.len() != dim {
        let why = format!("the list has {} entries; θ has {dim} coordinates", start.len());
        return Err(KeyError::new("problem.response.memory.start", why));
    }
    Ok(memory.check()?.map(|memory| Past { memory, start: start.into() }))
}

/// The same problem with populations that remember, if a spec says so.
pub(super) fn remembering(
    federation: Federation,
    response: &Response,
) -> Result<Federation, KeyError> {
    match past(response, federation.dim())? {
        None => Ok(federation),
        Some(past) => Ok(federation.remembering(past.memory, &past.start)?),
    }
}

/// More models than this nobody remembers.
const MOST: u64 = 1 << 16;

fn few(key: &str, count: u64) -> Result<usize, KeyError> {
    if count <= MOST {
        return Ok(count as usize);
    }
    let why = format!("found {count}; allowed: up to {MOST}");
    Err(KeyError::new(format!("problem.response.memory.{key}"), why))
}
