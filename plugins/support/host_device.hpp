// A plait_device_item for devices whose memory is host memory and whose work runs in the caller's
// thread.
//
// A device class D has:
//   static uint32_t threads(const Options&);     how many threads kernels get; pure
//   D(const Host&, const Options&);              may throw plait::Error
//   void info(plait_device_info&) const;
//   void* alloc(uint64_t bytes);                 64-aligned, zero; throws plait::Error
//   void free(void*) noexcept;
//   void enter() noexcept;                       before work runs, from the thread that runs it
//   void leave() noexcept;                       optional: a queue is closed, no work runs
//   double peak_flops(uint32_t dtype);           optional: see device.h
#pragma once

#include <memory>

#include <plait/plugin.hpp>

#include "plugins/support/host_queue.hpp"

namespace plait::support {

template <class D>
class HostDevice {
 public:
  static plait_device_item item(const char* name, const char* help,
                                std::span<const plait_option> options) {
    return {sizeof(plait_device_item),
            name,
            help,
            options.data(),
            static_cast<uint32_t>(options.size()),
            0,
            threads,
            open,
            close,
            info,
            alloc,
            free,
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
            nullptr,  // it is there wherever its plugin is
            nullptr,  // any host memory will do
            nullptr,
            peak_function(),
            nullptr};  // no streams of hosts
  }

 private:
  struct Device {
    const plait_host* host;
    D device;
    Device(const plait_host* h, const plait_options* o) : host(h), device(Host(h), Options(o)) {}
  };
  struct Queue {
    Device* device;
    std::unique_ptr<HostGraph> capturing;
  };
  struct Event {
    bool done = true;
  };

  static Device* of(plait_device* d) { return reinterpret_cast<Device*>(d); }
  static Queue* of(plait_queue* q) { return reinterpret_cast<Queue*>(q); }
  static plait_error* state_error(Queue* q, const char* text) {
    return q->device->host->error_new(PLAIT_ERR_STATE, text, PLAIT_NTS, nullptr);
  }

  static uint32_t threads(const plait_options* options) {
    try {
      return D::threads(Options(options));
    } catch (...) {
      return 1;
    }
  }
  static plait_error* open(const plait_host* host, const plait_options* options,
                           plait_device** out) {
    return detail::guard(detail::maker(host), [&] {
      *out = reinterpret_cast<plait_device*>(new Device(host, options));
    });
  }
  static void close(plait_device* d) { delete of(d); }
  static plait_error* info(const plait_device* d, plait_device_info* out) {
    const auto* device = reinterpret_cast<const Device*>(d);
    return detail::guard(detail::maker(device->host), [&] { device->device.info(*out); });
  }
  static plait_error* alloc(plait_device* d, uint64_t bytes, void** out) {
    return detail::guard(detail::maker(of(d)->host), [&] { *out = of(d)->device.alloc(bytes); });
  }
  static void free(plait_device* d, void* memory) { of(d)->device.free(memory); }

  static constexpr auto peak_function() -> double (*)(plait_device*, uint32_t) {
    if constexpr (requires(D & d) { d.peak_flops(uint32_t{}); })
      return [](plait_device* d, uint32_t dtype) -> double {
        try {
          of(d)->device.enter();
          return of(d)->device.peak_flops(dtype);
        } catch (...) {
          return 0;  // not known
        }
      };
    return nullptr;
  }

  static plait_error* queue_open(plait_device* d, plait_queue** out) {
    return detail::guard(detail::maker(of(d)->host), [&] {
      *out = reinterpret_cast<plait_queue*>(new Queue{of(d), nullptr});
    });
  }
  static void queue_close(plait_queue* q) {
    if constexpr (requires(D & d) { d.leave(); }) of(q)->device->device.leave();
    delete of(q);
  }

  static plait_error* submit(Queue* q, GraphStep step, void* const* operands, uint32_t n) {
    if (q->capturing)
      return detail::guard(detail::maker(q->device->host),
                           [&] { q->capturing->add(step, operands, n); });
    q->device->device.enter();
    try {
      plait_error* e =
          step.run(step.kernel, reinterpret_cast<plait_queue*>(q), operands, step.workspace);
      return e ? with_kernel_name(step, q->device->host, e) : nullptr;
    } catch (...) {
      return error_from_exception(step, q->device->host);
    }
  }
  static plait_error* enqueue(plait_queue* q, const plait_kernel_item* item,
                              const plait_kernel* kernel, void* const* operands, uint32_t n,
                              void* workspace) {
    return submit(of(q), {item->run, kernel, nullptr, workspace, item}, operands, n);
  }
  static plait_error* copy(plait_queue* q, uint32_t, void* to, const void* from, uint64_t bytes) {
    void* const operands[] = {to, const_cast<void*>(from),
                              reinterpret_cast<void*>(static_cast<uintptr_t>(bytes))};
    return submit(of(q), {run_copy, nullptr, nullptr, nullptr, nullptr}, operands, 3);
  }
  static plait_error* sync(plait_queue*) { return nullptr; }

  // Work is done when enqueue() returns, so an event has passed as soon as it is recorded.
  static plait_error* event_open(plait_device* d, plait_event** out) {
    return detail::guard(detail::maker(of(d)->host),
                         [&] { *out = reinterpret_cast<plait_event*>(new Event); });
  }
  static void event_close(plait_event* e) { delete reinterpret_cast<Event*>(e); }
  static plait_error* event_record(plait_event*, plait_queue*) { return nullptr; }
  static plait_error* event_wait(plait_event*, plait_queue*) { return nullptr; }
  static plait_error* event_query(plait_event* e, uint32_t* done) {
    *done = reinterpret_cast<Event*>(e)->done ? 1 : 0;
    return nullptr;
  }

  static plait_error* capture_begin(plait_queue* q) {
    if (of(q)->capturing)
      return state_error(of(q),
                         "[device] capture_begin while the queue captures: end that capture first");
    return detail::guard(detail::maker(of(q)->device->host),
                         [&] { of(q)->capturing = std::make_unique<HostGraph>(); });
  }
  static plait_error* capture_end(plait_queue* q, plait_graph** out) {
    if (!of(q)->capturing) return state_error(of(q), "[device] capture_end without capture_begin");
    of(q)->capturing->finish();
    *out = reinterpret_cast<plait_graph*>(of(q)->capturing.release());
    return nullptr;
  }
  static plait_error* graph_launch(plait_graph* g, plait_queue* q) {
    if (of(q)->capturing)
      return state_error(of(q),
                         "[device] graph_launch while the queue captures: end that capture first");
    of(q)->device->device.enter();
    return reinterpret_cast<const HostGraph*>(g)->launch(q, of(q)->device->host);
  }
  static void graph_close(plait_graph* g) { delete reinterpret_cast<HostGraph*>(g); }
};

}  // namespace plait::support
