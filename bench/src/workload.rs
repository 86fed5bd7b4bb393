//! The problems that are timed: a federation, a protocol and how much of it is run.

use std::path::Path;

use clap::{Args, ValueEnum};
use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Batch, LocalRule, Protocol, Scheme, ServerRule, StepSize};
use fedback_core::response::{
    By, Law, Outcome, Response, Retention, Sensitivity, Shift, Strategic, Turnout, Wants,
    best_response, location,
};
use fedback_core::stream::{Purpose, Seed, Stream};
use fedback_engine::backend::Course;
use fedback_engine::simulate::Simulation;
use serde_json::{Value, json};

/// Which problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Normal data with a location shift, loss `mean`; a unit is a client step.
    Gaussian,
    /// A table with the shape of the credit data, logistic loss, a best response on three features;
    /// a unit is a sample gradient.
    Credit,
    /// A wide table with squared loss, a penalty and a location shift; a unit is a sample gradient.
    Ridge,
    /// Very many clients with two rows of a table each, of which a cohort works; a unit is a sample
    /// gradient.
    Million,
}

/// Which algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    /// P-FedAvg.
    #[default]
    PFedavg,
    /// FedProx.
    Fedprox,
    /// SCAFFOLD.
    Scaffold,
    /// A server with momentum.
    Momentum,
    /// A server that adapts its steps.
    Adam,
}

impl Algorithm {
    /// What clients and the server do.
    fn parts(self) -> (LocalRule, ServerRule) {
        let momentum = ServerRule::Momentum { rate: 1.0, beta: 0.9 };
        let adam = ServerRule::Adam { rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 1e-3 };
        match self {
            Algorithm::PFedavg => (LocalRule::Descent, ServerRule::Average),
            Algorithm::Fedprox => (LocalRule::Proximal { proximal: 0.5 }, ServerRule::Average),
            Algorithm::Scaffold => (LocalRule::Scaffold, ServerRule::Average),
            Algorithm::Momentum => (LocalRule::Descent, momentum),
            Algorithm::Adam => (LocalRule::Descent, adam),
        }
    }
}

/// How rows of the credit table react.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Reaction {
    /// Three features move against the model.
    #[default]
    BestResponse,
    /// Labels listen to scores.
    Outcome,
    /// Rows move to the threshold.
    Strategic,
    /// Rows leave, each for itself.
    LeavingByRow,
    /// The rows of a label leave together.
    LeavingByLabel,
}

impl Reaction {
    fn of(self, clients: usize, movable: &[usize], dim: usize) -> Response {
        let leaving = |by| {
            let (law, turnout) = (Law::Exponential, Turnout::Fixed);
            Response::Retention(Retention {
                by,
                law,
                rate: vec![1.0; clients],
                floor: 0.0,
                renewal: 1.0,
                turnout,
            })
        };
        match self {
            Reaction::BestResponse => {
                let sensitivity = Sensitivity::Scalar(between(0.9, 1.1, clients));
                best_response(&sensitivity, movable, dim).into()
            }
            Reaction::Outcome => {
                Response::Outcome(Outcome { strength: between(-0.5, 0.7, clients) })
            }
            Reaction::Strategic => Response::Strategic(Strategic {
                features: movable.to_vec(),
                wants: Wants::Negative,
                threshold: 0.0,
                budget: 0.5,
                share: 0.9,
                smoothing: 0.1,
            }),
            Reaction::LeavingByRow => leaving(By::Row),
            Reaction::LeavingByLabel => leaving(By::Label),
        }
    }
}

