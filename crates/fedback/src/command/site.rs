//! `fedback site check|init|serve|ledger POLICY`.

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::lab::error::Error;
use crate::site::forecast::{Forecast, Shown, changed_by_others, forecast, open_to_others};
use crate::site::message::Request;
use crate::site::program::{Heard, Surroundings};
use crate::site::service::{Log, Said, serve};
use crate::site::{Keeper, Ledger, Policy};
use serde_json::json;

use super::Context;
use crate::args::{LogStyle, SiteArgs, SiteCommand};
use crate::output;

/// How often the service looks whether it is to stop.
const PAUSE: Duration = Duration::from_millis(100);

/// Lines that are written in so much time about questions that have added nothing to the ledger; others
/// are counted. Whoever can ask would fill the disk with them otherwise, and the ledger's with it.
const MOST: u64 = 1000;
const WHILE: Duration = Duration::from_secs(60);

pub fn run(context: &Context, args: SiteArgs) -> Result<(), Error> {
    match args.command {
        SiteCommand::Check { policy, json } => check(&Policy::read(&policy)?, json),
        SiteCommand::Init { policy } => init(&Policy::read(&policy)?),
        SiteCommand::Serve { policy, log } => listen(context, Policy::read(&policy)?, log),
        SiteCommand::Ledger { policy, json } => ledger(&Policy::read(&policy)?, json),
    }
}

fn check(policy: &Policy, json: bool) -> Result<(), Error> {
    let found = forecast(policy)?;
    if json {
        return output::print_json(&json!(found));
    }
    let mut text = format!("site {}\n", found.site);
    match &found.plan_hash {
        Some(hash) => text += &format!("  plan {hash}\n"),
        None => text += "  the plan's hash follows once all sites have counted their rows\n",
    }
    found.clients.iter().for_each(|shown| text += &sentence(shown, policy));
    let [of_plan, in_all] = found.answers;
    text += &format!(
        "  a client answers up to {of_plan} times under one plan and {in_all} times in all,\n  \
         each time with {} numbers, {} numbers in all\n",
        found.numbers,
        in_all.saturating_mul(found.numbers as u64)
    );
    for (key, range) in &policy.plan.vary {
        text += &format!("  the operator may set {key}: {range}\n");
    }
    text += &advice(&found);
    output::print(&text)
}

fn sentence(shown: &Shown, policy: &Policy) -> String {
    let client = shown.client;
    if let (true, Some(draws)) = (shown.observed, shown.draws) {
        return format!(
            "  client {client} is observed by the site's program: {draws} rows for a local step, of \
             which {} have to\n    differ; which ones is known only once they are there\n",
            policy.limits.rows
        );
    }
    let (Some(rows), Some(fewest)) = (shown.rows, shown.fewest) else {
        return format!("  client {client} is simulated: it has no rows to show\n");
    };
    let draws = match shown.draws {
        Some(draws) => format!("a local step draws {draws} of its {rows} different rows"),
        None => format!("a local step takes all of its {rows} different rows"),
    };
    format!(
        "  client {client}: {draws}; in the plan's {} updates at least {fewest}\n    different ones, \
         where {} are asked for\n",
        shown.updates, policy.limits.rows
    )
}

fn advice(found: &Forecast) -> String {
    if found.warnings.is_empty() {
        return "nothing to warn of; no noise is added, and sums of many rows are all that is shown\n"
            .into();
    }
    found.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect()
}

fn init(policy: &Policy) -> Result<(), Error> {
    Ledger::create(&policy.ledger, &policy.name, policy.id.as_deref())?;
    let path = policy.ledger.display();
    output::print(&format!("began {path}; keep it with its seal, and back up both\n"))
}

fn ledger(policy: &Policy, json: bool) -> Result<(), Error> {
    let ledger = Ledger::open(&policy.ledger, &policy.name)?;
    let clients = policy.clients.iter().map(|client| (*client, ledger.spent(*client)));
    if json {
        let each = |(client, spent): (u32, &crate::site::ledger::Spent)| json!({ "client": client, "answers": spent.in_all, "plans": spent.by_plan });
        return output::print_json(&json!({
            "site": policy.name,
            "entries": ledger.entries(),
            "digest": ledger.mark(),
            "clients": clients.map(each).collect::<Vec<_>>(),
        }));
    }
    let mut text =
        format!("site {}: {} answers, all of them sound\n", policy.name, ledger.entries());
    text += &format!("digest {}\n", ledger.mark());
    for (client, spent) in clients {
        let most = policy.limits.answers_in_all;
        text += &format!("client {client}: {} of {most} answers\n", spent.in_all);
        let mut plans: Vec<_> = spent.by_plan.iter().collect();
        plans.sort();
        for (plan, answers) in plans {
            let most = policy.limits.answers;
            text += &format!("  plan {}: {answers} of {most}\n", plan.get(..12).unwrap_or(plan));
        }
    }
    output::print(&text)
}

