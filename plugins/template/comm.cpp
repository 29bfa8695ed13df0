// A communication backend: how the ranks of a group exchange tensors. open() fails here, so nothing
// else is ever called; each function has a comment with its contract.
#include <plait/comm.h>

#include "plugins/template/template.hpp"

namespace plait::null {
namespace {

class ProcessGroup {
 public:
  // One call, prepared once and started many times. Check the desc here, and allocate all memory
  // that the call will need.
  class Call {
   public:
    Call(ProcessGroup&, const plait_comm_desc&) {
      unimplemented("a call", "class ProcessGroup::Call");
    }
    // Starts the collective and returns; must neither allocate nor wait.
    void start(plait_queue*) {}
    // Waits for its completion; throws PLAIT_ERR_PEER naming the missing ranks.
    void finish(plait_queue*) {}
  };

  // Connects this rank to all members, which find each other through the store. ~ProcessGroup()
  // leaves the group.
  ProcessGroup(const Host&, const Options&, const plait_comm_setup&) {
    unimplemented("communication 'template.comm'", "comm.cpp");
  }
  // Optional: memory that all members can access; NULL: there is none.
  void* memory(uint64_t) { return nullptr; }
  // From any thread: every call in flight or started later fails with PLAIT_ERR_PEER and this text,
  // at once.
  void abort(std::string_view) noexcept {}
};

}  // namespace

void add_comm(const Host& host) {
  static const auto comm = plait::comm<ProcessGroup>(
      "template.comm", "how the ranks exchange tensors, in one line", false, nullptr);
  host.add(comm);
}

}  // namespace plait::null
