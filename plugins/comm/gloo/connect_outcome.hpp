// The outcome of connecting: a status in the store, published by the first rank that knows it and
// awaited by all others.
//
// What failed on one rank therefore ends on all ranks at once; none waits for a rank that will not
// come.
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
  // `key`: key of the status; `head`: "[gloo] group NAME". Waits on its own thread, which blocks
  // all signals. Errors: PLAIT_ERR_IO, which the other ranks learn, where no thread can be started.
  ConnectOutcome(const Host& host, const Store& store, std::string key, std::string_view head);
  // Publishes that this rank has left, unless a status exists already.
  ~ConnectOutcome();
  ConnectOutcome(const ConnectOutcome&) = delete;
  ConnectOutcome& operator=(const ConnectOutcome&) = delete;

  // Publishes that a rank could not connect. The first reason is kept.
  void failed(const std::string& why) noexcept;
  // Publishes that all ranks are connected.
  void succeeded() { status_ = kConnected; }
  // The reason why a rank failed; "" while there is none.
  std::string reason() const;

  // While it lives, the thread calls `callback` with the reason as soon as there is one.
  class OnFailure {
   public:
    // Throws PLAIT_ERR_PEER with the reason if there is one already.
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
  // Published for the other ranks if there is no status yet.
  std::string status_ = "a rank disconnected";
  mutable std::mutex mutex_;  // guards the members below
  std::string reason_;
  std::function<void(const std::string&)> on_failure_;
  std::thread thread_;
};

}  // namespace plait::comm_gloo
