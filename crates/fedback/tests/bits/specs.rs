//! Small specs of all kinds, and the tables they name. Integers and exact fractions make them, the
//! same on every machine.

use std::fmt::Write;

/// A spec and its name.
pub struct Case {
    pub name: String,
    pub toml: String,
}

const SITES: usize = 5;
const SHAPES: [&str; 9] =
    ["none", "number", "numbers", "vectors", "matrices", "mixed", "normal", "normals", "uniform"];
const LARGEST: usize = 20;
const WIDE: [usize; 2] = [33, 70];
const STEPS: [&str; 3] =
    ["{ constant = 0.02 }", "{ constant = 0.05 }", "{ beta = 1.5, gamma = 40.0 }"];

pub fn cases() -> Vec<Case> {
    let mut choice = Choice(8);
    let mut cases = Vec::new();
    for dim in [1, 2, 3, 5, 8, 19] {
        for shape in SHAPES {
            let turn = cases.len();
            cases.push(gaussian(dim, shape, turn, &mut choice));
        }
    }
    for loss in ["mean", "squared", "logistic"] {
        for dim in (1..=LARGEST).chain(WIDE) {
            let turn = cases.len();
            cases.push(table(loss, dim, turn, &mut choice));
            let other = table(loss, dim, turn + 5, &mut choice);
            cases.push(Case { name: format!("{}-other", other.name), ..other });
        }
    }
    cases.extend(schemes(&mut choice));
    cases.extend(special());
    cases
}

/// A seeded choice (SplitMix64).
struct Choice(u64);

impl Choice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % count as u64) as usize
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn yes(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Between −0.5 and 0.5.
    fn number(&mut self) -> f64 {
        self.below(101) as f64 / 100.0 - 0.5
    }

    fn vector(&mut self, dim: usize) -> String {
        list((0..dim).map(|_| self.number()))
    }

    fn matrix(&mut self, dim: usize) -> String {
        let rows: Vec<String> =
            (0..dim).map(|_| list((0..dim).map(|_| self.number() / 4.0))).collect();
        format!("[{}]", rows.join(", "))
    }
}

fn list<T: std::fmt::Debug>(entries: impl Iterator<Item = T>) -> String {
    format!("{:?}", entries.collect::<Vec<_>>())
}

fn gaussian(dim: usize, shape: &str, turn: usize, choice: &mut Choice) -> Case {
    let clients = 3 + choice.below(5);
    let mean = match choice.below(4) {
        0 => "2.0".to_owned(),
        1 => "{ average = 3.0, variance = 0.6 }".into(),
        2 => "{ low = -1.0, high = 2.0 }".into(),
        _ => format!("[{}]", vec![choice.vector(dim); clients].join(", ")),
    };
    let noise = choice.of(&["", ", noise = 0.3", ", noise = 0.0"]);
    let response = match shape {
        "none" => String::new(),
        _ => format!(
            "response = {{ kind = \"location\", sensitivity = {}{} }}\n",
            sensitivity(shape, clients, dim, choice),
            reference(dim, choice)
        ),
    };
    let toml = head(choice)
        + &format!("[problem]\nclients = {clients}\n")
        + &weights(clients, false, choice)
        + &format!("base = {{ kind = \"gaussian\", dim = {dim}, mean = {mean}{noise} }}\n")
        + &response
        + "loss = { kind = \"mean\" }\n"
        + &algorithm(scheme(turn, clients, choice), dim, true, choice)
        + &measure("mean", choice);
    Case { name: format!("gaussian-{dim}-{shape}"), toml }
}

