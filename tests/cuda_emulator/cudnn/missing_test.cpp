// A machine without cuDNN, or with one that is too old: attention stays with Plait's kernels, and a
// warning says what is missing. Without the attribute nothing is looked for.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/conformance/runner.hpp"

using namespace conformance;

namespace {

std::string logged;
void record(const plait_host*, uint32_t level, const char* text, uint64_t size) {
  if (level == PLAIT_LOG_WARN) logged += std::string(text, size) + "\n";
}

Case attention() {
  const plait_shape s = shape(PLAIT_BF16, {1, 9, 2, 64});
  Case c{"attention", "dot_product_attention", {{s}, {s}, {s}}, {s, f32({1, 2, 9})}};
  c.attrs = {real("scale", 0.125)};
  c.permits = {flag("library", true)};
  c.tolerance = 1.2e-5;
  return c;
}

bool opened() {
  void* library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
  if (library) dlclose(library);
  return library != nullptr;
}

void own_kernels_compute(const Plugin& cuda) {
  const Plugin plain(REFERENCE_PLUGIN);
  const Device device(cuda), reference(plain);
  const Case c = attention();
  const auto& item = *cuda.kernels(c.op).at(0);
  CHECK(difference(c, run(device, item, c, 1, RunMode::captured), expected(reference, c)) == "");
}

}  // namespace

TEST_CASE("attention without cuDNN" * doctest::skip()) {
  if (dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL)) {
    MESSAGE("skipped: the system has libcudnn.so.9");
    return;
  }
  // The driver and cuBLASLt, and a file of cuDNN's name that is no library.
  std::string damaged = (std::filesystem::temp_directory_path() / "cudnn-XXXXXX").string();
  REQUIRE(mkdtemp(damaged.data()) != nullptr);
  const std::string before = getenv("PLAIT_CUDA_LIBRARIES");
  for (const auto& file : std::filesystem::directory_iterator(before))
    if (file.path().filename().string().find("libcudnn") != 0)
      std::filesystem::create_symlink(file.path(), damaged / file.path().filename());
  std::ofstream(damaged + "/libcudnn.so.9") << "no library, and too long to be an empty file";
  setenv("PLAIT_CUDA_LIBRARIES", ("/nowhere/a:" + damaged).c_str(), 1);
  const Plugin cuda(CUDA_PLUGIN);
  const_cast<plait_host*>(cuda.host())->log = record;
  own_kernels_compute(cuda);
  CAPTURE(logged);
  const std::string file = damaged + "/libcudnn.so.9";
  CHECK(logged.find("[cuda] attention stays with Plait's kernels, although "
                    "precision.library_attention is true: libcudnn.so.9 was not found (tried "
                    "/nowhere/a/libcudnn.so.9, " +
                    file + " (" + file + ": ") == 0);
  CHECK(logged.find("install cuDNN 9.8.0 or newer (pip install nvidia-cudnn-cu") !=
        std::string::npos);
  CHECK(logged.find("device.libraries or PLAIT_CUDA_LIBRARIES, or set "
                    "precision.library_attention = false") != std::string::npos);
  std::filesystem::remove_all(damaged);
  setenv("PLAIT_CUDA_LIBRARIES", before.c_str(), 1);
  CHECK(live_errors() == 0);
}

TEST_CASE("an older cuDNN" * doctest::skip()) {
  const Plugin cuda(CUDA_PLUGIN);
  const_cast<plait_host*>(cuda.host())->log = record;
  own_kernels_compute(cuda);
  CAPTURE(logged);
  CHECK(logged.find("libcudnn.so.9 is cuDNN 9.7.0, expected 9.8.0 or newer; install cuDNN") !=
        std::string::npos);
}

TEST_CASE("without the attribute nothing is opened" * doctest::skip()) {
  const Plugin cuda(CUDA_PLUGIN);
  {
    const Device device(cuda);
    Case c = attention();
    c.permits.clear();
    for (const auto* item : cuda.kernels(c.op))
      if (select(*item, Desc(c, 1)).taken) run(device, *item, c, 1, RunMode::captured);
    CHECK_FALSE(opened());
    run(device, *cuda.kernels(c.op).at(0), attention(), 1, RunMode::direct);
    CHECK(opened());
  }
}
