//! The two files: what was observed, and what was deployed.

use std::collections::BTreeMap;
use std::path::Path;

use fedback_fit::model::Deployments;
use fedback_fit::observations::{Observations, Sample};
use fedback_fit::selection::FEWEST;

use crate::csv_file::{self, CsvFile, Row};
use crate::error::Error;

/// How the columns of the data are called.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Who holds a row.
    pub client: String,
    /// What was deployed when it was recorded.
    pub deployment: String,
    /// Who a row is about; a column of this name need not be there unless it was asked for.
    pub individual: Option<String>,
    /// What is predicted; likewise.
    pub label: Option<String>,
    /// Columns of either file that are none of these and no feature.
    pub ignore: Vec<String>,
}

/// What was read, checked.
#[derive(Clone, Debug)]
pub struct Input {
    /// The names of the features, in the order of the data.
    pub features: Vec<String>,
    /// The names of the clients, sorted by code point.
    pub clients: Vec<String>,
    /// The names of the deployments that have rows, in the order of their file.
    pub names: Vec<String>,
    /// The θ of each on the features.
    pub deployments: Deployments,
    /// The intercept of each, where the models have one.
    pub intercepts: Option<Vec<f64>>,
    /// The rows of each client.
    pub observations: Vec<Observations>,
    /// The column of the labels, where there are any.
    pub label: Option<String>,
    /// The column of the clients.
    pub client_column: String,
    /// The labels of each client and deployment.
    pub labels: Vec<Vec<Vec<f64>>>,
    /// Deployments that nobody has rows of.
    pub unused: Vec<String>,
}

/// The column of the intercept in the file of deployments.
const INTERCEPT: &str = "intercept";

/// Numbers beyond this are refused: their squares, and squares of these, must stay finite.
const LARGEST: f64 = 1e60;
/// Features, and coefficients of deployments, that vary by less are refused likewise.
const SMALLEST: f64 = 1e-60;

impl Input {
    /// Reads and checks both files.
    pub fn read(data: &Path, thetas: &Path, columns: &Columns) -> Result<Self, Error> {
        let deployed = Deployed::read(thetas, columns)?;
        Rows::read(data, columns, &deployed)?.check(data, thetas, deployed)
    }

    /// Whether all labels are 0 or 1.
    pub fn binary(&self) -> bool {
        self.labels.iter().flatten().flatten().all(|label| *label == 0.0 || *label == 1.0)
    }

    /// θ of a deployment, the intercept last.
    pub fn theta(&self, deployment: usize) -> Vec<f64> {
        let intercept = self.intercepts.as_ref().map(|all| all[deployment]);
        self.deployments.0[deployment].iter().copied().chain(intercept).collect()
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    if path.is_dir() {
        return Err(Error::input(path.display(), "is a directory; needed: a CSV file"));
    }
    std::fs::read(path)
        .map_err(|error| Error::input(path.display(), format!("cannot be read: {error}")))
}

/// A file whose columns all have names.
fn open(bytes: &[u8]) -> Result<CsvFile<&[u8]>, String> {
    let file = CsvFile::new(bytes)?.with_names()?;
    match file.names.iter().position(String::is_empty) {
        Some(at) => Err(format!("line 1: column {} has no name", at + 1)),
        None => Ok(file),
    }
}

/// A number of a size that can be squared twice.
fn number(row: &Row<'_>, column: usize, name: &str) -> Result<f64, String> {
    let cell = &row[column];
    let at = |why: String| format!("line {}, column \"{name}\": {why}", row.line);
    let value = csv_file::number(cell, "finite numbers").map_err(at)?;
    if value.abs() > LARGEST {
        let allowed = format!("allowed: −{LARGEST:e} to {LARGEST:e}");
        let fix = "use other units, or leave the row or the column out";
        return Err(at(format!("found \"{cell}\"; {allowed}; {fix}")));
    }
    Ok(value)
}

/// The file of deployments.
struct Deployed {
    names: Vec<String>,
    /// The names of the coordinates, without the intercept.
    features: Vec<String>,
    thetas: Vec<Vec<f64>>,
    intercepts: Option<Vec<f64>>,
}

impl Deployed {
    fn read(path: &Path, columns: &Columns) -> Result<Self, Error> {
        let bytes = read_file(path)?;
        Deployed::parse(&bytes, columns).map_err(|why| Error::input(path.display(), why))
    }

