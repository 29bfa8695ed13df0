#include "engine/runtime/control/identity.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/process.hpp"
#include "engine/base/text.hpp"
#include "engine/runtime/control/auth.hpp"
#include "engine/runtime/control/sockets.hpp"

namespace plait::runtime::control {
namespace {

// The boot id of the running kernel; "" if there is none.
std::string machine() {
  const Fd fd(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  char text[64];
  const ssize_t n = fd ? read(fd.get(), text, sizeof text) : 0;
  return n > 0 ? std::string(trim(std::string_view(text, static_cast<size_t>(n)))) : "";
}

// Distinguishes processes with equal ids in two containers of one machine. Drawn once, never
// changed; a forked child differs in its process id.
const std::string& mark_of_process() {
  static const std::string mark = hex(random_bytes(8));
  return mark;
}

}  // namespace

std::string own_name(const ControlConfig& config) {
  return config.name.empty() ? "rank " + std::to_string(config.job.rank) : config.name;
}

Arrival own_arrival(const ControlConfig& config) {
  Arrival arrival;
  arrival.process_id = static_cast<uint64_t>(getpid());
  arrival.peer.name = own_name(config);
  arrival.peer.host = host_name();
  arrival.peer.process =
      arrival.peer.host + " " + std::to_string(arrival.process_id) + " " + mark_of_process();
  arrival.machine = machine();
  arrival.identity = digests_of(config.identity);
  return arrival;
}

}  // namespace plait::runtime::control
