//! A site with a policy, rows and a ledger, that is asked anything.

use std::path::Path;

use fedback_lab::plan::Built;
use fedback_lab::spec::Document;
use fedback_site::frame::{Array, Frame};
use fedback_site::ledger::Ledger;
use fedback_site::message::Request;
use fedback_site::{Keeper, Policy};
use serde_json::json;

const SPEC: &str = r#"
format = 1
name = "spec"
seed = 7
repetitions = 2
rounds = 40
[problem]
clients = 2
[problem.base]
kind = "sites"
features = ["x", "y"]
[problem.loss]
kind = "mean"
[algorithm]
kind = "p-fedavg"
scheme = "full"
local_steps = 2
batch = 15
deploy = "round"
step_size = { constant = 0.5 }
clip = 100.0
"#;

const POLICY: &str = r#"
name = "oak"
clients = [1]
data = "rows-{client}.csv"
socket = "oak.sock"
ledger = "oak.ledger"
[plan]
spec = "spec.toml"
vary = { seed = [0, 9] }
[limits]
rows = 5
answers = 30
answers_in_all = 60
theta = 1000.0
censuses = 4
"#;

pub struct Site {
    folder: tempfile::TempDir,
    keeper: Option<Keeper>,
    pub answered: u64,
    pub refused: u64,
}

impl Site {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        let cell = |row: usize, column: usize| (row * 7919 + column * 104_729) % 1009;
        let rows = (0..60).map(|row| format!("{},{}\n", cell(row, 0), cell(row, 1)));
        write("spec.toml", SPEC).unwrap();
        write("rows-1.csv", &format!("x,y\n{}", rows.collect::<String>())).unwrap();
        write("policy.toml", POLICY).unwrap();
        Ledger::create(&folder.path().join("oak.ledger"), "oak", None).unwrap();
        let keeper = Some(Self::keeper(folder.path()));
        Site { folder, keeper, answered: 0, refused: 0 }
    }

    fn keeper(folder: &Path) -> Keeper {
        Keeper::open(Policy::read(&folder.join("policy.toml")).unwrap()).unwrap()
    }

    /// Right questions of every kind, as they come on the socket.
    pub fn questions(&self) -> Vec<Vec<u8>> {
        let hash = plan_hash();
        let mut questions = vec![
            (json!({ "kind": "census", "version": "1", "set": [] }), vec![]),
            (
                json!({ "kind": "census", "version": "1", "set": ["seed=3"] }),
                vec![("sums", Array::floats(&[500.0, 500.0], 2))],
            ),
            (
                json!({ "kind": "question", "version": "1", "set": [], "plan-hash": hash }),
                vec![("rows", Array::of_u64(&[50, 60]))],
            ),
            (
                json!({ "kind": "question", "version": "1", "set": [], "plan-hash": hash }),
                vec![
                    ("rows", Array::of_u64(&[50, 60])),
                    ("sums", Array::floats(&[500.0, 500.0, 300.0, 300.0], 2)),
                ],
            ),
        ];
        for round in 0..12_u64 {
            let (theta, pairs) = ([round as f64, 2.0, 3.0, 4.0], [0, 1]);
            let order = json!({
                "kind": "order", "version": "1", "set": [], "plan-hash": hash,
                "round": round, "step": 2 * round,
            });
            let arrays = vec![
                ("rows", Array::of_u64(&[50, 60])),
                ("stream-key", Array::of_u64(&[7])),
                ("theta", Array::floats(&theta, 2)),
                ("repetitions", Array::of_u32(&pairs)),
                ("clients", Array::of_u32(&[1, 1])),
            ];
            questions.push((order, arrays));
        }
        let frame = |(fields, arrays): (serde_json::Value, Vec<(&str, Array)>)| {
            let arrays = arrays.into_iter().map(|(name, array)| (name.to_string(), array));
            let fields = fields.as_object().unwrap().clone();
            let mut bytes = Vec::new();
            Frame { fields, arrays: arrays.collect() }.write(&mut bytes).unwrap();
            bytes
        };
        questions.into_iter().map(frame).collect()
    }

    /// Asks; what is answered is in the ledger, what is refused is not.
    pub fn ask(&mut self, request: &Request) {
        let keeper = self.keeper.as_mut().unwrap();
        let before = keeper.ledger().entries();
        let answer = keeper.answer(request);
        let entries = keeper.ledger().entries();
        match answer {
            Ok(_) => {
                self.answered += 1;
                assert!(entries >= before);
            }
            Err(refused) => {
                self.refused += 1;
                assert!(!refused.reason.is_empty());
                // What a census of all sites came to is written down before the rest is looked at.
                assert!(entries <= before + 1, "{}", refused.reason);
            }
        }
    }

    /// The ledger is sound, and has what was answered.
    pub fn remembers(&mut self) {
        let before = self.keeper.take().unwrap();
        let (entries, mark) = (before.ledger().entries(), before.ledger().mark());
        drop(before);
        let after = Self::keeper(self.folder.path());
        assert!(entries > 5);
        assert_eq!((after.ledger().entries(), after.ledger().mark()), (entries, mark));
    }
}

/// The hash of the plan, by way of the library.
fn plan_hash() -> String {
    let mut document = Document::parse(SPEC, "spec.toml").unwrap();
    document.set("problem.base.rows=[50, 60]").unwrap();
    let point = document.points().unwrap().remove(0);
    Built::new(point, Path::new("."), "spec").unwrap().hash.clone()
}
