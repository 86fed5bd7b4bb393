//! The server as a browser meets it: over a socket of this machine.

mod asked;
mod federation;
mod guarded;
mod shown;
mod what_if;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use fedback_lab::experiment::{Experiment, Keep, Ready};
use fedback_lab::runner::Runnable;
use fedback_lab::spec::Document;
use fedback_serve::{Server, Settings};
use serde_json::Value;

const SPEC: &str = r#"
rounds = 40
repetitions = 4
measure = { every = 4 }
[problem]
weights = [0.5, 0.3, 0.2]
base = { kind = "gaussian", mean = [1.0, 2.0, 4.0] }
response = { kind = "location", sensitivity = [0.2, 0.5, 0.9] }
loss = { kind = "mean" }
[algorithm]
kind = "p-fedavg"
scheme = "without-replacement"
cohort = 2
local_steps = 3
step_size = { beta = 4.0, gamma = 40.0 }
"#;

/// Records a run of the spec under a name.
fn record(store: &Path, name: &str, more: &[&str]) {
    let mut document = Document::parse(SPEC, "spec").unwrap();
    document.set(&format!("name={name}")).unwrap();
    more.iter().for_each(|one| document.set(one).unwrap());
    let experiment = Experiment::new(&document).unwrap();
    let plans = experiment.plans.iter().map(|plan| plan as &dyn Runnable).collect();
    let tags = ["first".to_owned()];
    let keep = Keep { store, tags: &tags, note: "a note" };
    Ready::new(plans).unwrap().run(Some(keep), &mut (), &AtomicBool::new(false)).unwrap();
}

/// A server of some stores; it ends with the test's process.
fn serve(stores: &[&Path]) -> SocketAddr {
    serve_with(stores, None)
}

fn serve_with(stores: &[&Path], token: Option<&str>) -> SocketAddr {
    let settings = Settings {
        stores: stores.iter().map(PathBuf::from).collect(),
        specs: Vec::new(),
        listen: "127.0.0.1:0".into(),
        token: token.map(String::from),
        hosts: Vec::new(),
    };
    let server = Server::bind(settings).unwrap();
    let address = server.address();
    thread::spawn(move || server.serve().unwrap());
    address
}

/// An answer: status, headers in lower case, body.
struct Answer {
    status: u16,
    headers: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }
}

/// Sends a request as it is, and reads until the server closes.
fn send(address: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let headers = head.to_lowercase();
    let chunked = headers.contains("transfer-encoding: chunked");
    Answer { status, body: if chunked { joined(body) } else { body.into() }, headers }
}

/// The pieces of a body without their lengths.
fn joined(body: &str) -> String {
    let (mut rest, mut whole) = (body, String::new());
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap();
        whole.push_str(&after[..length]);
        rest = after[length..].strip_prefix("\r\n").unwrap_or_default();
    }
    whole
}

fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

fn post_text(address: SocketAddr, path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn post(address: SocketAddr, path: &str, body: &Value) -> Answer {
    send(address, &post_text(address, path, &body.to_string()))
}

/// The list, once all runs are read.
fn listed(address: SocketAddr) -> Value {
    loop {
        let list = get(address, "/api/runs").json();
        let unread = list["stores"].as_array().unwrap().iter().any(|one| one["unread"] != 0);
        if !unread {
            return list;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
