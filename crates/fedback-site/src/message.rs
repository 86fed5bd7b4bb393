//! What a site is asked, and what it says. The fields are those that travel on Flower
//! (`docs/reference/flower.md`), and `set`: what the operator sets in the spec.

use serde_json::{Map, Value, json};

use crate::frame::{Array, Frame};

/// A question to a site.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// How many rows have your clients, and what are the sums of their features; or, where a mean is
    /// given, of squared distances to it?
    Census {
        /// What the operator sets in the spec, `key=value` each.
        set: Vec<String>,
        /// The mean of every feature.
        mean: Option<Vec<f64>>,
    },
    /// Whom do you hold, and under which plan?
    Question(About),
    /// Work.
    Order(Order),
}

/// What a question is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// What the operator sets in the spec, `key=value` each.
    pub set: Vec<String>,
    /// Which point of the spec's sweep; none where it has none.
    pub point: Option<u64>,
    /// The hash of the plan that this makes.
    pub plan_hash: String,
    /// What a census came to, where there was one.
    pub gathered: Option<Gathered>,
}

/// What a census came to: every client's count of rows and, where features are standardised, their
/// means and standard deviations.
#[derive(Clone, Debug, PartialEq)]
pub struct Gathered {
    /// Every client's count of rows.
    pub rows: Vec<u64>,
    /// Means and standard deviations.
    pub sums: Option<[Vec<f64>; 2]>,
}

/// An order: pair j is the work of client `clients[j]` in repetition `repetitions[j]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Order {
    /// Of which plan.
    pub about: About,
    /// The round.
    pub round: u64,
    /// The seed that streams are keyed by.
    pub seed: u64,
    /// The models and what is sent with them, a row a repetition.
    pub thetas: Vec<f64>,
    /// Numbers in such a row.
    pub broadcast: usize,
    /// The repetition of every pair.
    pub repetitions: Vec<u32>,
    /// The client of every pair.
    pub clients: Vec<u32>,
    /// What clients keep, a row a pair.
    pub kept: Vec<f64>,
    /// Numbers in such a row.
    pub keeps: usize,
}

/// What a site says.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Counts of rows, and sums.
    Count {
        /// The clients held.
        clients: Vec<u32>,
        /// Their rows.
        rows: Vec<u64>,
        /// A row of sums for each.
        sums: Vec<f64>,
    },
    /// Whom the site holds.
    Answer {
        /// The hash of the plan.
        plan_hash: String,
        /// Clients of the whole federation.
        federation: usize,
        /// Coordinates of θ.
        dim: usize,
        /// The clients held.
        clients: Vec<u32>,
    },
    /// Work done.
    Update {
        /// The hash of the plan.
        plan_hash: String,
        /// The round.
        round: u64,
        /// The repetition of every pair.
        repetitions: Vec<u32>,
        /// The client of every pair.
        clients: Vec<u32>,
        /// What each has moved by.
        delta: Vec<f64>,
        /// What each keeps.
        kept: Vec<f64>,
    },
    /// No, and why.
    Refusal {
        /// The reason.
        reason: String,
    },
}

/// Takes fields and arrays out of a frame, so that what is left over can be refused.
struct Reader(Frame);

impl Reader {
    fn array<T>(
        &mut self,
        name: &str,
        read: impl Fn(&Array) -> Option<T>,
    ) -> Result<Option<T>, String> {
        match self.0.arrays.remove(name) {
            None => Ok(None),
            Some(array) => match read(&array) {
                Some(numbers) => Ok(Some(numbers)),
                None => Err(format!("{name} is {} of {} axes", array.dtype, array.shape.len())),
            },
        }
    }

    fn floats(&mut self, name: &str) -> Result<Option<(Vec<f64>, usize)>, String> {
        self.array(name, Array::to_floats)
    }

    fn needed<T>(name: &str, value: Option<T>) -> Result<T, String> {
        value.ok_or_else(|| format!("{name} is missing"))
    }

