//! The folder that a fit leaves: a spec that `run`, `check` and `plan` take as it is, the rows it starts
//! from, resamples of the estimates, and a picture.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use fedback_core::federation::Federation;
use fedback_fit::model::{Direction, Shape};
use fedback_fit::resample::Resampler;
use fedback_fit::{Use, draws};
use fedback_theory::limit::RoundMap;
use fedback_theory::stable;
use toml::Value;

use super::Fitted;
use crate::csv_file::quoted;
use crate::error::Error;
use crate::plan::Plan;
use crate::spec::Document;
use crate::whole_file;

/// Resamples that are written.
const RESAMPLES: usize = 400;
/// Observations a local step of the spec.
const BATCH: usize = 16;

/// The files of a fit.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The spec.
    pub spec: PathBuf,
    /// The rows under the reference deployment.
    pub base: PathBuf,
    /// Plausible other values of the response.
    pub resamples: PathBuf,
    /// The picture.
    pub figure: PathBuf,
}

impl Folder {
    /// The files in a folder, which must not be there yet unless they may be replaced.
    pub fn new(path: &Path, replace: bool) -> Result<Self, Error> {
        if path.exists() && !(replace && path.is_dir()) {
            let why = match path.is_dir() {
                true => "exists already; choose another folder with --output, or use --force",
                false => "is a file; choose a folder with --output",
            };
            return Err(Error::input(path.display(), why));
        }
        Ok(Folder {
            spec: path.join("spec.toml"),
            base: path.join("base.csv"),
            resamples: path.join("resamples.csv"),
            figure: path.join("shift.svg"),
        })
    }

    /// Writes a fit. Everything is made, and the spec planned, before the first file is written.
    pub fn write(&self, fitted: &Fitted) -> Result<(), Error> {
        let (base, resamples) = (fitted.base(), fitted.resamples());
        let spec = fitted.spec(&self.name(), &fitted.step(&base)?);
        let folder = self.spec.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| {
            Error::Failed(format!("{} cannot be made: {error}", folder.display()))
        })?;
        for (path, text) in [
            (&self.base, base),
            (&self.resamples, resamples),
            (&self.figure, fitted.figure().to_svg(crate::figure::Size::Screen)),
            (&self.spec, spec),
        ] {
            whole_file::write(path, &text)?;
        }
        Ok(())
    }

    fn name(&self) -> String {
        let folder = self.spec.parent().and_then(Path::file_name);
        folder.map_or("fitted".into(), |name| name.to_string_lossy().into_owned())
    }
}

fn text(value: &str) -> String {
    Value::String(value.into()).to_string()
}

fn list(numbers: &[f64]) -> String {
    let numbers = numbers.iter().map(|number| Value::Float(*number).to_string());
    format!("[{}]", numbers.collect::<Vec<_>>().join(", "))
}

impl Fitted {
    /// The rows under the reference deployment.
    fn base(&self) -> String {
        let mut out = quoted(&self.input.client_column);
        self.input.features.iter().for_each(|name| {
            let _ = write!(out, ",{}", quoted(name));
        });
        self.input.label.iter().for_each(|name| {
            let _ = write!(out, ",{}", quoted(name));
        });
        out.push('\n');
        for (client, name) in self.input.clients.iter().enumerate() {
            let labels = &self.input.labels[client][self.reference];
            for (at, row) in self.input.observations[client].rows(self.reference).enumerate() {
                out += &quoted(name);
                row.iter().chain(labels.get(at)).for_each(|value| {
                    let _ = write!(out, ",{value}");
                });
                out.push('\n');
            }
        }
        out
    }

    /// Draws from the joint distribution of the estimates, clients one after the other.
    fn resamples(&self) -> String {
        let numbers: Vec<Vec<Vec<f64>>> = (self.clients.iter().enumerate())
            .map(|(at, client)| {
                let resampler = Resampler::new(&client.estimate);
                let mut draws = draws(self.seed, Use::Resamples, at as u32);
                let draw = |_| self.spec_numbers(resampler.draw(&mut draws).as_slice()).1;
                (0..RESAMPLES).map(draw).collect()
            })
            .collect();
        let columns: Vec<String> = (1..=numbers[0][0].len()).map(|at| format!("s{at}")).collect();
        let mut out = format!("resample,client,{}\n", columns.join(","));
        for resample in 0..RESAMPLES {
            for (client, name) in self.input.clients.iter().enumerate() {
                let _ = write!(out, "{},{}", resample + 1, quoted(name));
                numbers[client][resample].iter().for_each(|value| {
                    let _ = write!(out, ",{value}");
                });
                out.push('\n');
            }
        }
        out
    }

