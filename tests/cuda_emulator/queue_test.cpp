// Recorded work is launched on the queue that launches it, whichever recorded it, as CUDA graphs
// and as lists of calls.
#include <plait/cuda.h>

#include <map>

#include "tests/cuda_emulator/plugin.hpp"

using namespace cuda_emulator;

namespace {

uint64_t calls_of(const char* name) {
  std::map<std::string, uint64_t> calls;
  emulator_calls(
      [](void* to, const char* entry, uint64_t n) {
        (*static_cast<std::map<std::string, uint64_t>*>(to))[entry] = n;
      },
      &calls);
  return calls[name];
}

TEST_CASE("a capture of one queue is launched on another after the first is closed") {
  for (const char* graphs : {"true", "false"}) {
    CAPTURE(graphs);
    emulator_configure(nullptr, 1);
    const auto& item = OpenDevice::item();
    {
      const OpenDevice device(abi_host::OptionValues{{"graphs", graphs}});
      float* host = device.pinned();
      float* memory[2] = {device.memory(), device.memory()};
      plait_queue *a = device.queue(), *b = device.queue();
      plait_graph* graph = nullptr;
      CHECK(take(item.capture_begin(a)) == "");
      CHECK(take(item.copy(a, PLAIT_COPY_TO_DEVICE, memory[0], host, kSoftmaxBytes)) == "");
      CHECK(take(item.copy(a, PLAIT_COPY_ON_DEVICE, memory[1], memory[0], kSoftmaxBytes)) == "");
      CHECK(take(item.copy(a, PLAIT_COPY_TO_HOST, host + 1, memory[1], 4)) == "");
      CHECK(take(item.capture_end(a, &graph)) == "");
      item.queue_close(a);
      host[0] = 7;
      CHECK(host[1] == 0);
      CHECK(take(item.graph_launch(graph, b)) == "");
      CHECK(take(item.sync(b)) == "");
      CHECK(host[1] == 7);
      item.graph_close(graph);
      item.queue_close(b);
      for (float* m : memory) item.free(device.get(), m);
      item.host_free(device.get(), host);
    }
    check_nothing_is_left();
  }
}

TEST_CASE("an event is done once the driver says so") {
  emulator_configure("cuEventQuery:1:600", 1);  // CUDA_ERROR_NOT_READY
  const auto& item = OpenDevice::item();
  {
    const OpenDevice device;
    plait_queue* queue = device.queue();
    plait_event* event = device.event();
    CHECK(take(item.event_record(event, queue)) == "");
    for (const uint32_t expected : {0u, 1u}) {
      uint32_t done = 7;
      CHECK(take(item.event_query(event, &done)) == "");
      CHECK(done == expected);
    }
    item.event_close(event);
    item.queue_close(queue);
  }
  check_nothing_is_left();
}

// The log of a device's host.
std::string logged;

TEST_CASE("the log says how many nodes a graph has and what it takes of the GPU's memory") {
  emulator_configure(nullptr, 1);
  logged.clear();
  plait_host host = *plugin().host();
  host.log = [](const plait_host*, uint32_t level, const char* text, uint64_t size) {
    if (level == PLAIT_LOG_DEBUG) logged += std::string(text, size) + "\n";
  };
  const auto& item = OpenDevice::item();
  {
    const OpenDevice device({}, host);
    float* memory[2] = {device.memory(), device.memory()};
    plait_queue* queue = device.queue();
    plait_graph* graph = nullptr;
    CHECK(take(item.capture_begin(queue)) == "");
    for (int i = 0; i < 3; ++i)
      CHECK(take(item.copy(queue, PLAIT_COPY_ON_DEVICE, memory[1], memory[0], 4)) == "");
    CHECK(take(item.capture_end(queue, &graph)) == "");
    CHECK(logged ==
          "[cuda] a graph of 3 nodes takes about 3072 bytes of the GPU's memory, beside the memory "
          "that "
          "is planned\n");
    item.graph_close(graph);
    item.queue_close(queue);
    for (float* m : memory) item.free(device.get(), m);
  }
  check_nothing_is_left();
}

TEST_CASE("events of a list of calls are recorded and waited for at each launch") {
  emulator_configure(nullptr, 1);
  const auto& item = OpenDevice::item();
  {
    const OpenDevice device(abi_host::OptionValues{{"graphs", "false"}});
    plait_event* event = device.event();
    plait_queue *a = device.queue(), *b = device.queue();
    plait_graph* graph = nullptr;
    CHECK(take(item.capture_begin(a)) == "");
    CHECK(take(item.event_record(event, a)) == "");
    CHECK(take(item.event_wait(event, a)) == "");
    CHECK(take(item.capture_end(a, &graph)) == "");
    CHECK(calls_of("cuEventRecord") == 0);
    CHECK(calls_of("cuStreamWaitEvent") == 0);
    item.queue_close(a);
    for (uint64_t launches : {1, 2}) {
      CHECK(take(item.graph_launch(graph, b)) == "");
      CHECK(calls_of("cuEventRecord") == launches);
      CHECK(calls_of("cuStreamWaitEvent") == launches);
    }
    item.graph_close(graph);
    item.queue_close(b);
    item.event_close(event);
  }
  check_nothing_is_left();
}

TEST_CASE("a queue and a stream of the host are ordered, but not while the queue captures") {
  for (const char* graphs : {"true", "false"}) {
    CAPTURE(graphs);
    emulator_configure(nullptr, 1);
    const auto& item = OpenDevice::item();
    {
      const OpenDevice device(abi_host::OptionValues{{"graphs", graphs}});
      plait_queue *queue = device.queue(), *other = device.queue();
      void* const stream = reinterpret_cast<plait_cuda_queue*>(other)->stream;
      for (const uint32_t order : {PLAIT_QUEUE_AFTER_STREAM, PLAIT_STREAM_AFTER_QUEUE})
        CHECK(take(item.order(queue, order, stream)) == "");
      CHECK(calls_of("cuEventRecord") == 2);
      CHECK(calls_of("cuStreamWaitEvent") == 2);
      const std::string unknown = take(item.order(queue, 3, stream));
      CHECK(unknown.find("[cuda] order 3 of a queue and a stream, expected") == 0);
      REQUIRE(take(item.capture_begin(queue)) == "");
      const std::string captures = take(item.order(queue, PLAIT_QUEUE_AFTER_STREAM, stream));
      CHECK(captures.find("[cuda] order while the queue captures") == 0);
      plait_graph* graph = nullptr;
      REQUIRE(take(item.capture_end(queue, &graph)) == "");
      item.graph_close(graph);
      item.queue_close(queue);
      item.queue_close(other);
    }
    check_nothing_is_left();
  }
}

TEST_CASE("an error of work on the GPU says how to find the kernel") {
  emulator_configure("cuStreamSynchronize:1:700", 1);
  const auto& item = OpenDevice::item();
  {
    const OpenDevice device;
    plait_queue* queue = device.queue();
    const std::string error = take(item.sync(queue));
    CHECK(error.find("[cuda] work on the GPU failed: an illegal memory access") == 0);
    CHECK(error.find("run with device.graphs = false") != std::string::npos);
    item.queue_close(queue);
  }
  check_nothing_is_left();
}

}  // namespace
