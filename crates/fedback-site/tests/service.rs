//! The service's socket, as whoever runs at the node finds it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fedback_site::frame::Frame;
use fedback_site::service::{Log, Said, serve};
use fedback_site::{Keeper, Ledger, Policy};

const SPEC: &str = r#"
format = 1
rounds = 4
[problem]
base = { kind = "gaussian", mean = [1.0, 4.0] }
loss = { kind = "mean" }
[algorithm]
kind = "p-fedavg"
scheme = "full"
step_size = { constant = 0.5 }
"#;

const POLICY: &str = r#"
name = "oak"
clients = [1]
socket = "oak.sock"
ledger = "oak.ledger"
[plan]
spec = "spec.toml"
[limits]
rows = 1
answers = 4
answers_in_all = 4
theta = 10.0
message = 1024
"#;

struct Silent;

impl Log for Silent {
    fn said(&self, _: &Said<'_>) {}
}

/// What callers find while a service listens.
fn while_listening(callers: impl FnOnce(&dyn Fn() -> UnixStream)) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("spec.toml", SPEC), ("policy.toml", POLICY)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let policy = Policy::read(&folder.path().join("policy.toml")).unwrap();
    Ledger::create(&policy.ledger, &policy.name, None).unwrap();
    let (socket, most, stop) =
        (policy.socket.clone(), policy.limits.message, AtomicBool::new(false));
    let keeper = Keeper::open(policy).unwrap();
    std::thread::scope(|scope| {
        let service = scope.spawn(|| serve(keeper, &socket, most, &Silent, &stop).unwrap());
        let ends = Ends(&stop, &socket);
        while UnixStream::connect(&socket).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        callers(&|| {
            let stream = UnixStream::connect(&socket).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream
        });
        drop(ends);
        service.join().unwrap();
    });
}

/// Stops the service, also where a test fails.
struct Ends<'a>(&'a AtomicBool, &'a Path);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = UnixStream::connect(self.1);
    }
}

fn question() -> Vec<u8> {
    let fields = serde_json::json!({ "kind": "question", "set": [], "plan-hash": "?" });
    let fields = fields.as_object().unwrap().clone();
    let mut bytes = Vec::new();
    Frame { fields, ..Frame::default() }.write(&mut bytes).unwrap();
    bytes
}

fn reason(stream: &mut UnixStream) -> String {
    let frame = Frame::read(stream, 1 << 20).unwrap().expect("a reply");
    frame.fields["reason"].as_str().unwrap().to_string()
}

#[test]
fn whoever_says_nothing_keeps_nobody_out() {
    while_listening(|connect| {
        let mut idle: Vec<UnixStream> = (0..8).map(|_| connect()).collect();
        // One of them has begun a question, and stops in the middle of it.
        idle[0].write_all(&question()[..9]).unwrap();
        let mut asking = connect();
        asking.write_all(&question()).unwrap();
        assert!(reason(&mut asking).starts_with("the plan here is"));
        // Who has been silent for longest was hung up on, and nobody else.
        assert_eq!(idle[0].read(&mut [0]).unwrap(), 0);
        for other in &mut idle[1..] {
            other.write_all(&question()).unwrap();
            assert!(reason(other).starts_with("the plan here is"));
        }
    });
}

#[test]
fn what_is_too_large_is_refused_before_it_is_there() {
    while_listening(|connect| {
        let mut asking = connect();
        let header = br#"{"fields":{"kind":"order"},"arrays":[["theta","<f8",[1000000,1000000]]]}"#;
        asking.write_all(&(header.len() as u32).to_le_bytes()).unwrap();
        asking.write_all(header).unwrap();
        assert_eq!(reason(&mut asking), "the question is more than 1024 bytes");
        assert_eq!(asking.read(&mut [0]).unwrap(), 0);
    });
}
