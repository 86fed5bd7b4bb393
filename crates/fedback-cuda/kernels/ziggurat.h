// Standard normal variates, as `normal.rs` of the core has them. One word decides nearly always; the
// rest is in a function of its own, which costs the others no registers.

#pragma once
#include "elementary.h"
#include "stream.h"

constexpr u32 LAYERS = 1024;
constexpr f64 TAIL = 4.038849846109505;

struct Ziggurat {
    const f64* edge;
    const f64* density;
};

DEVICE f64 candidate(const f64* edge, u64 word) {
    return (from_bits(0x4000000000000000ull | (word >> 12)) - 3.0) * edge[word % LAYERS];
}

// The variate of a word whose candidate was not accepted at once.
CALLED f64 settle(Ziggurat ziggurat, Stream stream, u64 n, u64 word_) {
    u64 next = RETRY + (n << 8);
    for (;;) {
        u32 layer = (u32)(word_ % LAYERS);
        f64 x = candidate(ziggurat.edge, word_);
        if (layer == 0) {
            for (;;) {
                f64 beyond = -log_of_unit(1.0 - unit(word(stream, next))) / TAIL;
                f64 height = -2.0 * log_of_unit(1.0 - unit(word(stream, next + 1)));
                next += 2;
                if (height >= beyond * beyond) {
                    return copysign(TAIL + beyond, x);
                }
            }
        }
        f64 above = ziggurat.density[layer + 1];
        f64 height = above + (ziggurat.density[layer] - above) * unit(word(stream, next++));
        if (height < exp_below_zero(-0.5 * x * x)) {
            return x;
        }
        word_ = word(stream, next++);
        x = candidate(ziggurat.edge, word_);
        if (fabs(x) < ziggurat.edge[word_ % LAYERS + 1]) {
            return x;
        }
    }
}

// The variate of the n-th word of a stream, which is at `position`.
DEVICE f64 normal_at(Ziggurat ziggurat, Stream stream, u64 position, u64 n) {
    u64 word_ = word_at(position, stream.tweak);
    f64 x = candidate(ziggurat.edge, word_);
    return fabs(x) < ziggurat.edge[word_ % LAYERS + 1] ? x : settle(ziggurat, stream, n, word_);
}
