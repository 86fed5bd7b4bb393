//! "Performative Federated Learning", redrawn and judged.
//!
//! Every figure is a spec under `experiments/paper/`, run and computed exactly; every claim that
//! the paper makes of it is decided by the numbers of that very run. No verdict is written down
//! anywhere: change a spec and it changes.

mod credit;
mod local_steps;
mod theory;
mod verdicts;

use fedback_lab::error::Error;
use fedback_lab::event::Ending;
use fedback_lab::exact::exact;
use fedback_lab::experiment::Experiment;
use fedback_lab::measure::Measurement;
use fedback_lab::outcome::Outcome;
use fedback_lab::plan::Plan;
use fedback_lab::spec::Document;

use crate::report::{Claim, Panel, Section};
use crate::study::{Studied, Study};

/// A figure of the paper.
pub struct PaperFigure {
    /// How the command line calls it.
    pub id: &'static str,
    title: &'static str,
    text: &'static str,
    /// File names and contents of its specs, one panel each.
    specs: &'static [(&'static str, &'static str)],
    panels: fn(&[Study], &str) -> Vec<Panel>,
    claims: fn(&[Study]) -> Vec<Claim>,
    /// Rounds and rounds between records of a quick reproduction, where repetitions alone do not
    /// make it quick.
    quick_rounds: Option<(u64, u64)>,
}

/// One panel a spec: the distance to the stable point.
fn distances(studies: &[Study], title: &str) -> Vec<Panel> {
    let panel = |study: &Study| {
        let title = match studies.len() {
            1 => title.to_string(),
            _ => format!("{title}: {}", study.caption()),
        };
        (study.name.to_string(), study.figure(&title, Measurement::Distance))
    };
    studies.iter().map(panel).collect()
}

macro_rules! spec {
    ($name:literal) => {
        ($name, include_str!(concat!("../specs/", $name, ".toml")))
    };
}

/// The figures, in the order of the paper.
pub const FIGURES: &[PaperFigure] = &[
    PaperFigure {
        id: "convergence",
        title: "Convergence under the three schemes",
        text: "The Gaussian problem with full participation, K clients with replacement (scheme I) \
               and K without (scheme II).",
        specs: &[spec!("convergence")],
        panels: distances,
        claims: verdicts::convergence,
        quick_rounds: None,
    },
    PaperFigure {
        id: "local-steps",
        title: "Impact of the number of local steps E",
        text: "E = 1, 5, 10, 20, 50 at K = 20, over the same number of local steps.",
        specs: &[spec!("local-steps-with-replacement"), spec!("local-steps-without-replacement")],
        panels: distances,
        claims: local_steps::claims,
        quick_rounds: None,
    },
    PaperFigure {
        id: "cohort",
        title: "Impact of the cohort size K",
        text: "K = 5 to 25 at E = 5; without replacement K = 25 is full participation.",
        specs: &[spec!("cohort-with-replacement"), spec!("cohort-without-replacement")],
        panels: distances,
        claims: verdicts::cohort,
        quick_rounds: None,
    },
    PaperFigure {
        id: "heterogeneity",
        title: "Heterogeneity in the data and in the reaction",
        text: "More variance over clients in the means, and in the sensitivities.",
        specs: &[spec!("heterogeneity-mean"), spec!("heterogeneity-sensitivity")],
        panels: distances,
        claims: verdicts::heterogeneity,
        quick_rounds: None,
    },
    PaperFigure {
        id: "constant-step",
        title: "A constant learning rate",
        text: "Steps of 0.02 at E = 10, beside E = 1 and a decaying step.",
        specs: &[spec!("constant-step")],
        panels: distances,
        claims: verdicts::constant_step,
        quick_rounds: None,
    },
    PaperFigure {
        id: "unequal-weights",
        title: "Scheme II with unequal weights",
        text: "Var(p) = 0.01 and steps of 5/(t + 10000): the printed rule, and what else could be \
               done at the same steps.",
        specs: &[spec!("unequal-weights")],
        panels: distances,
        claims: verdicts::unequal_weights,
        quick_rounds: None,
    },
    PaperFigure {
        id: "theory",
        title: "Measured against theory",
        text: "What is simulated, what is expected exactly, the law of large t, and the bounds of \
               theorems 3.1 to 3.3 as printed and as corrected.",
        specs: &[spec!("convergence")],
        panels: theory::panels,
        claims: theory::claims,
        quick_rounds: None,
    },
    PaperFigure {
        id: "credit",
        title: "Credit scores",
        text: "Applicants who change what a scoring rule looks at: a logistic model for ten \
               clients, five runs, batches of 1, 4 and 16, from zeros and from the stable point.",
        specs: &[spec!("credit"), spec!("credit-from-stable")],
        panels: credit::panels,
        claims: credit::claims,
        quick_rounds: Some((2_000, 40)),
    },
];

