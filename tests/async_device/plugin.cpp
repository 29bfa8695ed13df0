// The device `async`, for tests: it works by itself, as a GPU does, and gives the bits of
// `reference`, whose kernels it runs. Its memory cannot be touched by the host, its queues have
// threads that take their time, a capture records and a launch repeats. What the host may not do is
// an error, or ends the process: to look at memory before the queue has passed, to copy what is not
// pinned where pinned memory was promised, to launch while capturing. With it comes a backend for
// its memory.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <plait/plugin.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kit/dtype.hpp"
#include "kit/shape.hpp"
#include "plugins/support/elements.hpp"
#include "plugins/support/plain/plain.hpp"
#include "tests/async_device/comm.hpp"
#include "tests/async_device/queue.hpp"

namespace async_device {
namespace {

using plait::detail::guard;
using plait::detail::maker;

Device& of(plait_device* d) { return *reinterpret_cast<Device*>(d); }
const Device& of(const plait_device* d) { return *reinterpret_cast<const Device*>(d); }

struct Event {
  Device& device;
  std::shared_ptr<Point> point = std::make_shared<Point>();
};
Event& of(plait_event* e) { return *reinterpret_cast<Event*>(e); }

template <class F>
plait_error* on(const Device& d, F&& f) {
  return guard(maker(d.host), std::forward<F>(f));
}

constexpr plait_option kOptions[] = {
    plait::opt_bool("pinned_only", "false", "refuse copies of pageable host memory"),
    plait::opt_bool("visible", "false", "its memory is host memory"),
    plait::opt_bool("extension", "false", "visible memory has a DLPack type of its own"),
    plait::opt_bool("by_calls", "false", "no graph may contain a collective"),
    plait::at_least(plait::opt_int("delay", "200", "longest pause between two works"), 0),
    plait::at_least(plait::opt_int("seed", "1", "of the pauses"), 0),
    plait::at_least(plait::opt_int("open_pause", "0", "milliseconds that opening takes"), 0),
    plait::opt_text("hang", "\"\"", "a file; while it exists, the device does nothing"),
    plait::opt_text("identity", "\"plain loops in double\"", "what ranks compare"),
};

uint32_t threads(const plait_options*) { return 1; }

uint32_t probe(const plait_host*, const plait_options*, char* detail, uint64_t size) {
  if (detail && size) std::snprintf(detail, size, "it is for tests that ask for it by name");
  return 0;
}

plait_error* open(const plait_host* host, const plait_options* raw, plait_device** out) {
  return guard(maker(host), [&] {
    const plait::Options options(raw);
    std::this_thread::sleep_for(std::chrono::milliseconds(options.integer("open_pause")));
    auto device = std::make_unique<Device>();
    device->host = host;
    device->pinned_only = options.flag("pinned_only");
    device->visible = options.flag("visible");
    device->extension = options.flag("extension");
    device->by_calls = options.flag("by_calls");
    if (device->visible) device->memory.make_visible();
    device->delay_us = options.integer("delay");
    device->seed = static_cast<uint32_t>(options.integer("seed"));
    device->hang = options.text("hang");
    device->identity = options.text("identity");
    *out = reinterpret_cast<plait_device*>(device.release());
  });
}
void close(plait_device* d) { delete &of(d); }

plait_error* info(const plait_device* d, plait_device_info* out) {
  const plait_device_info all = {out->struct_size, of(d).visible ? 1u : 0u, 1, uint64_t{1} << 40,
                                 "plain loops in double on threads of its own",
                                 // DLPack: host, or an extension device
                                 of(d).visible && !of(d).extension ? 1 : 12, 0, 1, 0,
                                 of(d).identity.c_str(), of(d).by_calls ? 1u : 0u, 0};
  std::memcpy(out, &all, std::min(out->struct_size, sizeof all));
  return nullptr;
}

plait_error* alloc(plait_device* d, uint64_t bytes, void** out) {
  return on(of(d), [&] { *out = of(d).memory.alloc(bytes); });
}
void free_memory(plait_device* d, void* memory) { of(d).memory.free(memory); }
plait_error* host_alloc(plait_device* d, uint64_t bytes, void** out) {
  return on(of(d), [&] { *out = of(d).memory.pinned_alloc(bytes); });
}
double peak_flops(plait_device*, uint32_t dtype) { return dtype == PLAIT_F32 ? 1e9 : 0; }
void host_free(plait_device* d, void* memory) { of(d).memory.pinned_free(memory); }

plait_error* queue_open(plait_device* d, plait_queue** out) {
  return on(of(d), [&] { *out = reinterpret_cast<plait_queue*>(new Queue(of(d))); });
}
void queue_close(plait_queue* q) { delete &queue_of(q); }

template <class F>
plait_error* on(plait_queue* q, F&& f) {
  return on(queue_of(q).device(), std::forward<F>(f));
}
// As a device that records does it: run() puts work on the queue, or into its record.
plait_error* enqueue(plait_queue* q, const plait_kernel_item* item, const plait_kernel* kernel,
                     void* const* operands, uint32_t, void* workspace) {
  return item->run(kernel, q, operands, workspace);
}
plait_error* copy(plait_queue* q, uint32_t direction, void* to, const void* from, uint64_t bytes) {
  return on(q, [&] { queue_of(q).copy(direction, to, from, bytes); });
}
plait_error* sync(plait_queue* q) {
  return on(q, [&] { queue_of(q).sync(); });
}

plait_error* event_open(plait_device* d, plait_event** out) {
  return on(of(d), [&] { *out = reinterpret_cast<plait_event*>(new Event{of(d)}); });
}
void event_close(plait_event* e) { delete &of(e); }
plait_error* event_record(plait_event* e, plait_queue* q) {
  return on(q, [&] { queue_of(q).put_point(of(e).point, of(e).point->next()); });
}
plait_error* event_wait(plait_event* e, plait_queue* q) {
  return on(q, [&] { queue_of(q).put_wait(of(e).point, of(e).point->asked()); });
}
plait_error* event_query(plait_event* e, uint32_t* done) {
  return on(of(e).device, [&] { *done = of(e).point->passed(of(e).point->asked()) ? 1 : 0; });
}

// A stream of a host is a queue of the same device.
plait_error* order(plait_queue* q, uint32_t order, void* stream) {
  return on(q, [&] {
    if (order != PLAIT_QUEUE_AFTER_STREAM && order != PLAIT_STREAM_AFTER_QUEUE)
      plait::fail(PLAIT_ERR_INVALID, "[async] order " + std::to_string(order));
    Queue &own = queue_of(q), &other = *static_cast<Queue*>(stream);
    const bool own_waits = order == PLAIT_QUEUE_AFTER_STREAM;
    const auto point = std::make_shared<Point>();
    const uint64_t number = point->next();
    (own_waits ? other : own).put_point(point, number);
    (own_waits ? own : other).put_wait(point, number);
  });
}

plait_error* capture_begin(plait_queue* q) {
  return on(q, [&] { queue_of(q).capture_begin(); });
}
plait_error* capture_end(plait_queue* q, plait_graph** out) {
  return on(q, [&] { *out = reinterpret_cast<plait_graph*>(queue_of(q).capture_end().release()); });
}
plait_error* graph_launch(plait_graph* g, plait_queue* q) {
  return on(q, [&] { queue_of(q).launch(*reinterpret_cast<Graph*>(g)); });
}
void graph_close(plait_graph* g) { delete reinterpret_cast<Graph*>(g); }

// A kernel of `reference`, whose operands are addresses of this device.
struct Kernel {
  // A copy: a device that was given up may run while the process destroys what is static.
  plait_kernel_item item;
  Device& device;
  plait_kernel* inner;
  std::vector<uint64_t> bytes;  // of each operand
  uint64_t workspace;
};

const std::vector<plait_kernel_item>& inner_items() {
  static const auto kItems = plait::support::plain_kernels("async");
  return kItems;
}

// The kernel that takes the op, and its workspace.
const plait_kernel_item& item_for(const plait_op_desc& desc, uint64_t& workspace) {
  for (const plait_kernel_item& item : inner_items()) {
    plait_choice choice{sizeof(plait_choice), 0, nullptr, 0};
    if (std::string_view(item.op) != desc.op || item.select(&desc, &choice) != 1) continue;
    workspace = choice.workspace;
    return item;
  }
  plait::fail(PLAIT_ERR_INTERNAL, std::string("[async] no kernel takes ") + desc.op);
}

uint64_t bytes_of(const plait_shape& s) {
  return static_cast<uint64_t>(plait::kit::elements(s)) * plait::kit::dtype_bytes(s.dtype);
}

plait_error* prepare(const plait_host* host, plait_device* device, const plait_op_desc* desc,
                     plait_kernel** out) {
  return guard(maker(host), [&] {
    uint64_t workspace = 0;
    const plait_kernel_item& item = item_for(*desc, workspace);
    auto kernel = std::make_unique<Kernel>(Kernel{item, of(device), nullptr, {}, workspace});
    for (uint32_t i = 0; i < desc->n_inputs; ++i)
      kernel->bytes.push_back(bytes_of(desc->inputs[i]));
    for (uint32_t i = 0; i < desc->n_outputs; ++i)
      kernel->bytes.push_back(bytes_of(desc->outputs[i]));
    plait::check(item.prepare(host, device, desc, &kernel->inner));
    *out = reinterpret_cast<plait_kernel*>(kernel.release());
  });
}

plait_error* run(const plait_kernel* k, plait_queue* q, void* const* operands, void* workspace) {
  const auto& kernel = *reinterpret_cast<const Kernel*>(k);
  return on(q, [&] {
    std::vector<void*> behind;
    for (size_t i = 0; i < kernel.bytes.size(); ++i)
      behind.push_back(kernel.device.memory.behind(operands[i], kernel.bytes[i], kernel.item.op));
    void* const scratch =
        kernel.workspace ? kernel.device.memory.behind(workspace, kernel.workspace, "a workspace")
                         : nullptr;
    queue_of(q).put([&kernel, q, behind = std::move(behind), scratch] {
      plait::check(kernel.item.run(kernel.inner, q, behind.data(), scratch));
    });
  });
}

void release(plait_kernel* k) {
  auto* kernel = reinterpret_cast<Kernel*>(k);
  kernel->item.release(kernel->inner);
  delete kernel;
}

}  // namespace
}  // namespace async_device

