//! One panel of a figure: its runs, their exact curves, and the questions that verdicts ask of
//! them.

use fedback_lab::chart::{self, Band, Over, Pair};
use fedback_lab::exact::exact;
use fedback_lab::figure::{Axis, Figure};
use fedback_lab::measure::Measurement;
use fedback_lab::outcome::Outcome;
use fedback_lab::plan::Plan;
use fedback_lab::spec::Start;

/// A run with its exact counterpart.
pub struct Studied {
    /// What was run.
    pub plan: Plan,
    /// What was simulated, and what is expected where the problem is affine.
    pub run: Outcome,
}

/// One panel.
pub struct Study {
    /// The name of its spec.
    pub name: &'static str,
    /// Its runs.
    pub points: Vec<Studied>,
}

impl Study {
    /// What tells this panel from the other one.
    pub fn caption(&self) -> String {
        match self.name.split_once('-') {
            Some((_, rest)) if rest.ends_with("with-replacement") => "scheme I".into(),
            Some((_, rest)) if rest.ends_with("without-replacement") => "scheme II".into(),
            Some((_, "mean")) => "in the means".into(),
            Some((_, "sensitivity")) => "in the sensitivities".into(),
            _ => self.name.replace('-', " "),
        }
    }

    /// A number of each run.
    pub fn each(&self, of: impl Fn(&Studied) -> f64) -> Vec<f64> {
        self.points.iter().map(of).collect()
    }

    /// A number of each run, by its label.
    pub fn numbers(&self, name: &str, of: impl Fn(&Studied) -> f64) -> Vec<(String, f64)> {
        self.points.iter().map(|run| (format!("{}: {name}", run.label()), of(run))).collect()
    }

    /// The runs grouped by batch size, in their order.
    pub fn by_batch(&self) -> Vec<&[Studied]> {
        self.points.chunk_by(|a, b| a.plan.protocol.batch == b.plan.protocol.batch).collect()
    }

    /// The chart of all runs.
    pub fn figure(&self, title: &str, measurement: Measurement) -> Figure {
        self.chart(&self.points, title, measurement)
    }

    /// A chart of some runs, over the local steps that all of them make.
    pub fn chart(&self, points: &[Studied], title: &str, measurement: Measurement) -> Figure {
        let pairs: Vec<Pair<'_>> = points
            .iter()
            .map(|point| Pair {
                label: point.label(),
                run: Some(&point.run),
                exact: point.run.exact(),
            })
            .collect();
        let repetitions = points.first().map_or(0, |point| point.run.repetitions);
        // Where there is an expectation to compare with, its errors; else, as the paper, the
        // spread.
        let (band, words) = match points.iter().any(|point| point.run.exact().is_some()) {
            true => (Band::StandardErrors, "± two standard errors; dashed: exact"),
            false => (Band::StandardDeviation, "and one standard deviation around it"),
        };
        let subtitle = format!("mean of {repetitions} runs {words}");
        let mut figure = chart::banded(title, &subtitle, Over::Step, measurement, &pairs, band);
        if band == Band::StandardDeviation {
            // Long runs on rows: all that is to be seen of the loss happens in the first percent.
            figure.x = Axis::log("local step t");
        }
        let common = points.iter().map(Studied::last_step).min().unwrap_or(0) as f64;
        for series in &mut figure.series {
            let kept = series.points.iter().take_while(|(step, _)| *step <= common).count();
            series.points.truncate(kept);
            series.band.iter_mut().for_each(|band| band.truncate(kept));
        }
        figure
    }
}

impl Studied {
    /// How a legend calls it.
    pub fn label(&self) -> String {
        chart::label_of(&self.run.name, &self.run.set)
    }

    /// What decides: exact expectations, and the mean of the runs where there are none.
    fn decisive(&self) -> &Outcome {
        self.run.exact().unwrap_or(&self.run)
    }

    /// The mean square distance, step by step.
    pub fn distances(&self) -> Vec<(u64, f64)> {
        let column = self.decisive().curve.column(Measurement::Distance);
        column.into_iter().map(|(step, statistic)| (step, statistic.mean)).collect()
    }

    /// The last step recorded.
    pub fn last_step(&self) -> u64 {
        self.decisive().curve.points.last().map_or(0, |point| point.step)
    }

    /// The mean square distance at the end.
    pub fn last_distance(&self) -> f64 {
        self.distances().last().map_or(f64::NAN, |(_, distance)| *distance)
    }

    /// The root mean square distance at the end, in units of the start's.
    pub fn left_at_the_end(&self) -> f64 {
        (self.last_distance() / self.distances()[0].1).sqrt()
    }

    /// The local step from which on the root mean square distance is below a tenth of the
    /// start's; infinite where it is not by the end.
    pub fn steps_to_a_tenth(&self) -> f64 {
        stays_below(&self.distances(), 0.01)
    }

    /// The same for a run that starts on the other side of the stable point, equally far away.
    pub fn mirrored_steps_to_a_tenth(&self) -> f64 {
        let Some(stable) = &self.plan.stable_point else { return f64::NAN };
        let start = self.plan.start.iter().zip(stable).map(|(start, s)| 2.0 * s - start).collect();
        let mirrored = self.plan.with(|spec| {
            spec.algorithm.rounds_mut().start = Start::List(start);
        });
        mirrored.and_then(|plan| exact(&plan)).map_or(f64::INFINITY, |mirrored| {
            let column = mirrored.curve.column(Measurement::Distance);
            let distances: Vec<(u64, f64)> =
                column.into_iter().map(|(step, statistic)| (step, statistic.mean)).collect();
            stays_below(&distances, 0.01)
        })
    }

    /// The squared distance of every repetition at its end.
    pub fn final_distances(&self) -> Vec<f64> {
        let Some(stable) = &self.plan.stable_point else { return Vec::new() };
        let distance = |theta: &Vec<f64>| {
            theta.iter().zip(stable).map(|(t, s)| (t - s) * (t - s)).sum::<f64>()
        };
        self.run.final_theta().iter().flatten().map(distance).collect()
    }
}

/// The step from which on the distance stays below a share of the first one. A path that merely
/// crosses the stable point on its way to the other side has not arrived.
fn stays_below(distances: &[(u64, f64)], share: f64) -> f64 {
    let first = distances.first().map_or(f64::NAN, |(_, distance)| *distance);
    let above = distances.iter().rposition(|(_, distance)| *distance > share * first);
    let arrived = above.map_or(distances.first(), |above| distances.get(above + 1));
    arrived.map_or(f64::INFINITY, |(step, _)| *step as f64)
}
