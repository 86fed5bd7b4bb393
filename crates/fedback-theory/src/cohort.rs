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

mod arrived;
mod draw;

use fedback_core::federation::Federation;
use fedback_core::protocol::{Aggregate, Protocol, Scheme};
use nalgebra::DMatrix;

pub use arrived::{Arrived, WeightsThatCount, effective_weights};
pub(crate) use draw::Draw;
use draw::pick;

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
    pub(crate) fn of(
        federation: &Federation,
        protocol: &Protocol,
        arrived: Option<&Arrived>,
    ) -> Self {
        let (weights, schemes) = (federation.weights(), [protocol.scheme]);
        Cohorts::of_schemes(weights, protocol, arrived, &schemes, keeps(federation, protocol))
    }

    /// Of several schemes that share E(c). The random numbers are c_k or, of one scheme whose clients keep
    /// something, b_k.
    pub(crate) fn of_schemes(
        weights: &[f64],
        protocol: &Protocol,
        arrived: Option<&Arrived>,
        schemes: &[Scheme],
        keeps: bool,
    ) -> Self {
        let n = weights.len();
        let mut expected: Vec<f64> = match arrived {
            Some(arrived) => arrived.expected(),
            None => (0..n).map(|i| protocol.weight(weights, i)).collect(),
        };
        let mut counts = None;
        if keeps {
            let taking = taking_part(weights, schemes[0], arrived);
            let count = |(g, b): (&f64, &f64)| if *b > 0.0 { g / b } else { 0.0 };
            counts = Some(expected.iter().zip(&taking).map(count).collect::<Vec<f64>>());
            expected = taking;
        }
        let idle = arrived.is_some_and(|arrived| arrived.idles(protocol));
        let (mut draws, mut rests): (Vec<Draw>, bool) = (Vec::new(), false);
        let mut chance = |scheme: &Scheme| {
            let mut share = theorem(*scheme, n).1;
            let draw = match (*scheme, arrived, &counts) {
                (Scheme::Full, ..) => return None,
                (Scheme::WithReplacement { .. }, _, None) => Draw::by_weight(weights),
                (Scheme::WithReplacement { cohort }, _, Some(counts)) => {
                    (rests, share) = (true, 1.0);
                    let drawn = Multinomial { weights, cohort: cohort as f64 };
                    Draw::pairs(drawn.covariance(counts))
                }
                (Scheme::FirstArrivals { .. }, Some(arrived), _) => {
                    share = 1.0;
                    Draw::pairs(arrived.covariance(keeps, idle))
                }
                (Scheme::WithoutReplacement { .. } | Scheme::FirstArrivals { .. }, ..) => {
                    let factors = expected.iter().map(|g| n as f64 * g).collect();
                    Draw::centred(vec![1.0 / n as f64; n], factors)
                }
            };
            if share <= 0.0 {
                return None;
            }
            let known = draws.iter().position(|known| *known == draw);
            let place = known.unwrap_or_else(|| {
                draws.push(draw);
                draws.len() - 1
            });
            Some((place, share))
        };
        let schemes = schemes.iter().map(&mut chance).collect();
        expected.resize(if rests { 2 * n } else { n }, 0.0);
        expected.extend(arrived.filter(|_| idle).map(|arrived| arrived.empty));
        Cohorts { expected, counts, rests, idle, draws, schemes }
    }

    /// How often the client that comes least often comes, where clients keep something.
    pub(crate) fn rarest(&self, clients: usize) -> f64 {
        let often = self.expected[..clients].iter().filter(|often| **often > 0.0);
        often.fold(1.0, |least, often| least.min(*often))
    }

    /// E(z_k²).
    pub(crate) fn squares(&self, chance: Chance) -> Vec<f64> {
        let variance =
            |k: usize| chance.map_or(0.0, |(draw, share)| share * self.draws[draw].variances[k]);
        self.expected.iter().enumerate().map(|(k, g)| g * g + variance(k)).collect()
    }

    /// The same of some clients who stand for all and keep nothing, each for `times` its weight.
    pub(crate) fn of_few(&self, clients: &[usize], times: f64) -> Option<Self> {
        let few = |draw: &Draw| draw.of_few(clients, times);
        let draws: Option<Vec<Draw>> = self.draws.iter().map(few).collect();
        let expected = pick(&self.expected, clients, times);
        Some(Cohorts { expected, draws: draws?, ..self.clone() })
    }
}

/// Whether clients keep something from one of their rounds to the next, by their rule or as what their own
/// population remembers.
pub(crate) fn keeps(federation: &Federation, protocol: &Protocol) -> bool {
    federation.layout(protocol).kept > 0
}

/// E(b_k).
fn taking_part(weights: &[f64], scheme: Scheme, arrived: Option<&Arrived>) -> Vec<f64> {
    let n = weights.len();
    match (scheme, arrived) {
        (Scheme::Full, _) => vec![1.0; n],
        (Scheme::WithReplacement { cohort }, _) => {
            let drawn = Multinomial { weights, cohort: cohort as f64 };
            weights.iter().map(|p| drawn.takes_part(*p)).collect()
        }
        (Scheme::FirstArrivals { .. }, Some(arrived)) => arrived.pairs.diagonal().as_slice().into(),
        (Scheme::WithoutReplacement { cohort } | Scheme::FirstArrivals { cohort, .. }, _) => {
            vec![cohort as f64 / n as f64; n]
        }
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
            let (n, k) = (clients as f64, cohort as f64);
            // The variance of a mean of K of N values without replacement, in units of theirs.
            (Theorem::Without, if n > 1.0 { (n - k) / (k * (n - 1.0)) } else { 0.0 })
        }
    }
}
