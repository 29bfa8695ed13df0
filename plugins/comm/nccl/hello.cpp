#include "plugins/comm/nccl/hello.hpp"

#include <map>
#include <sstream>

#include "plugins/comm/nccl/library.hpp"

namespace plait::comm_nccl {

std::string packed(const Hello& hello) {
  return std::to_string(hello.version) + " " + hello.gpu + (hello.shares ? " 1" : " 0");
}

Hello unpacked(const std::string& text) {
  Hello hello;
  std::istringstream in(text);
  in >> hello.version >> hello.gpu >> hello.shares;
  return hello;
}

std::string fault(const comm_support::Members& who, const std::vector<Hello>& all) {
  std::map<std::string, uint32_t> first;  // rank on each GPU
  constexpr int kShares = 23000;          // the first version that can
  for (uint32_t r = 0; r < all.size(); ++r) {
    if (all[r].version != all[0].version)
      return who.head() + ": " + who.names[0] + " has NCCL " + version_text(all[0].version) + ", " +
             who.names[r] + " has " + version_text(all[r].version) +
             ", expected the same version on all ranks; install one (comm.libraries, "
             "PLAIT_CUDA_LIBRARIES)";
    const auto [other, fresh] = first.emplace(all[r].gpu, r);
    if (!fresh && !(all[r].shares && all[0].version >= kShares))
      return who.head() + ": " + who.names[other->second] + " and " + who.names[r] +
             " are on the same GPU, expected a GPU for each rank; run fewer ranks, set "
             "device.index or CUDA_VISIBLE_DEVICES, or set topology.backend = \"shm\" (by way of "
             "host memory)";
  }
  return "";
}

}  // namespace plait::comm_nccl
