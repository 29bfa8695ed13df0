// The process groups of this rank and the collectives of its programs: every collective of the plan
// becomes a prepared call of a backend.
#pragma once

#include <plait/comm.h>
#include <plait/device.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/runtime/backend_selection.hpp"
#include "engine/runtime/collective_log.hpp"
#include "engine/runtime/control.hpp"
#include "engine/runtime/device.hpp"

namespace plait::runtime {

// Owner thread only; the control channel ends the groups from a thread of its own.
class Communicators {
 public:
  // Connects every group that the plan's collectives need; if the device has memory of its own,
  // with a group for host memory beside each. control is borrowed; device: whose memory the
  // collectives exchange, nullptr: host memory; passed_over: see select_backend().
  // Errors: PLAIT_ERR_PEER naming the missing ranks; PLAIT_ERR_CONFIG if no backend connects all
  // members. [blocks: yes]
  Communicators(std::shared_ptr<const plan::Plan> plan, Control& control,
                std::shared_ptr<const Device> device, std::set<std::string> passed_over = {});
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // Collectives as kernels: one starts a prepared collective on a queue, the other waits for its
  // end; if the start is deferred, the latter does both. Neither is released.
  static const plait_kernel_item& start_item();
  static const plait_kernel_item& wait_item();
  // On a device that records: whether start and wait of a prepared collective can be recorded in a
  // graph, which performs it at each launch; whether it works on the host, which must wait for the
  // queue first.
  static bool can_be_recorded(const plait_kernel& collective);
  static bool on_host(const plait_kernel& collective);
  // Record a start or a wait while the queue captures.
  static plait_error* record_start(const plait_kernel& collective, plait_queue* queue);
  static plait_error* record_wait(const plait_kernel& collective, plait_queue* queue);
  // Must be called before the launch of a graph that contains the collective.
  static void launched(const plait_kernel& collective) noexcept;
  // Ends all groups on this rank.
  void abort(const std::string& reason) noexcept { end(reason); }
  // For a device that was given up: aborts the groups and keeps them until the process ends, as
  // work of the device refers to them.
  static void abandon(std::unique_ptr<Communicators> groups) noexcept;
  // Throws if a group whose collectives are recorded in graphs has failed, as all of them do when
  // the job is over.
  void check();
  // Whether the error comes from one of those kernels: devices pass it on.
  static bool is_collective_error(const plait_error& error);
  // Prepares a collective of the plan on device memory; slot: the slot of the program. The kernel
  // lives as long as this object. Programs that start the same collective must use the same
  // memory.
  plait_kernel* prepare(int32_t collective, int32_t slot, const void* in, void* out);
  // The kernel for waiting, also before prepare(). Waiting for a collective that was not started
  // returns at once.
  plait_kernel* prepared(int32_t collective, int32_t slot);
  // Allocates zeroed memory that all ranks of an axis can access: device memory if the backend is
  // one for the device, otherwise host memory. It lives as long as this object. All ranks request
  // the same sizes in the same order. nullptr: the backend has none. [blocks: yes]
  char* memory(topology::Axis axis, uint64_t bytes);
  // The connected groups and their backends.
  struct Connected {
    std::string group, backend;
    int32_t ranks;
  };
  std::vector<Connected> connected() const;
  // What this rank knows of the collectives of a group, for a record of a job that has failed.
  // Sends and receives are not among them.
  struct GroupCalls {
    std::string group, backend;
    std::vector<int32_t> ranks;        // the members
    std::optional<uint64_t> finished;  // calls; nullopt where the device waits for them by itself
    std::vector<CollectiveLog::StartedCall> started;  // the most recent, the newest last
  };
  std::vector<GroupCalls> last_calls() const;
  // Seconds that work of the device may wait for another rank: topology.timeout, or 0 if no group
  // works on the device.
  double device_timeout() const;
  // The time that this rank has spent in waits for collectives, so far. A device that records waits
  // by itself: 0.
  uint64_t waited_ns() const { return waited_ns_.load(std::memory_order_relaxed); }
  // Sums numbers in host memory over the ranks of an axis, in place. All of them call it.
  // [blocks: yes]
  void sum(topology::Axis axis, std::span<int32_t> numbers);

 private:
  struct CommGroup;
  struct PreparedCall;
  CommGroup& group_of(topology::Axis axis, uint32_t channel = 0);
  CommGroup& host_group_of(topology::Axis axis);
  topology::ProcessGroup members_of(const CommGroup& group) const;
  PreparedCall& call_of(int32_t collective, int32_t slot);
  void open(const topology::ProcessGroup& members, uint32_t channel, GroupMemory memory);
  void end(const std::string& reason) noexcept;
  static void abort_group(const CommGroup& g, const std::string& reason) noexcept;
  void close() noexcept;

  std::shared_ptr<const plan::Plan> plan_;
  Control& control_;
  const std::shared_ptr<const Device> device_;
  std::set<std::string> passed_over_;
  std::mutex mutex_;   // guards CommGroup::comm and ended_ against the control channel's thread
  std::string ended_;  // the reason why the job is over, or ""
  std::atomic<uint64_t> waited_ns_{0};  // by the thread that runs the device's calls
  std::deque<CommGroup> groups_;
  std::map<std::pair<int32_t, int32_t>, std::unique_ptr<PreparedCall>>
      calls_;  // by collective and slot
};

}  // namespace plait::runtime
