//! Random federations: normal data and small tables, every scheme, rule and form of response.

use fedback_core::base::{Base, Gaussian, Partition, Preparation, RawTable, Table};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::protocol::{
    Aggregate, Batch, Deploy, LocalRule, Protocol, Scheme, ServerRule, StepSize,
};
use fedback_core::response::{Sensitivity, best_response, location};
use fedback_core::stream::{Draws, Purpose, Seed, Stream};
use fedback_lab::plan::Plan;

/// Whether the federation of a seed is a table.
pub fn is_table(seed: u64) -> bool {
    seed % 2 == 1
}

/// The plan of a seed.
pub fn plan(seed: u64) -> Plan {
    let mut draw = Draw(Stream::for_problem(Seed(seed), Purpose::Means).draws());
    let federation = if is_table(seed) { table(&mut draw) } else { gaussian(&mut draw) };
    let protocol = protocol(&mut draw, federation.clients());
    let dim = federation.dim();
    let start: Vec<f64> = match draw.below(4) {
        0 | 1 => vec![0.0; dim],
        2 => (0..dim).map(|_| draw.between(-3.0, 3.0)).collect(),
        _ if is_table(seed) => (0..dim).map(|_| draw.between(-1.0, 1.0)).collect(),
        _ => vec![100.0; dim],
    };
    Plan::by_hand(federation, protocol, start, 500).unwrap()
}

struct Draw(Draws);

impl Draw {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.uniform()
    }

    fn log_between(&mut self, low: f64, high: f64) -> f64 {
        libm::exp(self.between(low.ln(), high.ln()))
    }

    fn below(&mut self, count: usize) -> usize {
        ((self.0.uniform() * count as f64) as usize).min(count - 1)
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn weights(&mut self, clients: usize) -> Vec<f64> {
        if self.below(2) == 0 {
            return vec![1.0 / clients as f64; clients];
        }
        let mut raw: Vec<f64> = (0..clients).map(|_| self.between(0.05, 1.0)).collect();
        if clients > 2 && self.below(4) == 0 {
            raw[0] = 0.0;
        }
        let total: f64 = raw.iter().sum();
        raw.iter().map(|w| w / total).collect()
    }
}

fn gaussian(draw: &mut Draw) -> Federation {
    let (clients, dim) = (1 + draw.below(8), 1 + draw.below(3));
    let average = draw.between(-2.0, 1.25);
    let spread = draw.choose(&[0.0, 0.1, 0.5, 1.5]);
    let outlier = draw.below(5) == 0;
    let mut epsilon = |client: usize| match outlier && client == 0 {
        true => 3.0,
        false => average + spread * draw.between(-1.0, 1.0),
    };
    let scalars: Vec<f64> = (0..clients).map(&mut epsilon).collect();
    let sensitivity = match draw.below(3) {
        0 => Sensitivity::Scalar(scalars),
        1 => Sensitivity::PerCoordinate(
            scalars
                .iter()
                .map(|e| (0..dim).map(|_| e + 0.3 * draw.between(-1.0, 1.0)).collect())
                .collect(),
        ),
        _ => {
            let turn = draw.choose(&[0.3, 1.0, 3.0]);
            let entry = |draw: &mut Draw, e: f64, same: bool| match same {
                true => e,
                false => turn * draw.between(-1.0, 1.0),
            };
            let matrix = |draw: &mut Draw, e: f64| -> Vec<Vec<f64>> {
                (0..dim).map(|j| (0..dim).map(|k| entry(draw, e, j == k)).collect()).collect()
            };
            Sensitivity::Matrix(scalars.iter().map(|e| matrix(draw, *e)).collect())
        }
    };
    let mean = (0..clients * dim).map(|_| draw.between(-5.0, 10.0)).collect();
    let noise = draw.choose(&[0.0, 0.1, 1.0, 5.0]);
    Federation::new(
        draw.weights(clients),
        Base::Gaussian(Gaussian { dim, mean, noise }),
        location(&sensitivity, dim, false),
        Loss::Mean,
    )
    .unwrap()
}

