//! Who works: the moments of a cohort's coefficients, for every scheme.
//!
//! A round adds Σ c_k δ_k, client k's work δ_k times a random coefficient. Everything theory says of a scheme
//! follows from E(c_k) and Cov(c_k, c_l), which are written down here and nowhere else:
//!
//! | scheme | E(c_k) | Cov(c_k, c_l) |
//! |---|---|---|
//! | full | p_k | 0 |
//! | with replacement | p_k | (1/K) (p_k δ_kl − p_k p_l) |
//! | without replacement | p_k | ρ N (p_k² δ_kl − p_k p_l / N), ρ = (N − K)/(K (N − 1)) |
//! | … scaled objectives | 1/N | the same with 1/N for p |
//! | first arrivals | a_k π_k | a_k a_l (π_kl − π_k π_l), a_k = p_k N/K or p_k/π_k |
//!
//! with π_k the probability of being among the first and π_kl that of both. With a_k = p_k N/K the
//! expected round of first arrivals is one at the *effective weights*, in proportion to p_k π_k, whose
//! update is multiplied by (N/K) Σ p_k π_k; with a_k = p_k/π_k (Horvitz and Thompson 1952) it is one at
//! the weights p_k themselves.
//!
//! Clients that keep something change it when they take part, so that there the random numbers are b_k,
//! one for those who do and zero for others, and c_k = α_k b_k. Only with replacement c_k has a rest
//! c_k − α_k b_k besides, α_k = E(c_k)/E(b_k), which is uncorrelated with b_k.

use fedback_core::federation::Federation;
use fedback_core::misfit::Unsupported;
use fedback_core::protocol::{Aggregate, LocalRule, Protocol, Scheme, ServerRule};
use nalgebra::DMatrix;

use crate::round::{Affine, Block};

/// Which weights decide where small steps settle when fast clients come more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightsThatCount {
    /// The clients' own, p_i.
    Own,
    /// The effective ones, in proportion to E(c_k).
    Effective,
}

impl WeightsThatCount {
    /// Of a protocol. Rules that keep nothing rest where the expected combined work vanishes.
    /// SCAFFOLD rests where every client's corrected gradient does, whoever comes more often: the
    /// weights are those of c = Σ p_i c_i.
    pub fn of(protocol: &Protocol) -> Result<Self, Unsupported> {
        // No `..`: whoever adds a part must say what it does to the place of rest. Those that are
        // not named do nothing to it where steps are small.
        let Protocol {
            local,
            server,
            scheme: _,
            local_steps: _,
            batch: _,
            step_size: _,
            deploy: _,
            aggregate: _,
            scale_objectives: _,
        } = *protocol;
        match (server, local) {
            (ServerRule::Adam { .. }, _) => Err(Unsupported::new(
                "algorithm.server",
                "Adam's steps are not linear in the combined work: where it settles depends on the \
                 noise",
            )),
            (ServerRule::Average | ServerRule::Momentum { .. }, LocalRule::Scaffold) => {
                Ok(WeightsThatCount::Own)
            }
            (
                ServerRule::Average | ServerRule::Momentum { .. },
                LocalRule::Descent | LocalRule::Proximal { .. },
            ) => Ok(WeightsThatCount::Effective),
        }
    }
}

/// Who is among the first to arrive, and what they count.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// π_kl, with π_k on the diagonal.
    pairs: DMatrix<f64>,
    /// a_k.
    counts: Vec<f64>,
    /// The probability that nobody comes, and the round changes nothing.
    empty: f64,
}

impl Arrived {
    /// Of the first `cohort` to arrive. `pairs` are the probabilities that two clients are both among
    /// them, and on its diagonal that one is.
    pub fn new(weights: &[f64], pairs: DMatrix<f64>, cohort: usize, correct: bool) -> Self {
        let each = weights.len() as f64 / cohort as f64;
        let counts = weights.iter().enumerate().map(|(k, p)| match correct {
            true if pairs[(k, k)] > 0.0 => p / pairs[(k, k)],
            true => 0.0,
            false => p * each,
        });
        Arrived { counts: counts.collect(), pairs, empty: 0.0 }
    }

    /// The same where nobody comes with a probability.
    pub fn or_nobody(self, empty: f64) -> Self {
        Arrived { empty, ..self }
    }

