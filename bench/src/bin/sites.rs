//! Very many sites in one round of the server: what an update costs to accept and to fold, in time
//! beside a plain sum of the same numbers, and in memory beside the numbers themselves.

use std::process::Command;
use std::sync::Arc;

use clap::Parser;
use fedback_bench::memory;
use fedback_bench::timing::timed;
use fedback_core::federation::ClientId;
use fedback_core::protocol::{Protocol, Round, Scheme, StepSize};
use fedback_core::stream::Seed;
use fedback_engine::backend::{Backend, Course};
use fedback_engine::cohort::CohortSampler;
use fedback_engine::live::{Arrival, Live, LiveOrder, Sender, Settings, Transport, TransportError};
use fedback_engine::server::{Refusal, Server, Update};

#[derive(Parser)]
#[command(about = "Measures one round of very many sites through the server")]
struct Args {
    /// Sites and coordinates, as in `10000x1000`.
    #[arg(long, value_delimiter = ',', default_values_t = FEDERATIONS.map(String::from))]
    sites: Vec<String>,
}

/// The last two are those that count; those before show how costs grow.
const FEDERATIONS: [&str; 4] = ["1000x1000", "10000x100", "10000x1000", "100000x100"];

fn main() -> Result<(), String> {
    let args = Args::parse();
    if let [one] = &args.sites[..] {
        println!("{}", measure(one)?);
        return Ok(());
    }
    println!("### One round, one update a site\n");
    println!(
        "| sites | d | open, us | accept, us | fold, us | live, us | sum, us | memory | peak |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for one in args.sites {
        // A process of its own, since freed memory would hide some that is needed.
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let status = Command::new(program).args(["--sites", &one]).status();
        match status.map_err(|error| error.to_string())?.success() {
            true => {}
            false => return Err(format!("{one} failed")),
        }
    }
    println!(
        "\nMicroseconds of CPU time an update: to open the round, to accept the update, to close"
    );
    println!(
        "the round; the same three by `Live`, with asking; a plain sum of the same numbers, with"
    );
    println!(
        "their writing. Memory as multiples of the updates' numbers, 8 d bytes a site: with all"
    );
    println!("accepted, and the most at once.");
    Ok(())
}

/// What a site sends: small numbers, another for every site.
fn update(client: u32, dim: usize) -> Update {
    let delta = (0..dim).map(|j| 1e-3 * f64::from(client % 17) + 1e-6 * j as f64).collect();
    Update { delta, kept: Vec::new() }
}

/// Sites that all answer, one after the other.
struct Prompt {
    dim: usize,
    round: Round,
    left: std::vec::IntoIter<ClientId>,
}

impl Transport for Prompt {
    fn ask(&mut self, order: &LiveOrder<'_>) -> Result<(), TransportError> {
        self.round = order.round;
        let clients: Vec<ClientId> = order.asked.iter().map(|asked| asked.client).collect();
        self.left = clients.into_iter();
        Ok(())
    }

    fn next(&mut self) -> Result<Arrival, TransportError> {
        let Some(client) = self.left.next() else { return Ok(Arrival::Deadline) };
        let sender = Sender { round: self.round, repetition: 0, client };
        Ok(Arrival::Update { sender, update: update(client.0, self.dim) })
    }

    fn refused(&mut self, _: Sender, _: &Refusal) {}
}

fn measure(which: &str) -> Result<String, String> {
    let numbers = which.split_once('x').map(|(sites, dim)| (sites.parse(), dim.parse()));
    let Some((Ok(sites), Ok(dim))) = numbers else {
        return Err(format!("--sites: found {which:?}; give sites and coordinates, as 10000x1000"));
    };
    let (sites, dim): (usize, usize) = (sites, dim);
    let weights: Arc<[f64]> = vec![1.0 / sites as f64; sites].into();
    let protocol = Protocol::p_fedavg(Scheme::Full, 1, StepSize::Constant(0.1));
    let start = vec![0.0; dim];
    let course = || Course::new(protocol, weights.clone(), Seed(1), &start, 1);
    let sampler = Arc::new(CohortSampler::new(&protocol, weights.clone()));
    let mut state = course().state;
    let repetition = &mut state.repetitions[0];
    let mut server = Server::new(protocol, sampler, Seed(1));
    memory::forget_peak();
    let before = memory::resident().unwrap_or(0);
    let (opened, opening) = timed(|| server.open(repetition, Round(0), false).map(<[_]>::len));
    opened.map_err(|error| error.to_string())?;
    let clients = || (0..sites as u32).map(ClientId);
    let (accepted, accepting) = timed(|| {
        let accept = |c: ClientId| server.accept(repetition, Round(0), c, update(c.0, dim)).is_ok();
        clients().map(accept).filter(|accepted| *accepted).count()
    });
    let held = memory::resident().unwrap_or(0);
    let (closed, closing) = timed(|| server.close(repetition, 1));
    closed.map_err(|error| error.to_string())?;
    let peak = memory::peak().unwrap_or(0);
    if accepted != sites {
        return Err(format!("{accepted} of {sites} were accepted"));
    }
    let (sum, summing) = timed(|| {
        let mut sum = vec![0.0; dim];
        for client in clients() {
            let update = update(client.0, dim);
            sum.iter_mut().zip(&update.delta).for_each(|(sum, d)| *sum += d / sites as f64);
        }
        sum
    });
    if (sum[0] - repetition.theta()[0]).abs() > 1e-9 {
        return Err(format!("the sum is {}, the server's {}", sum[0], repetition.theta()[0]));
    }
    let prompt = Prompt { dim, round: Round(0), left: Vec::new().into_iter() };
    let mut live = Live::new(prompt, course(), Settings::default());
    let (played, playing) = timed(|| live.advance(Round(1), false));
    played.map_err(|error| error.to_string())?;
    if live.state().repetitions[0].theta() != repetition.theta() {
        return Err("Live and Server do not agree".into());
    }
    let each = |seconds: f64| 1e6 * seconds / sites as f64;
    let data = (8 * sites * dim) as f64;
    let more = |bytes: u64| bytes.saturating_sub(before) as f64 / data;
    Ok(format!(
        "| {sites} | {dim} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
        each(opening.cpu),
        each(accepting.cpu),
        each(closing.cpu),
        each(playing.cpu),
        each(summing.cpu),
        more(held),
        more(peak)
    ))
}