    fn parse(bytes: &[u8], columns: &Columns) -> Result<Self, String> {
        let mut file = open(bytes)?;
        let header = file.names.clone();
        let find = |name: &str| header.iter().position(|column| column == name);
        let name = find(&columns.deployment).or(find("deployment")).ok_or_else(|| {
            let found = header.join(", ");
            format!(
                "no column \"{}\" with the deployments' names; columns: {found}",
                columns.deployment
            )
        })?;
        let intercept = find(INTERCEPT);
        let coordinates: Vec<usize> = (0..header.len())
            .filter(|&at| at != name && Some(at) != intercept)
            .filter(|&at| !columns.ignore.contains(&header[at]))
            .collect();
        let mut deployed = Deployed {
            names: Vec::new(),
            features: coordinates.iter().map(|&at| header[at].clone()).collect(),
            thetas: Vec::new(),
            intercepts: intercept.map(|_| Vec::new()),
        };
        while let Some(row) = file.next_row()? {
            let value = |at: usize| number(&row, at, &header[at]);
            if deployed.names.iter().any(|known| *known == row[name]) {
                let (line, name) = (row.line, &row[name]);
                return Err(format!("line {line}: the deployment \"{name}\" is there twice"));
            }
            deployed.names.push(row[name].to_string());
            deployed
                .thetas
                .push(coordinates.iter().map(|&at| value(at)).collect::<Result<_, _>>()?);
            if let (Some(all), Some(at)) = (&mut deployed.intercepts, intercept) {
                all.push(value(at)?);
            }
        }
        Ok(deployed)
    }
}

/// The rows of one client and deployment as they come.
#[derive(Clone, Default)]
struct Cell {
    values: Vec<f64>,
    labels: Vec<f64>,
    individuals: Vec<usize>,
}

/// The file of observations.
struct Rows {
    features: Vec<String>,
    label: Option<String>,
    client_column: String,
    identified: bool,
    /// By client, then by the place of the deployment.
    cells: BTreeMap<String, Vec<Cell>>,
}

impl Rows {
    fn read(path: &Path, columns: &Columns, deployed: &Deployed) -> Result<Self, Error> {
        let bytes = read_file(path)?;
        Rows::parse(&bytes, columns, deployed).map_err(|why| Error::input(path.display(), why))
    }

