// Sequences that are generated side by side: each waits for a slot, its prompt is computed, then a
// token of each sequence is drawn per step.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/generate/sampler.hpp"
#include "engine/generate/text_stream.hpp"
#include "engine/session/token_runner.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace plait::generate {

enum class Finish : uint8_t { kNone, kEnd, kStop, kLength, kCancelled, kFailed };

struct Prompt {
  std::vector<int32_t> ids;
  Sampling sampling;
  int64_t max_tokens = 0;  // behind the prompt; 0: up to the plan's length
  int64_t min_tokens = 0;  // no end id is drawn before
  std::vector<int32_t> end;
  std::vector<std::string> stop;   // only with a tokenizer
  bool log_probabilities = false;  // report that of each token
  size_t best = 0;                 // most likely tokens to report with theirs
  int32_t adapter = -1;            // the number of the one that computes it; -1: the model alone
};

// A token that was drawn; valid during the callback.
struct Token {
  uint64_t sequence = 0;
  int64_t index = 0;
  int32_t id = -1;  // -1: none, the sequence was cancelled or failed
  Finish finish = Finish::kNone;
  std::string_view text;
  double log_probability = 0;  // by the model, without temperature and penalty; NaN: not asked for
  const std::vector<ScoredToken>& best;  // log-probabilities
  int64_t reused = 0;                    // tokens of the prompt that the slot had cached
};

// Owner thread only; every rank makes the same calls in the same order.
class Generator {
 public:
  // tokenizer: null: no texts. Both are borrowed. prefix_caching: a free slot keeps what it has
  // cached, and a prompt that begins with the same tokens reuses their keys and values. Its logits
  // may then differ by rounding: tokens that were drawn are computed one by one.
  Generator(session::TokenRunner& runner, const tokenizer::Tokenizer* tokenizer,
            bool prefix_caching = false);

  const tokenizer::Tokenizer* tokenizer() const { return tokenizer_; }
  // Adds a sequence, which waits for a slot; returns its number. Errors: PLAIT_ERR_INVALID.
  uint64_t add(Prompt prompt);
  // Errors: PLAIT_ERR_INVALID when a prompt of n tokens is empty or leaves no room for another.
  void check_length(uint64_t n) const;
  // Ends a sequence; the next step reports it.
  void cancel(uint64_t sequence);
  // One token of each sequence with a slot, by slot. The callback returns false to end the
  // sequence. Returns the number of sequences that are not finished. After Session::cancel() all
  // sequences end. Errors: PLAIT_ERR_NUMERIC when the logits of a sequence are not finite, after
  // all others have their token: that sequence is finished, the others go on.
  using OnToken = std::function<bool(const Token&)>;
  size_t step(const OnToken& on_token);

 private:
  struct Sequence {
    uint64_t number = 0;
    Prompt prompt;
    std::vector<int32_t> ids;  // prompt and what was drawn
    std::optional<TextStream> text;
    std::string last_text;  // of the last token, with what was held back
    int64_t reused = 0;     // see Token
    bool cancelled = false;
    bool stale = false;  // parameters have changed since its first tokens were cached
    int64_t drawn() const { return static_cast<int64_t>(ids.size() - prompt.ids.size()); }
  };

  void check(const Prompt& prompt) const;
  void admit();
  // Caches all tokens of a sequence but the last, from place `from` on.
  void cache(size_t slot, const Sequence& s, size_t from);
  // Those whose last token made them longer than a limit of the plan, from the first token on.
  void cache_grown();
  // The free slot in which a prompt reuses most and overwrites least, and how many of its tokens
  // the slot has cached; nullopt: no slot is free.
  struct FreeSlot {
    size_t slot = 0, cached = 0;
  };
  std::optional<FreeSlot> best_slot(const Prompt& prompt) const;
  // The sequence of a slot is finished; all of its tokens but the last are cached.
  void release(size_t slot);
  // What the slots hold is not known.
  void drop_all();
  void report_cancelled(const OnToken& on_token);
  // The last report of a sequence, without a token: with the text that was held back.
  void report_end(Sequence& sequence, Finish finish, const OnToken& on_token);
  // What the device computes for the next token of the sequence in a slot.
  session::TokenRunner::Token input_of(size_t slot) const;
  // Ids that are not drawn yet, by min_tokens.
  static std::span<const int32_t> banned(const Sequence& sequence);
  // Takes the token of tokens_[i] that the device has drawn, or draws it from the logits.
  void draw(const Sequence& sequence, size_t i, Token& token);
  // Draws and reports the next token, that of tokens_[i]; false: the sequence has ended.
  bool next(Sequence& sequence, size_t i, const OnToken& on_token);
  Finish finish_of(const Sequence& sequence, int32_t id) const;

  session::TokenRunner& runner_;
  const tokenizer::Tokenizer* const tokenizer_;
  Sampler sampler_;
  const bool prefix_caching_;
  std::vector<std::unique_ptr<Sequence>> slots_;  // (N) null: free
  std::vector<std::vector<int32_t>> held_;        // (N) the ids that a free slot has cached
  std::vector<int32_t> held_adapter_;             // (N) the number of the adapter that made them
  int64_t n_model_ids_;                           // that the model both reads and writes
  size_t n_ids_ = 0;  // that may be drawn: a model may have more than its tokenizer
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<session::TokenRunner::Token> tokens_;
  std::vector<ScoredToken> best_;
  uint64_t next_number_ = 0;
};

}  // namespace plait::generate
