// What kernels are written in: CUDA C++, without its library.
//
// A host's compiler takes the same source: tests bring a `host.h` that gives the device's names a
// meaning there, so that every kernel can be held against the engine where there is no device.
// Nothing may be fused or reassociated: device and host compile without contraction.

#pragma once

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
// What is called rather than inlined: seldom run, or the same for every kernel.
#define CALLED __device__ __noinline__
#define KERNEL extern "C" __global__ void
#define CONSTANT __constant__
#define SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#else
#include "host.h"
#endif

using u32 = unsigned int;
using u64 = unsigned long long;
using f64 = double;

DEVICE f64 from_bits(u64 bits) { return __longlong_as_double((long long)bits); }

DEVICE u64 to_bits(f64 number) { return (u64)__double_as_longlong(number); }

DEVICE bool is_finite(f64 number) {
    return (to_bits(number) & 0x7ff0000000000000ull) != 0x7ff0000000000000ull;
}

// The threads of a block, which share its loops.
DEVICE u32 rank() { return threadIdx.x; }
DEVICE u32 crew() { return blockDim.x; }
