// The arithmetic that closes a round, as `fold.rs` and `rule.rs` of the engine have it, by all threads
// of a block: every coordinate's sum has one thread, which follows the cohort.

#pragma once
#include "room.h"
#include "rule.h"

// What has been done in a round: whose work is where.
struct Done {
    Room room;
    // Whether all clients have worked, whoever is in the cohort.
    bool everybody;

    __device__ f64* delta(u32 place) const {
        u32 slot = everybody ? room.member(place) : place;
        return room.deltas() + slot * problem.dim;
    }
};

// `sum` + Σ coefficient · number, in order, four at a time.
template <class Coefficient, class Number>
DEVICE f64 add_up(f64 sum, u32 count, Coefficient c, Number x) {
    u32 place = 0;
#pragma unroll 2
    for (; place + 4 <= count; place += 4) {
        f64 front = c(place) * x(place) + c(place + 1) * x(place + 1);
        f64 back = c(place + 2) * x(place + 2) + c(place + 3) * x(place + 3);
        sum += front + back;
    }
#pragma unroll 1
    for (; place < count; place++) {
        sum += c(place) * x(place);
    }
    return sum;
}

// A coordinate of θ, and of what the server keeps to itself: v of momentum, m and v of Adam.
struct Own {
    f64 theta, first, second;
};

// The same after a round: `sum` adds coefficient · delta of the cohort, whose coefficients come to
// `share`, to what it is given.
template <class Sum>
DEVICE Own combined(Own now, f64 share, Sum sum) {
    bool averages = problem.server == AVERAGE;
    f64 start = averages ? now.theta : 0.0;
    if (problem.iterates) {
        start = averages ? now.theta * share : (share - 1.0) * now.theta;
    }
    f64 moved = sum(start);
    if (averages) {
        now.theta = moved;
    } else if (problem.server == MOMENTUM) {
        now.first = problem.beta1 * now.first + moved;
        now.theta += problem.rate * now.first;
    } else {
        now.first = problem.beta1 * now.first + (1.0 - problem.beta1) * moved;
        now.second = problem.beta2 * now.second + (1.0 - problem.beta2) * moved * moved;
        now.theta += problem.rate * now.first / (sqrt(now.second) + problem.tau);
    }
    return now;
}

// |v|, also where the squares of its coordinates leave the range of numbers.
DEVICE f64 length(const f64* vector, u32 dim) {
    f64 largest = 0.0;
    for (u32 j = 0; j < dim; j++) {
        f64 size = fabs(vector[j]);
        largest = size > largest ? size : largest;
    }
    if (largest == 0.0 || !is_finite(largest)) {
        return largest;
    }
    f64 sum = 0.0;
    for (u32 j = 0; j < dim; j++) {
        sum += (vector[j] / largest) * (vector[j] / largest);
    }
    return largest * sqrt(sum);
}

// Shortens the updates that are longer than `longest`.
CALLED void clip_updates(Rooms rooms, u32 workers, bool everybody, f64 longest) {
    u32 dim = (u32)problem.dim;
    for (u32 item = rank(); item < rooms.count * workers; item += crew()) {
        Room room = rooms.of(item / workers);
        u32 worker = item % workers;
        if (room.is_over() || (!everybody && worker >= room.count()[0])) {
            continue;
        }
        f64* delta = room.deltas() + worker * dim;
        f64 size = length(delta, dim);
        if (size > longest && is_finite(size)) {
            for (u32 j = 0; j < dim; j++) {
                delta[j] *= longest / size;
            }
        }
    }
}