fn listen(context: &Context, policy: Policy, style: LogStyle) -> Result<(), Error> {
    let files = policy.clients.iter().filter_map(|client| policy.data_of(*client));
    let open = files.chain([policy.ledger.clone()]).find_map(|path| open_to_others(&path));
    let changed = || policy.program_files().iter().find_map(|path| changed_by_others(path));
    if let Some(why) = open.or_else(changed) {
        return Err(Error::Input(why));
    }
    let (socket, most) = (policy.socket.clone(), policy.limits.message);
    let lines = Arc::new(Lines { style, site: policy.name.clone(), idle: Mutex::default() });
    let heard = lines.clone();
    let hear = Arc::new(move |event: Heard<'_>| heard.heard(event));
    let keeper = Keeper::open_in(policy, Surroundings { stop: context.stop.clone(), hear })?;
    let (stop, door) = (context.stop.clone(), socket.clone());
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE);
        }
        // Whoever waits for the next question is woken up.
        let _ = UnixStream::connect(&door);
    });
    lines.write(json!({
        "event": "listening", "socket": socket.display().to_string(),
        "entries": keeper.ledger().entries(), "digest": keeper.ledger().mark(),
    }));
    // What is being answered is written down, and the site's program does not outlive the service.
    context.saving(|| serve(keeper, &socket, most, &*lines, &context.stop))?;
    lines.left_out(&mut lines.idle());
    lines.write(json!({ "event": "stopped" }));
    Ok(())
}

/// The service's log: a line an event, on standard error.
struct Lines {
    style: LogStyle,
    site: String,
    idle: Mutex<Idle>,
}

/// Questions that have added nothing to the ledger.
#[derive(Default)]
struct Idle {
    since: Option<Instant>,
    written: u64,
    left_out: u64,
    /// Entries of the ledger when it was last heard of.
    entries: u64,
}

impl Lines {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a question, after which the ledger has so many entries, gets a line.
    fn takes(&self, entries: u64) -> bool {
        let mut idle = self.idle();
        if idle.since.is_none_or(|since| since.elapsed() >= WHILE) {
            self.left_out(&mut idle);
            *idle = Idle { since: Some(Instant::now()), entries: idle.entries, ..Idle::default() };
        }
        if entries != std::mem::replace(&mut idle.entries, entries) {
            return true;
        }
        let takes = idle.written < MOST;
        idle.written += u64::from(takes);
        idle.left_out += u64::from(!takes);
        takes
    }

    /// Says how many lines were left out.
    fn left_out(&self, idle: &mut Idle) {
        if idle.left_out > 0 {
            self.write(json!({ "event": "left-out", "questions": idle.left_out }));
            idle.left_out = 0;
        }
    }

    fn write(&self, mut event: serde_json::Value) {
        event["site"] = self.site.clone().into();
        let line = match (self.style, &event) {
            (LogStyle::Text, serde_json::Value::Object(fields)) => {
                let field = |(key, value): (&String, &serde_json::Value)| match value {
                    serde_json::Value::String(text) if text.contains([' ', '=', '"']) => {
                        format!("{key}={text:?}")
                    }
                    serde_json::Value::String(text) => format!("{key}={text}"),
                    other => format!("{key}={other}"),
                };
                fields.iter().map(field).collect::<Vec<_>>().join(" ")
            }
            _ => event.to_string(),
        };
        output::complain(&line);
    }

    /// What is heard of the site's program.
    fn heard(&self, heard: Heard<'_>) {
        self.write(match heard {
            Heard::Started(process) => json!({ "event": "program-started", "process": process }),
            Heard::Ended(how) => json!({ "event": "program-ended", "how": printable(how) }),
            Heard::Line(line) => json!({ "event": "program-said", "text": printable(line) }),
        });
    }
}

/// A text on one line, without anything that a terminal would obey.
fn printable(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars().take(300) {
        match c == ' ' || c.is_ascii_graphic() {
            true => line.push(c),
            false => line.extend(c.escape_default()),
        }
    }
    line
}

/// The beginning of a hash that somebody else has written.
fn short(hash: &str) -> String {
    printable(&hash.chars().take(12).collect::<String>())
}

impl Log for Lines {
    fn said(&self, said: &Said<'_>) {
        if !self.takes(said.ledger.0) {
            return;
        }
        let mut event =
            json!({ "event": if said.refused.is_some() { "refused" } else { "answered" } });
        match said.request {
            None => event["kind"] = "unknown".into(),
            Some(Request::Census { .. }) => event["kind"] = "census".into(),
            Some(Request::Question(about)) => {
                event["kind"] = "question".into();
                event["plan"] = short(&about.plan_hash).into();
            }
            Some(Request::Order(order)) => {
                event["kind"] = "order".into();
                event["plan"] = short(&order.about.plan_hash).into();
                event["round"] = order.round.into();
                event["clients"] =
                    order.clients.iter().take(16).copied().collect::<Vec<_>>().into();
                event["answers"] = order.clients.len().into();
            }
        }
        if let Some(refused) = said.refused {
            event["reason"] = printable(&refused.reason).into();
            if let Some(detail) = &refused.detail {
                event["detail"] = printable(detail).into();
            }
        }
        event["entries"] = said.ledger.0.into();
        event["digest"] = said.ledger.1.get(..16).unwrap_or_default().into();
        event["seconds"] = format!("{:.4}", said.seconds).into();
        self.write(event);
    }
}
