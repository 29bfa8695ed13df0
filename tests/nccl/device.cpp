#include "tests/nccl/device.hpp"

#include <cstring>

namespace comm_test {
namespace {

DeviceCall& device_call(plait_comm_call* c) { return *reinterpret_cast<DeviceCall*>(c); }
const plait_comm_item& backend(plait_comm* c) { return device_comm(c).plugin->backend(); }
const plait_comm_item& backend(plait_comm_call* c) {
  return device_call(c).comm->plugin->backend();
}

void close(plait_comm* c) {
  DeviceComm* comm = &device_comm(c);
  const plait_device_item& device = comm->plugin->device().item();
  backend(c).close(comm->inner);
  device.queue_close(comm->queue);
  device.close(comm->device);
  delete comm;
}

plait_error* prepare(plait_comm* c, const plait_comm_desc* desc, plait_comm_call** out) {
  plait_comm_call* inner = nullptr;
  if (plait_error* e = backend(c).prepare(device_comm(c).inner, desc, &inner)) return e;
  *out = reinterpret_cast<plait_comm_call*>(new DeviceCall{&device_comm(c), inner});
  return nullptr;
}

void release(plait_comm_call* c) {
  backend(c).release(device_call(c).inner);
  delete &device_call(c);
}

plait_error* start(plait_comm_call* c, plait_queue*) {
  return backend(c).start(device_call(c).inner, device_call(c).comm->queue);
}

// As the engine: the queue runs empty, then the group is asked.
plait_error* finish(plait_comm_call* c, plait_queue*) {
  DeviceComm& comm = *device_call(c).comm;
  if (plait_error* e = backend(c).finish(device_call(c).inner, comm.queue)) return e;
  if (plait_error* e = comm.plugin->device().item().sync(comm.queue)) return e;
  return backend(c).status(comm.inner);
}

void abort(plait_comm* c, const char* text, uint64_t size) {
  backend(c).abort(device_comm(c).inner, text, size);
}

}  // namespace

DevicePlugin::DevicePlugin(const std::string& path)
    : host_{abi_host::table_of(add), this}, file_(path) {
  check(file_.open(&host_.head));
  if (!item_) throw std::runtime_error(path + " offers no device");
}

plait_error* DevicePlugin::add(const plait_host* host, const char* kind, const void* item) {
  if (std::strcmp(kind, PLAIT_KIND_DEVICE) == 0)
    reinterpret_cast<const Host*>(host)->plugin->item_ =
        static_cast<const plait_device_item*>(item);
  return nullptr;
}

plait_device* DevicePlugin::open(uint32_t gpu) const {
  plait_device* device = nullptr;
  const abi_host::Options options =
      abi_host::options_of(item_->options, item_->n_options, {{"index", std::to_string(gpu)}});
  check(item_->open(&host_.head, &options.head, &device));
  return device;
}

OnDevice::OnDevice(const std::string& device, const std::string& backend)
    : Plugin(backend), device_(device), adapted_(Plugin::item()) {
  adapted_.close = close;
  adapted_.prepare = prepare;
  adapted_.release = release;
  adapted_.start = start;
  adapted_.finish = finish;
  adapted_.abort = abort;
}

plait_comm* OnDevice::open(const plait_comm_setup& setup, const GroupSettings& settings) const {
  const plait_device_item& d = device_.item();
  auto comm = std::make_unique<DeviceComm>(
      DeviceComm{this, device_.open(gpu_of(setup.rank)), nullptr, nullptr});
  try {
    check(d.queue_open(comm->device, &comm->queue));
    plait_comm_setup with_device = setup;
    with_device.device = comm->device;
    comm->inner = Plugin::open(with_device, settings);
  } catch (...) {
    if (comm->queue) d.queue_close(comm->queue);
    d.close(comm->device);
    throw;
  }
  return reinterpret_cast<plait_comm*>(comm.release());
}

std::unique_ptr<Plugin> make_plugin(const std::string& argument) {
  const size_t colon = argument.find(':');
  if (colon == std::string::npos) throw std::runtime_error("expected DEVICE.so:BACKEND.so");
  return std::make_unique<OnDevice>(argument.substr(0, colon), argument.substr(colon + 1));
}

}  // namespace comm_test