    /// The covariance of random numbers z with that of nobody coming, E(z) being `expected`, appended where
    /// that changes something: a server with momentum stands still.
    fn with_empty(
        &self,
        protocol: &Protocol,
        expected: &mut Vec<f64>,
        covariance: DMatrix<f64>,
    ) -> (DMatrix<f64>, bool) {
        if self.empty <= 0.0 || protocol.server.vectors() == 0 {
            return (covariance, false);
        }
        let (n, empty) = (expected.len(), self.empty);
        let with = |k: usize| -empty * expected[k];
        let all = DMatrix::from_fn(n + 1, n + 1, |k, l| match (k < n, l < n) {
            (true, true) => covariance[(k, l)],
            (true, false) => with(k),
            (false, true) => with(l),
            (false, false) => empty * (1.0 - empty),
        });
        expected.push(empty);
        (all, true)
    }

    /// E(c_k).
    pub fn expected(&self) -> Vec<f64> {
        self.counts.iter().enumerate().map(|(k, a)| a * self.pairs[(k, k)]).collect()
    }

    /// Σ E(c_k): what the update of an expected round is multiplied with.
    pub fn speed(&self) -> f64 {
        self.expected().iter().sum()
    }

    /// The weights of an expected round.
    pub fn effective_weights(&self) -> Vec<f64> {
        let speed = self.speed();
        self.expected().iter().map(|expected| expected / speed).collect()
    }

    /// Cov(b_k, b_l).
    fn together(&self) -> DMatrix<f64> {
        let clients = self.counts.len();
        DMatrix::from_fn(clients, clients, |k, l| {
            self.pairs[(k, l)] - self.pairs[(k, k)] * self.pairs[(l, l)]
        })
    }
}

/// In proportion to p_i π_i: the weights that first arrivals effectively use.
pub fn effective_weights(weights: &[f64], inclusion: &[f64]) -> Vec<f64> {
    let products: Vec<f64> = weights.iter().zip(inclusion).map(|(p, pi)| p * pi).collect();
    let sum: f64 = products.iter().sum();
    products.into_iter().map(|product| product / sum).collect()
}

/// The covariance of random coefficients, for a share ρ of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draw {
    /// Var(c_k).
    variances: Vec<f64>,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// Cov = diag(f) (diag(w) − w wᵀ/Σw) diag(f): values f_k y_k less their mean.
    Centred { weights: Vec<f64>, factors: Vec<f64> },
    /// Any.
    Pairs(DMatrix<f64>),
}

impl Draw {
    fn centred(weights: Vec<f64>, factors: Vec<f64>) -> Self {
        let total: f64 = weights.iter().sum();
        let variance = |(w, f): (&f64, &f64)| f * f * w * (1.0 - w / total);
        let variances = weights.iter().zip(&factors).map(variance).collect();
        Draw { variances, kind: Kind::Centred { weights, factors } }
    }

    /// One client drawn by weight: its variance is the clients' distance from consensus.
    pub(crate) fn by_weight(weights: &[f64]) -> Self {
        Draw::centred(weights.to_vec(), vec![1.0; weights.len()])
    }

    fn pairs(covariance: DMatrix<f64>) -> Self {
        let variances = covariance.diagonal().as_slice().to_vec();
        Draw { variances, kind: Kind::Pairs(covariance) }
    }

    /// Σ Cov(c_k, c_l) y_k y_lᵀ for affine y, and Σ Var(c_k) N_k for the noise in them.
    pub(crate) fn gather<J: Block>(&self, values: &[Affine<J>]) -> (J::Drawn, J) {
        let mut drawn = J::Drawn::default();
        let mut noise = values[0].noise.emptied();
        values.iter().zip(&self.variances).for_each(|(value, v)| noise.add(*v, &value.noise));
        match &self.kind {
            Kind::Centred { weights, factors } => {
                let total: f64 = weights.iter().sum();
                let shares = weights.iter().zip(factors).map(|(w, f)| w * f / total);
                let (map, shift) = sum(values, shares);
                for ((value, w), f) in values.iter().zip(weights).zip(factors) {
                    let (mut own, mut apart) = (value.map.clone(), value.shift.clone());
                    own.scale(*f);
                    own.add(-1.0, &map);
                    apart.scale(*f);
                    apart.add(-1.0, &shift);
                    let (mut weighted, mut pulled) = (own.clone(), apart.clone());
                    weighted.scale(*w);
                    pulled.scale(*w);
                    J::gather(&mut drawn, (&weighted, &pulled), (&own, &apart));
                }
            }
            Kind::Pairs(covariance) => {
                for (k, value) in values.iter().enumerate() {
                    let (map, shift) = sum(values, covariance.column(k).iter().copied());
                    J::gather(&mut drawn, (&value.map, &value.shift), (&map, &shift));
                }
            }
        }
        (drawn, noise)
    }
}

