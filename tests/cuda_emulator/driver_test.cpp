// The driver's side of the emulator: memory, captures, and faults on request.
#include <doctest/doctest.h>

#include <thread>

#include "plugins/support/cuda/driver.hpp"
#include "tests/cuda_emulator/driver_calls.hpp"

namespace {

using cuda_emulator::Gpu;

TEST_CASE("every entry point that the plugin calls is there") {
  // One that is missing is an error of the linker.
#define THERE(name) CHECK(reinterpret_cast<void*>(&::name) != nullptr);
  PLAIT_CUDA_DRIVER(THERE)
#undef THERE
}

TEST_CASE("device memory holds garbage at first, and copies stay inside of it") {
  Gpu gpu;
  CHECK(gpu.read(1)[0] == -1);
  char host[64] = {};
  const CUdeviceptr end = gpu.memory() + Gpu::kBytes;
  CHECK(cuMemcpyHtoDAsync(end - 64, host, 64, gpu.stream()) == CUDA_SUCCESS);
  CHECK(cuMemcpyHtoDAsync(end - 63, host, 64, gpu.stream()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(host), host, 64, gpu.stream()) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoHAsync(reinterpret_cast<void*>(gpu.memory()), gpu.memory(), 64, gpu.stream()) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD8Async(end, 0, 1, gpu.stream()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(gpu.memory() + 256) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr p = 0;
  CHECK(cuMemAlloc(&p, size_t{1} << 60) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("a capture records copies of the arguments, and its graph runs them at each launch") {
  Gpu gpu;
  gpu.fill(0);
  REQUIRE(cuFuncLoad(gpu.function("test_count")) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture(gpu.stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  CHECK(gpu.launch("test_count", 1, 64, 0) == CUDA_SUCCESS);
  CHECK(gpu.launch("test_count", 1, 64, 0) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(gpu.stream(), &graph) == CUDA_SUCCESS);
  CHECK(gpu.read(1)[0] == 0);
  size_t nodes = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &nodes) == CUDA_SUCCESS);
  CHECK(nodes == 2);
  CUgraphExec exec = nullptr;
  REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  for (int i = 0; i < 3; ++i) CHECK(cuGraphLaunch(exec, gpu.stream()) == CUDA_SUCCESS);
  CHECK(gpu.read(1)[0] == 384);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, gpu.stream()) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("what a capture does not allow ends it") {
  const auto alloc = [](Gpu&) {
    CUdeviceptr p = 0;
    return cuMemAlloc(&p, 64);
  };
  const auto synchronize = [](Gpu& gpu) { return cuStreamSynchronize(gpu.stream()); };
  const auto first_launch = [](Gpu& gpu) { return gpu.launch("test_index", 1, 32, 0); };
  CUresult (*const calls[])(Gpu&) = {alloc, synchronize, first_launch};
  for (const auto& call : calls) {
    Gpu gpu;
    REQUIRE(cuStreamBeginCapture(gpu.stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) ==
            CUDA_SUCCESS);
    CHECK(call(gpu) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(cuMemsetD8Async(gpu.memory(), 0, 8, gpu.stream()) ==
          CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUgraph graph = nullptr;
    CHECK(cuStreamEndCapture(gpu.stream(), &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(graph == nullptr);
    CHECK(cuStreamSynchronize(gpu.stream()) == CUDA_SUCCESS);
  }
}

TEST_CASE("another thread may allocate while this one captures") {
  Gpu gpu;
  CUcontext context = nullptr;
  REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture(gpu.stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  CUresult allocated = CUDA_ERROR_UNKNOWN, without_context = CUDA_SUCCESS, ended = CUDA_SUCCESS;
  std::thread([&] {
    CUdeviceptr p = 0;
    without_context = cuMemAlloc(&p, 64);
    cuCtxSetCurrent(context);
    allocated = cuMemAlloc(&p, 64);
    cuMemFree(p);
    CUgraph graph = nullptr;
    ended = cuStreamEndCapture(gpu.stream(), &graph);
  }).join();
  CHECK(without_context == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(allocated == CUDA_SUCCESS);
  CHECK(ended == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(gpu.stream(), &graph) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
}

TEST_CASE("a second stream joins a capture by events, and has to come back") {
  for (const bool joined : {true, false}) {
    CAPTURE(joined);
    Gpu gpu;
    gpu.fill(0);
    REQUIRE(cuFuncLoad(gpu.function("test_count")) == CUDA_SUCCESS);
    CUstream second = nullptr;
    CUevent fork = nullptr, join = nullptr;
    REQUIRE(cuStreamCreateWithPriority(&second, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    REQUIRE(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
    REQUIRE(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
    REQUIRE(cuStreamBeginCapture(gpu.stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) ==
            CUDA_SUCCESS);
    CHECK(gpu.launch("test_count", 1, 64, 0) == CUDA_SUCCESS);
    CHECK(cuEventRecord(fork, gpu.stream()) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(second, fork, 0) == CUDA_SUCCESS);
    CHECK(cuMemsetD8Async(gpu.memory() + 8, 1, 8, second) == CUDA_SUCCESS);
    CHECK(cuEventRecord(join, second) == CUDA_SUCCESS);
    if (joined) CHECK(cuStreamWaitEvent(gpu.stream(), join, 0) == CUDA_SUCCESS);
    CUgraph graph = nullptr;
    CHECK(cuStreamEndCapture(gpu.stream(), &graph) ==
          (joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
    CHECK(gpu.read(2) == std::vector<int64_t>{0, 0});
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CHECK(cuStreamIsCapturing(second, &status) == CUDA_SUCCESS);
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
    if (joined) {
      CUgraphExec exec = nullptr;
      REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
      CHECK(cuGraphLaunch(exec, gpu.stream()) == CUDA_SUCCESS);
      CHECK(gpu.read(2) == std::vector<int64_t>{64, 0x0101010101010101});
      CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
      CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
    }
    cuEventDestroy(fork);
    cuEventDestroy(join);
    cuStreamDestroy(second);
  }
}

TEST_CASE("a fault on request comes at its call; one that ends the context stays") {
  {
    Gpu gpu("cuLaunchKernel:2:2");
    CHECK(gpu.launch("test_index", 1, 32, 0) == CUDA_SUCCESS);
    CHECK(gpu.launch("test_index", 1, 32, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(gpu.launch("test_index", 1, 32, 0) == CUDA_SUCCESS);
  }
  {
    Gpu gpu("cuStreamSynchronize:1:700");
    CHECK(gpu.launch("test_index", 1, 32, 0) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(gpu.stream()) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemsetD8Async(gpu.memory(), 0, 1, gpu.stream()) == CUDA_ERROR_ILLEGAL_ADDRESS);
  }
}

}  // namespace
