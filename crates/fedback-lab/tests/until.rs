//! A run that ends by its movement, interrupted between two records.

use std::sync::atomic::{AtomicBool, Ordering};

use fedback_lab::error::Error;
use fedback_lab::event::{Ending, Event, Sink};
use fedback_lab::experiment::{self, Experiment, begin, reopen};
use fedback_lab::runner::run;
use fedback_lab::spec::Document;
use fedback_lab::store::Store;

const SPEC: &str = r#"
seed = 3
rounds = 500
repetitions = 3
until = { movement = 2e-4 }
problem.weights = [0.5, 0.3, 0.2]
problem.base = { kind = "gaussian", mean = [1.0, 2.0, 4.0], noise = 1e-4 }
problem.response = { kind = "location", sensitivity = [0.2, 0.5, 0.9] }
problem.loss = { kind = "mean" }
algorithm = { kind = "p-fedavg", scheme = "full", step_size = { constant = 0.1 } }
measure = { every = 7 }
"#;

/// Asks to stop once so many rounds are closed.
struct StopAt<'a>(u64, &'a AtomicBool);

impl Sink for StopAt<'_> {
    fn take(&mut self, event: &Event<'_>) -> Result<(), Error> {
        if let Event::Advanced { round } = event {
            self.1.fetch_or(*round >= self.0, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[test]
fn resumed_it_ends_where_it_would_have_ended() {
    let document = Document::parse(SPEC, "until").unwrap();
    let plan = Experiment::new(&document).unwrap().plans.remove(0);
    let never = AtomicBool::new(false);
    let mut nobody = StopAt(u64::MAX, &never);
    let whole = run(&plan, None, &mut [&mut nobody], &never).unwrap();
    let end = whole.curve.points.last().unwrap().round;
    assert!((50..450).contains(&end), "ended after {end} rounds");
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("runs.db")).unwrap();
    for round in [1, 9, 20, 30, end] {
        let id = begin(&store, &plan, Vec::new()).unwrap();
        let stop = AtomicBool::new(false);
        let record = Some((&store, id));
        let first = experiment::run(&plan, record, None, &mut StopAt(round, &stop), &stop).unwrap();
        assert_eq!(first.ending == Ending::Interrupted, round < end, "{round}");
        // Nothing is done again.
        assert!(store.load(id).unwrap().round() >= round, "{round}");
        let reopened = reopen(&store, id).unwrap();
        let (plan, from) = (reopened.whole().unwrap(), Some(&reopened.stored));
        // The last one is as if it had been killed between its last checkpoint and its end.
        let rest = match round < end {
            true => experiment::run(plan, record, from, &mut nobody, &never),
            false => run(plan, from, &mut [&mut nobody], &never),
        };
        let rest = rest.unwrap();
        assert_eq!(rest.curve, whole.curve, "stopped at {round}");
        assert_eq!(rest.final_theta(), whole.final_theta());
    }
}
