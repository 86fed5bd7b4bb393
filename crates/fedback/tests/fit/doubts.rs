//! What `fedback fit` doubts: said, kept by the spec, and repeated wherever the spec is used.

use std::process::Output;

use fedback::core::stream::{Draws, Purpose, Seed, Stream};

use super::{Folder, answer};

fn noise(seed: u64) -> Draws {
    Stream::for_problem(Seed(seed), Purpose::Data).draws()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const THETAS: &str = "deployment,x,y\nold,0,0\nnew,1,-0.5\n";

/// Two clinics whose patients move by 0.4 θ; at the second one, who has a high score leaves.
fn panel() -> String {
    let mut draws = noise(7);
    let mut data = String::from("client,deployment,individual,x,y\n");
    for client in ["north", "south"] {
        for who in 0..300 {
            let (x, y) = (draws.normal(), draws.normal());
            let chance = draws.uniform();
            data += &format!("{client},old,{who},{x:.4},{y:.4}\n");
            let leaves = if client == "south" { x - 0.5 * y > 0.6 } else { chance < 0.1 };
            if !leaves {
                let (x, y) = (x + 0.4 + 0.1 * draws.normal(), y - 0.2 + 0.1 * draws.normal());
                data += &format!("{client},new,{who},{x:.4},{y:.4}\n");
            }
        }
    }
    data
}

#[test]
fn people_who_leave_are_noticed() {
    let folder = Folder::new(&panel(), THETAS);
    let output = folder.fit(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let warning = stderr(&output);
    assert!(warning.contains("who leaves depends on the score"), "{warning}");
    assert!(warning.contains("% at south") && !warning.contains("north"), "{warning}");
    let text = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("no evidence that it depends on the score"), "{text}");
    let json = folder.json(&["--force"]);
    let missing = |client: usize| &json["clients"][client]["missing"][0];
    assert_eq!((&missing(1)["from"], &missing(1)["to"]), (&"old".into(), &"new".into()));
    let share = |client: usize| {
        let field = |key: &str| missing(client)[key].as_f64().unwrap();
        field("count") / field("of")
    };
    assert!((0.05..0.15).contains(&share(0)) && (0.2..0.4).contains(&share(1)));
    let p = |client: usize| missing(client)["by_score"]["corrected_p_value"].as_f64().unwrap();
    assert!(p(0) > 0.05 && p(1) < 1e-6);
    assert_eq!(json["tests"], 4);
}

#[test]
fn doubts_travel_with_the_spec() {
    let folder = Folder::new(&panel(), THETAS);
    assert!(folder.fit(&[]).status.success());
    let spec = "fitted/spec.toml";
    let short = ["--set", "rounds=20", "--store", "none"];
    let (check, run) = (vec!["check", spec], [&["run", spec], &short[..]].concat());
    let plan = vec!["plan", spec, "--accuracy", "0.05"];
    for args in [check, run, plan] {
        let said = folder.fedback(&args);
        let warning = stderr(&said);
        let repeated = "doubted in the spec: evidence that who leaves depends on the score";
        assert!(warning.contains(repeated), "{args:?}: {warning}");
        let json = answer(&folder.fedback(&[&args[..], &["--json"]].concat()));
        let doubts = json["doubts"].as_array().unwrap();
        assert!(doubts.iter().any(|doubt| doubt.as_str().unwrap().contains("south")), "{json}");
    }
    // They are about what was fitted, not about what is set instead; so are its resamples.
    let own =
        folder.fedback(&["check", spec, "--set", "problem.response.sensitivity=0.2", "--json"]);
    assert!(!stderr(&own).contains("doubted"), "{}", stderr(&own));
    let own = answer(&own);
    assert!(own.get("doubts").is_none() && own["confidence"].is_null(), "{own}");
    // Deleted, they are gone, and nothing else has changed.
    let again = ["run", spec, "--set", "doubts=[]", "--set", "rounds=20", "--json"];
    let settled = answer(&folder.fedback(&again));
    assert!(settled.get("doubts").is_none());
    let wrong = folder.fedback(&["check", spec, "--set", "doubts=3"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("doubts"), "{}", stderr(&wrong));
}

/// Rows of clients that move by 0.5 θ.
fn rows(clients: &[&str], thetas: &[(&str, [f64; 2])]) -> String {
    let mut draws = noise(3);
    let mut data = String::from("client,deployment,x,y\n");
    for client in clients {
        for (name, [a, b]) in thetas {
            for _ in 0..60 {
                let (x, y) = (draws.normal() + 0.5 * a, draws.normal() + 0.5 * b);
                data += &format!("{client},{name},{x:.4},{y:.4}\n");
            }
        }
    }
    data
}

#[test]
fn collinear_deployments_are_counted_right() {
    let line = [("a", [0.0, 0.0]), ("b", [1.0, 1.0]), ("c", [2.0, 2.0])];
    let folder = Folder::new(&rows(&["c"], &line), "deployment,x,y\na,0,0\nb,1,1\nc,2,2\n");
    let text = stdout(&folder.fit(&[]));
    let matrix = "needs 3 deployments with affinely independent θ on the moving features; of these \
                  3, 2 are";
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains(matrix), "{text}");
}

#[test]
fn deployments_that_hardly_differ_are_refused() {
    let two = [("a", [0.5, 1.0]), ("b", [0.5, 1.0])];
    let thetas = "deployment,x,y\na,0.5,1\nb,0.500000000001,1\n";
    let folder = Folder::new(&rows(&["c"], &two), thetas);
    let output = folder.fit(&[]);
    assert_eq!(output.status.code(), Some(2));
    let why = stderr(&output);
    assert!(
        why.contains("thetas.csv: the deployments \"a\" and \"b\" have the same θ up to"),
        "{why}"
    );
}

#[test]
fn clients_are_shown_as_people_sort_them() {
    let two = [("a", [0.0, 0.0]), ("b", [1.0, 1.0])];
    let thetas = "deployment,x,y\na,0,0\nb,1,1\n";
    let folder = Folder::new(&rows(&["c10", "c2", "c1"], &two), thetas);
    let text = stdout(&folder.fit(&[]));
    let place = |name: &str| text.find(&format!("\n  {name} ")).unwrap();
    assert!(place("c1") < place("c2") && place("c2") < place("c10"), "{text}");
}

#[test]
fn messages_name_no_temporary_file() {
    let mut data = String::from("client,deployment,x,label\n");
    let mut draws = noise(9);
    for (name, theta) in [("a", 0.0), ("b", 1.0)] {
        for row in 0..60 {
            let label = if name == "a" { 0 } else { row % 2 };
            data += &format!("c,{name},{:.4},{label}\n", draws.normal() - theta);
        }
    }
    let folder = Folder::new(&data, "deployment,x\na,0\nb,1\n");
    let output = folder.fit(&[]);
    assert_eq!(output.status.code(), Some(2));
    let why = stderr(&output);
    let parts = ["--reference", "every label under the deployment \"a\" is 0", "both classes"];
    assert!(parts.iter().all(|part| why.contains(part)) && !why.contains("/tmp"), "{why}");
    assert!(folder.fit(&["--reference", "b"]).status.success());
}
