// The programs of a plan on a device: memory, prepared kernels, captured graphs. After construction
// a launch neither allocates nor searches.
//
// All kernels are prepared, and tuned if the plan says so, before anything is captured. On a device
// that computes on the host each program is one graph, whose launch runs its kernels and
// collectives one by one. On a device that records, launches with no host write between them form a
// unit, which is one graph unless some of its calls need the host at each launch: kernels that work
// on the host, collectives of host memory, messages, collectives that start in one unit and end in
// another, and on a device whose launches make the calls anew all collectives. Those split the
// graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/runtime/communicators.hpp"
#include "engine/runtime/device.hpp"
#include "engine/runtime/kernel_cache.hpp"
#include "engine/runtime/queue.hpp"
#include "engine/runtime/tune.hpp"

namespace plait::runtime {

// Owner thread only.
class Executor {
 public:
  // connect: called once, when the device is open; returns the communicators (borrowed), nullptr
  // for a plan without collectives.
  using Connect = std::function<Communicators*(const Device&)>;
  // all_gather: among the ranks of the plan; needed with precision.tune and several ranks.
  explicit Executor(std::shared_ptr<const plan::Plan> plan, const Connect& connect = {},
                    const AllGather& all_gather = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // program: index into Plan::programs; -1 does nothing. slot: one of the program's slots.
  void launch(int32_t program, int32_t slot = 0);
  // Successive launches with no host write between them. first: the first of them, before which
  // its feed is written.
  struct LaunchGroup {
    const plan::Launch* first;
    size_t unit;
  };
  // Of one of the plan's entry points, in order. Look it up once: the reference stays valid.
  const std::vector<LaunchGroup>& launches(const plan::EntryPoint& entry) const {
    static const std::vector<LaunchGroup> none;  // a plan that only generates has no training step
    if (entry.launches.empty()) return none;
    return entry_points_.at(static_cast<size_t>(&entry - plan_->entry_points.data()));
  }
  void launch(const LaunchGroup& group) {
    timed_ ? launch_timed(units_[group.unit]) : launch_unit(units_[group.unit]);
  }
  // One call of a program on one of its slots, from monotonic_ns() to monotonic_ns().
  struct TimedCall {
    const plan::Program* program = nullptr;
    size_t call = 0;  // of Program::calls
    int32_t slot = 0;
    uint64_t begin_ns = 0, end_ns = 0;
  };
  // From here on launches of groups append each call to `into`; nullptr: no longer. The host makes
  // every call by itself then, and waits for it if the device records. Every rank does the same.
  void time_calls(std::vector<TimedCall>* into) { timed_ = into; }
  // Copies host memory to a buffer and back, ordered with launches. On a device that computes on
  // the host, write() borrows `data` until the queue is empty; otherwise only for the call. read()
  // waits.
  void write(plan::BufferRef at, const void* data, uint64_t bytes, int32_t slot = 0);
  void read(plan::BufferRef at, void* data, uint64_t bytes);
  // The same from any memory of the device, such as a tensor of the host's.
  void read_device(const void* at, void* data, uint64_t bytes);
  void sync() { queue_->sync(); }
  // Waits until the device is idle and closes the graphs, before communicators and memory go:
  // communicators may wait for graphs that hold their calls. Ends work that waits for other ranks;
  // a device that is not idle then is given up, with an error in the log. Nothing can be run any
  // more.
  void settle() noexcept;
  Queue& queue() { return *queue_; }
  // Finds the first op of a program whose result is not finite: runs the program again op by op and
  // checks each result. Collective. Slow; for the error message of a run that stops.
  struct NonFiniteValue {
    size_t op = 0;     // index in the program
    std::string text;  // "": all values are finite
  };
  NonFiniteValue first_non_finite(int32_t program, int32_t slot = 0);

  char* address(plan::BufferRef at,
                int32_t slot = 0) const;  // device memory; a host pointer where the device says so
  // The memory of parameters and other segments, except gradients that ranks reduce in shared
  // memory.
  const std::shared_ptr<Arena>& arena() const { return arena_; }
  // The bytes of all memory that the plan lists.
  uint64_t bytes() const { return arena_->bytes() + shared_bytes_; }
  // The part of it that other ranks can access.
  uint64_t shared_bytes() const { return shared_bytes_; }
  const Device& device() const { return *device_; }

  // Number of prepared kernels: one for all calls with equal descriptors.
  size_t prepared_kernels() const { return kernels_->size(); }
  // Number of captured graphs.
  size_t graphs() const;

 private:
  void wait_until_idle() noexcept;
  // A call on one slot. A collective has a kernel per slot, other calls share one.
  struct SlotKernel {
    plait_kernel* kernel;
    std::vector<void*> operands;
  };
  struct PreparedKernel {
    const plait_kernel_item* item;
    bool collective, starts;
    void* workspace;
    std::vector<SlotKernel> slots;
  };
  struct LoadedProgram {
    const plan::Program* program = nullptr;
    std::vector<PreparedKernel> calls;
    std::vector<int32_t>
        units;  // by slot: the unit with this program alone; -1: never launched alone
  };
  // One call of a unit.
  struct Entry {
    const LoadedProgram* program;
    const PreparedKernel* call;
    size_t slot;
    bool eager = false;  // on a device that records: not part of a graph
    const SlotKernel& bound() const { return call->slots[slot]; }
  };
  // A step of a launch: a graph and the collectives in it, or one call.
  struct Step {
    plait_graph* graph = nullptr;
    std::vector<const plait_kernel*> collectives;
    Entry entry{};
  };
  struct Unit {
    std::vector<std::pair<int32_t, int32_t>> launches;  // programs and their slots
    std::vector<Step> steps;
    std::string name = {};  // of its programs, for messages
  };
  void allocate();
  void load(LoadedProgram& into, const plan::Program& program);
  PreparedKernel prepare(const plan::Program& program, const plan::KernelCall& call);
  plait_kernel* prepare_collective(const plan::KernelCall& call, const program::Op& op,
                                   int32_t slot, const std::vector<void*>& operands);
  void plan_units();
  std::vector<LaunchGroup> group(const std::vector<plan::Launch>& launch_list);
  size_t unit_of(std::vector<std::pair<int32_t, int32_t>> launches);
  void capture(Unit& unit);
  void record(Step& into, const Entry* begin, const Entry* end);
  std::vector<Entry> entries_of(const Unit& unit) const;
  void launch_unit(const Unit& unit);
  void launch_timed(const Unit& unit);
  void enqueue(const Entry& entry);
  void run_eagerly(const Entry& entry);
  void report(plait_error* e, const Entry& entry) const;
  bool finite(plan::BufferRef at, const plait_shape& shape, int32_t slot);
  void release() noexcept;

  std::shared_ptr<const plan::Plan> plan_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Arena> arena_;
  std::vector<char*> segments_;  // as the plan's
  uint64_t shared_bytes_ = 0;    // of segments in memory of the communicators
  char* transient_ = nullptr;
  Communicators* communicators_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Transfers> transfers_;
  std::unique_ptr<KernelCache> kernels_;
  std::vector<LoadedProgram> programs_;  // as Plan::programs
  std::vector<Unit> units_;
  std::map<std::vector<std::pair<int32_t, int32_t>>, size_t> known_units_;
  std::vector<std::vector<LaunchGroup>> entry_points_;  // as Plan::entry_points
  std::vector<TimedCall>* timed_ = nullptr;
  bool settled_ = false;
};

}  // namespace plait::runtime
