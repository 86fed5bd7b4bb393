//! `fedback show RUN…`.

use crate::lab::difference::Difference;
use crate::lab::error::Error;
use crate::lab::recorded::RecordedRun;
use crate::lab::show::{Shown, differing};
use crate::lab::table_summary::TableSummary;
use crate::lab::words::{seconds, short};
use serde_json::{Map, Value, json};

use super::Context;
use crate::args::{ShowArgs, runs};
use crate::output::{self, plural};
use crate::table::table;

pub fn run(context: &Context, args: ShowArgs) -> Result<(), Error> {
    let store = context.existing_store()?;
    let read = |id| RecordedRun::read(&store, id);
    let runs: Vec<RecordedRun> =
        runs(&args.runs).into_iter().map(read).collect::<Result<_, _>>()?;
    let shown: Vec<Shown> = runs.iter().map(Shown::of).collect();
    match (&shown[..], args.json) {
        ([only], true) => output::print_json(&json!(only)),
        ([only], false) => output::print(&text(only, &runs[0])),
        (several, true) => output::print_json(&differences_to_json(several)),
        (several, false) => output::print(&differences_to_text(several, &runs)),
    }
}

/// The spec as it was planned, below comments on everything else: a spec that can be run again.
fn text(run: &Shown, recorded: &RecordedRun) -> String {
    let mut lines = vec![format!(
        "run {}: {}, {}, {} of {}, {}, {}",
        run.id,
        run.name,
        run.state,
        run.round,
        plural(run.rounds, "round", "rounds"),
        plural(run.repetitions, "repetition", "repetitions"),
        plural(run.clients as u64, "client", "clients"),
    )];
    let mut say = |name: &str, text: &str| {
        if !text.is_empty() {
            lines.push(format!("{name}: {text}"));
        }
    };
    say("note", &run.note);
    say("tags", &run.tags.join(" "));
    say("set", &set(&run.set));
    say("started", &format!("{}, {} s of work", run.started, seconds(run.seconds)));
    say("machine", run.machine.as_deref().unwrap_or_default());
    let formats = (run.stream_format, run.arithmetic_format);
    say("fedback", &format!("{} (stream {}, arithmetic {})", run.version, formats.0, formats.1));
    say("seed", &run.seed.to_string());
    say("directory", &run.directory);
    say("table", &run.table.as_ref().map_or(String::new(), |table| table.sentence()));
    say("groups", &run.table.as_ref().map_or(String::new(), groups));
    run.data.iter().for_each(|digest| say("data", &format!("sha256 {digest}")));
    say("plan", &run.plan);
    run.warnings.iter().for_each(|warning| say("warning", warning));
    say("failed", run.failure.as_deref().unwrap_or_default());
    for absent in &run.absences.clients {
        let many = plural(absent.cohorts as u64, "cohort", "cohorts");
        say("absent", &format!("{} from {many}", absent.client));
    }
    run.incidents.iter().for_each(|one| say("trouble", &one.words()));
    if run.absences.cohorts > 0 {
        say("cohorts recorded", &run.absences.cohorts.to_string());
    }
    say("took", &run.costs.words());
    let last = run.last.as_ref().and_then(Value::as_object).into_iter().flatten();
    last.for_each(|(name, value)| {
        let words = entries(value, names(name, recorded), &measured);
        say(&format!("final {name}"), &words);
    });
    let comment = |line: String| format!("# {}\n", line.replace(char::is_control, " "));
    let comments: String = lines.into_iter().map(comment).collect();
    format!("{comments}\n{}", recorded.stored.run.spec)
}

/// How many rows the groups have that are measured.
fn groups(table: &TableSummary) -> String {
    let counted = |counts: &[u64], rows: &str| {
        let groups = table.groups.iter().zip(counts);
        let groups: Vec<String> = groups.map(|(name, count)| format!("{name} {count}")).collect();
        (!groups.is_empty()).then(|| format!("{} {rows}", groups.join(", ")))
    };
    let parts = [
        counted(&table.group_rows, "rows learned from"),
        counted(&table.group_rows_held_out, "held out"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Whose the entries of a measurement are: clients' or groups'.
fn names<'a>(measurement: &str, run: &'a RecordedRun) -> Option<&'a [String]> {
    match measurement.contains("_by_group") {
        true => run.facts.table.as_ref().map(|table| &table.groups[..]),
        false => run.facts.client_names.as_deref(),
    }
}

/// A value in words, a list with the name or the number of every entry.
fn entries(value: &Value, names: Option<&[String]>, words: &dyn Fn(&Value) -> String) -> String {
    let Value::Array(list) = value else { return words(value) };
    let named = |(place, value): (usize, &Value)| {
        let name = names.and_then(|names| names.get(place)).cloned();
        format!("{}: {}", name.unwrap_or(format!("client {place}")), words(value))
    };
    list.iter().enumerate().map(named).collect::<Vec<_>>().join("; ")
}

fn set(set: &Map<String, Value>) -> String {
    let one = |(key, value): (&String, &Value)| format!("{key} = {value}");
    set.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A measurement with its spread, and beside it what is exact.
fn measured(value: &Value) -> String {
    match value {
        Value::Object(one) => {
            let number = |name: &str| one.get(name).and_then(Value::as_f64).map(short);
            let mean = number("mean").unwrap_or_else(|| short(f64::NAN));
            let sd = number("sd").map(|sd| format!(" ± {sd}")).unwrap_or_default();
            let exact = number("exact").map(|exact| format!(", exact {exact}"));
            format!("{mean}{sd}{}", exact.unwrap_or_default())
        }
        other => other.to_string(),
    }
}

/// A value, or an entry of a list: of a measurement its mean.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => short(number.as_f64().unwrap_or(f64::NAN)),
        Value::Object(one) => {
            one.get("mean").and_then(Value::as_f64).map_or(value.to_string(), short)
        }
        other => other.to_string(),
    }
}

fn differences_to_json(runs: &[Shown]) -> Value {
    let one = |found: Difference| (found.key, json!(found.values));
    let differs: Map<String, Value> = differing(runs).into_iter().map(one).collect();
    let ids: Vec<i64> = runs.iter().map(|run| run.id).collect();
    json!({ "format": 1, "runs": ids, "differs": differs })
}

fn differences_to_text(runs: &[Shown], recorded: &[RecordedRun]) -> String {
    let found = differing(runs);
    if found.is_empty() {
        return "these runs differ in nothing\n".into();
    }
    let ids = runs.iter().map(|run| format!("run {}", run.id));
    let header: Vec<String> = std::iter::once(String::new()).chain(ids).collect();
    let cell = |key: &str, value: &Option<Value>, run: &RecordedRun| match value {
        None | Some(Value::Null) => short(f64::NAN),
        Some(Value::String(text)) if text.is_empty() => short(f64::NAN),
        Some(list @ Value::Array(items)) => match key.strip_prefix("final ") {
            Some(measurement) => entries(list, names(measurement, run), &words),
            None => items.iter().map(words).collect::<Vec<_>>().join("; "),
        },
        Some(one) => words(one),
    };
    let row = |one: &Difference| {
        let key = one.key.strip_prefix("spec.").unwrap_or(&one.key).replace("final.", "final ");
        let cells = one.values.iter().zip(recorded).map(|(value, run)| cell(&key, value, run));
        let cells: Vec<String> = cells.collect();
        std::iter::once(key).chain(cells).collect::<Vec<_>>()
    };
    table(&header, &found.iter().map(row).collect::<Vec<_>>())
}
