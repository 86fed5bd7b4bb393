// Where a block keeps what a round of its repetitions needs.

#pragma once
#include "problem.h"

// The room of one repetition.
struct Room {
    unsigned char* at;
    // Its place among all repetitions.
    u64 place;

    // The streams of data and of the cohort in this round.
    __device__ Stream* streams() const { return (Stream*)(at + slice.streams); }
    // How many members the cohort has, and whether the round has failed.
    __device__ u64* count() const { return (u64*)(at + slice.count); }
    // A bit for every client that is drawn, and how many bits are set before a word of them.
    __device__ u64* bits() const { return (u64*)(at + slice.bits); }
    __device__ u32* upto() const { return (u32*)(at + slice.upto); }
    __device__ u32* drawn() const { return (u32*)(at + slice.drawn); }
    __device__ u32* chosen() const { return (u32*)(at + slice.chosen); }
    __device__ u32* members() const { return (u32*)(at + slice.members); }
    // How many times a member was drawn.
    __device__ u32* times() const { return (u32*)(at + slice.times); }
    __device__ f64* deltas() const { return (f64*)(at + slice.deltas); }
    // The server's block as it is about to be.
    __device__ f64* next() const { return (f64*)(at + slice.next); }
    __device__ f64* mean() const { return (f64*)(at + slice.mean); }

    __device__ u64 server_size() const { return problem.dim + problem.kept + problem.own; }
    __device__ f64* server() const { return problem.servers + place * server_size(); }
    __device__ f64* kept(u32 client) const {
        return problem.all_kept + (place * problem.clients + client) * problem.kept;
    }
    __device__ bool is_over() const { return problem.failed[place] != 0; }

    __device__ u32 member(u32 at) const {
        return problem.scheme == FULL ? at : members()[at];
    }

    // What a member's work is multiplied with.
    __device__ f64 coefficient(u32 at) const {
        if (problem.scheme == FULL) {
            return problem.weights[at];
        }
        f64 size = (f64)problem.cohort;
        if (problem.scheme == WITH_REPLACEMENT) {
            return (f64)times()[at] * (1.0 / size);
        }
        if (problem.scaled) {
            return 1.0 / size;
        }
        return problem.weights[members()[at]] * ((f64)problem.clients / size);
    }
};

// The rooms of a block's repetitions.
struct Rooms {
    unsigned char* memory;
    u64 first;
    u32 count;

    __device__ Room of(u32 repetition) const {
        return {memory + repetition * slice.stride, first + repetition};
    }
};

// Those of this block, which lie in what it shares where there is no other memory.
DEVICE Rooms own_rooms(unsigned char* shared) {
    u64 first = (u64)blockIdx.x * slice.together;
    u64 left = problem.repetitions - first;
    u32 count = (u32)(left < slice.together ? left : slice.together);
    return {slice.memory ? slice.memory + first * slice.stride : shared, first, count};
}

// Most who work in a round; there may be more draws than clients.
DEVICE u32 most_workers(bool everybody) {
    bool all = everybody || problem.scheme == FULL || problem.cohort > problem.clients;
    return (u32)(all ? problem.clients : problem.cohort);
}
