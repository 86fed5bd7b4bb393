//! Whole runs on the emulated device, by the backend that a real one has, against the simulation: the
//! bits of everything that lives between rounds, for problems and algorithms at random.

mod device;

use std::sync::Arc;

use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{
    Aggregate, Batch, Deploy, LocalRule, Protocol, Round, Scheme, ServerRule, StepSize,
};
use fedback_core::response::Shift;
use fedback_core::state::State;
use fedback_core::stream::{Draws, Purpose, Seed, Streams};
use fedback_cuda::{Cuda, Gpu};
use fedback_engine::backend::{Backend, Course, assemble};

/// What a problem is drawn from.
struct Dice(Draws);

impl Dice {
    fn of(case: u64) -> Self {
        Dice(Streams::new(Seed(99), case, 0, Purpose::Sample).client(0).draws())
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.0.index(choices.len())].clone()
    }

    fn upto(&mut self, most: usize) -> usize {
        1 + self.0.index(most)
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.uniform()
    }

    fn numbers(&mut self, count: usize, low: f64, high: f64) -> Vec<f64> {
        (0..count).map(|_| self.between(low, high)).collect()
    }

    fn weights(&mut self, clients: usize) -> Vec<f64> {
        let mut weights = self.numbers(clients, 0.1, 1.0);
        if clients > 3 && self.0.index(3) == 0 {
            weights[1] = 0.0;
        }
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        weights
    }

    fn shift(&mut self, clients: usize, dim: usize) -> Shift {
        match self.0.index(4) {
            0 => Shift::None,
            1 => Shift::Scaled {
                sensitivity: self.numbers(clients, -0.5, 0.9),
                pattern: (0..dim).map(|_| self.one_of(&[0.0, 1.0, 1.0])).collect(),
            },
            _ => Shift::Diagonal { dim, values: self.numbers(clients * dim, -0.5, 0.9) },
        }
    }

    fn normal(&mut self, clients: usize, dim: usize) -> Federation {
        let noise = self.one_of(&[0.0, 1.0, 1.0, 2.5]);
        let base =
            Base::Gaussian(Gaussian { dim, mean: self.numbers(clients * dim, -9.0, 9.0), noise });
        let shift = self.shift(clients, dim);
        Federation::new(self.weights(clients), base, shift, Loss::Mean).unwrap()
    }

    fn table(&mut self, clients: usize, features: usize, loss: Loss) -> Federation {
        let rows = clients * 3 + self.0.index(60);
        let raw = RawTable {
            features: (0..features).map(|j| format!("x{j}")).collect(),
            values: self.numbers(rows * features, -2.0, 2.0),
            labels: (0..rows).map(|_| self.one_of(&[0.0, 1.0])).collect(),
            clients: None,
        };
        let intercept = loss != Loss::Mean && self.0.index(2) == 0;
        let how = Preparation {
            shuffle: false,
            standardize: false,
            intercept,
            partition: Partition::Equal(clients),
            by_class: true,
        };
        let base = Base::Table(Table::new(raw, &how, Seed(1)).unwrap());
        let mut shift = self.shift(clients, base.width());
        if let Shift::Diagonal { dim, values } = &mut shift {
            for own in values.chunks_exact_mut(*dim) {
                own.iter_mut().for_each(|m| *m *= 0.3);
                if intercept {
                    own[*dim - 1] = 0.0;
                }
            }
        }
        Federation::new(self.weights(clients), base, shift, loss).unwrap()
    }

    fn protocol(&mut self, clients: usize) -> Protocol {
        let scheme = match self.0.index(3) {
            0 => Scheme::Full,
            1 => Scheme::WithReplacement { cohort: self.upto(2 * clients) },
            _ => Scheme::WithoutReplacement { cohort: self.upto(clients) },
        };
        let without = matches!(scheme, Scheme::WithoutReplacement { .. });
        Protocol {
            scheme,
            local_steps: self.upto(6),
            batch: self.one_of(&[1, 1, 2, 3, 4, 5, 9]).into_batch(),
            step_size: self
                .one_of(&[StepSize::Constant(0.05), StepSize::Decaying { beta: 3.0, gamma: 40.0 }]),
            local: self.one_of(&[
                LocalRule::Descent,
                LocalRule::Descent,
                LocalRule::Proximal { proximal: 0.7 },
                LocalRule::Scaffold,
            ]),
            server: self.one_of(&[
                ServerRule::Average,
                ServerRule::Average,
                ServerRule::Momentum { rate: 0.8, beta: 0.6 },
                ServerRule::Adam { rate: 0.05, beta1: 0.9, beta2: 0.95, tau: 0.01 },
            ]),
            deploy: self.one_of(&[Deploy::Step, Deploy::Round]),
            aggregate: self.one_of(&[Aggregate::Deltas, Aggregate::Deltas, Aggregate::Iterates]),
            scale_objectives: without && self.0.index(2) == 0,
            clip: self.one_of(&[None, None, Some(0.9)]),
        }
        .with_whole_batches(self.0.index(8) == 0)
    }
}

