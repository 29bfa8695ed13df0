#include "engine/generate/generator.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <set>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::generate {
namespace {

void need(bool good, const char* name, double found, const char* expected) {
  if (!good) fail_invalid(strf("[generate] %s is %g, expected %s", name, found, expected));
}

void check(const Sampling& s) {
  need(s.temperature >= 0 && std::isfinite(s.temperature), "temperature", s.temperature,
       "a number from 0 on");
  need(s.top_p > 0 && s.top_p <= 1, "top_p", s.top_p, "a number above 0, at most 1");
  need(s.min_p >= 0 && s.min_p <= 1, "min_p", s.min_p, "a number from 0 to 1");
  need(s.repetition_penalty > 0 && std::isfinite(s.repetition_penalty), "repetition_penalty",
       s.repetition_penalty, "a number above 0");
  need(s.top_k >= 0, "top_k", static_cast<double>(s.top_k), "a number of tokens, 0 for all");
}

// Otherwise no token could be drawn before `min_tokens`.
void check_ends(const Prompt& p, size_t n_ids) {
  if (p.min_tokens == 0 || p.end.size() < n_ids) return;
  const std::set<int32_t> ends(p.end.begin(), p.end.end());
  for (size_t id = 0; id < n_ids; ++id)
    if (!ends.contains(static_cast<int32_t>(id))) return;
  fail_invalid(
      strf("[generate] all %zu ids are end ids, and min_tokens is %ld, so no token can be "
           "drawn; leave some ids that do not end the sequence",
           n_ids, static_cast<long>(p.min_tokens)));
}

}  // namespace

Generator::Generator(session::TokenRunner& runner, const tokenizer::Tokenizer* tokenizer,
                     bool prefix_caching)
    : runner_(runner),
      tokenizer_(tokenizer),
      sampler_(runner.plan().vocabulary),
      prefix_caching_(prefix_caching),
      slots_(static_cast<size_t>(runner.plan().slots)),
      held_(slots_.size()),
      held_adapter_(slots_.size(), -1),
      n_model_ids_(runner.plan().vocabulary) {
  for (const plan::IndexRange& r : runner.plan().ids) n_model_ids_ = std::min(n_model_ids_, r.end);
  n_ids_ = static_cast<size_t>(n_model_ids_);
  if (tokenizer) n_ids_ = std::min(n_ids_, static_cast<size_t>(tokenizer->info().vocabulary));
  tokens_.reserve(slots_.size());
}

void Generator::check_length(uint64_t n) const {
  if (n == 0)
    fail_invalid(
        "[generate] the prompt is empty, expected at least one token, such as the one that "
        "begins a text");
  const auto most = static_cast<uint64_t>(runner_.plan().length - 1);
  if (n > most)
    fail_invalid(
        strf("[generate] the prompt has %llu tokens, expected at most %llu, one less than "
             "generate.length; shorten it, or set generate.length = %llu or more",
             static_cast<unsigned long long>(n), static_cast<unsigned long long>(most),
             static_cast<unsigned long long>(n) + 1));
}

void Generator::check(const Prompt& p) const {
  check_length(p.ids.size());
  for (size_t i = 0; i < p.ids.size(); ++i)
    if (p.ids[i] < 0 || p.ids[i] >= n_model_ids_)
      fail_invalid(
          strf("[generate] token %zu of the prompt is %d, the model has ids 0 to %ld; is "
               "the tokenizer that of the model?",
               i, p.ids[i], static_cast<long>(n_model_ids_ - 1)));
  need(p.max_tokens >= 0, "max_tokens", static_cast<double>(p.max_tokens), "0 or more");
  need(p.min_tokens >= 0, "min_tokens", static_cast<double>(p.min_tokens), "0 or more");
  generate::check(p.sampling);
  check_ends(p, n_ids_);
  if (!p.stop.empty() && !tokenizer_)
    fail_invalid(
        "[generate] stop texts need a tokenizer; give the generator one, or [tokenizer] in "
        "the experiment");
}

uint64_t Generator::add(Prompt prompt) {
  check(prompt);
  auto s = std::make_unique<Sequence>();
  s->ids = prompt.ids;
  s->prompt = std::move(prompt);
  if (tokenizer_) {
    constexpr size_t kContext = 8;  // tokens on which the text of the next one may depend
    const auto from = s->ids.end() - static_cast<long>(std::min(kContext, s->ids.size()));
    s->text.emplace(*tokenizer_, std::vector<int32_t>(from, s->ids.end()), s->prompt.stop);
  }
  s->number = next_number_;
  waiting_.push_back(std::move(s));
  return next_number_++;
}

