// The rows of a table under a loss of the margin, for models of more coordinates than a few threads can
// hold: a block for every worker, whose model lies in what the block shares.
//
// Margins are worked out by four threads a row, as in `margin_rows.h`; gradients by a thread a
// coordinate, which adds the rows in their order. A round is three launches, since the workers of a
// repetition are in blocks of their own.

#pragma once
#include "margin_rows.h"

// Rows whose slopes are worked out together.
constexpr u32 ROWS_TOGETHER = 64;

// What a block shares: the model in whole blocks of four, then slopes and rows.
struct Shared {
    f64* w;
    f64* moved;
    f64* slopes;
    u32* rows;

    __device__ Shared(unsigned char* memory) {
        w = (f64*)memory;
        moved = w + problem.pitch;
        slopes = moved + 1;
        rows = (u32*)(slopes + ROWS_TOGETHER);
    }
};

// The inner product of the model with the numbers that `number` gives for coordinates.
template <class Number>
DEVICE f64 wide_product(Quad quad, const f64* w, u32 dim, bool always, Number number) {
    u32 whole = dim / 4;
    f64 sum = 0.0;
#pragma unroll 4
    for (u32 b = 0; b < whole; b++) {
        u32 j = 4 * b + quad.lane;
        sum = sum + number(j) * w[j];
    }
    sum = quad.interleaved(sum);
    f64 rest = 0.0;
    if (4 * whole < dim) {
        u32 j = 4 * whole + quad.lane;
        rest = number(j) * w[j];
    }
    return always || 4 * whole < dim ? sum + quad.in_order(rest) : sum;
}

DEVICE void wide_client(Room room, u32 worker, u32 client, unsigned char* memory) {
    Shared shared(memory);
    Quad quad;
    u32 dim = (u32)problem.dim, steps = (u32)problem.local_steps;
    Stream stream = of_client(room.streams()[0], client);
    u64 first = problem.starts[client], count = problem.starts[client + 1] - first;
    const f64* rows = problem.rows + first * problem.pitch;
    const f64* labels = problem.labels + first;
    u64 batch = problem.batch ? problem.batch : count;
    f64 share = 1.0 / (f64)batch, scale = problem.scales[client];
    const f64* server = room.server();
    const f64* reaction = problem.reactions + (u64)client * dim;
    f64* gradient = room.deltas() + (u64)worker * dim;
    auto shift = [&](u32 j) {
        return j < dim ? reaction[j] * (problem.deployed_once ? server[j] : shared.w[j]) : 0.0;
    };
    for (u32 j = rank(); j < problem.pitch; j += crew()) {
        shared.w[j] = j < dim ? server[j] : 0.0;
    }
    __syncthreads();
    for (u32 step = 0; step < steps; step++) {
        f64 total = 0.0;
        for (u64 from = 0; from < batch; from += ROWS_TOGETHER) {
            u64 left = batch - from;
            u32 together = (u32)(left < ROWS_TOGETHER ? left : ROWS_TOGETHER);
            // After the rows, how far the shift moves all margins of the step.
            for (u32 k = rank() / 4; k <= together; k += crew() / 4) {
                if (k == together) {
                    f64 moved = wide_product(quad, shared.w, dim, true, shift);
                    if (quad.lane == 0) {
                        *shared.moved = moved;
                    }
                    continue;
                }
                u64 n = from + k;
                u64 drawn = problem.batch ? index_below(word(stream, step * batch + n), count) : n;
                const f64* row = rows + drawn * problem.pitch;
                auto number = [&](u32 j) { return row[j]; };
                f64 product = wide_product(quad, shared.w, dim, false, number);
                if (quad.lane == 0) {
                    shared.slopes[k] = product;
                    shared.rows[k] = (u32)drawn;
                }
            }
            __syncthreads();
            for (u32 k = rank(); k < together; k += crew()) {
                f64 margin = shared.slopes[k] + *shared.moved;
                shared.slopes[k] = slope_of(problem.loss, margin, labels[shared.rows[k]]);
            }
            __syncthreads();
            for (u32 k = 0; k < together; k++) {
                total += shared.slopes[k];
            }
            for (u32 j = rank(); j < dim; j += crew()) {
                f64 sum = from == 0 ? 0.0 : gradient[j];
#pragma unroll 4
                for (u32 k = 0; k < together; k++) {
                    sum = sum + shared.slopes[k] * rows[shared.rows[k] * problem.pitch + j];
                }
                gradient[j] = sum;
            }
            __syncthreads();
        }
        StepSizes size = {slice.sizes[step], slice.sizes[step] * scale};
        for (u32 j = rank(); j < dim; j += crew()) {
            f64 w = shared.w[j];
            f64 mean = (gradient[j] + total * shift(j)) * share;
            f64 slope = mean + (j < problem.penalised ? problem.l2 : 0.0) * w;
            Coordinate at = {w, server[j], 0.0};
            if (problem.rule == SCAFFOLD) {
                at.control = control_of(server[dim + j], room.kept(client)[j]);
            }
            shared.w[j] = step_by(problem.rule, problem.proximal, at, slope, size);
        }
        __syncthreads();
    }
    for (u32 j = rank(); j < dim; j += crew()) {
        gradient[j] = shared.w[j] - server[j];
    }
}
