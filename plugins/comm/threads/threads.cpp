// threads: the ranks of a group are threads of one process, and exchange through the memory they
// share. For tests, notebooks and thread sanitizers.
#include <plait/plugin.hpp>

#include "plugins/comm/threads/group.hpp"

PLAIT_PLUGIN("comm-threads", PLAIT_VERSION, "Apache-2.0",
             "Communication between ranks that are threads of one process") {
  static const auto threads = plait::comm<plait::comm_threads::ProcessGroup>(
      "threads", "ranks are threads of one process", PLAIT_COMM_REACH_PROCESS, nullptr);
  host.add(threads);
}
