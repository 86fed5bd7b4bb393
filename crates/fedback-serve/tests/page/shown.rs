//! What the page is given of a store, whatever is in it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::{get, listed, record, serve};

#[test]
fn the_list_has_what_differs_and_how_runs_ended() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    record(&store, "sweep", &["sweep={\"algorithm.local_steps\"=[1,2,5]}"]);
    let list = listed(serve(&[&store]));
    assert_eq!(list["parameters"], json!(["algorithm.local_steps"]));
    let runs = list["runs"].as_array().unwrap();
    let ids: Vec<i64> = runs.iter().map(|run| run["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, [3, 2, 1], "newest first");
    assert_eq!(runs[0]["values"], json!([5]));
    assert_eq!((&runs[0]["state"], &runs[0]["tags"]), (&json!("done"), &json!(["first"])));
    assert!(runs[0]["final"]["distance_sq"]["mean"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_run_is_described_and_drawn_with_its_exact_curve() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    record(&store, "plain", &[]);
    let address = serve(&[&store]);
    let about = get(address, "/api/runs/0.1").json();
    assert_eq!(about["shown"]["name"], "plain");
    assert!(about["shown"]["final"]["distance_sq"]["exact"].is_number(), "{about}");
    assert_eq!(about["theta"][0]["stable"], about["stable_point"][0]);
    let svg = get(address, "/api/runs/0.1/figure.svg?x=uploads&y=risk").body;
    assert!(svg.contains("uploads") && svg.contains("data-shared=\"exact\""), "{svg}");
    let wrong = get(address, "/api/runs/0.1/figure.svg?y=banana");
    assert_eq!(wrong.status, 400);
    assert!(wrong.body.contains("all runs measured"), "{}", wrong.body);
    let csv = get(address, "/api/runs/0.1/curve.csv");
    assert_eq!(csv.body.lines().count(), 12, "a heading, the start and ten records: {}", csv.body);
}

#[test]
fn hostile_names_stay_text() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    let name = "</title><script>alert('1')</script>\u{7}\"&";
    record(&store, &toml::Value::from(name).to_string(), &[]);
    let address = serve(&[&store]);
    assert_eq!(listed(address)["runs"][0]["name"], name);
    assert_eq!(get(address, "/api/runs/0.1").json()["shown"]["name"], name);
    let own = get(address, "/api/runs/0.1/figure.svg").body;
    let compared = get(address, "/api/compare?runs=0.1").json();
    for svg in [&own, compared["svg"].as_str().unwrap()] {
        assert!(svg.contains("&lt;script&gt;") && !svg.contains("<script"), "{svg}");
    }
}

#[test]
fn a_store_that_cannot_be_read_is_said_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (good, newer, other, gone) =
        (path("good.db"), path("newer.db"), path("o.db"), path("no.db"));
    record(&good, "good", &[]);
    record(&newer, "newer", &[]);
    let connection = rusqlite::Connection::open(&newer).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    std::fs::write(&other, "this is no database, but it is long enough to be read as one").unwrap();
    let address = serve(&[&good, &newer, &other, &gone]);
    let list = listed(address);
    let trouble = |at: usize| list["stores"][at]["trouble"].as_str().unwrap_or("").to_owned();
    assert_eq!(trouble(0), "");
    assert!(trouble(1).contains("newer fedback"), "{}", trouble(1));
    assert!(trouble(2).contains("is not a fedback store"), "{}", trouble(2));
    assert!(trouble(3).contains("no store is at"), "{}", trouble(3));
    assert_eq!(list["runs"].as_array().unwrap().len(), 1);
    for (run, status) in [("0.1", 200), ("0.7", 404), ("1.1", 503), ("3.1", 404), ("9.1", 404)] {
        let answer = get(address, &format!("/api/runs/{run}"));
        assert_eq!(answer.status, status, "{run}: {}", answer.body);
        assert!(status == 200 || answer.json()["error"].is_string());
    }
    assert_eq!(get(address, "/api/runs/banana").status, 400);
    assert!(!gone.exists(), "a store that is looked for is not made");
}

#[test]
fn a_damaged_run_is_listed_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    record(&store, "sound", &[]);
    record(&store, "hurt", &[]);
    let connection = rusqlite::Connection::open(&store).unwrap();
    connection.execute("UPDATE run SET rounds = 7 WHERE id = 2", []).unwrap();
    drop(connection);
    let address = serve(&[&store]);
    let list = listed(address);
    assert_eq!(list["runs"][0]["state"], "damaged");
    assert!(list["runs"][0]["problem"].as_str().unwrap().contains("checksum"), "{list}");
    assert_eq!(list["runs"][1]["state"], "done");
    assert_eq!(get(address, "/api/runs/0.2").status, 503);
}

#[test]
fn what_is_recorded_while_the_page_is_open_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    let address = serve(&[&store]);
    let empty = listed(address);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET /api/events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut heard = || loop {
        let line = lines.next().unwrap().unwrap();
        if let Some(version) = line.strip_prefix("data: ") {
            return version.parse::<u64>().unwrap();
        }
    };
    let first = heard();
    assert_eq!(first, empty["version"].as_u64().unwrap());
    record(&store, "later", &[]);
    assert!(heard() > first);
    let new = loop {
        let new = get(address, &format!("/api/runs?since={first}")).json();
        if !new["runs"].as_array().unwrap().is_empty() {
            break new;
        }
        heard();
    };
    assert_eq!(new["runs"][0]["name"], "later");
    // What is removed is told too.
    let seen = new["version"].as_u64().unwrap();
    let opened = fedback_lab::store::Store::open(&store).unwrap();
    opened.remove(&[fedback_lab::store::RunId(1)]).unwrap();
    let removed = loop {
        heard();
        let found = get(address, &format!("/api/runs?since={seen}")).json();
        if !found["removed"].as_array().unwrap().is_empty() {
            break found;
        }
    };
    assert_eq!(removed["removed"], json!(["0.1"]));
    assert_eq!(get(address, "/api/runs/0.1").status, 404);
}
