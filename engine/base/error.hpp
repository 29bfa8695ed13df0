// The engine's only exception class. It is converted to and from plait_error at the C ABI.
#pragma once

#include <plait/base.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

namespace plait {

// Code (PLAIT_ERR_*), text, and the error that caused this one. Texts read `[part] what, found,
// expected; where; what to do`.
class Error : public std::exception {
 public:
  Error(uint32_t code, std::string text, std::shared_ptr<const Error> cause = nullptr)
      : code_(code), text_(std::move(text)), cause_(std::move(cause)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  uint32_t code() const { return code_; }
  const std::string& text() const { return text_; }
  const std::shared_ptr<const Error>& cause() const { return cause_; }
  // This text and the texts of all causes, one per line.
  std::string full_text() const;

 private:
  uint32_t code_;
  std::string text_;
  std::shared_ptr<const Error> cause_;
};

// Shorthands; every throw in the engine uses one of them.
[[noreturn]] void fail(uint32_t code, std::string text);
[[noreturn]] void fail_invalid(std::string text);
[[noreturn]] void fail_config(std::string text);
[[noreturn]] void fail_not_found(std::string text);
[[noreturn]] void fail_data(std::string text);
[[noreturn]] void fail_io(std::string what, int error_number);  // adds strerror
[[noreturn]] void fail_internal(std::string text);
// Rethrows the exception in flight with the same code: `text` is the new text, the old error its
// cause.
[[noreturn]] void rethrow_with(std::string text);

// An error's text without its "[part] ", for a sentence that quotes it.
std::string without_part(const std::string& text);

// Human-readable sizes such as "12 MiB".
std::string human_bytes(uint64_t bytes);
// The candidate nearest to `word` by edit distance, or "" when none is near (distance > max(2,
// len/3)). The distance disregards case and '_'.
template <class Range>
std::string nearest(const std::string& word, const Range& candidates);
unsigned edit_distance(std::string_view a, std::string_view b);
// " (did you mean 'x'?)" or "".
std::string did_you_mean(const std::string& nearest);

template <class Range>
std::string nearest(const std::string& word, const Range& candidates) {
  std::string best;
  unsigned best_distance = word.size() / 3 > 2 ? static_cast<unsigned>(word.size() / 3) : 2;
  ++best_distance;
  for (const auto& c : candidates) {
    const std::string_view candidate(c);
    const unsigned d = edit_distance(word, candidate);
    if (d < best_distance) {
      best_distance = d;
      best = candidate;
    }
  }
  return best;
}

}  // namespace plait
