//! The policy of a site: a TOML file that only the site's own people write.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use fedback_lab::error::Error;
use serde::Deserialize;
use toml::Value;

/// What a site allows.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | format | 1 | the version of this contract | 1 |
/// | name | required | who the site is; its ledger carries it | – |
/// | clients | required | the clients whose work the site does | client numbers |
/// | data | none | the site's rows; `{client}` stands for a client's number | a path |
/// | id | none | the column that says whom a row is about; else its whole line does | a column of `data` |
/// | observe | none | the site's own program and its arguments, which make the observations | words |
/// | socket | required | where the site's service listens | a path |
/// | ledger | required | what was answered, kept for ever | a path |
/// | plan | required | what the site works on | see [`PlanKeys`] |
/// | limits | required | how much of its rows the site shows | see [`Limits`] |
///
/// Relative paths start in the policy's folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The version of this contract.
    #[serde(default = "first")]
    pub format: u64,
    /// Who the site is.
    pub name: String,
    /// The clients whose work the site does.
    pub clients: Vec<u32>,
    /// The site's rows.
    pub data: Option<String>,
    /// The column that says whom a row is about.
    pub id: Option<String>,
    /// The site's own program and its arguments.
    pub observe: Option<Vec<String>>,
    /// Where the service listens.
    pub socket: PathBuf,
    /// Where the ledger is.
    pub ledger: PathBuf,
    /// What the site works on.
    pub plan: PlanKeys,
    /// How much of its rows the site shows.
    pub limits: Limits,
    /// Where the file is, for messages.
    #[serde(skip)]
    pub origin: PathBuf,
}

/// `[plan]`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | spec | required | the site's own copy of the spec | a path |
/// | hash | none | the only plan that is worked for | the hash that `fedback site check` prints |
/// | columns | those of the spec | the columns that may be read | names |
/// | vary | none | keys of the spec that the operator may set | `key = [least, most]`, or `{ one_of = […] }` |
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanKeys {
    /// The site's own copy of the spec.
    pub spec: PathBuf,
    /// The only plan that is worked for.
    pub hash: Option<String>,
    /// The columns that may be read.
    pub columns: Option<Vec<String>>,
    /// Keys of the spec that the operator may set.
    #[serde(default)]
    pub vary: BTreeMap<String, Value>,
}

/// `[limits]`.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | rows | required | distinct rows that every local step rests on, and in which any two differ | ≥ 1 |
/// | answers | required | answers for a client under one plan | ≥ 1 |
/// | answers_in_all | required | answers for a client, for ever | ≥ 1 |
/// | clip | none | the largest `algorithm.clip` of a plan; plans without one are refused | > 0 |
/// | theta | required | how long a model may be that the site works from, and what is sent with it | > 0 |
/// | censuses | 1 | how many different counts and constants of all sites' rows are worked with | ≥ 1 |
/// | message | 16777216 | the largest question, in bytes | ≥ 1024 |
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Distinct rows that an answer rests on.
    pub rows: u64,
    /// Answers for a client under one plan.
    pub answers: u64,
    /// Answers for a client, for ever.
    pub answers_in_all: u64,
    /// The largest clip of a plan.
    pub clip: Option<f64>,
    /// How long a model may be, and what is sent with it.
    pub theta: f64,
    /// How many different counts and constants of all sites' rows are worked with.
    #[serde(default = "first")]
    pub censuses: u64,
    /// The largest question, in bytes.
    #[serde(default = "message")]
    pub message: u64,
}

fn first() -> u64 {
    1
}

fn message() -> u64 {
    16 << 20
}

/// A key of a policy that cannot be used.
fn wrong(origin: &Path, key: &str, why: impl fmt::Display) -> Error {
    Error::input(origin.display(), format!("{key}: {why}"))
}

