// The rounds of a run: every block takes some repetitions through all rounds of a slice.
//
// One launch closes many rounds, since a launch takes longer than a round of a small problem. What is
// independent of each other in a round (repetitions, clients, coordinates) is shared among the threads
// of a block, and what must follow an order has one thread. Every thread is a loop over items, so that
// the bits do not depend on how many threads there are.

#include "cohort.h"
#include "fold.h"
#include "margin_rows.h"
#include "mean_rows.h"
#include "normals.h"

// All rounds of a slice, with a kind of work.
template <class Work>
DEVICE void all_rounds(unsigned char* shared, Work work) {
    Rooms rooms = own_rooms(shared);
    for (u64 nth = 0; nth < slice.rounds; nth++) {
        u64 round = slice.first_round + nth;
        bool everybody = slice.watched != 0;
        open_round(rooms, round);
        __syncthreads();
        work(rooms, nth, everybody);
        __syncthreads();
        if (problem.clipped) {
            clip_updates(rooms, most_workers(everybody), everybody, slice.longest[nth]);
            __syncthreads();
        }
        if (everybody) {
            watch_round(rooms);
            __syncthreads();
        }
        close_round(rooms, round, everybody, slice.totals[nth]);
    }
}

KERNEL normal_rounds() {
    SHARED(memory);
    // The edges of the layers, in front of the rooms: every word looks two of them up.
    f64* edge = (f64*)memory;
    for (u32 layer = rank(); layer <= LAYERS; layer += crew()) {
        edge[layer] = problem.edge[layer];
    }
    __syncthreads();
    Ziggurat ziggurat = {edge, problem.density};
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