void Generator::cancel(uint64_t number) {
  const auto mark = [&](const std::unique_ptr<Sequence>& s) {
    if (s && s->number == number) s->cancelled = true;
  };
  for (const auto& s : slots_) mark(s);
  for (const auto& s : waiting_) mark(s);
}

void Generator::report_cancelled(const OnToken& on_token) {
  const auto ends = [&](const std::unique_ptr<Sequence>& s) {
    if (!s || !s->cancelled) return false;
    report_end(*s, Finish::kCancelled, on_token);
    return true;
  };
  for (size_t slot = 0; slot < slots_.size(); ++slot)
    if (ends(slots_[slot])) release(slot);
  std::erase_if(waiting_, ends);
}

void Generator::report_end(Sequence& s, Finish finish, const OnToken& on_token) {
  best_.clear();
  const std::string_view text = s.text ? s.text->finish() : std::string_view();
  on_token({s.number, s.drawn(), -1, finish, text, std::nan(""), best_, s.reused});
}

void Generator::release(size_t slot) {
  if (prefix_caching_ && !slots_[slot]->stale) {
    held_[slot] = std::move(slots_[slot]->ids);
    held_[slot].pop_back();
    held_adapter_[slot] = slots_[slot]->prompt.adapter;
  }
  slots_[slot].reset();
}

void Generator::drop_all() {
  for (auto& s : slots_) s.reset();
  for (auto& ids : held_) ids.clear();
}

std::optional<Generator::FreeSlot> Generator::best_slot(const Prompt& wanted) const {
  const std::vector<int32_t>& prompt = wanted.ids;
  std::optional<FreeSlot> best;
  int64_t best_gain = 0;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot]) continue;
    const std::vector<int32_t>& held = held_[slot];
    const bool same = held_adapter_[slot] == wanted.adapter &&
                      runner_.plan().same_cache(static_cast<int64_t>(held.size()),
                                                static_cast<int64_t>(prompt.size()));
    const size_t most = same ? std::min(held.size(), prompt.size() - 1) : 0;
    const auto end = held.begin() + static_cast<long>(most);
    const auto cached =
        static_cast<size_t>(std::mismatch(held.begin(), end, prompt.begin()).first - held.begin());
    // What is reused counts for it, and what is lost against it.
    const int64_t gain = 2 * static_cast<int64_t>(cached) - static_cast<int64_t>(held.size());
    if (best && gain <= best_gain) continue;
    best = FreeSlot{slot, cached};
    best_gain = gain;
  }
  return best;
}

// All tokens of a prompt but the last, which is the first that decode() computes.
void Generator::admit() {
  if (waiting_.empty()) return;
  if (prefix_caching_ && !runner_.take_unchanged()) {
    for (auto& ids : held_) ids.clear();
    for (const auto& s : slots_)
      if (s) s->stale = true;
  }
  while (!waiting_.empty()) {
    const std::optional<FreeSlot> free = best_slot(waiting_.front()->prompt);
    if (!free) return;
    std::unique_ptr<Sequence> s = std::move(waiting_.front());
    waiting_.pop_front();
    held_[free->slot].clear();
    s->ids.reserve(static_cast<size_t>(runner_.plan().length));  // a token allocates nothing
    s->reused = static_cast<int64_t>(free->cached);
    cache(free->slot, *s, free->cached);
    slots_[free->slot] = std::move(s);
  }
}

void Generator::cache(size_t slot, const Sequence& s, size_t from) {
  runner_.prefill(static_cast<int32_t>(slot),
                  std::span(s.ids).first(s.ids.size() - 1).subspan(from),
                  static_cast<int64_t>(from), static_cast<int64_t>(s.ids.size()), s.prompt.adapter);
}

void Generator::cache_grown() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot] || slots_[slot]->drawn() == 0) continue;
    const auto length = static_cast<int64_t>(slots_[slot]->ids.size());
    if (!runner_.plan().same_cache(length - 1, length)) cache(slot, *slots_[slot], 0);
  }
}

