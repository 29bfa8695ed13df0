#include "plugins/devices/cpu/device.hpp"

#include <unistd.h>

#include <algorithm>

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {
namespace {

constexpr int64_t kMostThreads = 1024;

constexpr plait_option kOptions[] = {
    at_most(
        at_least(opt_int("threads", "0", "compute threads; 0: one per core this process may use"),
                 0),
        kMostThreads),
    opt_bool("bind", "true", "bind each compute thread to a core of its own"),
    opt_bool("bind_caller", "true",
             "also bind the thread that runs the programs; its cores are restored when the device "
             "closes"),
    at_least(opt_int("first_core", "-1",
                     "index of the first core to bind to, among the process's cores; -1: bind "
                     "only if all of them are used"),
             -1),
    opt_bool("huge_pages", "true", "request huge pages for blocks of 4 MiB and more")};

const char* isa_name(Isa isa) {
  return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "no avx2";
}

}  // namespace

std::span<const plait_option> CpuDevice::options() { return kOptions; }

uint32_t CpuDevice::threads(const Options& o) {
  const int64_t n = o.integer("threads");
  return static_cast<uint32_t>(n > 0 ? std::min(n, kMostThreads)
                                     : static_cast<int64_t>(allowed_cores().size()));
}

CpuDevice::CpuDevice(const Host&, const Options& o)
    : threads_(threads(o)),
      memory_(o.flag("huge_pages")),
      binding_(static_cast<int>(threads_), o.integer("first_core"), o.flag("bind"),
               o.flag("bind_caller")) {
  summary_ = std::to_string(threads_) + (threads_ == 1 ? " thread, " : " threads, ") +
             isa_name(machine_isa()) + ", " + binding_.summary();
}

void CpuDevice::info(plait_device_info& out) const {
  out.host_visible = 1;
  out.threads = threads_;
  out.memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                     static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  out.summary = summary_.c_str();
}

}  // namespace plait::cpu
