//! The work of clients whose observations the site's program makes; and what every step was given.

use std::mem::take;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fedback_core::federation::ClientId;
use fedback_core::loss::Loss;
use fedback_core::protocol::Round;
use fedback_core::stream::{Seed, Streams};
use fedback_engine::plain::{Gradients, Observations, OneByOne, Plain};
use fedback_engine::work::WorkError;
use fedback_lab::plan::{CustomPlan, Given, SitePlan, Updates};
use serde_json::json;

use crate::frame::{Array, Frame};
use crate::program::{Program, Unobserved};
use crate::rests::{self, Rests, RowName};

/// Bytes of a reply beside its numbers: a header, and a sentence where the program failed.
const BESIDE: u64 = 1 << 16;

/// What a plan needs of a program's observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    dim: usize,
    loss: Loss,
    intercept: bool,
}

impl Wanted {
    /// Of a plan whose loss is built in.
    pub(crate) fn of(plan: &CustomPlan) -> Option<Self> {
        let populations = plan.populations();
        let (dim, intercept) = (plan.dim, populations.intercept);
        populations.loss.map(|loss| Wanted { dim, loss, intercept })
    }

    /// Features of a row, without the intercept.
    pub fn features(&self) -> usize {
        self.dim - usize::from(self.intercept)
    }

    fn labels(&self) -> &'static str {
        match self.loss {
            Loss::Mean => "none",
            Loss::Squared { .. } => "number",
            Loss::Logistic { .. } => "binary",
        }
    }

    /// The observations in a reply, checked.
    fn read(&self, reply: &Frame, count: usize) -> Result<Batch, Unobserved> {
        let nonsense = |what: String| Unobserved::Nonsense(what);
        match reply.fields.get("kind").and_then(|kind| kind.as_str()) {
            Some("observations") => {}
            Some("failure") => {
                let reason = reply.fields.get("reason").and_then(|reason| reason.as_str());
                return Err(Unobserved::Failed(reason.unwrap_or("no reason").to_string()));
            }
            _ => return Err(nonsense("a frame whose kind is not observations or failure".into())),
        }
        let array = |name: &str, shape: &[u64]| match reply.arrays.get(name) {
            None => Err(nonsense(format!("no {name}; needed: <f8 of shape {shape:?}"))),
            Some(array) => array.numbers(shape).ok_or_else(|| {
                let found = format!("{name} of {} and shape {:?}", array.dtype, array.shape);
                nonsense(format!("{found}; needed: <f8 of shape {shape:?}"))
            }),
        };
        let rows = count as u64;
        let features = array("features", &[rows, self.features() as u64])?;
        let labels = match self.loss {
            Loss::Mean => Vec::new(),
            Loss::Squared { .. } | Loss::Logistic { .. } => array("labels", &[rows])?,
        };
        let known = 1 + usize::from(!labels.is_empty());
        if reply.arrays.len() > known {
            return Err(nonsense(format!("{} arrays; needed: {known}", reply.arrays.len())));
        }
        if !features.iter().chain(&labels).all(|number| number.is_finite()) {
            return Err(nonsense("a number that is not finite".into()));
        }
        if self.labels() == "binary" && !labels.iter().all(|label| *label == 0.0 || *label == 1.0) {
            return Err(nonsense("labels other than 0 and 1, which the loss needs".into()));
        }
        Ok(self.batch(features, labels))
    }

    fn batch(&self, features: Vec<f64>, labels: Vec<f64>) -> Batch {
        let each = features.chunks_exact(self.features()).enumerate();
        let names = each.map(|(k, row)| rests::name(row, labels.get(k).copied())).collect();
        let rows = Observations::of_rows(features, labels, self.features(), self.intercept);
        Batch { rows, names }
    }
}

/// An update, and what each of its local steps rests on.
pub(crate) struct Observed {
    pub updates: Updates,
    pub rests: Vec<Arc<Rests>>,
}

