// The host logic of the CUDA plugin through the emulated driver: opening, captures, and what
// happens when any call of the driver fails.
#include <doctest/doctest.h>
#include <plait/device.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda_emulator/interface.hpp"
#include "tests/cuda_emulator/plugin.hpp"

using namespace cuda_emulator;

namespace {

// Calls of the driver so far, by entry point.
using Calls = std::map<std::string, uint64_t>;
Calls calls_so_far() {
  Calls calls;
  emulator_calls(
      [](void* to, const char* name, uint64_t n) { (*static_cast<Calls*>(to))[name] = n; }, &calls);
  return calls;
}

constexpr uint64_t kBytes = kSoftmaxBytes;

// One session's life: opens a device, allocates, copies, runs a kernel directly and as a graph, and
// closes everything. Continues after each error as an engine would: what could not be opened is not
// used. Returns the texts of all errors.
class Life {
 public:
  explicit Life(const abi_host::OptionValues& given = {}) {
    const plait_device_item& item = plugin().device();
    const auto options = abi_host::options_of(item.options, item.n_options, given);
    if (!good(item.open(plugin().host(), &options.head, &device_))) return;
    in_device(item);
    item.close(device_);
  }
  const std::vector<std::string>& errors() const { return errors_; }
  const std::vector<float>& result() const { return result_; }
  // Calls before the first function that closes something, which can't report an error.
  const Calls& before_closing() const { return before_closing_; }

 private:
  bool good(plait_error* e) {
    if (e) errors_.push_back(take(e));
    return !e;
  }

  void in_device(const plait_device_item& item) {
    plait_device_info info{};
    info.struct_size = sizeof info;
    good(item.info(device_, &info));
    void* host = nullptr;
    for (auto& p : memory_) good(item.alloc(device_, kBytes, &p));
    good(item.host_alloc(device_, kBytes, &host));
    plait_event* event = nullptr;
    good(item.event_open(device_, &event));
    if (good(item.queue_open(device_, &queue_))) {
      if (host && event && std::count(memory_.begin(), memory_.end(), nullptr) == 0)
        in_queue(item, static_cast<float*>(host), event);
      item.queue_close(queue_);
    }
    if (event) item.event_close(event);
    if (host) item.host_free(device_, host);
    for (void* p : memory_) item.free(device_, p);
  }

  void in_queue(const plait_device_item& item, float* host, plait_event* event) {
    const plait_op_desc desc = softmax_desc();
    plait_kernel* kernel = nullptr;
    if (!good(softmax().prepare(plugin().host(), device_, &desc, &kernel))) return;
    for (int i = 0; i < 15; ++i) host[i] = static_cast<float>(i);
    good(item.copy(queue_, PLAIT_COPY_TO_DEVICE, memory_[0], host, kBytes));
    good(item.enqueue(queue_, &softmax(), kernel, memory_.data(), 2, nullptr));
    good(item.sync(queue_));
    plait_graph* graph = nullptr;
    if (good(item.capture_begin(queue_))) {
      good(item.enqueue(queue_, &softmax(), kernel, memory_.data(), 2, nullptr));
      good(item.copy(queue_, PLAIT_COPY_ON_DEVICE, memory_[2], memory_[1], kBytes));
      good(item.copy(queue_, PLAIT_COPY_TO_HOST, host, memory_[2], kBytes));
      good(item.capture_end(queue_, &graph));
    }
    if (graph) good(item.graph_launch(graph, queue_));
    good(item.event_record(event, queue_));
    good(item.event_wait(event, queue_));
    uint32_t done = 0;
    good(item.event_query(event, &done));
    good(item.sync(queue_));
    result_.assign(host, host + 15);
    before_closing_ = calls_so_far();
    if (graph) item.graph_close(graph);
    softmax().release(kernel);
  }

