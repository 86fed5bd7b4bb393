//! Clients that send without end: what the server holds in a round does not grow with the number of
//! messages. An allocator counts the bytes.

#[expect(dead_code, reason = "the rest of it is for honest clients")]
mod network;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use fedback_core::federation::ClientId;
use fedback_core::protocol::{LocalRule, Protocol, Round, Scheme, StepSize};
use fedback_core::stream::Draws;
use fedback_engine::backend::{Backend, BackendError};
use fedback_engine::live::{Arrival, LiveOrder, Sender, Settings, Transport, TransportError};
use fedback_engine::server::{Refusal, Update};

use network::run::Run;
use network::{CLIENTS, DIM, REPETITIONS, draws, federation, schedules};

struct Counting;

thread_local! {
    /// Bytes that this thread holds, and the most that it ever held.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn hold(bytes: isize) {
    let (held, most) = HELD.get();
    HELD.set((held + bytes, most.max(held + bytes)));
}

#[expect(unsafe_code, reason = "an allocator cannot be counted without standing in for it")]
// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        hold(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        hold(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The longest update that is sent, in numbers.
const LONGEST: usize = 50;

/// A transport that brings nothing right, so many times.
struct Flood {
    draws: Draws,
    left: u64,
    refused: u64,
    round: Round,
}

impl Transport for Flood {
    fn ask(&mut self, order: &LiveOrder<'_>) -> Result<(), TransportError> {
        self.round = order.round;
        Ok(())
    }

    fn next(&mut self) -> Result<Arrival, TransportError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(Arrival::Deadline) };
        self.left = left;
        let anybody = ClientId(self.draws.index(1 << 30) as u32);
        let client = ClientId(self.draws.index(CLIENTS) as u32);
        let repetition = self.draws.index(REPETITIONS) as u64;
        let honest = Sender { round: self.round, repetition, client };
        let nothing = Update { delta: vec![0.0; DIM], kept: vec![] };
        let (sender, update) = match self.draws.index(7) {
            // Said of somebody who does not exist.
            0 => return Ok(Arrival::Absent { client: anybody, reason: "gone".into() }),
            1 => (Sender { client: anybody, ..honest }, nothing),
            2 => (Sender { repetition: u64::from(anybody.0) + 2, ..honest }, nothing),
            3 => (Sender { round: Round(u64::from(anybody.0) + 1), ..honest }, nothing),
            4 => (honest, Update { delta: vec![f64::NAN; DIM], kept: vec![] }),
            5 => (honest, Update { delta: vec![0.0; 3 + self.draws.index(LONGEST)], kept: vec![] }),
            _ => (honest, Update { delta: vec![1e9; DIM], kept: vec![0.0; LONGEST] }),
        };
        Ok(Arrival::Update { sender, update })
    }

    fn refused(&mut self, _: Sender, _: &Refusal) {
        self.refused += 1;
    }
}

/// The most bytes held while so many messages come, beyond those held before.
fn most(protocol: Protocol, seed: u64, messages: u64) -> isize {
    let federation = federation();
    let mut flood = Flood { draws: draws(seed), left: messages, refused: 0, round: Round(0) };
    let run = Run::new(&federation, protocol);
    let mut live = run.server(&mut flood, Settings { minimum: 1, attempts: 0 });
    let before = live.state().clone();
    let (held, _) = HELD.get();
    HELD.set((held, held));
    let closed = live.advance(Round(1), false);
    let (_, most) = HELD.get();
    assert!(matches!(closed, Err(BackendError::TooFew { present: 0, .. })), "{closed:?}");
    assert!(live.state().same_bits(&before));
    drop(live);
    assert!(flood.refused > messages / 2 && flood.left == 0);
    most - held
}

#[test]
fn what_is_held_does_not_grow_with_what_is_sent() {
    let step_size = StepSize::Constant(0.1);
    for schedule in 0..schedules(1000) / 50 {
        let scheme = match schedule % 4 {
            0 => Scheme::Full,
            1 => Scheme::WithReplacement { cohort: 4 },
            2 => Scheme::WithoutReplacement { cohort: 3 },
            _ => Scheme::FirstArrivals { cohort: 2, correct: schedule % 8 < 4 },
        };
        let usual = Protocol::p_fedavg(scheme, 2, step_size);
        let local = match schedule % 3 {
            0 => LocalRule::Scaffold,
            _ => LocalRule::Descent,
        };
        let protocol = Protocol { local, clip: (schedule % 5 == 0).then_some(2.0), ..usual };
        let (few, many) = (most(protocol, schedule, 500), most(protocol, schedule, 20_000));
        // A reason is kept for every client: they differ in length. One message more that is kept
        // in forty would be ten thousand bytes.
        assert!(many <= few + 1000, "schedule {schedule}: {few} bytes, then {many}");
    }
}
