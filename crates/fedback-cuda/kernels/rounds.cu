// The rounds of a run: every block takes some repetitions through all rounds of a slice.
//
// One launch closes many rounds, since a launch takes longer than a round of a small problem. What is
// independent of each other in a round (repetitions, clients, coordinates) is shared among the threads
// of a block, and what must follow an order has one thread. Every thread is a loop over items, so that
// the bits do not depend on how many threads there are.

#include "alone.h"
#include "cohort.h"
#include "fold.h"
#include "margin_rows.h"
#include "mean_rows.h"
#include "normals.h"
#include "wide_rows.h"

// What follows the work of a round.
DEVICE void end_round(Rooms rooms, u64 nth) {
    bool everybody = slice.watched != 0;
    if (problem.clipped) {
        clip_updates(rooms, most_workers(everybody), everybody, slice.longest[nth]);
        __syncthreads();
    }
    if (everybody) {
        watch_round(rooms);
        __syncthreads();
    }
    close_round(rooms, slice.first_round + nth, everybody, slice.totals[nth]);
}

// All rounds of a slice, with a kind of work.
template <class Work>
DEVICE void all_rounds(unsigned char* shared, Work work) {
    Rooms rooms = own_rooms(shared);
    for (u64 nth = 0; nth < slice.rounds; nth++) {
        open_round(rooms, slice.first_round + nth);
        __syncthreads();
        work(rooms, nth, slice.watched != 0);
        __syncthreads();
        end_round(rooms, nth);
    }
}

// The ziggurat, with the edges of its layers at the beginning of what a block shares: every word looks
// two of them up.
DEVICE Ziggurat shared_ziggurat(unsigned char* memory) {
    f64* edge = (f64*)memory;
    for (u32 layer = rank(); layer <= LAYERS; layer += crew()) {
        edge[layer] = problem.edge[layer];
    }
    __syncthreads();
    return {edge, problem.density};
}

KERNEL normal_alone() {
    SHARED(memory);
    Ziggurat ziggurat = shared_ziggurat(memory);
    u64 place = (u64)blockIdx.x * crew() + rank();
    if (place >= problem.repetitions || problem.failed[place]) {
        return;
    }
    rounds_alone(ziggurat, place);
}

KERNEL normal_rounds() {
    SHARED(memory);
    Ziggurat ziggurat = shared_ziggurat(memory);
    auto work = [&](Rooms rooms, u64 nth, bool everybody) {
        if (problem.rule == PROXIMAL) {
            normal_work<PROXIMAL>(rooms, ziggurat, nth, everybody);
        } else if (problem.rule == SCAFFOLD) {
            normal_work<SCAFFOLD>(rooms, ziggurat, nth, everybody);
        } else {
            normal_work<DESCENT>(rooms, ziggurat, nth, everybody);
        }
    };
    all_rounds(memory + 8 * (LAYERS + 2), work);
}

KERNEL mean_rounds() {
    SHARED(memory);
    all_rounds(memory, mean_work);
}

KERNEL margin_rounds_4() {
    SHARED(memory);
    all_rounds(memory, margin_work<1>);
}

KERNEL margin_rounds_8() {
    SHARED(memory);
    all_rounds(memory, margin_work<2>);
}

KERNEL margin_rounds_12() {
    SHARED(memory);
    all_rounds(memory, margin_work<3>);
}

KERNEL margin_rounds_16() {
    SHARED(memory);
    all_rounds(memory, margin_work<4>);
}

KERNEL margin_rounds_32() {
    SHARED(memory);
    all_rounds(memory, margin_work<8>);
}

KERNEL margin_rounds_64() {
    SHARED(memory);
    all_rounds(memory, margin_work<16>);
}

// The three launches of a round of wide rows: the cohorts, a block for every worker, the folds.

KERNEL wide_open() { open_round(own_rooms(0), slice.first_round); }

KERNEL wide_work() {
    SHARED(memory);
    bool everybody = slice.watched != 0;
    u32 most = most_workers(everybody), worker = blockIdx.x % most;
    u64 place = blockIdx.x / most;
    Room room = {slice.memory + place * slice.stride, place};
    if (!room.is_over() && (everybody || worker < room.count()[0])) {
        wide_client(room, worker, everybody ? worker : room.member(worker), memory);
    }
}

KERNEL wide_close() { end_round(own_rooms(0), 0); }
