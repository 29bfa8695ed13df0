// The connections of one group: messages with deadlines, and one failure for all.
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

class Exchange;

class Wire {
 public:
  // The context's pairs are connected; `ends` (R) are second descriptors of their sockets. Throws what Gloo throws.
  Wire(const comm_support::Members& members, std::shared_ptr<::gloo::transport::Context> context,
       std::vector<Fd> ends);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  const comm_support::Members& members() const { return members_; }
  bool failed() const { return failed_; }
  [[noreturn]] void throw_failure() const;
  // Ends the group: the first text stays, and whoever waits wakes up, here and on the other ranks. [thread: any]
  void fail_all(std::string text) noexcept;
  // To be called every few milliseconds while somebody waits: waits look around then. Gloo tells of a dead peer only whoever
  // waits for that very peer, and not always him. [thread: any]
  void nudge() noexcept;
  // Takes leave, so that nobody takes the end of this connection for a death. Without it, it is one.
  void say_farewell() noexcept;

 private:
  friend class Exchange;
  bool gone(uint32_t rank) const { return hung_up(ends_[rank].get()); }
  bool farewell_of(uint32_t rank) const;
  void expect_farewells();

  const comm_support::Members& members_;
  const std::vector<Fd> ends_;
  std::shared_ptr<::gloo::transport::Context> context_;
  std::vector<char> farewells_;  // (R) 1: has taken leave; Gloo's thread writes
  std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>> farewell_buffers_;
  mutable std::mutex mutex_;
  std::vector<Exchange*> under_way_;
  std::string failure_;
  std::atomic<bool> failed_{false};
};

// The messages of one step of a call, all under way together. Everything ends in its destructor: no memory is touched later.
// For threads that have SIGPIPE blocked.
class Exchange {
 public:
  // `what`: "all_reduce of 10 f32 (sum)".
  Exchange(Wire& wire, const std::string& what, Clock::time_point deadline);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void send(uint32_t to, uint64_t slot, const void* memory, uint64_t bytes);
  void receive(uint32_t from, uint64_t slot, void* memory, uint64_t bytes);
  // Waits for all. Throws PLAIT_ERR_PEER, and the group is over.
  void wait();

 private:
  friend class Wire;
  struct Message {
    uint32_t peer;
    bool incoming, done;
    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer;
    bool wait(std::chrono::milliseconds most);  // false: woken up before
    void wake();
  };
  void post(uint32_t peer, uint64_t slot, void* memory, uint64_t bytes, bool incoming);
  void visit(Message& message);
  void look_around(const Message& awaited);
  std::string missing(const std::vector<bool>& besides);
  [[noreturn]] void overdue();
  [[noreturn]] void lost(uint32_t peer, const std::string& why);
  [[noreturn]] void end_with(const std::string& text);

  Wire& wire_;
  const std::string& what_;
  const Clock::time_point deadline_;
  // Changed under the wire's lock.
  std::vector<Message> messages_;
  Message* waited_for_ = nullptr;
  std::vector<int> looked_dead_;  // (R) times in a row
};

}  // namespace plait::comm_gloo
