// The choice of a cohort, as `cohort.rs` of the engine has it, by all threads of a block.
//
// The engine draws without replacement one after the other (Floyd). Here every draw finds out alone
// whether its client is taken: either an earlier draw was of the same client, or the client is the
// one that an earlier draw came to instead, which asks the same question of that draw.

#pragma once
#include "room.h"

// The client that a uniform word stands for (Vose's alias table).
DEVICE u32 pick(u64 word) {
    u64 column = __umul64hi(word, problem.clients);
    f64 within = unit(word * problem.clients);
    return (u32)(within < problem.alias_keep[column] ? column : problem.alias_other[column]);
}

DEVICE bool is_repeated(const u32* drawn, u32 n) {
    for (u32 m = 0; m < n; m++) {
        if (drawn[m] == drawn[n]) {
            return true;
        }
    }
    return false;
}

// Whether the client of the n-th draw without replacement is taken by those before.
DEVICE bool is_taken(const u32* drawn, u32 n, u32 others) {
    while (!is_repeated(drawn, n)) {
        u32 m = drawn[n] - others;
        if (drawn[n] < others || m >= n) {
            return false;
        }
        n = m;
    }
    return true;
}

// A round begins: its streams, and its cohort.
CALLED void open_round(Rooms rooms, u64 round) {
    u32 size = (u32)problem.cohort, words = (u32)((problem.clients + 63) / 64);
    for (u32 one = rank(); one < rooms.count; one += crew()) {
        Room room = rooms.of(one);
        u64 number = problem.numbers[room.place];
        room.streams()[0] = of_round(of_purpose(problem.seed, number, DATA), round);
        room.count()[0] = problem.clients;
        room.count()[1] = 0;
        if (problem.scheme != FULL) {
            Stream cohorts = of_round(of_purpose(problem.seed, number, COHORT), round);
            room.streams()[1] = of_client(cohorts, 0);
        }
    }
    if (problem.scheme == FULL) {
        return;
    }
    for (u32 item = rank(); item < rooms.count * words; item += crew()) {
        rooms.of(item / words).bits()[item % words] = 0;
    }
    __syncthreads();
    bool with = problem.scheme == WITH_REPLACEMENT;
    u32 others = (u32)problem.clients - size;
    for (u32 item = rank(); item < rooms.count * size; item += crew()) {
        Room room = rooms.of(item / size);
        u32 n = item % size;
        u64 drawn = word(room.streams()[1], n);
        room.times()[n] = 0;
        room.drawn()[n] = with ? pick(drawn) : (u32)index_below(drawn, others + n + 1);
    }
    __syncthreads();
    for (u32 item = rank(); item < rooms.count * size; item += crew()) {
        Room room = rooms.of(item / size);
        u32 n = item % size, client = room.drawn()[n];
        if (!with && is_taken(room.drawn(), n, others)) {
            client = others + n;
        }
        room.chosen()[n] = client;
        atomicOr(&room.bits()[client / 64], 1ull << (client % 64));
    }
    __syncthreads();
    for (u32 one = rank(); one < rooms.count; one += crew()) {
        Room room = rooms.of(one);
        u32 total = 0;
        for (u32 k = 0; k < words; k++) {
            room.upto()[k] = total;
            total += __popcll(room.bits()[k]);
        }
        room.count()[0] = total;
    }
    __syncthreads();
    for (u32 item = rank(); item < rooms.count * size; item += crew()) {
        Room room = rooms.of(item / size);
        u32 client = room.chosen()[item % size];
        u64 below = room.bits()[client / 64] & ((1ull << (client % 64)) - 1);
        u32 place = room.upto()[client / 64] + __popcll(below);
        room.members()[place] = client;
        atomicAdd(&room.times()[place], 1u);
    }
}
