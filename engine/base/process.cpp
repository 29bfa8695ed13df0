#include "engine/base/process.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace plait {

std::string host_name() {
  char text[256] = "";
  if (gethostname(text, sizeof text - 1) != 0 || !*text) return "localhost";
  return text;
}

bool process_ended(pid_t id) { return kill(id, 0) != 0 && errno == ESRCH; }

}  // namespace plait
