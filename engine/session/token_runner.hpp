// Generation on the device: fills KV caches, computes logits and draws tokens, with the entry
// points prefill and decode of the plan. It keeps no sequences; see engine/generate.
//   N slots, V vocabulary
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/session/session_context.hpp"
#include "engine/session/step_runner.hpp"
#include "kit/draw_token.hpp"

namespace plait::session {

// Owner thread only; every rank makes the same calls in the same order. Only of a plan that
// generates. After construction nothing is allocated.
class TokenRunner {
 public:
  TokenRunner(SessionContext& context, StepRunner& steps);
  TokenRunner(const TokenRunner&) = delete;
  TokenRunner& operator=(const TokenRunner&) = delete;

  const plan::Generation& plan() const { return c_.plan.generation; }
  // Caches keys and values of tokens of one slot, the first at place `from` of its sequence; those
  // before must be cached. length: that of the sequence at the next decode(); see same_cache() of
  // the plan. adapter: the number of the one that computes them, -1: none; of a plan with
  // model.adapter_field.
  void prefill(int32_t slot, std::span<const int32_t> ids, int64_t from, int64_t length,
               int32_t adapter);
  // The last token of a sequence, whose slot has all tokens before it.
  struct Token {
    int32_t slot = 0, id = 0;
    int64_t at = 0;
    int32_t adapter = -1;  // as of prefill()
    bool on_host = false;  // logits() is wanted, and nothing is drawn
    kit::DrawSettings draw;
  };
  // Caches the tokens (at most N), and computes what may follow each. Token i is followed by
  // drawn(i) where the plan draws and it is not `on_host`, else by what the host draws from
  // logits(i) (V).
  void decode(std::span<const Token> tokens);
  bool draws(const Token& token) const { return plan().draws() && !token.on_host; }
  kit::Drawn drawn(size_t i) const;
  std::span<const float> logits(size_t i) const;
  // Whether caches still hold what the parameters make: on no rank have they changed since the last
  // call. All ranks must agree, since what one reuses the others do not compute with it.
  bool take_unchanged();
  // Whether Session::cancel() was called since the last time, on any rank: a rank that ended its
  // sequences alone would leave the others waiting.
  bool take_cancel();

 private:
  // One block of all that a launch is fed, as plan::GenerationInputs.
  class Inputs {
   public:
    Inputs(runtime::Executor& executor, const plan::GenerationInputs& plan);
    // Token k of sample b; at < 0: none.
    void set(int64_t b, int64_t k, int32_t id, int64_t at);
    void set_sequence(int64_t b, int32_t slot, int64_t length, int32_t adapter) {
      part(plan_.slot)[b] = slot;
      part(plan_.lengths)[b] = static_cast<int32_t>(length);
      if (plan_.adapter.segment >= 0) part(plan_.adapter)[b] = adapter;
    }
    // Only of a plan that draws.
    void set_draw(int64_t b, const kit::DrawSettings& draw);
    void write(runtime::Executor& executor);

   private:
    int32_t* part(plan::BufferRef at) {
      return block_.data() + (at.offset - plan_.ids.offset) / sizeof(int32_t);
    }
    const plan::GenerationInputs& plan_;
    std::vector<int32_t> block_;
    runtime::Uploads uploads_;
  };

  void launch(const plan::EntryPoint& entry);
  // Copies what decode() has computed of these tokens to the host.
  void read(std::span<const Token> tokens);
  // In drawn_.
  size_t first_log_probability() const {
    return (plan().drawn_log_probabilities.offset - plan().drawn.offset) / sizeof(int32_t);
  }
  // Whether something is so on any rank.
  bool on_any_rank(bool own);

  SessionContext& c_;
  StepRunner& steps_;
  const plan::EntryPoint &prefill_, &decode_;
  Inputs chunk_, tokens_;
  std::vector<float> logits_;   // (N, V)
  std::vector<int32_t> drawn_;  // as plan::Generation::drawn, with the gap behind the ids
  std::optional<SessionContext::ParameterVersion> version_;  // of the last take_unchanged()
};

}  // namespace plait::session
