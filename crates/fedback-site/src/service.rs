//! The site's service: a local socket, and one question at a time.

use std::io::{self, BufReader, BufWriter, Read};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fedback_lab::error::Error;

use crate::frame::Frame;
use crate::keeper::Keeper;
use crate::message::{Reply, Request};
use crate::refused::Refused;

/// Connections at a time. One more takes the place of whoever has been silent for longest, so that nobody
/// keeps others out by saying nothing; where all of them wait for an answer, it is hung up on.
const MOST: usize = 8;

/// How long a question may take to arrive whole, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often somebody who waits for a question looks whether to stop.
const PAUSE: Duration = Duration::from_millis(100);

/// Characters of a reason that are told.
const LONGEST: usize = 300;

/// What a service tells of itself.
pub trait Log: Sync {
    /// A question was answered, or refused.
    fn said(&self, said: &Said<'_>);
}

/// A question and what became of it.
pub struct Said<'a> {
    /// What was asked, where that was understood.
    pub request: Option<&'a Request>,
    /// Why it was refused.
    pub refused: Option<&'a Refused>,
    /// Entries of the ledger now, and their digest.
    pub ledger: (u64, &'a str),
    /// How long it took.
    pub seconds: f64,
}

/// Listens until it is told to stop. The socket is for the site's group: what Flower starts needs to be
/// in it, and sees nothing else of the site.
pub fn serve(
    keeper: Keeper,
    socket: &Path,
    most: u64,
    log: &dyn Log,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let fail = |error: io::Error| Error::Failed(format!("{}: {error}", socket.display()));
    let listener = listen(socket).map_err(fail)?;
    let keeper = Mutex::new(keeper);
    let places = Places::default();
    std::thread::scope(|scope| {
        for (caller, stream) in listener.incoming().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let Ok(stream) = stream else { continue };
            if !places.take(caller, &stream) {
                continue;
            }
            let (keeper, places) = (&keeper, &places);
            scope.spawn(move || {
                // Whoever hangs up or sends nonsense is no longer listened to; whatever happens, the
                // place is free again.
                let silent = |is| places.silent(caller, is);
                let talk = || converse(&stream, keeper, most, silent, log, stop);
                let _ = catch_unwind(AssertUnwindSafe(talk));
                places.leave(caller);
            });
        }
    });
    let _ = std::fs::remove_file(socket);
    Ok(())
}

/// Who is connected.
#[derive(Default)]
struct Places(Mutex<Vec<Place>>);

struct Place {
    caller: usize,
    stream: UnixStream,
    /// Since when it is the caller's turn; none while a question is being answered.
    silent: Option<Instant>,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Vec<Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a place for another caller.
    fn take(&self, caller: usize, stream: &UnixStream) -> bool {
        let Ok(stream) = stream.try_clone() else { return false };
        let mut taken = self.taken();
        if taken.len() >= MOST {
            let silent = taken.iter().enumerate().filter_map(|(k, place)| Some((place.silent?, k)));
            let Some((_, longest)) = silent.min() else { return false };
            let _ = taken.swap_remove(longest).stream.shutdown(Shutdown::Both);
        }
        taken.push(Place { caller, stream, silent: Some(Instant::now()) });
        true
    }

    /// It is a caller's turn, or the site's.
    fn silent(&self, caller: usize, is: bool) {
        if let Some(place) = self.taken().iter_mut().find(|place| place.caller == caller) {
            place.silent = is.then(Instant::now);
        }
    }

    fn leave(&self, caller: usize) {
        self.taken().retain(|place| place.caller != caller);
    }
}

/// A socket that appears with its modes, in place of one that nobody listens on any more.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    if UnixStream::connect(socket).is_ok() {
        let why = "somebody listens there already: is the site's service running?";
        return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    }
    let mut beside = socket.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    let _ = std::fs::remove_file(beside);
    let listener = UnixListener::bind(beside)?;
    std::fs::set_permissions(beside, std::fs::Permissions::from_mode(0o660))?;
    std::fs::rename(beside, socket)?;
    Ok(listener)
}

fn converse(
    stream: &UnixStream,
    keeper: &Mutex<Keeper>,
    most: u64,
    silent: impl Fn(bool),
    log: &dyn Log,
    stop: &AtomicBool,
) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut reader, mut writer) =
        (BufReader::new(Patient::new(stream, stop)), BufWriter::new(stream));
    while !stop.load(Ordering::Relaxed) {
        reader.get_mut().until = Instant::now() + PATIENCE;
        let frame = match Frame::read(&mut reader, most) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
                let reply = respond(&mut keeper, Err(format!("the question is {error}")), log);
                return reply.frame().write(&mut writer);
            }
            Err(error) => return Err(error),
        };
        silent(false);
        let reply = {
            let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
            respond(&mut keeper, Request::of(frame), log)
        };
        // Nor does anybody keep others out by not listening.
        silent(true);
        // What is refused because the service stops can be asked again when it is back.
        if matches!(reply, Reply::Refusal { .. }) && stop.load(Ordering::Relaxed) {
            break;
        }
        reply.frame().write(&mut writer)?;
    }
    Ok(())
}

/// A stream that is read until a moment, however slowly it comes, or until the service stops.
struct Patient<'a> {
    stream: &'a UnixStream,
    until: Instant,
    stop: &'a AtomicBool,
}

impl<'a> Patient<'a> {
    fn new(stream: &'a UnixStream, stop: &'a AtomicBool) -> Self {
        Patient { stream, until: Instant::now() + PATIENCE, stop }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.stop.load(Ordering::Relaxed) {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left.min(PAUSE)))?;
            match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
        Err(io::ErrorKind::ConnectionAborted.into())
    }
}

/// The reply to a question, with a line in the log.
pub fn respond(keeper: &mut Keeper, request: Result<Request, String>, log: &dyn Log) -> Reply {
    let started = Instant::now();
    let answer = match &request {
        Err(why) => Err(Refused::from(why.as_str())),
        Ok(request) => {
            catch_unwind(AssertUnwindSafe(|| keeper.answer(request))).unwrap_or_else(|_| {
                Err(Refused { reason: "the site failed; its log says why".into(), detail: None })
            })
        }
    };
    let mark = keeper.ledger().mark();
    log.said(&Said {
        request: request.as_ref().ok(),
        refused: answer.as_ref().err(),
        ledger: (keeper.ledger().entries(), &mark),
        seconds: started.elapsed().as_secs_f64(),
    });
    answer.unwrap_or_else(|refused| Reply::Refusal { reason: cut(&refused.reason) })
}

/// A sentence of bearable length.
fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}
