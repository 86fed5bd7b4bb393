//! All that lives between rounds, as one thing.
//!
//! A [`State`] is what a run goes on from: a block of numbers of the server and a block of numbers
//! of the clients for every repetition. Whoever moves a run moves these: the checkpoint in a store,
//! the messages to real clients, a backend on another device. What is in the blocks is said by a
//! [`Layout`], which follows from the protocol and from how populations remember.

use crate::federation::{ClientId, range_of};
use crate::memory::{Memory, Past};
use crate::protocol::{Deploy, Protocol, Round, ServerRule};

/// What is where in the blocks of a state.
///
/// | block | numbers | what |
/// |---|---|---|
/// | server | `dim` | θ |
/// | | `sent` | what is broadcast with θ: the average of what rules keep (`control` numbers), what all |
/// | | | populations remember, where a deployment is a broadcast |
/// | | `own` | what the server keeps to itself: v of momentum, m and v of Adam |
/// | client | `kept` | what a client keeps from one of its rounds to the next: by its rule (`control` |
/// | | | numbers), and what its own population remembers, where a deployment is a local step |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Coordinates of θ.
    pub dim: usize,
    /// Numbers broadcast with θ.
    pub sent: usize,
    /// Numbers that the server keeps to itself.
    pub own: usize,
    /// Clients.
    pub clients: usize,
    /// Numbers that each client keeps.
    pub kept: usize,
    /// Numbers that are the rule's: the first of those sent, and of those kept.
    pub control: usize,
    /// How populations remember.
    pub memory: Option<Memory>,
}

/// What is broadcast, in its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Broadcast<'a> {
    /// θ.
    pub theta: &'a [f64],
    /// What rules are sent; empty where clients keep nothing by their rule.
    pub control: &'a [f64],
    /// What all populations remember of broadcasts before this one; empty where they do not.
    pub past: &'a [f64],
}

impl Layout {
    /// The layout of a protocol for clients that share a model of `dim` coordinates, and whose
    /// populations remember.
    pub fn new(protocol: &Protocol, memory: Option<Memory>, dim: usize, clients: usize) -> Self {
        let control = if protocol.local.keeps() { dim } else { 0 };
        let (all, own) = match memory {
            None => (0, 0),
            Some(Memory::Renewal { shares, .. }) => (clients * shares, shares),
            Some(memory) => (memory.models() * dim, memory.models() * dim),
        };
        let weights = matches!(memory, Some(Memory::Renewal { weights: true, .. }));
        let (sent, kept) = match protocol.deploy {
            Deploy::Step if !weights => (control, control + own),
            Deploy::Step | Deploy::Round => (control + all, control),
        };
        let own = dim * protocol.server.vectors();
        Layout { dim, sent, own, clients, kept, control, memory }
    }

    /// The parts of what is broadcast.
    #[inline]
    pub fn parts<'a>(&self, broadcast: &'a [f64]) -> Broadcast<'a> {
        let (theta, sent) = broadcast.split_at(self.dim);
        let (control, past) = sent.split_at(self.control);
        Broadcast { theta, control, past }
    }

    /// Numbers in the server's block.
    pub fn server(&self) -> usize {
        self.dim + self.sent + self.own
    }

    /// Numbers at the beginning of the server's block that every client gets: θ, and what is sent
    /// with it.
    #[inline]
    pub fn broadcast(&self) -> usize {
        self.dim + self.sent
    }

    /// Numbers in the clients' block.
    pub fn all_kept(&self) -> usize {
        self.clients * self.kept
    }
}

/// Where one seeded repeat of a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Repetition {
    /// Its number, part of every stream's key.
    pub number: u64,
    /// The server's block; what it was before the failing round, where one failed.
    pub server: Vec<f64>,
    /// What clients keep, client after client.
    pub kept: Vec<f64>,
    /// The round in which the server's block stopped being finite.
    pub failed: Option<Round>,
    /// Σ p_i |w_i − w̄|² just before the last aggregation for which it was asked, over all clients;
    /// none where the update of one was missing.
    pub consensus: Option<f64>,
    layout: Layout,
    /// A bit for every client whose numbers have changed since they were last written.
    changed: Vec<u64>,
}

impl Repetition {
    /// A repetition whose clients keep nothing but zeros, and what their populations remember.
    pub fn new(number: u64, layout: Layout, server: Vec<f64>, past: &[f64]) -> Self {
        let words = if layout.kept > 0 { layout.clients.div_ceil(64) } else { 0 };
        Repetition {
            number,
            server,
            kept: kept_first(layout, past),
            failed: None,
            consensus: Some(0.0),
            layout,
            changed: vec![0; words],
        }
    }

