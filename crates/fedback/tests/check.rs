//! `fedback check` where a linearisation sees only half of it.

use std::fmt::Write;
use std::process::Command;

/// A feature that says nothing of the label: two stable points attract, and the one between them
/// repels.
fn check(start: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let mut table = String::from("x,y,site\n");
    for k in 0..240 {
        let x = f64::from(k / 5 % 24) / 8.0 - 23.0 / 16.0;
        writeln!(table, "{x},{},s{}", u8::from(k % 5 == 0), k % 3).unwrap();
    }
    std::fs::write(folder.path().join("people.csv"), table).unwrap();
    let spec = format!(
        r#"
        rounds = 300
        [problem]
        base = {{ kind = "table", path = "people.csv", label = "y", partition = {{ column = "site" }} }}
        response = {{ kind = "best-response", features = ["x"], sensitivity = 1.0 }}
        loss = {{ kind = "logistic" }}
        [algorithm]
        kind = "p-fedavg"
        scheme = "full"
        local_steps = 2
        batch = 16
        step_size = {{ beta = 60.0, gamma = 2000.0 }}
        start = {start}
        "#
    );
    std::fs::write(folder.path().join("spec.toml"), spec).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fedback"))
        .args(["check", "spec.toml", "--json"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_start_between_two_stable_points_is_not_certified() {
    assert_ne!(check("0.02")["verdict"], "settles");
    assert_ne!(check("0.0")["verdict"], "settles");
    assert_eq!(check("0.7")["verdict"], "settles");
}
