// Attention on the CUDA device by the emulated cuDNN, beside the reference device; and what happens
// when each of its calls fails.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "tests/conformance/runner.hpp"

namespace {

using namespace conformance;

std::string logged;
void record(const plait_host*, uint32_t level, const char* text, uint64_t size) {
  if (level == PLAIT_LOG_WARN) logged += std::string(text, size) + "\n";
}

const Plugin& cuda() {
  static const Plugin plugin(CUDA_PLUGIN);
  const_cast<plait_host*>(plugin.host())->log = record;
  return plugin;
}
const Device& oracle() {
  static const Plugin plugin(REFERENCE_PLUGIN);
  static const Device device(plugin);
  return device;
}
const plait_kernel_item& item() {
  const auto* best = cuda().kernels("dot_product_attention").at(0);
  REQUIRE(std::string(best->name) == "cudnn");
  return *best;
}

// How many descriptors and handles of the library exist.
size_t live() {
  const std::string file = std::string(getenv("PLAIT_CUDA_LIBRARIES")) + "/libcudnn.so.9";
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (!library) return 0;
  const auto count = reinterpret_cast<size_t (*)()>(dlsym(library, "cudnn_emulator_live"));
  const size_t n = count();
  dlclose(library);
  return n;
}

class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

struct Size {
  int64_t samples, queries, keys, heads, groups, qk, value;
};
Case attention(uint32_t type, Size s, bool causal) {
  Case c{
      "attention",
      "dot_product_attention",
      {{shape(type, {s.samples, s.queries, s.heads, s.qk})},
       {shape(type, {s.samples, s.keys, s.groups, s.qk})},
       {shape(type, {s.samples, s.keys, s.groups, s.value})}},
      {shape(type, {s.samples, s.queries, s.heads, s.value}), f32({s.samples, s.heads, s.queries})},
      {real("scale", 1 / std::sqrt(static_cast<double>(s.qk))), flag("causal", causal)}};
  c.tolerance = 1.2e-5;
  c.permits = {flag("library", true)};
  return c;
}
const Case& small() {
  static const Case c = attention(PLAIT_BF16, {2, 9, 9, 4, 2, 64, 64}, true);
  return c;
}

std::string summary(const Device& device) {
  plait_device_info info{};
  info.struct_size = sizeof info;
  check(device.item().info(device.get(), &info));
  return info.summary;
}

void agree(const Device& device, const Case& c) {
  for (const RunMode mode : {RunMode::direct, RunMode::captured})
    CHECK(difference(c, run(device, item(), c, 1, mode), expected(oracle(), c)) == "");
}

// The case runs on a kernel of ours, with a warning that names the reason.
void falls_back(const char* reason) {
  CAPTURE(reason);
  logged.clear();
  {
    const Device device(cuda());
    agree(device, small());
    CHECK(logged.find("[cuda] attention stays with Plait's kernels, although "
                      "precision.library_attention is true: ") == 0);
    CHECK(logged.find(reason) != std::string::npos);
    CHECK(logged.find("[cuda]", 1) == std::string::npos);  // once
    CHECK(summary(device).find(", attention by own kernels, not by cuDNN") != std::string::npos);
  }
  CHECK(live() == 0);
}

}  // namespace

TEST_CASE("attention by cuDNN is that of the reference") {
  logged.clear();
  {
    const Device device(cuda());
    for (const uint32_t type : {PLAIT_BF16, PLAIT_F16})
      for (const bool causal : {true, false})
        for (const int64_t d : {64, 128})
          for (const int64_t groups : {6, 2, 1}) {
            agree(device, attention(type, {2, 33, 33, 6, groups, d, d}, causal));
            agree(device, attention(type, {1, 1, 1, 6, groups, d, d}, causal));
          }
    agree(device, attention(PLAIT_F16, {2, 5, 70, 4, 2, 64, 128}, false));
    agree(device, attention(PLAIT_BF16, {3, 40, 40, 4, 4, 8, 24}, true));
    CHECK(summary(device).find(", attention by cuDNN 9.19.0") != std::string::npos);
    CHECK(live() > 0);
  }
  CHECK(logged == "");
  CHECK(live() == 0);
}

