//! Figures of runs as they are asked for: curves over a cost, final values over a parameter, a heat
//! map over two, and small multiples of the first two.

mod coincide;
mod map;

use serde_json::Value;

use crate::chart::{self, Band, Over, Pair};
use crate::costs::Costs;
use crate::difference::{Difference, covers, parameters, part};
use crate::figure::{Axis, Figure, Grid, HeatMap, Mark, Series, Size};
use crate::measure::Measurement;
use crate::outcome::Outcome;
use crate::spec::KeyError;

/// Letters above a panel of a grid, at most.
const MOST_LETTERS: usize = 50;

/// What a figure is to show.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Across: step, round, a cost, or a parameter; steps if none.
    pub x: Option<String>,
    /// Upwards: measurements, one panel each; the most informative one if none.
    pub y: Vec<String>,
    /// A parameter, with one panel for each of its values.
    pub panels: Option<String>,
    /// A parameter: a heat map over `x` and this one.
    pub map: Option<String>,
}

/// A run, and what tells it from the others.
pub struct Named<'a> {
    /// How the legend calls it.
    pub label: String,
    /// What it left.
    pub outcome: &'a Outcome,
}

/// One of the pictures that there are.
#[derive(Clone, Debug, PartialEq)]
pub enum Picture {
    /// One panel.
    Figure(Figure),
    /// Several.
    Grid(Grid),
    /// Colours.
    HeatMap(HeatMap),
}

impl Picture {
    /// A self-contained SVG document.
    pub fn to_svg(&self, size: Size) -> String {
        match self {
            Picture::Figure(figure) => figure.to_svg_of(size),
            Picture::Grid(grid) => grid.to_svg(size),
            Picture::HeatMap(map) => map.to_svg(size),
        }
    }
}

/// Draws runs. An error names the field of the question.
pub fn picture(runs: &[Named<'_>], question: &Question) -> Result<Picture, KeyError> {
    let drawing = Drawing::of(runs);
    let measured = drawing.measured(&question.y)?;
    if let Some(upwards) = &question.map {
        let across = question.x.as_deref().ok_or_else(|| {
            KeyError::new("x", "is missing; a heat map needs a parameter for each direction")
        })?;
        let [measurement] = measured[..] else {
            let found = question.y.join(",");
            let why = format!("found {found}; a heat map shows one measurement: name one");
            return Err(KeyError::new("y", why));
        };
        return drawing.heat_map(across, upwards, measurement).map(Picture::HeatMap);
    }
    let split =
        question.panels.as_deref().map(|key| drawing.parameter("panels", key)).transpose()?;
    let groups = match split {
        Some(parameter) => drawing.groups(parameter),
        None => vec![(String::new(), (0..runs.len()).collect())],
    };
    let mut panels = Vec::new();
    for (value, group) in &groups {
        let of = |&one| drawing.panel(question.x.as_deref(), one, split, group);
        let row = measured.iter().map(of).collect::<Result<Vec<Figure>, KeyError>>()?;
        panels.extend(row);
        if !value.is_empty() {
            let row = panels.len() - measured.len();
            panels[row..].iter_mut().for_each(|p| p.y.label = format!("{value}: {}", p.y.label));
        }
    }
    shorten(&mut panels, &measured);
    coincide::join(&mut panels);
    if panels.len() == 1 {
        return Ok(Picture::Figure(panels.remove(0)));
    }
    let axes = (0..panels.len()).map(|panel| panel % measured.len()).collect();
    let Figure { title, subtitle, .. } = panels[0].clone();
    Ok(Picture::Grid(Grid { title, subtitle, panels, axes }))
}

/// Puts the names of measurements for the words above panels, where these would run into the next
/// panel: above all of them or none.
fn shorten(panels: &mut [Figure], measured: &[Measurement]) {
    if panels.len() > 1 && panels.iter().any(|panel| panel.y.label.chars().count() > MOST_LETTERS) {
        for (panel, measurement) in panels.iter_mut().zip(measured.iter().cycle()) {
            let words = chart::axis(*measurement).label;
            panel.y.label = panel.y.label.replace(&words, measurement.name());
        }
    }
}

/// The measurements that a question is about.
pub fn measurements(runs: &[Named<'_>], question: &Question) -> Result<Vec<Measurement>, KeyError> {
    Drawing::of(runs).measured(&question.y)
}

/// Runs with what differs between them.
struct Drawing<'a> {
    runs: &'a [Named<'a>],
    outcomes: Vec<&'a Outcome>,
    /// The parameters that differ.
    differing: Vec<Difference>,
    /// Those of them that runs are called by: not what follows from others that were swept.
    telling: Vec<Difference>,
}

