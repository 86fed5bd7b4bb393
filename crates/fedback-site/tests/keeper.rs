//! A site under questions, right ones and wrong ones.

use std::path::Path;

use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_site::Keeper;
use fedback_site::message::{About, Gathered, Order, Reply, Request};
use fedback_site::{Ledger, Policy};

const ROWS: usize = 60;
const SPEC: &str = r#"
format = 1
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

fn cell(row: usize, column: usize) -> f64 {
    ((row * 7919 + column * 104_729) % 1009) as f64 / 16.0
}

/// A folder with a spec, rows and a policy; further keys go to the sections of the policy.
fn folder(plan: &str, limits: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    write("spec.toml", SPEC.into());
    write("rows-1.csv", rows(ROWS));
    let theta = if limits.contains("theta") { "" } else { "theta = 1000.0\n" };
    let text = format!(
        "name = \"oak\"\nclients = [1]\ndata = \"rows-{{client}}.csv\"\nsocket = \"oak.sock\"\n\
         ledger = \"oak.ledger\"\n[plan]\nspec = \"spec.toml\"\n{plan}\n[limits]\nrows = 9\n\
         answers = 6\nanswers_in_all = 10\n{theta}{limits}\n"
    );
    write("policy.toml", text);
    folder
}

fn rows(count: usize) -> String {
    let rows = (0..count).map(|row| format!("{},{},7\n", cell(row, 0), cell(row, 1)));
    format!("x,y,ssn\n{}", rows.collect::<String>())
}

fn policy(folder: &Path) -> Policy {
    Policy::read(&folder.join("policy.toml")).unwrap()
}

fn open(folder: &Path) -> Keeper {
    let policy = policy(folder);
    if !policy.ledger.exists() {
        Ledger::create(&policy.ledger, &policy.name, policy.id.as_deref()).unwrap();
    }
    Keeper::open(policy).unwrap()
}

fn about(keeper: &mut Keeper, set: &[&str]) -> About {
    let set = set.iter().map(|text| text.to_string()).collect();
    let gathered = Some(Gathered { rows: vec![50, ROWS as u64], sums: None });
    let mut about = About { set, point: None, plan_hash: "?".repeat(64), gathered };
    let refused = keeper.answer(&Request::Question(about.clone())).unwrap_err();
    // Whoever has the spec knows the hash; here the site's log is asked.
    let own = refused.reason.strip_prefix("the plan here is ").map(|text| text[..12].to_string());
    let found = own.unwrap_or_else(|| panic!("{}", refused.reason));
    about.plan_hash = full_hash(&about, &found);
    about
}

/// The hash of the plan, by way of the library.
fn full_hash(about: &About, beginning: &str) -> String {
    let mut document = fedback_lab::spec::Document::parse(SPEC, "spec.toml").unwrap();
    document.set("name=spec").unwrap();
    document.set(&format!("problem.base.rows=[50, {ROWS}]")).unwrap();
    about.set.iter().for_each(|set| document.set(set).unwrap());
    let point = document.points().unwrap().remove(0);
    let plan = fedback_lab::plan::Built::new(point, Path::new("."), "spec").unwrap();
    assert!(plan.hash.starts_with(beginning), "{} {beginning}", plan.hash);
    plan.hash.clone()
}

fn order(about: &About, round: u64, theta: [f64; 2]) -> Order {
    Order {
        about: about.clone(),
        round,
        seed: 7,
        thetas: theta.to_vec(),
        broadcast: 2,
        repetitions: vec![0],
        clients: vec![1],
        kept: vec![],
        keeps: 0,
    }
}

fn ask(keeper: &mut Keeper, order: &Order) -> Result<Vec<f64>, String> {
    match keeper.answer(&Request::Order(order.clone())) {
        Ok(Reply::Update { delta, .. }) => Ok(delta),
        Ok(other) => panic!("{other:?}"),
        Err(refused) => Err(refused.reason),
    }
}

