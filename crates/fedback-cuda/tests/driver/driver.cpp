// A driver of CUDA whose device is this processor: the few calls that fedback makes, for the kernels
// of the repository as a host's compiler understands them.
//
// It is built as `libcuda.so.1` and found as the real one would be, so that all code between the
// command and the kernels is the code that meets a device. What it has no way to show is how a device
// compiles and runs the PTX. The environment can make it small, old, or break:
//
//   EMULATED_MEMORY   bytes of memory
//   EMULATED_LAUNCHES launches after which it falls from the bus
//   EMULATED_MAJOR    its compute capability, without the minor number

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <ucontext.h>
#include <vector>

#include "rounds.cu"
#include "pieces.h"

namespace emulated {

constexpr int STACK = 1 << 16;

struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool ended;
    // The line of the barrier that it waits at, 0 for none.
    int line;
    // How often it has exchanged numbers, and the last two of them.
    unsigned exchanges;
    unsigned long long numbers[2];
};

static std::vector<Fiber> fibers;
static std::vector<unsigned char> memory;
static ucontext_t scheduler;
static unsigned current, block_now, threads_now;
static void (*kernel)();
static bool backwards;

Place thread() { return {current}; }
Place block() { return {block_now}; }
Place threads() { return {threads_now}; }
unsigned char* shared() { return memory.data(); }

[[noreturn]] static void die(const char* why) {
    fprintf(stderr, "emulated device: %s\n", why);
    abort();
}

static void rest() { swapcontext(&fibers[current].context, &scheduler); }

void barrier(int line) {
    Fiber& own = fibers[current];
    own.line = line;
    rest();
}

unsigned long long exchange(unsigned mask, unsigned long long number, unsigned from) {
    Fiber& own = fibers[current];
    unsigned warp = current / 32 * 32, turn = own.exchanges + 1;
    if (!(mask >> (current % 32) & 1) || !(mask >> from & 1)) {
        die("a shuffle with a thread outside its mask");
    }
    own.numbers[turn % 2] = number;
    own.exchanges = turn;
    for (unsigned lane = 0; lane < 32; lane++) {
        while (mask >> lane & 1 && fibers[warp + lane].exchanges < turn) {
            if (fibers[warp + lane].ended || fibers[warp + lane].line) {
                die("a shuffle waits for a thread that does not come");
            }
            rest();
        }
    }
    return fibers[warp + from].numbers[turn % 2];
}

static void begin() {
    kernel();
    fibers[current].ended = true;
    swapcontext(&fibers[current].context, &scheduler);
}

static void run_block() {
    for (unsigned k = 0; k < threads_now; k++) {
        Fiber& fiber = fibers[k];
        fiber.stack.resize(STACK);
        fiber.ended = false;
        fiber.line = 0;
        fiber.exchanges = 0;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = STACK;
        makecontext(&fiber.context, begin, 0);
    }
    for (;;) {
        unsigned ended = 0, waiting = 0;
        for (unsigned k = 0; k < threads_now; k++) {
            unsigned turn = backwards ? threads_now - 1 - k : k;
            if (!fibers[turn].ended && !fibers[turn].line) {
                current = turn;
                swapcontext(&scheduler, &fibers[turn].context);
            }
            ended += fibers[turn].ended;
            waiting += fibers[turn].line != 0;
        }
        backwards = !backwards;
        if (ended == threads_now) {
            return;
        }
        if (ended + waiting == threads_now) {
            if (ended > 0) {
                die("a barrier waits for threads that have ended");
            }
            for (unsigned k = 0; k < threads_now; k++) {
                if (fibers[k].line != fibers[0].line) {
                    die("threads wait at different barriers");
                }
            }
            for (unsigned k = 0; k < threads_now; k++) {
                fibers[k].line = 0;
            }
        }
    }
}

// What stands behind every piece of memory, and must still stand there in the end.
constexpr size_t FENCE = 64;

static void put_fence(void* end) { memset(end, 0xa5, FENCE); }

static void check_fence(const void* end) {
    const unsigned char* byte = (const unsigned char*)end;
    for (size_t k = 0; k < FENCE; k++) {
        if (byte[k] != 0xa5) {
            die("something was written beyond its end");
        }
    }
}

static size_t number_from(const char* name, size_t otherwise) {
    const char* text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

static std::map<void*, size_t> allocated;
static size_t taken;
static size_t launches;

static size_t capacity() { return number_from("EMULATED_MEMORY", size_t(2) << 30); }
static bool is_lost() { return launches > number_from("EMULATED_LAUNCHES", ~size_t(0) - 1); }

}  // namespace emulated

using namespace emulated;

struct Entry {
    const char* name;
    void (*kernel)();
};

static Entry entries[] = {
    {"normal_rounds", normal_rounds},       {"mean_rounds", mean_rounds},
    {"margin_rounds_4", margin_rounds_4},   {"margin_rounds_8", margin_rounds_8},
    {"margin_rounds_12", margin_rounds_12}, {"margin_rounds_16", margin_rounds_16},
    {"margin_rounds_32", margin_rounds_32}, {"margin_rounds_64", margin_rounds_64},
    {"normal_alone", normal_alone}, {"wide_open", wide_open}, {"wide_work", wide_work}, {"wide_close", wide_close},
};

