// The connections of one group: messages with deadlines, and a failure that ends the whole group.
#pragma once

#include <gloo/transport/context.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/comm/gloo/sockets.hpp"
#include "plugins/comm/members.hpp"

namespace plait::comm_gloo {

class MessageBatch;

class PeerLinks {
 public:
  // The pairs of the context are connected; `sockets` (R) holds second descriptors of their
  // sockets. Throws Gloo's exceptions.
  PeerLinks(const comm_support::Members& members,
            std::shared_ptr<::gloo::transport::Context> context, std::vector<Fd> sockets);
  ~PeerLinks();
  PeerLinks(const PeerLinks&) = delete;
  PeerLinks& operator=(const PeerLinks&) = delete;

  const comm_support::Members& members() const { return members_; }
  bool failed() const { return failed_; }
  [[noreturn]] void throw_failure() const;
  // Ends the group: the first text is kept, and every waiting thread wakes up, here and on the
  // other ranks. [thread: any]
  void fail_all(std::string text) noexcept;
  // Makes all waits poll their peers; call it every few milliseconds while a thread waits. Gloo
  // reports a dead peer only to a thread that waits for that peer, and not always to that one.
  // [thread: any]
  void wake() noexcept;
  // Sends the goodbye message. A peer whose connection closes without it counts as dead.
  void send_goodbye() noexcept;

 private:
  friend class MessageBatch;
  bool gone(uint32_t rank) const { return peer_closed(sockets_[rank].get()); }
  bool said_goodbye(uint32_t rank) const;
  void post_goodbye_receives();

  const comm_support::Members& members_;
  const std::vector<Fd> sockets_;
  std::vector<std::string> addresses_;  // (R), of the other ends
  std::shared_ptr<::gloo::transport::Context> context_;
  std::vector<char> goodbyes_;  // (R) 1: the peer has said goodbye; written by Gloo's thread
  std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>> goodbye_buffers_;
  mutable std::mutex mutex_;
  std::vector<MessageBatch*> active_;
  std::string failure_;
  std::atomic<bool> failed_{false};
};

// The messages of one step of a call, all in flight together. The destructor ends all of them, so
// that no memory is touched later. Use it only on threads that block SIGPIPE.
class MessageBatch {
 public:
  // `what`: "all_reduce of 10 f32 (sum)".
  MessageBatch(PeerLinks& links, const std::string& what, Clock::time_point deadline);
  ~MessageBatch();
  MessageBatch(const MessageBatch&) = delete;
  MessageBatch& operator=(const MessageBatch&) = delete;

  void send(uint32_t to, uint64_t slot, const void* memory, uint64_t bytes);
  void receive(uint32_t from, uint64_t slot, void* memory, uint64_t bytes);
  // Waits for all messages. On failure ends the group and throws PLAIT_ERR_PEER.
  void wait();

 private:
  friend class PeerLinks;
  struct Message {
    uint32_t peer;
    bool incoming, done;
    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer;
    bool wait(std::chrono::milliseconds most);  // false: woken up earlier
    void wake();
  };
  void post(uint32_t peer, uint64_t slot, void* memory, uint64_t bytes, bool incoming);
  void wait_for(Message& message);
  void poll_peers(const Message& awaited);
  std::string missing(const std::vector<bool>& besides);
  [[noreturn]] void overdue();
  [[noreturn]] void lost(uint32_t peer, const std::string& why);
  [[noreturn]] void fail_group(const std::string& text);

  PeerLinks& links_;
  const std::string& what_;
  const Clock::time_point deadline_;
  // Guarded by the lock of links_.
  std::vector<Message> messages_;
  Message* current_ = nullptr;
  std::vector<int> closed_polls_;  // (R) consecutive polls
};

}  // namespace plait::comm_gloo
