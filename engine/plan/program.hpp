// A compiled program: kernels, and where their operands lie.
#pragma once

#include <plait/op.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::plan {

using program::BufferRef;

// One kernel to run. Operands: inputs, then outputs.
struct KernelCall {
  int32_t op = 0;                             // in graph
  const plait_kernel_item* kernel = nullptr;  // null for a collective
  int32_t collective = -1;                    // index into Plan::collectives
  std::vector<BufferRef> operands;            // segment kTransient: offset in the transient area
  uint64_t workspace_bytes = 0;
  uint64_t workspace = 0;  // offset in the transient area
  std::string detail;      // text of the kernel's select()
  std::string refused;     // kernels of higher priority, and why they refused
  double flops = 0;
};

// The flat list of kernel calls for one purpose. It may run on any of several slots: the copies of
// segments with several slots.
struct Program {
  std::string name;
  int32_t first_slot = 0, slots = 1;  // the slots on which it runs
  int32_t order = 0;                  // among the programs of a micro-batch, over all ranks
  std::shared_ptr<const program::Graph> graph;
  std::vector<KernelCall> calls;
  uint64_t transient_bytes = 0;
  double flops = 0;
  bool empty() const { return calls.empty(); }
};

}  // namespace plait::plan
