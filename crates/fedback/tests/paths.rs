//! Vector paths: whatever the machine has gives the same bits.

use std::fmt::Write;
use std::process::{Command, Output};

use fedback::core::simd::Simd;

const GAUSSIAN: &str = r#"
    repetitions = 11
    rounds = 40
    [problem]
    clients = 13
    weights = { variance = 0.0004 }
    base = { kind = "gaussian", dim = 3, mean = { average = 3.0, variance = 0.6 } }
    response = { kind = "location", sensitivity = { average = 0.6, variance = 0.1 } }
    loss = { kind = "mean" }
    [algorithm]
    kind = "p-fedavg"
    scheme = "with-replacement"
    cohort = 9
    local_steps = 11
    step_size = { beta = 20.0, gamma = 1000.0 }
    [measure]
    every = 8
    consensus = true
"#;

const TABLE: &str = r#"
    repetitions = 3
    rounds = 20
    [problem.base]
    kind = "table"
    path = "people.csv"
    label = "y"
    partition = { column = "site" }
    standardize = true
    intercept = true
    [problem.response]
    kind = "best-response"
    features = ["x1", "x4"]
    sensitivity = { low = 0.1, high = 0.4 }
    [problem.loss]
    kind = "LOSS"
    l2 = 0.01
    [algorithm]
    kind = "p-fedavg"
    scheme = "full"
    local_steps = 3
    batch = 7
    step_size = { constant = 0.05 }
    [measure]
    every = 5
"#;

fn people(features: usize) -> String {
    let mut text = (0..features).map(|j| format!("x{j},")).collect::<String>() + "y,site\n";
    for k in 0..211usize {
        for j in 0..features {
            write!(text, "{},", (k * (2 * j + 3) + k * k % (j + 11)) % 97).unwrap();
        }
        writeln!(text, "{},s{}", u8::from(k * k % 7 < 3), k % 5).unwrap();
    }
    text
}

fn run(folder: &std::path::Path, path: &str, threads: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fedback"))
        .args(["run", "spec.toml", "--json", "--store", "none", "--threads", threads])
        .env("FEDBACK_SIMD", path)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// What `run` says, without the time it took.
fn numbers(output: &Output) -> serde_json::Value {
    let mut value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    value.as_object_mut().unwrap().remove("seconds");
    value
}

/// A dimension that fills its blocks, one that does not, and one beyond the specialised ones.
#[test]
fn every_path_gives_the_same_bits() {
    let paths = [("avx2", Simd::Avx2), ("avx512", Simd::Avx512)];
    let available = paths.iter().filter(|(_, path)| path.is_available());
    let folder = tempfile::tempdir().unwrap();
    let tables = ["squared", "logistic"].map(|loss| TABLE.replace("LOSS", loss));
    let mut specs = vec![(GAUSSIAN.to_string(), 1)];
    specs.extend(
        [7, 10, 21]
            .into_iter()
            .flat_map(|features| tables.iter().map(move |table| (table.clone(), features))),
    );
    for (spec, features) in specs {
        std::fs::write(folder.path().join("spec.toml"), &spec).unwrap();
        std::fs::write(folder.path().join("people.csv"), people(features)).unwrap();
        let portable = run(folder.path(), "portable", "1");
        assert!(portable.status.success(), "{}", String::from_utf8_lossy(&portable.stderr));
        for (name, _) in available.clone() {
            let output = run(folder.path(), name, "3");
            assert_eq!(numbers(&output), numbers(&portable), "{name}, {features} features");
        }
    }
}

#[test]
fn unknown_paths_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("spec.toml"), GAUSSIAN).unwrap();
    let output = run(folder.path(), "avx1024", "1");
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("FEDBACK_SIMD") && message.contains("\"avx1024\""), "{message}");
    assert!(output.stdout.is_empty());
}
