// The groups this rank belongs to, and what its programs exchange with them: every exchange of the
// plan becomes one prepared call.
#pragma once

#include <plait/comm.h>
#include <plait/device.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/runtime/backend_selection.hpp"
#include "engine/runtime/control.hpp"

namespace plait::runtime {

// Owner thread only, but for what the control channel does to it.
class Communicators {
 public:
  // Connects every group that the plan's collectives need; where the device has memory of its own,
  // beside each one for host memory. control is borrowed; host_memory: the device's memory is the
  // host's; device: what backends for its memory are given. Errors: PLAIT_ERR_PEER naming who is
  // missing; PLAIT_ERR_CONFIG when no backend reaches all members. [blocks: yes]
  Communicators(std::shared_ptr<const plan::Plan> plan, Control& control, bool host_memory,
                plait_device* device = nullptr);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // Collectives as kernels: one puts the start of a prepared collective on a queue, the other waits for
  // its end; where that pays, the latter does both. Neither is released.
  static const plait_kernel_item& start_item();
  static const plait_kernel_item& wait_item();
  // On a device that records: whether the start and the wait of a collective can be part of one
  // graph, which then makes it at each launch; whether it needs the host, which waits for the queue
  // first. Both of kernels that were prepared.
  static bool can_be_recorded(const plait_kernel& collective);
  static bool on_host(const plait_kernel& collective);
  // While the queue captures.
  static plait_error* record_start(const plait_kernel& collective, plait_queue* queue);
  static plait_error* record_wait(const plait_kernel& collective, plait_queue* queue);
  // A graph that holds the collective is about to be launched.
  static void launched(const plait_kernel& collective) noexcept;
  // Ends all groups from this side.
  void abort(const std::string& reason) noexcept { end(reason); }
  // Throws when a group has failed whose collectives are in graphs, or the job is over.
  void check();
  // Whether that is what one of those kernels has said: a device only hands it on.
  static bool is_collective_error(const plait_error& error);
  // A collective of the plan on memory of the device; slot: which of those the program runs on. It
  // lives as long as this object. Two programs that start the same collective do so from the same
  // memory.
  plait_kernel* prepare(int32_t collective, int32_t slot, const void* in, void* out);
  // The same for whoever waits, also before prepare(). A wait for what was not started waits for
  // nothing.
  plait_kernel* prepared(int32_t collective, int32_t slot);
  // Memory of the host, or of the device where the group's backend is for that, zero at first, that
  // all ranks of an axis reach; it lives as long as this object. All of them ask for the same, in
  // the same order. nullptr: there is none. [blocks: yes]
  char* memory(topology::Axis axis, uint64_t bytes);
  // The groups that are connected, and through which backend.
  struct Connected {
    std::string group, backend;
    int32_t ranks;
  };
  std::vector<Connected> connected() const;
  // Adds up numbers of host memory over the ranks of an axis, in place, at once. All of them call
  // it. [blocks: yes]
  void sum(topology::Axis axis, std::span<int32_t> numbers);

 private:
  struct CommGroup;
  struct PreparedCall;
  CommGroup& group_of(topology::Axis axis, uint32_t channel = 0);
  CommGroup& host_group_of(topology::Axis axis);
  PreparedCall& call_of(int32_t collective, int32_t slot);
  void open(const topology::ProcessGroup& members, uint32_t channel, Memory memory);
  void end(const std::string& reason) noexcept;
  static void abort_group(const CommGroup& g, const std::string& reason) noexcept;
  void close() noexcept;

  std::shared_ptr<const plan::Plan> plan_;
  Control& control_;
  plait_device* device_;
  std::mutex mutex_;   // guards CommGroup::comm and ended_ against the control channel's thread
  std::string ended_;  // why the job is over, or ""
  std::deque<CommGroup> groups_;
  std::map<std::pair<int32_t, int32_t>, std::unique_ptr<PreparedCall>>
      calls_;  // by collective and slot
};

}  // namespace plait::runtime