    fn parse(bytes: &[u8], columns: &Columns, deployed: &Deployed) -> Result<Self, String> {
        let mut file = open(bytes)?;
        let header = file.names.clone();
        let find = |name: &str| header.iter().position(|column| column == name);
        let need = |name: &str, option: &str| {
            find(name).ok_or_else(|| {
                let found = header.join(", ");
                format!("no column \"{name}\"; columns: {found} (--{option} COLUMN names it)")
            })
        };
        // Unless they were asked for by name, these two may be missing.
        let perhaps = |asked: &Option<String>, option: &str| match asked {
            Some(name) => need(name, option).map(Some),
            None => Ok(find(option)),
        };
        let client = need(&columns.client, "client")?;
        let deployment = need(&columns.deployment, "deployment")?;
        let individual = perhaps(&columns.individual, "individual")?;
        let label = perhaps(&columns.label, "label")?;
        let special = [Some(client), Some(deployment), individual, label];
        for (at, column) in special.iter().enumerate() {
            if column.is_some() && special[..at].contains(column) {
                let name = &header[column.unwrap_or(0)];
                return Err(format!("the column \"{name}\" is asked for in two roles"));
            }
        }
        for name in columns.ignore.iter().filter(|name| find(name).is_none()) {
            if !deployed.features.contains(name) {
                return Err(format!(
                    "no column \"{name}\" to ignore; columns: {}",
                    header.join(", ")
                ));
            }
        }
        let features: Vec<usize> = (0..header.len())
            .filter(|at| !special.contains(&Some(*at)) && !columns.ignore.contains(&header[*at]))
            .collect();
        let names: Vec<String> = features.iter().map(|&at| header[at].clone()).collect();
        let known: BTreeMap<&str, usize> =
            deployed.names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let mut cells = BTreeMap::<String, Vec<Cell>>::new();
        let mut people = BTreeMap::<(String, String), usize>::new();
        while let Some(row) = file.next_row()? {
            let line = row.line;
            let place = *known.get(&row[deployment]).ok_or_else(|| {
                let (found, known) = (&row[deployment], deployed.names.join(", "));
                format!("line {line}: the deployment \"{found}\" has no θ; deployments: {known}")
            })?;
            let client = &row[client];
            if client.is_empty() {
                return Err(format!("line {line}: the client is missing"));
            }
            if !cells.contains_key(client) {
                cells.insert(client.to_string(), vec![Cell::default(); known.len()]);
            }
            let Some(cell) = cells.get_mut(client).map(|all| &mut all[place]) else { continue };
            for &at in &features {
                cell.values.push(number(&row, at, &header[at])?);
            }
            if let Some(at) = label {
                cell.labels.push(number(&row, at, &header[at])?);
            }
            if let Some(at) = individual {
                if row[at].is_empty() {
                    let column = &header[at];
                    return Err(format!(
                        "line {line}, column \"{column}\": the individual is missing"
                    ));
                }
                let next = people.len();
                let key = (client.to_string(), row[at].to_string());
                cell.individuals.push(*people.entry(key).or_insert(next));
            }
        }
        Ok(Rows {
            features: names,
            label: label.map(|at| header[at].clone()),
            client_column: header[client].clone(),
            identified: individual.is_some(),
            cells,
        })
    }

    /// Puts both files together.
    fn check(self, data: &Path, thetas: &Path, deployed: Deployed) -> Result<Input, Error> {
        let wrong = |message: String| Error::input(data.display(), message);
        let wrong_theta = |message: String| Error::input(thetas.display(), message);
        if self.cells.is_empty() {
            return Err(wrong(
                "there are no rows; needed: a header and rows of observations".into(),
            ));
        }
        if self.features.is_empty() {
            return Err(wrong("no column is left as a feature".into()));
        }
        let order = self.match_features(&deployed).map_err(wrong_theta)?;
        let used: Vec<usize> = (0..deployed.names.len())
            .filter(|&k| self.cells.values().any(|cells| !cells[k].values.is_empty()))
            .collect();
        let pick = |theta: &Vec<f64>| order.iter().map(|&at| theta[at]).collect::<Vec<f64>>();
        let input = Input {
            names: used.iter().map(|&k| deployed.names[k].clone()).collect(),
            deployments: Deployments(used.iter().map(|&k| pick(&deployed.thetas[k])).collect()),
            intercepts: (deployed.intercepts.as_ref())
                .map(|all| used.iter().map(|&k| all[k]).collect()),
            unused: (0..deployed.names.len())
                .filter(|k| !used.contains(k))
                .map(|k| deployed.names[k].clone())
                .collect(),
            clients: self.cells.keys().cloned().collect(),
            observations: Vec::new(),
            labels: Vec::new(),
            label: self.label.clone(),
            client_column: self.client_column.clone(),
            features: self.features.clone(),
        };
        check_deployments(&input).map_err(wrong_theta)?;
        self.fill(input, &used).map_err(wrong)
    }

    /// Where each feature of the data stands in θ.
    fn match_features(&self, deployed: &Deployed) -> Result<Vec<usize>, String> {
        let unknown: Vec<&str> = (deployed.features.iter())
            .filter(|name| !self.features.contains(name))
            .map(String::as_str)
            .collect();
        let missing: Vec<&str> = (self.features.iter())
            .filter(|name| !deployed.features.contains(name))
            .map(String::as_str)
            .collect();
        let quoted = |names: &[&str]| format!("\"{}\"", names.join("\", \""));
        if !unknown.is_empty() {
            let features = self.features.join(", ");
            return Err(format!(
                "θ has coordinates that are no features of the data: {}; features: {features}",
                quoted(&unknown)
            ));
        }
        if !missing.is_empty() {
            return Err(format!(
                "θ has {} coordinates, the data have {} features: no coordinate for {}; add it, or \
                 leave the column out with --ignore",
                deployed.features.len(),
                self.features.len(),
                quoted(&missing)
            ));
        }
        let place = |name: &String| deployed.features.iter().position(|known| known == name);
        Ok(self.features.iter().filter_map(place).collect())
    }