    fn text(&mut self, name: &str) -> Result<String, String> {
        match self.0.fields.remove(name) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(format!("{name} is missing, or no text")),
        }
    }

    fn count(&mut self, name: &str) -> Result<u64, String> {
        let value = self.0.fields.remove(name);
        value.and_then(|value| value.as_u64()).ok_or_else(|| format!("{name} is no count"))
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        let fail = || "set is no list of texts".to_string();
        match self.0.fields.remove("set") {
            None => Ok(Vec::new()),
            Some(value) => serde_json::from_value(value).map_err(|_| fail()),
        }
    }

    fn about(&mut self) -> Result<About, String> {
        let (set, plan_hash) = (self.set()?, self.text("plan-hash")?);
        let rows = self.array("rows", Array::to_u64)?;
        let sums = match self.floats("sums")? {
            None => None,
            // An array of no rows may have any number of columns.
            Some((sums, columns))
                if !sums.is_empty() && columns.checked_mul(2) == Some(sums.len()) =>
            {
                let (mean, sd) = sums.split_at(columns);
                Some([mean.to_vec(), sd.to_vec()])
            }
            Some(_) => return Err("sums are not means and standard deviations".into()),
        };
        let point = match self.0.fields.contains_key("point") {
            true => Some(self.count("point")?),
            false => None,
        };
        Ok(About { set, point, plan_hash, gathered: rows.map(|rows| Gathered { rows, sums }) })
    }

    fn order(&mut self) -> Result<Order, String> {
        let about = self.about()?;
        // The step follows from the round.
        self.count("step")?;
        let seed = Reader::needed("stream-key", self.array("stream-key", Array::to_u64)?)?;
        let [seed] = seed[..] else { return Err("there is not one stream key".into()) };
        let (thetas, broadcast) = Reader::needed("theta", self.floats("theta")?)?;
        let (kept, keeps) = self.floats("kept")?.unwrap_or_default();
        Ok(Order {
            about,
            round: self.count("round")?,
            seed,
            thetas,
            broadcast,
            repetitions: Reader::needed("repetitions", self.array("repetitions", Array::to_u32)?)?,
            clients: Reader::needed("clients", self.array("clients", Array::to_u32)?)?,
            kept,
            keeps,
        })
    }
}

impl Request {
    /// The question in a frame, or what is wrong with it.
    pub fn of(frame: Frame) -> Result<Self, String> {
        let mut reader = Reader(frame);
        let kind = reader.text("kind")?;
        // Whoever asks may be of another version; what decides the bits is in the plan's hash.
        reader.0.fields.remove("version");
        let request = match kind.as_str() {
            "census" => {
                let set = reader.set()?;
                let mean = reader.floats("sums")?.map(|(mean, _)| mean);
                Request::Census { set, mean }
            }
            "question" => Request::Question(reader.about()?),
            "order" => Request::Order(reader.order()?),
            _ => return Err("the kind of the question is not known".into()),
        };
        let Reader(Frame { fields, arrays }) = reader;
        match fields.keys().chain(arrays.keys()).next() {
            None => Ok(request),
            Some(_) => Err(format!("the {kind} has a field too many")),
        }
    }
}

impl Reply {
    /// The frame that says it.
    pub fn frame(&self) -> Frame {
        let mut frame = Frame { fields: self.fields(), ..Frame::default() };
        let mut add = |name: &str, array| drop(frame.arrays.insert(name.into(), array));
        match self {
            Reply::Count { clients, rows, sums } => {
                add("clients", Array::of_u32(clients));
                add("rows", Array::of_u64(rows));
                add("sums", Array::floats(sums, sums.len().checked_div(rows.len()).unwrap_or(0)));
            }
            Reply::Answer { clients, .. } => add("clients", Array::of_u32(clients)),
            Reply::Update { repetitions, clients, delta, kept, .. } => {
                let each = |numbers: &[f64]| numbers.len().checked_div(clients.len()).unwrap_or(0);
                add("repetitions", Array::of_u32(repetitions));
                add("clients", Array::of_u32(clients));
                add("delta", Array::floats(delta, each(delta)));
                if !kept.is_empty() {
                    add("kept", Array::floats(kept, each(kept)));
                }
            }
            Reply::Refusal { .. } => {}
        }
        frame
    }

    fn fields(&self) -> Map<String, Value> {
        let fields = match self {
            Reply::Count { .. } => json!({ "kind": "count" }),
            Reply::Answer { plan_hash, federation, dim, .. } => json!({
                "kind": "answer", "plan-hash": plan_hash, "federation": federation, "dim": dim,
            }),
            Reply::Update { plan_hash, round, .. } => {
                json!({ "kind": "update", "plan-hash": plan_hash, "round": round })
            }
            Reply::Refusal { reason } => json!({ "kind": "refusal", "reason": reason }),
        };
        let Value::Object(mut fields) = fields else { return Map::new() };
        fields.insert("version".into(), env!("CARGO_PKG_VERSION").into());
        fields
    }
}
