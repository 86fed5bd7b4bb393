//! Where problem, protocol and state meet: what does not fit is refused before any round.

use fedback_core::arrivals::{Arrivals, Latency};
use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::protocol::{
    Aggregate, Batch, LocalRule, Protocol, Round, Scheme, ServerRule, StepSize,
};
use fedback_core::response::Shift;
use fedback_core::state::State;
use fedback_core::stream::Seed;
use fedback_engine::backend::{AssemblyError, Course, assemble};
use fedback_engine::cohort::{CohortSampler, RecordedCohort};

fn problem() -> Federation {
    let base = Base::Gaussian(Gaussian { dim: 2, mean: vec![1.0; 6], noise: 1.0 });
    Federation::new([0.5, 0.25, 0.25], base, Shift::None, Loss::Mean).unwrap()
}

fn usual(scheme: Scheme) -> Protocol {
    Protocol::p_fedavg(scheme, 2, StepSize::Constant(0.1))
}

fn course(protocol: Protocol) -> Course {
    Course::new(protocol, problem().weights().clone(), Seed(1), &[0.0, 0.0], 2)
}

fn refused(course: Course) -> AssemblyError {
    match assemble(&problem(), course) {
        Ok(_) => panic!("was not refused"),
        Err(error) => error,
    }
}

fn misfit(course: Course) -> &'static str {
    match refused(course) {
        AssemblyError::Misfit(misfit) => misfit.part,
        AssemblyError::Unsupported(what) => panic!("{what}"),
    }
}

/// What is no protocol is none here either; every kind of check once.
#[test]
fn what_is_no_protocol_is_not_assembled() {
    let full = usual(Scheme::Full);
    let first = usual(Scheme::FirstArrivals { cohort: 2, correct: false });
    let wrong = [
        (Protocol { local_steps: 0, ..full }, "algorithm.local_steps"),
        (Protocol { batch: Batch::Sampled(0), ..full }, "algorithm.batch"),
        (Protocol { step_size: StepSize::Constant(0.0), ..full }, "algorithm.step_size"),
        (usual(Scheme::WithoutReplacement { cohort: 4 }), "algorithm.cohort"),
        (Protocol { scale_objectives: true, ..full }, "algorithm.scale_objectives"),
        (Protocol { aggregate: Aggregate::Iterates, ..first }, "algorithm.aggregate"),
    ];
    for (protocol, part) in wrong {
        assert_eq!(misfit(course(protocol)), part);
    }
    let local = LocalRule::Proximal { proximal: -1.0 };
    assert_eq!(misfit(course(Protocol { local, ..full })), "algorithm.proximal");
    let server = ServerRule::Momentum { rate: 1.0, beta: 1.0 };
    assert_eq!(misfit(course(Protocol { server, ..full })), "algorithm.server");
}

/// A state has the shape that protocol and problem give it: as many coordinates, clients, and numbers
/// that clients and server keep.
#[test]
fn states_of_another_shape_are_refused() {
    let full = usual(Scheme::Full);
    let scaffold = Protocol { local: LocalRule::Scaffold, ..full };
    let server = ServerRule::Momentum { rate: 1.0, beta: 0.5 };
    let momentum = Protocol { server, ..full };
    let others = [
        (full, State::beginning(&full, None, 3, &[0.0], 2)),
        (full, State::beginning(&full, None, 2, &[0.0, 0.0], 2)),
        (scaffold, State::beginning(&full, None, 3, &[0.0, 0.0], 2)),
        (full, State::beginning(&scaffold, None, 3, &[0.0, 0.0], 2)),
        (momentum, State::beginning(&scaffold, None, 3, &[0.0, 0.0], 2)),
    ];
    for (protocol, state) in others {
        assert_eq!(misfit(Course { state, ..course(protocol) }), "state");
    }
    for protocol in [full, scaffold, momentum] {
        assert!(assemble(&problem(), course(protocol)).is_ok());
    }
}

/// A course is about the clients of its problem, and starts somewhere.
#[test]
fn courses_of_other_clients_or_from_nowhere_are_refused() {
    let full = usual(Scheme::Full);
    for weights in [&[0.25; 4][..], &[0.5; 2], &[0.2, 0.3, 0.5]] {
        let other = Course::new(full, weights.into(), Seed(1), &[0.0, 0.0], 2);
        assert_eq!(misfit(other), "problem.weights");
    }
    let weights = problem().weights().clone();
    let nowhere = Course::new(full, weights, Seed(1), &[0.0, f64::NAN], 2);
    assert_eq!(misfit(nowhere), "algorithm.start");
}

/// In memory somebody must know who answers first: a description of latencies, or a record.
#[test]
fn first_arrivals_need_latencies_or_a_record() {
    let first = usual(Scheme::FirstArrivals { cohort: 2, correct: false });
    let AssemblyError::Unsupported(unsupported) = refused(course(first)) else { panic!() };
    assert_eq!(unsupported.part, "algorithm.latency");
    let latency = Latency::Exponential { mean: vec![1.0; 3] }.into();
    let arrivals = Arrivals { latency, deadline: None };
    let sampler = CohortSampler::new(&first, problem().weights().clone());
    let described =
        Course { sampler: sampler.with_arrivals(arrivals, None).into(), ..course(first) };
    let record = RecordedCohort {
        repetition: 0,
        round: Round(0),
        members: vec![ClientId(1)],
        coefficients: vec![1.0],
    };
    let recorded = Course { cohorts: [record].into_iter().collect(), ..course(first) };
    let problem = problem();
    for course in [described, recorded] {
        let mut backend = assemble(&problem, course).unwrap();
        backend.advance(Round(1), true).unwrap();
        assert_ne!(backend.state().repetitions[0].theta(), [0.0, 0.0]);
    }
}
