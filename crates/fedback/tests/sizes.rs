//! What is too large is refused before anything is allocated, by its key, and with what would do.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SPEC: &str = r#"
rounds = 5
[problem]
weights = [0.5, 0.5]
base = { kind = "gaussian", mean = [1.0, 2.0] }
response = { kind = "location", sensitivity = [0.2, 0.3] }
loss = { kind = "mean" }
[algorithm]
kind = "p-fedavg"
scheme = "full"
step_size = { constant = 0.1 }
"#;

/// What a command answers, within a minute.
fn answer(command: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("spec.toml"), SPEC).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fedback"))
        .args([command, "spec.toml"])
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{command} {arguments:?} {environment:?}: no end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

fn refusal(command: &str, arguments: &[&str]) -> String {
    let output = answer(command, arguments, &[]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{command} {arguments:?}: {message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn repetitions_that_do_not_fit_in_memory() {
    for count in ["1000000000", "1000000000000"] {
        let expected = format!("repetitions: found {count}; the run would hold ");
        for command in ["run", "exact"] {
            let message = refusal(command, &["--set", &format!("repetitions={count}")]);
            assert!(message.contains(&format!("spec.toml: {expected}")), "{message}");
            assert!(message.contains("lower it to 12485370 or less"), "{message}");
        }
        let plan = ["--accuracy", "0.1", "--communication-cost", "1", "--repetitions", count];
        let message = refusal("plan", &plan);
        assert!(message.contains(&format!("--{expected}")), "{message}");
    }
}

#[test]
fn records_that_nobody_can_read() {
    for command in ["run", "exact"] {
        let message = refusal(command, &["--set", "rounds=10000000000"]);
        let expected = "measure.every: found 1; in 10000000000 rounds the curve would have \
                        20000000000 numbers, allowed are 20000000: raise it to 1000 or more";
        assert!(message.contains(expected), "{message}");
    }
    let message = refusal("run", &["--set", "rounds=1000000", "--set", "repetitions=1000000"]);
    assert!(message.contains("measure.every: found 1; in 1000000 rounds the run would record"));
    // What would do does.
    let few = ["--set", "rounds=1000000", "--set", "measure.every=100000"];
    assert!(answer("exact", &few, &[]).status.success());
}

#[test]
fn threads_that_no_machine_has() {
    let output = answer("run", &["--store", "none"], &[("RAYON_NUM_THREADS", "99999999999")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
