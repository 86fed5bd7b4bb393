//! The site's own program, which observes: a process that is asked in frames on its standard input
//! and answers on its standard output.
//!
//! A thread of its own talks to the process, so that whoever waits for an answer can be told to stop,
//! however long the program takes. A program that has died is started again with the next question.

use std::fmt;
use std::io::{self, BufRead, BufReader, BufWriter, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use crate::frame::Frame;

/// How often somebody who waits looks whether to stop.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a line of standard error; the rest is another line.
const LINE: u64 = 4096;

/// What is heard of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Heard<'a> {
    /// It was started, as this process.
    Started(u32),
    /// It has ended, and how.
    Ended(&'a str),
    /// A line of its standard error.
    Line(&'a str),
}

/// Who hears of a program, and when it is to stop.
#[derive(Clone)]
pub struct Surroundings {
    /// Set when the program is no longer waited for.
    pub stop: Arc<AtomicBool>,
    /// Hears of it.
    pub hear: Arc<dyn Fn(Heard<'_>) + Send + Sync>,
}

impl Default for Surroundings {
    fn default() -> Self {
        Surroundings { stop: Arc::default(), hear: Arc::new(|_| {}) }
    }
}

/// Why there are no observations.
#[derive(Clone, Debug, PartialEq)]
pub enum Unobserved {
    /// The program has ended, or could not be started.
    Ended(String),
    /// The service is about to stop.
    Stopped,
    /// The program said what cannot be used.
    Nonsense(String),
    /// The program said that it failed.
    Failed(String),
}

impl fmt::Display for Unobserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unobserved::Ended(how) => write!(f, "the program of observe has ended: {how}"),
            Unobserved::Stopped => write!(f, "the service stops"),
            Unobserved::Nonsense(what) => write!(f, "the program of observe returned {what}"),
            Unobserved::Failed(why) => write!(f, "the program of observe failed: {why}"),
        }
    }
}

/// A program that is kept running.
pub struct Program {
    words: Vec<String>,
    folder: PathBuf,
    around: Surroundings,
    running: Option<Running>,
}

/// A process, and the thread that talks to it.
struct Running {
    child: Child,
    questions: Sender<(Frame, u64)>,
    replies: Receiver<io::Result<Option<Frame>>>,
}

impl Program {
    /// Starts a program with its arguments in a folder.
    pub fn start(words: &[String], folder: PathBuf, around: Surroundings) -> io::Result<Self> {
        let mut program = Program { words: words.to_vec(), folder, around, running: None };
        program.running = Some(program.run()?);
        Ok(program)
    }

    /// What the program says to a frame, in at most so many bytes.
    pub fn ask(&mut self, frame: Frame, most: u64) -> Result<Frame, Unobserved> {
        let dead = |running: &mut Running| !matches!(running.child.try_wait(), Ok(None));
        if self.running.as_mut().is_some_and(dead) {
            self.end();
        }
        if self.running.is_none() {
            self.running = Some(self.run().map_err(|error| Unobserved::Ended(error.to_string()))?);
        }
        match self.converse(frame, most) {
            Ok(reply) => Ok(reply),
            // Where its next frame begins is not known any more, or it is not to be waited for.
            Err(why) => {
                let how = self.end();
                Err(match why {
                    Unobserved::Ended(_) => Unobserved::Ended(how),
                    Unobserved::Stopped | Unobserved::Nonsense(_) | Unobserved::Failed(_) => why,
                })
            }
        }
    }

    fn converse(&self, frame: Frame, most: u64) -> Result<Frame, Unobserved> {
        let ended = || Unobserved::Ended(String::new());
        let Running { questions, replies, .. } = self.running.as_ref().ok_or_else(ended)?;
        questions.send((frame, most)).map_err(|_| ended())?;
        loop {
            match replies.recv_timeout(PAUSE) {
                Ok(Ok(Some(reply))) => return Ok(reply),
                Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(Unobserved::Nonsense(error.to_string()));
                }
                Ok(Ok(None) | Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(ended()),
                Err(RecvTimeoutError::Timeout) if self.around.stop.load(Ordering::Relaxed) => {
                    return Err(Unobserved::Stopped);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn run(&self) -> io::Result<Running> {
        let (program, arguments) =
            self.words.split_first().ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // What is typed at the service's terminal is not for the program.
        let mut child = command.process_group(0).spawn()?;
        (self.around.hear)(Heard::Started(child.id()));
        let (questions, asked) = channel::<(Frame, u64)>();
        let (told, replies) = channel();
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if let (Some(to), Some(from), Some(error)) = pipes {
            let (mut to, mut from) = (BufWriter::new(to), BufReader::new(from));
            Builder::new().spawn(move || {
                for (frame, most) in asked {
                    let said = frame.write(&mut to).and_then(|()| Frame::read(&mut from, most));
                    let over = !matches!(said, Ok(Some(_)));
                    if told.send(said).is_err() || over {
                        break;
                    }
                }
            })?;
            let hear = self.around.hear.clone();
            Builder::new().spawn(move || pass_on(error, &*hear))?;
        }
        Ok(Running { child, questions, replies })
    }

    /// Ends the process, if it has not ended; how it did.
    fn end(&mut self) -> String {
        let Some(Running { mut child, .. }) = self.running.take() else { return "before".into() };
        // One that hung up is about to end by itself, or never.
        let _ = child.kill();
        let how = match child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        (self.around.hear)(Heard::Ended(&how));
        how
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// Tells standard error on, line by line.
fn pass_on(error: ChildStderr, hear: &(dyn Fn(Heard<'_>) + Send + Sync)) {
    let mut reader = BufReader::new(error);
    let mut line = Vec::new();
    while matches!((&mut reader).take(LINE).read_until(b'\n', &mut line), Ok(1..)) {
        hear(Heard::Line(String::from_utf8_lossy(&line).trim_end()));
        line.clear();
    }
}
