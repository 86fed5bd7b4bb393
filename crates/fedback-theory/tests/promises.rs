//! What a plan promises holds: once it has reached its target the error never exceeds it again.

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::Federation;
use fedback_core::loss::Loss;
use fedback_core::memory::Memory;
use fedback_core::protocol::{Deploy, LocalRule, Protocol, Scheme, StepSize};
use fedback_core::response::{Sensitivity, location};
use fedback_theory::exact::ExactCurve;
use fedback_theory::planner::{Latency, Prices, Proposal, Question, Task, search};
use fedback_theory::stable::stable_points;

/// Rounds after the end of a plan for which it is held to its word.
const LATER: u64 = 3000;

/// A problem in two coordinates that mix.
struct Problem {
    federation: Federation,
    stable: Vec<f64>,
    margin: f64,
    rule: LocalRule,
    deploy: Deploy,
    schemes: Vec<Scheme>,
}

impl Problem {
    /// None where there is no stable point that attracts.
    fn new(weights: &[f64], means: &[f64], noise: f64, sensitivity: &[[f64; 4]]) -> Option<Self> {
        let matrix = |s: &[f64; 4]| vec![s[..2].to_vec(), s[2..].to_vec()];
        let matrices = Sensitivity::Matrix(sensitivity.iter().map(matrix).collect());
        let base = Base::Gaussian(Gaussian { dim: 2, mean: means.to_vec(), noise });
        let shift = location(&matrices, 2, false);
        let federation = Federation::new(weights.to_vec(), base, shift, Loss::Mean).unwrap();
        let point = stable_points(&federation, &[0.0, 0.0]).points.into_iter().next()?;
        let margin = point.gradient_margin.filter(|margin| *margin > 0.0)?;
        let schemes = vec![
            Scheme::Full,
            Scheme::WithoutReplacement { cohort: 1 },
            Scheme::WithReplacement { cohort: 1 },
        ];
        let rule = LocalRule::Descent;
        let deploy = Deploy::Step;
        Some(Problem { federation, stable: point.theta, margin, rule, deploy, schemes })
    }

    /// |θ⁰ − θ^PS|² from the origin.
    fn far(&self) -> f64 {
        self.stable.iter().map(|x| x * x).sum()
    }

    /// The cheapest plan, and the largest error that the exact recursion sees at its end and later.
    fn promise(&self, target: f64, communication: f64) -> Option<(Proposal, f64)> {
        let descent = Protocol::p_fedavg(Scheme::Full, 1, StepSize::Constant(0.1));
        let usual = Protocol { local: self.rule, deploy: self.deploy, ..descent };
        let start = [0.0, 0.0];
        let task = Task {
            federation: &self.federation,
            protocol: &usual,
            start: &start,
            stable_point: &self.stable,
            margin: self.margin,
            smoothness: 1.0,
        };
        let clients = self.federation.clients();
        let question = Question {
            target,
            prices: Prices { communication, straggler: 0.0, latency: Latency::Exponential },
            budget: 1_000_000,
            local_steps: None,
            schemes: self.schemes.clone(),
            largest_cohort: clients,
        };
        let best = search(&task, &question, &mut |_| ()).best?;
        let Proposal { scheme, local_steps, step_size, .. } = best;
        let protocol = Protocol { scheme, local_steps, step_size, ..usual };
        let curve = ExactCurve::new(&self.federation, &protocol, None, &start, Some(&self.stable));
        let mut curve = curve.unwrap();
        let mut worst: f64 = 0.0;
        for round in 1..=best.reach.rounds + LATER {
            curve.advance();
            if round >= best.reach.rounds {
                worst = worst.max(curve.moments().distance_sq.unwrap());
            }
        }
        Some((best, worst))
    }

    /// Returns whether there was a plan.
    fn keeps_its_word(&self, target: f64, communication: f64) -> bool {
        let Some((best, worst)) = self.promise(target, communication) else { return false };
        assert!(worst <= target * (1.0 + 1e-9), "{worst} after {target} was promised: {best:?}");
        let told = best.reach.worst_after;
        assert!(worst <= told * (1.0 + 1e-9), "{worst}, {told} foreseen: {best:?}");
        true
    }
}

