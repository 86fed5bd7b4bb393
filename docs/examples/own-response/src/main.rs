//! The command `fedback` with a response of our own: who fears to be refused pays back some debt, or goes to
//! another bank.

use std::process::ExitCode;

use fedback::cli::main_with;
use fedback::core::response::{OwnResponse, Row};
use fedback::lab::own::{Kind, Setting};
use fedback::lab::spec::{KeyError, PerClient};
use serde::Deserialize;

/// What stands in a spec beside `kind = "fear"`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    /// The column that people can lower.
    column: String,
    /// How much of it they pay back who are sure to be refused.
    effort: f64,
    /// How many of them go elsewhere instead: a number, or one a client.
    exit: PerClient,
}

/// The rule, ready to be asked.
#[derive(Debug)]
struct Fear {
    feature: usize,
    effort: f64,
    exit: Vec<f64>,
}

impl Fear {
    fn new(keys: Keys, setting: &Setting<'_>) -> Result<Self, KeyError> {
        let feature = setting.feature("column", &keys.column)?;
        let exit = setting.numbers("exit", &keys.exit)?;
        if let Some(wrong) = exit.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(KeyError::new("exit", format!("found {wrong}; allowed: 0 to 1")));
        }
        Ok(Fear { feature, effort: keys.effort, exit })
    }

    /// How likely the row thinks it is to be refused.
    fn fear(row: &Row<'_>, deployed: &[f64]) -> f64 {
        // Of libm, which has the same bits on every machine.
        1.0 / (1.0 + libm::exp(-row.score(deployed)))
    }
}

impl OwnResponse for Fear {
    fn features(&self, row: &Row<'_>, deployed: &[f64], out: &mut [f64]) {
        out.copy_from_slice(row.x);
        out[self.feature] -= self.effort * Fear::fear(row, deployed);
    }

    fn stays(&self, row: &Row<'_>, deployed: &[f64]) -> f64 {
        1.0 - self.exit[row.client] * Fear::fear(row, deployed)
    }

    fn leaves(&self) -> bool {
        true
    }

    fn has_kinks(&self) -> bool {
        false
    }
}

fn main() -> ExitCode {
    ExitCode::from(main_with([Kind::new("fear", Fear::new)], std::env::args_os()))
}
