// nccl: ranks exchange memory of NVIDIA GPUs over NVLink, PCIe and networks with NVIDIA's library.
// NCCL's own connections are neither encrypted nor authenticated: a trusted network is assumed.
#include <plait/plugin.hpp>

#include "plugins/comm/nccl/group.hpp"

PLAIT_PLUGIN("comm-nccl", PLAIT_VERSION, "Apache-2.0",
             "Communication between NVIDIA GPUs with NCCL") {
  static const auto nccl = plait::comm<plait::comm_nccl::ProcessGroup>(
      "nccl", "NVIDIA GPUs, on one machine or many; one process for each", PLAIT_COMM_REACH_NETWORK,
      "cuda", plait::comm_nccl::ProcessGroup::options());
  host.add(nccl);
}
