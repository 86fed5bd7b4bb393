//! The spec to run: the one that was planned for, with the planned setting in place of its own.

use std::path::Path;

use fedback_theory::planner::Proposal;
use toml::Value;

use super::{Rival, scheme_and_cohort, spec_step};
use crate::spec::{Document, SchemeName};

/// The document with a proposed setting in place of its own, as a spec to be written to `directory`.
pub fn planned_spec(
    document: &Document,
    best: &Proposal,
    rival: Rival,
    directory: &Path,
) -> String {
    document.rewritten(|table| {
        let (scheme, cohort) = scheme_and_cohort(best.scheme);
        table.remove("budget");
        table.insert("rounds".into(), (best.reach.rounds as i64).into());
        if let Some(algorithm) = table.get_mut("algorithm").and_then(Value::as_table_mut) {
            rival.write(algorithm);
            let name = Value::try_from(scheme).unwrap_or_else(|_| "full".into());
            algorithm.insert("scheme".into(), name);
            match cohort {
                Some(cohort) => algorithm.insert("cohort".into(), (cohort as i64).into()),
                None => algorithm.remove("cohort"),
            };
            algorithm.insert("local_steps".into(), (best.local_steps as i64).into());
            if let Ok(step) = Value::try_from(spec_step(best.step_size)) {
                algorithm.insert("step_size".into(), step);
            }
            if scheme != SchemeName::WithoutReplacement {
                algorithm.remove("scale_objectives");
            }
        }
        for (section, key) in [("base", "path"), ("response", "resamples")] {
            let section = table.get_mut("problem").and_then(|problem| problem.get_mut(section));
            if let Some(path) = section.and_then(|section| section.get_mut(key)) {
                *path = moved_path(path, &document.directory, directory);
            }
        }
    })
}

/// A relative path that was meant from one directory, as it reads from another.
fn moved_path(path: &Value, from: &Path, to: &Path) -> Value {
    let to = std::path::absolute(to).unwrap_or_else(|_| to.to_path_buf());
    let Some(text) = path.as_str().filter(|_| to != from) else { return path.clone() };
    let full = from.join(text);
    let shown = full.strip_prefix(&to).unwrap_or(&full);
    Value::String(shown.display().to_string())
}

#[cfg(test)]
mod tests {
    use fedback_core::protocol::{Scheme, StepSize};
    use fedback_theory::planner::Reach;

    use super::*;

    #[test]
    fn a_planned_spec_finds_its_files_from_another_folder() {
        let spec = "[problem.base]\nkind = \"table\"\npath = \"base.csv\"\n\
                    [problem.response]\nresamples = \"resamples.csv\"\n";
        let mut document = Document::parse(spec, "spec").unwrap();
        document.directory = std::path::absolute("fitted").unwrap();
        let best = Proposal {
            scheme: Scheme::Full,
            local_steps: 1,
            step_size: StepSize::Constant(0.1),
            reach: Reach {
                rounds: 1,
                crossing: 1.0,
                distance_sq: 0.0,
                worst_after: 0.0,
                watched: 1,
            },
            communication: 0.0,
        };
        let average = fedback_core::protocol::ServerRule::Average;
        let rival = Rival { local: fedback_core::protocol::LocalRule::Descent, server: average };
        let beside = planned_spec(&document, &best, rival, Path::new("fitted"));
        assert!(beside.contains("\"base.csv\"") && beside.contains("\"resamples.csv\""));
        let above = planned_spec(&document, &best, rival, Path::new("."));
        assert!(above.contains("\"fitted/base.csv\""), "{above}");
        assert!(above.contains("\"fitted/resamples.csv\""), "{above}");
    }
}
