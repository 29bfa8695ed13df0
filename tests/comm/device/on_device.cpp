#include "tests/comm/device/on_device.hpp"

#include <utility>

namespace comm_test {
namespace {

struct DeviceCall {
  DeviceComm& comm;
  std::unique_ptr<DeviceOperands> operands;
  plait_comm_call* inner = nullptr;
  bool active = false;
};

DeviceCall& device_call(plait_comm_call* c) { return *reinterpret_cast<DeviceCall*>(c); }
const plait_comm_item& backend(const DeviceComm& c) { return c.plugin->backend(); }

void close(plait_comm* c) {
  const std::unique_ptr<DeviceComm> comm(&device_comm(c));
  backend(*comm).close(comm->inner);
  comm->kept.clear();
  comm->device->item().queue_close(comm->queue);
}

plait_error* prepare(plait_comm* c, const plait_comm_desc* desc, plait_comm_call** out) {
  DeviceComm& comm = device_comm(c);
  auto operands = std::make_unique<DeviceOperands>(comm.device->item(), comm.device->handle(),
                                                   *desc, comm.size);
  plait_comm_call* inner = nullptr;
  if (plait_error* e = backend(comm).prepare(comm.inner, &operands->call(), &inner)) return e;
  *out = reinterpret_cast<plait_comm_call*>(new DeviceCall{comm, std::move(operands), inner});
  return nullptr;
}

void release(plait_comm_call* c) {
  const std::unique_ptr<DeviceCall> call(&device_call(c));
  backend(call->comm).release(call->inner);
  if (!call->active) return;
  const std::lock_guard lock(call->comm.mutex);
  call->comm.kept.push_back(std::move(call->operands));
}

plait_error* start(plait_comm_call* c, plait_queue*) {
  DeviceCall& call = device_call(c);
  plait_queue* const queue = call.comm.queue;
  if (!call.active)
    if (plait_error* e = call.operands->put(queue)) return e;
  if (plait_error* e = backend(call.comm).start(call.inner, queue)) return e;
  call.active = true;
  return nullptr;
}

// As the engine: the queue runs empty, then the group is asked.
plait_error* finish(plait_comm_call* c, plait_queue*) {
  DeviceCall& call = device_call(c);
  const DeviceComm& comm = call.comm;
  if (plait_error* e = backend(comm).finish(call.inner, comm.queue)) return e;
  if (plait_error* e = comm.device->item().sync(comm.queue)) return e;
  if (backend(comm).status)
    if (plait_error* e = backend(comm).status(comm.inner)) return e;
  call.active = false;
  return call.operands->take(comm.queue);
}

void abort(plait_comm* c, const char* text, uint64_t size) {
  backend(device_comm(c)).abort(device_comm(c).inner, text, size);
}

}  // namespace

void OnDevice::adapt() {
  adapted_ = backend();
  adapted_.reach = of_plugin().reach;
  adapted_.close = close;
  adapted_.prepare = prepare;
  adapted_.release = release;
  adapted_.start = start;
  adapted_.finish = finish;
  adapted_.abort = abort;
}

plait_comm* OnDevice::open(const plait_comm_setup& setup, const GroupSettings& settings) const {
  auto comm = std::make_unique<DeviceComm>();
  comm->plugin = this;
  comm->size = setup.size;
  comm->device = open_device(gpu_of(setup.rank));
  const plait_device_item& d = comm->device->item();
  check(d.queue_open(comm->device->handle(), &comm->queue));
  try {
    comm->inner = open_group(*comm->device, setup, settings);
  } catch (...) {
    d.queue_close(comm->queue);
    throw;
  }
  return reinterpret_cast<plait_comm*>(comm.release());
}

}  // namespace comm_test
