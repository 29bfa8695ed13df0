// Compiled maps on the emulated device: what is compiled, what is kept, and what happens without
// the compiler.
#include <doctest/doctest.h>
#include <plait/device.h>
#include <plait/map.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/cuda_emulator/interface.hpp"
#include "tests/support/abi_host.hpp"
#include "tests/support/no_threads.hpp"

namespace {

namespace fs = std::filesystem;

// The plugin's device, its kernel `fast` of map, and what it logged.
struct Plugin {
  plait_host host = abi_host::table_of(add);  // first, so that add() and log() find the object
  abi_host::PluginFile file{CUDA_PLUGIN};
  const plait_device_item* device = nullptr;
  const plait_kernel_item* map = nullptr;
  std::vector<std::string> warnings, details;

  Plugin() {
    host.log = log;
    REQUIRE(file.open(&host) == nullptr);
    REQUIRE(device != nullptr);
    REQUIRE(map != nullptr);
  }
  static Plugin& of(const plait_host* h) {
    return *reinterpret_cast<Plugin*>(const_cast<plait_host*>(h));
  }
  static plait_error* add(const plait_host* h, const char* kind, const void* item) {
    if (std::strcmp(kind, PLAIT_KIND_DEVICE) == 0)
      of(h).device = static_cast<const plait_device_item*>(item);
    if (std::strcmp(kind, PLAIT_KIND_KERNEL) != 0) return nullptr;
    const auto* k = static_cast<const plait_kernel_item*>(item);
    if (std::strcmp(k->op, "map") == 0 && k->priority > 0) of(h).map = k;
    return nullptr;
  }
  static void log(const plait_host* h, uint32_t level, const char* text, uint64_t size) {
    if (level == PLAIT_LOG_WARN) of(h).warnings.emplace_back(text, size);
    if (level == PLAIT_LOG_DEBUG) of(h).details.emplace_back(text, size);
  }
};

Plugin& plugin() {
  static Plugin p;
  return p;
}

// An opened device with a queue.
class Session {
 public:
  explicit Session(const std::string& cache) {
    plugin().warnings.clear();
    plugin().details.clear();
    const plait_device_item& item = *plugin().device;
    const auto options =
        abi_host::options_of(item.options, item.n_options, {{"cache", '"' + cache + '"'}});
    REQUIRE(item.open(&plugin().host, &options.head, &device_) == nullptr);
    REQUIRE(item.queue_open(device_, &queue_) == nullptr);
  }
  ~Session() {
    plugin().device->queue_close(queue_);
    plugin().device->close(device_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // y = (x + x) * factor for x = 0, 1, ..., n - 1, prepared and run. Empty and `error` on failure.
  std::vector<float> run(int64_t n, double factor, std::string* error = nullptr) {
    plait_kernel* kernel = prepare(n, factor, error);
    return kernel ? launch(kernel, n) : std::vector<float>();
  }
  plait_kernel* prepare(int64_t n, double factor, std::string* error = nullptr) {
    const plait_shape shape{PLAIT_F32, 1, {n}};
    const plait_map_instr instrs[] = {{PLAIT_MAP_CONST, 0, 0, 0, factor},
                                      {PLAIT_MAP_ADD, 0, 0, 0, 0},
                                      {PLAIT_MAP_MUL, 2, 1, 0, 0}};
    const uint32_t result = 3;
    const plait_map map{sizeof(plait_map), 1, 3, 1, 0, instrs, &result};
    plait_op_desc d{};
    d.struct_size = sizeof d;
    d.op = "map";
    d.inputs = d.outputs = &shape;
    d.n_inputs = d.n_outputs = d.threads = 1;
    d.map = &map;
    plait_kernel* kernel = nullptr;
    if (plait_error* e = plugin().map->prepare(&plugin().host, device_, &d, &kernel)) {
      if (error) *error = abi_host::error_text(e);
      abi_host::error_free(e);
    }
    return kernel;
  }
  std::vector<float> launch(plait_kernel* kernel, int64_t n) {
    const plait_device_item& item = *plugin().device;
    const auto bytes = static_cast<uint64_t>(n) * sizeof(float);
    std::vector<float> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    void* memory[2] = {};
    for (void*& p : memory) REQUIRE(item.alloc(device_, bytes, &p) == nullptr);
    CHECK(item.copy(queue_, PLAIT_COPY_TO_DEVICE, memory[0], values.data(), bytes) == nullptr);
    CHECK(item.enqueue(queue_, plugin().map, kernel, memory, 2, nullptr) == nullptr);
    CHECK(item.copy(queue_, PLAIT_COPY_TO_HOST, values.data(), memory[1], bytes) == nullptr);
    CHECK(item.sync(queue_) == nullptr);
    for (void* p : memory) item.free(device_, p);
    plugin().map->release(kernel);
    return values;
  }

 private:
  plait_device* device_ = nullptr;
  plait_queue* queue_ = nullptr;
};

const std::vector<float> kTwice = {0, 2, 4, 6, 8, 10, 12};

uint64_t modules_loaded() {
  uint64_t n = 0;
  emulator_calls(
      [](void* to, const char* name, uint64_t calls) {
        if (std::strcmp(name, "cuModuleLoadData") == 0) *static_cast<uint64_t*>(to) = calls;
      },
      &n);
  return n;
}

// The emulated compiler's fault, for a scope.
struct Fault {
  explicit Fault(const char* what) { setenv("PLAIT_CUDA_EMULATOR_NVRTC", what, 1); }
  ~Fault() { unsetenv("PLAIT_CUDA_EMULATOR_NVRTC"); }
};

// A cache folder of this process.
struct Folder {
  std::string path = (fs::temp_directory_path() / "cuda-map-XXXXXX").string();
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { fs::remove_all(path); }
  std::vector<fs::path> files() const {
    return {fs::directory_iterator(path), fs::directory_iterator()};
  }
};

}  // namespace

TEST_CASE("calls that differ in the number of elements share one module of a device") {
  emulator_configure(nullptr, 1);
  Session s("");
  CHECK(s.run(7, 1) == kTwice);
  CHECK(modules_loaded() == 1);
  CHECK(s.run(5, 1) == std::vector<float>(kTwice.begin(), kTwice.begin() + 5));
  CHECK(modules_loaded() == 1);
  CHECK(s.run(7, 0.5) == std::vector<float>{0, 1, 2, 3, 4, 5, 6});
  CHECK(modules_loaded() == 2);
  CHECK(plugin().warnings.empty());
}

TEST_CASE("what is in the cache is not compiled again") {
  emulator_configure(nullptr, 1);
  const Folder folder;
  CHECK(Session(folder.path).run(7, 1) == kTwice);
  REQUIRE(folder.files().size() == 1);
  const Fault fault("fails");
  CHECK(Session(folder.path).run(7, 1) == kTwice);
  std::string error;
  CHECK(Session("").run(7, 1, &error).empty());
  CHECK(error.find("does not compile the code of a map") != std::string::npos);
  CHECK(error.find("asked to fail") != std::string::npos);
  CHECK(error.find("PLAIT_GLOBAL") == std::string::npos);  // the source is in the log alone
  REQUIRE(plugin().details.size() == 1);
  CHECK(plugin().details[0].find("PLAIT_GLOBAL") != std::string::npos);
  std::ofstream(folder.files()[0], std::ios::app) << "x";
  CHECK(Session(folder.path).run(7, 1, &error).empty());
  CHECK(folder.files().empty());
  CHECK(abi_host::live_errors() == 0);
}

TEST_CASE("a folder that cannot be used is a warning, and maps are compiled") {
  emulator_configure(nullptr, 1);
  Session s("/dev/null/cache");
  CHECK(s.run(7, 1) == kTwice);
  CHECK(s.run(7, 2).size() == 7);
  REQUIRE(plugin().warnings.size() == 1);
  CHECK(plugin().warnings[0].find("compiled kernels are not kept: cannot make /dev/null") !=
        std::string::npos);
}

TEST_CASE("without the compiler maps are interpreted, with one warning for each device") {
  emulator_configure(nullptr, 1);
  const Fault fault("none");
  for (int device = 0; device < 2; ++device) {
    Session s("");
    CHECK(s.run(7, 1) == kTwice);
    CHECK(s.run(3, 1) == std::vector<float>{0, 2, 4});
    REQUIRE(plugin().warnings.size() == 1);
    CHECK(plugin().warnings[0].find("element-wise ops are interpreted, which is slow") !=
          std::string::npos);
  }
}

TEST_CASE("a compiler without its builtins is as none, and is named with them") {
  emulator_configure(nullptr, 1);
  const Folder folder;
  const Fault fault("builtins");
  Session s(folder.path);
  CHECK(s.run(7, 1) == kTwice);
  CHECK(s.run(3, 2) == std::vector<float>{0, 4, 8});
  CHECK(folder.files().empty());
  REQUIRE(plugin().warnings.size() == 1);
  CHECK(plugin().warnings[0].find("cannot open libnvrtc-builtins.so.") != std::string::npos);
  CHECK(abi_host::live_errors() == 0);
}

TEST_CASE("the compiler's thread that cannot be started is an error of prepare(); one is enough") {
  emulator_configure(nullptr, 1);
  {
    Session s("");
    CHECK(s.run(7, 1) == kTwice);  // compiled by the calling thread
    std::string error;
    {
      const plait::test::NoThreads none;
      CHECK(s.run(7, 0.5, &error).empty());
    }
    CHECK(error.find("[cuda] cannot start a thread: ") == 0);
    CHECK(error.find("; raise the limits of processes and memory (ulimit -u") != error.npos);
    CHECK(s.run(7, 0.5) == std::vector<float>{0, 1, 2, 3, 4, 5, 6});
    const plait::test::NoThreads none;
    std::vector<plait_kernel*> kernels;
    for (const double factor : {1.5, 2.0, 2.5}) kernels.push_back(s.prepare(2, factor, &error));
    for (size_t i = 0; i < kernels.size(); ++i) {
      CAPTURE(error);
      REQUIRE(kernels[i]);
      CHECK(s.launch(kernels[i], 2)[1] == 3 + static_cast<float>(i));
    }
  }
  CHECK(std::string(emulator_live()) == "");
  CHECK(abi_host::live_errors() == 0);
}
