// The device's names on a host: blocks one after the other, the threads of a block as fibers.
//
// A fiber runs until it waits for others (a barrier, a shuffle) or ends; then another one goes on,
// forwards through the block and backwards by turns, so that a missing barrier changes results.
// Threads that wait at different barriers, or leave one waiting, are an error.

#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#define __device__
#define DEVICE static inline
#define CALLED static __attribute__((noinline))
#define KERNEL extern "C" void
#define CONSTANT static
#define SHARED(name) unsigned char* name = emulated::shared()

namespace emulated {
struct Place {
    unsigned x;
};
Place thread();
Place block();
Place threads();
unsigned char* shared();
void barrier(int line);
unsigned long long exchange(unsigned mask, unsigned long long number, unsigned from);
}  // namespace emulated

#define threadIdx (emulated::thread())
#define blockIdx (emulated::block())
#define blockDim (emulated::threads())
#define __syncthreads() emulated::barrier(__LINE__)

static inline double __longlong_as_double(long long bits) {
    double number;
    memcpy(&number, &bits, 8);
    return number;
}

static inline long long __double_as_longlong(double number) {
    long long bits;
    memcpy(&bits, &number, 8);
    return bits;
}

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}

static inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }

static inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }

template <class Number>
static inline Number atomicOr(Number* at, Number bits) {
    Number before = *at;
    *at = before | bits;
    return before;
}

template <class Number>
static inline Number atomicAdd(Number* at, Number more) {
    Number before = *at;
    *at = before + more;
    return before;
}

static inline unsigned __shfl_sync(unsigned mask, unsigned number, unsigned lane, unsigned width) {
    unsigned own = threadIdx.x % 32;
    return (unsigned)emulated::exchange(mask, number, own / width * width + lane % width);
}

static inline double __shfl_sync(unsigned mask, double number, unsigned lane, unsigned width) {
    unsigned own = threadIdx.x % 32;
    unsigned long long bits = (unsigned long long)__double_as_longlong(number);
    unsigned from = own / width * width + lane % width;
    return __longlong_as_double((long long)emulated::exchange(mask, bits, from));
}

static inline double __shfl_xor_sync(unsigned mask, double number, unsigned lanes, unsigned) {
    unsigned long long bits = (unsigned long long)__double_as_longlong(number);
    return __longlong_as_double(
        (long long)emulated::exchange(mask, bits, (threadIdx.x % 32) ^ lanes));
}