size_t Generator::step(const OnToken& on_token) {
  if (runner_.take_cancel()) {
    for (const auto& s : slots_)
      if (s) s->cancelled = true;
    for (const auto& s : waiting_) s->cancelled = true;
  }
  std::exception_ptr failed;  // of the first sequence whose token could not be drawn
  try {
    report_cancelled(on_token);
    cache_grown();
    admit();
    tokens_.clear();
    for (size_t slot = 0; slot < slots_.size(); ++slot)
      if (slots_[slot]) tokens_.push_back(input_of(slot));
    if (!tokens_.empty()) runner_.decode(tokens_);
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const auto slot = static_cast<size_t>(tokens_[i].slot);
      try {
        if (!next(*slots_[slot], i, on_token)) release(slot);
      } catch (const Error& e) {
        if (e.code() != PLAIT_ERR_NUMERIC) throw;
        report_end(*slots_[slot], Finish::kFailed, on_token);
        if (!failed) failed = std::current_exception();
        slots_[slot].reset();
      }
    }
  } catch (...) {
    drop_all();
    throw;
  }
  if (failed) std::rethrow_exception(failed);
  const auto taken = std::count_if(slots_.begin(), slots_.end(), [](const auto& s) { return !!s; });
  return waiting_.size() + static_cast<size_t>(taken);
}

Finish Generator::finish_of(const Sequence& s, int32_t id) const {
  if (std::find(s.prompt.end.begin(), s.prompt.end.end(), id) != s.prompt.end.end())
    return Finish::kEnd;
  const bool full = static_cast<int64_t>(s.ids.size()) >= runner_.plan().length;
  if (full || (s.prompt.max_tokens > 0 && s.drawn() >= s.prompt.max_tokens)) return Finish::kLength;
  return Finish::kNone;
}

std::span<const int32_t> Generator::banned(const Sequence& s) {
  return s.drawn() < s.prompt.min_tokens ? std::span<const int32_t>(s.prompt.end)
                                         : std::span<const int32_t>();
}

session::TokenRunner::Token Generator::input_of(size_t slot) const {
  const Sequence& s = *slots_[slot];
  const Prompt& p = s.prompt;
  session::TokenRunner::Token t;
  t.slot = static_cast<int32_t>(slot), t.id = s.ids.back();
  t.at = static_cast<int64_t>(s.ids.size()) - 1, t.adapter = p.adapter;
  t.on_host = p.sampling.repetition_penalty != 1 || !banned(s).empty() || p.best > 0;
  t.draw = settings_of(p.sampling, {s.number, s.drawn()}, static_cast<int64_t>(n_ids_));
  t.draw.log_probability = p.log_probabilities;
  return t;
}

void Generator::draw(const Sequence& s, size_t i, Token& token) {
  best_.clear();
  if (runner_.draws(tokens_[i])) {
    const kit::Drawn drawn = runner_.drawn(i);
    check_drawn(drawn.id, static_cast<int64_t>(n_ids_));
    token.id = drawn.id;
    if (s.prompt.log_probabilities) token.log_probability = drawn.log_probability;
    return;
  }
  const Prompt& p = s.prompt;
  const std::span<const float> logits = runner_.logits(i), possible = logits.first(n_ids_);
  token.id = sampler_.draw(possible, p.sampling, s.ids, banned(s), {s.number, token.index});
  if (!p.log_probabilities && p.best == 0) return;
  const double log_sum = Sampler::log_sum_exp(logits);
  token.log_probability = logits[static_cast<size_t>(token.id)] - log_sum;
  Sampler::best(possible, p.best, best_);
  for (ScoredToken& b : best_) b.score = static_cast<float>(b.score - log_sum);
}

bool Generator::next(Sequence& s, size_t i, const OnToken& on_token) {
  Token token{s.number, s.drawn(), -1, Finish::kNone, {}, std::nan(""), best_, s.reused};
  try {
    draw(s, i, token);
  } catch (const Error&) {
    rethrow_with(strf("[generate] sequence %llu, token %ld after its prompt, cannot be drawn",
                      static_cast<unsigned long long>(s.number), static_cast<long>(token.index)));
  }
  s.ids.push_back(token.id);
  token.finish = finish_of(s, token.id);
  if (s.text) {
    token.text = s.text->push(token.id);
    if (s.text->stopped()) token.finish = Finish::kStop;
    if (token.finish != Finish::kNone && token.finish != Finish::kStop) {
      s.last_text = token.text;
      s.last_text += s.text->finish();
      token.text = s.last_text;
      if (s.text->stopped()) token.finish = Finish::kStop;
    }
  }
  const bool wanted = on_token(token);
  if (!wanted && token.finish == Finish::kNone) s.cancelled = true;
  return token.finish == Finish::kNone;
}

}  // namespace plait::generate
