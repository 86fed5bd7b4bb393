//! `fedback federate`, on a store that other commands have written.

mod binary;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Output, Stdio};

use fedback::lab::event::Ending;
use fedback::lab::store::Store;

fn fedback(folder: &Path, args: &[&str]) -> Output {
    binary::command(folder, args).output().unwrap()
}

/// A store with two runs, the first of which ended so.
fn runs(ending: Ending) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    assert!(fedback(here, &["new", "spec.toml"]).status.success());
    for name in ["name=a", "name='b\"\\'"] {
        let args = ["run", "spec.toml", "--set", name, "--set", "rounds=5", "--quiet"];
        assert!(fedback(here, &args).status.success());
    }
    let (path, other) = (here.join("fedback.db"), here.join("other.db"));
    let (old, new) = (Store::open(&path).unwrap(), Store::open(&other).unwrap());
    for id in old.ids().unwrap() {
        let mut run = old.load(id).unwrap();
        if id.0 == 1 {
            run.ending = Some(ending.clone());
        }
        new.insert(&run).unwrap();
    }
    drop((old, new));
    std::fs::rename(other, path).unwrap();
    folder
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn exit_codes_say_how_a_run_ended() {
    let folder = runs(Ending::Failed("it diverged".into()));
    let here = folder.path();
    let newest = fedback(here, &["federate", "status"]);
    assert_eq!(code(&newest), Some(0));
    let said = String::from_utf8_lossy(&newest.stdout).into_owned();
    assert!(said.starts_with("run 2 ") && said.contains("done, round 5 of 5"), "{said}");
    for verb in ["status", "wait"] {
        let failed = fedback(here, &["federate", verb, "1"]);
        assert_eq!(code(&failed), Some(1));
        assert!(String::from_utf8_lossy(&failed.stderr).contains("run 1: it diverged"));
    }
    let unknown = fedback(here, &["federate", "wait", "7"]);
    assert_eq!(code(&unknown), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("has no run 7"));
    let json = fedback(here, &["federate", "status", "1", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["state"], &json["round"]), (&"failed".into(), &5.into()));
    let folder = runs(Ending::Interrupted);
    assert_eq!(code(&fedback(folder.path(), &["federate", "wait", "1"])), Some(130));
}

#[test]
fn a_run_that_goes_on_is_waited_for() {
    let folder = runs(Ending::Done);
    let here = folder.path();
    let more = ["--set", "rounds=1000000000", "--set", "measure.every=1000000000"];
    let args = [&["run", "spec.toml", "--quiet"][..], &more].concat();
    let mut running = binary::command(here, &args).stdout(Stdio::null()).spawn().unwrap();
    // It is there once it has a number.
    let waited = loop {
        let waited = fedback(here, &["federate", "wait", "3", "--timeout", "0.1"]);
        if code(&waited) != Some(2) {
            break waited;
        }
        assert_eq!(running.try_wait().unwrap(), None, "the run has ended");
    };
    assert_eq!(code(&waited), Some(3), "{}", String::from_utf8_lossy(&waited.stderr));
    let metrics = fedback(here, &["federate", "metrics"]);
    let text = String::from_utf8(metrics.stdout).unwrap();
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(code(&fedback(here, &["federate", "wait", "3"])), Some(130));
    assert!(text.contains("# TYPE fedback_run_running gauge\n"), "{text}");
    assert!(text.contains("fedback_run_running{run=\"1\",name=\"a\"} 0\n"), "{text}");
    assert!(text.contains("fedback_run_round{run=\"2\",name=\"b\\\"\\\\\"} 5\n"), "{text}");
}

#[test]
fn metrics_are_served() {
    let folder = runs(Ending::Done);
    let args = ["federate", "metrics", "--listen", "127.0.0.1:0"];
    let mut server = binary::command(folder.path(), &args).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().trim_start_matches("metrics on http://").trim_end_matches("/metrics");
    let ask = |request: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let found = ask(b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(found.starts_with("HTTP/1.1 200 OK\r\n"), "{found}");
    assert!(found.contains("fedback_run_rounds{run=\"1\",name=\"a\"} 5\n"), "{found}");
    assert!(ask(b"POST /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    server.kill().unwrap();
    server.wait().unwrap();
}