    /// The spec, with comments.
    fn spec(&self, name: &str, step_size: &str) -> String {
        let input = &self.input;
        let reference = &input.names[self.reference];
        let mut out = format!(
            "# What `fedback fit` found; the base are the rows under the deployment {}.\n\
             format = 1\nname = {}\nrounds = 1000\n",
            text(reference),
            text(name)
        );
        let doubts: String = self.doubts().iter().map(|d| format!("    {},\n", text(d))).collect();
        if !doubts.is_empty() {
            out += &format!(
                "doubts = [  # what speaks against it, repeated wherever it is used\n{doubts}]\n"
            );
        }
        out += "\n[problem.base]\nkind = \"table\"\npath = \"base.csv\"\n";
        if let Some(label) = &input.label {
            out += &format!("label = {}\n", text(label));
        }
        out += &format!("partition = {{ column = {} }}\n", text(&input.client_column));
        if input.intercepts.is_some() {
            out += "intercept = true\n";
        }
        out += &format!("\n[problem.response]\nkind = \"{}\"\n", self.response_name());
        if self.model.direction == Direction::BestResponse {
            let names = self.names_of(&self.model.features);
            let names: Vec<String> = names.iter().map(|name| text(name)).collect();
            out += &format!("features = [{}]\n", names.join(", "));
        }
        out += &format!(
            "reference = {}  # the base was recorded under this θ\n\
             resamples = \"resamples.csv\"  # what else the data allow\n",
            list(&input.theta(self.reference))
        );
        out += &format!("\n[problem.response.sensitivity.by_name]\n{}", self.sensitivities());
        let loss = match (&input.label, input.binary()) {
            (None, _) => "kind = \"mean\"",
            (Some(_), true) => "kind = \"logistic\"",
            (Some(_), false) => "kind = \"squared\"",
        };
        out += &format!(
            "\n[problem.loss]\n{loss}\n\n[algorithm]\nkind = \"p-fedavg\"\nscheme = \"full\"\n\
             local_steps = 1\nbatch = {BATCH}\nstep_size = {step_size}\nstart = {}\n\n\
             [measure]\nevery = 10\n",
            list(&input.theta(self.reference))
        );
        out
    }

    /// The estimates by the clients' names.
    fn sensitivities(&self) -> String {
        let entry =
            |numbers: &[f64]| Value::Array(numbers.iter().copied().map(Value::Float).collect());
        let mut table = toml::Table::new();
        for (client, name) in self.clients.iter().zip(&self.input.clients) {
            let (shape, numbers) = self.spec_numbers(client.estimate.values.as_slice());
            let value = match shape {
                Shape::Scalar => Value::Float(numbers[0]),
                Shape::Vector => entry(&numbers),
                Shape::Matrix => {
                    Value::Array(numbers.chunks(numbers.len().isqrt()).map(entry).collect())
                }
            };
            table.insert(name.clone(), value);
        }
        toml::to_string(&table).unwrap_or_else(|error| format!("# {error}"))
    }

    /// A step size under which the spec's own rounds shrink errors, where any does.
    fn step(&self, base: &str) -> Result<String, Error> {
        let folder = tempfile::tempdir()
            .map_err(|error| Error::Failed(format!("no temporary folder: {error}")))?;
        let path = folder.path().join("base.csv");
        whole_file::write(&path, base)?;
        let draft = self.spec("draft", "{ constant = 1.0 }");
        let mut document = Document::parse(&draft, "the fitted spec")?;
        document.directory = folder.path().to_path_buf();
        document.set("measure.distance=false")?;
        let point = document.points()?.swap_remove(0);
        // Nobody can look into the temporary file.
        let rows = format!("the rows under \"{}\"", self.input.names[self.reference]);
        let plan =
            Plan::new(point, folder.path(), "the fitted spec").map_err(|error| match error {
                Error::Input(why) => Error::Input(why.replace(&path.display().to_string(), &rows)),
                other => other,
            })?;
        let theta = &plan.start;
        let settled = stable::stable_point(plan.federation(), theta).unwrap_or(theta.clone());
        let map = RoundMap::new(plan.federation(), &plan.protocol, None, &settled).ok();
        let largest = map.and_then(|mut map| map.largest_step()).unwrap_or(f64::INFINITY);
        let size = 0.5 * largest.min(1.0 / steepness(plan.federation(), theta));
        let margin = (stable::stable_points(plan.federation(), &settled).points.first())
            .and_then(|point| point.gradient_margin)
            .filter(|margin| *margin > 0.0);
        let float = |number: f64| Value::Float(rounded(number)).to_string();
        Ok(match margin {
            Some(margin) => {
                let beta = rounded(2.0 / margin);
                format!("{{ beta = {}, gamma = {} }}", float(beta), float(beta / size))
            }
            None => format!("{{ constant = {} }}", float(size)),
        })
    }
}

/// The largest curvature of a batch's loss, roughly: of the mean loss where it is steepest, and a
/// batch's share of a single row's.
fn steepness(federation: &Federation, theta: &[f64]) -> f64 {
    let flat = vec![0.0; theta.len()];
    let curvature = federation.mean_field(&flat, theta).curvature;
    let rows = if federation.is_affine() { 0.0 } else { curvature.trace() / BATCH as f64 };
    curvature.symmetric_eigenvalues().max() + rows
}

/// Three significant digits: more would pretend to matter.
fn rounded(number: f64) -> f64 {
    format!("{number:.2e}").parse().unwrap_or(number)
}
