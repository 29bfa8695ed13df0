#include "engine/runtime/staged.hpp"

#include <algorithm>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/program/shape.hpp"

namespace plait::runtime {
namespace {

class StagedGroup {
 public:
  StagedGroup(const CommBackend& host, std::shared_ptr<const Device> device,
              const plait_comm_setup& setup)
      : item(*host.item),
        plugin(host.plugin),
        log(host.host),
        device(std::move(device)),
        rank(setup.rank),
        size(setup.size) {
    plait_comm_setup behind = setup;
    behind.device = nullptr;
    call("open", [&] { return item.open(host.host, host.options, &behind, &comm); });
  }
  ~StagedGroup() {
    call_plugin_noexcept(log, {"", "close", "backend", item.name}, [&] { item.close(comm); });
  }
  StagedGroup(const StagedGroup&) = delete;
  StagedGroup& operator=(const StagedGroup&) = delete;

  template <class F>
  void call(const char* function, F&& f) const {
    if (plait_error* e = try_plugin({plugin, function, "backend", item.name}, f)) throw from_c(e);
  }

  const plait_comm_item& item;
  const std::string plugin;
  const plait_host* const log;
  const std::shared_ptr<const Device> device;
  const uint32_t rank, size;
  plait_comm* comm = nullptr;
};

// Operands of a call in bytes, and where they lie in the memory of the host.
struct Layout {
  uint64_t in = 0, out = 0;        // bytes that are copied
  uint64_t in_at = 0, out_at = 0;  // in place wherever a call may be
  uint64_t bytes = 0;
};

Layout layout_of(const plait_comm_desc& d, uint32_t rank, uint32_t size) {
  const uint64_t one = d.kind == PLAIT_COMM_BARRIER ? 0 : d.n * program::dtype_bytes(d.dtype);
  const uint64_t all = one * size, own = one * rank;
  switch (d.kind) {
    case PLAIT_COMM_REDUCE_SCATTER:
      return {all, one, 0, own, all};
    case PLAIT_COMM_ALL_GATHER:
      return {one, all, own, 0, all};
    case PLAIT_COMM_ALL_TO_ALL:
      return {all, all, 0, all, 2 * all};
    case PLAIT_COMM_BROADCAST:
      return {d.peer == rank ? one : 0, one, 0, 0, one};
    case PLAIT_COMM_SEND:
      return {one, 0, 0, 0, one};
    case PLAIT_COMM_RECEIVE:
      return {0, one, 0, 0, one};
    default:
      return {one, one, 0, 0, one};
  }
}

class StagedCall {
 public:
  StagedCall(const StagedGroup& group, const plait_comm_desc& desc)
      : group_(group),
        in_(desc.in),
        out_(desc.out),
        layout_(layout_of(desc, group.rank, group.size)),
        memory_(group.device, layout_.bytes) {
    plait_comm_desc behind = desc;
    behind.in = desc.in ? memory_.data() + layout_.in_at : nullptr;
    behind.out = desc.out ? memory_.data() + layout_.out_at : nullptr;
    group_.call("prepare", [&] { return group_.item.prepare(group_.comm, &behind, &call_); });
  }
  ~StagedCall() {
    call_plugin_noexcept(group_.log, {"", "release", "backend", group_.item.name},
                         [&] { group_.item.release(call_); });
  }
  StagedCall(const StagedCall&) = delete;
  StagedCall& operator=(const StagedCall&) = delete;

  void start(plait_queue* queue) {
    // The backend refuses what is started again; the operands of a call that runs stay.
    if (layout_.in > 0 && !active_) {
      copy(queue, PLAIT_COPY_TO_HOST, memory_.data() + layout_.in_at, in_, layout_.in);
      const plait_device_item& d = group_.device->item();
      if (plait_error* e = try_plugin({group_.device->plugin(), "sync", "device", d.name},
                                      [&] { return d.sync(queue); }))
        throw from_c(e);
    }
    group_.call("start", [&] { return group_.item.start(call_, nullptr); });
    active_ = true;
  }

  void finish(plait_queue* queue) {
    group_.call("finish", [&] { return group_.item.finish(call_, nullptr); });
    active_ = false;
    if (layout_.out > 0)
      copy(queue, PLAIT_COPY_TO_DEVICE, out_, memory_.data() + layout_.out_at, layout_.out);
  }

 private:
  void copy(plait_queue* queue, uint32_t direction, void* to, const void* from, uint64_t bytes) {
    const plait_device_item& d = group_.device->item();
    if (plait_error* e = try_plugin({group_.device->plugin(), "copy", "device", d.name},
                                    [&] { return d.copy(queue, direction, to, from, bytes); }))
      throw from_c(e);
  }

  const StagedGroup& group_;
  const void* const in_;
  void* const out_;
  const Layout layout_;
  HostMemory memory_;
  plait_comm_call* call_ = nullptr;
  bool active_ = false;  // started and not finished
};

StagedGroup& of(plait_comm* comm) { return *reinterpret_cast<StagedGroup*>(comm); }
StagedCall& of(plait_comm_call* call) { return *reinterpret_cast<StagedCall*>(call); }

}  // namespace

plait_comm* open_staged(const CommBackend& host, std::shared_ptr<const Device> device,
                        const plait_comm_setup& setup) {
  return reinterpret_cast<plait_comm*>(new StagedGroup(host, std::move(device), setup));
}

const plait_comm_item& staged_item() {
  static const plait_comm_item kItem = {
      .struct_size = sizeof(plait_comm_item),
      .name = "staged",
      .help = "",
      .options = nullptr,
      .n_options = 0,
      .reach = PLAIT_COMM_REACH_NETWORK,  // calls start at once
      .device = nullptr,
      .open = nullptr,
      .close = [](plait_comm* comm) { delete &of(comm); },
      .prepare =
          [](plait_comm* comm, const plait_comm_desc* desc, plait_comm_call** out) {
            return guard_c([&] {
              *out = reinterpret_cast<plait_comm_call*>(new StagedCall(of(comm), *desc));
            });
          },
      .release = [](plait_comm_call* call) { delete &of(call); },
      .start = [](plait_comm_call* call,
                  plait_queue* queue) { return guard_c([&] { of(call).start(queue); }); },
      .finish = [](plait_comm_call* call,
                   plait_queue* queue) { return guard_c([&] { of(call).finish(queue); }); },
      .abort = [](plait_comm* comm, const char* text,
                  uint64_t size) { of(comm).item.abort(of(comm).comm, text, size); },
      .memory = nullptr,
      .status = nullptr,
      .probe = nullptr,
      .shared_memory = nullptr};
  return kItem;
}

}  // namespace plait::runtime