/// The work of one client in one repetition. A program that dies meanwhile is started again and asked
/// from the beginning, once: what it was about to return was told to nobody.
pub(crate) fn observe(
    wanted: Wanted,
    plan: &SitePlan,
    key: (Seed, Round),
    given: Given<'_>,
    program: &mut Program,
) -> Result<Observed, Unobserved> {
    let mut again = true;
    loop {
        let noted = Mutex::new(Noted { program: &mut *program, steps: Vec::new(), why: None });
        let weights = plan.weights.clone();
        let plain = Plain { gradients: OneByOne(Observing { wanted, noted }), weights };
        let done = plan.work(&plain, key, given);
        let mut noted = plain.gradients.0.noted();
        match (done, noted.why.take()) {
            (Ok(updates), _) => return Ok(Observed { updates, rests: take(&mut noted.steps) }),
            (Err(_), Some(Unobserved::Ended(_))) if again => again = false,
            (Err(_), Some(why)) => return Err(why),
            (Err(error), None) => return Err(Unobserved::Nonsense(error.reason)),
        }
    }
}

/// Observations of a program, each step's noted.
struct Observing<'a> {
    wanted: Wanted,
    noted: Mutex<Noted<'a>>,
}

struct Noted<'a> {
    program: &'a mut Program,
    /// What the steps so far rest on.
    steps: Vec<Arc<Rests>>,
    /// Why there were no observations.
    why: Option<Unobserved>,
}

impl<'a> Observing<'a> {
    fn noted(&self) -> MutexGuard<'_, Noted<'a>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose observations a draw goes on with.
struct Cursor {
    client: u32,
    key: [u64; 2],
    /// Draws so far: a program's generator goes on from one to the next.
    draws: u64,
}

/// Observations, and their names.
struct Batch {
    rows: Observations,
    names: Vec<RowName>,
}

impl Gradients for Observing<'_> {
    type Cursor = Cursor;
    type Batch = Batch;

    fn dim(&self) -> usize {
        self.wanted.dim
    }

    fn cursor(&self, streams: Streams, client: ClientId) -> Result<Cursor, WorkError> {
        let stream = streams.client(client.0);
        Ok(Cursor { client: client.0, key: [stream.word(0), stream.word(1)], draws: 0 })
    }

    fn draw(
        &self,
        cursor: &mut Cursor,
        deployed: &[f64],
        count: usize,
    ) -> Result<Batch, WorkError> {
        let Wanted { dim, .. } = self.wanted;
        let fields = [
            ("kind", json!("observe")),
            ("client", json!(cursor.client)),
            ("draw", json!(cursor.draws)),
            ("count", json!(count)),
            ("features", json!(self.wanted.features())),
            ("labels", json!(self.wanted.labels())),
        ];
        let fields = fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        let theta = Array { shape: vec![dim as u64], ..Array::floats(deployed, dim) };
        let key = Array::of_u64(&cursor.key);
        let arrays = [("theta".to_string(), theta), ("key".to_string(), key)].into();
        let numbers = (count as u64).saturating_mul(dim as u64 + 1).saturating_mul(8);
        let most = numbers.saturating_add(BESIDE);
        let mut noted = self.noted();
        let reply = noted.program.ask(Frame { fields, arrays }, most);
        let batch = reply.and_then(|reply| self.wanted.read(&reply, count)).map_err(|why| {
            let reason = why.to_string();
            noted.why = Some(why);
            WorkError { client: cursor.client, reason }
        })?;
        cursor.draws += 1;
        Ok(batch)
    }

    fn gradient(
        &self,
        _client: ClientId,
        theta: &[f64],
        batch: &Batch,
        range: Option<Range<usize>>,
        out: &mut [f64],
    ) -> Result<f64, WorkError> {
        let step = range.clone().unwrap_or(0..batch.names.len());
        let rests = Rests::new(batch.names[step].iter().copied());
        self.noted().steps.push(Arc::new(rests));
        Ok(batch.rows.gradient(self.wanted.loss, self.wanted.intercept, theta, range, out))
    }
}
