// The device itself: memory, copies, events, capture, and its errors.
#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/conformance/runner.hpp"

namespace conformance {
namespace {

TEST_CASE("memory is zero, aligned, and of any size") {
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    const Device d(*plugin);
    for (uint64_t bytes :
         {uint64_t{0}, uint64_t{1}, uint64_t{4096}, uint64_t{5} << 20, (uint64_t{9} << 20) + 1}) {
      void* p = nullptr;
      check(d.item().alloc(d.get(), bytes, &p));
      REQUIRE(p != nullptr);
      CHECK(reinterpret_cast<uintptr_t>(p) % 64 == 0);
      Bytes data(bytes, 1);
      check(d.item().copy(d.queue(), PLAIT_COPY_TO_HOST, data.data(), p, bytes));
      check(d.item().sync(d.queue()));
      CHECK(std::all_of(data.begin(), data.end(), [](unsigned char c) { return c == 0; }));
      d.item().free(d.get(), p);
    }
    d.item().free(d.get(), nullptr);
  }
}

TEST_CASE("memory that is not to be had is an error that says how much was asked for") {
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    const Device d(*plugin);
    void* p = &p;
    const std::string text = take(d.item().alloc(d.get(), uint64_t{1} << 60, &p));
    CHECK(text.find("1152921504606846976 bytes") != std::string::npos);
    CHECK(p == &p);
  }
  CHECK(live_errors() == 0);
}

TEST_CASE("copies and events come in order, directly and captured") {
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    const Device d(*plugin);
    const plait_device_item& item = d.item();
    Buffer a(d, 1000), b(d, 1000);
    a.put(Bytes(1000, 7));
    check(item.capture_begin(d.queue()));
    check(item.copy(d.queue(), PLAIT_COPY_ON_DEVICE, b.data(), a.data(), 1000));
    plait_graph* graph = nullptr;
    check(item.capture_end(d.queue(), &graph));
    CHECK(b.get() != Bytes(1000, 7));  // recorded, not run
    check(item.graph_launch(graph, d.queue()));
    CHECK(b.get() == Bytes(1000, 7));
    a.put(Bytes(1000, 9));
    check(item.graph_launch(graph, d.queue()));
    CHECK(b.get() == Bytes(1000, 9));
    item.graph_close(graph);

    plait_event* event = nullptr;
    check(item.event_open(d.get(), &event));
    check(item.event_record(event, d.queue()));
    check(item.event_wait(event, d.queue()));
    check(item.sync(d.queue()));
    uint32_t done = 0;
    check(item.event_query(event, &done));
    CHECK(done == 1);
    item.event_close(event);
  }
}

TEST_CASE("calls out of order are errors and change nothing") {
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    const Device d(*plugin);
    const plait_device_item& item = d.item();
    plait_graph* graph = nullptr;
    CHECK(take(item.capture_end(d.queue(), &graph)).find("capture_begin") != std::string::npos);
    CHECK(graph == nullptr);
    check(item.capture_begin(d.queue()));
    CHECK(take(item.capture_begin(d.queue())).find("end that capture") != std::string::npos);
    check(item.capture_end(d.queue(), &graph));
    check(item.capture_begin(d.queue()));
    CHECK(take(item.graph_launch(graph, d.queue())).find("end that capture") != std::string::npos);
    plait_graph* empty = nullptr;
    check(item.capture_end(d.queue(), &empty));
    check(item.graph_launch(empty, d.queue()));
    item.graph_close(graph);
    item.graph_close(empty);
  }
  CHECK(live_errors() == 0);
}

TEST_CASE("a device that tells its peak tells it of floats, the same each time") {
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    const Device d(*plugin);
    const plait_device_item& item = d.item();
    constexpr size_t kSize = offsetof(plait_device_item, peak_flops) + sizeof item.peak_flops;
    if (item.struct_size < kSize || !item.peak_flops) continue;
    const double f32 = item.peak_flops(d.get(), PLAIT_F32);
    CHECK(f32 > 0);
    CHECK(std::isfinite(f32));
    CHECK(item.peak_flops(d.get(), PLAIT_F32) == f32);
    CHECK(item.peak_flops(d.get(), PLAIT_F64) <= f32);
    CHECK(item.peak_flops(d.get(), PLAIT_I32) == 0);
    CHECK(item.peak_flops(d.get(), 12345) == 0);
  }
}

TEST_CASE("a device tells its threads and a summary, and several live side by side") {
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    const Device a(*plugin), b(*plugin, {{"threads", "1"}});
    for (const Device* d : {&a, &b}) {
      plait_device_info info{};
      info.struct_size = sizeof(info);
      check(d->item().info(d->get(), &info));
      CHECK(std::strlen(info.summary) > 0);
      CHECK(info.threads == d->threads());
    }
    CHECK(b.threads() <= 1);
  }
}

TEST_CASE("binding of threads leaves results as they are") {
  const Device oracle(reference());
  Case c;
  c.name = "softmax, bound";
  c.op = "softmax";
  c.inputs = {{f32({512, 1000})}};
  c.outputs = {f32({512, 1000})};
  const auto wanted = expected(oracle, c);
  for (const auto& plugin : plugins()) {
    const Device d(*plugin, {{"threads", "2"}, {"bind", "true"}, {"first_core", "0"}});
    CHECK(difference(c, run(d, *plugin->kernels("softmax")[0], c, 2, RunMode::direct), wanted) ==
          "");
  }
}

TEST_CASE(
    "the caller has its cores back when the device is closed, and a next device sees them all") {
  const auto mine = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
    return CPU_COUNT(&set);
  };
  const int before = mine();
  Case c;
  c.op = "softmax";
  c.inputs = {{f32({4, 5})}};
  c.outputs = {f32({4, 5})};
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    {
      const Device first(*plugin, {{"threads", "0"}});
      run(first, *plugin->kernels("softmax")[0], c, 1, RunMode::direct);
      const Device second(*plugin, {{"threads", "0"}});
      CHECK(second.threads() == first.threads());
    }
    CHECK(mine() == before);
  }
}

}  // namespace
}  // namespace conformance
