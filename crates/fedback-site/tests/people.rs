//! Whom rows are about: people are known again whatever is read of them.

use std::path::Path;

use fedback_lab::plan::Built;
use fedback_lab::spec::Document;
use fedback_site::message::{About, Gathered, Order, Reply, Request};
use fedback_site::{Keeper, Ledger, Policy};
use rusqlite::Connection;

const ROWS: usize = 60;
const SPEC: &str = r#"
format = 1
name = "study"
seed = 7
rounds = 40

[problem]
clients = 1

[problem.base]
kind = "sites"
features = ["x", "y"]

[problem.loss]
kind = "mean"

[algorithm]
kind = "p-fedavg"
scheme = "full"
local_steps = 1
batch = 15
deploy = "round"
step_size = { constant = 0.5 }
clip = 100.0
"#;

/// A folder with a policy, whose own keys and whose rows are given.
fn folder(keys: &str, rows: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"oak\"\nclients = [0]\ndata = \"rows.csv\"\nsocket = \"oak.sock\"\n\
         ledger = \"oak.ledger\"\n{keys}\n[plan]\nspec = \"spec.toml\"\n[limits]\nrows = 9\n\
         answers = 20\nanswers_in_all = 20\ntheta = 1000.0\ncensuses = 4\n"
    );
    write(folder.path(), "policy.toml", &text);
    write(folder.path(), "rows.csv", rows);
    folder
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// Rows with a name for everybody; so many people, over and over.
fn rows(people: usize) -> String {
    let cell = |row: usize, column: usize| (row * 7919 + column * 104_729) % 1009;
    let row = |row: usize| format!("{},{},p{}\n", cell(row, 0), cell(row, 1), row % people);
    format!("x,y,who\n{}", (0..ROWS).map(row).collect::<String>())
}

/// The site, on a spec of its own.
struct Site {
    keeper: Keeper,
    about: About,
    dim: usize,
}

impl Site {
    fn new(folder: &Path, spec: &str) -> Self {
        Site::counted(folder, spec, vec![ROWS as u64])
    }

    /// With so many rows of every client.
    fn counted(folder: &Path, spec: &str, rows: Vec<u64>) -> Self {
        write(folder, "spec.toml", spec);
        let policy = Policy::read(&folder.join("policy.toml")).unwrap();
        if !policy.ledger.exists() {
            Ledger::create(&policy.ledger, &policy.name, policy.id.as_deref()).unwrap();
        }
        let mut document = Document::read(&policy.plan.spec).unwrap();
        document.set(&format!("problem.base.rows={rows:?}")).unwrap();
        let point = document.points().unwrap().remove(0);
        let plan = Built::new(point, folder, "spec").unwrap();
        let gathered = Some(Gathered { rows, sums: None });
        let about = About { plan_hash: plan.hash.clone(), gathered, ..About::default() };
        Site { keeper: Keeper::open(policy).unwrap(), about, dim: plan.dim }
    }

    fn ask(&mut self, round: u64) -> Result<Vec<f64>, String> {
        self.ask_of(0, round)
    }

    fn ask_of(&mut self, client: u32, round: u64) -> Result<Vec<f64>, String> {
        let order = Order {
            about: self.about.clone(),
            round,
            seed: 7,
            thetas: vec![1.0; self.dim],
            broadcast: self.dim,
            repetitions: vec![0],
            clients: vec![client],
            kept: vec![],
            keeps: 0,
        };
        match self.keeper.answer(&Request::Order(order)) {
            Ok(Reply::Update { delta, .. }) => Ok(delta),
            Ok(other) => panic!("{other:?}"),
            Err(refused) => Err(refused.reason),
        }
    }
}

/// A study that reads other columns draws the same people under the same seed.
#[test]
fn people_are_known_when_other_columns_are_read() {
    for keys in ["", "id = \"who\""] {
        let folder = folder(keys, &rows(ROWS));
        Site::new(folder.path(), SPEC).ask(0).unwrap();
        for columns in ["[\"x\"]", "[\"y\"]", "[\"y\", \"x\"]"] {
            let mut other = Site::new(folder.path(), &SPEC.replace("[\"x\", \"y\"]", columns));
            let refused = other.ask(0).unwrap_err();
            assert!(refused.contains("which their difference would show"), "{columns}: {refused}");
        }
    }
}

/// Columns of a file that change places change nobody; a column of names outlives a new one.
#[test]
fn people_are_known_in_a_file_that_was_edited() {
    let swapped = |text: &str, more: &str| {
        let swap = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{},{},{}{}\n", cells[2], cells[0], cells[1], more)
        };
        text.lines().map(swap).collect::<String>()
    };
    for (keys, more) in [("", ""), ("id = \"who\"", ",z")] {
        let folder = folder(keys, &rows(ROWS));
        Site::new(folder.path(), SPEC).ask(0).unwrap();
        write(folder.path(), "rows.csv", &swapped(&rows(ROWS), more));
        let refused = Site::new(folder.path(), &SPEC.replace("[\"x\", \"y\"]", "[\"x\"]")).ask(0);
        assert!(refused.unwrap_err().contains("which their difference would show"), "{keys}");
    }
}

/// Rows of eight people are eight, however much their numbers differ.
#[test]
fn rows_of_the_same_person_count_once_where_an_id_says_so() {
    let named = folder("id = \"who\"", &rows(8));
    let mut site = Site::new(named.path(), SPEC);
    let refused = site.ask(0).unwrap_err();
    assert_eq!(refused, "a client has fewer than 9 different rows");
    let without = folder("", &rows(8));
    assert!(Site::new(without.path(), SPEC).ask(0).is_ok());
    // What is read counts all the same: equal rows are one, whatever their names.
    let equal = (0..ROWS).map(|row| format!("{},1,p{row}\n", row % 8));
    let equal = folder("id = \"who\"", &format!("x,y,who\n{}", equal.collect::<String>()));
    assert!(Site::new(equal.path(), SPEC).ask(0).is_err());
}

