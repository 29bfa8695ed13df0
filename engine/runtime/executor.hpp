// A plan's programs on a device: their memory, prepared kernels, captured graphs. After construction a launch neither allocates nor
// looks anything up.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/runtime/communicators.hpp"

namespace plait::runtime {

// An opened device. Shared: a view of its memory may outlive the session.
class Device {
 public:
  Device(std::shared_ptr<const plugin::Registry> registry, const std::string& name,
         const config::OptionSet& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  const plait_device_item& item() const { return item_; }
  plait_device* handle() const { return handle_; }
  const plait_host* host() const { return registry_->host_of(&item_); }
  const plait_device_info& info() const { return info_; }
  const std::string& plugin() const { return plugin_; }

 private:
  void close() noexcept;
  std::shared_ptr<const plugin::Registry> registry_;  // keeps the plugin loaded
  const plait_device_item& item_;
  std::string plugin_;
  plait_device* handle_ = nullptr;
  plait_device_info info_{};
};

// One allocation of device memory, zero at first.
class Arena {
 public:
  Arena(std::shared_ptr<Device> device, uint64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  char* data() const { return static_cast<char*>(data_); }
  uint64_t bytes() const { return bytes_; }
  const Device& device() const { return *device_; }

 private:
  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  uint64_t bytes_;
};

// Owner thread only.
class Executor {
 public:
  // connect: called once, when the device is open; returns the communicators of a plan that exchanges (borrowed), nullptr where
  // there is nothing to exchange.
  using Connect = std::function<Communicators*(const Device&)>;
  explicit Executor(std::shared_ptr<const plan::Plan> plan, const Connect& connect = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // program: index into Plan::programs; nothing happens for -1. slot: one of those it is for.
  void launch(int32_t program, int32_t slot = 0);
  // Host memory to a place and back; ordered with launches. read() waits.
  void write(plan::BufferRef at, const void* data, uint64_t bytes, int32_t slot = 0);
  void read(plan::BufferRef at, void* data, uint64_t bytes);
  void sync();
  // Which op of a program first leaves a value that is not finite: runs the program again op by op and looks at each result.
  // All ranks call it together. Slow; for the error message of a run that stops.
  struct NonFiniteValue {
    size_t op = 0;     // place in the program
    std::string text;  // "" when all values are finite
  };
  NonFiniteValue first_non_finite(int32_t program, int32_t slot = 0);

  char* address(plan::BufferRef at,
                int32_t slot = 0) const;  // device memory; a host pointer where the device says so
  // The memory of parameters, among others. Not that of gradients which ranks reduce where all of them reach it.
  const std::shared_ptr<Arena>& arena() const { return arena_; }
  // All memory that the plan lists.
  uint64_t bytes() const { return arena_->bytes() + shared_bytes_; }
  // Of it, what other ranks reach.
  uint64_t shared_bytes() const { return shared_bytes_; }
  const Device& device() const { return *device_; }

 private:
  // A call on one slot. An exchange has a kernel for each, others share one.
  struct SlotKernel {
    plait_kernel* kernel;
    std::vector<void*> operands;
  };
  struct PreparedKernel {
    const plait_kernel_item* item;
    plait_kernel* kernel;  // nullptr for an exchange
    void* workspace;
    std::vector<SlotKernel> slots;
  };
  struct LoadedProgram {
    const plan::Program* program = nullptr;
    std::vector<PreparedKernel> calls;
    std::vector<plait_graph*> graphs;  // by slot
  };
  void allocate();
  void load(LoadedProgram& into, const plan::Program& program);
  PreparedKernel prepare(const plan::Program& program, const plan::KernelCall& call);
  plait_kernel* prepare_collective(const plan::KernelCall& call, const program::Op& op,
                                   int32_t slot, const std::vector<void*>& operands);
  void enqueue(const LoadedProgram& program, const PreparedKernel& call, size_t slot);
  bool finite(plan::BufferRef at, const plait_shape& shape, int32_t slot);
  void release() noexcept;
  // Calls a function of the device.
  template <class F>
  void call(const char* function, F&& f) const;
  void check(plait_error* e, const std::string& call) const;

  std::shared_ptr<const plan::Plan> plan_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Arena> arena_;
  std::vector<char*> segments_;  // as the plan's
  uint64_t shared_bytes_ = 0;    // of those that lie in memory of the communicators
  char* transient_ = nullptr;
  plait_queue* queue_ = nullptr;
  Communicators* communicators_;
  std::vector<LoadedProgram> programs_;  // as Plan::programs
};

}  // namespace plait::runtime
