// Random streams, as `stream.rs` of the core has them: a pure function of their key.

#pragma once
#include "device.h"

constexpr u64 GOLDEN = 0x9e3779b97f4a7c15ull;
constexpr u64 RETRY = 1ull << 62;
constexpr u64 DATA = 1;
constexpr u64 COHORT = 2;

struct Stream {
    u64 position, tweak;
};

DEVICE u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

DEVICE u64 digest(u64 so_far, u64 part) { return mix((so_far * GOLDEN) ^ part); }

// The streams of all rounds for one seed, repetition and purpose.
DEVICE Stream of_purpose(u64 seed, u64 repetition, u64 purpose) {
    u64 position = digest(digest(digest(0x6a09e667f3bcc909ull, seed), purpose), repetition);
    u64 tweak = digest(digest(digest(0xbb67ae8584caa73bull, seed), purpose), repetition);
    return {position, tweak};
}

// The streams of all clients in one round.
DEVICE Stream of_round(Stream rounds, u64 round) {
    return {digest(rounds.position, round), digest(rounds.tweak, round)};
}

DEVICE Stream of_client(Stream streams, u32 client) {
    u64 position = mix(streams.position + (u64)client * GOLDEN);
    return {position, streams.tweak ^ ((position << 32) | (position >> 32))};
}

// The word of a position that has been moved to its index.
DEVICE u64 word_at(u64 position, u64 tweak) {
    u64 z = (position ^ (position >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = ((z ^ (z >> 27)) + tweak) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

DEVICE u64 word(Stream stream, u64 n) {
    return word_at(stream.position + n * GOLDEN, stream.tweak);
}

// A word as a number in [0, 1).
DEVICE f64 unit(u64 word) { return (f64)(word >> 11) * (1.0 / 9007199254740992.0); }

// A word as an index below `length`.
DEVICE u64 index_below(u64 word, u64 length) { return __umul64hi(word, length); }