trait IntoBatch {
    fn into_batch(self) -> Batch;
}

impl IntoBatch for usize {
    fn into_batch(self) -> Batch {
        Batch::Sampled(self)
    }
}

trait WithWholeBatches {
    fn with_whole_batches(self, whole: bool) -> Self;
}

impl WithWholeBatches for Protocol {
    fn with_whole_batches(self, whole: bool) -> Self {
        match whole {
            true => Protocol { batch: Batch::All, ..self },
            false => self,
        }
    }
}

fn course(problem: &Federation, protocol: Protocol, repetitions: u64) -> Course {
    let start = vec![0.3; problem.dim()];
    Course::new(protocol, problem.weights().clone(), Seed(23), &start, repetitions)
}

/// What a state comes to after slices of rounds, of which every second one is watched.
fn advance(backend: &mut dyn Backend, slices: &[u64]) {
    for (place, until) in slices.iter().enumerate() {
        backend.advance(Round(*until), place % 2 == 1).unwrap();
        if place == 0 {
            backend.state_mut().written();
        }
    }
}

/// All bits that live between rounds, and what was worked out beside them.
fn assert_same(device: &State, processor: &State, what: &str) {
    assert!(
        device.same_bits(processor),
        "{what}\n{:?}\n{:?}",
        device.repetitions,
        processor.repetitions
    );
    for (one, other) in device.repetitions.iter().zip(&processor.repetitions) {
        let bits = |consensus: Option<f64>| consensus.map(f64::to_bits);
        assert_eq!(bits(one.consensus), bits(other.consensus), "{what}: consensus");
    }
}

fn compare(gpu: &Gpu, problem: &Federation, protocol: Protocol, repetitions: u64, slices: &[u64]) {
    let what = format!(
        "{} clients, {} coordinates, {repetitions} repetitions, {:?}, {protocol:?}",
        problem.clients(),
        problem.dim(),
        problem.loss()
    );
    let mut processor = assemble(problem, course(problem, protocol, repetitions)).unwrap();
    let mut device = Cuda::new(gpu, problem, course(problem, protocol, repetitions)).unwrap();
    advance(&mut *processor, slices);
    advance(&mut device, slices);
    assert_same(device.state(), processor.state(), &what);
}

/// The problem that the paper begins with: one coordinate, everybody, single observations.
#[test]
fn normal_data_of_one_coordinate_come_to_the_same_bits() {
    let _device = device::held();
    let gpu = Gpu::open().unwrap();
    for (case, clients) in [25, 1, 7, 40].into_iter().enumerate() {
        let problem = Dice::of(case as u64).normal(clients, 1);
        let size = StepSize::Decaying { beta: 20.0, gamma: 1000.0 };
        let protocol = Protocol::p_fedavg(Scheme::Full, 5, size);
        compare(&gpu, &problem, protocol, 13, &[1, 2, 60, 61]);
    }
}

#[test]
fn normal_data_come_to_the_same_bits_under_any_algorithm() {
    let _device = device::held();
    let gpu = Gpu::open().unwrap();
    for case in 0..cases() {
        let mut dice = Dice::of(1000 + case);
        let (clients, dim) =
            (dice.one_of(&[1, 2, 5, 12, 70, 130]), dice.one_of(&[1, 1, 2, 3, 5, 17]));
        let problem = dice.normal(clients, dim);
        let protocol = dice.protocol(clients);
        let repetitions = dice.upto(9) as u64;
        compare(&gpu, &problem, protocol, repetitions, &[3, 4, 9]);
    }
}

#[test]
fn rows_come_to_the_same_bits_under_any_algorithm() {
    let _device = device::held();
    let gpu = Gpu::open().unwrap();
    for case in 0..2 * cases() {
        let mut dice = Dice::of(2000 + case);
        let clients = dice.one_of(&[1, 2, 5, 9, 33]);
        let features = dice.one_of(&[1, 2, 3, 4, 5, 7, 8, 11, 12, 15, 16, 18, 30, 40, 63]);
        let loss =
            dice.one_of(&[Loss::Mean, Loss::Squared { l2: 0.1 }, Loss::Logistic { l2: 0.02 }]);
        let problem = dice.table(clients, features, loss);
        let protocol = dice.protocol(clients);
        let repetitions = dice.upto(6) as u64;
        compare(&gpu, &problem, protocol, repetitions, &[2, 3, 6]);
    }
}

/// So many repetitions that each has one thread, with slices that are watched in between.
#[test]
fn many_repetitions_come_to_the_same_bits() {
    let _device = device::held();
    let gpu = Gpu::open().unwrap();
    let repetitions = if device::is_real() { 40_000 } else { 400 };
    for case in 0..cases() {
        let mut dice = Dice::of(4000 + case);
        let clients = dice.one_of(&[1, 2, 3, 4, 25, 63, 64]);
        let problem = dice.normal(clients, 1);
        let protocol = dice.protocol(clients);
        let local = match protocol.local {
            LocalRule::Scaffold => LocalRule::Descent,
            other => other,
        };
        let protocol = Protocol { local, clip: None, ..protocol };
        compare(&gpu, &problem, protocol, repetitions, &[3, 4, 6]);
    }
}