    /// What is where.
    #[inline]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Coordinates of θ.
    #[inline]
    pub fn dim(&self) -> usize {
        self.layout.dim
    }

    /// The server's model.
    #[inline]
    pub fn theta(&self) -> &[f64] {
        &self.server[..self.layout.dim]
    }

    /// What every client gets: θ, and what is sent with it.
    #[inline]
    pub fn broadcast(&self) -> &[f64] {
        &self.server[..self.layout.broadcast()]
    }

    /// What one client keeps.
    #[inline]
    pub fn kept_by(&self, client: ClientId) -> &[f64] {
        &self.kept[client.0 as usize * self.layout.kept..][..self.layout.kept]
    }

    /// A client keeps something else.
    #[inline]
    pub fn keep(&mut self, client: ClientId, numbers: &[f64]) {
        let client = client.0 as usize;
        self.kept[client * self.layout.kept..][..self.layout.kept].copy_from_slice(numbers);
        if let Some(word) = self.changed.get_mut(client / 64) {
            *word |= 1 << (client % 64);
        }
    }

    /// What all populations remember of broadcasts; empty where they do not.
    #[inline]
    pub fn past_mut(&mut self) -> &mut [f64] {
        let Layout { dim, sent, control, .. } = self.layout;
        &mut self.server[dim + control..dim + sent]
    }

    /// What was broadcast has been deployed to all populations: those that remember broadcasts take
    /// in θ of `before`, the server's block as it was then.
    #[inline]
    pub fn remember(&mut self, before: &[f64]) {
        let Layout { dim, sent, control, memory, .. } = self.layout;
        if let Some(memory) = memory.filter(|_| sent > control) {
            memory.take_in(&before[..dim], self.past_mut());
        }
    }

    /// Clients, in the order of their ids, keep something else, one after the other.
    pub fn keep_all(&mut self, clients: &[ClientId], numbers: &[f64]) {
        let each = self.layout.kept;
        match range_of(clients) {
            Some(range) => {
                self.kept[range.start * each..range.end * each].copy_from_slice(numbers);
                for client in range {
                    self.changed[client / 64] |= 1 << (client % 64);
                }
            }
            None => {
                for (client, numbers) in clients.iter().zip(numbers.chunks_exact(each)) {
                    self.keep(*client, numbers);
                }
            }
        }
    }

    /// The clients whose numbers have changed since they were last written, in order.
    pub fn changed(&self) -> impl Iterator<Item = usize> {
        self.changed.iter().enumerate().filter(|(_, bits)| **bits != 0).flat_map(|(word, bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| 64 * word + bit)
        })
    }
}

/// What clients keep before they have worked.
fn kept_first(layout: Layout, past: &[f64]) -> Vec<f64> {
    let mut kept = vec![0.0; layout.all_kept()];
    if layout.kept > layout.control {
        let each = layout.kept - layout.control;
        for (client, own) in kept.chunks_exact_mut(layout.kept).enumerate() {
            let first = if past.len() == each { 0 } else { client * each };
            own[layout.control..].copy_from_slice(&past[first..first + each]);
        }
    }
    kept
}

/// Where all repetitions of a run stand.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Rounds closed.
    pub round: Round,
    /// The repetitions in order.
    pub repetitions: Vec<Repetition>,
    layout: Layout,
}

impl State {
    /// Before the first round: every repetition at `start`, nobody keeps anything but the past that its
    /// population remembers.
    ///
    /// ```
    /// use fedback_core::protocol::{LocalRule, Protocol, Scheme, StepSize};
    /// use fedback_core::state::State;
    /// let usual = Protocol::p_fedavg(Scheme::Full, 5, StepSize::Constant(0.02));
    /// let scaffold = Protocol { local: LocalRule::Scaffold, ..usual };
    /// let state = State::beginning(&scaffold, None, 3, &[1.0, 2.0], 10);
    /// assert_eq!(state.repetitions[9].theta(), [1.0, 2.0]);
    /// assert_eq!(state.repetitions[9].broadcast(), [1.0, 2.0, 0.0, 0.0]);
    /// assert_eq!(state.repetitions[9].kept, [0.0; 6]);
    /// ```
    pub fn beginning(
        protocol: &Protocol,
        past: Option<&Past>,
        clients: usize,
        start: &[f64],
        repetitions: u64,
    ) -> Self {
        let memory = past.map(|past| past.memory);
        let layout = Layout::new(protocol, memory, start.len(), clients);
        let past = past.map_or(Vec::new(), Past::beginning);
        let mut server = start.to_vec();
        server.resize(layout.dim + layout.control, 0.0);
        if layout.sent > layout.control {
            server.extend_from_slice(&past);
        }
        server.resize(layout.server(), 0.0);
        if let ServerRule::Adam { tau, .. } = protocol.server {
            let second = server.len() - layout.dim;
            server[second..].fill(tau * tau);
        }
        let repetition = |number| Repetition::new(number, layout, server.clone(), &past);
        let repetitions = (0..repetitions).map(repetition).collect();
        State { round: Round(0), repetitions, layout }
    }

