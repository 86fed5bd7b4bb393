// Normal data whose coordinates do not mix, as `oracle/lanes.rs` of the engine has them: one scalar
// recursion for every coordinate of every client of every repetition, each in a thread of its own.

#pragma once
#include "room.h"
#include "rule.h"
#include "ziggurat.h"

template <u64 RULE>
DEVICE void normal_work(Rooms rooms, Ziggurat ziggurat, u64 nth, bool everybody) {
    u32 dim = (u32)problem.dim, steps = (u32)problem.local_steps;
    u32 most = most_workers(everybody);
    const f64* sizes = slice.sizes + nth * steps;
    // Deployed once a round, the reaction to the broadcast θ is a constant.
    f64 constant = problem.deployed_once ? 1.0 : 0.0;
    bool drawn = problem.batch != 0;
    u64 hop = problem.dim * GOLDEN;
    for (u32 item = rank(); item < rooms.count * most * dim; item += crew()) {
        Room room = rooms.of(item / (most * dim));
        u32 worker = item / dim % most, j = item % dim;
        if (room.is_over() || (!everybody && worker >= room.count()[0])) {
            continue;
        }
        u32 client = everybody ? worker : room.member(worker);
        Stream stream = of_client(room.streams()[0], client);
        f64 theta = room.server()[j], scale = problem.scales[client];
        f64 sensitivity = problem.reactions[client * dim + j];
        f64 reaction = constant * sensitivity;
        f64 pull = scale * (1.0 - (sensitivity - reaction));
        f64 drive = scale * (problem.means[client * dim + j] + reaction * theta);
        f64 noise = scale * problem.noise;
        Coordinate at = {theta, theta, 0.0};
        if (RULE == SCAFFOLD) {
            at.control = control_of(room.server()[dim + j], room.kept(client)[j]);
        }
        u64 n = j, position = stream.position + n * GOLDEN;
#pragma unroll 1
        for (u32 step = 0; step < steps; step++) {
            f64 xi = drawn ? normal_at(ziggurat, stream, position, n) : 0.0;
            position += hop;
            n += dim;
            f64 gradient = pull * at.w - drive - noise * xi;
            at.w = step_by(RULE, problem.proximal, at, gradient, {sizes[step], sizes[step]});
        }
        room.deltas()[worker * dim + j] = at.w - theta;
    }
}
