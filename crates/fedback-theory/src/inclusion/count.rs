//! How many of independent clients have arrived: the Poisson-binomial distribution.
//!
//! Its probabilities follow by adding one client after the other. Leaving one out again is a division
//! of polynomials, f = f₋ᵢ ∗ (1 − q, q), which is stable in one direction only: from below where
//! q ≤ ½, from above where q > ½. Either way an error is multiplied by at most one from one
//! probability to the next.

/// The distribution of a number of arrivals.
pub(super) struct Count {
    /// P(k arrivals), k from 0 to the number of clients.
    probabilities: Vec<f64>,
}

/// Probabilities below this are nothing: they would only slow the arithmetic down.
const NOTHING: f64 = 1e-60;

impl Count {
    /// Of clients that have arrived with the given probabilities.
    pub(super) fn of(arrived: &[f64]) -> Self {
        let mut probabilities = vec![0.0; arrived.len() + 1];
        probabilities[0] = 1.0;
        for (so_far, &q) in arrived.iter().enumerate() {
            let mut below = 0.0;
            for probability in &mut probabilities[..=so_far + 1] {
                let here = *probability;
                let sum = here * (1.0 - q) + below * q;
                *probability = if sum < NOTHING { 0.0 } else { sum };
                below = here;
            }
        }
        Count { probabilities }
    }

    /// P(at most k arrivals).
    pub(super) fn at_most(&self, k: usize) -> f64 {
        self.probabilities.iter().take(k + 1).sum()
    }

    /// P(at least k arrivals).
    pub(super) fn at_least(&self, k: usize) -> f64 {
        self.probabilities.iter().skip(k).sum()
    }

    /// E of a function of the number of arrivals.
    pub(super) fn expected(&self, of: impl Fn(usize) -> f64) -> f64 {
        self.probabilities.iter().enumerate().map(|(k, probability)| of(k) * probability).sum()
    }

    /// The same without one client, who has arrived with probability q.
    pub(super) fn without(&self, q: f64) -> Self {
        let others = self.probabilities.len() - 1;
        let mut probabilities: Vec<f64>;
        if q <= 0.5 {
            probabilities = divided(self.probabilities[..others].iter(), q).collect();
        } else {
            probabilities = divided(self.probabilities[1..].iter().rev(), 1.0 - q).collect();
            probabilities.reverse();
        }
        Count { probabilities }
    }

    /// P(at most k arrivals) without one client, without the other probabilities.
    pub(super) fn at_most_without(&self, q: f64, k: usize) -> f64 {
        match q <= 0.5 {
            true => divided(self.probabilities.iter().take(k + 1), q).sum(),
            false => {
                1.0 - divided(self.probabilities.iter().skip(k + 2).rev(), 1.0 - q).sum::<f64>()
            }
        }
    }
}

/// The quotient of a polynomial and (1 − q, q), from one end; what rounding makes negative is nothing.
fn divided<'a>(polynomial: impl Iterator<Item = &'a f64>, q: f64) -> impl Iterator<Item = f64> {
    polynomial.scan(0.0, move |last, coefficient| {
        let quotient = (coefficient - q * *last) / (1.0 - q);
        *last = if quotient < NOTHING { 0.0 } else { quotient };
        Some(*last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By enumeration of who has arrived.
    fn enumerated(arrived: &[f64]) -> Vec<f64> {
        let mut sum = vec![0.0; arrived.len() + 1];
        for set in 0u32..1 << arrived.len() {
            let factor = |(i, q): (usize, &f64)| if set >> i & 1 == 1 { *q } else { 1.0 - q };
            sum[set.count_ones() as usize] +=
                arrived.iter().enumerate().map(factor).product::<f64>();
        }
        sum
    }

    #[test]
    fn leaving_one_out_undoes_adding_it() {
        let arrived = [0.0, 1e-9, 0.2, 0.5, 0.500_000_1, 0.9, 1.0 - 1e-12, 1.0, 0.3];
        let count = Count::of(&arrived);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-15, "{a} {b}");
        for (found, expected) in count.probabilities.iter().zip(enumerated(&arrived)) {
            close(*found, expected);
        }
        for (i, &own) in arrived.iter().enumerate() {
            let others: Vec<f64> =
                (0..arrived.len()).filter(|j| *j != i).map(|j| arrived[j]).collect();
            let expected = enumerated(&others);
            let found = count.without(own);
            for (found, expected) in found.probabilities.iter().zip(&expected) {
                close(*found, *expected);
            }
            for k in 0..others.len() {
                let sum = expected[..=k].iter().sum();
                close(count.at_most_without(own, k), sum);
                close(found.at_most(k), sum);
                close(found.at_least(k + 1), 1.0 - sum);
            }
        }
    }

    /// Many clients on both sides of one half: no error grows.
    #[test]
    fn many_clients_can_be_left_out() {
        let arrived: Vec<f64> = (0..800).map(|i| (0.5 + i as f64) / 800.0).collect();
        let count = Count::of(&arrived);
        for i in [0, 10, 399, 400, 401, 790, 799] {
            let others: Vec<f64> =
                (0..arrived.len()).filter(|j| *j != i).map(|j| arrived[j]).collect();
            for k in [350, 399, 420] {
                let expected = Count::of(&others).at_most(k);
                assert!((count.at_most_without(arrived[i], k) - expected).abs() < 1e-13);
            }
        }
    }
}
