// Starts and finishes calls.
//
// Deadlock freedom: start() copies this rank's input into a private staging buffer and never
// blocks. finish() waits only for peers to have started the call and staged their data, and for a
// peer that is already reducing a chunk; unclaimed chunks are reduced by whichever rank waits. No
// rank ever waits for another rank's finish().
//
// An all-reduce in place in symmetric memory stages nothing: a rank that starts it allows its peers
// to read and write its operand. Chunks are claimed as above, and each result is written straight
// to all members.
//
// Memory: a small call has two staging buffers of the size of its input. Large calls share staging
// buffers: one for each call in flight, plus one when other ranks lag behind. The first steps of a
// run may therefore still grow the file, in start(). Ranks that run in step use only the first few
// slots of a buffer, which stay in the caches.
#pragma once

#include <map>

#include "plugins/comm/shm/call_state.hpp"
#include "plugins/comm/shm/channel.hpp"
#include "plugins/comm/shm/endpoint.hpp"
#include "plugins/comm/shm/symmetric_memory.hpp"

namespace plait::comm_shm {

// The channels and staging buffers of one endpoint.
class CallExecutor {
 public:
  explicit CallExecutor(GroupEndpoint& endpoint);

  // [thread: owner]
  std::unique_ptr<CallState> prepare(const plait_comm_desc& desc, const std::string& text);
  // Implements plait_comm_item.memory. [thread: owner]
  void* memory(const Host& host, uint64_t bytes);
  void start(CallState& call);
  void finish(CallState& call);

 private:
  template <class F>
  void fail_group_on_error(F&& f);
  void init_execution(CallState& call);
  void stage_input(CallState& call);
  void poll_peers(CallState& call);

  const SymmetricBuffer* symmetric_operand(const plait_comm_desc& desc) const;
  std::vector<uint64_t> gather(const std::string& what, uint64_t first, uint64_t second);

  GroupEndpoint& endpoint_;
  StagingBuffers staging_;
  SymmetricMemory symmetric_;
  std::map<std::pair<uint32_t, uint32_t>, Channel> channels_;
};

}  // namespace plait::comm_shm
