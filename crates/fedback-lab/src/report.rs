//! A report: figures, claims with verdicts, and one page that shows them.
//!
//! The page is one file that works offline: the figures are the same SVGs as the files beside it, with
//! a small script of ours that adds values under the pointer and hides series.

mod page;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::figure::Figure;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the numbers say of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It holds under a condition that it does not state.
    HoldsOnlyWhere(String),
    /// It does not hold in expectation, whatever a single run may show.
    DoesNotHold,
    /// What is printed does not decide it.
    NotDecidable,
}

impl Verdict {
    /// The verdict in words.
    pub fn words(&self) -> String {
        match self {
            Verdict::Holds => "holds".into(),
            Verdict::HoldsOnlyWhere(condition) => format!("holds only where {condition}"),
            Verdict::DoesNotHold => "does not hold in expectation".into(),
            Verdict::NotDecidable => "not decidable from what is printed".into(),
        }
    }
}

/// A claim, the numbers that decide it, and the verdict they lead to.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its name in `verdicts.json`.
    pub id: &'static str,
    /// Where it is made.
    pub place: &'static str,
    /// What is claimed.
    pub statement: &'static str,
    /// What the numbers say.
    pub verdict: Verdict,
    /// How they say it.
    pub reason: String,
    /// The numbers.
    pub numbers: Vec<(String, f64)>,
}

/// A figure with its file name, without ending.
pub type Panel = (String, Figure);

/// One part of a report.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name in file names and addresses.
    pub id: String,
    /// Its headline.
    pub title: String,
    /// What is shown, in a sentence or two.
    pub text: String,
    /// The seed of its runs.
    pub seed: u64,
    /// Its figures.
    pub figures: Vec<Panel>,
    /// What is claimed of them.
    pub claims: Vec<Claim>,
    /// File names without ending, with curves as CSV.
    pub curves: Vec<(String, String)>,
}

/// What a report is about.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Who wrote it.
    pub authors: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Where it was published.
    pub published: &'static str,
    /// Where it can be read.
    pub link: &'static str,
}

/// A whole report.
#[derive(Clone, Debug)]
pub struct Report {
    /// The headline.
    pub title: String,
    /// What it is about.
    pub introduction: String,
    /// What it is about, by whom.
    pub source: Source,
    /// Its parts.
    pub sections: Vec<Section>,
}

impl Report {
    /// Writes `report.html`, `verdicts.json`, an SVG per figure and a CSV per curve.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let failed = |path: &Path, error: std::io::Error| {
            Error::Failed(format!("{} cannot be written: {error}", path.display()))
        };
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|error| failed(&path, error))
        };
        for section in &self.sections {
            for (name, figure) in &section.figures {
                write(&format!("{name}.svg"), &figure.to_svg())?;
            }
            for (name, curve) in &section.curves {
                write(&format!("{name}.csv"), curve)?;
            }
        }
        write("verdicts.json", &format!("{:#}\n", self.verdicts()))?;
        write("report.html", &page::html(self))?;
        Ok(folder.join("report.html"))
    }

    /// How many claims met each verdict: all, holds, holds only where, does not, not decidable.
    fn tally(&self) -> [usize; 5] {
        let mut tally = [0; 5];
        for claim in self.sections.iter().flat_map(|section| &section.claims) {
            let place = match claim.verdict {
                Verdict::Holds => 1,
                Verdict::HoldsOnlyWhere(_) => 2,
                Verdict::DoesNotHold => 3,
                Verdict::NotDecidable => 4,
            };
            tally[0] += 1;
            tally[place] += 1;
        }
        tally
    }

    /// The seeds of its runs.
    fn seeds(&self) -> Vec<u64> {
        let mut seeds: Vec<u64> = self.sections.iter().map(|section| section.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds
    }

    /// All claims, as JSON.
    pub fn verdicts(&self) -> Value {
        let claims = self.sections.iter().flat_map(|section| {
            section.claims.iter().map(|claim| {
                let numbers: Map<String, Value> =
                    claim.numbers.iter().map(|(name, x)| (name.clone(), json!(x))).collect();
                json!({
                    "id": claim.id,
                    "figure": section.id,
                    "section": claim.place,
                    "claim": claim.statement,
                    "verdict": claim.verdict.words(),
                    "reason": claim.reason,
                    "numbers": numbers,
                })
            })
        });
        let [claims_judged, holds, only_where, does_not, open] = self.tally();
        json!({
            "format": 1,
            "version": VERSION,
            "seeds": self.seeds(),
            "paper": self.source.link,
            "tally": {
                "claims": claims_judged,
                "holds": holds,
                "holds_only_where": only_where,
                "does_not_hold": does_not,
                "not_decidable": open,
            },
            "verdicts": claims.collect::<Vec<_>>(),
        })
    }
}
