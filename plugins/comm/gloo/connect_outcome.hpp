// The outcome of one attempt to connect: a status in the store that the first rank to know it publishes and all others wait for.
//
// So an attempt that failed anywhere is over everywhere, at once: its ranks need not wait for who will not come any more.
#pragma once

#include <functional>
#include <mutex>
#include <plait/plugin.hpp>
#include <string>
#include <string_view>
#include <thread>

namespace plait::comm_gloo {

class ConnectOutcome {
 public:
  // `key`: of the status, one for each attempt. Waits on a thread of its own, which keeps all signals blocked.
  ConnectOutcome(const Host& host, const Store& store, std::string key);
  // Publishes that the attempt is over, if nobody has yet.
  ~ConnectOutcome();
  ConnectOutcome(const ConnectOutcome&) = delete;
  ConnectOutcome& operator=(const ConnectOutcome&) = delete;

  // Some rank could not connect. The first reason stays.
  void failed(const std::string& why) noexcept;
  // All ranks are connected.
  void succeeded() { status_ = kConnected; }
  // Why the attempt failed; "" as long as nobody has said so.
  std::string reason() const;

  // While it lives, `callback` is called with the reason, on the thread, as soon as there is one.
  class OnFailure {
   public:
    // Throws PLAIT_ERR_PEER with the reason when it is there already.
    OnFailure(ConnectOutcome& outcome, std::function<void(const std::string& why)> callback);
    ~OnFailure();
    OnFailure(const OnFailure&) = delete;
    OnFailure& operator=(const OnFailure&) = delete;

   private:
    ConnectOutcome& outcome_;
  };

 private:
  static constexpr const char* kConnected = "connected";
  void publish(std::string_view status) noexcept;
  void await_status() noexcept;

  const Host& host_;
  const Store& store_;
  const std::string key_;
  std::string status_ = "a rank went away";  // for the others, if they have none
  mutable std::mutex mutex_;                 // of what follows
  std::string reason_;
  std::function<void(const std::string&)> on_failure_;
  std::thread thread_;
};

}  // namespace plait::comm_gloo