TEST_CASE("what it does not take") {
  struct {
    Case c;
    const char* why;
  } cases[] = {
      {attention(PLAIT_F32, {1, 9, 9, 2, 1, 64, 64}, true), "cuDNN: not bf16 or f16"},
      {attention(PLAIT_F16, {1, 9, 9, 2, 1, 136, 136}, true), "cuDNN: not 8, 16, ... or 128"},
      {attention(PLAIT_F16, {1, 9, 9, 2, 1, 12, 12}, true), "cuDNN: not 8, 16, ... or 128"},
      {attention(PLAIT_F16, {1, 0, 9, 2, 1, 64, 64}, false), "cuDNN: an extent is 0"},
  };
  for (auto& [c, why] : cases) CHECK(select(item(), Desc(c, 1)).detail.find(why) == 0);
  const auto refused = [&](Attr attr, const char* why) {
    Case c = small();
    std::erase_if(c.attrs, [&](const Attr& a) { return a.name == attr.name; });
    c.attrs.push_back(std::move(attr));
    if (c.attrs.back().name == "dropout") c.inputs.push_back({shape(PLAIT_I64, {2}), 0, 1});
    CHECK(select(item(), Desc(c, 1)).detail.find(why) == 0);
  };
  refused(real("dropout", 0.1), "cuDNN: not with dropout");
  refused(number("window", 3), "cuDNN: not with a window");
  refused(real("softcap", 3), "cuDNN: not with softcap");
  refused(real("scale", -1), "cuDNN: scale is not above 0");
  Case part = attention(PLAIT_BF16, {1, 9, 9, 3, 2, 64, 64}, true);  // heads 2, 3 and 4 of 6
  for (const Attr& a :
       {number("first_head", 2), number("heads", 6), number("first_group", 0), number("groups", 2)})
    part.attrs.push_back(a);
  CHECK(select(item(), Desc(part, 1)).detail.find("cuDNN: a part of the heads") == 0);
  Case off = small();
  off.permits.clear();
  CHECK(select(item(), Desc(off, 1)).detail ==
        "cuDNN: only with precision.library_attention = true");
  // No other kernel takes the attribute, and the workspace is a function of the shapes.
  for (const auto* kernel : cuda().kernels("dot_product_attention"))
    CHECK(select(*kernel, Desc(small(), 1)).taken == (kernel == &item()));
  CHECK(select(item(), Desc(small(), 1)).workspace == (64 << 10) + 256 - 64);
}

TEST_CASE("plans that are not taken") {
  const struct {
    const char *mode, *reason;
  } cases[] = {{"none", "it names no plan"},
               {"random", "its plan rounds otherwise each time"},
               {"large", "its plan needs a workspace of 1099511627776 bytes, more than 65536"},
               {"grows", "its plan needs a workspace of 1099511627776 bytes, more than 65536"}};
  for (const auto& c : cases) {
    const Setting setting("PLAIT_CUDA_EMULATOR_DNN", c.mode);
    falls_back(c.reason);
  }
}

TEST_CASE("each call that prepares fails in turn") {
  for (const std::string name :
       {"cudnnCreate", "cudnnSetStream", "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
        "cudnnBackendFinalize", "cudnnBackendGetAttribute"}) {
    int failures = 0;
    for (int n = 1; n < 400; ++n, ++failures) {
      const Setting fault("PLAIT_CUDA_EMULATOR_DNN_FAIL", name + ":" + std::to_string(n));
      CAPTURE(name);
      CAPTURE(n);
      logged.clear();
      {
        const Device device(cuda());
        const Desc desc(small(), 1);
        plait_kernel* kernel = nullptr;
        REQUIRE(take(item().prepare(cuda().host(), device.get(), &desc.get(), &kernel)) == "");
        item().release(kernel);
      }
      CHECK(live() == 0);
      if (logged.empty()) break;
      CHECK(logged.find("this call was to fail") != std::string::npos);
    }
    CAPTURE(name);
    CHECK((failures > 0 && failures < 399));
  }
  const Setting fault("PLAIT_CUDA_EMULATOR_DNN_FAIL", "cudnnBackendFinalize:2");
  falls_back("this call was to fail");
}

TEST_CASE("a run that fails is an error, and the next one is none") {
  const Device device(cuda());
  const Case& c = small();
  const auto wanted = expected(oracle(), c);
  run(device, item(), c, 1, RunMode::direct);
  for (const char* name : {"cudnnBackendExecute:1"}) {
    const Setting fault("PLAIT_CUDA_EMULATOR_DNN_FAIL", name);
    std::string error;
    try {
      run(device, item(), c, 1, RunMode::direct);
    } catch (const std::exception& e) {
      error = e.what();
    }
    CAPTURE(error);
    CHECK(error.find("attention of 2 x 9 x 4 queries and 9 x 2 keys of 64 channels by cuDNN "
                     "failed: ") != std::string::npos);
    CHECK(error.find("cuDNN 9.19.0): this call was to fail") != std::string::npos);
    CHECK(difference(c, run(device, item(), c, 1, RunMode::direct), wanted) == "");
  }
}

TEST_CASE("a queue that opens later has a handle, and closes it") {
  const Device device(cuda());
  const Desc desc(small(), 1);
  plait_kernel* kernel = nullptr;
  check(item().prepare(cuda().host(), device.get(), &desc.get(), &kernel));
  const size_t before = live();
  plait_queue* queue = nullptr;
  check(device.item().queue_open(device.get(), &queue));
  CHECK(live() == before + 1);
  device.item().queue_close(queue);
  CHECK(live() == before);
  {
    const Setting fault("PLAIT_CUDA_EMULATOR_DNN_FAIL", "cudnnCreate:1");
    CHECK(take(device.item().queue_open(device.get(), &queue)).find("opening cuDNN 9.19.0") !=
          std::string::npos);
  }
  item().release(kernel);
}
