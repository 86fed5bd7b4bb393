//! What rounds multiply errors and squared errors by: eigenvalues of the matrices of whole rounds, written
//! out with numpy from the definitions of memory, deployment, scheme and algorithm.

use fedback_core::memory::Memory;
use fedback_core::protocol::{Deploy, LocalRule, Protocol, Scheme, ServerRule, StepSize};
use fedback_theory::limit::RoundMap;

use super::clients;

const SLOW: Memory = Memory::Inertia { rate: 0.35 };
const LATE: Memory = Memory::Delay { deployments: 2 };
const PARTS: Memory = Memory::Staggered { parts: 3 };
const ALL: Scheme = Scheme::Full;
const SOME: Scheme = Scheme::WithReplacement { cohort: 2 };
const PLAIN: (LocalRule, ServerRule) = (LocalRule::Descent, ServerRule::Average);
const SCAFFOLD: (LocalRule, ServerRule) = (LocalRule::Scaffold, ServerRule::Average);
const MOMENTUM: (LocalRule, ServerRule) =
    (LocalRule::Descent, ServerRule::Momentum { rate: 0.6, beta: 0.5 });

type Row = (bool, Memory, Deploy, Scheme, (LocalRule, ServerRule), f64, f64);

/// Of three local steps of size 0.3, a batch of one.
#[rustfmt::skip]
const RADII: [Row; 69] = [
    (false, SLOW, Deploy::Step, ALL, PLAIN, 0.546602606143, 0.298774409042),
    (false, SLOW, Deploy::Step, ALL, SCAFFOLD, 0.539366584274, 0.290916312232),
    (false, SLOW, Deploy::Step, ALL, MOMENTUM, 0.677872546845, 0.459511189766),
    (false, SLOW, Deploy::Step, SOME, PLAIN, 0.808431061780, 0.710125964546),
    (false, SLOW, Deploy::Step, SOME, SCAFFOLD, 0.765941221063, 0.710601233679),
    (false, SLOW, Deploy::Step, SOME, MOMENTUM, 0.805644212756, 0.710333034625),
    (false, SLOW, Deploy::Round, ALL, PLAIN, 0.544299306189, 0.296261734718),
    (false, SLOW, Deploy::Round, ALL, SCAFFOLD, 0.544299306189, 0.296261734718),
    (false, SLOW, Deploy::Round, ALL, MOMENTUM, 0.732163891091, 0.536063963417),
    (false, SLOW, Deploy::Round, SOME, PLAIN, 0.544299306189, 0.417044344723),
    (false, SLOW, Deploy::Round, SOME, SCAFFOLD, 0.726331084843, 0.694433989036),
    (false, SLOW, Deploy::Round, SOME, MOMENTUM, 0.732163891091, 0.564701547913),
    (false, LATE, Deploy::Step, ALL, PLAIN, 0.509217514890, 0.259302477471),
    (false, LATE, Deploy::Step, ALL, SCAFFOLD, 0.590396643881, 0.348568197106),
    (false, LATE, Deploy::Step, ALL, MOMENTUM, 0.670000513251, 0.448900687757),
    (false, LATE, Deploy::Step, SOME, PLAIN, 0.786809409808, 0.690867787591),
    (false, LATE, Deploy::Step, SOME, SCAFFOLD, 0.772586578458, 0.747591343679),
    (false, LATE, Deploy::Step, SOME, MOMENTUM, 0.782290261723, 0.692821113800),
    (false, LATE, Deploy::Round, ALL, PLAIN, 0.534959131228, 0.286181272084),
    (false, LATE, Deploy::Round, ALL, SCAFFOLD, 0.534959131228, 0.286181272084),
    (false, LATE, Deploy::Round, ALL, MOMENTUM, 0.793179413526, 0.629133582041),
    (false, LATE, Deploy::Round, SOME, PLAIN, 0.534959131228, 0.614036008674),
    (false, LATE, Deploy::Round, SOME, SCAFFOLD, 0.726331084843, 0.806235449139),
    (false, LATE, Deploy::Round, SOME, MOMENTUM, 0.793179413526, 0.751902635292),
    (false, PARTS, Deploy::Step, ALL, PLAIN, 0.452240262884, 0.211048312850),
    (false, PARTS, Deploy::Step, ALL, SCAFFOLD, 0.472028331148, 0.241651819935),
    (false, PARTS, Deploy::Step, ALL, MOMENTUM, 0.682472111962, 0.468307529086),
    (false, PARTS, Deploy::Step, SOME, PLAIN, 0.742153848313, 0.670515293442),
    (false, PARTS, Deploy::Step, SOME, SCAFFOLD, 0.727603132321, 0.715330743077),
    (false, PARTS, Deploy::Step, SOME, MOMENTUM, 0.736662904567, 0.672175376142),
    (false, PARTS, Deploy::Round, ALL, PLAIN, 0.401491018188, 0.245483933276),
    (false, PARTS, Deploy::Round, ALL, SCAFFOLD, 0.401491018188, 0.245483933276),
    (false, PARTS, Deploy::Round, ALL, MOMENTUM, 0.752732917970, 0.575774128468),
    (false, PARTS, Deploy::Round, SOME, PLAIN, 0.401491018188, 0.450748987615),
    (false, PARTS, Deploy::Round, SOME, SCAFFOLD, 0.726331084843, 0.741108296072),
    (false, PARTS, Deploy::Round, SOME, MOMENTUM, 0.752732917970, 0.663004892835),
    (true, SLOW, Deploy::Step, ALL, PLAIN, 0.558140829120, 0.311521185131),
    (true, SLOW, Deploy::Step, ALL, SCAFFOLD, 0.560943650501, 0.314657779037),
    (true, SLOW, Deploy::Step, ALL, MOMENTUM, 0.779216848529, 0.607178897031),
    (true, SLOW, Deploy::Step, SOME, PLAIN, 0.708139651309, 0.655177116548),
    (true, SLOW, Deploy::Step, SOME, MOMENTUM, 0.771537134346, 0.658576992088),
    (true, SLOW, Deploy::Round, ALL, PLAIN, 0.704221507103, 0.495927931066),
    (true, SLOW, Deploy::Round, ALL, SCAFFOLD, 0.704221507103, 0.495927931066),
    (true, SLOW, Deploy::Round, ALL, MOMENTUM, 0.697185939724, 0.486068234549),
    (true, SLOW, Deploy::Round, SOME, PLAIN, 0.704221507103, 0.567890641695),
    (true, SLOW, Deploy::Round, SOME, SCAFFOLD, 0.726331084843, 0.713588331638),
    (true, SLOW, Deploy::Round, SOME, MOMENTUM, 0.697185939724, 0.562061554969),
    (true, LATE, Deploy::Step, ALL, PLAIN, 0.567388498426, 0.321929708147),
    (true, LATE, Deploy::Step, ALL, SCAFFOLD, 0.577191314187, 0.333149813173),
    (true, LATE, Deploy::Step, ALL, MOMENTUM, 0.799039829413, 0.638464648988),
    (true, LATE, Deploy::Step, SOME, PLAIN, 0.659352330420, 0.684210533661),
    (true, LATE, Deploy::Step, SOME, MOMENTUM, 0.808222935202, 0.713257863409),
    (true, LATE, Deploy::Round, ALL, PLAIN, 0.611990154307, 0.374531948969),
    (true, LATE, Deploy::Round, ALL, SCAFFOLD, 0.611990154307, 0.374531948969),
    (true, LATE, Deploy::Round, ALL, MOMENTUM, 0.681780060202, 0.464824050489),
    (true, LATE, Deploy::Round, SOME, PLAIN, 0.611990154307, 0.648952506345),
    (true, LATE, Deploy::Round, SOME, SCAFFOLD, 0.726331084843, 0.802506085913),
    (true, LATE, Deploy::Round, SOME, MOMENTUM, 0.681780060202, 0.697089501999),
    (true, PARTS, Deploy::Step, ALL, PLAIN, 0.442042255570, 0.211182758940),
    (true, PARTS, Deploy::Step, ALL, SCAFFOLD, 0.509833727624, 0.287344480779),
    (true, PARTS, Deploy::Step, ALL, MOMENTUM, 0.782509114128, 0.613471800190),
    (true, PARTS, Deploy::Step, SOME, PLAIN, 0.632151795020, 0.665590300683),
    (true, PARTS, Deploy::Step, SOME, MOMENTUM, 0.788401772119, 0.672495341254),
    (true, PARTS, Deploy::Round, ALL, PLAIN, 0.542324724025, 0.326640097631),
    (true, PARTS, Deploy::Round, ALL, SCAFFOLD, 0.542324724025, 0.326640097631),
    (true, PARTS, Deploy::Round, ALL, MOMENTUM, 0.716043005027, 0.525086582526),
    (true, PARTS, Deploy::Round, SOME, PLAIN, 0.542324724025, 0.534440108376),
    (true, PARTS, Deploy::Round, SOME, SCAFFOLD, 0.726331084843, 0.751386481222),
    (true, PARTS, Deploy::Round, SOME, MOMENTUM, 0.716043005027, 0.654285391289),
];

#[test]
fn radii_are_those_of_the_rounds_written_out() {
    for (mixing, memory, deploy, scheme, (local, server), mean, square) in RADII {
        let federation = clients(mixing, Some(memory)).federation();
        let usual = Protocol::p_fedavg(scheme, 3, StepSize::Constant(0.3));
        let protocol = Protocol { deploy, local, server, ..usual };
        let point = vec![0.0; federation.dim()];
        let mut map = RoundMap::new(&federation, &protocol, None, &point).unwrap();
        let found = [map.radius(0.3).unwrap(), map.mean_square_radius(0.3).unwrap()];
        for (found, expected) in found.into_iter().zip([mean, square]) {
            let apart = (found - expected).abs();
            assert!(apart < 1e-6, "{mixing} {memory:?} {protocol:?} {found} {expected}");
        }
    }
}
