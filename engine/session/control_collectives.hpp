// Collectives of short texts over the control channel. All ranks call them in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/runtime/control.hpp"

namespace plait::session {

// One thread at a time. Collectives of different names are independent, so two threads may each use
// one.
class ControlCollectives {
 public:
  // control: nullptr if there is only one rank.
  ControlCollectives(runtime::Control* control, std::string name, int32_t rank, int32_t size)
      : control_(control), name_(std::move(name)), rank_(rank), size_(size) {}

  bool is_single() const { return !control_; }
  bool is_leader() const { return rank_ == 0; }
  int32_t rank() const { return rank_; }
  int32_t size() const { return size_; }
  // Seconds of silence after which a rank counts as lost.
  double timeout() const { return control_ ? control_->timeout() : kTimeout; }

  // Seconds that a rank waits for another one. A live rank may take long for a checkpoint; the loss
  // of a rank ends the job, and with it the wait.
  static constexpr double kTimeout = 3600;

  // Rank 0's text, on every rank. Errors: PLAIT_ERR_PEER. [blocks: yes]
  std::string broadcast(const std::string& text);
  // Every rank's text, by rank. seconds: that it waits for all of them; advice: what to do when a
  // rank is late. Errors: PLAIT_ERR_PEER naming the first rank that is missing, or the reason why
  // the job is over. [blocks: yes]
  std::vector<std::string> all_gather(const std::string& text, double seconds = kTimeout,
                                      const char* advice = "look at its log");

 private:
  std::string key(const char* what, int32_t rank) const;
  void publish(const char* what, const std::string& text);
  std::string text_of(int32_t rank, double seconds, double waited, const char* advice) const;

  runtime::Control* control_;
  std::string name_;
  int32_t rank_, size_;
  int64_t round_ = 0;                   // number of rounds so far
  std::vector<std::string> published_;  // keys of this rank that other ranks may not have read yet
};

}  // namespace plait::session
