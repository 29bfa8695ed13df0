// Queues, events and graphs of devices that compute immediately in the calling thread: `reference`
// and `cpu`.
//
// While a queue captures, kernels and copies are appended to a flat list instead; launching a graph
// runs that list and does nothing else, so a small kernel costs one indirect call. Capturing
// allocates, launching does not.
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

// Converts the exception in flight, thrown by a step's run(), to the error that run() should have
// returned. Call it only inside a catch block.
plait_error* error_from_exception(const GraphStep& step, const plait_host* host) noexcept;

// Names the kernel of a step whose run() returned `error`, which is consumed. Steps of the engine
// and copies, which nobody prepared, keep their error.
plait_error* with_kernel_name(const GraphStep& step, const plait_host* host, plait_error* error);

// Captured work. Borrows kernels and memory; immutable once captured, so it may be launched many
// times.
class HostGraph {
 public:
  void add(GraphStep step, void* const* operands, uint32_t n);
  // Points the steps at their operands; nothing may be added afterwards.
  void finish();
  // Runs all steps in order; stops at the first error. host: creates the error for a kernel that
  // throws.
  plait_error* launch(plait_queue* queue, const plait_host* host) const {
    const GraphStep* at = steps_.data();
    try {
      for (const GraphStep* end = at + steps_.size(); at != end; ++at)
        if (plait_error* e = at->run(at->kernel, queue, at->operands, at->workspace))
          return with_kernel_name(*at, host, e);
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

// Copies `bytes` bytes with the signature of a kernel run, so that a graph holds one kind of step:
// the operands are to, from, bytes.
plait_error* run_copy(const plait_kernel*, plait_queue*, void* const* operands, void*);

}  // namespace plait::support
