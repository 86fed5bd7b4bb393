//! Problems and protocols that cannot exist: each is refused, by the part that is wrong.

use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{
    Aggregate, Batch, Deploy, LocalRule, Protocol, Scheme, ServerRule, StepSize,
};
use fedback_core::response::{Sensitivity, Shift, best_response, location};
use fedback_core::stream::Seed;

const NAN: f64 = f64::NAN;
const INFINITY: f64 = f64::INFINITY;

/// Normal data in two dimensions.
fn gaussian(mean: &[f64]) -> Base {
    Base::Gaussian(Gaussian { dim: 2, mean: mean.to_vec(), noise: 1.0 })
}

/// Four rows of two features, two for each of two clients.
fn raw() -> RawTable {
    RawTable {
        features: vec!["a".into(), "b".into()],
        values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 9.0],
        labels: vec![0.0, 1.0, 1.0, 0.0],
        clients: None,
    }
}

fn table(raw: RawTable, intercept: bool) -> Base {
    let how = Preparation {
        shuffle: false,
        standardize: false,
        intercept,
        partition: Partition::Equal(2),
        by_class: true,
    };
    Base::Table(Table::new(raw, &how, Seed(0)).unwrap())
}

fn logistic() -> Loss {
    Loss::Logistic { l2: 0.1 }
}

/// The part that a problem of two clients is refused for.
fn refused(weights: &[f64], base: Base, response: Shift, loss: Loss) -> &'static str {
    Federation::new(weights, base, response, loss).unwrap_err().part
}

/// The same problems with nothing wrong, so that what is refused is refused for what it says.
#[test]
fn what_fits_is_built() {
    let react = || location(&Sensitivity::Scalar(vec![0.5, 0.9]), 2, false);
    for response in [Shift::None, react()] {
        for loss in [Loss::Mean, Loss::Squared { l2: 0.0 }, logistic()] {
            let rows = table(raw(), false);
            Federation::new([0.5, 0.5], rows, response.clone(), loss).unwrap();
        }
        Federation::new([0.25, 0.75], gaussian(&[1.0; 4]), response, Loss::Mean).unwrap();
    }
    let response = best_response(&Sensitivity::Scalar(vec![0.5, 0.9]), &[1], 3);
    Federation::new([1.0, 0.0], table(raw(), true), response, logistic()).unwrap();
}

#[test]
fn weights_are_one_a_client_and_sum_to_one() {
    let wrong: [&[f64]; 10] = [
        &[],
        &[1.0],
        &[0.5, 0.25, 0.25],
        &[0.5, 0.4],
        &[0.5, 0.5 + 2e-9],
        &[1.5, -0.5],
        &[-0.0, 1.1],
        &[NAN, 1.0],
        &[INFINITY, 0.0],
        &[0.0, 0.0],
    ];
    let good = Federation::new([0.5, 0.5], gaussian(&[1.0; 4]), Shift::None, Loss::Mean).unwrap();
    for weights in wrong {
        let part = refused(weights, gaussian(&[1.0; 4]), Shift::None, Loss::Mean);
        assert_eq!(part, "problem.weights", "{weights:?}");
        let part = refused(weights, table(raw(), true), Shift::None, logistic());
        assert_eq!(part, "problem.weights", "{weights:?}");
        assert_eq!(good.with_weights(weights).unwrap_err().part, "problem.weights");
    }
    assert!(good.with_weights([0.5, 0.5 + 0.5e-9]).is_ok());
}

/// Normal data have no label.
#[test]
fn losses_of_a_label_need_one() {
    for loss in [Loss::Squared { l2: 0.0 }, logistic()] {
        let part = refused(&[0.5, 0.5], gaussian(&[1.0; 4]), Shift::None, loss);
        assert_eq!(part, "problem.loss.kind", "{loss:?}");
    }
}

#[test]
fn logistic_labels_are_zero_or_one() {
    for label in [0.5, 2.0, -1.0, NAN, INFINITY] {
        let mut wrong = raw();
        wrong.labels[3] = label;
        let part = refused(&[0.5, 0.5], table(wrong, true), Shift::None, logistic());
        assert_eq!(part, "problem.base.label", "{label}");
    }
    let mut any = raw();
    any.labels[3] = 17.5;
    let squared = Loss::Squared { l2: 0.0 };
    assert!(Federation::new([0.5, 0.5], table(any, true), Shift::None, squared).is_ok());
}

#[test]
fn a_mean_has_no_intercept() {
    let part = refused(&[0.5, 0.5], table(raw(), true), Shift::None, Loss::Mean);
    assert_eq!(part, "problem.base.intercept");
}

