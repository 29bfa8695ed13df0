// What libcuda.so.1 of this folder exports beside the driver's entry points: the side that kernels
// compiled for the host call, and the side that tests call. Plain C names, so that a library which
// is compiled and loaded later (a generated kernel) finds them, too.
#pragma once

#include <cstdint>

#define EMULATOR_API extern "C" __attribute__((visibility("default")))

// Named as in CUDA, since kernels use them by these names.
struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

// The running thread. All threads of all blocks run on one thread of the system, one at a time.
struct EmulatorState {
  uint3 thread, block;   // threadIdx, blockIdx
  dim3 threads, blocks;  // blockDim, gridDim
  void* dynamic_shared;  // aligned to 1024
};
EMULATOR_API EmulatorState emulator_state;

// Makes a kernel known. `thunk` runs one thread with the arguments, a struct of `bytes` bytes.
// While a loader works (below), the kernel belongs to the module that is being loaded; otherwise
// every module has it. Returns true, to initialise a static object with.
using EmulatorThunk = void (*)(const void* arguments);
EMULATOR_API bool emulator_add_kernel(const char* name, uint64_t bytes, unsigned most_threads,
                                      EmulatorThunk thunk);

// Sets what cuModuleLoadData() does with an image that begins with "// plait": `load` calls
// emulator_add_kernel() for each of its kernels and returns 0, or returns a CUresult. Other images
// are ignored: their kernels are in this library.
EMULATOR_API void emulator_set_loader(int (*load)(const char* image));

// Barriers. Waits until `threads` threads of the block have come to barrier `id` (0: all threads of
// the block, with id 0), and returns how many of them gave a `predicate` that is not 0.
EMULATOR_API unsigned emulator_barrier(unsigned id, unsigned threads, int predicate);

// Collectives of the lanes of a warp that `mask` names.
enum EmulatorCollective : unsigned {
  EMULATOR_SYNC,
  EMULATOR_SHUFFLE,       // value of lane `argument` of the group of `width` lanes
  EMULATOR_SHUFFLE_UP,    // value of the lane that is `argument` lower
  EMULATOR_SHUFFLE_DOWN,  // value of the lane that is `argument` higher
  EMULATOR_SHUFFLE_XOR,
  EMULATOR_BALLOT,
  EMULATOR_TOGETHER,  // of emulator_together()
};
EMULATOR_API uint64_t emulator_collective(EmulatorCollective what, unsigned mask, uint64_t value,
                                          unsigned argument, unsigned width);

// For instructions that a warp executes as one (mma.sync, ldmatrix): when all 32 lanes have come,
// each with the address of data of its own, compute(addresses by lane) is called once.
EMULATOR_API void emulator_together(void (*compute)(void* const* lanes), void* own);

// Ends the launch with an error that names kernel, block, thread and `what`.
EMULATOR_API __attribute__((noreturn)) void emulator_trap(const char* what);

// For tests. Starts anew: `fail` as in PLAIT_CUDA_EMULATOR_FAIL (nullptr: nothing fails), the
// number of GPUs, all counts of calls 0, no error in force.
EMULATOR_API void emulator_configure(const char* fail, int gpus);
// The static shared memory of a kernel as nvcc lays it out, for functions looked up from now on.
// The host's compiler does not tell it: without this call it is 0.
EMULATOR_API void emulator_set_static_shared(const char* kernel, unsigned bytes);
// Calls each(to, entry point, number of its calls since emulator_configure()).
EMULATOR_API void emulator_calls(void (*each)(void* to, const char* name, uint64_t calls),
                                 void* to);
// What exists and was not freed: "2 allocations, 1 stream"; "" if nothing. Valid until the next
// call.
EMULATOR_API const char* emulator_live();
// Bytes of device memory that were allocated and not freed.
EMULATOR_API uint64_t emulator_memory();
// Whether this thread is inside an entry point of the driver, or runs work of a stream: what it
// allocates there, a driver would not.
EMULATOR_API bool emulator_inside();
// The last message that went to stderr, "" if none. Valid until the next call of anything here.
EMULATOR_API const char* emulator_message();