/// The rows that a round draws, by hand.
fn drawn(round: u64) -> Vec<usize> {
    let stream = Streams::new(Seed(7), 0, round, Purpose::Data).client(1);
    (0..30).map(|draw| stream.index(draw, ROWS)).collect()
}

#[test]
fn an_update_is_that_of_the_rows_that_it_is_said_to_rest_on() {
    let folder = folder("", "");
    let mut keeper = open(folder.path());
    let about = about(&mut keeper, &[]);
    let delta = ask(&mut keeper, &order(&about, 0, [1.0, 2.0])).unwrap();
    // Two steps of size 1/2 towards the means of two batches of 15.
    for (column, start) in [1.0, 2.0].into_iter().enumerate() {
        let mean = |rows: &[usize]| rows.iter().map(|row| cell(*row, column)).sum::<f64>() / 15.0;
        let rows = drawn(0);
        let first = start + 0.5 * (mean(&rows[..15]) - start);
        let second = first + 0.5 * (mean(&rows[15..]) - first);
        assert!((delta[column] - (second - start)).abs() < 1e-12);
    }
}

#[test]
fn a_repeated_order_gets_the_same_answer_and_another_model_none() {
    let folder = folder("", "");
    let mut keeper = open(folder.path());
    let about = about(&mut keeper, &[]);
    let first = order(&about, 0, [1.0, 2.0]);
    let answer = ask(&mut keeper, &first).unwrap();
    assert_eq!(ask(&mut keeper, &first), Ok(answer.clone()));
    // The answer, and what the census of all sites is said to have come to.
    assert_eq!(keeper.ledger().entries(), 2);
    let other = ask(&mut keeper, &order(&about, 0, [1.0, 2.5])).unwrap_err();
    assert!(other.contains("was answered for another model"), "{other}");
    // A site that was started again remembers.
    drop(keeper);
    let mut keeper = open(folder.path());
    assert_eq!(ask(&mut keeper, &first), Ok(answer));
    assert!(ask(&mut keeper, &order(&about, 0, [1.0, 2.5])).is_err());
    assert_eq!(keeper.ledger().entries(), 2);
}

#[test]
fn answers_are_counted_by_plan_and_in_all() {
    let folder = folder("vary = { name = { one_of = [\"a\", \"b\", \"c\"] } }", "");
    let mut keeper = open(folder.path());
    let mut given = 0;
    // Six of a plan, and nine in all beside the census.
    for (name, first, most) in [("a", 0, 6), ("b", 10, 3), ("c", 20, 0)] {
        let about = about(&mut keeper, &[&format!("name={name}")]);
        for place in 0..8 {
            let answer = ask(&mut keeper, &order(&about, first + place, [0.0, 1.0]));
            assert_eq!(answer.is_ok(), place < most, "{name} {place} {answer:?}");
            given += u64::from(answer.is_ok());
            assert_eq!(keeper.ledger().entries(), 1 + given);
        }
    }
}

/// Another plan draws the same rows in the same round: what it asks at another model could be
/// subtracted.
#[test]
fn the_same_rows_are_not_shown_twice_under_another_name() {
    let folder = folder("vary = { name = { one_of = [\"a\", \"b\"] } }", "");
    let mut keeper = open(folder.path());
    let [first, second] = ["name=a", "name=b"].map(|name| about(&mut keeper, &[name]));
    ask(&mut keeper, &order(&first, 0, [0.0, 1.0])).unwrap();
    let refused = ask(&mut keeper, &order(&second, 0, [0.0, 2.0])).unwrap_err();
    assert!(refused.contains("which their difference would show"), "{refused}");
}

