//! Where a run settles and where it does not, over any two keys of its spec.
//!
//! A lattice of settings is judged, then the edge between neighbours that were judged differently is
//! found by halving: sharper than any lattice that there is time for.

use std::time::{Duration, Instant};

use fedback_lab::check::settles;
use fedback_lab::experiment::Experiment;
use fedback_lab::figure::{Axis, Figure, Mark, Scale, Series, Size};
use fedback_lab::spec::Document;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use serde::Deserialize;
use serde_json::{Value, json};

use super::document::{Described, STRENGTH, changed};
use crate::answer::Refusal;

/// Columns and rows of the lattice.
const COLUMNS: usize = 25;
const ROWS: usize = 16;
/// Halvings of the distance between two rows.
const HALVINGS: usize = 9;
/// A map of what takes long is left unfinished.
const MOST_TIME: Duration = Duration::from_secs(20);

/// Which keys, and from where to where.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    pub x: Range,
    pub y: Range,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub key: String,
    pub low: f64,
    pub high: f64,
    /// Where the spec is now.
    pub here: Option<f64>,
    /// By logarithms.
    #[serde(default)]
    pub log: bool,
    /// Whole numbers.
    #[serde(default)]
    pub whole: bool,
}

/// What is known of one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Settles,
    Not,
    Unknown,
    /// There is no such setting.
    Refused,
    /// There was no time for it.
    Late,
}

/// All rows at one place across.
struct Column {
    x: f64,
    found: Vec<(f64, Found)>,
    /// Where the answer changes from one row to the next.
    edges: Vec<f64>,
}

impl Range {
    fn check(&self) -> Result<(), Refusal> {
        let Range { key, low, high, log, .. } = self;
        if key.contains(['=', '#', '\n']) {
            return Err(Refusal::question("a key of the map: allowed: a dotted key of the spec"));
        }
        let ordered = low.is_finite() && high.is_finite() && low < high;
        match ordered && (!log || *low > 0.0) {
            true => Ok(()),
            false => {
                let why = "allowed: two numbers, the smaller one first, above 0 on logarithms";
                Err(Refusal::question(format!("{key}: found {low} to {high}; {why}")))
            }
        }
    }

    /// The value at a share of the way.
    fn at(&self, share: f64) -> f64 {
        let Range { low, high, .. } = *self;
        let value = match self.log {
            true => (low.ln() + share * (high.ln() - low.ln())).exp(),
            false => low + share * (high - low),
        };
        if self.whole { value.round() } else { value }
    }

    fn assignment(&self, value: f64) -> String {
        match self.whole {
            true => format!("{}={}", self.key, value as i64),
            false => format!("{}={value:?}", self.key),
        }
    }

    fn axis(&self) -> Axis {
        let scale = if self.log { Scale::Log } else { Scale::Linear };
        Axis { label: self.key.clone(), scale }
    }
}

