// The control channel of a job of one rank: values in memory, no socket, no thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/runtime/control/job_termination.hpp"

namespace plait::runtime::control {

// Thread-safe.
class LocalControl {
 public:
  explicit LocalControl(std::string name);
  void set(const std::string& key, std::string_view value);
  std::string get(const std::string& key, double seconds);
  std::optional<std::string> get_within(const std::string& key, double seconds);
  void forget(const std::string& key);
  void abort(std::string_view text) noexcept;
  JobTermination& termination() { return termination_; }
  const JobTermination& termination() const { return termination_; }

 private:
  const std::string name_;
  JobTermination termination_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace plait::runtime::control
