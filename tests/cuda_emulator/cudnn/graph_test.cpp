// Graphs of attention, given to the real cuDNN for GPUs that are described to it: it recognises
// them, names plans that fit the workspace and repeat to the bit, and compiles their code. Without
// a driver the loading of that code fails, and nothing before it may.
#include <doctest/doctest.h>
#include <plait/tensor.h>

#include <plait/plugin.hpp>

#include "plugins/devices/cuda/attention/sdpa.hpp"

using namespace plait::cuda;

namespace {

// Properties as the library writes them of a device.
std::string gpu(int architecture, int multiprocessors, int shared) {
  return R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], )"
         R"("regsPerBlock": 65536, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, )"
         R"("reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, )"
         R"("maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, )"
         R"("isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 80000000000, )"
         R"("smClockRateKHz": 1500000, "memClockRateKHz": 2600000, "l2CacheSize": 50000000, )"
         R"("cudaDeviceId": 0, "driverVer": 13000, "deviceName": "a GPU", "deviceVer": )" +
         std::to_string(architecture) +
         ", \"multiProcessorCount\": " + std::to_string(multiprocessors) +
         ", \"maxSharedMemoryPerBlockOptin\": " + std::to_string(shared) + "}";
}

std::string error_of(const Cudnn& library, const std::string& device, const SdpaDesc& d) {
  try {
    const Sdpa plan(library, device, d);
    return "";
  } catch (const plait::Error& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("cuDNN takes the graphs") {
  const Cudnn& library = cudnn("");
  CAPTURE(library.version);
  struct {
    int architecture, multiprocessors, shared;
    SdpaDesc desc;
  } const cases[] = {
      {800, 108, 166912, {4, 2048, 2048, 16, 16, 128, 128, PLAIT_BF16, true, 0.125f}},
      {900, 132, 232448, {4, 2048, 2048, 16, 4, 128, 128, PLAIT_BF16, true, 0.125f}},
      {900, 132, 232448, {2, 100, 300, 8, 8, 64, 64, PLAIT_F16, false, 0.125f}},
      {1000, 148, 232448, {4, 2048, 2048, 16, 4, 64, 64, PLAIT_BF16, true, 0.125f}},
  };
  for (auto c : cases) {
    CAPTURE(c.architecture);
    c.desc.workspace = sdpa_workspace();
    const std::string error =
        error_of(library, gpu(c.architecture, c.multiprocessors, c.shared), c.desc);
    CAPTURE(error);
    // 5001: the driver. A library that makes plans without one has none.
    CHECK((error.empty() ||
           error.find("a plan of attention to cuDNN failed: "
                      "CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER (5001") != std::string::npos));
  }
}
TEST_CASE("cuDNN refuses a graph that is none") {
  SdpaDesc d{1, 64, 64, 2, 2, 512, 12, PLAIT_BF16, true, 1.0f};
  d.workspace = sdpa_workspace();
  const std::string error = error_of(cudnn(""), gpu(900, 132, 232448), d);
  CAPTURE(error);
  CHECK_FALSE(error.empty());
  CHECK(error.find("(5001") == std::string::npos);
}