/// Errors of this problem wind around the stable point: they fall below these targets, leave and return.
#[test]
fn errors_that_return_are_foreseen() {
    let weights = [0.54, 0.13, 0.33];
    let means = [8.05, 4.65, 13.18, 9.7, 16.48, 11.25];
    let sensitivity =
        [[0.54, -0.42, 0.94, 1.38], [0.31, -0.43, -0.38, -0.46], [0.86, 0.06, 0.0, 0.37]];
    let problem = Problem::new(&weights, &means, 0.1, &sensitivity).unwrap();
    for step in (100..=140).step_by(5) {
        let target = 0.92 * f64::from(step);
        assert!(problem.keeps_its_word(target, 10.0), "no plan for {target}");
    }
}

/// What sampled clients keep is stale, and far from what the strong reactions of these would have them
/// keep; a bound that covers all later rounds is found all the same.
#[test]
fn what_clients_keep_is_foreseen() {
    let means = [-3.5, 2.75, -0.3, -0.13];
    let sensitivity = [[-8.4, 7.95, 0.35, -3.9], [9.6, -8.5, 0.2, 5.0]];
    let mut problem = Problem::new(&[0.5, 0.5], &means, 0.1, &sensitivity).unwrap();
    problem.rule = LocalRule::Scaffold;
    for scheme in [Scheme::WithReplacement { cohort: 2 }, Scheme::WithoutReplacement { cohort: 1 }]
    {
        problem.schemes = vec![scheme];
        for share in [0.1, 0.03, 0.003] {
            let target = share * problem.far();
            assert!(problem.keeps_its_word(target, 1.0), "{scheme:?}: no plan for {target}");
        }
    }
}

/// Numbers between zero and one (Lehmer's generator), so that the problems stay what they are.
struct Numbers(u64);

impl Numbers {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0 * 48_271 % 2_147_483_647;
        low + (high - low) * self.0 as f64 / 2_147_483_647.0
    }

    /// Three clients whose reactions are large, so that errors wind or grow before they shrink.
    fn problem(&mut self) -> Option<Problem> {
        let raw = [(); 3].map(|()| self.between(0.1, 1.0));
        let weights = raw.map(|w| w / raw.iter().sum::<f64>());
        let means = [(); 6].map(|()| self.between(-10.0, 20.0));
        let noise = self.between(0.05, 2.0);
        let sensitivity = [(); 3].map(|()| [(); 4].map(|()| self.between(-1.5, 1.5)));
        Problem::new(&weights, &means, noise, &sensitivity)
    }
}

#[test]
fn plans_of_random_problems_keep_their_word() {
    let mut numbers = Numbers(20_261_116);
    let mut planned = 0;
    let mut tried = 0;
    while planned < 30 {
        tried += 1;
        assert!(tried < 300, "only {planned} problems have plans");
        let Some(problem) = numbers.problem() else { continue };
        let share = numbers.between(-3.0, 0.0);
        let target = problem.far() * share.exp();
        let communication = numbers.between(0.0, 20.0);
        planned += u32::from(problem.keeps_its_word(target, communication));
    }
}

/// What is remembered is a part of the state, and may swing with the model.
#[test]
fn plans_for_populations_that_remember_keep_their_word() {
    for memory in [
        Memory::Inertia { rate: 0.3 },
        Memory::Delay { deployments: 2 },
        Memory::Staggered { parts: 3 },
    ] {
        for deploy in [Deploy::Round, Deploy::Step] {
            let mut numbers = Numbers(20_261_119);
            let mut planned = 0;
            for _ in 0..20 {
                let Some(mut problem) = numbers.problem() else { continue };
                problem.federation = problem.federation.remembering(memory, &[9.0, -9.0]).unwrap();
                problem.deploy = deploy;
                let target = problem.far() * numbers.between(-3.0, -0.5).exp();
                planned += u32::from(planned < 2 && problem.keeps_its_word(target, 5.0));
            }
            assert!(planned == 2, "{memory:?} {deploy:?}: {planned} plans");
        }
    }
}
