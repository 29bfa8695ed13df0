// The steps of a call in a hierarchical group.
#pragma once

#include <plait/comm.h>

#include <memory>
#include <vector>

#include "engine/runtime/hosts.hpp"

namespace plait::runtime {

// A connected subgroup; neither it nor its calls are released here.
struct CommSubgroup {
  const plait_comm_item* item = nullptr;
  plait_comm* comm = nullptr;
  const plait_host* host = nullptr;  // of the item's plugin, for the log
};

// The subgroups of a hierarchical group, as one member sees them. A subgroup without an item: this
// member has none.
struct CommSubgroups {
  Hosts hosts;
  uint32_t rank;
  CommSubgroup intra, inter, intra_broadcast, flat;
  bool through_leaders() const { return !hosts.even(); }
};

// A call of a subgroup; or, without one, a copy within this rank's memory.
struct HierarchicalStep {
  const plait_comm_item* item = nullptr;
  plait_comm_call* call = nullptr;
  const plait_host* host = nullptr;  // the subgroup's
  void* to = nullptr;
  const void* from = nullptr;
  uint64_t bytes = 0;
};

// Releases its calls, which must not be in flight then.
class HierarchicalSteps {
 public:
  // Errors: as the backends that prepare the calls.
  HierarchicalSteps(const CommSubgroups& subgroups, const plait_comm_desc& desc);
  ~HierarchicalSteps();
  HierarchicalSteps(const HierarchicalSteps&) = delete;
  HierarchicalSteps& operator=(const HierarchicalSteps&) = delete;
  const std::vector<HierarchicalStep>& all() const { return steps_; }

 private:
  using CommKind = uint32_t;
  void release() noexcept;
  void make();
  void message();
  void on_flat_group();  // unchanged, between all members
  void barrier();
  void all_reduce();
  void reduce_scatter();
  void all_gather();
  void gather_through_leaders();
  void broadcast();
  // Sums over all ranks into every rank's `out`.
  void sum_through_leaders(uint64_t n, const void* in, void* out);

  void call(const CommSubgroup& subgroup, CommKind kind, uint64_t n, const void* in, void* out,
            uint32_t peer = 0);
  void copy(void* to, const void* from, uint64_t bytes);
  char* allocate(uint64_t bytes);  // memory for results between steps
  uint64_t bytes(uint64_t n) const;
  // Element or row i of this call's tensors.
  const char* in_at(uint64_t element) const;
  char* out_at(uint64_t element) const;

  const CommSubgroups& groups_;
  const plait_comm_desc d_;
  const uint32_t host_, local_index_;  // of this rank
  std::vector<HierarchicalStep> steps_;
  std::vector<std::unique_ptr<char[]>> memory_;
};

}  // namespace plait::runtime
