//! Rows scored with the model of a recorded run, by what the run itself knows: no table is needed.

use std::io::Read;

use fedback_core::base::Standardization;

use crate::csv_file::{CsvFile, Row, is_missing, number, quoted};
use crate::error::Error;
use crate::recorded::RecordedRun;
use crate::spec::{Base, Loss, Missing};
use crate::table_file::Encoding;

/// A model that rows can be shown to.
#[derive(Clone, Debug)]
pub struct Scorer {
    theta: Vec<f64>,
    /// The columns that it looks at.
    columns: Vec<Encoding>,
    fill: Option<Vec<f64>>,
    constants: Option<Standardization>,
    intercept: bool,
    logistic: bool,
    /// Rows with missing cells have no score, rather than being refused.
    skip: bool,
}

/// Rows with their scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// A CSV file: the columns that were given, then the scores.
    pub csv: String,
    /// How many rows.
    pub rows: u64,
    /// How many of them have no score, because a cell is missing.
    pub without: u64,
}

impl Scorer {
    /// The final model of one repetition, or the average of all that did not fail.
    pub fn of(run: &RecordedRun, repetition: Option<u64>) -> Result<Self, Error> {
        let fail = |why: &str| Error::input(format!("run {}", run.stored.id), why);
        let logistic = match run.spec.problem.loss {
            Loss::Logistic(_) => true,
            Loss::Squared(_) => false,
            Loss::Mean | Loss::Custom => {
                return Err(fail("its loss predicts no label; only squared and logistic do"));
            }
        };
        let base = &run.spec.problem.base;
        let (standardize, missing) = match base {
            Base::Table(table) => (table.standardize, table.missing),
            Base::Sites(sites) => (sites.standardize, sites.missing),
            Base::Gaussian(_) | Base::Custom(_) => {
                return Err(fail("its data are no table: there are no columns to look for"));
            }
        };
        let facts = &run.facts;
        let (Some(coordinates), constants) = (&facts.coordinates, facts.standardization()) else {
            return Err(fail("the names of its columns were not recorded"));
        };
        if standardize && constants.is_none() {
            return Err(fail("what its features were standardised by was not recorded"));
        }
        let intercept = base.has_intercept();
        let plain = |name: &String| Encoding { column: name.clone(), values: None };
        let known = facts.table.as_ref().map(|table| table.encodings.clone());
        let features = &coordinates[..coordinates.len() - usize::from(intercept)];
        let theta = match repetition {
            None => run.average_model(),
            Some(number) => run.final_models().into_iter().nth(number as usize).flatten(),
        };
        let theta = theta.ok_or_else(|| match repetition {
            None => fail("every repetition failed: there is no model"),
            Some(number) => {
                let last = run.spec.repetitions.0 - 1;
                let why = format!("found {number}; needed: one that did not fail, 0 to {last}");
                Error::input("--repetition", why)
            }
        })?;
        Ok(Scorer {
            theta,
            columns: known.unwrap_or_else(|| features.iter().map(plain).collect()),
            fill: facts.table.as_ref().and_then(|table| table.fill.clone()),
            constants,
            intercept,
            logistic,
            skip: missing == Missing::Drop,
        })
    }

    /// Scores the rows of a CSV file, or says in one sentence what is wrong and where.
    pub fn score(&self, bytes: impl Read) -> Result<Scored, String> {
        let mut file = CsvFile::new(bytes)?.with_names()?;
        let names = file.names.clone();
        let find = |encoding: &Encoding| {
            names.iter().position(|name| *name == encoding.column).ok_or_else(|| {
                let needed = &encoding.column;
                format!(
                    "no column \"{needed}\", which the model needs; columns: {}",
                    names.join(", ")
                )
            })
        };
        let places = self.columns.iter().map(find).collect::<Result<Vec<usize>, _>>()?;
        let added: &[&str] =
            if self.logistic { &["score", "probability", "prediction"] } else { &["prediction"] };
        if let Some(taken) = added.iter().find(|name| names.iter().any(|other| other == *name)) {
            return Err(format!("there is a column \"{taken}\" already; rename it"));
        }
        let header =
            names.iter().map(|name| quoted(name)).chain(added.iter().map(|a| a.to_string()));
        let mut scored =
            Scored { csv: header.collect::<Vec<_>>().join(",") + "\n", rows: 0, without: 0 };
        while let Some(row) = file.next_row()? {
            let score = self.row(&row, &places)?;
            let mut cells: Vec<String> = row.cells().map(quoted).collect();
            match score {
                Some(score) => cells.extend(self.results(score)),
                None => cells.extend(added.iter().map(|_| String::new())),
            }
            scored.rows += 1;
            scored.without += u64::from(score.is_none());
            scored.csv += &(cells.join(",") + "\n");
        }
        Ok(scored)
    }

    fn results(&self, score: f64) -> Vec<String> {
        if !self.logistic {
            return vec![format!("{score:?}")];
        }
        let probability = 1.0 / (1.0 + libm::exp(-score));
        vec![format!("{score:?}"), format!("{probability:?}"), u8::from(score > 0.0).to_string()]
    }

    /// x·θ of a row, as the run would have seen it; none where it is skipped.
    fn row(&self, row: &Row<'_>, places: &[usize]) -> Result<Option<f64>, String> {
        let mut x: Vec<f64> = Vec::with_capacity(self.theta.len());
        for (encoding, &place) in self.columns.iter().zip(places) {
            let cell = &row[place];
            let at =
                |why: String| format!("line {}, column \"{}\": {why}", row.line, encoding.column);
            let width = encoding.values.as_ref().map_or(1, |values| values.len() - 1);
            match (&encoding.values, &self.fill) {
                (_, Some(fill)) if is_missing(cell) => {
                    let from = x.len();
                    x.extend_from_slice(&fill[from..][..width]);
                }
                (_, None) if is_missing(cell) && self.skip => return Ok(None),
                (_, None) if is_missing(cell) => {
                    let why = "the cell is missing; fill it, or leave the row out: the model was \
                               trained without missing cells";
                    return Err(at(why.into()));
                }
                (None, _) => x.push(number(cell, "numbers").map_err(at)?),
                (Some(values), _) => {
                    let known = values.iter().position(|value| value == cell);
                    let found = known.ok_or_else(|| {
                        let known = values.join(", ");
                        at(format!(
                            "found \"{cell}\", which the model does not know; known: {known}"
                        ))
                    })?;
                    x.extend((1..values.len()).map(|value| f64::from(u8::from(value == found))));
                }
            }
        }
        if let Some(Standardization { mean, sd }) = &self.constants {
            for (j, x) in x.iter_mut().enumerate() {
                *x = (*x - mean[j]) / sd[j];
            }
        }
        x.extend(self.intercept.then_some(1.0));
        Ok(Some(x.iter().zip(&self.theta).map(|(x, theta)| x * theta).sum()))
    }
}
