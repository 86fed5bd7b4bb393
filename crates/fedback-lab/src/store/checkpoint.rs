//! What a store has of a state.
//!
//! The server's blocks are written whole. What clients keep is written in small blocks of clients,
//! and of these only the ones in which somebody has worked since the last checkpoint: a million
//! clients of whom a hundred work in a round must not cost a million writes.

use fedback_core::federation::ClientId;
use fedback_core::protocol::Round;
use fedback_core::state::{Repetition, State};

/// Numbers in a block of clients, about.
const BLOCK: usize = 64;

/// What some neighbouring clients of a repetition keep.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptBlock {
    /// The repetition's number.
    pub repetition: u64,
    /// The first of the clients.
    pub first: u64,
    /// Client after client.
    pub numbers: Vec<f64>,
}

/// What a run goes on from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// The last round that is done.
    pub round: u64,
    /// The servers' blocks of all repetitions, one after the other: θ, and what else it keeps.
    pub server: Vec<f64>,
    /// What clients keep: when written, the blocks that have changed; when read, all there are.
    pub kept: Vec<KeptBlock>,
    /// The repetitions that have failed so far, and the rounds they failed in.
    pub failed: Vec<(u64, Round)>,
    /// Seconds of work so far.
    pub seconds: f64,
    /// θ of all repetitions at the last record, where the run may end by what moved since; none in
    /// stores before format 7, whose checkpoints of such runs are records.
    pub before: Option<Vec<f64>>,
}

impl Checkpoint {
    /// What is to be written of a state: all but what clients keep unchanged.
    pub fn of(state: &State, seconds: f64) -> Self {
        Checkpoint {
            round: state.round.0,
            server: state.servers().collect(),
            kept: state.repetitions.iter().flat_map(changed_blocks).collect(),
            failed: state.failed(),
            seconds,
            before: None,
        }
    }

    /// The state that was written; `beginning` is the one from which the run began. None where the
    /// shapes differ.
    pub fn state(&self, beginning: State) -> Option<State> {
        let (mut state, layout) = (beginning.clone(), beginning.layout());
        let (clients, each) = (layout.clients as u64, layout.kept);
        if self.server.len() != layout.server() * state.repetitions.len() {
            return None;
        }
        state.round = Round(self.round);
        let blocks = self.server.chunks_exact(layout.server());
        for (repetition, block) in state.repetitions.iter_mut().zip(blocks) {
            repetition.server.copy_from_slice(block);
        }
        for &(number, round) in &self.failed {
            state.repetitions.get_mut(usize::try_from(number).ok()?)?.failed = Some(round);
        }
        for block in &self.kept {
            let place = usize::try_from(block.repetition).ok()?;
            let repetition = state.repetitions.get_mut(place)?;
            if each == 0 || block.numbers.len() % each != 0 {
                return None;
            }
            for (client, numbers) in (block.first..).zip(block.numbers.chunks_exact(each)) {
                let client = u32::try_from(client).ok().filter(|_| client < clients)?;
                repetition.keep(ClientId(client), numbers);
            }
        }
        state.written();
        Some(state)
    }
}

/// The blocks in which a client has changed.
fn changed_blocks(repetition: &Repetition) -> Vec<KeptBlock> {
    let layout = repetition.layout();
    let size = (BLOCK / layout.kept.max(1)).max(1);
    let mut blocks: Vec<usize> = repetition.changed().map(|client| client / size).collect();
    blocks.dedup();
    let block = |block: usize| {
        let (first, last) = (block * size, ((block + 1) * size).min(layout.clients));
        KeptBlock {
            repetition: repetition.number,
            first: first as u64,
            numbers: repetition.kept[first * layout.kept..last * layout.kept].to_vec(),
        }
    };
    blocks.into_iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedback_core::protocol::{LocalRule, Protocol, Scheme, StepSize};

    fn beginning() -> State {
        let usual = Protocol::p_fedavg(Scheme::Full, 1, StepSize::Constant(0.1));
        let scaffold = Protocol { local: LocalRule::Scaffold, ..usual };
        State::beginning(&scaffold, None, 100, &[0.5, 0.25, 1.0], 2)
    }

    #[test]
    fn states_come_back_from_what_has_changed() {
        let mut state = beginning();
        let mut written: Vec<KeptBlock> = Vec::new();
        for (round, client) in [(1, 99), (2, 0), (3, 98), (4, 30)] {
            state.round = Round(round);
            let number = -(round as f64);
            state.repetitions[1].server[4] = number;
            state.repetitions[1].keep(ClientId(client), &[number, 0.0, f64::from(client)]);
            let checkpoint = Checkpoint::of(&state, 1.0);
            state.written();
            assert_eq!(checkpoint.kept.len(), 1);
            for block in checkpoint.kept {
                written.retain(|old| old.first != block.first);
                written.push(block);
            }
            let stored = Checkpoint { kept: written.clone(), ..Checkpoint::of(&state, 1.0) };
            assert!(stored.state(beginning()).unwrap().same_bits(&state));
        }
        // 21 clients a block: 98 and 99 share the last one, which is short.
        assert_eq!(written.len(), 3);
        assert_eq!(
            written.iter().map(|block| block.numbers.len()).sum::<usize>(),
            3 * (21 * 2 + 16)
        );
    }

    #[test]
    fn other_shapes_are_no_state() {
        let good = Checkpoint::of(&beginning(), 0.0);
        assert!(good.state(beginning()).is_some());
        let short = Checkpoint { server: vec![0.0; 5], ..good.clone() };
        let outside = KeptBlock { repetition: 0, first: 100, numbers: vec![0.0; 3] };
        let outside = Checkpoint { kept: vec![outside], ..good.clone() };
        let torn = KeptBlock { repetition: 0, first: 0, numbers: vec![0.0; 4] };
        let torn = Checkpoint { kept: vec![torn], ..good };
        for wrong in [short, outside, torn] {
            assert!(wrong.state(beginning()).is_none());
        }
    }
}