/// The sizes of a workload; what is left out has the workload's own default.
#[derive(Clone, Debug, Default, Args)]
pub struct Sizes {
    /// Clients (the paper's N).
    #[arg(long)]
    pub clients: Option<usize>,
    /// Clients a round, drawn with replacement; all of them where it is left out.
    #[arg(long)]
    pub cohort: Option<usize>,
    /// Coordinates of θ.
    #[arg(long)]
    pub dim: Option<usize>,
    /// Rows a client.
    #[arg(long)]
    pub rows: Option<usize>,
    /// Local steps a round (the paper's E).
    #[arg(long)]
    pub local_steps: Option<usize>,
    /// Observations a local step.
    #[arg(long)]
    pub batch: Option<usize>,
    /// Rounds.
    #[arg(long)]
    pub rounds: Option<u64>,
    /// Repetitions, side by side.
    #[arg(long)]
    pub repetitions: Option<usize>,
    /// Draw the cohort without replacement.
    #[arg(long)]
    pub without_replacement: bool,
    /// The algorithm.
    #[arg(long, value_enum)]
    pub algorithm: Option<Algorithm>,
    /// How rows of the credit table react.
    #[arg(long, value_enum)]
    pub response: Option<Reaction>,
}

impl Sizes {
    /// These, and those of `others` where these are left out.
    pub fn or(&self, others: &Sizes) -> Sizes {
        Sizes {
            clients: self.clients.or(others.clients),
            cohort: self.cohort.or(others.cohort),
            dim: self.dim.or(others.dim),
            rows: self.rows.or(others.rows),
            local_steps: self.local_steps.or(others.local_steps),
            batch: self.batch.or(others.batch),
            rounds: self.rounds.or(others.rounds),
            repetitions: self.repetitions.or(others.repetitions),
            without_replacement: self.without_replacement || others.without_replacement,
            algorithm: self.algorithm.or(others.algorithm),
            response: self.response.or(others.response),
        }
    }

    /// The arguments that say the same.
    pub fn arguments(&self) -> Vec<String> {
        let number = |name: &str, value: Option<u64>| {
            value.map_or(Vec::new(), |value| vec![format!("--{name}"), value.to_string()])
        };
        let size = |name, value: Option<usize>| number(name, value.map(|value| value as u64));
        let mut arguments = [
            size("clients", self.clients),
            size("cohort", self.cohort),
            size("dim", self.dim),
            size("rows", self.rows),
            size("local-steps", self.local_steps),
            size("batch", self.batch),
            number("rounds", self.rounds),
            size("repetitions", self.repetitions),
        ]
        .concat();
        arguments.extend(self.without_replacement.then(|| "--without-replacement".to_string()));
        if let Some(name) = self.algorithm.and_then(|algorithm| algorithm.to_possible_value()) {
            arguments.extend(["--algorithm".to_string(), name.get_name().to_string()]);
        }
        if let Some(name) = self.response.and_then(|response| response.to_possible_value()) {
            arguments.extend(["--response".to_string(), name.get_name().to_string()]);
        }
        arguments
    }
}

/// A problem, and how much of it is run.
pub struct Workload {
    /// Which problem it is.
    pub kind: Kind,
    /// The problem.
    pub federation: Federation,
    /// The algorithm.
    pub protocol: Protocol,
    /// Rounds of a run.
    pub rounds: u64,
    /// Repetitions of a run.
    pub repetitions: usize,
}

impl Kind {
    /// Its name, as an argument.
    pub fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().into())
    }
}

impl Workload {
    /// Builds the problem. Everything drawn is drawn from fixed seeds.
    pub fn new(kind: Kind, sizes: &Sizes) -> Self {
        // Clients, cohort, dim, rows a client, local steps, batch, rounds, repetitions.
        let (clients, cohort, dim, rows, local_steps, batch, rounds, repetitions) = match kind {
            Kind::Gaussian => (25, None, 1, 0, 5, 1, 1000, 64),
            Kind::Credit => (10, None, 11, 1836, 5, 4, 500, 8),
            Kind::Ridge => (100, None, 1000, 200, 5, 32, 10, 1),
            Kind::Million => (1_000_000, Some(1000), 11, 2, 5, 4, 20, 1),
        };
        let clients = sizes.clients.unwrap_or(clients);
        let dim = sizes.dim.unwrap_or(dim);
        let rows = clients * sizes.rows.unwrap_or(rows);
        let federation = match kind {
            Kind::Gaussian => gaussian(clients, dim),
            Kind::Credit | Kind::Million => {
                logistic(clients, dim, rows, sizes.response.unwrap_or_default())
            }
            Kind::Ridge => ridge(clients, dim, rows),
        };
        let scheme = match sizes.cohort.or(cohort) {
            None => Scheme::Full,
            Some(cohort) if sizes.without_replacement => Scheme::WithoutReplacement { cohort },
            Some(cohort) => Scheme::WithReplacement { cohort },
        };
        let (local, server) = sizes.algorithm.unwrap_or_default().parts();
        let step_size = StepSize::Decaying { beta: 20.0, gamma: 1000.0 };
        let local_steps = sizes.local_steps.unwrap_or(local_steps);
        let protocol = Protocol {
            batch: Batch::Sampled(sizes.batch.unwrap_or(batch)),
            local,
            server,
            ..Protocol::p_fedavg(scheme, local_steps, step_size)
        };
        Workload {
            kind,
            federation,
            protocol,
            rounds: sizes.rounds.unwrap_or(rounds),
            repetitions: sizes.repetitions.unwrap_or(repetitions),
        }
    }

