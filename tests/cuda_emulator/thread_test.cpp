// Threads, and the context that is current on them; forked processes.
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "tests/cuda_emulator/plugin.hpp"

using namespace cuda_emulator;

namespace {

CUcontext current() {
  CUcontext c = nullptr;
  REQUIRE(cuCtxGetCurrent(&c) == CUDA_SUCCESS);
  return c;
}

// A host that uses CUDA itself, on GPU 2.
class HostContext {
 public:
  HostContext() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context_, 2) == CUDA_SUCCESS);
    enter();
  }
  ~HostContext() {
    cuCtxSetCurrent(nullptr);
    cuDevicePrimaryCtxRelease(2);
  }
  HostContext(const HostContext&) = delete;
  HostContext& operator=(const HostContext&) = delete;
  void enter() const { REQUIRE(cuCtxSetCurrent(context_) == CUDA_SUCCESS); }
  CUcontext get() const { return context_; }

 private:
  CUcontext context_ = nullptr;
};

// A device with all kinds of objects, each call of which leaves the thread as it was.
class User {
 public:
  explicit User(const char* index)
      : device_(abi_host::OptionValues{{"index", index}}), context_(current()) {}
  CUcontext context() const { return context_; }
  void open() {
    keeping([&] { queue_ = device_.queue(); });
    keeping([&] { event_ = device_.event(); });
    keeping([&] { host_ = device_.pinned(); });
    for (void*& p : memory_) keeping([&] { p = device_.memory(); });
    const plait_op_desc desc = softmax_desc();
    good([&] { return softmax().prepare(plugin().host(), device_.get(), &desc, &kernel_); });
  }
  void use() {
    const auto& item = OpenDevice::item();
    const auto enqueue = [&] {
      return item.enqueue(queue_, &softmax(), kernel_, memory_, 2, nullptr);
    };
    good([&] { return item.copy(queue_, PLAIT_COPY_TO_DEVICE, memory_[0], host_, kSoftmaxBytes); });
    good(enqueue);
    plait_graph* graph = nullptr;
    good([&] { return item.capture_begin(queue_); });
    good(enqueue);
    good([&] { return item.copy(queue_, PLAIT_COPY_TO_HOST, host_, memory_[1], kSoftmaxBytes); });
    good([&] { return item.capture_end(queue_, &graph); });
    good([&] { return item.graph_launch(graph, queue_); });
    good([&] { return item.event_record(event_, queue_); });
    good([&] { return item.event_wait(event_, queue_); });
    uint32_t done = 0;
    good([&] { return item.event_query(event_, &done); });
    good([&] { return item.sync(queue_); });
    keeping([&] { item.graph_close(graph); });
    CHECK(host_[14] == doctest::Approx(0.2));
  }
  // The queue captures.
  void close() {
    const auto& item = OpenDevice::item();
    good([&] { return item.capture_begin(queue_); });
    keeping([&] { item.queue_close(queue_); });
    keeping([&] { item.event_close(event_); });
    keeping([&] { item.host_free(device_.get(), host_); });
    for (void* p : memory_) keeping([&] { item.free(device_.get(), p); });
    keeping([&] { softmax().release(kernel_); });
  }
  void close_device() { device_.close(); }

 private:
  static void keeping(const std::function<void()>& f) {
    const CUcontext before = current();
    f();
    CHECK(current() == before);
  }
  static void good(const std::function<plait_error*()>& f) {
    keeping([&] { CHECK(take(f()) == ""); });
  }

  OpenDevice device_;
  const CUcontext context_;
  plait_queue* queue_ = nullptr;
  plait_event* event_ = nullptr;
  float* host_ = nullptr;
  void* memory_[2] = {};
  plait_kernel* kernel_ = nullptr;
};

TEST_CASE("two devices in turn on one thread, whose context comes back when they are closed") {
  emulator_configure(nullptr, 3);
  {
    const HostContext mine;
    User a("0"), b("1");
    CHECK(a.context() != b.context());
    CHECK(current() == b.context());
    a.open();
    b.open();
    for (int i = 0; i < 2; ++i) {
      a.use();
      b.use();
    }
    a.close();
    b.close();
    SUBCASE("the last one first") {
      b.close_device();
      CHECK(current() == a.context());
      a.close_device();
    }
    SUBCASE("the first one first") {
      a.close_device();
      CHECK(current() == b.context());
      b.close_device();
    }
    CHECK(current() == mine.get());
  }
  check_nothing_is_left();
}

TEST_CASE("other threads keep their context, and one that the host chooses stays") {
  emulator_configure(nullptr, 3);
  {
    const HostContext mine;
    User a("0");
    std::thread([&] {
      CHECK(current() == nullptr);
      a.open();
      mine.enter();
      a.use();
      a.close();
    }).join();
    mine.enter();
    a.open();
    a.use();
    a.close();
    a.close_device();
    CHECK(current() == mine.get());
  }
  check_nothing_is_left();
}

TEST_CASE("a forked process is told that CUDA does not work in it") {
  emulator_configure(nullptr, 1);
  {
    const OpenDevice device;
    plait_queue* queue = device.queue();
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const auto& item = OpenDevice::item();
      const auto options = abi_host::options_of(item.options, item.n_options, {});
      const std::string text = "[cuda] this process was forked";
      char why[512] = "";
      plait_device* second = nullptr;
      const std::string live = emulator_live();
      bool good = take(item.open(plugin().host(), &options.head, &second)).find(text) == 0;
      good = good && item.probe(plugin().host(), &options.head, why, sizeof why) == 0;
      good = good && std::string(why).find(text) == 0;
      good = good && take(item.sync(queue)).find(text) == 0;
      item.queue_close(queue);
      item.close(device.get());
      good = good && emulator_live() == live;
      _exit(good ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(take(OpenDevice::item().sync(queue)) == "");
    OpenDevice::item().queue_close(queue);
  }
  check_nothing_is_left();
}

}  // namespace