/// Σ s_k y_k of affine y.
fn sum<J: Block>(values: &[Affine<J>], shares: impl Iterator<Item = f64>) -> (J, J) {
    let (mut map, mut shift) = (values[0].map.emptied(), values[0].shift.emptied());
    for (value, share) in values.iter().zip(shares) {
        map.add(share, &value.map);
        shift.add(share, &value.shift);
    }
    (map, shift)
}

/// What chance does under a scheme: which draw, and its share ρ; none where nothing is left to chance.
pub(crate) type Chance = Option<(usize, f64)>;

/// The coefficients of one scheme or, where only a share ρ of the same covariance distinguishes them, of
/// several.
#[derive(Clone, Debug)]
pub(crate) struct Cohorts {
    /// E(z) of the random numbers z: c_k, or b_k and perhaps the rests of c_k.
    pub(crate) expected: Vec<f64>,
    /// α_k where z is b_k; none where it is c_k.
    pub(crate) counts: Option<Vec<f64>>,
    /// Whether the rests of c_k follow the b_k.
    pub(crate) rests: bool,
    /// Whether the last number is that of nobody coming.
    pub(crate) idle: bool,
    /// The covariances that occur.
    pub(crate) draws: Vec<Draw>,
    /// Each scheme's chance.
    pub(crate) schemes: Vec<Chance>,
}

impl Cohorts {
    /// Of one protocol. First arrivals need `arrived`, or are taken for equally fast ones.
    pub(crate) fn of(weights: &[f64], protocol: &Protocol, arrived: Option<&Arrived>) -> Self {
        match protocol.local.keeps() {
            true => Cohorts::of_keepers(weights, protocol, arrived),
            false => Cohorts::of_schemes(weights, protocol, arrived, &[protocol.scheme]),
        }
    }