/// Two clients that share all but a few people are one client with and without these.
#[test]
fn people_are_known_whichever_client_they_are_counted_with() {
    let spec = SPEC.replace("clients = 1", "clients = 2").replace("batch = 15", "batch = \"all\"");
    for (others, shown) in [(0, true), (1, false), (8, false), (9, true)] {
        let folder = folder("", "");
        let path = folder.path().join("policy.toml");
        let policy = std::fs::read_to_string(&path).unwrap();
        let policy = policy.replace("[0]", "[0, 1]").replace("rows.csv", "rows-{client}.csv");
        std::fs::write(&path, policy).unwrap();
        let all = rows(ROWS);
        write(folder.path(), "rows-0.csv", &all);
        let fewer: Vec<&str> = all.lines().take(1 + ROWS - others).collect();
        write(folder.path(), "rows-1.csv", &(fewer.join("\n") + "\n"));
        let counts = vec![ROWS as u64, (ROWS - others) as u64];
        let mut site = Site::counted(folder.path(), &spec, counts);
        site.ask_of(0, 0).unwrap();
        match site.ask_of(1, 0) {
            Ok(_) => assert!(shown, "{others}"),
            Err(why) => assert!(!shown && why.contains("difference would show"), "{why}"),
        }
    }
}

/// Models near the largest number would tell how large rows are, again and again.
#[test]
fn that_an_answer_is_not_finite_is_told_once() {
    let large =
        (0..ROWS).map(|row| format!("{},{row},p{row}\n", if row < 30 { 0.0 } else { 9e307 }));
    let folder = folder("", &format!("x,y,who\n{}", large.collect::<String>()));
    let mut site = Site::new(folder.path(), SPEC);
    assert!(site.ask(0).unwrap_err().contains("not finite"));
    let entries = site.keeper.ledger().entries();
    assert_eq!(entries, 2, "the refusal, and the census");
    assert!(site.ask(0).unwrap_err().contains("was refused before"));
    assert_eq!(site.keeper.ledger().entries(), entries);
}

#[test]
fn a_refusal_by_rows_counts_and_is_not_tried_again() {
    // Two of three rows are equal: some steps hit too few different ones.
    let some = (0..ROWS).map(|row| format!("{},1,p{row}\n", if row < 45 { 0 } else { row }));
    let folder = folder("", &format!("x,y,who\n{}", some.collect::<String>()));
    let mut site = Site::new(folder.path(), SPEC);
    let refused = site.ask(0).unwrap_err();
    assert!(refused.ends_with("fewer than 9 different rows"), "{refused}");
    // The refusal, and the census.
    let entries = site.keeper.ledger().entries();
    assert_eq!(entries, 2);
    assert!(site.ask(0).unwrap_err().contains("was refused before"));
    assert_eq!(site.keeper.ledger().entries(), entries);
}

#[test]
fn an_id_is_a_column_that_says_of_everybody_who_it_is() {
    let fails = |keys: &str, rows: &str| {
        let folder = folder(keys, rows);
        write(folder.path(), "spec.toml", SPEC);
        let policy = Policy::read(&folder.path().join("policy.toml")).unwrap();
        Ledger::create(&policy.ledger, &policy.name, policy.id.as_deref()).unwrap();
        Keeper::open(policy).err().unwrap().to_string()
    };
    let found = fails("id = \"whom\"", &rows(9));
    assert!(found.contains("no id column \"whom\"; did you mean \"who\"?"), "{found}");
    let found = fails("id = \"who\"", "x,y,who\n1,2,a\n3,4,\n");
    assert!(found.contains("line 3, column \"who\": the cell is missing"), "{found}");
    for (keys, why) in [("id = \"\"", "id: found \"\""), ("", "id: is a column of data")] {
        let folder = folder(keys, "");
        let path = folder.path().join("policy.toml");
        if keys.is_empty() {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, text.replace("data = \"rows.csv\"", "id = \"who\"")).unwrap();
        }
        let found = Policy::read(&path).unwrap_err().to_string();
        assert!(found.contains(why), "{found}");
    }
}

/// A ledger stays with the names that it has; one of the first format knows whole lines from now on.
#[test]
fn a_ledger_says_by_what_it_knows_people() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("oak.ledger");
    let open = || Ledger::open(&path, "oak");
    Ledger::create(&path, "oak", Some("who")).unwrap();
    open().unwrap().check_id(Some("who")).unwrap();
    let found = open().unwrap().check_id(None).unwrap_err().to_string();
    assert!(found.contains("put id = \"who\" into the policy"), "{found}");
    for change in ["UPDATE site SET id = 'x'", "UPDATE site SET id = NULL"] {
        let whole = std::fs::read(&path).unwrap();
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        assert!(open().is_err(), "{change}");
        std::fs::write(&path, whole).unwrap();
    }
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/ledgers");
    for name in ["oak.ledger", "oak.ledger.seal"] {
        std::fs::copy(corpus.join(name), folder.path().join(name)).unwrap();
    }
    let old = open().unwrap();
    old.check_id(None).unwrap();
    let found = old.check_id(Some("who")).unwrap_err().to_string();
    assert!(found.contains("leave id out of the policy"), "{found}");
}
