//! No round allocates: a counting allocator sees as many allocations in many rounds as in few.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fedback_core::arrivals::{Arrivals, Latency};
use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{Aggregate, Deploy, Protocol, Round, Scheme, StepSize};
use fedback_core::response::{Sensitivity, best_response, location};
use fedback_core::stream::Seed;
use fedback_engine::backend::Backend;
use fedback_engine::cohort::CohortSampler;
use fedback_engine::simulate::Simulation;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator cannot be counted without standing in for it")]
// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn federations() -> [Federation; 2] {
    let clients = 12;
    let weights = vec![1.0 / clients as f64; clients];
    let gaussian = Federation {
        weights: weights.clone().into(),
        base: Base::Gaussian(Gaussian { dim: 3, mean: vec![1.0; 3 * clients], noise: 1.0 }),
        response: location(&Sensitivity::Scalar(vec![0.5; clients]), 3, false),
        loss: Loss::Mean,
    };
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
    let rows = Federation {
        weights: weights.into(),
        base: Base::Table(Table::new(raw, &how, Seed(0)).unwrap()),
        response: best_response(&Sensitivity::Scalar(vec![0.5; clients]), &[0], 3),
        loss: Loss::Logistic { l2: 0.1 },
    };
    [gaussian, rows]
}

#[test]
fn rounds_do_not_allocate() {
    // One thread: whatever a thread pool allocates for itself is not a round's doing.
    rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global().unwrap();
    for federation in &federations() {
        for scheme in [
            Scheme::Full,
            Scheme::WithReplacement { cohort: 5 },
            Scheme::WithoutReplacement { cohort: 5 },
            Scheme::FirstArrivals { cohort: 5, correct: false },
        ] {
            let protocol = Protocol {
                scheme,
                local_steps: 4,
                batch: 2,
                step_size: StepSize::Constant(0.01),
                deploy: Deploy::Step,
                aggregate: Aggregate::Deltas,
                scale_objectives: false,
            };
            let weights: Arc<[f64]> = federation.weights.clone();
            let latency = Latency::Exponential { mean: vec![1.0; weights.len()] };
            let arrivals = Arrivals { latency: Arc::new(latency), deadline: Some(0.5) };
            let sampler =
                CohortSampler::new(&protocol, weights.clone()).with_arrivals(arrivals, None);
            let mut simulation =
                Simulation::new(federation, protocol, weights, Seed(1), Round(0), &[0.0; 6], &[])
                    .with_sampler(Arc::new(sampler));
            // The first rounds bring the buffers to their size.
            simulation.advance(Round(200), true).unwrap();
            let mut count = |rounds: u64| {
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                let until = Round(simulation.round().0 + rounds);
                simulation.advance(until, true).unwrap();
                ALLOCATIONS.load(Ordering::Relaxed) - before
            };
            let (few, many) = (count(10), count(1000));
            assert!(many <= few, "{scheme:?}: {few} allocations in 10 rounds, {many} in 1000");
        }
    }
}