fn table(loss: &str, dim: usize, turn: usize, choice: &mut Choice) -> Case {
    let intercept = loss != "mean" && dim > 1 && choice.yes();
    let features = dim - usize::from(intercept);
    let (partition, clients, used) = match choice.below(3) {
        0 => ("{ column = \"site\" }".to_owned(), SITES, true),
        1 => ("{ equal = 4 }".into(), 4, false),
        _ => (format!("{{ dirichlet = {:?}, clients = 6 }}", choice.of(&[0.5, 4.0])), 6, false),
    };
    let label = match loss {
        "squared" => "label = \"z\"\nignore = [\"y\"",
        "logistic" => "label = \"y\"\nignore = [\"z\"",
        _ => "ignore = [\"y\", \"z\"",
    };
    let l2 = match loss {
        "mean" => "",
        _ => choice.of(&["", ", l2 = 0.0", ", l2 = 0.05", ", l2 = 0.4"]),
    };
    // Without a penalty there may be no stable point to start at.
    let stable = loss == "mean" || l2 == ", l2 = 0.05" || l2 == ", l2 = 0.4";
    let toml = head(choice)
        + "[problem]\n"
        + &weights(clients, true, choice)
        + &format!("loss = {{ kind = \"{loss}\"{l2} }}\n")
        + &response(SHAPES[turn % SHAPES.len()], features, dim, clients, choice)
        + &format!("[problem.base]\nkind = \"table\"\npath = \"{features}.csv\"\n")
        + &format!("{label}{}]\n", if used { "" } else { ", \"site\"" })
        + &format!("partition = {partition}\nintercept = {intercept}\n")
        + &format!("standardize = {}\nshuffle = {}\n", choice.yes(), choice.yes())
        + &algorithm(scheme(turn, clients, choice), dim, stable, choice)
        + &measure(loss, choice);
    Case { name: format!("{loss}-{dim}"), toml }
}

fn response(
    shape: &str,
    features: usize,
    dim: usize,
    clients: usize,
    choice: &mut Choice,
) -> String {
    let kind = choice.of(&["location", "best-response"]);
    if shape == "none" {
        return choice.of(&["", "response = { kind = \"none\" }\n"]).into();
    }
    let moved: Vec<String> =
        (0..features).step_by(choice.of(&[1, 2, 3])).map(|j| format!("x{j}")).collect();
    let (names, width) = match kind {
        "location" => (String::new(), features),
        _ => (format!(", features = {moved:?}"), moved.len()),
    };
    let sensitivity = sensitivity(shape, clients, width, choice);
    let reference = reference(dim, choice);
    format!("response = {{ kind = \"{kind}\"{names}, sensitivity = {sensitivity}{reference} }}\n")
}

fn sensitivity(shape: &str, clients: usize, dim: usize, choice: &mut Choice) -> String {
    let entry = |k: usize, choice: &mut Choice| match shape {
        "numbers" => format!("{:?}", choice.number()),
        "vectors" => choice.vector(dim),
        "matrices" => choice.matrix(dim),
        _ => [format!("{:?}", choice.number()), choice.vector(dim), choice.matrix(dim)][k % 3]
            .clone(),
    };
    match shape {
        "number" => format!("{:?}", choice.number()),
        "normal" => "{ average = 0.3, variance = 0.05 }".into(),
        "normals" => format!("{{ average = {}, variance = 0.02 }}", choice.vector(dim)),
        "uniform" => "{ low = 0.1, high = 0.4 }".into(),
        _ => {
            let entries: Vec<String> = (0..clients).map(|k| entry(k, choice)).collect();
            format!("[{}]", entries.join(", "))
        }
    }
}

fn reference(dim: usize, choice: &mut Choice) -> String {
    match choice.below(3) {
        0 => format!(", reference = {}", choice.vector(dim)),
        _ => String::new(),
    }
}

fn head(choice: &mut Choice) -> String {
    let seed = choice.of(&[0, 1, 77, i64::MAX]);
    let repetitions = choice.of(&[1, 3, 3, 17, 40]);
    let rounds = 10 + choice.below(51);
    format!("seed = {seed}\nrepetitions = {repetitions}\nrounds = {rounds}\n")
}

fn weights(clients: usize, rows: bool, choice: &mut Choice) -> String {
    let total = clients * (clients + 1) / 2;
    let seed = choice.of(&["", "seed = 9\n"]);
    let weights = match choice.below(4) {
        0 => "\"uniform\"".to_owned(),
        1 => list((1..=clients).map(|k| k as f64 / total as f64)),
        2 => "{ variance = 0.01 }".into(),
        _ if rows => "\"rows\"".into(),
        _ => return seed.into(),
    };
    format!("weights = {weights}\n{seed}")
}

