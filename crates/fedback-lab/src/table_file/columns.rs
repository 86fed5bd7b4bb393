//! Which column is what.

use crate::spec::{KeyError, Missing, closest};

/// What to look for in the file.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// The column to predict.
    pub label: Option<&'a str>,
    /// The column that names clients.
    pub client: Option<&'a str>,
    /// The features, in this order; all other columns where none are said.
    pub features: Option<&'a [String]>,
    /// Columns that are no features.
    pub ignore: &'a [String],
    /// Features of which every value becomes a column.
    pub one_hot: &'a [String],
    /// The column whose values are groups; a feature all the same, unless it is ignored.
    pub group: Option<&'a str>,
    /// The column whose values leave together; a feature all the same, unless it is ignored.
    pub cell: Option<&'a str>,
    /// The rows that are held out.
    pub held: Option<Held<'a>>,
    /// What to do about missing cells.
    pub missing: Missing,
    /// What tells people apart, where that is asked for.
    pub identity: Option<Identity<'a>>,
    /// Labels must be 0 or 1, and both must occur; where features are named, which is at a site, one
    /// of them will do.
    pub binary: bool,
}

/// What tells the people apart whom rows are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// The whole line, all columns of the file: whoever has the same line counts as one.
    Line,
    /// A column of its own.
    Column(&'a str),
}

/// Rows with a value in a column, which is no feature.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// The column.
    pub column: &'a str,
    /// Its value.
    pub value: &'a str,
}

/// The columns by their places in the header.
pub(super) struct Places {
    pub(super) label: Option<usize>,
    pub(super) client: Option<usize>,
    pub(super) group: Option<usize>,
    pub(super) cell: Option<usize>,
    pub(super) held: Option<usize>,
    pub(super) features: Vec<usize>,
    /// The columns that tell people apart.
    pub(super) identity: Vec<usize>,
}

impl Columns<'_> {
    /// Finds every column, or says under its key which is not there.
    pub(super) fn find(&self, names: &[String]) -> Result<Places, KeyError> {
        let find = |column: &str, what: &str, key: &str| {
            names.iter().position(|name| name == column).ok_or_else(|| {
                let all: Vec<&str> = names.iter().map(String::as_str).collect();
                let guess =
                    closest(column, &all).map(|guess| format!("did you mean \"{guess}\"? "));
                let (guess, all) = (guess.unwrap_or_default(), all.join(", "));
                KeyError::new(key, format!("no {what} column \"{column}\"; {guess}columns: {all}"))
            })
        };
        let perhaps = |column: Option<&str>, what: &str, key: &str| {
            column.map(|column| find(column, what, key)).transpose()
        };
        let label = perhaps(self.label, "label", "problem.base.label")?;
        let client = perhaps(self.client, "partition", "problem.base.partition")?;
        let group = perhaps(self.group, "group", "measure.group")?;
        let cell = perhaps(self.cell, "retention", "problem.response.by")?;
        let held = self.held.as_ref().map(|held| held.column);
        let held = perhaps(held, "holdout", "problem.base.holdout")?;
        let special = [(label, "label"), (client, "partition"), (held, "holdout")];
        for (at, (column, what)) in special.iter().enumerate() {
            let other = special[..at].iter().find(|(other, _)| other.is_some() && other == column);
            if let (Some((_, other)), Some(column)) = (other, column) {
                let why = format!("\"{}\" is both {other} and {what} column", names[*column]);
                return Err(KeyError::new("problem.base", why));
            }
        }
        for name in self.ignore {
            find(name, "ignored", "problem.base.ignore")?;
        }
        let is_feature = |column: &usize| {
            !special.iter().any(|(other, _)| *other == Some(*column))
                && !self.ignore.contains(&names[*column])
        };
        let features: Vec<usize> = match self.features {
            None => (0..names.len()).filter(is_feature).collect(),
            Some(wanted) => {
                let place = |name: &String| find(name, "feature", "problem.base.features");
                wanted.iter().map(place).collect::<Result<_, _>>()?
            }
        };
        if features.is_empty() {
            let why = format!("no column is left as a feature; columns: {}", names.join(", "));
            return Err(KeyError::new("problem.base", why));
        }
        for name in self.one_hot {
            if !features.contains(&find(name, "one-hot", "problem.base.one_hot")?) {
                let why = format!("the one-hot column \"{name}\" is no feature");
                return Err(KeyError::new("problem.base.one_hot", why));
            }
        }
        let identity = match self.identity {
            None => Vec::new(),
            Some(Identity::Column(column)) => vec![find(column, "id", "id")?],
            Some(Identity::Line) => {
                // Columns that change places change nobody.
                let mut all: Vec<usize> = (0..names.len()).collect();
                all.sort_by_key(|column| &names[*column]);
                all
            }
        };
        Ok(Places { label, client, group, cell, held, features, identity })
    }
}
