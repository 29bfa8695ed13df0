#include "tests/comm/device/operands.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "kit/dtype.hpp"
#include "tests/comm/host.hpp"

namespace comm_test {
namespace {

constexpr uint64_t kGuard = 64;  // bytes; also the alignment that the engine gives operands
constexpr char kGuardByte = 0x5c;

// Elements of `in` and of `out` that a call reads and writes, as comm.h has them.
uint64_t elements_in(const plait_comm_desc& d, uint32_t ranks) {
  switch (d.kind) {
    case PLAIT_COMM_REDUCE_SCATTER:
    case PLAIT_COMM_ALL_TO_ALL:
      return d.n * ranks;
    case PLAIT_COMM_BARRIER:
    case PLAIT_COMM_RECEIVE:
      return 0;
    default:
      return d.n;
  }
}
uint64_t elements_out(const plait_comm_desc& d, uint32_t ranks) {
  switch (d.kind) {
    case PLAIT_COMM_ALL_GATHER:
    case PLAIT_COMM_ALL_TO_ALL:
      return d.n * ranks;
    case PLAIT_COMM_BARRIER:
    case PLAIT_COMM_SEND:
      return 0;
    default:
      return d.n;
  }
}

bool has_operands(const plait_comm_desc& d) {
  constexpr uint64_t kMost = uint64_t{1} << 32;
  return d.kind >= PLAIT_COMM_BARRIER && d.kind <= PLAIT_COMM_RECEIVE && d.n <= kMost &&
         (d.kind == PLAIT_COMM_BARRIER || plait::kit::dtype_bytes(d.dtype) != 0);
}

plait_error* changed(const char* what) {
  const std::string text = std::string("[device operands] the call has changed ") + what;
  return abi_host::error_new(PLAIT_ERR_INTERNAL, text.data(), text.size(), nullptr);
}

}  // namespace

DeviceOperands::DeviceOperands(const plait_device_item& item, plait_device* device,
                               const plait_comm_desc& call, uint32_t ranks)
    : item_(item), device_(device), call_(call) {
  if (!has_operands(call)) return;
  const uint64_t one = plait::kit::dtype_bytes(call.dtype);
  in_ = {static_cast<char*>(const_cast<void*>(call.in)), elements_in(call, ranks) * one};
  out_ = {static_cast<char*>(call.out), elements_out(call, ranks) * one};
  const bool both = in_.host && out_.host;
  char* const in_end = both ? in_.host + in_.bytes : nullptr;
  char* const out_end = both ? out_.host + out_.bytes : nullptr;
  in_place_ = both && in_.host < out_end && out_.host < in_end;
  if (in_place_) {
    char* const first = std::min(in_.host, out_.host);
    char* const there = add_area(first, static_cast<uint64_t>(std::max(in_end, out_end) - first));
    call_.in = there + (in_.host - first);
    call_.out = there + (out_.host - first);
    return;
  }
  if (in_.host) call_.in = add_area(in_.host, in_.bytes);
  if (out_.host) call_.out = add_area(out_.host, out_.bytes);
}

DeviceOperands::~DeviceOperands() {
  for (const Area& area : areas_) item_.free(device_, area.memory);
}

// Returns where host[0] is on the device. It is aligned there as in the host's memory.
char* DeviceOperands::add_area(char* host, uint64_t bytes) {
  const uint64_t skewed = reinterpret_cast<uintptr_t>(host) % kGuard;
  void* memory = nullptr;
  check(item_.alloc(device_, skewed + bytes + 2 * kGuard, &memory));
  areas_.push_back({host, bytes, memory, static_cast<char*>(memory) + skewed, {}});
  return areas_.back().begin + kGuard;
}

plait_error* DeviceOperands::put(plait_queue* queue) {
  for (Area& area : areas_) {
    area.image.assign(area.bytes + 2 * kGuard, kGuardByte);
    if (area.bytes > 0) std::memcpy(area.image.data() + kGuard, area.host, area.bytes);
    if (plait_error* e = item_.copy(queue, PLAIT_COPY_TO_DEVICE, area.begin, area.image.data(),
                                    area.image.size()))
      return e;
  }
  return nullptr;
}

plait_error* DeviceOperands::take(plait_queue* queue) const {
  for (const Area& area : areas_) {
    if (area.image.empty()) return changed("the result of a call that was not started");
    std::vector<char> found(area.image.size());
    if (plait_error* e =
            item_.copy(queue, PLAIT_COPY_TO_HOST, found.data(), area.begin, found.size()))
      return e;
    if (plait_error* e = item_.sync(queue)) return e;
    const auto guard = [](char c) { return c == kGuardByte; };
    if (!std::all_of(found.begin(), found.begin() + kGuard, guard) ||
        !std::all_of(found.end() - kGuard, found.end(), guard))
      return changed("memory around its operands");
    const bool result = out_.host && (in_place_ || area.host == out_.host);
    if (!result && found != area.image) return changed("its input");
    if (result && out_.bytes > 0)
      std::memcpy(out_.host, found.data() + kGuard + (out_.host - area.host), out_.bytes);
  }
  return nullptr;
}

}  // namespace comm_test