/// Counts and constants of all sites' rows scale the features: they are taken once, and have to be
/// plausible.
#[test]
fn a_census_does_not_change_at_will() {
    let folder = folder("", "");
    let text =
        SPEC.replace("features = [\"x\", \"y\"]", "features = [\"x\", \"y\"]\nstandardize = true");
    std::fs::write(folder.path().join("spec.toml"), &text).unwrap();
    let mut keeper = open(folder.path());
    let hash = |rows: &[u64], mean: f64, sd: f64| {
        let mut document = fedback_lab::spec::Document::parse(&text, "spec.toml").unwrap();
        let set = |document: &mut fedback_lab::spec::Document, key: &str, value: String| {
            document.set(&format!("{key}={value}")).unwrap();
        };
        set(&mut document, "name", "spec".into());
        set(&mut document, "problem.base.rows", format!("{rows:?}"));
        set(&mut document, "problem.base.mean", format!("[{mean:?}, 30.0]"));
        set(&mut document, "problem.base.sd", format!("[{sd:?}, 20.0]"));
        let point = document.points().unwrap().remove(0);
        fedback_lab::plan::Built::new(point, Path::new("."), "spec").unwrap().hash.clone()
    };
    let mut ask = |rows: &[u64], mean: f64, sd: f64, right: bool| {
        let sums = Some([vec![mean, 30.0], vec![sd, 20.0]]);
        let gathered = Some(Gathered { rows: rows.to_vec(), sums });
        let plan_hash = if right { hash(rows, mean, sd) } else { "0".repeat(64) };
        let about = About { gathered, plan_hash, ..About::default() };
        let answer = keeper.answer(&Request::Question(about));
        (answer.map_or_else(|refused| refused.reason, |_| "held".into()), keeper.ledger().entries())
    };
    let (own, before) = (ROWS as u64, "rows were counted before, and came to something else");
    // A question that is wrong otherwise, or of other counts, costs and tells nothing.
    for mean in [30.0, 1e6] {
        let (refused, entries) = ask(&[50, own], mean, 20.0, false);
        assert!(refused.starts_with("the plan here is") && entries == 0, "{refused}");
        let (refused, entries) = ask(&[50, own + 1], mean, 20.0, true);
        assert!(refused.starts_with("the plan cannot be built") && entries == 0, "{refused}");
    }
    for sd in [f64::NAN, -20.0, 0.0] {
        let (refused, entries) = ask(&[50, own], 30.0, sd, false);
        assert!(refused.starts_with("the ") && entries == 0, "{refused}");
    }
    // What is not plausible tells a little, and is told three times.
    for (place, (mean, sd)) in [(30.0, 0.1), (1e6, 20.0), (30.0, 0.1)].into_iter().enumerate() {
        let (refused, entries) = ask(&[50, own], mean, sd, true);
        assert!(refused.starts_with("the means and standard deviations are not"), "{refused}");
        assert_eq!(entries, [1, 2, 2][place]);
    }
    assert_eq!(ask(&[50, own], 30.0, 20.0, true), ("held".into(), 3));
    assert_eq!(ask(&[50, own], 30.0, 20.0, true), ("held".into(), 3));
    for (rows, mean) in [(51, 30.0), (50, 30.5), (50, 1e7)] {
        assert_eq!(ask(&[rows, own], mean, 20.0, true), (before.into(), 3));
    }
}

#[test]
fn constants_are_not_tried_for_ever() {
    let folder = folder("", "");
    let mut keeper = open(folder.path());
    let mut reasons = Vec::new();
    for try_ in 0..6 {
        let sums = Some([vec![1e6 + f64::from(try_), 0.0], vec![1.0, 1.0]]);
        let gathered = Some(Gathered { rows: vec![50, ROWS as u64], sums });
        let mut about = About { gathered, ..About::default() };
        let mut document = fedback_lab::spec::Document::parse(SPEC, "spec.toml").unwrap();
        for set in [
            "name=spec".to_string(),
            format!("problem.base.rows=[50, {ROWS}]"),
            format!("problem.base.mean=[{:?}, 0.0]", 1e6 + f64::from(try_)),
            "problem.base.sd=[1.0, 1.0]".to_string(),
        ] {
            document.set(&set).unwrap();
        }
        let point = document.points().unwrap().remove(0);
        let plan = fedback_lab::plan::Built::new(point, Path::new("."), "spec").unwrap();
        about.plan_hash = plan.hash.clone();
        reasons.push(keeper.answer(&Request::Question(about)).unwrap_err().reason);
    }
    assert!(reasons[..3].iter().all(|reason| reason.starts_with("the means and standard")));
    assert!(reasons[3..].iter().all(|reason| reason.starts_with("rows were counted before")));
    assert_eq!(keeper.ledger().entries(), 3);
}