fn table(draw: &mut Draw) -> Federation {
    let (clients, features) = (1 + draw.below(4), 1 + draw.below(3));
    let rows = 15 * clients + draw.below(30);
    let intercept = draw.below(2) == 0;
    let logistic = draw.below(3) > 0;
    let truth: Vec<f64> = (0..features).map(|_| draw.between(-2.0, 2.0)).collect();
    let centre = draw.between(-1.0, 1.0);
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let x: Vec<f64> = (0..features).map(|_| centre + draw.0.normal()).collect();
        let margin: f64 = x.iter().zip(&truth).map(|(x, t)| x * t).sum();
        labels.push(match logistic {
            true => f64::from(draw.between(0.0, 1.0) < 1.0 / (1.0 + libm::exp(-margin))),
            false => margin + draw.0.normal(),
        });
        values.extend(x);
    }
    let raw = RawTable {
        features: (0..features).map(|j| format!("x{j}")).collect(),
        values,
        labels,
        clients: None,
    };
    let how = Preparation {
        shuffle: false,
        standardize: draw.below(2) == 0,
        intercept,
        partition: Partition::Equal(clients),
        by_class: false,
    };
    let built = Table::new(raw, &how, Seed(1)).unwrap();
    let l2 = draw.choose(&[0.0, 0.01, 0.1, 1.0]);
    let strength = draw.choose(&[0.2, 1.0, 3.0]);
    let (low, high) = (if draw.below(4) == 0 { -strength } else { 0.0 }, strength);
    let scalars: Vec<f64> = (0..clients).map(|_| draw.between(low, high)).collect();
    let dim = built.dim;
    let moving: Vec<usize> = (0..features).filter(|j| *j == 0 || draw.below(2) == 0).collect();
    let response = match draw.below(3) {
        0 | 1 => best_response(&Sensitivity::Scalar(scalars), &moving, dim),
        _ => {
            let matrix = |e: f64, draw: &mut Draw| -> Vec<Vec<f64>> {
                let mut entry = || 0.5 * e * draw.between(-1.0, 1.0);
                (0..features).map(|_| (0..features).map(|_| entry()).collect()).collect()
            };
            let matrices = scalars.iter().map(|e| matrix(*e, draw)).collect();
            location(&Sensitivity::Matrix(matrices), features, intercept)
        }
    };
    Federation::new(
        draw.weights(clients),
        Base::Table(built),
        response,
        if logistic { Loss::Logistic { l2 } } else { Loss::Squared { l2 } },
    )
    .unwrap()
}

fn protocol(draw: &mut Draw, clients: usize) -> Protocol {
    let cohort = 1 + draw.below(clients);
    let scheme = match draw.below(3) {
        0 => Scheme::Full,
        1 => Scheme::WithReplacement { cohort },
        _ => Scheme::WithoutReplacement { cohort },
    };
    let without = matches!(scheme, Scheme::WithoutReplacement { .. });
    let step_size = match draw.below(2) {
        0 => StepSize::Constant(draw.log_between(2e-3, 1.5)),
        _ => StepSize::Decaying {
            beta: draw.log_between(0.3, 60.0),
            gamma: draw.log_between(1.0, 2000.0),
        },
    };
    Protocol {
        scheme,
        local_steps: draw.choose(&[1, 1, 2, 5, 20]),
        batch: Batch::Sampled(draw.choose(&[1, 1, 4])),
        step_size,
        deploy: if draw.below(4) == 0 { Deploy::Round } else { Deploy::Step },
        aggregate: if draw.below(6) == 0 { Aggregate::Iterates } else { Aggregate::Deltas },
        scale_objectives: without && draw.below(3) == 0,
        clip: None,
        local: LocalRule::Descent,
        server: ServerRule::Average,
    }
}
