//! What-if says what the command says, to the bit, and leaves undone what nobody waits for.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fedback_lab::check::Check;
use fedback_lab::exact::exact;
use fedback_lab::experiment::Experiment;
use fedback_lab::solution::Solution;
use fedback_lab::spec::Document;
use serde_json::{Value, json};

use super::{SPEC, post, post_text, record, serve};

fn server() -> (tempfile::TempDir, SocketAddr) {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    record(&store, "plain", &[]);
    let address = serve(&[&store]);
    (folder, address)
}

/// The parts of an answer by their names.
fn parts(address: SocketAddr, asked: Value) -> serde_json::Map<String, Value> {
    let answer = post(address, "/api/what-if", &asked);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let lines = answer.body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let parts = lines.filter(|line| line.get("progress").is_none());
    parts.map(|line| (line["part"].as_str().unwrap().to_owned(), line)).collect()
}

#[test]
fn its_numbers_are_those_of_solve_check_and_exact() {
    let (_folder, address) = server();
    for set in [
        vec![],
        vec!["algorithm.local_steps=7", "algorithm.cohort=1"],
        vec!["problem.response.sensitivity=[0.9,1.3,1.1]"],
        vec!["algorithm.scheme=full", "algorithm.cohort="],
        vec!["algorithm={kind=\"scaffold\"}", "algorithm.step_size={constant=0.02}"],
        vec!["problem.base.noise=0.3", "algorithm.deploy=round"],
    ] {
        let asked = json!({
            "spec": { "from": "text", "text": SPEC, "set": set },
            "parts": ["points", "exact", "check"],
        });
        let found = parts(address, asked);
        let text = match set.contains(&"algorithm.cohort=") {
            true => SPEC.replace("cohort = 2\n", ""),
            false => SPEC.into(),
        };
        let mut document = Document::parse(&text, "spec").unwrap();
        let own = set.iter().filter(|one| !one.ends_with('='));
        own.for_each(|one| document.set(one).unwrap());
        let plan = Experiment::only(&document).unwrap();
        assert_eq!(found["points"]["answer"], json!(Solution::of(&plan)), "{set:?}");
        let check = Check::of(&plan, &mut |_| {}).unwrap();
        assert_eq!(found["check"]["answer"]["check"], json!(check), "{set:?}");
        let exact = json!(exact(&plan).unwrap().curve);
        assert_eq!(found["exact"]["answer"]["exact"], exact, "{set:?}");
    }
}

#[test]
fn a_recorded_run_can_be_asked_about_and_sampled() {
    let (_folder, address) = server();
    let asked = json!({
        "spec": { "from": "run:0.1", "set": ["strength=0.5"] }, "parts": ["exact", "sampled"],
    });
    let found = parts(address, asked);
    let halved = &found["spec"]["answer"]["spec"]["problem"]["response"]["sensitivity"];
    assert_eq!(*halved, json!([0.1, 0.25, 0.45]));
    let drawn = &found["sampled"]["answer"];
    assert_eq!(drawn["sampled"].as_array().unwrap().len(), 11);
    let svg = drawn["svg"].as_str().unwrap();
    assert!(svg.contains("data-shared=\"exact\"") && svg.contains("as it was"), "{svg}");
}

#[test]
fn a_plan_is_found_and_can_be_taken_over() {
    let (_folder, address) = server();
    let spec = json!({ "from": "text", "text": SPEC });
    let asked = json!({ "spec": spec, "parts": ["plan"], "accuracy": 0.05 });
    let found = parts(address, asked);
    let set = found["plan"]["answer"]["set"].as_array().unwrap();
    assert!(set.iter().any(|one| one.as_str().unwrap().starts_with("algorithm.step_size=")));
    let full = set.iter().any(|one| one == "algorithm.scheme=\"full\"");
    let gone = full.then(|| json!("algorithm.cohort="));
    let set: Vec<Value> = set.iter().cloned().chain(gone).collect();
    let saved = post(
        address,
        "/api/what-if/spec",
        &json!({
            "from": "text", "text": SPEC, "set": set,
        }),
    );
    assert_eq!(saved.status, 200, "{}", saved.body);
    Experiment::new(&Document::parse(&saved.body, "saved").unwrap()).unwrap();
}