#[test]
fn what_is_not_the_operators_is_refused() {
    let vary = "vary = { seed = [0, 9], \"algorithm.scheme\" = { one_of = [\"full\"] } }";
    let folder = folder(vary, "theta = 50.0\nclip = 100.0");
    let mut keeper = open(folder.path());
    let good = about(&mut keeper, &[]);
    let question = |keeper: &mut Keeper, set: &str| {
        let about = About { set: vec![set.into()], ..good.clone() };
        keeper.answer(&Request::Question(about)).unwrap_err().reason
    };
    for (set, why) in [
        ("problem.base={kind='sites',features=['ssn']}", "problem.base is not the operator's"),
        ("problem.base.features=['ssn']", "problem.base.features is not the operator's"),
        ("algorithm.batch=1", "algorithm.batch is not the operator's"),
        ("seed=10", "seed may be 0 to 9"),
        ("seed=nan", "seed may be 0 to 9"),
        ("seed='7'", "seed may be 0 to 9"),
        ("seed = 3\nrounds = 9", "seed may be 0 to 9"),
        ("algorithm.scheme=first-arrivals", "algorithm.scheme may be \"full\""),
        ("seed", "what is set has no ="),
        ("", "what is set has no ="),
    ] {
        let found = question(&mut keeper, set);
        assert!(found.starts_with(why), "{set}: {found}");
    }
    let wrong = |change: &dyn Fn(&mut Order)| {
        let mut order = order(&good, 0, [1.0, 2.0]);
        change(&mut order);
        order
    };
    let long = wrong(&|order| order.thetas = vec![40.0, 40.0]);
    let cases: [(Order, &str); 9] = [
        (wrong(&|order| order.seed = 8), "the streams' key is not the plan's seed"),
        (wrong(&|order| order.round = 40), "round 40 of 40"),
        (wrong(&|order| order.clients = vec![0]), "client 0 is not held here"),
        (wrong(&|order| order.repetitions = vec![1]), "the order is of another shape"),
        (wrong(&|order| order.thetas = vec![1.0]), "the order is of another shape"),
        (wrong(&|order| order.kept = vec![1.0]), "the order is of another shape"),
        (wrong(&|order| order.thetas[1] = f64::NAN), "the model has a number that is not finite"),
        (long, "the model is 5.657e1 long, here up to 50"),
        (wrong(&|order| order.about.plan_hash = "ä".repeat(40)), "the plan here is"),
    ];
    for (order, why) in cases {
        let found = ask(&mut keeper, &order).unwrap_err();
        assert!(found.starts_with(why), "{found}");
    }
    let mut twice = order(&good, 0, [1.0, 2.0]);
    (twice.clients, twice.repetitions) = (vec![1, 1], vec![0, 0]);
    assert!(ask(&mut keeper, &twice).unwrap_err().starts_with("the order is of another shape"));
    assert_eq!(keeper.ledger().entries(), 1, "nothing refused is counted");
}