PLAIT_PLUGIN("device-async", "0.1.0", "Apache-2.0", "A device that works by itself, for tests") {
  using namespace async_device;
  static const plait_device_item device = {sizeof(plait_device_item),
                                           "async",
                                           "works by itself, in memory of its own",
                                           kOptions,
                                           std::size(kOptions),
                                           1000,
                                           threads,
                                           open,
                                           close,
                                           info,
                                           alloc,
                                           free_memory,
                                           queue_open,
                                           queue_close,
                                           enqueue,
                                           copy,
                                           sync,
                                           event_open,
                                           event_close,
                                           event_record,
                                           event_wait,
                                           event_query,
                                           capture_begin,
                                           capture_end,
                                           graph_launch,
                                           graph_close,
                                           probe,
                                           host_alloc,
                                           host_free,
                                           peak_flops,
                                           order};
  // Without the op that this variable names, at each registration: the plugin may stay loaded.
  const char* const without = std::getenv("ASYNC_DEVICE_WITHOUT");
  static std::map<std::string, std::vector<plait_kernel_item>, std::less<>> lists;
  std::vector<plait_kernel_item>& kernels = lists[without ? without : ""];
  if (kernels.empty())
    kernels = [&] {
      std::vector<plait_kernel_item> all = inner_items();
      std::erase_if(all,
                    [&](const auto& k) { return without && std::string_view(k.op) == without; });
      for (plait_kernel_item& k : all) {
        k.prepare = prepare;
        k.run = run;
        k.release = release;
      }
      return all;
    }();
  static const auto comm =
      plait::comm<Group>("async", "memory of the device async", PLAIT_COMM_REACH_PROCESS, "async");
  host.add(device);
  for (const auto& k : kernels) host.add(k);
  host.add(comm);
}
