// The emulator itself: threads, barriers, collectives, and the faults of kernels that it finds.
#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

#include "tests/cuda_emulator/asan.hpp"
#include "tests/cuda_emulator/driver_calls.hpp"

namespace {

using cuda_emulator::Gpu;

TEST_CASE("threads have their own indices in all blocks") {
  Gpu gpu;
  CHECK(gpu.launch("test_index", 4, 256, 1000) == CUDA_SUCCESS);
  const auto out = gpu.read(1000);
  for (int64_t i = 0; i < 1000; ++i) REQUIRE(out[static_cast<size_t>(i)] == i + 4000);
}

TEST_CASE("a barrier separates what is written before it from what is read behind it") {
  Gpu gpu;
  CHECK(gpu.launch("test_reverse", 2, 100, 0, 100 * 8) == CUDA_SUCCESS);
  const auto out = gpu.read(200);
  for (int64_t i = 0; i < 200; ++i) REQUIRE(out[static_cast<size_t>(i)] == 1099 - i % 100);
}

TEST_CASE("a missing barrier shows") {
  Gpu gpu;
  CHECK(gpu.launch("test_race", 1, 64, 0) == CUDA_SUCCESS);
  const auto out = gpu.read(64);
  bool stale = false;
  for (int64_t v : out) stale |= v == -1;
  CHECK(stale);
}

TEST_CASE("collectives give each lane what CUDA gives it") {
  for (unsigned threads : {32u, 96u, 1024u}) {
    Gpu gpu;
    REQUIRE(gpu.launch("test_sums", 1, threads, 0) == CUDA_SUCCESS);
    const auto out = gpu.read(threads);
    for (unsigned t = 0; t < threads; ++t) {
      const int64_t lane = t % 32;
      int64_t v = int64_t{threads} * (threads - 1) / 2 % 89;
      v = v * 100 + 5;
      v = v * 100 + (lane / 8 * 8 + 1);
      v = v * 100 + (lane < 3 ? lane : lane - 3);
      v = v * 100 + (lane + 4 > 31 ? lane : lane + 4);
      v = v * 100 + (lane % 4 == 0 ? lane + 3 : lane);
      v = v * 100 + 11;
      v = v * 10 + 1;
      if (lane < 8) v += lane ^ 1;
      v = v * 10000 + threads / 32;
      REQUIRE(out[t] == v);
    }
  }
}

TEST_CASE("atomic operations count every thread") {
  Gpu gpu;
  gpu.fill(0);
  CHECK(gpu.launch("test_count", 5, 64, 0) == CUDA_SUCCESS);
  CHECK(gpu.read(1)[0] == 320);
}

TEST_CASE("faults of kernels end the context, with kernel, block and thread in the message") {
  const struct {
    const char* kernel;
    const char* text;
  } cases[] = {
      {"test_leaves_early",
       "waits at a barrier that 63 of 64 threads have reached; thread (33, 0, 0) has ended"},
      {"test_lane_missing", "never comes: it has ended"},
      {"test_lanes_disagree", "makes another call or names the lanes 0x"},
      {"test_reads_unnamed", "reads lane 9, which its mask 0x0000000f does not name"},
      {"test_traps", "block (1, 0, 0), thread (2, 0, 0): __trap()"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.kernel);
    Gpu gpu;
    CHECK(gpu.launch(c.kernel, 2, 64, 0) == CUDA_ERROR_LAUNCH_FAILED);
    const std::string said = emulator_message();
    CAPTURE(said);
    CHECK(said.find(std::string("kernel ") + c.kernel + ", block (") != std::string::npos);
    CHECK(said.find(c.text) != std::string::npos);
    CHECK(cuStreamSynchronize(gpu.stream()) == CUDA_ERROR_LAUNCH_FAILED);
  }
  Gpu gpu;  // the emulator itself is as good as new
  CHECK(gpu.launch("test_sums", 1, 64, 0) == CUDA_SUCCESS);
}

// The sanitizer ends the process at the write: bounds_test.cpp.
TEST_CASE("a write behind device memory is found at the end of the kernel" *
          doctest::skip(emulator::kAsan)) {
  Gpu gpu;
  CHECK(gpu.launch("test_writes_behind", 1, 64, Gpu::kBytes) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(std::string(emulator_message()).find("kernel test_writes_behind: a write behind") == 0);
}

TEST_CASE("launches beyond what a kernel or the GPU can do are refused") {
  Gpu gpu;
  CHECK(gpu.launch("test_index", 1, 257, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(gpu.launch("test_index", 0, 32, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(gpu.launch("test_index", 1, 32, 0, 48 * 1024 + 1) == CUDA_ERROR_INVALID_VALUE);
  CUfunction f = gpu.function("test_index");
  CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 228 * 1024) ==
        CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024) ==
          CUDA_SUCCESS);
  CHECK(gpu.launch("test_index", 1, 32, 0, 227 * 1024) == CUDA_SUCCESS);
}

}  // namespace
