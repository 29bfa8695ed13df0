// The communicator of the messages to one peer, or from it.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "plugins/comm/members.hpp"
#include "plugins/comm/nccl/communicator.hpp"

namespace plait::comm_nccl {

// It connects on a thread of its own, since the other end may be prepared later.
class MessageLink {
 public:
  // kind: PLAIT_COMM_SEND or PLAIT_COMM_RECEIVE. All are borrowed.
  MessageLink(const Communicator::Shared& shared, const comm_support::Members& members,
              const Host& host, const Store& store, uint32_t kind, uint32_t peer,
              double connect_timeout);
  ~MessageLink();  // waits for the thread
  MessageLink(const MessageLink&) = delete;
  MessageLink& operator=(const MessageLink&) = delete;

  // The connected communicator. Throws why it cannot connect, or the group's failure. [blocks: yes]
  Communicator& connected();
  // For the thread that watches.
  Communicator& raw() { return communicator_; }
  // Keeps its memory on the GPU for ever: the communicator has not ended.
  void leak() { byte_->leak(); }
  // Whether the thread has ended.
  bool settled();

 private:
  void connect(const Host& host) noexcept;
  ncclUniqueId exchange_id();

  const Communicator::Shared& shared_;
  const comm_support::Members& members_;
  const Store& store_;
  const uint32_t kind_, peer_;
  const double connect_timeout_;
  Communicator communicator_;
  std::unique_ptr<DeviceMemory> byte_;  // the first message
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace plait::comm_nccl
