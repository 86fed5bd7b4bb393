//! The server: an address, routes, and how many may ask at once.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::middleware;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use fedback_lab::error::Error;
use futures_util::stream::{self, Stream};
use serde::Deserialize;

use crate::answer::{Answer, Refusal, beside, json_text};
use crate::exacts::Exacts;
use crate::guard::{self, Guard};
use crate::stores::Stores;
use crate::watch::Watch;
use crate::what_if::Desk;
use crate::{assets, compare, run, what_if};

/// Bytes of a question, at most.
const MOST_BYTES: usize = 1 << 20;
/// Answers that are worked on at once, at most; others wait.
const MOST_ANSWERS: usize = 24;

/// What a server shows, and to whom.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The stores.
    pub stores: Vec<PathBuf>,
    /// Specs that what-if can begin with, besides those of runs.
    pub specs: Vec<PathBuf>,
    /// Where it listens: an address with a port; 0 takes a free one.
    pub listen: String,
    /// What whoever asks must know; needed where others than this machine can ask.
    pub token: Option<String>,
    /// Names of the server besides addresses and localhost.
    pub hosts: Vec<String>,
}

/// A server that has its address.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    settings: Settings,
}

/// What all answers share.
#[derive(Clone)]
pub struct App {
    pub stores: Stores,
    pub watch: Arc<Watch>,
    pub exacts: Arc<Exacts>,
    pub desk: Arc<Desk>,
}

impl Server {
    /// Takes the address. An address that others can reach needs a token.
    pub fn bind(settings: Settings) -> Result<Self, Error> {
        let fail = |why: io::Error| {
            Error::input(
                format!("--listen {}", settings.listen),
                format!(
                    "{why}; allowed: an address of this machine with a free port, as in 127.0.0.1:7878"
                ),
            )
        };
        let addresses: Vec<SocketAddr> = settings.listen.to_socket_addrs().map_err(fail)?.collect();
        let local = addresses.iter().all(|address| address.ip().is_loopback());
        if !local && settings.token.is_none() {
            let why = "others can reach this address, and would see all runs: a token is needed";
            return Err(Error::input(format!("--listen {}", settings.listen), why));
        }
        let listener = TcpListener::bind(&addresses[..]).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        Ok(Server { listener, address, settings })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to open in a browser, token included.
    pub fn link(&self) -> String {
        match &self.settings.token {
            Some(token) => format!("http://{}/?token={token}", self.address),
            None => format!("http://{}/", self.address),
        }
    }

    /// Answers, until the process ends.
    pub fn serve(self) -> Result<(), Error> {
        let fail = |why: io::Error| Error::Failed(format!("the server cannot go on: {why}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MOST_ANSWERS)
            .thread_keep_alive(Duration::from_secs(2))
            .build()
            .map_err(fail)?;
        let Settings { stores, specs, token, hosts, .. } = self.settings;
        let stores = Stores { paths: stores };
        let watch = Watch::start(stores.clone());
        let app = App {
            exacts: Exacts::start(watch.clone()),
            watch,
            stores,
            desk: Arc::new(Desk::new(specs)),
        };
        let guard = Guard { hosts, token, port: self.address.port() };
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener).map_err(fail)?;
            axum::serve(listener, routes(app, guard)).await.map_err(fail)
        })
    }
}

fn routes(app: App, guard: Guard) -> Router {
    Router::new()
        .route("/", get(assets::page))
        .route("/assets/{name}", get(assets::file))
        .route("/api/events", get(events))
        .route("/api/runs", get(runs))
        .route("/api/runs/{run}", get(run::about))
        .route("/api/runs/{run}/figure.svg", get(run::figure))
        .route("/api/runs/{run}/curve.csv", get(run::curve))
        .route("/api/compare", get(compare::compare))
        .route("/api/compare.csv", get(compare::table))
        .route("/api/specs", get(what_if::specs))
        .route("/api/what-if", post(what_if::answer))
        .route("/api/what-if/spec", post(what_if::spec))
        .fallback(|| async { Refusal::missing("there is no such page") })
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .layer(middleware::from_fn_with_state(guard, guard::check))
        .with_state(app)
}

#[derive(Deserialize)]
struct Since {
    #[serde(default)]
    since: u64,
}

/// `GET /api/runs?since=VERSION`.
async fn runs(State(app): State<App>, Query(Since { since }): Query<Since>) -> Answer {
    let text = beside(move || Ok(app.watch.list(since)));
    Ok(json_text(text.await?))
}

/// `GET /api/events`: the number of every change. A slow listener hears the latest alone.
async fn events(State(app): State<App>) -> Response {
    let mut heard = app.watch.listen();
    heard.mark_changed();
    let next = |mut heard: tokio::sync::watch::Receiver<u64>| async move {
        heard.changed().await.ok()?;
        let version = *heard.borrow_and_update();
        let event = Event::default().event("changed").data(version.to_string());
        Some((Ok::<_, Infallible>(event), heard))
    };
    let events = stream::unfold(heard, next);
    sse(events)
}

fn sse(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(10))).into_response()
}
