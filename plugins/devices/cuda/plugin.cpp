#include <cstdio>
#include <memory>
#include <plait/plugin.hpp>

#include "plugins/devices/cuda/device.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/queue.hpp"

namespace plait::cuda {
namespace {

using detail::guard;
using detail::maker;

Event& event_of(plait_event* e) { return *reinterpret_cast<Event*>(e); }
Graph& graph_of(plait_graph* g) { return *reinterpret_cast<Graph*>(g); }

// Runs f with the context of the device current; an exception becomes an error of its host.
template <class F>
plait_error* on(Device& device, F&& f) {
  return guard(maker(device.host().raw()), [&] {
    const CurrentContext current(device.context());
    f();
  });
}
// The same for an f that returns an error of the host or nullptr.
template <class F>
plait_error* pass_on(Device& device, F&& f) {
  return on(device, [&] { plait::check(f()); });
}
// For what reports no error. In a forked process it does nothing: everything is the other's.
template <class F>
void close_on(Device& device, F&& f) noexcept {
  if (forked()) return;
  const CurrentContext current(device.context(), std::nothrow);
  f();
}

uint32_t threads(const plait_options*) { return 1; }

uint32_t probe(const plait_host* host, const plait_options* options, char* detail, uint64_t size) {
  std::string why;
  const bool found = Device::probe(host, Options(options), why);
  if (detail && size) std::snprintf(detail, size, "%s", why.c_str());
  return found ? 1 : 0;
}

plait_error* open(const plait_host* host, const plait_options* options, plait_device** out) {
  return guard(maker(host), [&] {
    auto device = std::make_unique<Device>(host, Options(options));
    *out = device.release()->handle();
  });
}
void close(plait_device* d) {
  if (!forked()) delete &device_of(d);
}

plait_error* info(const plait_device* d, plait_device_info* out) {
  Device& device = device_of(const_cast<plait_device*>(d));
  return on(device, [&] { device.info(*out); });
}

plait_error* alloc(plait_device* d, uint64_t bytes, void** out) {
  return on(device_of(d), [&] { *out = device_of(d).alloc(bytes); });
}
void free_memory(plait_device* d, void* memory) {
  close_on(device_of(d), [&] { device_of(d).free(memory); });
}
plait_error* host_alloc(plait_device* d, uint64_t bytes, void** out) {
  return on(device_of(d), [&] { *out = device_of(d).host_alloc(bytes); });
}
void host_free(plait_device* d, void* memory) {
  close_on(device_of(d), [&] { device_of(d).host_free(memory); });
}

double peak_flops(plait_device* d, uint32_t dtype) {
  try {
    return device_of(d).peak_flops(dtype);
  } catch (...) {
    return 0;  // not known
  }
}

plait_error* queue_open(plait_device* d, plait_queue** out) {
  return on(device_of(d), [&] { *out = (new Queue(device_of(d)))->handle(); });
}
void queue_close(plait_queue* q) {
  close_on(queue_of(q).device(), [&] { delete &queue_of(q); });
}

plait_error* enqueue(plait_queue* q, const plait_kernel_item* item, const plait_kernel* kernel,
                     void* const* operands, uint32_t n, void* workspace) {
  return pass_on(queue_of(q).device(),
                 [&] { return queue_of(q).enqueue(item, kernel, operands, n, workspace); });
}
plait_error* copy(plait_queue* q, uint32_t direction, void* to, const void* from, uint64_t bytes) {
  return on(queue_of(q).device(), [&] { queue_of(q).copy(direction, to, from, bytes); });
}
plait_error* sync(plait_queue* q) {
  return on(queue_of(q).device(), [&] { queue_of(q).sync(); });
}

plait_error* event_open(plait_device* d, plait_event** out) {
  return on(device_of(d), [&] { *out = reinterpret_cast<plait_event*>(new Event(device_of(d))); });
}
void event_close(plait_event* e) {
  close_on(event_of(e).device(), [&] { delete &event_of(e); });
}
plait_error* event_record(plait_event* e, plait_queue* q) {
  return on(queue_of(q).device(), [&] { queue_of(q).record(event_of(e)); });
}
plait_error* event_wait(plait_event* e, plait_queue* q) {
  return on(queue_of(q).device(), [&] { queue_of(q).wait(event_of(e)); });
}
plait_error* event_query(plait_event* e, uint32_t* done) {
  return on(event_of(e).device(), [&] { *done = event_of(e).passed() ? 1 : 0; });
}

plait_error* capture_begin(plait_queue* q) {
  return on(queue_of(q).device(), [&] { queue_of(q).capture_begin(); });
}
plait_error* capture_end(plait_queue* q, plait_graph** out) {
  return on(queue_of(q).device(),
            [&] { *out = reinterpret_cast<plait_graph*>(queue_of(q).capture_end()); });
}
plait_error* graph_launch(plait_graph* g, plait_queue* q) {
  return pass_on(queue_of(q).device(), [&] { return queue_of(q).launch(graph_of(g)); });
}
void graph_close(plait_graph* g) {
  close_on(graph_of(g).device(), [&] { delete &graph_of(g); });
}

plait_error* order(plait_queue* q, uint32_t order, void* stream) {
  return on(queue_of(q).device(), [&] { queue_of(q).order(order, static_cast<CUstream>(stream)); });
}

const plait_device_item& item() {
  static const plait_device_item device = {sizeof(plait_device_item),
                                           "cuda",
                                           "an NVIDIA GPU",
                                           Device::options().data(),
                                           static_cast<uint32_t>(Device::options().size()),
                                           100,
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
  return device;
}

}  // namespace
}  // namespace plait::cuda

PLAIT_PLUGIN("device-cuda", "0.1.0", "Apache-2.0", "NVIDIA GPUs: CUDA graphs, cuBLASLt, NVRTC") {
  static const auto kernels = plait::cuda::kernels();
  host.add(plait::cuda::item());
  for (const auto& k : kernels) host.add(k);
}
