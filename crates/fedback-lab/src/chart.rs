//! Outcomes as figures: one colour per run, its mean as a line with a band of two standard errors,
//! its exact expectation dashed: where theory holds, the dashes stay in the band.

use crate::costs::Costs;
use crate::figure::{Axis, Figure, Mark, Series};
use crate::measure::{Measurement, Part};
use crate::outcome::Outcome;

/// A run and, where it exists, its exact curve.
pub struct Pair<'a> {
    /// How the legend calls it.
    pub label: String,
    /// What was simulated.
    pub run: Option<&'a Outcome>,
    /// What mathematics says.
    pub exact: Option<&'a Outcome>,
}

/// The most informative measurement that every run has.
pub fn main_measurement(outcomes: &[&Outcome]) -> Option<Measurement> {
    most_informative(|measurement| {
        let has = |outcome: &&Outcome| outcome.curve.columns.contains(&measurement);
        !outcomes.is_empty() && outcomes.iter().all(has)
    })
}

/// The most informative measurement of those that there are.
pub fn most_informative(there: impl Fn(Measurement) -> bool) -> Option<Measurement> {
    [
        Measurement::Distance,
        Measurement::Risk,
        Measurement::Consensus,
        Measurement::Accuracy,
        Measurement::Auc,
    ]
    .into_iter()
    .find(|measurement| there(*measurement))
}

/// What a band of two standard errors is called beneath a title.
pub const BAND: &str = "band: two standard errors of the mean";

/// What the band around a mean shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// Two standard errors of the mean: where an expectation should lie.
    StandardErrors,
    /// One standard deviation: where single runs lie. Of the logarithm where the axis is logarithmic,
    /// as if they were log-normal, since a mean less its deviation may well be negative.
    StandardDeviation,
}

/// More bands than this hide each other, and are left out.
pub const MOST_BANDS: usize = 8;

/// What curves are drawn over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Local steps.
    Step,
    /// Rounds.
    Round,
    /// A count of [`Costs`], by its place.
    Cost(usize),
    /// Seconds of work.
    Time,
}

impl Over {
    /// What a word asks for.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "step" => Some(Over::Step),
            "round" => Some(Over::Round),
            "time" => Some(Over::Time),
            _ => Costs::NAMES.iter().position(|name| *name == word).map(Over::Cost),
        }
    }

    fn axis(self) -> Axis {
        match self {
            Over::Step => Axis::linear("local step t"),
            Over::Round => Axis::linear("round"),
            Over::Cost(place) => Axis::linear(Costs::NAMES[place].replace('_', " ")),
            Over::Time => Axis::linear("time (seconds of work)"),
        }
    }

    /// Whether all records of a run can be drawn over it.
    pub(crate) fn is_known(self, outcome: &Outcome) -> bool {
        self.of(outcome).iter().all(|place| place.is_finite())
    }

    /// Where the records of an outcome lie; nowhere where that is not known.
    fn of(self, outcome: &Outcome) -> Vec<f64> {
        let points = outcome.curve.points.iter();
        match self {
            Over::Step => points.map(|point| point.step as f64).collect(),
            Over::Round => points.map(|point| point.round as f64).collect(),
            Over::Cost(place) => points.map(|point| point.costs.values()[place]).collect(),
            Over::Time => outcome.times.clone(),
        }
    }
}

/// The axis of a measurement.
pub fn axis(measurement: Measurement) -> Axis {
    let label = match measurement {
        Measurement::Distance => "squared distance to the stable point",
        Measurement::Risk => "performative risk",
        Measurement::Consensus => "consensus error before aggregation",
        Measurement::Accuracy => "accuracy",
        Measurement::Auc => "area under the ROC curve",
        Measurement::Retained => "share of people who stay",
        Measurement::BaseRisk => "risk if nobody had left",
        Measurement::ClientRisk(_) => "risk of a client",
        Measurement::Movement => "movement since the record before",
        Measurement::HoldoutRisk => "performative risk of held-out rows",
        Measurement::HoldoutAccuracy => "accuracy on held-out rows",
        Measurement::HoldoutAuc => "area under the ROC curve of held-out rows",
        Measurement::HoldoutClientRisk(_) => "risk of a client's held-out rows",
        Measurement::Group { .. } => "of a group",
        Measurement::Gap { part, rate } => {
            let gap = rate.gap_name(Part::Training).replace('_', " ");
            let rows = if part == Part::Holdout { " of held-out rows" } else { "" };
            return Axis::linear(format!("{gap} between groups{rows}"));
        }
    };
    if is_log(measurement) { Axis::log(label) } else { Axis::linear(label) }
}