    /// Of several schemes that share E(c).
    pub(crate) fn of_schemes(
        weights: &[f64],
        protocol: &Protocol,
        arrived: Option<&Arrived>,
        schemes: &[Scheme],
    ) -> Self {
        let n = weights.len() as f64;
        let mut expected: Vec<f64> = match arrived {
            Some(arrived) => arrived.expected(),
            None => (0..weights.len()).map(|i| protocol.weight(weights, i)).collect(),
        };
        let (mut draws, mut idle): (Vec<Draw>, bool) = (Vec::new(), false);
        let mut place = |draw: Draw| match draws.iter().position(|known| *known == draw) {
            Some(known) => known,
            None => {
                draws.push(draw);
                draws.len() - 1
            }
        };
        let schemes = schemes.iter().map(|scheme| match (*scheme, arrived) {
            (Scheme::Full, _) => None,
            (Scheme::WithReplacement { cohort }, _) => {
                Some((place(Draw::by_weight(weights)), 1.0 / cohort as f64))
            }
            (Scheme::FirstArrivals { .. }, Some(arrived)) => {
                let covariance = arrived.together();
                let counts = &arrived.counts;
                let pairs = DMatrix::from_fn(counts.len(), counts.len(), |k, l| {
                    counts[k] * counts[l] * covariance[(k, l)]
                });
                let (pairs, empty) = arrived.with_empty(protocol, &mut expected, pairs);
                idle = empty;
                Some((place(Draw::pairs(pairs)), 1.0))
            }
            (Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. }, _) => {
                let share = finite_population(weights.len(), cohort);
                let factors = expected.iter().map(|g| n * g).collect();
                let draw = Draw::centred(vec![1.0 / n; weights.len()], factors);
                (share > 0.0).then(|| (place(draw), share))
            }
        });
        let schemes = schemes.collect();
        Cohorts { expected, counts: None, rests: false, idle, draws, schemes }
    }

    /// Of clients that keep something.
    fn of_keepers(weights: &[f64], protocol: &Protocol, arrived: Option<&Arrived>) -> Self {
        let n = weights.len();
        let own: Vec<f64> = (0..n).map(|i| protocol.weight(weights, i)).collect();
        let mut idle = false;
        let (expected, counts, draw, rests) = match (protocol.scheme, arrived) {
            (Scheme::Full, _) => (vec![1.0; n], own, None, false),
            (Scheme::WithReplacement { cohort }, _) => {
                let drawn = Multinomial { weights, cohort: cohort as f64 };
                let taking: Vec<f64> = weights.iter().map(|p| drawn.takes_part(*p)).collect();
                let count =
                    |(p, taking): (&f64, &f64)| if *taking > 0.0 { p / taking } else { 0.0 };
                let counts: Vec<f64> = weights.iter().zip(&taking).map(count).collect();
                let pairs = drawn.covariance(&counts);
                let expected = taking.into_iter().chain(vec![0.0; n]).collect();
                (expected, counts, Some(Draw::pairs(pairs)), true)
            }
            (Scheme::FirstArrivals { .. }, Some(arrived)) => {
                let mut expected = arrived.pairs.diagonal().as_slice().to_vec();
                let (pairs, empty) =
                    arrived.with_empty(protocol, &mut expected, arrived.together());
                idle = empty;
                (expected, arrived.counts.clone(), Some(Draw::pairs(pairs)), false)
            }
            (Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. }, _) => {
                let share = cohort as f64 / n as f64;
                let each = share * (1.0 - share) * n as f64 / (n as f64 - 1.0).max(1.0);
                let counts = own.iter().map(|g| g / share).collect();
                let draw = Draw::centred(vec![each; n], vec![1.0; n]);
                (vec![share; n], counts, (each > 0.0).then_some(draw), false)
            }
        };
        let schemes = vec![draw.as_ref().map(|_| (0, 1.0))];
        let draws = draw.into_iter().collect();
        Cohorts { expected, counts: Some(counts), rests, idle, draws, schemes }
    }

    /// E(z_k²).
    pub(crate) fn squares(&self, chance: Chance) -> Vec<f64> {
        let variance =
            |k: usize| chance.map_or(0.0, |(draw, share)| share * self.draws[draw].variances[k]);
        self.expected.iter().enumerate().map(|(k, g)| g * g + variance(k)).collect()
    }

    /// The same of some clients who stand for all: each for `times` its own weight.
    pub(crate) fn of_few(&self, clients: &[usize], times: f64) -> Option<Self> {
        let pick =
            |all: &[f64], by: f64| clients.iter().map(|&k| by * all[k]).collect::<Vec<f64>>();
        let few = |draw: &Draw| match &draw.kind {
            Kind::Centred { weights, factors } => {
                Some(Draw::centred(pick(weights, times), pick(factors, 1.0)))
            }
            // Nobody stands for others where pairs differ.
            Kind::Pairs(_) => None,
        };
        let draws: Option<Vec<Draw>> = self.draws.iter().map(few).collect();
        let (expected, schemes) = (pick(&self.expected, times), self.schemes.clone());
        let plain = self.counts.is_none();
        plain.then_some(Cohorts {
            expected,
            counts: None,
            rests: false,
            idle: false,
            draws: draws?,
            schemes,
        })
    }
}

/// K draws by weight.
struct Multinomial<'a> {
    weights: &'a [f64],
    cohort: f64,
}

impl Multinomial<'_> {
    /// The probability that nobody of these weights is drawn in some draws less.
    fn missed(&self, weight: f64, less: f64) -> f64 {
        libm::pow((1.0 - weight).max(0.0), self.cohort - less)
    }

    fn takes_part(&self, p: f64) -> f64 {
        -libm::expm1(self.cohort * libm::log1p(-p.min(1.0)))
    }

    /// Of b, and of the rests e = c − α b.
    fn covariance(&self, counts: &[f64]) -> DMatrix<f64> {
        let (n, p) = (self.weights.len(), self.weights);
        let bb = |k: usize, l: usize| match k == l {
            true => self.takes_part(p[k]) * self.missed(p[k], 0.0),
            false => {
                self.missed(p[k] + p[l], 0.0) - self.missed(p[k], 0.0) * self.missed(p[l], 0.0)
            }
        };
        // Cov(c_k, b_l).
        let cb = |k: usize, l: usize| match k == l {
            true => p[k] * self.missed(p[k], 0.0),
            false => -p[k] * p[l] * self.missed(p[l], 1.0),
        };
        let cc = |k: usize, l: usize| (if k == l { p[k] } else { 0.0 } - p[k] * p[l]) / self.cohort;
        let eb = |k: usize, l: usize| cb(k, l) - counts[k] * bb(k, l);
        let ee = |k: usize, l: usize| {
            cc(k, l) - counts[l] * cb(k, l) - counts[k] * cb(l, k)
                + counts[k] * counts[l] * bb(k, l)
        };
        DMatrix::from_fn(2 * n, 2 * n, |row, column| match (row < n, column < n) {
            (true, true) => bb(row, column),
            (true, false) => eb(column - n, row),
            (false, true) => eb(row - n, column),
            (false, false) => ee(row - n, column - n),
        })
    }
}

