// One rank's end of a group, as plait::comm() of comm.hpp wants it.
//
// Each call is put on a stream of its communicator, between two events that tie it to the queue.
// The collectives of the group share one communicator; messages have one for each peer and
// direction, so that they wait for no other call. A thread watches the group: it sees calls that
// take too long and errors that NCCL notices, and it ends the communicators when the group fails.
#pragma once

#include <plait/comm.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "plugins/comm/call.hpp"
#include "plugins/comm/nccl/communicator.hpp"
#include "plugins/comm/nccl/counts.hpp"
#include "plugins/comm/nccl/kernels.hpp"
#include "plugins/comm/nccl/messages.hpp"

namespace plait::comm_nccl {

class ProcessGroup {
 public:
  class Call;

  static std::span<const plait_option> options();
  static void probe(const Host& host, const Options& options, const plait_comm_needs& needs);

  ProcessGroup(const Host& host, const Options& options, const plait_comm_setup& setup);
  ~ProcessGroup();
  void abort(std::string_view text) noexcept;
  void status() const;

 private:
  // What the driver holds for a call.
  struct Resources {
    Resources(ProcessGroup& group, const plait_comm_desc& desc, const std::string& what, Wire wire,
              uint64_t scratch_bytes);
    Kernels::Pair convert;
    DeviceMemory scratch;  // the operand as it travels
    Event begin, end;
    Counts::Slot& counts;
  };

  void warm(Clock::time_point deadline);
  void watch() noexcept;
  // A sum, a byte to send, and one from each member.
  uint64_t barrier_bytes() const { return sizeof(int32_t) + 1 + members_.size; }
  std::string others() const;
  template <class F>
  void each(F&& f);
  bool end_all() noexcept;
  void release(bool in_peace) noexcept;
  MessageLink& link_of(const plait_comm_desc& desc);
  void fail_group(uint32_t code, std::string_view text) noexcept;
  void stop_watching() noexcept;

  const Host host_;
  const comm_support::Members members_;
  const double timeout_, connect_timeout_;
  const bool native_;  // 16-bit floats are added by NCCL as they are
  const Store store_;
  Failure failure_;
  const plait_cuda_device& device_;
  const Library& nccl_;
  const Communicator::Shared shared_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<DeviceMemory> barrier_;  // what barriers exchange, and the first messages
  std::unique_ptr<Counts> counts_;
  std::unique_ptr<Communicator> collectives_;
  std::mutex mutex_;  // of links_, which grow while others are watched
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<MessageLink>> links_;  // by kind and peer
  std::vector<std::unique_ptr<Resources>> kept_;  // of calls released after the group had failed

  std::mutex watch_mutex_;
  std::condition_variable wake_;
  bool leaving_ = false, failed_ = false;  // under watch_mutex_
  std::thread watcher_;
};

class ProcessGroup::Call {
 public:
  Call(ProcessGroup& group, const plait_comm_desc& desc);
  ~Call();
  void start(plait_queue* queue);
  void finish(plait_queue* queue);

 private:
  bool empty() const { return desc_.n == 0 && desc_.kind != PLAIT_COMM_BARRIER; }
  uint64_t in_elements() const;
  ncclResult_t exchange(ncclComm_t comm, CUstream stream) const;
  ncclResult_t all_to_all(ncclComm_t comm, CUstream stream) const;
  void enqueue(Communicator& on);

  bool under_way() const;
  void wait_until_over() noexcept;

  ProcessGroup& group_;
  const plait_comm_desc desc_;
  const std::string what_;
  const Wire wire_;
  MessageLink* const link_;  // of a message
  std::unique_ptr<Resources> held_;
  bool started_ = false;
  bool incomplete_ = false;  // start() has failed half-way: its counts differ for ever
};

}  // namespace plait::comm_nccl
