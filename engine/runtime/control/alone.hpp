// The control channel of a job of one rank: values in memory, no socket, no thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/runtime/control/ending.hpp"

namespace plait::runtime::control {

// Thread-safe.
class Alone {
 public:
  explicit Alone(std::string name);
  void set(const std::string& key, std::string_view value);
  std::string get(const std::string& key, double seconds);
  void forget(const std::string& key);
  void give_up(std::string_view text) noexcept;
  Ending& ending() { return ending_; }
  const Ending& ending() const { return ending_; }

 private:
  const std::string name_;
  Ending ending_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace plait::runtime::control
