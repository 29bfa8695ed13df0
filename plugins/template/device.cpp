// A device: memory, queues of work in order, events, and recorded work that is launched as one.
// open() fails here, so nothing else is ever called; each function shows what it must do. A device
// of your own keeps the host in each object, to make errors with.
#include <plait/device.h>

#include <cstdio>

#include "plugins/template/template.hpp"

namespace plait::null {
namespace {

struct Object {
  const plait_host* host;
};

// "unimplemented", made with the host that any object of this device begins with.
plait_error* refuse(const void* object, const char* what) {
  return detail::guard(detail::maker(static_cast<const Object*>(object)->host),
                       [&] { unimplemented(what, "device.cpp"); });
}

constexpr plait_option kOptions[] = {
    at_least(opt_int("threads", "0", "threads that compute; 0: all cores"), 0),
};

uint32_t threads(const plait_options*) { return 1; }
plait_error* open(const plait_host* host, const plait_options*, plait_device**) {
  return detail::guard(detail::maker(host),
                       [] { unimplemented("device 'template.device'", "device.cpp"); });
}
void close(plait_device*) {}
plait_error* info(const plait_device* d, plait_device_info*) { return refuse(d, "info()"); }

// Aligned to 64, content zero.
plait_error* alloc(plait_device* d, uint64_t, void**) { return refuse(d, "alloc()"); }
void free_memory(plait_device*, void*) {}

plait_error* queue_open(plait_device* d, plait_queue**) { return refuse(d, "queue_open()"); }
void queue_close(plait_queue*) {}
// A device that computes on the host calls item->run(kernel, queue, operands, workspace) here;
// while capturing it notes the call and makes it at each launch. One that records its own work
// (plait_device_info.records) calls run() here in both cases: run() puts work on the queue, which a
// capture keeps and a launch repeats without calling run() again.
plait_error* enqueue(plait_queue* q, const plait_kernel_item*, const plait_kernel*, void* const*,
                     uint32_t, void*) {
  return refuse(q, "enqueue()");
}
plait_error* copy(plait_queue* q, uint32_t, void*, const void*, uint64_t) {
  return refuse(q, "copy()");
}
plait_error* sync(plait_queue* q) { return refuse(q, "sync()"); }

plait_error* event_open(plait_device* d, plait_event**) { return refuse(d, "event_open()"); }
void event_close(plait_event*) {}
plait_error* event_record(plait_event* e, plait_queue*) { return refuse(e, "event_record()"); }
plait_error* event_wait(plait_event* e, plait_queue*) { return refuse(e, "event_wait()"); }
plait_error* event_query(plait_event* e, uint32_t*) { return refuse(e, "event_query()"); }

plait_error* capture_begin(plait_queue* q) { return refuse(q, "capture_begin()"); }
plait_error* capture_end(plait_queue* q, plait_graph**) { return refuse(q, "capture_end()"); }
plait_error* graph_launch(plait_graph* g, plait_queue*) { return refuse(g, "graph_launch()"); }
void graph_close(plait_graph*) {}

// Asked for run.device = "auto": whether open() is likely to work here, and why not.
uint32_t probe(const plait_host*, const plait_options*, char* detail, uint64_t size) {
  if (detail && size) std::snprintf(detail, size, "it is a template; see device.cpp");
  return 0;
}
// Memory of the host that copies need not wait for. Leave both out where any memory will do.
plait_error* host_alloc(plait_device* d, uint64_t, void**) { return refuse(d, "host_alloc()"); }
void host_free(plait_device*, void*) {}

}  // namespace

void add_device(const Host& host) {
  static const plait_device_item device = {sizeof(plait_device_item),
                                           "template.device",
                                           "what the device is, in one line",
                                           kOptions,
                                           1,
                                           0,
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
                                           nullptr,   // peak_flops: not known
                                           nullptr};  // order: no streams of hosts
  host.add(device);
}

}  // namespace plait::null