    /// The engine before the first round, at θ = 0.
    pub fn simulation(&self, seed: u64, repetitions: usize) -> Simulation<'_, Federation> {
        let weights = self.federation.weights().clone();
        let start = vec![0.0; self.federation.dim()];
        let course = Course::new(self.protocol, weights, Seed(seed), &start, repetitions as u64);
        Simulation::new(&self.federation, course)
    }

    /// What a unit is called.
    pub fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Gaussian => "client step",
            Kind::Credit | Kind::Ridge | Kind::Million => "sample gradient",
        }
    }

    /// Units in so many rounds and repetitions. With replacement, a client drawn twice computes
    /// once: the number is then an expectation.
    pub fn units(&self, rounds: u64, repetitions: usize) -> f64 {
        let clients = self.federation.clients() as f64;
        let members = match self.protocol.scheme {
            Scheme::Full => clients,
            Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. } => {
                cohort as f64
            }
            Scheme::WithReplacement { cohort } => {
                clients * (1.0 - libm::pow(1.0 - 1.0 / clients, cohort as f64))
            }
        };
        // A normal batch is one draw of its mean.
        let observations =
            if self.kind == Kind::Gaussian { 1.0 } else { self.protocol.batch.size() };
        members
            * (rounds * repetitions as u64) as f64
            * (self.protocol.local_steps as f64 * observations)
    }

    /// The sizes, for a record of what was run.
    pub fn sizes(&self) -> Value {
        json!({
            "clients": self.federation.clients(),
            "cohort": self.protocol.scheme.cohort(),
            "dim": self.federation.dim(),
            "rows": self.table().map_or(0, Table::len),
            "local_steps": self.protocol.local_steps,
            "batch": self.protocol.batch.size() as u64,
            "rounds": self.rounds,
            "repetitions": self.repetitions,
        })
    }

    /// Its table, where it has one.
    pub fn table(&self) -> Option<&Table> {
        match self.federation.base() {
            Base::Table(table) => Some(table),
            Base::Gaussian(_) => None,
        }
    }

    /// Bytes of its data: rows and labels.
    pub fn data_bytes(&self) -> u64 {
        self.table().map_or(0, |table| 8 * (table.len() * (table.dim + 1)) as u64)
    }

    /// Writes the problem for peers to read: `problem.json`, and the rows and labels of a table,
    /// client after client, as little-endian 64-bit numbers.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        let federation = &self.federation;
        let (beta, gamma) = match self.protocol.step_size {
            StepSize::Decaying { beta, gamma } => (beta, gamma),
            StepSize::Constant(size) => (size * 1e300, 1e300),
        };
        let (sensitivity, pattern) = match federation.shift().unwrap_or(&Shift::None) {
            Shift::Scaled { sensitivity, pattern } => (sensitivity.clone(), pattern.clone()),
            _ => (vec![0.0; federation.clients()], vec![0.0; federation.dim()]),
        };
        let mut problem = json!({
            "sizes": self.sizes(),
            "weights": &**federation.weights(),
            "sensitivity": sensitivity,
            "pattern": pattern,
            "beta": beta,
            "gamma": gamma,
            "l2": federation.loss().l2(),
            "intercept": federation.has_intercept(),
        });
        match federation.base() {
            Base::Gaussian(base) => {
                problem["loss"] = "mean".into();
                problem["mean"] = base.mean.as_slice().into();
                problem["noise"] = base.noise.into();
            }
            Base::Table(table) => {
                problem["loss"] = match federation.loss() {
                    Loss::Logistic { .. } => "logistic".into(),
                    _ => "squared".into(),
                };
                let blocks = || (0..table.clients()).map(|client| table.block(client));
                let counts: Vec<usize> = blocks().map(|(_, labels)| labels.len()).collect();
                problem["counts"] = counts.into();
                let bytes = |values: &[f64]| -> Vec<u8> {
                    values.iter().flat_map(|value| value.to_le_bytes()).collect()
                };
                let rows = blocks().flat_map(|(rows, _)| bytes(rows)).collect::<Vec<u8>>();
                let labels = blocks().flat_map(|(_, labels)| bytes(labels)).collect::<Vec<u8>>();
                std::fs::write(folder.join("rows.f64"), rows)?;
                std::fs::write(folder.join("labels.f64"), labels)?;
            }
        }
        std::fs::write(folder.join("problem.json"), problem.to_string())
    }
}

