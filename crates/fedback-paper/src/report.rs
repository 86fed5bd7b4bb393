//! A report: figures, claims with verdicts, and one page that shows them.
//!
//! The page is one file that works offline: the figures are the same SVGs as the files beside it,
//! with a small script of ours that adds values under the pointer and hides series.

mod page;

use std::path::{Path, PathBuf};

use fedback_lab::error::Error;
use fedback_lab::figure::Figure;
use fedback_lab::whole_file;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

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

/// The kinds of verdicts as `verdicts.json` counts them.
const KINDS: [&str; 4] = ["holds", "holds_only_where", "does_not_hold", "not_decidable"];

impl Verdict {
    /// Of a claim that holds or does not.
    pub fn of(holds: bool) -> Self {
        if holds { Verdict::Holds } else { Verdict::DoesNotHold }
    }

    /// Of a claim that may hold under a condition only.
    pub fn under(holds: bool, always: bool, condition: &str) -> Self {
        match holds && !always {
            true => Verdict::HoldsOnlyWhere(condition.into()),
            false => Verdict::of(holds),
        }
    }

    /// Its place among the kinds.
    fn kind(&self) -> usize {
        match self {
            Verdict::Holds => 0,
            Verdict::HoldsOnlyWhere(_) => 1,
            Verdict::DoesNotHold => 2,
            Verdict::NotDecidable => 3,
        }
    }

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

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.words())
    }
}

/// A claim, the numbers that decide it, and the verdict they lead to.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// Its name in `verdicts.json`.
    pub id: &'static str,
    /// Where it is made.
    #[serde(rename = "section")]
    pub place: &'static str,
    /// What is claimed.
    #[serde(rename = "claim")]
    pub statement: &'static str,
    /// What the numbers say.
    pub verdict: Verdict,
    /// How they say it.
    pub reason: String,
    /// The numbers.
    #[serde(serialize_with = "object")]
    pub numbers: Vec<(String, f64)>,
}

fn object<S: Serializer>(numbers: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(numbers.iter().map(|(name, number)| (name, number)))
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
        std::fs::create_dir_all(folder).map_err(|error| {
            Error::Failed(format!("{} cannot be made: {error}", folder.display()))
        })?;
        let write = |name: &str, text: &str| whole_file::write(&folder.join(name), text);
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

    /// All claims.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.sections.iter().flat_map(|section| &section.claims)
    }

    /// How many claims met each kind of verdict.
    fn tally(&self) -> [usize; KINDS.len()] {
        let mut tally = [0; KINDS.len()];
        self.claims().for_each(|claim| tally[claim.verdict.kind()] += 1);
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
        let mut tally = json!({ "claims": self.claims().count() });
        KINDS.iter().zip(self.tally()).for_each(|(kind, count)| tally[kind] = json!(count));
        let verdicts = self.sections.iter().flat_map(|section| {
            section.claims.iter().map(|claim| {
                let mut object = json!(claim);
                object["figure"] = json!(section.id);
                object
            })
        });
        json!({
            "format": 1,
            "version": VERSION,
            "seeds": self.seeds(),
            "paper": self.source.link,
            "tally": tally,
            "verdicts": verdicts.collect::<Vec<_>>(),
        })
    }
}
