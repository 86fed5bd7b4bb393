// exp(-x) and what is made of it, as `exp.rs` and `loss/logistic.rs` of the core have them.

#pragma once
#include "device.h"

// exp(-x) for x >= 0; 0 beyond x = 708, NaN for NaN.
DEVICE f64 exp_neg(f64 x) {
    f64 bounded = x > 708.0 ? 708.0 : x;
    f64 shifted = -bounded * 1.4426950408889634 + 6755399441055744.0;
    f64 k = shifted - 6755399441055744.0;
    f64 r = (-bounded - k * 0.6931471803691238) - k * 1.9082149292705877e-10;
    f64 r2 = r * r;
    f64 r4 = r2 * r2;
    f64 low = (1.0 + r) + r2 * (1.0 / 2.0 + r * (1.0 / 6.0));
    f64 middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0));
    f64 high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) +
               r2 * (1.0 / 3628800.0 + r * (1.0 / 39916800.0));
    f64 top = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0);
    f64 polynomial = low + r4 * (middle + r4 * (high + r4 * top));
    f64 scale = from_bits((to_bits(shifted) << 52) + (1023ull << 52));
    return x > 708.0 ? 0.0 : polynomial * scale;
}

// 1 / (1 + exp(-m)).
DEVICE f64 sigmoid(f64 margin) {
    f64 e = exp_neg(fabs(margin));
    return (margin >= 0.0 ? 1.0 : e) / (1.0 + e);
}
