#include <plait/plugin.hpp>

#include "plugins/devices/cpu/device.hpp"
#include "plugins/support/host_device.hpp"

PLAIT_PLUGIN("device-cpu", "0.1.0", "Apache-2.0",
             "CPU device: generated, vectorised and oneDNN kernels") {
  static const auto device = plait::support::HostDevice<plait::cpu::CpuDevice>::item(
      "cpu", "the cores of this machine", plait::cpu::CpuDevice::options());
  static const auto kernels = plait::cpu::kernels();
  host.add(device);
  for (const auto& k : kernels) host.add(k);
}