#[test]
fn the_boundary_is_where_check_changes_its_mind() {
    let (_folder, address) = server();
    let spec = json!({
        "from": "text", "text": SPEC, "set": ["algorithm.step_size={constant=0.1}"],
    });
    let asked = json!({ "spec": spec, "parts": ["map"], "map": {
        "x": { "key": "algorithm.local_steps", "low": 1, "high": 5, "whole": true },
        "y": { "key": "algorithm.step_size.constant", "low": 0.01, "high": 10, "log": true },
    } });
    let found = parts(address, asked);
    let boundary = found["map"]["answer"]["boundary"].as_array().unwrap();
    assert_eq!(boundary.len(), 5, "{found:?}");
    for column in boundary {
        let steps = column["x"].as_f64().unwrap();
        let edge = column["edges"][0].as_f64().unwrap();
        let settles = |size: f64| {
            let mut document = Document::parse(SPEC, "spec").unwrap();
            document.set(&format!("algorithm.local_steps={steps}")).unwrap();
            document.set(&format!("algorithm.step_size={{constant={size:?}}}")).unwrap();
            let plan = Experiment::only(&document).unwrap();
            Check::of(&plan, &mut |_| {}).unwrap().own_steps.settles
        };
        assert_eq!((settles(0.99 * edge), settles(1.01 * edge)), (Some(true), Some(false)));
    }
}

#[test]
fn an_upright_boundary_is_drawn_too() {
    let (_folder, address) = server();
    // The weighted average of sensitivities is 0.43: beyond 1 / 0.43 no step is small enough, and
    // larger ones need a little less.
    let spec = json!({
        "from": "text", "text": SPEC, "set": ["algorithm.step_size={constant=0.01}"],
    });
    let asked = json!({ "spec": spec, "parts": ["map"], "map": {
        "x": { "key": "strength", "low": 1.0, "high": 4.0 },
        "y": { "key": "algorithm.step_size.constant", "low": 0.001, "high": 0.01, "log": true },
    } });
    let found = parts(address, asked);
    let svg = found["map"]["answer"]["svg"].as_str().unwrap();
    let line = svg.split("data-name=\"boundary\"").nth(1).expect("a boundary is drawn");
    let values = line.split("data-values=\"").nth(1).unwrap().split('"').next().unwrap();
    let places =
        values.split(';').map(|one| one.split(' ').nth(1).unwrap().parse::<f64>().unwrap());
    let places: Vec<f64> = places.collect();
    assert_eq!(places.len(), 16, "{values}");
    assert!(places.is_sorted_by(|a, b| a >= b) && places[0] < 1.0 / 0.43, "{values}");
    assert!(1.0 / 0.43 - places[0] < 0.005 && 1.0 / 0.43 - places[15] < 0.05, "{values}");
}

#[test]
fn what_is_out_of_range_is_said_in_the_command_s_words() {
    let (_folder, address) = server();
    for (spec, words) in [
        (json!({ "from": "text", "text": SPEC, "set": ["algorithm.cohort=9"] }), "cohort"),
        (json!({ "from": "text", "text": "rounds = " }), "is not TOML"),
        (json!({ "from": "text", "text": "" }), "is empty"),
        (json!({ "from": "run:0.9" }), "run 9 is not in the store"),
        (json!({ "from": "file:0" }), "as far as they are there"),
        (json!({ "from": "example", "set": ["strength=banana"] }), "allowed: a number"),
    ] {
        let found = parts(address, json!({ "spec": spec, "parts": ["points"] }));
        let why = found["end"]["error"].as_str().unwrap_or_default();
        assert!(why.contains(words), "{spec}: {why}");
    }
    let odd = post(address, "/api/what-if", &json!({ "spec": 3 }));
    assert!((400..500).contains(&odd.status));
}

#[test]
fn a_thousand_quick_changes_leave_the_last_one_answered() {
    let (_folder, address) = server();
    let ask = |steps: usize| {
        json!({
            "spec": {
                "from": "example",
                "set": [format!("algorithm.local_steps={}", 1 + steps % 40), "rounds=100000"],
            },
            "parts": ["points", "exact", "check", "sampled"],
        })
    };
    let began = Instant::now();
    for steps in 0..1000 {
        let mut stream = TcpStream::connect(address).unwrap();
        let request = post_text(address, "/api/what-if", &ask(steps).to_string());
        stream.write_all(request.as_bytes()).unwrap();
        if steps % 7 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let last = json!({ "spec": { "from": "example" }, "parts": ["points"] });
    let found = parts(address, last);
    assert!(found["points"]["answer"]["stable_point"].is_array());
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn who_never_reads_is_in_nobody_s_way() {
    let (_folder, address) = server();
    let asked = json!({
        "spec": { "from": "example", "set": ["rounds=20000"] },
        "parts": ["points", "exact", "check", "exact", "check", "exact", "check"],
    });
    let request = post_text(address, "/api/what-if", &asked.to_string());
    let deaf: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let found = parts(address, json!({ "spec": { "from": "example" }, "parts": ["points"] }));
    assert!(found["points"]["answer"]["stable_point"].is_array());
    drop(deaf);
}
