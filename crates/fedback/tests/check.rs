//! `fedback check` where a linearisation sees only half of it.

use std::fmt::Write;
use std::process::Command;

/// The answer of a command about a spec in a folder of its own.
fn ask(command: &str, table: &str, spec: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("people.csv"), table).unwrap();
    std::fs::write(folder.path().join("spec.toml"), spec).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fedback"))
        .args([command, "spec.toml", "--json"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A feature that says nothing of the label: two stable points attract, and the one between them
/// repels.
fn check(start: &str) -> serde_json::Value {
    let mut table = String::from("x,y,site\n");
    for k in 0..240 {
        let x = f64::from(k / 5 % 24) / 8.0 - 23.0 / 16.0;
        writeln!(table, "{x},{},s{}", u8::from(k % 5 == 0), k % 3).unwrap();
    }
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
    ask("check", &table, &spec)
}

#[test]
fn a_start_between_two_stable_points_is_not_certified() {
    assert_ne!(check("0.02")["verdict"], "settles");
    assert_ne!(check("0.0")["verdict"], "settles");
    assert_eq!(check("0.7")["verdict"], "settles");
}

/// `solve` and `check` say the same of repeated minimisation, and a radius close to one is below it.
#[test]
fn repeated_minimisation_is_one_answer() {
    let mut table = String::from("a,b,y,site\n");
    for k in 0..90 {
        let of = |factor: i32, size: i32| f64::from(k * factor % size);
        let (a, b, noise) = (of(37, 61) / 30.0 - 1.0, of(53, 47) / 23.0 - 1.0, of(29, 31) / 15.0);
        let y = i32::from(a - 0.7 * b + noise > 0.6);
        let site = if k % 4 == 0 { y } else { k * 7 % 3 };
        writeln!(table, "{a},{b},{y},s{site}").unwrap();
    }
    for (scale, radius, settles) in [
        (0.9916, 0.96, true),
        (1.0635, 0.9915, true),
        (-0.7756, 0.9915, true),
        (1.1087, 1.01, false),
    ] {
        let sensitivity = [1.0, -0.4, 0.2].map(|e| e * scale);
        let spec = format!(
            r#"
            rounds = 300
            [problem]
            base = {{ kind = "table", path = "people.csv", label = "y", partition = {{ column = "site" }} }}
            response = {{ kind = "best-response", features = ["a", "b"], sensitivity = {sensitivity:?} }}
            loss = {{ kind = "logistic", l2 = 0.02 }}
            [algorithm]
            kind = "p-fedavg"
            scheme = "full"
            step_size = {{ constant = 0.1 }}
            "#
        );
        let (solved, checked) = (ask("solve", &table, &spec), ask("check", &table, &spec));
        let found = solved["minimisation_radius"].as_f64().unwrap();
        assert!((found - radius).abs() < 1e-4, "{scale}: {found}");
        assert_eq!(checked["minimisation"]["settles"], settles, "{scale}: {checked}");
        assert_eq!(checked["minimisation"], solved["minimisation"]);
        assert_eq!(solved["reason"].is_null(), settles, "{}", solved["reason"]);
    }
}

/// Who moves against the model stabilises it: its sensitivity keeps its sign.
#[test]
fn sensitivities_have_their_sign() {
    let spec = |response: &str| {
        format!(
            r#"
            rounds = 200
            [problem]
            base = {{ kind = "gaussian", dim = 2, mean = [[1.0, 2.0], [4.0, 1.0]] }}
            response = {{ kind = "location", sensitivity = {response} }}
            loss = {{ kind = "mean" }}
            [algorithm]
            kind = "p-fedavg"
            scheme = "full"
            step_size = {{ beta = 4.0, gamma = 20.0 }}
            "#
        )
    };
    let signed = |response: &str| {
        let check = ask("check", "", &spec(response));
        assert_eq!(check["per_client"][0]["sensitivity"], 0.5, "{check}");
        check["per_client"][0]["signed_sensitivity"].clone()
    };
    assert_eq!(signed("[-0.5, 0.9]"), -0.5);
    assert_eq!(signed("[[-0.5, 0.0], [0.9, 0.9]]"), -0.5);
    assert!(signed("[[-0.5, 0.2], [0.9, 0.9]]").is_null());
}

/// The paper's assumptions are about responses that have a sensitivity, and μ and L on a ball about rows
/// that move alike.
#[test]
fn assumptions_are_those_of_the_response() {
    let mut table = String::from("x,w,y,site\n");
    for k in 0..120 {
        let (x, w) = ((1.3 * f64::from(k)).sin(), (0.7 * f64::from(k)).cos());
        let label = u8::from(x - w + (5.0 * f64::from(k)).sin() > 0.1);
        writeln!(table, "{x},{w},{label},s{}", k % 3).unwrap();
    }
    let of = |response: &str| {
        let spec = format!(
            r#"
            rounds = 20
            [problem]
            base = {{ kind = "table", path = "people.csv", label = "y", partition = {{ column = "site" }} }}
            response = {{ {response} }}
            loss = {{ kind = "logistic", l2 = 0.1 }}
            [algorithm]
            kind = "p-fedavg"
            scheme = "full"
            step_size = {{ constant = 0.1 }}
            "#
        );
        let assumptions = ask("check", &table, &spec)["assumptions"].clone();
        let third = assumptions["words"][2].as_str().unwrap().to_string();
        (third, assumptions["mu"].is_number())
    };
    let best = "kind = \"best-response\", features = [\"x\"], sensitivity = 0.3";
    let strategic = "kind = \"strategic\", features = [\"x\"], wants = \"positive\", budget = 0.3, \
                     smoothing = 0.1";
    for (response, words, ball) in [
        (best, "every response is linear", true),
        ("kind = \"saturating\", sensitivity = 0.3, limit = 1.0", "by at most", true),
        ("kind = \"outcome\", strength = 0.3", "by at most", true),
        (&format!("{best}, range = {{ x = [-2.0, 2.0] }}"), "by at most", false),
        (strategic, "no sensitivity is known", false),
        ("kind = \"retention\", by = \"row\", rate = 0.5", "no sensitivity is known", false),
    ] {
        let (third, has_ball) = of(response);
        assert!(third.contains(words) && has_ball == ball, "{response}: {third} {has_ball}");
    }
}