impl<'a> Drawing<'a> {
    fn of(runs: &'a [Named<'a>]) -> Self {
        let outcomes: Vec<&Outcome> = runs.iter().map(|run| run.outcome).collect();
        let differs = |one: &Difference| one.values.windows(2).any(|pair| pair[0] != pair[1]);
        let differing: Vec<Difference> =
            parameters(&outcomes).into_iter().filter(differs).collect();
        let is_set = |one: &&Difference| {
            outcomes.iter().any(|run| run.set.keys().any(|key| covers(key, &one.key)))
        };
        let swept: Vec<&Difference> = differing.iter().filter(is_set).collect();
        let point = |run: usize| swept.iter().map(|one| &one.values[run]).collect::<Vec<_>>();
        let points: Vec<_> = (0..runs.len()).map(point).collect();
        let within_points = |one: &&Difference| {
            let first = |run: usize| points.iter().position(|point| *point == points[run]);
            (0..runs.len()).any(|run| one.values[run] != one.values[first(run).unwrap_or(run)])
        };
        let telling = differing.iter().filter(|one| is_set(one) || within_points(one));
        let telling = telling.cloned().collect();
        Drawing { runs, outcomes, differing, telling }
    }

    /// The measurements by their names, which all runs must have.
    fn measured(&self, names: &[String]) -> Result<Vec<Measurement>, KeyError> {
        let common = |column: &&Measurement| {
            let has = |outcome: &&Outcome| outcome.curve.columns.contains(column);
            !column.is_one_of_many() && self.outcomes.iter().all(has)
        };
        let columns = self.outcomes.first().map_or(&[][..], |first| &first.curve.columns);
        let known: Vec<Measurement> = columns.iter().filter(common).copied().collect();
        let nothing =
            || KeyError::new("y", "these runs have no measurement in common; choose others");
        if names.is_empty() {
            return chart::main_measurement(&self.outcomes)
                .map(|one| vec![one])
                .ok_or_else(nothing);
        }
        let named = |name: &String| {
            known.iter().copied().find(|one| one.name() == name).ok_or_else(|| {
                let known: Vec<&str> = known.iter().map(|one| one.name()).collect();
                let why = format!("found \"{name}\"; all runs measured: {}", known.join(", "));
                KeyError::new("y", why)
            })
        };
        names.iter().map(named).collect()
    }

    /// A parameter that differs, by its dotted key or by the last part of it.
    fn parameter(&self, field: &str, name: &str) -> Result<&Difference, KeyError> {
        let last = |one: &&Difference| one.key.rsplit('.').next() == Some(name);
        let whole = self.differing.iter().find(|one| one.key == name);
        let short: Vec<&Difference> = self.differing.iter().filter(last).collect();
        match (whole, &short[..]) {
            (Some(found), _) => Ok(found),
            (None, [only]) => Ok(only),
            _ => {
                let keys: Vec<&str> = self.differing.iter().map(|one| one.key.as_str()).collect();
                let differing = match keys.is_empty() {
                    true => "nothing".into(),
                    false => keys.join(", "),
                };
                let costs = match field {
                    "x" => format!("step, round, time, {}; or what ", Costs::NAMES.join(", ")),
                    _ => "what ".into(),
                };
                let why = format!(
                    "found \"{name}\"; allowed: {costs}differs between these runs: {differing}"
                );
                Err(KeyError::new(field, why))
            }
        }
    }

    /// Runs by the values of a parameter, in their order, with words for the value.
    fn groups(&self, parameter: &Difference) -> Vec<(String, Vec<usize>)> {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for run in sorted(parameter) {
            let value = parameter.values[run].clone().unwrap_or(Value::Null);
            let words = part(&parameter.key, &value).unwrap_or_default();
            match groups.iter_mut().find(|(known, _)| *known == words) {
                Some((_, group)) => group.push(run),
                None => groups.push((words, vec![run])),
            }
        }
        groups
    }

    /// What tells a run from the others beside some parameters.
    fn label(&self, run: usize, beside: &[&str]) -> String {
        let shown = self.telling.iter().filter(|one| !beside.contains(&one.key.as_str()));
        let words = shown.filter_map(|one| part(&one.key, one.values[run].as_ref()?));
        match words.collect::<Vec<_>>().join(", ") {
            nothing if nothing.is_empty() => "simulated".into(),
            words => words,
        }
    }

    fn title(&self) -> String {
        let name = &self.outcomes[0].name;
        match self.outcomes.iter().all(|outcome| outcome.name == *name) {
            true => name.clone(),
            false => "Runs compared".into(),
        }
    }

    fn subtitle(&self, spread: Option<&str>) -> String {
        let first = self.outcomes[0];
        let same = |of: fn(&Outcome) -> u64| self.outcomes.iter().all(|one| of(one) == of(first));
        let mut parts = Vec::new();
        if same(|one| one.clients as u64) {
            parts.push(format!("{} clients", first.clients));
        }
        if same(|one| one.repetitions) {
            parts.push(format!("{} repetitions", first.repetitions));
        }
        let about = parts.join(", ");
        match spread {
            Some(spread) => format!("{about}; {spread}: two standard errors of the mean"),
            None => about,
        }
    }

    fn panel(
        &self,
        x: Option<&str>,
        measurement: Measurement,
        split: Option<&Difference>,
        group: &[usize],
    ) -> Result<Figure, KeyError> {
        let over = x.map_or(Some(Over::Step), Over::named);
        let Some(over) = over else {
            return self.finals(x.unwrap_or_default(), measurement, split, group);
        };
        if let Some(&run) = group.iter().find(|&&run| !over.is_known(self.outcomes[run])) {
            let why = "found time, but the seconds of its records are not in the store: it was \
                       recorded by an older version";
            return Err(KeyError::new("x", format!("{why} ({})", self.runs[run].label)));
        }
        let pair = |&run: &usize| Pair {
            label: match split {
                Some(split) => self.label(run, &[&split.key]),
                None => self.runs[run].label.clone(),
            },
            run: Some(self.outcomes[run]),
            exact: self.outcomes[run].exact(),
        };
        let pairs: Vec<Pair<'_>> = group.iter().map(pair).collect();
        let banded = pairs.len() <= chart::MOST_BANDS;
        let (title, subtitle) = (self.title(), self.subtitle(banded.then_some("band")));
        // What the runs of one panel have in common need not be so in the next.
        let draw = if split.is_some() { chart::named } else { chart::banded };
        Ok(draw(&title, &subtitle, over, measurement, &pairs, Band::StandardErrors))
    }

    /// Final values over a parameter, one series for each setting of the others.
    fn finals(
        &self,
        x: &str,
        measurement: Measurement,
        split: Option<&Difference>,
        group: &[usize],
    ) -> Result<Figure, KeyError> {
        let across = self.parameter("x", x)?;
        let places = numbers(across)?;
        let mut beside = vec![across.key.as_str()];
        beside.extend(split.map(|split| split.key.as_str()));
        let mut labels: Vec<String> = Vec::new();
        for run in 0..self.runs.len() {
            let label = self.label(run, &beside);
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        let mut series = Vec::new();
        for (colour, label) in labels.iter().enumerate() {
            let mut own: Vec<usize> =
                group.iter().copied().filter(|&run| self.label(run, &beside) == *label).collect();
            own.sort_by(|&a, &b| places[a].total_cmp(&places[b]));
            let ends = own.iter().filter_map(|&run| {
                let outcome = self.outcomes[run];
                let end = outcome.curve.last(measurement)?;
                let error = 2.0 * end.standard_error(outcome.repetitions).unwrap_or(0.0);
                Some(((places[run], end.mean), (end.mean - error, end.mean + error)))
            });
            let (points, bars): (Vec<_>, Vec<_>) = ends.unzip();
            let marked =
                Series::line(label, colour, points).with_mark(Mark::Joined).with_band(bars);
            series.push(marked);
            let exact = own.iter().filter_map(|&run| {
                let exact = self.outcomes[run].exact()?.curve.last(measurement)?;
                Some((places[run], exact.mean))
            });
            let exact: Vec<(f64, f64)> = exact.collect();
            if !exact.is_empty() {
                series.push(chart::exact_series(label, colour, exact));
            }
        }
        let mut y = chart::axis(measurement);
        y.label = format!("final {}", y.label);
        let (title, subtitle) = (self.title(), self.subtitle(Some("bars")));
        Ok(Figure { title, subtitle, x: parameter_axis(&across.key, &places), y, series })
    }
}

/// A parameter as numbers, one for each run.
fn numbers(parameter: &Difference) -> Result<Vec<f64>, KeyError> {
    let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_f64);
    let found: Option<Vec<f64>> = parameter.values.iter().map(number).collect();
    found.ok_or_else(|| {
        let why = "is no number in every run; use it for panels, or leave it to the legend";
        KeyError::new("x", format!("{} {why}", parameter.key))
    })
}

/// Runs in the order of a parameter where it is a number, else in their own.
fn sorted(parameter: &Difference) -> Vec<usize> {
    let mut runs: Vec<usize> = (0..parameter.values.len()).collect();
    if let Ok(numbers) = numbers(parameter) {
        runs.sort_by(|&a, &b| numbers[a].total_cmp(&numbers[b]));
    }
    runs
}

/// Parameters over more than a decade are placed by their logarithms.
fn parameter_axis(key: &str, places: &[f64]) -> Axis {
    let low = places.iter().copied().fold(f64::INFINITY, f64::min);
    let high = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low > 0.0 && high > 10.0 * low { Axis::log(key) } else { Axis::linear(key) }
}