/// The keys that choose cohorts; takes its turn through all schemes.
fn scheme(turn: usize, clients: usize, choice: &mut Choice) -> String {
    let cohort = 1 + choice.below(clients);
    let (kind, cohort, rest) = match turn % 13 {
        0 => ("full", None, "".to_owned()),
        1 => ("with-replacement", Some(cohort), "".into()),
        2 => ("without-replacement", Some(cohort), "".into()),
        3 => ("first-arrivals", Some(cohort), latency(0, clients, choice)),
        4 => ("without-replacement", Some(cohort), "scale_objectives = true\n".into()),
        5 => ("first-arrivals", Some(cohort), latency(1, clients, choice) + "correct = true\n"),
        6 => ("with-replacement", Some(clients + 3), "".into()),
        7 => ("full", None, "aggregate = \"iterates\"\n".into()),
        8 => ("first-arrivals", Some(cohort), latency(2, clients, choice) + "deadline = 1.3\n"),
        9 => ("with-replacement", Some(cohort), "aggregate = \"iterates\"\n".into()),
        10 => {
            let rest = latency(0, clients, choice) + "deadline = 0.9\ncorrect = true\n";
            ("first-arrivals", Some(cohort), rest)
        }
        11 => {
            let rest = "scale_objectives = true\naggregate = \"iterates\"\n";
            ("without-replacement", Some(cohort), rest.into())
        }
        _ => ("without-replacement", Some(clients), "aggregate = \"iterates\"\n".into()),
    };
    let cohort = cohort.map_or(String::new(), |cohort| format!("cohort = {cohort}\n"));
    format!("scheme = \"{kind}\"\n{cohort}{rest}")
}

fn latency(kind: usize, clients: usize, choice: &mut Choice) -> String {
    let each = list((0..clients).map(|_| 1.0 + choice.number()));
    let latency = match kind {
        0 => format!("\"exponential\", mean = {each}"),
        1 => format!("\"lognormal\", median = {each}, sigma = 0.5"),
        _ => "\"lognormal\", median = { low = 0.5, high = 2.0 }, sigma = 0.8".into(),
    };
    format!("latency = {{ kind = {latency} }}\n")
}

fn algorithm(scheme: String, dim: usize, stable: bool, choice: &mut Choice) -> String {
    let start = match choice.below(if stable { 5 } else { 4 }) {
        0 => "start = 1.5\n".to_owned(),
        1 => format!("start = {}\n", choice.vector(dim)),
        2 => "start = \"zeros\"\n".into(),
        3 => String::new(),
        _ => "start = \"stable\"\n".into(),
    };
    let (steps, batch) = (choice.of(&[1, 2, 5]), choice.of(&[1, 2, 4, 7, 16, 37]));
    let (size, deploy) = (choice.of(&STEPS), choice.of(&["step", "round"]));
    format!(
        "[algorithm]\nkind = \"p-fedavg\"\n{scheme}{start}local_steps = {steps}\n\
         batch = {batch}\nstep_size = {size}\ndeploy = \"{deploy}\"\n"
    )
}

fn measure(loss: &str, choice: &mut Choice) -> String {
    let mut text = format!("[measure]\nevery = {}\n", choice.of(&[1, 3, 7, 10, 100]));
    for name in ["consensus", "client_risk"] {
        writeln!(text, "{name} = {}", choice.yes()).unwrap();
    }
    if loss == "logistic" {
        writeln!(text, "accuracy = {}\nauc = {}", choice.yes(), choice.yes()).unwrap();
    }
    match choice.below(6) {
        0 => text + "risk = false\n",
        1 => text + "distance = false\n",
        _ => text,
    }
}

/// Every scheme once more, in few and in many coordinates.
fn schemes(choice: &mut Choice) -> Vec<Case> {
    let one = |turn: usize| {
        let dim = [1, 2, 6, 13][turn % 4];
        let mut case = match turn % 2 {
            0 => gaussian(dim, "matrices", turn, choice),
            _ => table("logistic", dim, turn, choice),
        };
        case.name = format!("scheme-{turn}");
        case
    };
    (0..13).map(one).collect()
}