/// The figure of that name.
pub fn figure(id: &str) -> Result<&'static PaperFigure, Error> {
    FIGURES.iter().find(|figure| figure.id == id).ok_or_else(|| {
        let known: Vec<&str> = FIGURES.iter().map(|figure| figure.id).collect();
        Error::input(format!("figure \"{id}\""), format!("unknown; allowed: {}", known.join(", ")))
    })
}

/// Repetitions of a quick reproduction; curves and verdicts by exact moments are as ever.
const QUICK_REPETITIONS: u64 = 10;

impl PaperFigure {
    /// Why it cannot be made, where it cannot.
    pub fn missing(&self) -> Option<&'static str> {
        let needs_credit = self.specs.iter().any(|(_, text)| text.contains("source = \"credit\""));
        (needs_credit && !fedback_lab::credit::is_there())
            .then_some("its data are not here; get them with `fedback data credit`")
    }

    /// The plans of each panel, with another seed where one is given.
    pub fn plans(
        &self,
        quick: bool,
        seed: Option<u64>,
    ) -> Result<Vec<(&'static str, Vec<Plan>)>, Error> {
        self.specs
            .iter()
            .map(|(name, text)| {
                let mut document =
                    Document::parse(text, &format!("experiments/paper/{name}.toml"))?;
                if let (true, Some((rounds, every))) = (quick, self.quick_rounds) {
                    document.set(&format!("rounds={rounds}"))?;
                    document.set(&format!("measure.every={every}"))?;
                } else if quick {
                    document.set(&format!("repetitions={QUICK_REPETITIONS}"))?;
                }
                if let Some(seed) = seed {
                    document.set(&format!("seed={seed}"))?;
                }
                Ok((*name, Experiment::new(&document)?.plans))
            })
            .collect()
    }

    /// Runs every panel of the figure by `run`, and computes it exactly.
    pub fn study(
        &self,
        quick: bool,
        seed: Option<u64>,
        mut run: impl FnMut(&Plan) -> Result<Outcome, Error>,
    ) -> Result<Vec<Study>, Error> {
        let mut studies = Vec::new();
        for (name, plans) in self.plans(quick, seed)? {
            let mut points = Vec::new();
            for plan in plans {
                let outcome = run(&plan)?;
                match &outcome.ending {
                    Ending::Done => points.push(studied(plan, outcome)?),
                    Ending::Interrupted => {
                        return Err(Error::Interrupted("interrupted; nothing was written".into()));
                    }
                    Ending::Failed(why) => return Err(Error::Failed(format!("{name}: {why}"))),
                }
            }
            studies.push(Study { name, points });
        }
        Ok(studies)
    }

    /// The part of the report about this figure.
    pub fn section(&self, studies: &[Study]) -> Section {
        // A study of another figure, which theory is compared with, is drawn there.
        let drawn = studies.iter().filter(|study| study.name.starts_with(self.id));
        let curves = drawn.flat_map(|study| {
            study.points.iter().enumerate().flat_map(move |(k, point)| {
                let name = format!("{}-{}", study.name, k + 1);
                let exact = point.run.exact();
                let exact = exact.map(|exact| (format!("{name}-exact"), exact.to_csv()));
                [(name, point.run.to_csv())].into_iter().chain(exact)
            })
        });
        Section {
            id: self.id.into(),
            title: self.title.into(),
            text: self.text.into(),
            seed: studies[0].points[0].plan.spec.seed.0,
            figures: (self.panels)(studies, self.title),
            claims: (self.claims)(studies),
            curves: curves.collect(),
        }
    }
}

/// A simulated outcome and its exact counterpart, for a plan of the paper.
pub fn studied(plan: Plan, run: Outcome) -> Result<Studied, Error> {
    let exact = match plan.federation().is_affine() {
        true => Some(exact(&plan)?),
        false => None,
    };
    Ok(Studied { plan, run: run.with_exact(exact) })
}