fn gaussian(clients: usize, dim: usize) -> Federation {
    let spread = |k: usize| (k as f64 + 0.5) / clients as f64 - 0.5;
    let mean = (0..clients * dim).map(|k| 10.0 + 2.0 * spread(k / dim)).collect();
    let sensitivity = (0..clients).map(|k| 0.9 + spread(k)).collect();
    Federation::new(
        vec![1.0 / clients as f64; clients],
        Base::Gaussian(Gaussian { dim, mean, noise: 1.0 }),
        location(&Sensitivity::Scalar(sensitivity), dim, false),
        Loss::Mean,
    )
    .unwrap()
}

fn logistic(clients: usize, dim: usize, rows: usize, reaction: Reaction) -> Federation {
    let features = dim - 1;
    let raw = raw_table(rows, features, |x, noise| f64::from(x[0] - x[features / 3] + noise > 0.0));
    let movable: Vec<usize> = [0, 5, 7].into_iter().filter(|&j| j < features).collect();
    let response = reaction.of(clients, &movable, dim);
    divided(raw, clients, true, response, Loss::Logistic { l2: 0.05 })
}

fn ridge(clients: usize, dim: usize, rows: usize) -> Federation {
    // A signal strong enough that the reaction to it shows after few rounds.
    let scale = 3.0 / libm::sqrt(dim as f64);
    let signal =
        |x: &[f64]| x.iter().step_by(2).sum::<f64>() - x.iter().skip(1).step_by(2).sum::<f64>();
    let raw = raw_table(rows, dim, |x, noise| scale * signal(x) + 0.5 * noise);
    let sensitivity = Sensitivity::Scalar(between(0.3, 0.7, clients));
    divided(raw, clients, false, location(&sensitivity, dim, false), Loss::Squared { l2: 0.01 })
}

/// Evenly spaced numbers.
fn between(low: f64, high: f64, count: usize) -> Vec<f64> {
    (0..count).map(|k| low + (high - low) * (k as f64 + 0.5) / count as f64).collect()
}

/// Rows of standard normal features, with a label for each from the row and one more variate.
fn raw_table(rows: usize, features: usize, label: impl Fn(&[f64], f64) -> f64) -> RawTable {
    let mut draws = Stream::for_problem(Seed(1), Purpose::Means).draws();
    let values: Vec<f64> = (0..rows * features).map(|_| draws.normal()).collect();
    let labels = values.chunks_exact(features).map(|x| label(x, draws.normal())).collect();
    let features = (0..features).map(|j| format!("x{j}")).collect();
    RawTable { features, values, labels, clients: None }
}

fn divided(
    raw: RawTable,
    clients: usize,
    intercept: bool,
    response: impl Into<Response>,
    loss: Loss,
) -> Federation {
    let how = Preparation {
        shuffle: false,
        standardize: intercept,
        intercept,
        partition: Partition::Equal(clients),
        by_class: true,
    };
    let table = Table::new(raw, &how, Seed(0)).expect("normal features can be standardised");
    let weights = table.row_shares();
    Federation::new(weights, Base::Table(table), response, loss).unwrap()
}