/// Models of more coordinates than a few threads can hold, in batches of more and fewer rows than are
/// taken together.
#[test]
fn wide_rows_come_to_the_same_bits_under_any_algorithm() {
    let _device = device::held();
    let gpu = Gpu::open().unwrap();
    // There may be more draws than clients, each of which has a block.
    let problem = Dice::of(6).table(3, 68, Loss::Squared { l2: 0.1 });
    let scheme = Scheme::WithReplacement { cohort: 8 };
    let protocol = Protocol::p_fedavg(scheme, 2, StepSize::Constant(0.001));
    compare(&gpu, &problem, protocol, 3, &[1, 2, 4]);
    for case in 0..cases() / 4 {
        let mut dice = Dice::of(3000 + case);
        let (clients, features) = (dice.one_of(&[1, 2, 5]), dice.one_of(&[65, 67, 100, 1001]));
        let loss = dice.one_of(&[Loss::Squared { l2: 0.1 }, Loss::Logistic { l2: 0.02 }]);
        let problem = dice.table(clients, features, loss);
        let protocol = dice.protocol(clients);
        let batch = dice.one_of(&[protocol.batch, Batch::Sampled(64), Batch::Sampled(70)]);
        let size = StepSize::Constant(0.001);
        let protocol = Protocol { batch, step_size: size, ..protocol };
        compare(&gpu, &problem, protocol, 3, &[1, 2, 4]);
    }
}

/// How many problems are drawn of a kind; `FEDBACK_CASES` asks for more.
fn cases() -> u64 {
    std::env::var("FEDBACK_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// A repetition whose model leaves the range of numbers fails in the same round, and stays what it was
/// before; the others go on.
#[test]
fn what_diverges_fails_in_the_same_round() {
    let _device = device::held();
    let gpu = Gpu::open().unwrap();
    let mut dice = Dice::of(3);
    let problem = dice.normal(6, 2);
    let scheme = Scheme::WithReplacement { cohort: 2 };
    let usual = Protocol::p_fedavg(scheme, 2, StepSize::Constant(9.0));
    for local in [LocalRule::Descent, LocalRule::Scaffold] {
        let protocol = Protocol { local, ..usual };
        compare(&gpu, &problem, protocol, 11, &[100, 200, 201, 400]);
        let mut device = Cuda::new(&gpu, &problem, course(&problem, protocol, 11)).unwrap();
        device.advance(Round(400), false).unwrap();
        assert!(!device.state().failed().is_empty());
    }
    let problem = dice.normal(6, 1);
    compare(&gpu, &problem, usual, 500, &[100, 200, 201, 400]);
}

/// A run that is continued on the other device comes to the bits of one that was not.
#[test]
fn a_state_goes_on_on_the_other_device() {
    let _device = device::held();
    let gpu = Gpu::open().unwrap();
    let mut dice = Dice::of(4);
    let problem = dice.table(5, 6, Loss::Logistic { l2: 0.1 });
    let scheme = Scheme::WithoutReplacement { cohort: 3 };
    let usual = Protocol::p_fedavg(scheme, 3, StepSize::Decaying { beta: 5.0, gamma: 50.0 });
    let protocol = Protocol { local: LocalRule::Scaffold, batch: Batch::Sampled(4), ..usual };
    let begin = || course(&problem, protocol, 7);
    let mut whole = assemble(&problem, begin()).unwrap();
    whole.advance(Round(30), false).unwrap();
    let mut first = Cuda::new(&gpu, &problem, begin()).unwrap();
    first.advance(Round(11), false).unwrap();
    let between = Course { state: first.state().clone(), ..begin() };
    let mut second = assemble(&problem, between).unwrap();
    second.advance(Round(19), false).unwrap();
    let between = Course { state: second.state().clone(), ..begin() };
    let mut third = Cuda::new(&gpu, &problem, between).unwrap();
    third.advance(Round(30), false).unwrap();
    assert_same(third.state(), whole.state(), "handed over twice");
}

/// The same bits where rooms are too large for a block to share.
#[test]
fn many_clients_come_to_the_same_bits() {
    let _device = device::held();
    let gpu = Gpu::open().unwrap();
    let mut dice = Dice::of(5);
    let problem = dice.normal(3000, 3);
    for scheme in [Scheme::Full, Scheme::WithReplacement { cohort: 500 }] {
        let protocol = Protocol::p_fedavg(scheme, 2, StepSize::Constant(0.1));
        compare(&gpu, &problem, protocol, 2, &[2, 3]);
    }
    let problem: Arc<Federation> = Arc::new(dice.normal(100_000, 1));
    let scheme = Scheme::WithoutReplacement { cohort: 100 };
    let protocol = Protocol::p_fedavg(scheme, 2, StepSize::Constant(0.1));
    compare(&gpu, &problem, protocol, 2, &[3]);
}
