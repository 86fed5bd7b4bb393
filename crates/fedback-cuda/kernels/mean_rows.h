// The rows of a table under the loss `mean`, as `oracle/rows.rs` of the engine has them: coordinates
// do not mix, and each has a thread of its own.

#pragma once
#include "room.h"
#include "rule.h"

DEVICE void mean_work(Rooms rooms, u64 nth, bool everybody) {
    u32 dim = (u32)problem.dim, steps = (u32)problem.local_steps;
    u32 most = most_workers(everybody);
    const f64* sizes = slice.sizes + nth * steps;
    for (u32 item = rank(); item < rooms.count * most * dim; item += crew()) {
        Room room = rooms.of(item / (most * dim));
        u32 worker = item / dim % most, j = item % dim;
        if (room.is_over() || (!everybody && worker >= room.count()[0])) {
            continue;
        }
        u32 client = everybody ? worker : room.member(worker);
        Stream stream = of_client(room.streams()[0], client);
        u64 first = problem.starts[client], count = problem.starts[client + 1] - first;
        const f64* column = problem.rows + first * problem.pitch + j;
        u64 batch = problem.batch ? problem.batch : count;
        f64 theta = room.server()[j], share = 1.0 / (f64)batch;
        f64 reaction = problem.reactions[client * dim + j], shift = reaction * theta;
        Coordinate at = {theta, theta, 0.0};
        if (problem.kept) {
            at.control = control_of(room.server()[dim + j], room.kept(client)[j]);
        }
        for (u32 step = 0; step < steps; step++) {
            if (!problem.deployed_once) {
                shift = reaction * at.w;
            }
            f64 sum = 0.0;
            for (u64 k = 0; k < batch; k++) {
                u64 row = problem.batch ? index_below(word(stream, step * batch + k), count) : k;
                sum += column[row * problem.pitch];
            }
            f64 gradient = at.w - shift - sum * share;
            f64 slope = gradient + 0.0 * at.w;
            StepSizes size = {sizes[step], sizes[step] * problem.scales[client]};
            at.w = step_by(problem.rule, problem.proximal, at, slope, size);
        }
        room.deltas()[worker * dim + j] = at.w - theta;
    }
}
