// The rows of a table under a loss of the margin, as `oracle/rows.rs` of the engine has them, for
// models of at most 64 coordinates: four threads a client.
//
// The engine's inner product is four interleaved sums, and each of the four threads has one of them:
// thread l owns the coordinates l, 4 + l, 8 + l, … of model, gradient and rows. So a row is read in
// whole sectors, the order of every sum is the engine's, and four rows' slopes, with their
// exponentials, are worked out by a thread each.

#pragma once
#include "exponential.h"
#include "room.h"
#include "rule.h"

// Four threads of a warp.
struct Quad {
    u32 mask, lane;

    __device__ Quad() : mask(0xfu << (rank() % 32 & ~3u)), lane(rank() % 4) {}

    __device__ f64 from(f64 number, u32 lane) const { return __shfl_sync(mask, number, lane, 4); }

    __device__ u32 from(u32 number, u32 lane) const { return __shfl_sync(mask, number, lane, 4); }

    // (a + c) + (b + d) of the four threads' numbers: sums of two commute.
    __device__ f64 interleaved(f64 sum) const {
        sum += __shfl_xor_sync(mask, sum, 2, 4);
        return sum + __shfl_xor_sync(mask, sum, 1, 4);
    }

    // ((a + b) + c) + d of the four threads' numbers.
    __device__ f64 in_order(f64 number) const {
        f64 a = from(number, 0), b = from(number, 1), c = from(number, 2), d = from(number, 3);
        return ((a + b) + c) + d;
    }
};

DEVICE f64 slope_of(u64 loss, f64 margin, f64 label) {
    return (loss == LOGISTIC ? sigmoid(margin) : margin) - label;
}

// One worker's round. A model has at most `BLOCKS` blocks of four coordinates.
template <u32 BLOCKS>
DEVICE void margin_client(Room room, Quad quad, u32 worker, u32 client, const f64* sizes) {
    u32 dim = (u32)problem.dim, whole = dim / 4, steps = (u32)problem.local_steps;
    Stream stream = of_client(room.streams()[0], client);
    u64 first = problem.starts[client], count = problem.starts[client + 1] - first;
    const f64* rows = problem.rows + first * problem.pitch + quad.lane;
    const f64* labels = problem.labels + first;
    u64 batch = problem.batch ? problem.batch : count;
    f64 share = 1.0 / (f64)batch, scale = problem.scales[client];
    const f64* server = room.server();
    f64 w[BLOCKS], reaction[BLOCKS], shift[BLOCKS], gradient[BLOCKS];
#pragma unroll
    for (u32 b = 0; b < BLOCKS; b++) {
        u32 j = 4 * b + quad.lane;
        w[b] = j < dim ? server[j] : 0.0;
        reaction[b] = j < dim ? problem.reactions[client * dim + j] : 0.0;
        shift[b] = reaction[b] * w[b];
    }
    for (u32 step = 0; step < steps; step++) {
        f64 sums = 0.0, rest = 0.0, total = 0.0;
#pragma unroll
        for (u32 b = 0; b < BLOCKS; b++) {
            if (!problem.deployed_once) {
                shift[b] = reaction[b] * w[b];
            }
            gradient[b] = 0.0;
            if (b < whole) {
                sums = sums + shift[b] * w[b];
            } else if (b == whole && 4 * b < dim) {
                rest = shift[b] * w[b];
            }
        }
        f64 moved = quad.interleaved(sums) + quad.in_order(rest);
        for (u64 at = 0; at < batch; at += 4) {
            u32 together = (u32)(batch - at < 4 ? batch - at : 4);
            u64 n = at + quad.lane;
            u32 own = 0;
            if (quad.lane < together) {
                own = (u32)(problem.batch ? index_below(word(stream, step * batch + n), count) : n);
            }
            f64 margin = 0.0;
#pragma unroll 1
            for (u32 k = 0; k < together; k++) {
                const f64* row = rows + (u64)quad.from(own, k) * problem.pitch;
                f64 product = 0.0, left = 0.0;
#pragma unroll
                for (u32 b = 0; b < BLOCKS; b++) {
                    if (b < whole) {
                        product = product + row[4 * b] * w[b];
                    } else if (b == whole && 4 * b < dim) {
                        left = row[4 * b] * w[b];
                    }
                }
                product = quad.interleaved(product);
                if (4 * whole < dim) {
                    product = product + quad.in_order(left);
                }
                margin = k == quad.lane ? product + moved : margin;
            }
            f64 slope = quad.lane < together ? slope_of(problem.loss, margin, labels[own]) : 0.0;
#pragma unroll 1
            for (u32 k = 0; k < together; k++) {
                const f64* row = rows + (u64)quad.from(own, k) * problem.pitch;
                f64 times = quad.from(slope, k);
                total += times;
#pragma unroll
                for (u32 b = 0; b < BLOCKS; b++) {
                    if (4 * b < dim) {
                        gradient[b] = gradient[b] + times * row[4 * b];
                    }
                }
            }
        }
        StepSizes size = {sizes[step], sizes[step] * scale};
#pragma unroll
        for (u32 b = 0; b < BLOCKS; b++) {
            u32 j = 4 * b + quad.lane;
            if (j < dim) {
                f64 mean = (gradient[b] + total * shift[b]) * share;
                f64 slope = mean + (j < problem.penalised ? problem.l2 : 0.0) * w[b];
                Coordinate at = {w[b], w[b], w[b]};
                if (problem.rule == PROXIMAL) {
                    at.theta = server[j];
                } else if (problem.rule == SCAFFOLD) {
                    at.control = control_of(server[dim + j], room.kept(client)[j]);
                }
                w[b] = step_by(problem.rule, problem.proximal, at, slope, size);
            }
        }
    }
#pragma unroll
    for (u32 b = 0; b < BLOCKS; b++) {
        u32 j = 4 * b + quad.lane;
        if (j < dim) {
            room.deltas()[worker * dim + j] = w[b] - server[j];
        }
    }
}

template <u32 BLOCKS>
DEVICE void margin_work(Rooms rooms, u64 nth, bool everybody) {
    u32 most = most_workers(everybody);
    const f64* sizes = slice.sizes + nth * problem.local_steps;
    Quad quad;
    for (u32 item = rank() / 4; item < rooms.count * most; item += crew() / 4) {
        Room room = rooms.of(item / most);
        u32 worker = item % most;
        if (room.is_over() || (!everybody && worker >= room.count()[0])) {
            continue;
        }
        u32 client = everybody ? worker : room.member(worker);
        margin_client<BLOCKS>(room, quad, worker, client, sizes);
    }
}
