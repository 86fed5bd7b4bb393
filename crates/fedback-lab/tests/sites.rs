//! Rows that lie at sites: the same constants, weights and updates as one table with all of them.

use std::path::PathBuf;

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_core::stream::Seed;
use fedback_lab::plan::{Asked, Census, CustomPlan, Given, Plan, SiteTables};
use fedback_lab::spec::{Document, Point};

const COMMON: &str = r#"
rounds = 5
seed = 3
[algorithm]
kind = "p-fedavg"
scheme = "full"
local_steps = 3
batch = 4
step_size = { constant = 0.2 }
[problem.response]
kind = "best-response"
features = ["debt"]
sensitivity = { low = 0.2, high = 1.2 }
[problem.loss]
kind = "logistic"
l2 = 0.1
"#;

fn point(base: &str) -> Point {
    let document = Document::parse(&format!("{COMMON}\n{base}"), "test").unwrap();
    document.points().unwrap().swap_remove(0)
}

const SITES: &str = r#"
[problem]
clients = 3
[problem.base]
kind = "sites"
features = ["income", "debt"]
label = "default"
standardize = true
intercept = true
"#;

/// Uneven banks, numbers without pattern; columns in another order than θ's at the sites.
fn write(folder: &std::path::Path) -> Vec<(usize, PathBuf)> {
    let mut all = String::from("income,debt,default,bank\n");
    let mut files = Vec::new();
    let mut number = 0.37;
    for (client, (bank, rows)) in [("a", 7), ("b", 19), ("c", 12)].into_iter().enumerate() {
        let mut own = String::from("note,default,debt,income\n");
        for row in 0..rows {
            number = (number * 997.0_f64).fract();
            let (income, debt, label) = (100.0 * number - 20.0, number * number, row % 2);
            all += &format!("{income},{debt},{label},{bank}\n");
            own += &format!("hello,{label},{debt},{income}\n");
        }
        let path = folder.join(format!("{bank}.csv"));
        std::fs::write(&path, own).unwrap();
        files.push((client, path));
    }
    std::fs::write(folder.join("all.csv"), all).unwrap();
    files
}

#[test]
fn sites_do_what_one_table_does() {
    let folder = tempfile::tempdir().unwrap();
    let files = write(folder.path());
    let whole = point(
        "[problem.base]\nkind = \"table\"\npath = \"all.csv\"\nlabel = \"default\"\n\
         partition = { column = \"bank\" }\nstandardize = true\nintercept = true\n",
    );
    let (plan, federation) = Plan::site(whole, folder.path(), "whole").unwrap();

    let empty = point(SITES);
    let error = CustomPlan::new(empty.clone(), folder.path(), "spec").unwrap_err().to_string();
    assert_eq!(
        error,
        "spec: problem.base.rows: is missing; the Flower app gathers it from the sites"
    );
    let read = |files: &[(usize, PathBuf)]| SiteTables::read(&empty.spec, files, "spec").unwrap();
    // The second site holds two of the clients, and answers first.
    let sites = [read(&[files[2].clone(), files[0].clone()]), read(&files[1..2])];
    let mut told: Vec<_> = sites.iter().flat_map(SiteTables::sums).collect();
    told.sort_by_key(|(client, ..)| *client);
    let census = Census::new(
        told.iter().map(|(_, rows, _)| *rows).collect(),
        told.into_iter().map(|(_, _, sums)| sums).collect(),
    );
    let mut told: Vec<_> = sites.iter().flat_map(|site| site.squares(&census.mean)).collect();
    told.sort_by_key(|(client, _)| *client);
    let squares = told.into_iter().map(|(_, squares)| squares).collect();
    let names = ["income".to_string(), "debt".to_string()];
    let sd = census.deviations(squares, &names).unwrap();
    let gathered = point(&format!(
        "{SITES}\nrows = {:?}\nmean = {:?}\nsd = {sd:?}\n",
        census.rows, census.mean
    ));

    let outline = CustomPlan::new(gathered.clone(), folder.path(), "spec").unwrap();
    assert_eq!(outline.weights, plan.weights);
    assert_eq!(outline.coordinates.as_deref().unwrap(), federation.coordinates().unwrap());
    let theta = [0.3, -0.7, 0.1];
    for site in &sites {
        let (site_plan, part) = site.site(&gathered, folder.path(), "spec").unwrap();
        assert_eq!(site_plan.hash, outline.hash);
        let asked: Vec<Asked> = site
            .sums()
            .iter()
            .map(|(client, ..)| Asked { repetition: 0, client: ClientId(*client as u32) })
            .collect();
        let key = (Seed(3), Round(2));
        let given = Given { asked: &asked, broadcasts: &theta, kept: &[] };
        let there = site_plan.work(&part, key, given).unwrap();
        assert_eq!(there, plan.work(&federation, key, given).unwrap());
    }
}

/// A site and the server name a plan alike, also where latencies are read from a file.
#[test]
fn sites_and_server_agree_on_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |seconds: f64| {
        let text = format!("client,seconds\n0,1.0\n1,{seconds}\n2,3.0\n");
        std::fs::write(folder.path().join("trace.csv"), text).unwrap();
        let text = r#"
            rounds = 5
            [problem]
            base = { kind = "gaussian", mean = [1.0, 2.0, 3.0] }
            response = { kind = "location", sensitivity = [0.1, 0.2, 0.3] }
            loss = { kind = "mean" }
            [algorithm]
            kind = "p-fedavg"
            scheme = "first-arrivals"
            cohort = 2
            latency = { kind = "trace", path = "trace.csv" }
            step_size = { constant = 0.2 }
        "#;
        let document = Document::parse(text, "test").unwrap();
        let point = document.points().unwrap().swap_remove(0);
        let (site, _) = Plan::site(point.clone(), folder.path(), "test").unwrap();
        let plan: Plan = Plan::new(point, folder.path(), "test").unwrap();
        assert_eq!(site.hash, plan.hash);
        site.hash
    };
    assert_ne!(trace(2.0), trace(2.5));
}

#[test]
fn what_a_site_cannot_use_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let files = write(folder.path());
    let empty = point(SITES);
    let fails = |spec: &str, files: &[(usize, PathBuf)]| {
        SiteTables::read(&point(spec).spec, files, "spec").unwrap_err().to_string()
    };
    let gone = (1, folder.path().join("none.csv"));
    assert!(fails(SITES, &[gone]).contains("none.csv cannot be read"));
    assert!(fails(SITES, &[(3, files[0].1.clone())]).contains("not one of 0 to 2"));
    let other = SITES.replace("debt", "debts");
    assert!(fails(&other, &files).contains("no feature column \"debts\""));
    let twice = SITES.replace("\"debt\"]", "\"income\"]");
    assert!(fails(&twice, &files).contains("\"income\" is listed twice"));
    let changed = point(&format!("{SITES}\nrows = [7, 18, 12]\nmean = [0, 0]\nsd = [1, 1]\n"));
    let tables = SiteTables::read(&empty.spec, &files, "spec").unwrap();
    let error = tables.site(&changed, folder.path(), "spec").unwrap_err().to_string();
    assert!(error.ends_with("client 1 had 18 rows when sums were gathered, now 19"), "{error}");
}