  plait_device* device_ = nullptr;
  plait_queue* queue_ = nullptr;
  std::vector<void*> memory_ = std::vector<void*>(3, nullptr);
  std::vector<std::string> errors_;
  std::vector<float> result_;
  Calls before_closing_;
};

TEST_CASE("no GPU: probe() and open() say so") {
  // First: the driver is initialised once, and then stays so.
  emulator_configure(nullptr, 0);
  const plait_device_item& item = plugin().device();
  const auto options = abi_host::options_of(item.options, item.n_options, {});
  char detail[400] = "";
  CHECK(item.probe(plugin().host(), &options.head, detail, sizeof detail) == 0);
  CHECK(std::string(detail).find("no CUDA-capable device") != std::string::npos);
  const Life life;
  REQUIRE(life.errors().size() == 1);
  CHECK(life.errors()[0].find("no CUDA-capable device") != std::string::npos);
  CHECK(life.errors()[0].find("run.device = \"cpu\"") != std::string::npos);
  check_nothing_is_left();
}

TEST_CASE("a session without faults leaves nothing behind, with graphs and without") {
  for (const char* graphs : {"true", "false"}) {
    emulator_configure(nullptr, 1);
    const Life life(abi_host::OptionValues{{"graphs", graphs}});
    CHECK(life.errors() == std::vector<std::string>{});
    REQUIRE(life.result().size() == 15);
    for (int i = 0; i < 15; ++i)
      CHECK(life.result()[static_cast<size_t>(i)] ==
            doctest::Approx(std::exp(i % 5) /
                            (1 + std::exp(1.) + std::exp(2.) + std::exp(3.) + std::exp(4.))));
    check_nothing_is_left();
  }
}

TEST_CASE("the index of a GPU that is not there is an error with the number of those that are") {
  emulator_configure(nullptr, 2);
  CHECK(Life(abi_host::OptionValues{{"index", "1"}}).errors() == std::vector<std::string>{});
  const Life life(abi_host::OptionValues{{"index", "2"}});
  REQUIRE(life.errors().size() == 1);
  CHECK(life.errors()[0].find("device.index is 2, but this process sees 2 GPUs") !=
        std::string::npos);
  check_nothing_is_left();
}

TEST_CASE("memory that the GPU lacks is an error with the number of bytes") {
  emulator_configure(nullptr, 1);
  const plait_device_item& item = plugin().device();
  const auto options = abi_host::options_of(item.options, item.n_options, {});
  plait_device* device = nullptr;
  REQUIRE(item.open(plugin().host(), &options.head, &device) == nullptr);
  void* p = nullptr;
  // More than the GPU has, and more than the driver has left.
  for (const uint64_t bytes : {uint64_t{1} << 60, uint64_t{4096}}) {
    emulator_configure("cuMemAlloc:1:2", 1);
    plait_error* e = item.alloc(device, bytes, &p);
    REQUIRE(e != nullptr);
    CHECK(abi_host::error_code(e) == PLAIT_ERR_MEMORY);
    CHECK(take(e).find(std::to_string(bytes) + " bytes") != std::string::npos);
    CHECK(p == nullptr);
  }
  item.close(device);
  check_nothing_is_left();
}

// attention_cached of one token with 8 query heads and one key head, by the kernel "decode".
class Decode {
 public:
  Decode(plait_device* device, int64_t channels) {
    inputs_[0] = {PLAIT_F32, 4, {1, 1, 8, channels}};
    inputs_[1] = inputs_[2] = {PLAIT_F32, 4, {1, 8, 1, channels}};
    inputs_[2].dims[3] = 4;
    output_ = {PLAIT_F32, 4, {1, 1, 8, 4}};
    plait_op_desc d{};
    d.struct_size = sizeof d;
    d.op = "attention_cached";
    d.n_inputs = 5, d.n_outputs = d.n_attrs = 1;
    d.threads = 1;
    d.inputs = inputs_, d.outputs = &output_, d.attrs = &scale_;
    plait_choice choice{};
    choice.struct_size = sizeof choice;
    REQUIRE(item().select(&d, &choice) == 1);
    REQUIRE(choice.workspace == 0);
    REQUIRE(take(item().prepare(plugin().host(), device, &d, &kernel_)) == "");
  }
  ~Decode() { item().release(kernel_); }
  Decode(const Decode&) = delete;
  Decode& operator=(const Decode&) = delete;

  static const plait_kernel_item& item() {
    for (const plait_kernel_item* k : plugin().kernels())
      if (std::strcmp(k->op, "attention_cached") == 0 && std::strcmp(k->name, "decode") == 0)
        return *k;
    FAIL("no kernel decode of attention_cached");
    return *plugin().kernels()[0];
  }
  // Operands that are zeros will do.
  std::string run(plait_queue* queue, void* const* operands) const {
    return take(plugin().device().enqueue(queue, &item(), kernel_, operands, 6, nullptr));
  }

 private:
  plait_shape inputs_[5] = {{}, {}, {}, {PLAIT_I32, 1, {1}}, {PLAIT_I32, 2, {1, 1}}};
  plait_shape output_{};
  const plait_attr scale_{"scale", PLAIT_OPT_REAL, 0, 0, 1, nullptr, nullptr};
  plait_kernel* kernel_ = nullptr;
};

TEST_CASE("a kernel gets the shared memory that any of its prepared calls needs") {
  emulator_configure(nullptr, 1);
  emulator_set_static_shared("attention_decode_f32_8_1", 14592);
  const plait_device_item& item = plugin().device();
  const auto options = abi_host::options_of(item.options, item.n_options, {});
  plait_device* device = nullptr;
  plait_queue* queue = nullptr;
  REQUIRE(item.open(plugin().host(), &options.head, &device) == nullptr);
  REQUIRE(item.queue_open(device, &queue) == nullptr);
  void* operands[6] = {};
  for (auto& p : operands) REQUIRE(item.alloc(device, 8192, &p) == nullptr);
  {
    const Decode within(device, 128);  // 34 KiB, above the usual 48 with what is static
    CHECK(within.run(queue, operands) == "");
    const Decode large(device, 256), small(device, 192), smallest(device, 8);
    for (const Decode* each : {&large, &small, &within, &smallest})
      CHECK(each->run(queue, operands) == "");
    CHECK(take(item.sync(queue)) == "");
  }
  for (void* p : operands) item.free(device, p);
  item.queue_close(queue);
  item.close(device);
  check_nothing_is_left();
}

TEST_CASE("whichever call of the driver fails, an error tells of it and nothing is left") {
  // The calls of a life without faults.
  emulator_configure(nullptr, 1);
  const Life good;
  REQUIRE(good.errors().empty());
  const Calls calls = calls_so_far();
  CHECK(calls.at("cuLaunchKernel") == 2);
  const auto must_tell = [&](const std::string& name, uint64_t call) {
    return call <= good.before_closing().at(name) && name.find("Destroy") == std::string::npos;
  };
  for (const auto& [name, n] : calls)
    for (uint64_t call = 1; call <= n; ++call)
      for (const int result : {2, 700, 999}) {
        const std::string fault = name + ":" + std::to_string(call) + ":" + std::to_string(result);
        CAPTURE(fault);
        emulator_configure(fault.c_str(), 1);
        const Life life;
        if (must_tell(name, call)) CHECK(!life.errors().empty());
        for (const std::string& text : life.errors()) CHECK(text.find("[cuda]") == 0);
        check_nothing_is_left();
        // The next session of the process is not affected, unless the GPU is lost.
        emulator_configure(nullptr, 1);
        CHECK(Life().errors() == std::vector<std::string>{});
      }
}

}  // namespace
