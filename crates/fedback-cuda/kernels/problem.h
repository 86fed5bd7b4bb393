// What a run is, as the backend hands it over. Every field has eight bytes, so that `layout.rs` can
// mirror it without a thought about padding.

#pragma once
#include "stream.h"

constexpr u64 FULL = 0;
constexpr u64 WITH_REPLACEMENT = 1;
constexpr u64 WITHOUT_REPLACEMENT = 2;

constexpr u64 AVERAGE = 0;
constexpr u64 MOMENTUM = 1;
constexpr u64 ADAM = 2;

constexpr u64 LOGISTIC = 1;

// The same for all rounds.
struct Problem {
    u64 seed;
    u64 repetitions, clients, dim, kept, own;
    u64 local_steps;
    // Observations a step; 0 for all.
    u64 batch;
    u64 scheme, cohort, scaled;
    u64 deployed_once, rule, iterates, server, clipped;
    // Of a loss of margins, whether it is the logistic one; how many coordinates its penalty is on.
    u64 loss, penalised;
    // Numbers from one row to the next.
    u64 pitch;
    f64 noise, l2, proximal, rate, beta1, beta2, tau;
    const f64 *edge, *density;
    const f64 *weights, *scales, *means, *reactions, *rows, *labels;
    // Where each client's rows begin, and where the last one's end.
    const u64* starts;
    const f64* alias_keep;
    const u64* alias_other;
    const u64* numbers;
    f64 *servers, *all_kept;
    // The round in which a repetition failed, and 0 for none.
    u64* failed;
    f64* consensus;
};

// What is wanted of one launch.
struct Slice {
    u64 first_round, rounds;
    // Whether all clients work, to see how far they are apart.
    u64 watched;
    // Repetitions a block.
    u64 together;
    const f64 *sizes, *totals, *longest;
    // Room for what a round needs, in memory; none where it fits into what a block shares.
    unsigned char* memory;
    // Bytes a repetition, and what is where in them.
    u64 stride;
    u64 streams, count, bits, upto, drawn, chosen, members, times, deltas, next, mean;
};

// Both lie where all threads read them at once, written before a launch.
CONSTANT Problem problem;
CONSTANT Slice slice;
