//! What a lying client can do, against a fixed point worked out by hand and a server that is lied to.

use std::path::Path;

use fedback_lab::check::Check;
use fedback_lab::plan::Plan;
use fedback_lab::spec::Document;
use fedback_theory::certificate::Verdict;

const WEIGHTS: [f64; 3] = [0.5, 0.3, 0.2];
const MEANS: [f64; 3] = [1.0, 2.0, 4.0];
const SENSITIVITIES: [f64; 3] = [0.2, 0.5, 0.6];

fn plan(algorithm: &str) -> Plan {
    let spec = format!(
        r#"
        rounds = 600
        problem.weights = {WEIGHTS:?}
        problem.base = {{ kind = "gaussian", mean = {MEANS:?}, noise = 0.0 }}
        problem.response = {{ kind = "location", sensitivity = {SENSITIVITIES:?} }}
        problem.loss = {{ kind = "mean" }}
        [algorithm]
        kind = "p-fedavg"
        local_steps = 2
        step_size = {{ constant = 0.1 }}
        {algorithm}
        "#
    );
    let document = Document::parse(&spec, "lies").unwrap();
    Plan::new(document.points().unwrap().remove(0), Path::new("."), "lies").unwrap()
}

fn check(plan: &Plan) -> Check {
    Check::of(plan, &mut |_| {}).unwrap()
}

/// Where θ rests: every client's two steps pull it towards its own point by a factor, and what one of
/// them says instead is `push`, once a round.
fn rest(liar: Option<(usize, f64)>) -> f64 {
    let (mut pull, mut towards) = (0.0, 0.0);
    for client in 0..3 {
        if let Some((_, push)) = liar.filter(|liar| liar.0 == client) {
            towards += WEIGHTS[client] * push;
            continue;
        }
        let slope = 1.0 - SENSITIVITIES[client];
        let factor = WEIGHTS[client] * (1.0 - (1.0 - 0.1 * slope).powi(2));
        pull += factor;
        towards += factor * MEANS[client] / slope;
    }
    towards / pull
}

#[test]
fn a_liar_holds_the_model_where_its_push_and_the_others_balance() {
    let plan = plan("scheme = \"full\"\nclip = 8.0");
    let check = check(&plan);
    assert_eq!(check.verdict, Verdict::Unknown);
    assert!(check.reason.contains("without it, it would be: settles"), "{}", check.reason);
    let tried = check.lying.unwrap();
    assert_eq!((tried.rounds, tried.shortened), (600, 0.0));
    for (client, one) in check.per_client.iter().enumerate() {
        // Two steps of 0.1, and nobody is longer than the clip.
        let push = 8.0 * 0.2;
        let bound = one.lying.one_round.unwrap();
        assert!((bound - WEIGHTS[client] * push).abs() < 1e-9, "{bound}");
        let far = |push: f64| (rest(Some((client, push))) - rest(None)).abs();
        let expected = far(push).max(far(-push));
        let tried = one.lying.tried.unwrap();
        // Against half of the weight the clip shortens the others, and they give way.
        match client {
            0 => assert!(tried > 1.2 * expected, "{tried} {expected}"),
            _ => assert!((tried - expected).abs() < 1e-6 * expected, "{tried} {expected}"),
        }
    }
}

/// Half of the weight, and a clip that stops the others from pulling back: nothing holds the model.
#[test]
fn who_has_half_of_the_weight_moves_the_model_for_ever() {
    let check = check(&plan("scheme = \"full\"\nclip = 0.01"));
    let (rounds, lie) = (check.lying.as_ref().unwrap().rounds as f64, check.per_client[0].lying);
    assert!(check.lying.unwrap().shortened > 0.5);
    // 0.5 against 0.5: it holds θ where it began, or drives it on together with the others.
    let most = rounds * 0.5 * 0.01 * 0.2;
    assert!(lie.tried.unwrap() > 0.5 * most, "{:?} of {most}", lie.tried);
    assert!(lie.tried.unwrap() < 2.0 * most);
}

#[test]
fn a_member_of_a_small_cohort_moves_it_more_at_once() {
    let one_round =
        |algorithm: &str| check(&plan(algorithm)).per_client[1].lying.one_round.unwrap();
    let full = one_round("scheme = \"full\"\nclip = 0.5");
    assert!((full - 0.3 * 0.1).abs() < 1e-12);
    let drawn = one_round("scheme = \"without-replacement\"\ncohort = 1\nclip = 0.5");
    assert!((drawn - 3.0 * full).abs() < 1e-12);
    let with = one_round("scheme = \"with-replacement\"\ncohort = 2\nclip = 0.5");
    assert!((with - 0.5 * 0.1).abs() < 1e-12);
}

/// Without a clip, what the server knows of the populations bounds a round, and nothing is tried.
#[test]
fn without_a_clip_honest_work_is_the_bound() {
    let check = check(&plan("scheme = \"full\""));
    assert!(check.lying.is_none());
    assert_eq!(check.verdict, Verdict::Settles);
    let lie = check.per_client[2].lying;
    assert!(lie.tried.is_none());
    assert!(lie.one_round.unwrap() > 0.2 * 0.1 * 4.0, "{:?}", lie.one_round);
}
