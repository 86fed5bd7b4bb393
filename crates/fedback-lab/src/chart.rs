//! Outcomes as figures: one colour per run, its mean as a line with a band of two standard errors,
//! its exact expectation dashed: where theory holds, the dashes stay in the band.

use crate::figure::{Axis, Figure, Mark, Series};
use crate::measure::Measurement;
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
    [
        Measurement::Distance,
        Measurement::Risk,
        Measurement::Consensus,
        Measurement::Accuracy,
        Measurement::Auc,
    ]
    .into_iter()
    .find(|measurement| {
        let has = |outcome: &&Outcome| outcome.curve.columns.contains(measurement);
        !outcomes.is_empty() && outcomes.iter().all(has)
    })
}

/// What the band around a mean shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// Two standard errors of the mean: where an expectation should lie.
    StandardErrors,
    /// One standard deviation: where single runs lie. Of the logarithm where the axis is logarithmic,
    /// as if they were log-normal, since a mean less its deviation may well be negative.
    StandardDeviation,
}

/// A figure of one measurement over local steps, with bands of two standard errors.
pub fn chart(title: &str, subtitle: &str, measurement: Measurement, pairs: &[Pair<'_>]) -> Figure {
    banded(title, subtitle, measurement, pairs, Band::StandardErrors)
}

/// A figure of one measurement over local steps.
pub fn banded(
    title: &str,
    subtitle: &str,
    measurement: Measurement,
    pairs: &[Pair<'_>],
    band: Band,
) -> Figure {
    let label = match measurement {
        Measurement::Distance => "squared distance to the stable point",
        Measurement::Risk => "performative risk",
        Measurement::Consensus => "consensus error before aggregation",
        Measurement::Accuracy => "accuracy",
        Measurement::Auc => "area under the ROC curve",
        Measurement::ClientRisk(_) => "risk of a client",
    };
    let y = if is_log(measurement) { Axis::log(label) } else { Axis::linear(label) };
    let series = pairs.iter().enumerate().flat_map(|(colour, pair)| {
        let simulated =
            pair.run.map(|run| simulated((&pair.label, colour), measurement, run, band));
        let exact = pair.exact.map(|exact| {
            let name = match pair.run {
                Some(_) => format!("{}, exact", pair.label),
                None => pair.label.clone(),
            };
            let mark = if pair.run.is_some() { Mark::Dashed } else { Mark::Line };
            Series::line(name, colour, means(measurement, exact)).with_mark(mark)
        });
        simulated.into_iter().chain(exact)
    });
    Figure {
        title: title.into(),
        subtitle: subtitle.into(),
        x: Axis::linear("local step t"),
        y,
        series: series.collect(),
    }
}

/// Whether a measurement falls over orders of magnitude.
fn is_log(measurement: Measurement) -> bool {
    matches!(measurement, Measurement::Distance | Measurement::Consensus)
}

fn means(measurement: Measurement, outcome: &Outcome) -> Vec<(f64, f64)> {
    let column = outcome.curve.column(measurement);
    column.into_iter().map(|(step, statistic)| (step as f64, statistic.mean)).collect()
}

fn simulated(
    (label, colour): (&str, usize),
    measurement: Measurement,
    run: &Outcome,
    band: Band,
) -> Series {
    let series = Series::line(label, colour, means(measurement, run));
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
