// Queues, events and graphs of devices that compute in the caller's thread, at once: `reference` and `cpu`.
//
// While a queue captures, kernels and copies are appended to a flat list instead; launching a graph walks that list and does
// nothing else, so a small kernel costs one indirect call. Capturing allocates, launching does not.
#pragma once

#include <vector>

#include <plait/plugin.hpp>

namespace plait::support {

// One captured call.
struct GraphStep {
  plait_error* (*run)(const plait_kernel*, plait_queue*, void* const*, void*);
  const plait_kernel* kernel;
  void* const* operands;
  void* workspace;
  const plait_kernel_item* item;  // NULL: a copy
};

// The exception in flight, which run() of a step has let out, as the error it should have returned. Only inside a catch block.
plait_error* error_from_exception(const GraphStep& step, const plait_host* host) noexcept;

// Captured work. Borrows kernels and memory; immutable once captured, so it may be launched again and again.
class HostGraph {
 public:
  void add(GraphStep step, void* const* operands, uint32_t n);
  // Points the steps at their operands; after this nothing is added.
  void finish();
  // Runs all steps in order; stops at the first error. host: makes that of a kernel that throws.
  plait_error* launch(plait_queue* queue, const plait_host* host) const {
    const GraphStep* at = steps_.data();
    try {
      for (const GraphStep* end = at + steps_.size(); at != end; ++at)
        if (plait_error* e = at->run(at->kernel, queue, at->operands, at->workspace)) return e;
    } catch (...) {
      return error_from_exception(*at, host);
    }
    return nullptr;
  }
  size_t size() const { return steps_.size(); }

 private:
  std::vector<GraphStep> steps_;
  std::vector<size_t> first_;  // of each step's operands
  std::vector<void*> operands_;
};

// Copies `bytes` bytes in the form of a kernel run, so that a graph holds one kind of step: operands are to, from, bytes.
plait_error* run_copy(const plait_kernel*, plait_queue*, void* const* operands, void*);

}  // namespace plait::support