constexpr int INVALID = 1, MEMORY = 2, NOT_FOUND = 500, LOST = 719;
constexpr unsigned SHARED_A_BLOCK = 48 << 10;

extern "C" {
int cuInit(unsigned) { return 0; }

int cuDriverGetVersion(int* version) {
    *version = 12000;
    return 0;
}

int cuDeviceGetCount(int* count) {
    *count = (int)number_from("EMULATED_DEVICES", 1);
    return 0;
}

int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return 0;
}

int cuDeviceGetName(char* name, int length, int) {
    snprintf(name, (size_t)length, "this processor, emulating");
    return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case 16: *value = 3; return 0;                                  // multiprocessors
        case 75: *value = (int)number_from("EMULATED_MAJOR", 8); return 0;  // capability
        case 76: *value = 0; return 0;
        default: return INVALID;
    }
}

int cuDevicePrimaryCtxRetain(void** context, int) {
    static int only;
    *context = &only;
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int) { return 0; }

int cuCtxSetCurrent(void*) { return is_lost() ? LOST : 0; }

int cuCtxSynchronize() { return is_lost() ? LOST : 0; }

int cuMemGetInfo_v2(size_t* free, size_t* total) {
    *total = capacity();
    *free = capacity() - taken;
    return 0;
}

int cuMemAlloc_v2(void** at, size_t bytes) {
    if (is_lost()) {
        return LOST;
    }
    if (bytes == 0) {
        return INVALID;
    }
    if (taken + bytes > capacity()) {
        return MEMORY;
    }
    *at = malloc(bytes + FENCE);
    put_fence((char*)*at + bytes);
    // What nobody has written is not to be read.
    memset(*at, 0xff, bytes);
    allocated[*at] = bytes;
    taken += bytes;
    return 0;
}

int cuMemFree_v2(void* at) {
    auto found = allocated.find(at);
    if (found == allocated.end()) {
        return INVALID;
    }
    check_fence((char*)at + found->second);
    taken -= found->second;
    allocated.erase(found);
    free(at);
    return 0;
}

// Whether so many bytes lie in one piece of memory.
static bool lie(const void* at, size_t bytes) {
    auto after = allocated.upper_bound((void*)at);
    if (after == allocated.begin()) {
        return false;
    }
    --after;
    return (const char*)at + bytes <= (const char*)after->first + after->second;
}

int cuMemcpyHtoD_v2(void* to, const void* from, size_t bytes) {
    if (is_lost()) {
        return LOST;
    }
    bool constant = (to == &problem && bytes == sizeof problem) ||
                    (to == &slice && bytes == sizeof slice);
    if (!constant && !lie(to, bytes)) {
        return INVALID;
    }
    memcpy(to, from, bytes);
    return 0;
}

int cuMemcpyDtoH_v2(void* to, const void* from, size_t bytes) {
    if (is_lost()) {
        return LOST;
    }
    if (!lie(from, bytes)) {
        return INVALID;
    }
    memcpy(to, from, bytes);
    return 0;
}

int cuModuleLoadData(void** module, const void* image) {
    static int only;
    *module = &only;
    return strstr((const char*)image, ".target sm_80") ? 0 : 218;
}

int cuModuleUnload(void*) { return 0; }

int cuModuleGetFunction(void** function, void*, const char* name) {
    for (Entry& entry : entries) {
        if (!strcmp(entry.name, name)) {
            *function = &entry;
            return 0;
        }
    }
    return NOT_FOUND;
}

int cuModuleGetGlobal_v2(void** at, size_t* bytes, void*, const char* name) {
    bool first = !strcmp(name, "problem");
    if (!first && strcmp(name, "slice")) {
        return NOT_FOUND;
    }
    *at = first ? (void*)&problem : (void*)&slice;
    *bytes = first ? sizeof problem : sizeof slice;
    return 0;
}

int cuLaunchKernel(void* function, unsigned blocks, unsigned y, unsigned z, unsigned width,
                   unsigned height, unsigned depth, unsigned shared, void*, void**, void**) {
    Entry& entry = *(Entry*)function;
    if (!blocks || y != 1 || z != 1 || !width || width > 1024 || height != 1 || depth != 1 ||
        shared > SHARED_A_BLOCK) {
        return INVALID;
    }
    launches++;
    if (is_lost()) {
        return 0;
    }
    kernel = entry.kernel;
    threads_now = width;
    if (fibers.size() < width) {
        fibers.resize(width);
    }
    for (block_now = 0; block_now < blocks; block_now++) {
        memory.assign(shared + FENCE, 0xff);
        put_fence(memory.data() + shared);
        run_block();
        check_fence(memory.data() + shared);
    }
    return 0;
}

int cuGetErrorName(int error, const char** name) {
    switch (error) {
        case INVALID: *name = "CUDA_ERROR_INVALID_VALUE"; return 0;
        case MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
        case NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; return 0;
        case LOST: *name = "CUDA_ERROR_LAUNCH_FAILED"; return 0;
        default: return INVALID;
    }
}

int cuGetErrorString(int, const char** text) {
    *text = "said by the emulated device";
    return 0;
}
}