impl Policy {
    /// Reads and checks a policy file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::input(path.display(), format!("cannot be read: {error}")))?;
        Policy::parse(&text, path)
    }

    /// The same, from text; relative paths start in the folder of `origin`.
    pub fn parse(text: &str, origin: &Path) -> Result<Self, Error> {
        let mut policy: Policy = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(String::new(), |span| {
                format!("line {}: ", text[..span.start.min(text.len())].matches('\n').count() + 1)
            });
            Error::input(origin.display(), format!("{line}{}", error.message()))
        })?;
        policy.origin = origin.to_path_buf();
        let folder = policy.folder();
        policy.socket = folder.join(&policy.socket);
        policy.ledger = folder.join(&policy.ledger);
        policy.plan.spec = folder.join(&policy.plan.spec);
        policy.data = policy.data.map(|data| folder.join(data).display().to_string());
        // A name without a folder is looked for where programs are.
        if let Some(program) = policy.observe.as_mut().and_then(|words| words.first_mut())
            && program.contains('/')
        {
            *program = folder.join(&*program).display().to_string();
        }
        policy.check()?;
        Ok(policy)
    }

    fn check(&self) -> Result<(), Error> {
        let fail = |key: &str, why: String| Err(wrong(&self.origin, key, why));
        if self.format != 1 {
            return fail("format", format!("found {}; allowed: 1", self.format));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(plain) {
            let allowed = "allowed: up to 64 letters, digits and -_.";
            return fail("name", format!("found {:?}; {allowed}", self.name));
        }
        let mut clients = self.clients.clone();
        clients.sort_unstable();
        clients.dedup();
        if clients.is_empty() || clients.len() != self.clients.len() {
            return fail("clients", "name every client of the site once".into());
        }
        if let Some(data) = &self.data
            && self.clients.len() > 1
            && !data.contains("{client}")
        {
            let why = "several clients need a file each: put {client} into the path";
            return fail("data", format!("found {data:?}; {why}"));
        }
        if let Some(id) = &self.id {
            if self.data.is_none() {
                return fail("id", "is a column of data, which is missing: leave it out".into());
            }
            if id.is_empty() {
                return fail("id", "found \"\"; allowed: the name of a column of data".into());
            }
        }
        self.check_observe()?;
        let limits = &self.limits;
        for (key, value) in [
            ("limits.rows", limits.rows),
            ("limits.answers", limits.answers),
            ("limits.answers_in_all", limits.answers_in_all),
            ("limits.censuses", limits.censuses),
        ] {
            if value == 0 {
                return fail(key, "found 0; allowed: 1 or more".into());
            }
        }
        if limits.message < 1024 {
            let why = format!("found {}; allowed: 1024 or more bytes", limits.message);
            return fail("limits.message", why);
        }
        for (key, value) in [("limits.clip", limits.clip), ("limits.theta", Some(limits.theta))] {
            if value.is_some_and(|value| value.is_nan() || value <= 0.0) {
                return fail(key, "allowed: a number above 0".into());
            }
        }
        if let Some(hash) = &self.plan.hash {
            if hash.len() != 64 || !hash.chars().all(|c| c.is_ascii_hexdigit()) {
                let why = "allowed: the 64 digits that `fedback site check` prints";
                return fail("plan.hash", format!("found {hash:?}; {why}"));
            }
            if !self.plan.vary.is_empty() {
                let why = "a plan with a hash does not vary: leave one of the two out";
                return fail("plan.vary", why.into());
            }
        }
        for (key, range) in &self.plan.vary {
            if key == "problem" || key.starts_with("problem.base") {
                let why = "what is read is the site's to say: it cannot vary";
                return fail(&format!("plan.vary.{key}"), why.into());
            }
            Range::of(range)
                .map_err(|why| wrong(&self.origin, &format!("plan.vary.{key}"), why))?;
        }
        Ok(())
    }

    fn check_observe(&self) -> Result<(), Error> {
        let Some(words) = &self.observe else { return Ok(()) };
        let fail = |key: &str, why: &str| Err(wrong(&self.origin, key, why));
        let whole = |word: &String| !word.is_empty() && !word.contains('\0');
        if words.is_empty() || !words.iter().all(whole) {
            let why = format!("found {words:?}; allowed: a program and its arguments, texts each");
            return fail("observe", &why);
        }
        if self.data.is_some() {
            return fail("observe", "the rows come from data: leave one of the two out");
        }
        if self.plan.columns.is_some() {
            let why = "the rows come from observe, which has no columns: leave it out";
            return fail("plan.columns", why);
        }
        Ok(())
    }

    /// Where relative paths start, and the site's program works.
    pub fn folder(&self) -> PathBuf {
        let whole = std::path::absolute(&self.origin).unwrap_or_else(|_| self.origin.clone());
        whole.parent().unwrap_or(Path::new("/")).to_path_buf()
    }

    /// The files that the site's program is made of, as far as its words name them.
    pub fn program_files(&self) -> Vec<PathBuf> {
        let folder = self.folder();
        let file = |word: &String| {
            let place = word.rsplit_once(':').map_or(word.as_str(), |(place, _)| place);
            [word.as_str(), place].map(|name| folder.join(name)).into_iter().find(|p| p.is_file())
        };
        self.observe.iter().flatten().filter_map(file).collect()
    }

    /// The file of a client's rows.
    pub fn data_of(&self, client: u32) -> Option<PathBuf> {
        self.data.as_ref().map(|data| data.replace("{client}", &client.to_string()).into())
    }

    /// Refuses what the operator sets where the policy does not let it vary.
    pub fn allows(&self, key: &str, value: &Value) -> Result<(), String> {
        let Some(range) = self.plan.vary.get(key) else {
            let key: String = key.chars().take(60).collect();
            return Err(format!("{key} is not the operator's to set here"));
        };
        match Range::of(range)? {
            Range::Between(least, most) => match number(value) {
                Some(number) if (least..=most).contains(&number) => Ok(()),
                _ => Err(format!("{key} may be {least} to {most} here")),
            },
            Range::OneOf(values) if values.contains(value) => Ok(()),
            Range::OneOf(values) => {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                Err(format!("{key} may be {} here", values.join(" or ")))
            }
        }
    }
}

/// What a key may be set to.
enum Range<'a> {
    Between(f64, f64),
    OneOf(&'a [Value]),
}

impl<'a> Range<'a> {
    fn of(value: &'a Value) -> Result<Self, String> {
        let allowed = "allowed: [least, most], or { one_of = [value, …] }";
        let fail = || format!("found {value}; {allowed}");
        match value {
            Value::Array(ends) => {
                match (ends.first().and_then(number), ends.get(1).and_then(number)) {
                    (Some(least), Some(most)) if ends.len() == 2 && least <= most => {
                        Ok(Range::Between(least, most))
                    }
                    _ => Err(fail()),
                }
            }
            Value::Table(table) if table.len() == 1 => match table.get("one_of") {
                Some(Value::Array(values)) if !values.is_empty() => Ok(Range::OneOf(values)),
                _ => Err(fail()),
            },
            _ => Err(fail()),
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Float(number) if number.is_finite() => Some(*number),
        _ => None,
    }
}
