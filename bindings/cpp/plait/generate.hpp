// plait/generate.hpp - generation from C++20, over generate.h.
//
//   plait::Generator generator(session);
//   generator.add("Once upon a time");
//   const auto show = [](const plait_token& t) { return bool(std::cout.write(t.text, t.size)); };
//   while (generator.step(show) > 0) {}
#pragma once

#include <plait/generate.h>
#include <plait/encode.hpp>

namespace plait {
inline namespace embedding {

// Sequences of one session, generated side by side. Serves the thread of its session. The session
// must outlive it; a tokenizer too.
class Generator {
 public:
  // tokenizer: NULL: the experiment's.
  explicit Generator(const Session& session, const Tokenizer* tokenizer = nullptr) {
    plait_generator_options o{};
    o.struct_size = sizeof o;
    o.tokenizer = tokenizer ? tokenizer->get() : nullptr;
    plait_generator* g = nullptr;
    host_detail::check(plait_generator_open(session.get(), &o, &g));
    generator_.reset(g);
  }
  plait_generator* get() const { return generator_.get(); }

  // Returns the number of the sequence. `like`: everything but the prompt itself.
  uint64_t add(std::string_view text, plait_prompt like = {}) {
    like.text = text.data();
    like.size = text.size();
    return add(like);
  }
  uint64_t add(std::span<const int32_t> ids, plait_prompt like = {}) {
    like.ids = ids.data();
    like.n_ids = ids.size();
    return add(like);
  }
  uint64_t add(plait_prompt prompt) {
    prompt.struct_size = sizeof prompt;
    uint64_t sequence = 0;
    host_detail::check(plait_generator_add(get(), &prompt, &sequence));
    return sequence;
  }
  // Draws a token of each sequence that has a slot. on_token returns false to end a sequence; what
  // it throws leaves step() when all sequences have their token. Returns the number of sequences
  // that are not finished.
  uint64_t step(const std::function<bool(const plait_token&)>& on_token) {
    Call call{on_token, nullptr};
    uint64_t left = 0;
    host_detail::check(plait_generator_step(get(), &forward, &call, &left));
    if (call.thrown) std::rethrow_exception(call.thrown);
    return left;
  }
  void cancel(uint64_t sequence) { host_detail::check(plait_generator_cancel(get(), sequence)); }

 private:
  struct Call {
    const std::function<bool(const plait_token&)>& on_token;
    std::exception_ptr thrown;
  };
  static uint32_t PLAIT_CALL forward(void* user, const plait_token* token) noexcept {
    Call& call = *static_cast<Call*>(user);
    if (call.thrown) return 1;
    try {
      return call.on_token(*token) ? 0 : 1;
    } catch (...) {
      call.thrown = std::current_exception();
      return 1;
    }
  }
  std::unique_ptr<plait_generator, void (*)(plait_generator*)> generator_{nullptr,
                                                                          plait_generator_close};
};

}  // namespace embedding
}  // namespace plait
