//! What a plan has found out, kept with its run: enough to read the run without its data, on
//! another machine and with another version.

use fedback_core::base::Standardization;
use fedback_engine::ARITHMETIC_FORMAT;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::plan::Outline;
use crate::table_summary::TableSummary;

/// What is known of a plan besides its spec. A store keeps it as JSON; later versions may add
/// fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// How many clients.
    pub clients: usize,
    /// Their names, where they have any.
    pub client_names: Option<Vec<String>>,
    /// Coordinates of θ.
    pub dim: usize,
    /// Their names, where they have any.
    pub coordinates: Option<Vec<String>>,
    /// θ before the first round.
    pub start: Vec<f64>,
    /// θ^PS, where it was asked for and known.
    pub stable_point: Option<Vec<f64>>,
    /// What features were standardised by.
    pub standardization: Option<Scale>,
    /// What the table was found to hold.
    pub table: Option<TableSummary>,
    /// The SHA-256 of every file that the spec names, in hexadecimal.
    pub data: Vec<String>,
    /// The format of the arithmetic that the run was started with.
    pub arithmetic_format: u32,
    /// What the run was started on.
    pub machine: Option<String>,
    /// What `--set` set, by dotted key.
    pub assigned: Map<String, Value>,
    /// What was said when the run was started.
    pub warnings: Vec<String>,
}

/// Means and standard deviations of features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// One mean a feature.
    pub mean: Vec<f64>,
    /// One standard deviation a feature.
    pub sd: Vec<f64>,
}

impl Facts {
    /// What is known of a plan.
    pub fn of(plan: &Outline) -> Self {
        let scale = plan.standardization.as_ref();
        Facts {
            clients: plan.clients(),
            client_names: plan.client_names.clone(),
            dim: plan.dim,
            coordinates: plan.coordinates.clone(),
            start: plan.start.clone(),
            stable_point: plan.stable_point.clone(),
            standardization: scale
                .map(|scale| Scale { mean: scale.mean.clone(), sd: scale.sd.clone() }),
            table: plan.table.clone(),
            data: plan.data(),
            assigned: plan.assigned.clone(),
            ..Facts::default()
        }
    }

    /// What features were standardised by.
    pub fn standardization(&self) -> Option<Standardization> {
        let Scale { mean, sd } = self.standardization.clone()?;
        Some(Standardization { mean, sd })
    }
}

impl Default for Facts {
    fn default() -> Self {
        Facts {
            clients: 0,
            client_names: None,
            dim: 0,
            coordinates: None,
            start: Vec::new(),
            stable_point: None,
            standardization: None,
            table: None,
            data: Vec::new(),
            arithmetic_format: ARITHMETIC_FORMAT,
            machine: None,
            assigned: Map::new(),
            warnings: Vec::new(),
        }
    }
}

/// This machine, in words.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = if cores == 1 { "1 core".into() } else { format!("{cores} cores") };
    format!("{} {}, {cores}", std::env::consts::OS, std::env::consts::ARCH)
}
