//! When clients answer: the description of their latencies and of a round's deadline.
//!
//! All clients start a round together and answer after independent latencies. The engine draws them
//! to see who is first, theory integrates their distributions; both read these types.

use std::sync::Arc;

/// How clients arrive in a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    /// How long every client takes.
    pub latency: Arc<Latency>,
    /// When the round closes whoever is missing, in the unit of the latencies.
    pub deadline: Option<f64>,
}

/// How long every client takes, one entry a client. Latencies are independent over clients and rounds.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// Exponential: P(latency ≤ t) = 1 − e^(−t/mean).
    Exponential {
        /// The mean, above zero.
        mean: Vec<f64>,
    },
    /// Log-normal: median · e^(σ Z) with a standard normal Z.
    Lognormal {
        /// The median, above zero.
        median: Vec<f64>,
        /// σ, the standard deviation of the logarithm, above zero.
        sigma: Vec<f64>,
    },
    /// One of the recorded latencies, each as likely as the others.
    Trace(Trace),
}

/// Recorded latencies of every client.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Client after client.
    values: Vec<f64>,
    /// Where the values of client i end; those of the first one begin at zero.
    ends: Vec<usize>,
}

impl Trace {
    /// A trace of clients that have at least one latency each, none of them negative.
    pub fn new(clients: &[Vec<f64>]) -> Self {
        let ends = clients.iter().scan(0, |end, own| {
            *end += own.len();
            Some(*end)
        });
        Trace { ends: ends.collect(), values: clients.concat() }
    }

    /// The number of clients.
    pub fn clients(&self) -> usize {
        self.ends.len()
    }

    /// The latencies recorded of one client.
    pub fn of(&self, client: usize) -> &[f64] {
        let start = if client == 0 { 0 } else { self.ends[client - 1] };
        &self.values[start..self.ends[client]]
    }
}

impl Latency {
    /// The number of clients.
    pub fn clients(&self) -> usize {
        match self {
            Latency::Exponential { mean } => mean.len(),
            Latency::Lognormal { median, .. } => median.len(),
            Latency::Trace(trace) => trace.clients(),
        }
    }

    /// Whether all clients are equally fast: the same distribution for everybody.
    pub fn is_equal(&self) -> bool {
        let same = |values: &[f64]| values.windows(2).all(|pair| pair[0] == pair[1]);
        match self {
            Latency::Exponential { mean } => same(mean),
            Latency::Lognormal { median, sigma } => same(median) && same(sigma),
            Latency::Trace(trace) => {
                let sorted = |client: usize| {
                    let mut own = trace.of(client).to_vec();
                    own.sort_by(f64::total_cmp);
                    own
                };
                let first = sorted(0);
                (1..self.clients()).all(|client| sorted(client) == first)
            }
        }
    }
}

impl Arrivals {
    /// Whether the first to arrive are a uniform choice: everybody is equally fast and nobody is cut
    /// off. Then the scheme has the law of sampling without replacement.
    pub fn is_uniform(&self) -> bool {
        self.deadline.is_none() && self.latency.is_equal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_know_their_clients() {
        let trace = Trace::new(&[vec![3.0], vec![1.0, 2.0], vec![2.0, 1.0]]);
        assert_eq!(trace.of(0), [3.0]);
        assert_eq!(trace.of(2), [2.0, 1.0]);
        assert_eq!(Latency::Trace(trace).clients(), 3);
    }

    #[test]
    fn equally_fast() {
        let equal = |latency: Latency| latency.is_equal();
        assert!(equal(Latency::Exponential { mean: vec![2.0; 3] }));
        assert!(!equal(Latency::Exponential { mean: vec![2.0, 1.0] }));
        let lognormal = |sigma| Latency::Lognormal { median: vec![1.0; 2], sigma };
        assert!(equal(lognormal(vec![0.5, 0.5])) && !equal(lognormal(vec![0.5, 0.6])));
        // The order of a record does not matter, how often a value was seen does.
        assert!(equal(Latency::Trace(Trace::new(&[vec![1.0, 2.0], vec![2.0, 1.0]]))));
        assert!(!equal(Latency::Trace(Trace::new(&[vec![1.0, 2.0], vec![2.0, 1.0, 1.0]]))));
    }
}
