//! A plan that the policy has, built on the site's rows; and what of the rows an update rests on.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::PathBuf;

use fedback_core::base::{Base, RawTable};
use fedback_core::federation::Federation;
use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_lab::error::Error;
use fedback_lab::plan::{CustomPlan, Plan, SitePlan, SiteTables};
use fedback_lab::spec::{self, Document, Point, Spec, parse_assignment};
use fedback_lab::table_file::Identity;
use toml::Value;

use crate::message::{About, Gathered};
use crate::observed::Wanted;
use crate::policy::Policy;
use crate::refused::Refused;
use crate::rests::{self, Rests, RowName};

/// A plan that the policy has, built on the site's rows.
pub struct Agreed {
    /// What sites share of a plan.
    pub plan: SitePlan,
    pub(crate) source: Source,
    rows: HashMap<u32, Names>,
}

/// Where observations come from.
pub(crate) enum Source {
    /// Populations that the plan knows, the site's rows among them.
    Known(Box<Federation>),
    /// The site's own program.
    Program(Wanted),
}

/// Refuses a policy whose rows come from elsewhere than a plan's, by the key to change.
pub(crate) fn fits(policy: &Policy, problem: &spec::Problem) -> Result<(), String> {
    let (data, observe) = (policy.data.is_some(), policy.observe.is_some());
    let why = match &problem.base {
        spec::Base::Sites(_) if observe => {
            "observe: the plan is about tables that lie at sites: give data instead"
        }
        spec::Base::Sites(_) if !data => {
            "data: is missing; the plan is about rows that lie at sites"
        }
        spec::Base::Custom(_) if data => {
            "data: the plan's observations come from a function: give observe instead"
        }
        spec::Base::Custom(_) if !observe => {
            "observe: is missing; the plan's observations come from a function of the site's"
        }
        spec::Base::Custom(_) if problem.loss == spec::Loss::Custom => {
            "observe: the plan's loss is \"custom\"; a site's service knows those that are built in"
        }
        spec::Base::Gaussian(_) | spec::Base::Table(_) if data => {
            "data: the plan has populations of its own: leave data out, or base.kind = \"sites\""
        }
        spec::Base::Gaussian(_) | spec::Base::Table(_) if observe => {
            "observe: the plan has populations of its own: leave observe out, or base.kind = \
             \"custom\""
        }
        spec::Base::Gaussian(_)
        | spec::Base::Table(_)
        | spec::Base::Sites(_)
        | spec::Base::Custom(_) => return Ok(()),
    };
    Err(why.into())
}

impl Agreed {
    /// Whether the plan's loss is of a label.
    pub(crate) fn is_labelled(&self) -> bool {
        self.plan.spec.problem.loss != spec::Loss::Mean
    }

    /// How many different rows a client has; none where its population is not made of rows, or
    /// observed.
    pub fn distinct(&self, client: u32) -> Option<u64> {
        self.rows.get(&client).map(Names::distinct)
    }

    /// What the steps of an update rest on; nothing where the population is not made of rows.
    pub fn rests(&self, client: u32, repetition: u32, round: u64) -> Vec<Rests> {
        let seed = Seed(self.plan.spec.seed.0);
        let streams = Streams::new(seed, u64::from(repetition), round, Purpose::Data);
        let stream = streams.client(client);
        let of = |rows: &Vec<RowName>| Rests::of_round(rows, stream, &self.plan.protocol);
        self.rows.get(&client).map_or(Vec::new(), |names| names.0.iter().flat_map(of).collect())
    }
}

/// A client's rows under all of their names: by what is read of them and, where they lie in a file of
/// the site's, by whom they are about. What is read changes with the columns of a spec; people do not.
pub(crate) struct Names(Vec<Vec<RowName>>);

impl Names {
    /// Of a client of the site's tables.
    pub(crate) fn of(tables: &SiteTables, client: usize) -> Self {
        let own = tables.held().find(|(held, _)| *held == client);
        let read = own.map_or(Vec::new(), |(_, table)| {
            let rows = table.values.chunks_exact(table.features.len().max(1));
            rows.zip(&table.labels).map(|(row, label)| rests::name(row, Some(*label))).collect()
        });
        let people = tables.people(client).map(<[RowName]>::to_vec);
        Names([read].into_iter().chain(people).collect())
    }

    /// What all rows together are, under each of their names.
    pub(crate) fn all(&self) -> Vec<Rests> {
        self.0.iter().map(|rows| Rests::new(rows.iter().copied())).collect()
    }

    /// How many are different, under whichever names there are fewest.
    pub(crate) fn distinct(&self) -> u64 {
        self.all().iter().map(Rests::distinct).min().unwrap_or(0)
    }
}

/// The site's tables as a spec asks for them, if the policy has its columns.
pub(crate) fn read(
    policy: &Policy,
    document: &Document,
    spec: &Spec,
) -> Result<SiteTables, Refused> {
    let spec::Base::Sites(base) = &spec.problem.base else {
        return Err("the plan is not about rows that lie at sites".into());
    };
    if let Some(allowed) = &policy.plan.columns {
        let mut names = base.features.iter().chain(&base.label);
        if let Some(column) = names.find(|name| !allowed.contains(name)) {
            return Err(format!("column {column:?} is not to be read here").into());
        }
    }
    let files: Vec<(usize, PathBuf)> = policy
        .clients
        .iter()
        .filter_map(|client| Some((*client as usize, policy.data_of(*client)?)))
        .collect();
    let identity = policy.id.as_deref().map_or(Identity::Line, Identity::Column);
    let read = SiteTables::read_people(spec, &files, &document.origin, Some(identity));
    read.map_err(|error| Refused::inside("the site's rows cannot be read", error))
}

