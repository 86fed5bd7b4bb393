//! The exponential function, written so that it gives the same bits on every machine.
//!
//! The system's mathematical library differs between machines, and the hot loop of the logistic
//! loss wants a form without branches or tables that a compiler can vectorise. This one reduces
//! the argument by a multiple of ln 2 and evaluates the Taylor polynomial of degree 13 on
//! |r| ≤ ln 2 / 2, without fused multiply-adds.

const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 in two parts; the first has so few bits that its product with an exponent is exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Adding and subtracting this rounds to the nearest integer.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// exp(−x) for x ≥ 0, to within two units in the last place; 0 beyond x = 708, NaN for NaN.
#[inline(always)]
pub fn exp_neg(x: f64) -> f64 {
    let bounded = if x > 708.0 { 708.0 } else { x };
    let shifted = -bounded * LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (-bounded - k * LN_2_HIGH) - k * LN_2_LOW;
    let r2 = r * r;
    let r4 = r2 * r2;
    // Pairs of coefficients 1/n!, combined by Estrin's scheme for short dependency chains.
    let low = (1.0 + r) + r2 * (1.0 / 2.0 + r * (1.0 / 6.0));
    let middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5_040.0));
    let high = (1.0 / 40_320.0 + r * (1.0 / 362_880.0))
        + r2 * (1.0 / 3_628_800.0 + r * (1.0 / 39_916_800.0));
    let top = 1.0 / 479_001_600.0 + r * (1.0 / 6_227_020_800.0);
    let polynomial = low + r4 * (middle + r4 * (high + r4 * top));
    // The low bits of `shifted` hold k; moved to the exponent field they are 2^k.
    let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    let value = polynomial * scale;
    if x > 708.0 { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_libm() {
        let mut worst = 0.0f64;
        for k in 0..200_000 {
            let x = k as f64 * 0.003_537;
            if x <= 708.0 {
                let expected = libm::exp(-x);
                worst = worst.max((exp_neg(x) - expected).abs() / (expected * f64::EPSILON));
            }
        }
        assert!(worst <= 2.0, "{worst} units");
    }

    #[test]
    fn extremes() {
        assert_eq!(exp_neg(0.0), 1.0);
        assert_eq!(exp_neg(1e4), 0.0);
        assert_eq!(exp_neg(f64::INFINITY), 0.0);
        assert!(exp_neg(f64::NAN).is_nan());
    }
}