#[test]
fn penalties_are_not_negative() {
    for l2 in [-0.1, NAN, INFINITY, -INFINITY] {
        for loss in [Loss::Squared { l2 }, Loss::Logistic { l2 }] {
            let part = refused(&[0.5, 0.5], table(raw(), true), Shift::None, loss);
            assert_eq!(part, "problem.loss.l2", "{loss:?}");
        }
    }
}

#[test]
fn normal_data_are_numbers() {
    let part = |dim, mean: &[f64], noise| {
        let base = Base::Gaussian(Gaussian { dim, mean: mean.to_vec(), noise });
        refused(&[0.5, 0.5], base, Shift::None, Loss::Mean)
    };
    assert_eq!(part(0, &[1.0; 2], 1.0), "problem.base.dim");
    assert_eq!(part(2, &[1.0; 5], 1.0), "problem.base.dim");
    // As many clients as means, and that is not how many weights there are.
    assert_eq!(part(2, &[1.0; 6], 1.0), "problem.weights");
    for wrong in [NAN, INFINITY] {
        assert_eq!(part(2, &[1.0, 2.0, wrong, 3.0], 1.0), "problem.base.mean");
    }
    for noise in [-1.0, NAN, INFINITY] {
        assert_eq!(part(2, &[1.0; 4], noise), "problem.base.noise");
    }
}

#[test]
fn rows_are_numbers() {
    for wrong in [NAN, INFINITY] {
        let (mut values, mut labels) = (raw(), raw());
        values.values[6] = wrong;
        labels.labels[1] = wrong;
        for raw in [values, labels] {
            let loss = Loss::Squared { l2: 0.1 };
            let part = refused(&[0.5, 0.5], table(raw, true), Shift::None, loss);
            assert_eq!(part, "problem.base", "{wrong}");
        }
    }
}

/// A client without rows cannot be built, except at a site, which may hold the rows of others; a
/// site that holds nobody's rows has no problem.
#[test]
fn clients_have_rows_unless_they_lie_elsewhere() {
    let names = || vec!["a".to_string(), "b".to_string()];
    let held = vec![(1, raw())];
    let site = Base::Table(Table::at_site(held, 3, names(), false, None));
    assert!(Federation::new([0.5, 0.25, 0.25], site, Shift::None, logistic()).is_ok());
    let nobody = Base::Table(Table::at_site(Vec::new(), 2, names(), false, None));
    assert_eq!(refused(&[0.5, 0.5], nobody, Shift::None, logistic()), "problem.base");
    let empty = RawTable { values: vec![], labels: vec![], clients: Some(vec![]), ..raw() };
    let how = Preparation {
        shuffle: false,
        standardize: false,
        intercept: false,
        partition: Partition::Column,
        by_class: false,
    };
    let nobody = Base::Table(Table::new(empty, &how, Seed(0)).unwrap());
    assert_eq!(refused(&[], nobody, Shift::None, logistic()), "problem.weights");
}

/// One map a client, from θ's coordinates to an observation's, of finite numbers; the same for
/// normal data, for tables and for a federation that gets another response.
#[test]
fn maps_fit_clients_and_coordinates() {
    let scaled = |clients: &[f64], pattern: &[f64]| Shift::Scaled {
        sensitivity: clients.to_vec(),
        pattern: pattern.to_vec(),
    };
    let diagonal = |dim, count| Shift::Diagonal { dim, values: vec![0.1; count] };
    let matrix = |dim, count| Shift::Matrix { dim, values: vec![0.1; count] };
    let spoiled = |count: usize| {
        let mut values = vec![0.1; count];
        values[count - 1] = NAN;
        values
    };
    let wrong = [
        scaled(&[0.5], &[1.0, 1.0]),
        scaled(&[0.5; 3], &[1.0, 1.0]),
        scaled(&[0.5; 2], &[1.0]),
        scaled(&[0.5; 2], &[1.0; 3]),
        scaled(&[0.5, NAN], &[1.0, 1.0]),
        scaled(&[0.5, 0.5], &[1.0, INFINITY]),
        diagonal(2, 3),
        diagonal(2, 6),
        diagonal(1, 2),
        diagonal(4, 8),
        Shift::Diagonal { dim: 2, values: spoiled(4) },
        matrix(2, 4),
        matrix(2, 12),
        matrix(1, 2),
        matrix(3, 18),
        Shift::Matrix { dim: 2, values: spoiled(8) },
        location(&Sensitivity::Scalar(vec![0.5; 2]), 2, true),
    ];
    let good = Federation::new([0.5, 0.5], gaussian(&[1.0; 4]), matrix(2, 8), Loss::Mean).unwrap();
    for response in wrong {
        let parts = [
            refused(&[0.5, 0.5], gaussian(&[1.0; 4]), response.clone(), Loss::Mean),
            refused(&[0.5, 0.5], table(raw(), false), response.clone(), logistic()),
            good.with_response(response.clone()).unwrap_err().part,
        ];
        assert_eq!(parts, ["problem.response.sensitivity"; 3], "{response:?}");
    }
    assert!(good.with_response(diagonal(2, 4)).is_ok());
}