// The j-th number of θ, of what is sent and of what the server keeps, as they are about to be.
DEVICE void fold_coordinate(Room room, const Done& done, u32 j, f64 total) {
    u32 dim = (u32)problem.dim, count = (u32)room.count()[0];
    const f64* server = room.server();
    f64* next = room.next();
    bool is_finite_now = true;
    auto put = [&](u32 place, f64 number) {
        next[place] = number;
        is_finite_now = is_finite_now && is_finite(number);
    };
    auto coefficient = [&](u32 place) { return room.coefficient(place); };
    auto delta = [&](u32 place) { return done.delta(place)[j]; };
    f64 share = 0.0;
    if (problem.iterates) {
        for (u32 place = 0; place < count; place++) {
            share += room.coefficient(place);
        }
    }
    u32 own = dim + (u32)problem.kept;
    Own now = {server[j], 0.0, 0.0};
    if (problem.server != AVERAGE) {
        now.first = server[own + j];
    }
    if (problem.server == ADAM) {
        now.second = server[own + dim + j];
    }
    now = combined(now, share, [&](f64 sum) { return add_up(sum, count, coefficient, delta); });
    put(j, now.theta);
    if (problem.server != AVERAGE) {
        put(own + j, now.first);
    }
    if (problem.server == ADAM) {
        put(own + dim + j, now.second);
    }
    if (problem.kept) {
        f64 sent = server[dim + j];
        auto weight = [&](u32 place) {
            return problem.scaled ? 1.0 / (f64)problem.clients
                                  : problem.weights[room.member(place)];
        };
        auto change = [&](u32 place) {
            f64 before = room.kept(room.member(place))[j];
            return keep_of(control_of(sent, before), delta(place), total) - before;
        };
        put(dim + j, add_up(sent, count, weight, change));
    }
    if (!is_finite_now) {
        room.count()[1] = 1;
    }
}

// A round ends: every repetition takes in what its cohort has done, or stays what it was and has
// failed, where that is not finite.
CALLED void close_round(Rooms rooms, u64 round, bool everybody, f64 total) {
    u32 dim = (u32)problem.dim;
    for (u32 item = rank(); item < rooms.count * dim; item += crew()) {
        Room room = rooms.of(item / dim);
        if (!room.is_over()) {
            fold_coordinate(room, Done{room, everybody}, item % dim, total);
        }
    }
    __syncthreads();
    if (problem.kept) {
        u32 most = most_workers(false);
        u32 each = most * dim;
        for (u32 item = rank(); item < rooms.count * each; item += crew()) {
            Room room = rooms.of(item / each);
            u32 place = item % each / dim, j = item % dim;
            if (room.is_over() || room.count()[1] || place >= room.count()[0]) {
                continue;
            }
            f64* kept = room.kept(room.member(place)) + j;
            f64 control = control_of(room.server()[dim + j], *kept);
            *kept = keep_of(control, Done{room, everybody}.delta(place)[j], total);
        }
        __syncthreads();
    }
    u32 size = (u32)(problem.dim + problem.kept + problem.own);
    for (u32 item = rank(); item < rooms.count * size; item += crew()) {
        Room room = rooms.of(item / size);
        if (!room.is_over() && !room.count()[1]) {
            room.server()[item % size] = room.next()[item % size];
        }
    }
    __syncthreads();
    for (u32 one = rank(); one < rooms.count; one += crew()) {
        Room room = rooms.of(one);
        if (!room.is_over() && room.count()[1]) {
            problem.failed[room.place] = round + 1;
        }
    }
    __syncthreads();
}

// How far all clients are apart: Σ p_i |δ_i − δ̄|² with δ̄ = Σ p_i δ_i, in client order.
CALLED void watch_round(Rooms rooms) {
    u32 dim = (u32)problem.dim, clients = (u32)problem.clients;
    for (u32 item = rank(); item < rooms.count * dim; item += crew()) {
        Room room = rooms.of(item / dim);
        f64 mean = 0.0;
        for (u32 client = 0; client < clients; client++) {
            mean += problem.weights[client] * room.deltas()[client * dim + item % dim];
        }
        room.mean()[item % dim] = mean;
    }
    __syncthreads();
    for (u32 item = rank(); item < rooms.count * clients; item += crew()) {
        Room room = rooms.of(item / clients);
        const f64* delta = room.deltas() + item % clients * dim;
        f64 sum = 0.0;
        for (u32 j = 0; j < dim; j++) {
            sum += (delta[j] - room.mean()[j]) * (delta[j] - room.mean()[j]);
        }
        room.mean()[dim + item % clients] = sum;
    }
    __syncthreads();
    for (u32 one = rank(); one < rooms.count; one += crew()) {
        Room room = rooms.of(one);
        if (room.is_over()) {
            continue;
        }
        f64 sum = 0.0;
        for (u32 client = 0; client < clients; client++) {
            sum += problem.weights[client] * room.mean()[dim + client];
        }
        problem.consensus[room.place] = sum;
    }
}
