// Work of emulated libraries on emulated streams; exported by libcuda.so.1 of this folder. A header
// of its own, since interface.hpp defines types that CUDA's headers define as well.
#pragma once

#include <cstdint>

// Puts a call of run(copy of `arguments`, `bytes` long) on a stream (CUstream): made at once, or at
// each launch of the graph that the stream records. Returns a CUresult.
extern "C" __attribute__((visibility("default"))) int emulator_enqueue(
    void* stream, void (*run)(const void* arguments), const void* arguments, uint64_t bytes);

// The same with run(object), which may wait for other threads that need the driver, as work given
// to cuLaunchHostFunc() may. drop(object) is called when the work no longer exists: it has been
// done, the graph that holds it was destroyed, or this call fails.
extern "C" __attribute__((visibility("default"))) int emulator_enqueue_owned(
    void* stream, void (*run)(void* object), void* object, void (*drop)(void* object));
