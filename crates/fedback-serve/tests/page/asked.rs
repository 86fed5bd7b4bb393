//! Several runs side by side.

use serde_json::json;

use super::{get, record, serve};

#[test]
fn runs_are_compared_as_the_command_does() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    let sweep = "sweep={\"algorithm.local_steps\"=[1,2,5],\"algorithm.cohort\"=[1,2]}";
    record(&store, "sweep", &[sweep]);
    let address = serve(&[&store]);
    let all = "runs=0.1,0.2,0.3,0.4,0.5,0.6";
    let found = get(address, &format!("/api/compare?{all}")).json();
    assert_eq!(found["problem"], json!(null));
    let steps = &found["differs"]["spec.algorithm.local_steps"];
    assert_eq!(steps.as_array().unwrap().len(), 6);
    let map = format!("/api/compare?{all}&x=local_steps&map=cohort&y=distance_sq");
    let map = get(address, &map).json();
    assert_eq!(map["svg"].as_str().unwrap().matches("class=\"cell\"").count(), 6);
    let csv = get(address, &format!("/api/compare.csv?{all}"));
    assert_eq!(csv.body.lines().count(), 7, "{}", csv.body);
}

#[test]
fn a_comparison_that_makes_no_sense_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    record(&store, "plain", &[]);
    let address = serve(&[&store]);
    for (asked, words) in [
        ("", "found 0 runs"),
        ("runs=0.1,0.1", "twice"),
        ("runs=x", "allowed: STORE.RUN"),
        ("runs=0.1&banana=1", "unknown field"),
    ] {
        let answer = get(address, &format!("/api/compare?{asked}"));
        assert!(answer.status == 400 && answer.body.contains(words), "{asked}: {}", answer.body);
    }
    let drawn = get(address, "/api/compare?runs=0.1&x=nothing").json();
    assert!(drawn["svg"].is_null() && drawn["problem"].as_str().unwrap().contains("nothing"));
}