/// What takes a way of its own.
fn special() -> Vec<Case> {
    let gaussian = "[problem]\nbase = { kind = \"gaussian\", DIM, mean = { average = 2.0, \
        variance = 0.5 } }\nloss = { kind = \"mean\" }\nresponse = { kind = \"location\", \
        sensitivity = { low = 0.2, high = 0.6 } }\n";
    let rows = "[problem]\nloss = { kind = \"logistic\", l2 = 0.05 }\nresponse = { kind = \
        \"best-response\", features = [\"x0\", \"x2\"], sensitivity = 0.3 }\n\
        [problem.base]\nkind = \"table\"\nlabel = \"y\"\n";
    let steps = "[algorithm]\nkind = \"p-fedavg\"\nstep_size = { constant = 0.05 }\n\
        local_steps = 3\n";
    let with = |cohort: usize| format!("scheme = \"with-replacement\"\ncohort = {cohort}\n");
    let long = gaussian.replace("DIM", "dim = 9000");
    let many = gaussian.replace("DIM", "dim = 3");
    let trace = "scheme = \"first-arrivals\"\ncohort = 2\n\
        latency = { kind = \"trace\", path = \"latencies.csv\" }\n";
    let case = |name: &str, toml: String| Case { name: name.into(), toml };
    let clients = |text: &str, count: usize| {
        text.replacen("[problem]\n", &format!("[problem]\nclients = {count}\n"), 1)
    };
    let few_of = |rest: &str| "rounds = 30\n".to_owned() + &clients(&many, 4) + steps + rest;
    vec![
        case(
            "long-fold",
            "rounds = 10\n".to_owned()
                + &clients(&long, 3)
                + steps
                + &with(2)
                + "[measure]\nevery = 5\n",
        ),
        case(
            "many-clients",
            "rounds = 12\n".to_owned() + &clients(&many, 700) + steps + &with(150),
        ),
        case(
            "many-clients-with-rows",
            "rounds = 12\n".to_owned()
                + rows
                + "path = \"many.csv\"\nignore = [\"z\", \"site\"]\npartition = { equal = 600 }\n"
                + steps
                + &with(130)
                + "batch = 2\n",
        ),
        case(
            "missing",
            "rounds = 30\n".to_owned()
                + rows
                + "path = \"gaps.csv\"\nignore = [\"z\"]\nmissing = \"drop\"\n\
                   partition = { column = \"site\" }\n"
                + steps
                + "scheme = \"full\"\n",
        ),
        case("trace", few_of(trace)),
        case("trace-corrected", few_of(trace) + "correct = true\ndeadline = 1.5\n"),
        case(
            "no-stable-point",
            few_of("scheme = \"full\"\n").replace("{ low = 0.2, high = 0.6 }", "1.0"),
        ),
        case(
            "sweep",
            few_of("scheme = \"full\"\n")
                + "[sweep]\n\"algorithm.local_steps\" = [1, 4]\n\
                   \"problem.response.sensitivity\" = [0.5, { low = 0.2, high = 0.8 }]\n",
        ),
    ]
}

/// The files that specs name.
pub fn tables() -> Vec<(String, String)> {
    let mut tables: Vec<_> = (1..=LARGEST)
        .chain(WIDE.into_iter().flat_map(|dim| [dim - 1, dim]))
        .map(|features| (format!("{features}.csv"), rows(features, 120)))
        .collect();
    tables.push(("many.csv".into(), rows(6, 1300)));
    let gaps = rows(4, 90).replace(",0.5,", ",NA,").replace(",-0.25,", ",,");
    tables.push(("gaps.csv".into(), gaps));
    let latency = |k: usize| format!("{},{}\n", k % 4, (1 + k * 7 % 13) as f64 / 8.0);
    let latencies: String = (0..60).map(latency).collect();
    tables.push(("latencies.csv".into(), "client,seconds\n".to_owned() + &latencies));
    tables
}

/// Features between −1.5 and 1.5, a label of two classes and one of numbers.
fn rows(features: usize, count: usize) -> String {
    let mut text = "site,".to_owned();
    (0..features).for_each(|j| write!(text, "x{j},").unwrap());
    text += "y,z\n";
    for k in 0..count {
        write!(text, "s{},", k * k % 23 % SITES * 3).unwrap();
        let value = |j: usize| ((k * (2 * j + 3) + k * k % (j + 11)) % 97) as f64 / 32.0 - 1.5;
        (0..features).for_each(|j| write!(text, "{},", value(j)).unwrap());
        let z = value(0) + (k % 7) as f64 / 4.0;
        writeln!(text, "{},{z}", u8::from(z > 0.5)).unwrap();
    }
    text
}