/// Judges, and draws. `is_over` says that nobody waits any longer.
pub fn map(
    described: &Described,
    map: &Map,
    document: &dyn Fn(&Described) -> Result<Document, Refusal>,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<Value, Refusal> {
    map.x.check()?;
    map.y.check()?;
    if map.x.key == map.y.key {
        return Err(Refusal::question(format!("{}: is there twice", map.x.key)));
    }
    // Files are checked once; then these two keys alone change, before everything is multiplied.
    let (plain, strength) = described.apart();
    let base = document(&plain)?;
    let mapped = [&map.x.key, &map.y.key].iter().any(|key| *key == STRENGTH);
    let strength = if mapped { Vec::new() } else { strength };
    let until = Instant::now() + MOST_TIME;
    let judge = |x: f64, y: f64| -> Found {
        if is_over() || Instant::now() > until {
            return Found::Late;
        }
        let keys = [map.x.assignment(x), map.y.assignment(y)];
        judged(&base, &keys.into_iter().chain(strength.iter().cloned()).collect::<Vec<_>>())
    };
    let share = |at: usize, of: usize| at as f64 / (of - 1) as f64;
    let mut columns: Vec<f64> = (0..COLUMNS).map(|at| map.x.at(share(at, COLUMNS))).collect();
    columns.dedup();
    let mut rows: Vec<f64> = (0..ROWS).map(|at| map.y.at(share(at, ROWS))).collect();
    rows.dedup();
    let column = |&x: &f64| -> Column {
        let found: Vec<(f64, Found)> = rows.iter().map(|&y| (y, judge(x, y))).collect();
        let edges = edges(&map.y, &found, &|y| judge(x, y));
        Column { x, found, edges }
    };
    let judged: Vec<Column> = columns.par_iter().map(column).collect();
    // Where the line is upright, columns do not cross it.
    let row = |(place, &y): (usize, &f64)| -> (f64, Vec<f64>) {
        let found: Vec<_> = judged.iter().map(|column| (column.x, column.found[place].1)).collect();
        (y, edges(&map.x, &found, &|x| judge(x, y)))
    };
    let across: Vec<(f64, Vec<f64>)> = rows.par_iter().enumerate().map(row).collect();
    if is_over() {
        return Err(Refusal::question("nobody waits for it"));
    }
    Ok(drawn(map, &judged, &across))
}

fn judged(base: &Document, set: &[String]) -> Found {
    let document = changed(base.clone(), set);
    let plan = document.and_then(|document| Ok(Experiment::only(&document)?));
    match plan.and_then(|plan| Ok(settles(&plan)?)) {
        Ok(Some(true)) => Found::Settles,
        Ok(Some(false)) => Found::Not,
        Ok(None) => Found::Unknown,
        Err(_) => Found::Refused,
    }
}

/// Where along a range the answer changes between neighbours.
fn edges(range: &Range, found: &[(f64, Found)], judge: &dyn Fn(f64) -> Found) -> Vec<f64> {
    const SIDES: [[Found; 2]; 2] = [[Found::Settles, Found::Not], [Found::Not, Found::Settles]];
    let middle = |low: f64, high: f64| match range.log {
        true => (low * high).sqrt(),
        false => (low + high) / 2.0,
    };
    let edge = |pair: &[(f64, Found)]| {
        let [(mut low, before), (mut high, after)] = *pair else { return None };
        if range.whole || !SIDES.contains(&[before, after]) {
            return None;
        }
        for _ in 0..HALVINGS {
            let between = middle(low, high);
            match judge(between) == before {
                true => low = between,
                false => high = between,
            }
        }
        Some(middle(low, high))
    };
    found.windows(2).filter_map(edge).collect()
}

fn drawn(map: &Map, columns: &[Column], across: &[(f64, Vec<f64>)]) -> Value {
    let points = |wanted: Found| -> Vec<(f64, f64)> {
        let of = |column: &Column| {
            let own = column.found.iter().filter(|(_, found)| *found == wanted);
            own.map(|(y, _)| (column.x, *y)).collect::<Vec<_>>()
        };
        columns.iter().flat_map(of).collect()
    };
    let names = [
        ("settles", Found::Settles, 2),
        ("does not", Found::Not, 1),
        ("not known", Found::Unknown, 7),
        ("refused", Found::Refused, 3),
        ("not looked at, it takes too long", Found::Late, 6),
    ];
    let mut series = Vec::new();
    let mut counts = serde_json::Map::new();
    for (name, wanted, colour) in names {
        let points = points(wanted);
        counts.insert(name.into(), points.len().into());
        if !points.is_empty() {
            series.push(Series::line(name, colour, points).with_mark(Mark::Dots));
        }
    }
    // A column or a row may have several edges: the first of all make one line, and so on.
    let most = |all: &mut dyn Iterator<Item = usize>| all.max().unwrap_or(0);
    let nth = |edges: &[f64], at: usize| edges.get(at).copied().unwrap_or(f64::NAN);
    let line = |points| Series::line("boundary", 0, points).sharing("boundary");
    for at in 0..most(&mut columns.iter().map(|column| column.edges.len())) {
        series.push(line(columns.iter().map(|one| (one.x, nth(&one.edges, at))).collect()));
    }
    for at in 0..most(&mut across.iter().map(|(_, edges)| edges.len())) {
        series.push(line(across.iter().map(|(y, edges)| (nth(edges, at), *y)).collect()));
    }
    if let (Some(x), Some(y)) = (map.x.here, map.y.here) {
        series.push(Series::line("here", 4, vec![(x, y)]).with_mark(Mark::Joined));
    }
    let figure = Figure {
        title: "Where this algorithm settles".into(),
        subtitle: "judged by theory at its own step sizes".into(),
        x: map.x.axis(),
        y: map.y.axis(),
        series,
    };
    let edges = columns.iter().map(|column| json!({ "x": column.x, "edges": column.edges }));
    let edges: Vec<Value> = edges.collect();
    json!({ "svg": figure.to_svg_of(Size::Screen), "counts": counts, "boundary": edges })
}
