// How long launches of a kernel take, on operands of a case.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "tests/conformance/runner.hpp"

namespace conformance {

// Seconds of each of `rounds` launches, the shortest first. The kernel must take the case.
inline std::vector<double> launch_times(const Device& device, const plait_kernel_item& item,
                                        const Case& c, int rounds) {
  const Desc desc(c, device.threads());
  const Selection chosen = select(item, desc);
  plait_kernel* kernel = nullptr;
  check(item.prepare(device.plugin().host(), device.get(), &desc.get(), &kernel));
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<void*> operands;
  const auto add = [&](uint64_t bytes) {
    buffers.push_back(std::make_unique<Buffer>(device, bytes));
    return buffers.back()->data();
  };
  for (const Bytes& data : fill(c)) {
    operands.push_back(add(data.size()));
    buffers.back()->put(data);
  }
  for (const plait_shape& y : c.outputs) operands.push_back(add(bytes_of(y)));
  void* workspace = add(chosen.workspace);
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    check(device.item().enqueue(device.queue(), &item, kernel, operands.data(),
                                static_cast<uint32_t>(operands.size()), workspace));
    check(device.item().sync(device.queue()));
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  item.release(kernel);
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace conformance
