// A machine without cuBLASLt: everything but a product works, and a product says what is missing.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/conformance/runner.hpp"

using namespace conformance;

TEST_CASE("products without cuBLASLt") {
  if (dlopen(CUBLASLT_NAME, RTLD_NOW | RTLD_LOCAL)) {
    MESSAGE("skipped: the system has " CUBLASLT_NAME);
    return;
  }
  // The driver, and a file of cuBLASLt's name that is no library.
  std::string damaged = (std::filesystem::temp_directory_path() / "cuda-lt-XXXXXX").string();
  REQUIRE(mkdtemp(damaged.data()) != nullptr);
  std::filesystem::create_symlink(std::string(getenv("PLAIT_CUDA_LIBRARIES")) + "/libcuda.so.1",
                                  damaged + "/libcuda.so.1");
  std::ofstream(damaged + "/" CUBLASLT_NAME) << "no library, and too long to be an empty file";
  setenv("PLAIT_CUDA_LIBRARIES", ("/nowhere/a:" + damaged + ":/nowhere/b").c_str(), 1);
  const Plugin plugin(CUDA_PLUGIN);
  const Device device(plugin);
  {
    plait_device_info info{};
    info.struct_size = sizeof info;
    check(device.item().info(device.get(), &info));
    CHECK(std::string(info.identity).find(", no cuBLASLt, ") != std::string::npos);
    const auto& item = plugin.device();
    const auto options = abi_host::options_of(item.options, item.n_options, {});
    char detail[512] = "";
    CHECK(item.probe(plugin.host(), &options.head, detail, sizeof detail) == 0);
    CHECK(std::string(detail).find(CUBLASLT_NAME ", which was not found") != std::string::npos);
  }
  const plait_shape s = f32({4, 4});
  const Case c{"", "matmul", {{s}, {s}}, {s}};
  const Desc desc(c, 1);
  plait_kernel* kernel = nullptr;
  const auto* item = plugin.kernels("matmul").at(0);
  REQUIRE(select(*item, desc).taken);
  for (int i = 0; i < 2; ++i) {
    const std::string error =
        take(item->prepare(plugin.host(), device.get(), &desc.get(), &kernel));
    const std::string file = damaged + "/" CUBLASLT_NAME;
    const auto begins = "[cuda] products of matrices need " CUBLASLT_NAME
                        ", which was not found (tried /nowhere/a/" CUBLASLT_NAME ", " +
                        file + " (" + file + ": ";
    CAPTURE(error);
    CHECK(error.find(begins) == 0);  // then the reason in the words of the C library
    CHECK(error.find("), /nowhere/b/" CUBLASLT_NAME ", ") != std::string::npos);
    CHECK(error.find("device.libraries or PLAIT_CUDA_LIBRARIES") != std::string::npos);
  }
  std::filesystem::remove_all(damaged);
  CHECK(live_errors() == 0);
}
