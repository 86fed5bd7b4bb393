//! Student's t and Snedecor's F by the regularised incomplete beta function.

/// ln Γ(x) for x > 0.
pub fn log_gamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// I_x(a, b), by the continued fraction of the incomplete beta function (Lentz's method; Press et al.,
/// *Numerical Recipes*, section 6.4).
pub fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast on this side of the mean only; the other follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = libm::exp(
        log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * libm::log(x) + b * libm::log1p(-x),
    ) / a;
    const TINY: f64 = 1e-300;
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..10_000 {
        let m = step as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away(1.0 + even * d);
        c = away(1.0 + even / c);
        fraction *= c * d;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away(1.0 + odd * d);
        c = away(1.0 + odd / c);
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// P(|T| > |t|) for Student's t.
pub fn student_two_sided(t: f64, degrees: f64) -> f64 {
    let square = t * t;
    if square.is_infinite() {
        return 0.0;
    }
    incomplete_beta(0.5 * degrees, 0.5, degrees / (degrees + square))
}

/// The t beyond which Student's t lies with probability `tail` (below one half) on one side.
pub fn student_quantile(tail: f64, degrees: f64) -> f64 {
    let outside = |t: f64| 0.5 * student_two_sided(t, degrees);
    let (mut low, mut high) = (0.0, 2.0);
    while outside(high) > tail {
        low = high;
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if outside(middle) > tail { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// P(F > f) for Snedecor's F.
pub fn snedecor_tail(f: f64, numerator: f64, denominator: f64) -> f64 {
    if f <= 0.0 {
        return 1.0;
    }
    if f.is_infinite() {
        return 0.0;
    }
    incomplete_beta(0.5 * denominator, 0.5 * numerator, denominator / (denominator + numerator * f))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against tables: Abramowitz and Stegun 26.9 and 26.10.
    #[test]
    fn quantiles_of_the_tables() {
        for (tail, degrees, expected) in [
            (0.025, 1.0, 12.706_204_736),
            (0.025, 10.0, 2.228_138_852),
            (0.025, 58.0, 2.001_717_484),
            (0.005, 30.0, 2.749_995_654),
            (0.025, 1e6, 1.959_966_358),
        ] {
            let found = student_quantile(tail, degrees);
            assert!((found - expected).abs() < 2e-8 * expected, "{degrees}: {found}");
        }
        assert!((snedecor_tail(3.325_834_530, 5.0, 10.0) - 0.05).abs() < 1e-9);
        assert!((snedecor_tail(4.170_876_757, 1.0, 30.0) - 0.05).abs() < 1e-9);
    }

    /// Closed forms: I_x(1, b) = 1 − (1 − x)^b, and t² is F with one degree above.
    #[test]
    fn closed_forms() {
        for (b, x) in [(0.5, 0.3), (3.0, 0.9), (40.0, 0.01)] {
            let expected = 1.0 - (1.0f64 - x).powf(b);
            assert!((incomplete_beta(1.0, b, x) - expected).abs() < 1e-14);
        }
        for t in [0.1, 1.0, 2.5, 9.0] {
            let (student, snedecor) = (student_two_sided(t, 7.5), snedecor_tail(t * t, 1.0, 7.5));
            assert!((student - snedecor).abs() < 1e-14);
        }
    }
}