/// The spec with what the operator sets, as far as it is his to set; of a sweep, which the site has
/// agreed to with its spec, the point that is asked for.
pub(crate) fn point(
    policy: &Policy,
    document: &Document,
    (set, which): (&[String], Option<u64>),
    gathered: Option<&Gathered>,
) -> Result<Point, Refused> {
    let mut document = document.clone();
    for assignment in set {
        let (key, value) =
            parse_assignment(assignment).map_err(|_| Refused::from("what is set has no ="))?;
        policy.allows(key, &value)?;
        let wrong = |error| Refused::inside("what is set does not fit the spec", error);
        document.set(assignment).map_err(wrong)?;
    }
    if let Some(gathered) = gathered {
        document = complete(&document, gathered)?;
    }
    let mut points =
        document.points().map_err(|error| Refused::inside("the spec cannot be read", error))?;
    // Rows are known by the columns that are read: under others, the same people would be new.
    if let [first, others @ ..] = &points[..]
        && others.iter().any(|other| other.spec.problem.base != first.spec.problem.base)
    {
        return Err("the spec's sweep changes problem.base, which is read one way here".into());
    }
    let (count, place) = (points.len(), which.unwrap_or(0) as usize);
    if place >= count || (which.is_none() && count > 1) {
        return Err(format!("the spec has {count} points, and one is worked on at a time").into());
    }
    Ok(points.swap_remove(place))
}

/// A spec with what a census came to.
fn complete(document: &Document, gathered: &Gathered) -> Result<Document, Refused> {
    let mut table = document.table().clone();
    let base = table.get_mut("problem").and_then(|problem| problem.get_mut("base"));
    let Some(Value::Table(base)) = base else { return Err("the spec has no base".into()) };
    let whole = |count: &u64| Value::Integer(*count as i64);
    base.insert("rows".into(), Value::Array(gathered.rows.iter().map(whole).collect()));
    if let Some([mean, sd]) = &gathered.sums {
        let real = |numbers: &[f64]| numbers.iter().map(|n| Value::Float(*n)).collect();
        base.insert("mean".into(), Value::Array(real(mean)));
        base.insert("sd".into(), Value::Array(real(sd)));
    }
    Ok(Document::of(table, &document.origin, document.directory.clone()))
}

/// Builds a plan at the site, if its clip is one that the policy has.
pub(crate) fn build(
    policy: &Policy,
    document: &Document,
    about: &About,
    own: Option<&SiteTables>,
) -> Result<Agreed, Refused> {
    let asked = (&about.set[..], about.point);
    let point = point(policy, document, asked, about.gathered.as_ref())?;
    let (directory, origin) = (&document.directory, &document.origin);
    let cannot = |error: &dyn Display| Refused::inside("the plan cannot be built here", error);
    fits(policy, &point.spec.problem).map_err(|why| cannot(&why))?;
    let known = |(plan, federation)| (plan, Source::Known(Box::new(federation)));
    let made = match (own, &policy.observe) {
        (Some(tables), _) => tables.site(&point, directory, origin).map(known),
        (None, None) => Plan::site(point, directory, origin).map(known),
        (None, Some(_)) => CustomPlan::new(point, directory, origin).and_then(observed),
    };
    let (plan, source) = made.map_err(|error| cannot(&error))?;
    if let Some(most) = policy.limits.clip
        && plan.protocol.clip.is_none_or(|clip| clip > most)
    {
        return Err(format!("the plan's algorithm.clip must be at most {most} here").into());
    }
    let clients = plan.weights.len();
    if let Some(client) = policy.clients.iter().find(|client| **client as usize >= clients) {
        return Err(format!("client {client} is not one of the plan's {clients}").into());
    }
    let names = |client: u32| match (own, &source) {
        (Some(tables), _) => Some(Names::of(tables, client as usize)),
        (None, Source::Known(federation)) => match federation.base() {
            Base::Table(table) => {
                let rows = table.rows_of(client as usize);
                let read = rows.map(|(row, label)| rests::name(row, Some(label))).collect();
                Some(Names(vec![read]))
            }
            Base::Gaussian(_) => None,
        },
        (None, Source::Program(_)) => None,
    };
    let held = policy.clients.iter().filter_map(|client| Some((*client, names(*client)?)));
    let rows = held.collect();
    Ok(Agreed { plan, source, rows })
}

/// What sites share of a plan whose observations come from the site's program.
fn observed(plan: CustomPlan) -> Result<(SitePlan, Source), Error> {
    let wanted = Wanted::of(&plan).ok_or_else(|| Error::Failed("the loss is custom".into()))?;
    Ok((SitePlan::from(&plan), Source::Program(wanted)))
}

/// How many standard deviations a site may be away from all, and how many times as spread out.
const APART: f64 = 10.0;

/// Whether the constants could be those of all rows, by a client's own mean and deviation.
pub(crate) fn plausible(table: &RawTable, mean: &[f64], sd: &[f64]) -> bool {
    let count = table.labels.len() as f64;
    let own_mean: Vec<f64> = table.sums().iter().map(|sum| sum / count).collect();
    let squares = table.squares(&own_mean);
    let fits = |j: usize| {
        let own_sd = (squares[j] / count).sqrt();
        sd[j] > 0.0 && own_sd <= APART * sd[j] && (own_mean[j] - mean[j]).abs() <= APART * sd[j]
    };
    mean.len() == own_mean.len() && sd.len() == own_mean.len() && (0..mean.len()).all(fits)
}
