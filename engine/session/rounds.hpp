// What ranks tell each other in passing: short texts, in rounds that all ranks take part in, in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/runtime/control.hpp"

namespace plait::session {

// One thread at a time. Rounds of two names are apart from each other, so that two threads may be in one each.
class Rounds {
 public:
  // control: nullptr where there is one rank.
  Rounds(runtime::Control* control, std::string name, int32_t rank, int32_t size)
      : control_(control), name_(std::move(name)), rank_(rank), size_(size) {}

  bool alone() const { return !control_; }
  bool leads() const { return rank_ == 0; }
  int32_t rank() const { return rank_; }
  int32_t size() const { return size_; }

  // Rank 0's text, on every rank. Errors: PLAIT_ERR_PEER. [blocks: yes]
  std::string from_leader(const std::string& text);
  // Every rank's text, by rank.
  std::vector<std::string> from_all(const std::string& text);

 private:
  std::string key(const char* what, int32_t rank) const;
  void lay_down(const char* what, const std::string& text);

  runtime::Control* control_;
  std::string name_;
  int32_t rank_, size_;
  int64_t round_ = 0;                   // so far
  std::vector<std::string> laid_down_;  // keys of this rank that the others may not have read yet
};

}  // namespace plait::session
