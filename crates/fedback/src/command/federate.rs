//! `fedback federate status|wait|metrics`: a federation's run, as its store has it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::lab::error::Error;
use crate::lab::event::Ending;
use crate::lab::store::{RunId, RunSummary, standing};
use serde_json::json;

use super::Context;
use crate::args::{FederateArgs, FederateCommand};
use crate::output;

/// How long between two looks at the store.
const PAUSE: Duration = Duration::from_millis(500);

pub fn run(context: &Context, args: FederateArgs) -> Result<(), Error> {
    match args.command {
        FederateCommand::Status { run, json } => {
            let found = find(context, run.map(RunId))?;
            tell(&found, json)?;
            verdict(&found, "still running")
        }
        FederateCommand::Wait { run, timeout } => wait(context, RunId(run), timeout),
        FederateCommand::Metrics { listen: None } => output::print(&metrics(context)?),
        FederateCommand::Metrics { listen: Some(address) } => serve(context, &address),
    }
}

fn runs(context: &Context) -> Result<Vec<RunSummary>, Error> {
    Ok(context.existing_store()?.runs()?.sound)
}

/// A run, or the newest.
fn find(context: &Context, run: Option<RunId>) -> Result<RunSummary, Error> {
    let all = runs(context)?;
    let place = context.store.display();
    match run {
        None => all.into_iter().next().ok_or_else(|| Error::input(place, "has no runs")),
        Some(id) => all.into_iter().find(|run| run.id == id).ok_or_else(|| {
            Error::input(place, format!("has no run {id}; `fedback runs` lists them"))
        }),
    }
}

fn tell(run: &RunSummary, json: bool) -> Result<(), Error> {
    if json {
        return output::print_json(&json!(run));
    }
    let state = standing(run.ending.as_ref());
    output::print(&format!(
        "run {} ({}): {state}, round {} of {}\n",
        run.id, run.name, run.round, run.rounds
    ))
}

/// What a shell is told: 0 done, 1 failed, 3 not ended, 130 interrupted.
fn verdict(run: &RunSummary, meanwhile: &str) -> Result<(), Error> {
    match &run.ending {
        Some(Ending::Done) => Ok(()),
        Some(Ending::Failed(why)) => Err(Error::Failed(format!("run {}: {why}", run.id))),
        Some(Ending::Interrupted) => Err(Error::Interrupted(format!(
            "run {} was interrupted in round {}; resume it",
            run.id, run.round
        ))),
        None => Err(Error::Unfinished(format!("run {}: {meanwhile}", run.id))),
    }
}

fn wait(context: &Context, run: RunId, timeout: Option<f64>) -> Result<(), Error> {
    let until = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let until = until.and_then(|patience| Instant::now().checked_add(patience));
    loop {
        let found = find(context, Some(run))?;
        let late = until.is_some_and(|until| Instant::now() >= until);
        if found.ending.is_some() || late {
            tell(&found, false)?;
            return verdict(&found, "has not ended in time");
        }
        std::thread::sleep(PAUSE);
    }
}

/// All runs in the text format of Prometheus.
fn metrics(context: &Context) -> Result<String, Error> {
    let runs = runs(context)?;
    let mut text = String::new();
    let mut family = |name: &str, help: &str, value: &dyn Fn(&RunSummary) -> Option<f64>| {
        text += &format!("# HELP fedback_run_{name} {help}\n# TYPE fedback_run_{name} gauge\n");
        for run in &runs {
            if let Some(value) = value(run) {
                let title = escaped(&run.name);
                text +=
                    &format!("fedback_run_{name}{{run=\"{}\",name=\"{title}\"}} {value}\n", run.id);
            }
        }
    };
    family("round", "Rounds closed at the last checkpoint.", &|run| Some(run.round as f64));
    family("rounds", "Rounds after which the run is done.", &|run| Some(run.rounds as f64));
    family("seconds", "Seconds of work up to the last checkpoint.", &|run| Some(run.seconds));
    family("running", "1 while the run is running.", &|run| Some(f64::from(run.ending.is_none())));
    family("failed", "1 where the run has failed.", &|run| {
        Some(f64::from(matches!(run.ending, Some(Ending::Failed(_)))))
    });
    Ok(text)
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Answers every request on an address with the metrics of that moment.
fn serve(context: &Context, address: &str) -> Result<(), Error> {
    let fail = |error: std::io::Error| Error::input(format!("--listen {address}"), error);
    let listener = TcpListener::bind(address).map_err(fail)?;
    let found = listener.local_addr().map_err(fail)?;
    output::complain(&format!("metrics on http://{found}/metrics"));
    for stream in listener.incoming().flatten() {
        // Whoever does not listen to the end is not waited for.
        let _ = respond(context, stream);
    }
    Ok(())
}

fn respond(context: &Context, mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PAUSE))?;
    stream.set_write_timeout(Some(PAUSE))?;
    let mut request = [0; 1024];
    let length = stream.read(&mut request)?;
    let asked = request[..length].starts_with(b"GET /metrics ");
    let (status, body) = match (asked, metrics(context)) {
        (false, _) => ("404 Not Found", "see /metrics\n".to_string()),
        (true, Ok(text)) => ("200 OK", text),
        (true, Err(error)) => ("503 Service Unavailable", format!("{error}\n")),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
