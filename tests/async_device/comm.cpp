#include "tests/async_device/comm.hpp"

#include "plugins/comm/call.hpp"

namespace async_device {
namespace {

Device& device_of(const plait_comm_setup& setup) {
  if (setup.struct_size < sizeof(plait_comm_setup) || !setup.device)
    plait::fail(PLAIT_ERR_INVALID, "[async] the group was given no device");
  return *reinterpret_cast<Device*>(setup.device);
}

// The call as the backend behind makes it. size: ranks of the group.
plait_comm_desc behind(const Memory& memory, plait_comm_desc d, uint64_t size) {
  const uint64_t one = plait::comm_support::bytes_of(d), all = one * size;
  const bool many_in = d.kind == PLAIT_COMM_REDUCE_SCATTER || d.kind == PLAIT_COMM_ALL_TO_ALL,
             many_out = d.kind == PLAIT_COMM_ALL_GATHER || d.kind == PLAIT_COMM_ALL_TO_ALL;
  if (d.in) d.in = memory.behind(d.in, many_in ? all : one, "the input of a collective");
  if (d.out) d.out = memory.behind(d.out, many_out ? all : one, "the output of a collective");
  return d;
}

}  // namespace

Group::Group(const plait::Host& host, const plait::Options& options, const plait_comm_setup& setup)
    : device_(device_of(setup)), size_(setup.size), inner_(host, options, setup) {}

void Group::status() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) plait::fail(PLAIT_ERR_PEER, failure_);
}

Group::Call::Call(Group& group, const plait_comm_desc& desc)
    : group_(group),
      inner_(std::make_unique<plait::comm_threads::ProcessGroup::Call>(
          group.inner_, behind(group.device_.memory, desc, group.size_))) {}

template <class F>
void Group::Call::attempt(F&& f) noexcept {
  try {
    f();
  } catch (const std::exception& e) {
    under_way_ = false;
    const std::lock_guard lock(group_.mutex_);
    if (group_.failure_.empty()) group_.failure_ = e.what();
  }
}

void Group::Call::start(plait_queue* queue) {
  if (group_.device_.by_calls && queue_of(queue).capturing())
    plait::fail(PLAIT_ERR_STATE, "[async] a collective in a capture that repeats calls alone");
  queue_of(queue).put([this] {
    attempt([&] {
      inner_->start(nullptr);
      under_way_ = true;
    });
  });
}

void Group::Call::finish(plait_queue* queue) {
  queue_of(queue).put([this] {
    attempt([&] {
      if (under_way_) inner_->finish(nullptr);
      under_way_ = false;
    });
  });
}

}  // namespace async_device
