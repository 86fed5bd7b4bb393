//! No round allocates: a counting allocator sees as many allocations in many rounds as in few.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use fedback_core::arrivals::{Arrivals, Latency};
use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Batch, LocalRule, Protocol, Round, Scheme, ServerRule, StepSize};
use fedback_core::response::{Sensitivity, best_response, location};
use fedback_core::stream::Seed;
use fedback_engine::backend::{Backend, Course};
use fedback_engine::cohort::CohortSampler;
use fedback_engine::simulate::Simulation;

struct Counting;

thread_local! {
    /// Of this thread alone: what the test harness allocates meanwhile is not a round's doing.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "an allocator cannot be counted without standing in for it")]
// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One a kernel.
fn federations() -> [Federation; 3] {
    let clients = 12;
    let weights = vec![1.0 / clients as f64; clients];
    let gaussian = Federation::new(
        weights.clone(),
        Base::Gaussian(Gaussian { dim: 3, mean: vec![1.0; 3 * clients], noise: 1.0 }),
        location(&Sensitivity::Scalar(vec![0.5; clients]), 3, false),
        Loss::Mean,
    )
    .unwrap();
    let mixing = vec![vec![vec![0.1, 0.2, 0.0], vec![0.0, 0.3, -0.1], vec![0.2; 3]]; clients];
    let mixed = gaussian.with_response(location(&Sensitivity::Matrix(mixing), 3, false)).unwrap();
    let raw = RawTable {
        features: vec!["a".into(), "b".into()],
        values: (0..200).map(|k| (k % 13) as f64 - 6.0).collect(),
        labels: (0..100).map(|k| (k % 2) as f64).collect(),
        clients: None,
    };
    let how = Preparation {
        shuffle: false,
        standardize: true,
        intercept: true,
        partition: Partition::Equal(clients),
        by_class: true,
    };
    let rows = Federation::new(
        weights,
        Base::Table(Table::new(raw, &how, Seed(0)).unwrap()),
        best_response(&Sensitivity::Scalar(vec![0.5; clients]), &[0], 3),
        Loss::Logistic { l2: 0.1 },
    )
    .unwrap();
    [gaussian, mixed, rows]
}

/// Every local rule and every rule of the server.
fn rules() -> [(LocalRule, ServerRule); 5] {
    let momentum = ServerRule::Momentum { rate: 1.0, beta: 0.5 };
    let adam = ServerRule::Adam { rate: 0.01, beta1: 0.9, beta2: 0.99, tau: 0.1 };
    [
        (LocalRule::Descent, ServerRule::Average),
        (LocalRule::Proximal { proximal: 0.5 }, ServerRule::Average),
        (LocalRule::Scaffold, ServerRule::Average),
        (LocalRule::Descent, momentum),
        (LocalRule::Scaffold, adam),
    ]
}

/// A simulation of two repetitions whose clients all are equally fast, and sometimes too slow.
fn simulation(federation: &Federation, protocol: Protocol) -> Simulation<'_, Federation> {
    let weights = federation.weights().clone();
    let latency = Latency::Exponential { mean: vec![1.0; weights.len()] };
    let arrivals = Arrivals { latency: Arc::new(latency), deadline: Some(0.5) };
    let sampler = CohortSampler::new(&protocol, weights.clone()).with_arrivals(arrivals, None);
    let course = Course::new(protocol, weights, Seed(1), &[0.0; 3], 2);
    Simulation::new(federation, Course { sampler: Arc::new(sampler), ..course })
}

#[test]
fn rounds_do_not_allocate() {
    // One thread: whatever a thread pool allocates for itself is not a round's doing.
    rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global().unwrap();
    let schemes = [
        Scheme::Full,
        Scheme::WithReplacement { cohort: 5 },
        Scheme::WithoutReplacement { cohort: 5 },
        Scheme::FirstArrivals { cohort: 5, correct: false },
    ];
    for (federation, scheme) in
        federations().iter().flat_map(|federation| schemes.map(|scheme| (federation, scheme)))
    {
        for ((local, server), batch) in
            rules().into_iter().flat_map(|rule| [(rule, Batch::Sampled(2)), (rule, Batch::All)])
        {
            let usual = Protocol::p_fedavg(scheme, 4, StepSize::Constant(0.01));
            let protocol = Protocol { batch, local, server, ..usual };
            let mut simulation = simulation(federation, protocol);
            // The first rounds bring the buffers to their size.
            simulation.advance(Round(200), true).unwrap();
            let mut count = |rounds: u64| {
                let before = ALLOCATIONS.get();
                let until = Round(simulation.state().round.0 + rounds);
                simulation.advance(until, true).unwrap();
                ALLOCATIONS.get() - before
            };
            let (few, many) = (count(10), count(1000));
            assert!(many <= few, "{protocol:?}: {few} allocations in 10 rounds, {many} in 1000");
        }
    }
}