fn usual(scheme: Scheme) -> Protocol {
    Protocol::p_fedavg(scheme, 2, StepSize::Constant(0.1))
}

fn full() -> Protocol {
    usual(Scheme::Full)
}

/// The part that a protocol for three clients is refused for.
fn wrong(protocol: Protocol) -> &'static str {
    match protocol.check(3) {
        Ok(()) => panic!("{protocol:?} was not refused"),
        Err(misfit) => misfit.part,
    }
}

#[test]
fn cohorts_are_neither_empty_nor_larger_than_all() {
    let without = |cohort| Scheme::WithoutReplacement { cohort };
    let first = |cohort| Scheme::FirstArrivals { cohort, correct: true };
    for scheme in
        [without(0), without(4), first(0), first(4), Scheme::WithReplacement { cohort: 0 }]
    {
        assert_eq!(wrong(usual(scheme)), "algorithm.cohort", "{scheme:?}");
    }
    for scheme in [without(3), first(1), first(3), Scheme::WithReplacement { cohort: 40 }] {
        assert_eq!(usual(scheme).check(3), Ok(()));
    }
}

#[test]
fn rounds_have_steps_and_steps_observations() {
    assert_eq!(wrong(Protocol { local_steps: 0, ..full() }), "algorithm.local_steps");
    assert_eq!(wrong(Protocol { batch: Batch::Sampled(0), ..full() }), "algorithm.batch");
    for batch in [Batch::Sampled(1), Batch::All] {
        assert_eq!(Protocol { batch, ..full() }.check(3), Ok(()));
    }
}

#[test]
fn step_sizes_are_above_zero() {
    for size in [0.0, -0.1, NAN, INFINITY] {
        for step_size in [
            StepSize::Constant(size),
            StepSize::Decaying { beta: size, gamma: 1.0 },
            StepSize::Decaying { beta: 1.0, gamma: size },
        ] {
            assert_eq!(wrong(Protocol { step_size, ..full() }), "algorithm.step_size");
        }
    }
}

#[test]
fn springs_do_not_push() {
    for proximal in [-1e-9, NAN, INFINITY] {
        let local = LocalRule::Proximal { proximal };
        assert_eq!(wrong(Protocol { local, ..full() }), "algorithm.proximal");
    }
    let local = LocalRule::Proximal { proximal: 0.0 };
    assert_eq!(Protocol { local, ..full() }.check(3), Ok(()));
}

#[test]
fn rates_and_memories_of_the_server_are_in_their_range() {
    let adam = |rate, beta1, beta2, tau| ServerRule::Adam { rate, beta1, beta2, tau };
    let mut rules = Vec::new();
    for rate in [0.0, -1.0, NAN, INFINITY] {
        rules.extend([
            ServerRule::Momentum { rate, beta: 0.5 },
            adam(rate, 0.9, 0.9, 0.1),
            adam(1.0, 0.9, 0.9, rate),
        ]);
    }
    for beta in [1.0, -0.1, NAN, INFINITY] {
        rules.extend([
            ServerRule::Momentum { rate: 1.0, beta },
            adam(1.0, beta, 0.9, 0.1),
            adam(1.0, 0.9, beta, 0.1),
        ]);
    }
    for server in rules {
        assert_eq!(wrong(Protocol { server, ..full() }), "algorithm.server", "{server:?}");
    }
    for server in [ServerRule::Momentum { rate: 2.0, beta: 0.0 }, adam(1.0, 0.0, 0.0, 1e-9)] {
        assert_eq!(Protocol { server, ..full() }.check(3), Ok(()));
    }
}

#[test]
fn parts_go_with_their_scheme() {
    let first = Scheme::FirstArrivals { cohort: 2, correct: false };
    for scheme in [Scheme::Full, Scheme::WithReplacement { cohort: 2 }, first] {
        let scaled = Protocol { scale_objectives: true, ..usual(scheme) };
        assert_eq!(wrong(scaled), "algorithm.scale_objectives", "{scheme:?}");
    }
    let without = usual(Scheme::WithoutReplacement { cohort: 2 });
    assert_eq!(Protocol { scale_objectives: true, ..without }.check(3), Ok(()));
    let iterates = |scheme| Protocol { aggregate: Aggregate::Iterates, ..usual(scheme) };
    assert_eq!(wrong(iterates(first)), "algorithm.aggregate");
    assert_eq!(iterates(Scheme::Full).check(3), Ok(()));
    assert_eq!(Protocol { deploy: Deploy::Round, ..usual(first) }.check(3), Ok(()));
}