/// Every step is judged by hand: how many different rows it rests on, and in how many it differs from
/// each that was answered before.
#[test]
fn rows_that_are_few_or_few_others_are_not_shown() {
    let folder = folder("", "");
    let path = folder.path().join("policy.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("rows = 9", "rows = 13").replace("answers = 6", "answers = 100");
    std::fs::write(&path, text.replace("answers_in_all = 10", "answers_in_all = 200")).unwrap();
    let mut keeper = open(folder.path());
    let about = about(&mut keeper, &[]);
    let counts = |rows: &[usize]| {
        let mut counts = [0_i32; ROWS];
        rows.iter().for_each(|row| counts[*row] += 1);
        counts
    };
    let (mut few, mut near, mut given) = (0, 0, Vec::<[i32; ROWS]>::new());
    for round in 0..40 {
        let steps = [0, 15].map(|first| counts(&drawn(round)[first..first + 15]));
        let distinct = |counts: &[i32; ROWS]| counts.iter().filter(|count| **count > 0).count();
        let differing =
            |a: &[i32; ROWS], b: &[i32; ROWS]| a.iter().zip(b).filter(|(a, b)| a != b).count();
        let close = |step: &[i32; ROWS]| given.iter().any(|other| differing(step, other) < 13);
        let answer = ask(&mut keeper, &order(&about, round, [0.0, round as f64]));
        let least = steps.iter().map(distinct).min().unwrap();
        match (least < 13, steps.iter().any(close) || differing(&steps[0], &steps[1]) < 13) {
            (true, _) => {
                few += 1;
                let found = answer.unwrap_err();
                assert!(found.starts_with("client 1: a step would rest on"), "{found}");
            }
            (false, true) => {
                near += 1;
                assert!(answer.unwrap_err().contains("which their difference would show"));
            }
            (false, false) => {
                answer.unwrap();
                given.extend(steps);
            }
        }
    }
    assert!(few > 5 && given.len() > 5, "{few} {near} {}", given.len());
}

#[test]
fn a_census_of_rows_that_changed_a_little_is_refused() {
    let folder = folder("", "");
    let census = Request::Census { set: vec![], mean: None };
    let mut keeper = open(folder.path());
    let Ok(Reply::Count { rows: counted, sums, .. }) = keeper.answer(&census) else { panic!() };
    assert_eq!(counted, [ROWS as u64]);
    let sum = |column: usize| (0..ROWS).map(|row| cell(row, column)).sum::<f64>();
    assert!((sums[0] - sum(0)).abs() < 1e-9 && (sums[1] - sum(1)).abs() < 1e-9);
    assert!(keeper.answer(&census).is_ok());
    assert_eq!(keeper.ledger().entries(), 1, "the same question, the same answer");
    drop(keeper);
    // One person more: the difference of the two sums would be that person.
    std::fs::write(folder.path().join("rows-1.csv"), rows(ROWS + 1)).unwrap();
    let mut keeper = open(folder.path());
    let refused = keeper.answer(&census).unwrap_err().reason;
    assert!(refused.contains("which their difference would show"), "{refused}");
    drop(keeper);
    std::fs::write(folder.path().join("rows-1.csv"), rows(ROWS + 10)).unwrap();
    assert!(open(folder.path()).answer(&census).is_ok());
}

#[test]
fn what_is_read_cannot_vary() {
    for key in ["problem", "problem.base", "problem.base.features"] {
        let folder = folder(&format!("vary = {{ \"{key}\" = {{ one_of = [1] }} }}"), "");
        let refused = Policy::read(&folder.path().join("policy.toml")).unwrap_err().to_string();
        assert!(refused.contains("what is read is the site's to say"), "{refused}");
    }
}

#[test]
fn a_column_that_is_not_allowed_is_not_read() {
    let folder = folder("columns = [\"x\"]", "");
    let policy = policy(folder.path());
    Ledger::create(&policy.ledger, &policy.name, policy.id.as_deref()).unwrap();
    let refused = Keeper::open(policy).err().unwrap().to_string();
    assert!(refused.contains("column \"y\" is not to be read here"), "{refused}");
}

#[test]
fn a_plan_with_another_hash_or_a_larger_clip_is_refused() {
    let pinned = folder(&format!("hash = \"{}\"", "0".repeat(64)), "");
    let mut keeper = open(pinned.path());
    let about = about(&mut keeper, &[]);
    let refused = keeper.answer(&Request::Question(about)).unwrap_err().reason;
    assert!(refused.ends_with("is not the one agreed on"), "{refused}");
    let tight = folder("", "clip = 99.0");
    let mut keeper = open(tight.path());
    let gathered = Some(Gathered { rows: vec![50, ROWS as u64], sums: None });
    let about = About { gathered, ..About::default() };
    let refused = keeper.answer(&Request::Question(about)).unwrap_err().reason;
    assert_eq!(refused, "the plan's algorithm.clip must be at most 99 here");
}
