// Normal data of one coordinate, where repetitions are so many that each has one thread: it draws the
// cohort, lets four clients work at a time, so that one goes on while another waits, and adds what they
// come to. Nothing is shared and nothing waits for others; the model stays in a register for all rounds.

#pragma once
#include "cohort.h"
#include "fold.h"
#include "ziggurat.h"

// Most clients: whoever is drawn is a bit.
constexpr u32 ALONE = 64;

// A cohort as its thread goes through it, in the order of ids.
struct Drawn {
    u64 bits;
    unsigned char times[ALONE];

    __device__ u32 next() {
        u32 client = (u32)__ffsll((long long)bits) - 1;
        bits &= bits - 1;
        return client;
    }
};

DEVICE void draw_alone(Drawn& drawn, Stream cohorts) {
    u32 clients = (u32)problem.clients, size = (u32)problem.cohort, others = clients - size;
    drawn.bits = problem.scheme == FULL ? ~0ull >> (ALONE - clients) : 0;
    if (problem.scheme == FULL) {
        return;
    }
    Stream stream = of_client(cohorts, 0);
#pragma unroll 1
    for (u32 n = 0; n < size; n++) {
        u64 word_ = word(stream, n);
        u32 client;
        if (problem.scheme == WITH_REPLACEMENT) {
            client = pick(word_);
            drawn.times[client] = drawn.bits >> client & 1 ? drawn.times[client] + 1 : 1;
        } else {
            client = (u32)index_below(word_, others + n + 1);
            client = drawn.bits >> client & 1 ? others + n : client;
        }
        drawn.bits |= 1ull << client;
    }
}

DEVICE f64 coefficient_alone(const Drawn& drawn, u32 client) {
    f64 size = (f64)problem.cohort;
    if (problem.scheme == FULL) {
        return problem.weights[client];
    }
    if (problem.scheme == WITH_REPLACEMENT) {
        return (f64)drawn.times[client] * (1.0 / size);
    }
    return problem.scaled ? 1.0 / size : problem.weights[client] * ((f64)problem.clients / size);
}

// What the rounds of some clients come to, side by side: coefficient · delta of each.
template <u32 COUNT>
DEVICE void work_alone(Ziggurat ziggurat, Stream streams, Drawn& drawn, f64 theta,
                       const f64* sizes, f64* products) {
    f64 constant = problem.deployed_once ? 1.0 : 0.0;
    f64 w[COUNT], pull[COUNT], drive[COUNT], noise[COUNT], coefficient[COUNT];
    Stream stream[COUNT];
#pragma unroll
    for (u32 k = 0; k < COUNT; k++) {
        u32 client = drawn.next();
        coefficient[k] = coefficient_alone(drawn, client);
        stream[k] = of_client(streams, client);
        f64 scale = problem.scales[client], sensitivity = problem.reactions[client];
        f64 reaction = constant * sensitivity;
        pull[k] = scale * (1.0 - (sensitivity - reaction));
        drive[k] = scale * (problem.means[client] + reaction * theta);
        noise[k] = scale * problem.noise;
        w[k] = theta;
    }
    u32 steps = (u32)problem.local_steps;
#pragma unroll 1
    for (u32 step = 0; step < steps; step++) {
        StepSizes size = {sizes[step], sizes[step]};
        f64 xi[COUNT];
#pragma unroll
        for (u32 k = 0; k < COUNT; k++) {
            u64 position = stream[k].position + step * GOLDEN;
            xi[k] = problem.batch ? normal_at(ziggurat, stream[k], position, step) : 0.0;
        }
#pragma unroll
        for (u32 k = 0; k < COUNT; k++) {
            f64 gradient = pull[k] * w[k] - drive[k] - noise[k] * xi[k];
            w[k] = step_by(problem.rule, problem.proximal, {w[k], theta, 0.0}, gradient, size);
        }
    }
#pragma unroll
    for (u32 k = 0; k < COUNT; k++) {
        products[k] = coefficient[k] * (w[k] - theta);
    }
}

DEVICE void rounds_alone(Ziggurat ziggurat, u64 place) {
    f64* server = problem.servers + place * (1 + problem.own);
    Own now = {server[0], problem.own > 0 ? server[1] : 0.0, problem.own > 1 ? server[2] : 0.0};
    u64 number = problem.numbers[place];
    Stream data = of_purpose(problem.seed, number, DATA);
    Stream cohorts = of_purpose(problem.seed, number, COHORT);
    Drawn drawn;
    for (u64 nth = 0; nth < slice.rounds; nth++) {
        u64 round = slice.first_round + nth;
        const f64* sizes = slice.sizes + nth * problem.local_steps;
        Stream streams = of_round(data, round);
        draw_alone(drawn, of_round(cohorts, round));
        u32 count = (u32)__popcll(drawn.bits);
        f64 theta = now.theta, share = 0.0;
        if (problem.iterates) {
            for (u64 left = drawn.bits; left; left &= left - 1) {
                share += coefficient_alone(drawn, (u32)__ffsll((long long)left) - 1);
            }
        }
        Own next = combined(now, share, [&](f64 sum) {
            f64 products[4];
#pragma unroll 1
            for (u32 at = 0; at + 4 <= count; at += 4) {
                work_alone<4>(ziggurat, streams, drawn, theta, sizes, products);
                sum += (products[0] + products[1]) + (products[2] + products[3]);
            }
#pragma unroll 1
            for (u32 at = 0; at < count % 4; at++) {
                work_alone<1>(ziggurat, streams, drawn, theta, sizes, products);
                sum += products[0];
            }
            return sum;
        });
        if (!(is_finite(next.theta) && is_finite(next.first) && is_finite(next.second))) {
            problem.failed[place] = round + 1;
            break;
        }
        now = next;
    }
    server[0] = now.theta;
    if (problem.own > 0) {
        server[1] = now.first;
    }
    if (problem.own > 1) {
        server[2] = now.second;
    }
}