    fn fill(self, mut input: Input, used: &[usize]) -> Result<Input, String> {
        let dim = input.features.len();
        for (client, mut cells) in self.cells {
            let mut observations = Observations { dim, samples: Vec::new() };
            let mut labels = Vec::new();
            for (&k, name) in used.iter().zip(&input.names) {
                let cell = std::mem::take(&mut cells[k]);
                let rows = cell.values.len() / dim;
                if rows == 0 {
                    return Err(format!(
                        "client \"{client}\" has no rows under the deployment \"{name}\"; every \
                         client needs {FEWEST} or more under each"
                    ));
                }
                if rows < FEWEST {
                    return Err(format!(
                        "client \"{client}\" has {rows} rows under the deployment \"{name}\"; \
                         needed: {FEWEST} or more"
                    ));
                }
                let individuals = self.identified.then_some(cell.individuals);
                if let Some(ids) = &individuals {
                    let mut sorted = ids.clone();
                    sorted.sort_unstable();
                    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
                        return Err(format!(
                            "client \"{client}\" has an individual twice under the deployment \
                             \"{name}\"; needed: one row for each"
                        ));
                    }
                }
                observations.samples.push(Sample { values: cell.values, individuals });
                labels.push(cell.labels);
            }
            input.observations.push(observations);
            input.labels.push(labels);
        }
        check_columns(&input)?;
        Ok(input)
    }
}

fn check_deployments(input: &Input) -> Result<(), String> {
    let (names, thetas) = (&input.names, &input.deployments);
    if names.len() < 2 {
        return Err(format!(
            "the data were all recorded under one deployment, \"{}\"; a response shows between two \
             or more",
            names.first().map_or("", String::as_str)
        ));
    }
    for (b, theta) in thetas.0.iter().enumerate() {
        if let Some(a) = (0..b).find(|&a| thetas.coincide(a, b)) {
            let but = match &input.intercepts {
                _ if thetas.0[a] != *theta => " up to 1e-9 of its size",
                Some(all) if all[a] != all[b] => ", but for the intercept, which moves nobody",
                _ => "",
            };
            return Err(format!(
                "the deployments \"{}\" and \"{}\" have the same θ{but}; give them one name",
                names[a], names[b]
            ));
        }
    }
    for (j, feature) in input.features.iter().enumerate().filter(|(j, _)| thetas.varies(*j)) {
        let apart = thetas.0.iter().map(|theta| (theta[j] - thetas.0[0][j]).abs());
        let apart = apart.fold(0.0, f64::max);
        if apart < SMALLEST {
            return Err(format!(
                "column \"{feature}\": the deployments differ by {apart:e}; allowed: the same \
                 everywhere, or {SMALLEST:e} and more; use other units, or leave it out with \
                 --ignore {feature}"
            ));
        }
    }
    Ok(())
}

fn check_columns(input: &Input) -> Result<(), String> {
    for (j, feature) in input.features.iter().enumerate() {
        let values = (input.observations.iter())
            .flat_map(|client| (0..client.samples.len()).flat_map(|k| client.rows(k)))
            .map(|row| row[j]);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (value.min(low), value.max(high))
        });
        if low == high {
            return Err(format!(
                "column \"{feature}\" is the same in every row; leave it out with --ignore {feature}"
            ));
        }
        if high - low < SMALLEST {
            return Err(format!(
                "column \"{feature}\" varies by {:e}; allowed: {SMALLEST:e} or more; use other units, \
                 or leave it out with --ignore {feature}",
                high - low
            ));
        }
    }
    Ok(())
}
