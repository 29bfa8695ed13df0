// The errors for results that are not finite: finds whether the data is the cause, and the op that
// computed them.
#pragma once

#include <string>

#include "engine/session/feeder.hpp"
#include "engine/session/host_buffer.hpp"
#include "engine/session/session_context.hpp"

namespace plait::session {

// The message for a staged value that is out of range; "" if there is none. source: "[data.train]"
// or "[feed]".
std::string out_of_range_text(const plan::Plan& plan, const Feeder::OutOfRange& found,
                              const std::string& source, const std::string& where);
// Why a loss is the mean of nothing: "the weights of all samples are 0, or all labels below 0", and
// what else may be where samples take adapters of their own.
std::string counts_nothing_text(const plan::Plan& plan);
// Collective. own: the message for the samples of this rank, or "". PLAIT_ERR_DATA on every rank if
// one has a message.
void fail_out_of_range(RankContext& ranks, const std::string& own);

// Counts steps that were skipped in a row. Every rank makes the same calls.
class NumericsGuard {
 public:
  // results: of the last step.
  NumericsGuard(SessionContext& context, const HostBuffer& results)
      : c_(context), results_(results) {}
  // What is known of the samples of a step that was skipped, on this rank.
  struct Samples {
    Feeder::OutOfRange outside;
    std::string non_finite;  // Feeder::non_finite_text()
    int64_t batch = -1;      // of [data.train], over all epochs; -1: the host fed them
  };
  // A step has ended. next_launched: the next one is in flight. Errors: PLAIT_ERR_DATA for an index
  // out of range, and as fail() after guard.nonfinite_limit skipped steps.
  void check(const StepResult& result, const Samples& samples, bool next_launched);
  // Throws the error of a run whose last steps, up to this one, were not finite. saved: the end of
  // the text, about saved state. Rank 0 writes what is known of the step to the run directory,
  // nonfinite/step-N.json.
  [[noreturn]] void fail(const StepResult& result, const std::string& saved, bool next_launched);

 private:
  bool has_zero_weight() const;
  void dump(const StepResult& result, const std::string& op) noexcept;
  std::string first_non_finite();

  SessionContext& c_;
  const HostBuffer& results_;
  int64_t batch_ = -1;  // of the last step that was skipped
};

}  // namespace plait::session
