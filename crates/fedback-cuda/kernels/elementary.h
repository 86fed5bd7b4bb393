// exp and log as the `libm` crate has them, for the few variates that a word does not decide: the
// same operations in the same order.
//
// Origin: FreeBSD's msun, e_exp.c and e_log.c.
// Copyright (C) 1993, 2004 by Sun Microsystems, Inc. All rights reserved. Permission to use, copy,
// modify, and distribute this software is freely granted, provided that this notice is preserved.

#pragma once
#include "device.h"

constexpr f64 LN2_HIGH = 6.93147180369123816490e-01;
constexpr f64 LN2_LOW = 1.90821492927058770002e-10;

// exp(x) for -700 <= x <= 0.
CALLED f64 exp_below_zero(f64 x) {
    u32 high = (u32)(to_bits(x) >> 32) & 0x7fffffff;
    int k = 0;
    f64 hi = x, lo = 0.0;
    if (high > 0x3fd62e42) {
        k = high >= 0x3ff0a2b2 ? (int)(1.44269504088896338700e+00 * x + -0.5) : -1;
        hi = x - k * LN2_HIGH;
        lo = k * LN2_LOW;
        x = hi - lo;
    } else if (high <= 0x3e300000) {
        return 1.0 + x;
    }
    f64 xx = x * x;
    f64 tail = xx * (6.61375632143793436117e-05 +
                     xx * (-1.65339022054652515390e-06 + xx * 4.13813679705723846039e-08));
    f64 c = x - xx * (1.66666666666666019037e-01 + xx * (-2.77777777770155933842e-03 + tail));
    f64 y = 1.0 + (x * c / (2.0 - c) - lo + hi);
    return k == 0 ? y : y * from_bits((u64)(0x3ff + k) << 52);
}

// log(x) for normal x in (0, 1].
CALLED f64 log_of_unit(f64 x) {
    u64 bits = to_bits(x);
    u32 high = (u32)(bits >> 32);
    if (high == 0x3ff00000 && (bits << 32) == 0) {
        return 0.0;
    }
    high += 0x3ff00000 - 0x3fe6a09e;
    int k = (int)(high >> 20) - 0x3ff;
    high = (high & 0x000fffff) + 0x3fe6a09e;
    f64 f = from_bits(((u64)high << 32) | (bits & 0xffffffff)) - 1.0;
    f64 half_square = 0.5 * f * f;
    f64 s = f / (2.0 + f);
    f64 z = s * s;
    f64 w = z * z;
    f64 even = w * (3.999999999940941908e-01 +
                    w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    f64 odd = z * (6.666666666666735130e-01 +
                   w * (2.857142874366239149e-01 +
                        w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    f64 r = odd + even;
    f64 times = (f64)k;
    return s * (half_square + r) + times * LN2_LOW - half_square + f + times * LN2_HIGH;
}