/// A figure of one measurement over local steps, with bands of two standard errors.
pub fn chart(title: &str, subtitle: &str, measurement: Measurement, pairs: &[Pair<'_>]) -> Figure {
    banded(title, subtitle, Over::Step, measurement, pairs, Band::StandardErrors)
}

/// A figure of one measurement. What all names have in common is said in the subtitle.
pub fn banded(
    title: &str,
    subtitle: &str,
    over: Over,
    measurement: Measurement,
    pairs: &[Pair<'_>],
    band: Band,
) -> Figure {
    let labels: Vec<&str> = pairs.iter().map(|pair| pair.label.as_str()).collect();
    let (common, labels) = apart(&labels);
    let subtitle: Vec<&str> =
        [subtitle, &common].into_iter().filter(|part| !part.is_empty()).collect();
    let own = pairs.iter().zip(labels).map(|(pair, label)| Pair { label, ..*pair });
    let own: Vec<Pair<'_>> = own.collect();
    named(title, &subtitle.join("; "), over, measurement, &own, band)
}

/// The same with names as they are.
pub(crate) fn named(
    title: &str,
    subtitle: &str,
    over: Over,
    measurement: Measurement,
    pairs: &[Pair<'_>],
    band: Band,
) -> Figure {
    let series = pairs.iter().enumerate().flat_map(|(colour, pair)| {
        let label = pair.label.as_str();
        let simulated = pair.run.map(|run| {
            let series = Series::line(label, colour, means(over, measurement, run));
            match pairs.len() > MOST_BANDS {
                true => series,
                false => simulated(series, measurement, run, band),
            }
        });
        // Mathematics takes no time of the run.
        let exact = pair.exact.filter(|_| over != Over::Time).map(|exact| {
            let points = means(over, measurement, exact);
            match pair.run {
                Some(_) => exact_series(label, colour, points),
                None => Series::line(label, colour, points),
            }
        });
        simulated.into_iter().chain(exact)
    });
    Figure {
        title: title.into(),
        subtitle: subtitle.into(),
        x: over.axis(),
        y: axis(measurement),
        series: series.collect(),
    }
}

/// What is exact of a series, beside it; all of them share an entry of the legend.
pub(crate) fn exact_series(label: &str, colour: usize, points: Vec<(f64, f64)>) -> Series {
    let series = Series::line(format!("{label}, exact"), colour, points);
    series.with_mark(Mark::Dashed).sharing("exact")
}

/// The parts that all names have in common, and the names without them. Names that would have
/// nothing left stay whole.
fn apart(labels: &[&str]) -> (String, Vec<String>) {
    let split = |label: &&str| -> Vec<String> { label.split(", ").map(String::from).collect() };
    let parts: Vec<Vec<String>> = labels.iter().map(split).collect();
    let in_all = |part: &String| parts.iter().all(|others| others.contains(part));
    let (common, own): (Vec<&String>, Vec<&String>) =
        parts.iter().flatten().partition(|part| in_all(part));
    let first = parts.first().map_or(0, |first| first.iter().filter(|part| in_all(part)).count());
    let named = |parts: &Vec<String>| parts.iter().any(|part| own.contains(&part));
    if labels.len() < 2 || !parts.iter().all(named) {
        return (String::new(), labels.iter().map(|label| label.to_string()).collect());
    }
    let rest = |parts: &Vec<String>| {
        let own: Vec<&str> =
            parts.iter().filter(|part| !in_all(part)).map(String::as_str).collect();
        own.join(", ")
    };
    let common: Vec<&str> = common.into_iter().take(first).map(String::as_str).collect();
    (common.join(", "), parts.iter().map(rest).collect())
}

/// Whether a measurement falls over orders of magnitude.
pub(crate) fn is_log(measurement: Measurement) -> bool {
    matches!(measurement, Measurement::Distance | Measurement::Consensus | Measurement::Movement)
}

fn means(over: Over, measurement: Measurement, outcome: &Outcome) -> Vec<(f64, f64)> {
    let column = outcome.curve.column(measurement).into_iter();
    over.of(outcome)
        .into_iter()
        .zip(column)
        .map(|(place, (_, statistic))| (place, statistic.mean))
        .collect()
}

fn simulated(series: Series, measurement: Measurement, run: &Outcome, band: Band) -> Series {
    if run.repetitions < 2 {
        return series;
    }
    let width = match band {
        Band::StandardErrors => 2.0 / (run.repetitions as f64).sqrt(),
        Band::StandardDeviation => 1.0,
    };
    let around = run.curve.column(measurement).into_iter().map(|(_, statistic)| {
        let (mean, sd) = (statistic.mean, statistic.sd.unwrap_or(0.0));
        if band == Band::StandardDeviation && is_log(measurement) && mean > 0.0 {
            let variation = sd / mean;
            let factor = libm::exp(libm::sqrt(libm::log1p(variation * variation)));
            return (mean / factor, mean * factor);
        }
        (mean - width * sd, mean + width * sd)
    });
    let around = around.collect();
    series.with_band(around)
}

/// How a run of a sweep is called in tables and legends.
pub fn label_of(name: &str, set: &serde_json::Map<String, serde_json::Value>) -> String {
    if set.is_empty() {
        return name.into();
    }
    fn flat(key: &str, value: &serde_json::Value) -> Vec<String> {
        let short = key.rsplit('.').next().unwrap_or(key);
        match value {
            serde_json::Value::Object(map) => {
                map.iter().flat_map(|(key, value)| flat(key, value)).collect()
            }
            // Schemes and kinds speak for themselves.
            serde_json::Value::String(text) if matches!(short, "scheme" | "kind") => {
                vec![text.clone()]
            }
            serde_json::Value::String(text) => vec![format!("{short} {text}")],
            other => vec![format!("{short} {other}")],
        }
    }
    set.iter().flat_map(|(key, value)| flat(key, value)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn what_all_names_have_in_common_is_said_once() {
        let (common, own) =
            apart(&["full, average 10.0, cohort 5", "full, average 10.0, cohort 9"]);
        assert_eq!(
            (common.as_str(), own),
            ("full, average 10.0", vec!["cohort 5".into(), "cohort 9".into()])
        );
        for whole in [&["full", "full, cohort 5"][..], &["full"], &["a", "b"]] {
            assert_eq!(
                apart(whole),
                (String::new(), whole.iter().map(|s| s.to_string()).collect())
            );
        }
    }
}
