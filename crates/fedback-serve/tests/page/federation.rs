//! A run with real clients, as its server's store has it.

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_engine::cohort::RecordedCohort;
use fedback_engine::incident::{Incident, Trouble};
use fedback_lab::event::Ending;
use fedback_lab::experiment::{Experiment, begin};
use fedback_lab::spec::Document;
use fedback_lab::store::{Checkpoint, Record, Store};
use serde_json::json;

use super::{SPEC, get, serve};

#[test]
fn who_worked_and_who_did_not_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let spec = SPEC.replace("without-replacement", "full").replace("cohort = 2", "");
    let plan = Experiment::only(&Document::parse(&spec, "spec").unwrap()).unwrap();
    let store = Store::open(&path).unwrap();
    let id = begin(&store, &plan, Vec::new()).unwrap();
    let mut writer = store.writer(id).unwrap();
    for round in 0..8 {
        let members = [0, 1, 2].into_iter().filter(|client| *client != 1 || round < 3);
        let members: Vec<ClientId> = members.map(ClientId).collect();
        let coefficients = vec![1.0 / members.len() as f64; members.len()];
        let cohort = RecordedCohort { round: Round(round), repetition: 0, members, coefficients };
        writer.cohort(cohort).unwrap();
    }
    let incident = Incident {
        client: ClientId(1),
        trouble: Trouble::Absent,
        first: Round(3),
        last: Round(7),
        rounds: 5,
        reason: "its node <b>did not</b> answer".into(),
    };
    writer.incident(incident).unwrap();
    let record = Record { round: 8, seconds: Some(1.0), values: vec![0.5; 8] };
    writer.record(record).unwrap();
    let checkpoint = Checkpoint::of(&plan.beginning(), 1.0);
    writer.checkpoint(Checkpoint { round: 8, ..checkpoint }).unwrap();
    writer.finish(&Ending::Failed("too few clients".into())).unwrap();
    let about = get(serve(&[&path]), "/api/runs/0.1").json();
    let shown = &about["shown"];
    assert_eq!(shown["absences"]["clients"], json!([{ "client": "1", "cohorts": 5 }]));
    assert_eq!(shown["incidents"][0]["reason"], "its node <b>did not</b> answer");
    assert_eq!(shown["failure"], "too few clients");
    let cohorts = about["cohorts"].as_array().unwrap();
    assert_eq!((cohorts.len(), &cohorts[0]["members"]), (8, &json!([0, 1, 2])));
    assert_eq!((&cohorts[7]["round"], &cohorts[7]["members"]), (&json!(8), &json!([0, 2])));
}