    /// What is where.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The servers' blocks, repetition after repetition.
    pub fn servers(&self) -> impl Iterator<Item = f64> {
        self.repetitions.iter().flat_map(|repetition| repetition.server.iter().copied())
    }

    /// The repetitions that have failed, with the round in which they did.
    pub fn failed(&self) -> Vec<(u64, Round)> {
        let failed = |repetition: &Repetition| repetition.failed.map(|r| (repetition.number, r));
        self.repetitions.iter().filter_map(failed).collect()
    }

    /// Whether every bit of what lives between rounds is the same.
    pub fn same_bits(&self, other: &State) -> bool {
        let same = |a: &[f64], b: &[f64]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
        };
        self.round == other.round
            && self.repetitions.len() == other.repetitions.len()
            && self.repetitions.iter().zip(&other.repetitions).all(|(one, other)| {
                same(&one.server, &other.server)
                    && same(&one.kept, &other.kept)
                    && one.failed == other.failed
            })
    }

    /// All changes of what clients keep have been written.
    pub fn written(&mut self) {
        self.repetitions.iter_mut().for_each(|repetition| repetition.changed.fill(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{LocalRule, Scheme, StepSize};

    fn protocol(local: LocalRule, server: ServerRule) -> Protocol {
        let usual = Protocol::p_fedavg(Scheme::Full, 1, StepSize::Constant(0.1));
        Protocol { local, server, ..usual }
    }

    #[test]
    fn layouts_follow_from_the_protocol() {
        let momentum = ServerRule::Momentum { rate: 1.0, beta: 0.9 };
        let adam = ServerRule::Adam { rate: 0.1, beta1: 0.9, beta2: 0.99, tau: 0.5 };
        let sizes = |local, server| {
            let layout = Layout::new(&protocol(local, server), None, 2, 3);
            (layout.broadcast(), layout.server(), layout.all_kept())
        };
        assert_eq!(sizes(LocalRule::Descent, ServerRule::Average), (2, 2, 0));
        assert_eq!(sizes(LocalRule::Descent, momentum), (2, 4, 0));
        assert_eq!(sizes(LocalRule::Scaffold, adam), (4, 8, 6));
        let state = State::beginning(&protocol(LocalRule::Scaffold, adam), None, 3, &[1.0, 2.0], 1);
        assert_eq!(state.repetitions[0].server, [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.25]);
    }

    #[test]
    fn what_is_remembered_goes_with_the_deployments() {
        let memory = Memory::Delay { deployments: 2 };
        let past = Past { memory, start: [5.0, 6.0].into() };
        let scaffold = protocol(LocalRule::Scaffold, ServerRule::Average);
        let begin = |protocol| State::beginning(&protocol, Some(&past), 2, &[1.0, 2.0], 1);
        let mut rounds =
            begin(Protocol { deploy: Deploy::Round, ..scaffold }).repetitions.remove(0);
        assert_eq!(rounds.server, [1.0, 2.0, 0.0, 0.0, 5.0, 6.0, 5.0, 6.0]);
        assert_eq!(rounds.kept, [0.0; 4]);
        rounds.remember(&[1.0, 2.0]);
        assert_eq!(rounds.layout().parts(rounds.broadcast()).past, [1.0, 2.0, 5.0, 6.0]);
        let mut steps = begin(scaffold).repetitions.remove(0);
        assert_eq!(steps.server, [1.0, 2.0, 0.0, 0.0]);
        assert_eq!(steps.kept_by(ClientId(1)), [0.0, 0.0, 5.0, 6.0, 5.0, 6.0]);
        let before = steps.clone();
        steps.remember(&[1.0, 2.0]);
        assert_eq!(steps, before);
    }

    #[test]
    fn only_what_has_changed_is_named() {
        let scaffold = protocol(LocalRule::Scaffold, ServerRule::Average);
        let mut state = State::beginning(&scaffold, None, 130, &[0.0], 1);
        for client in [129, 3, 64] {
            state.repetitions[0].keep(ClientId(client), &[1.0]);
        }
        assert_eq!(state.repetitions[0].changed().collect::<Vec<_>>(), [3, 64, 129]);
        state.written();
        assert_eq!(state.repetitions[0].changed().count(), 0);
        assert_eq!(state.repetitions[0].kept_by(ClientId(64)), [1.0]);
    }
}