/// (N−K)/(K(N−1)), the variance of a mean of K of N values without replacement in units of theirs.
fn finite_population(clients: usize, cohort: usize) -> f64 {
    let (n, k) = (clients as f64, cohort as f64);
    if clients > 1 { (n - k) / (k * (n - 1.0)) } else { 0.0 }
}

/// Whether an aggregation multiplies the whole model by a random number: the coefficients of a cohort
/// do not sum to one, and models rather than updates are averaged.
pub fn rescales(federation: &Federation, protocol: &Protocol) -> bool {
    let n = federation.clients() as f64;
    let uneven = federation.weights().iter().any(|p| (p * n - 1.0).abs() > 1e-9);
    let partial = matches!(protocol.scheme, Scheme::WithoutReplacement { cohort }
        if cohort < federation.clients());
    protocol.aggregate == Aggregate::Iterates && partial && uneven && !protocol.scale_objectives
}

/// Whether who is fast decides who works.
pub(crate) fn by_speed(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::FirstArrivals { .. })
}

/// Whether objectives may be scaled under a scheme.
pub(crate) fn may_scale(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::WithoutReplacement { .. })
}

/// The same scheme with another cohort.
pub(crate) fn resized(scheme: Scheme, cohort: usize) -> Scheme {
    match scheme {
        Scheme::Full => Scheme::Full,
        Scheme::WithReplacement { .. } => Scheme::WithReplacement { cohort },
        Scheme::WithoutReplacement { .. } => Scheme::WithoutReplacement { cohort },
        Scheme::FirstArrivals { correct, .. } => Scheme::FirstArrivals { cohort, correct },
    }
}

/// The scheme that has cohorts, where full participation has none.
pub(crate) fn partial(scheme: Scheme, clients: usize) -> Scheme {
    match scheme {
        Scheme::Full => Scheme::WithoutReplacement { cohort: clients },
        Scheme::WithReplacement { .. }
        | Scheme::WithoutReplacement { .. }
        | Scheme::FirstArrivals { .. } => scheme,
    }
}

/// Whether everybody works in every round.
pub(crate) fn is_everybody(scheme: Scheme, clients: usize) -> bool {
    match scheme {
        Scheme::Full => true,
        Scheme::WithReplacement { .. } => false,
        Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. } => {
            cohort >= clients
        }
    }
}

/// How many different clients a cohort has, on average.
pub(crate) fn distinct(scheme: Scheme, weights: &[f64]) -> f64 {
    match scheme {
        Scheme::Full => weights.len() as f64,
        Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. } => {
            cohort as f64
        }
        Scheme::WithReplacement { cohort } => {
            let drawn = Multinomial { weights, cohort: cohort as f64 };
            weights.iter().map(|p| 1.0 - drawn.missed(*p, 0.0)).sum()
        }
    }
}

/// Which of Theorems 3.1 to 3.3 is about a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theorem {
    Full,
    With,
    Without,
}

/// The theorem about a scheme, and its ρ: what a cohort leaves of the variance among clients. First arrivals
/// have none, and are read as if they were equally fast.
pub(crate) fn theorem(scheme: Scheme, clients: usize) -> (Theorem, f64) {
    match scheme {
        Scheme::Full => (Theorem::Full, 0.0),
        Scheme::WithReplacement { cohort } => (Theorem::With, 1.0 / cohort as f64),
        Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. } => {
            (Theorem::Without, finite_population(clients, cohort))
        }
    }
}
