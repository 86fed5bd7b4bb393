//! Updates that are too long: shortened by honest clients, refused by the server.

mod problems;

use std::sync::Arc;

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::protocol::{
    Batch, Deploy, LocalRule, Protocol, Round, Scheme, ServerRule, StepSize,
};
use fedback_core::response::{Sensitivity, location};
use fedback_core::state::{Repetition, State};
use fedback_core::stream::{Purpose, Seed, Streams};
use fedback_engine::backend::{Backend, Course};
use fedback_engine::cohort::CohortSampler;
use fedback_engine::server::{Reach, Refusal, Server, Update};
use fedback_engine::simulate::Simulation;
use fedback_engine::work::{Order, Scratch, Task, Work, step_sizes};

/// Gradients w − 1, w/2 − 1 and −6; two steps of size 1/2 from 4 lead to 1.75, 3.125 and 10. With an
/// average gradient of at most 2, the first moves by −2 instead of −2.25 and the last by 2 instead of
/// 6, and SCAFFOLD's clients keep the gradients that they seem to have had.
#[test]
fn a_round_with_short_updates_by_hand() {
    let base = Base::Gaussian(Gaussian { dim: 1, mean: vec![1.0, 1.0, 6.0], noise: 3.0 });
    let response = location(&Sensitivity::Scalar(vec![0.0, 0.5, 1.0]), 1, false);
    let federation = Federation::new([0.5, 0.25, 0.25], base, response, Loss::Mean).unwrap();
    for (local, kept) in
        [(LocalRule::Descent, vec![]), (LocalRule::Scaffold, vec![2.0, 0.875, -2.0])]
    {
        let usual = Protocol::p_fedavg(Scheme::Full, 2, StepSize::Constant(0.5));
        let protocol = Protocol { batch: Batch::All, local, clip: Some(2.0), ..usual };
        let course = Course::new(protocol, federation.weights().clone(), Seed(3), &[4.0], 1);
        let mut simulation = Simulation::new(&federation, course);
        simulation.advance(Round(1), false).unwrap();
        let end = &simulation.state().repetitions[0];
        assert_eq!(end.theta(), [4.0 - 0.5 * 2.0 - 0.25 * 0.875 + 0.25 * 2.0]);
        assert_eq!(end.kept, kept);
    }
}

/// A client's work, as it would send it.
fn work(
    federation: &impl Work,
    protocol: &Protocol,
    at: &Repetition,
    (round, client): (Round, ClientId),
) -> Update {
    let mut sizes = Vec::new();
    step_sizes(protocol, round, &mut sizes);
    let order = Order { protocol, step_sizes: &sizes };
    let streams = Streams::new(Seed(5), at.number, round.0, Purpose::Data);
    let task = Task { streams, broadcast: at.broadcast(), clients: &[client] };
    let (mut delta, mut kept) = (vec![0.0; at.dim()], at.kept_by(client).to_vec());
    let mut scratch = Scratch::default();
    federation.work(&order, &[task], &mut delta, &mut kept, &mut scratch).unwrap();
    Update { delta, kept }
}

fn any_protocol(place: usize) -> Protocol {
    let local = match place % 3 {
        0 => LocalRule::Descent,
        1 => LocalRule::Proximal { proximal: 0.7 },
        _ => LocalRule::Scaffold,
    };
    let scaled = place.is_multiple_of(5);
    let scheme = match scaled {
        true => Scheme::WithoutReplacement { cohort: 5 },
        false => Scheme::Full,
    };
    Protocol {
        batch: if place.is_multiple_of(4) { Batch::All } else { Batch::Sampled(1 + place % 3) },
        deploy: if place.is_multiple_of(2) { Deploy::Step } else { Deploy::Round },
        local,
        server: ServerRule::Average,
        scale_objectives: scaled,
        clip: place.is_multiple_of(7).then_some(0.4),
        ..Protocol::p_fedavg(scheme, 1 + place % 4, StepSize::Constant(0.05))
    }
}

/// Honest work of every kind of problem is believed, for five rounds; what is a thousand long, where
/// honest work is a few, is not.
#[test]
fn honest_work_is_believed_and_what_is_longer_is_not() {
    let mut short = 0;
    for (place, federation) in problems::problems().iter().enumerate() {
        let protocol = any_protocol(place);
        let sampler = Arc::new(CohortSampler::new(&protocol, federation.weights().clone()));
        let start = problems::numbers(3 * place, federation.dim());
        let mut at = State::beginning(&protocol, None, 5, &start, 1).repetitions.remove(0);
        let server = Server::new(protocol, sampler, Seed(5));
        let mut server = server.knowing(Arc::new(Reach::of(federation)));
        for round in (0..5).map(Round) {
            server.open(&at, round, false).unwrap();
            for client in (0..5).map(ClientId) {
                let update = work(federation, &protocol, &at, (round, client));
                let length = |delta: &[f64]| delta.iter().map(|d| d * d).sum::<f64>().sqrt();
                let honest = length(&update.delta);
                if matches!(federation.base(), Base::Table(_)) {
                    let plain = problems::plain(federation);
                    let plain = length(&work(&plain, &protocol, &at, (round, client)).delta);
                    assert!((plain - honest).abs() < 1e-12 * (1.0 + honest));
                }
                let mut forged = update.clone();
                forged.delta[0] = 1e3;
                let refused = server.accept(&at, round, client, forged);
                let Err(Refusal::TooLong { longest, .. }) = refused else {
                    panic!("problem {place}: {refused:?}");
                };
                if let Some(clip) = protocol.clip {
                    let most = clip * protocol.sizes(round).sum::<f64>();
                    assert!(honest <= most * (1.0 + 1e-12) && longest <= most * (1.0 + 1e-8));
                    short += usize::from((honest - most).abs() < 1e-12);
                }
                server.accept(&at, round, client, update).unwrap();
            }
            server.close(&mut at, 5).unwrap();
        }
    }
    assert!(short > 20, "{short}");
}
