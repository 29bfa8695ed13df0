// plait/encode.hpp - tokenizers and conversations from C++20, over encode.h.
//
//   plait::Tokenizer tokenizer(engine, "type = \"bytes\"");
//   std::vector<int32_t> ids = tokenizer.encode("Once upon a time");
#pragma once

#include <plait/encode.h>
#include <plait/plait.hpp>

namespace plait {
inline namespace embedding {

// A turn of a conversation: role "system", "user" or "assistant".
struct ChatMessage {
  std::string role, text;
};

namespace host_detail {
// Borrows the texts.
inline std::vector<plait_chat_message> pointers(std::span<const ChatMessage> messages) {
  std::vector<plait_chat_message> all;
  for (const ChatMessage& m : messages)
    all.push_back({m.role.c_str(), m.text.data(), m.text.size()});
  return all;
}
}  // namespace host_detail

// Text to token ids and back. Any thread, several at a time.
class Tokenizer {
 public:
  // toml: its type and options, `type = "bytes"`.
  Tokenizer(const Engine& engine, std::string_view toml, const char* name = nullptr) {
    plait_tokenizer* t = nullptr;
    host_detail::check(plait_tokenizer_open(engine.get(), toml.data(), toml.size(), name, &t));
    tokenizer_ = {t, {engine.keep()}};
  }
  plait_tokenizer* get() const { return tokenizer_.get(); }
  // JSON: type, vocabulary, fingerprint, special tokens.
  std::string describe() const {
    return host_detail::text_of([&](plait_text** t) { return plait_tokenizer_describe(get(), t); });
  }
  // flags: PLAIT_ENCODE_*. replaced: sequences that were not UTF-8.
  std::vector<int32_t> encode(std::string_view text, uint32_t flags = 0,
                              uint64_t* replaced = nullptr) const {
    plait_tokens* t = nullptr;
    host_detail::check(plait_tokenizer_encode(get(), text.data(), text.size(), flags, &t));
    const std::unique_ptr<plait_tokens, decltype(&plait_tokens_free)> tokens(t, plait_tokens_free);
    if (replaced) *replaced = plait_tokens_replaced(t, nullptr);
    const int32_t* ids = plait_tokens_data(t);
    return {ids, ids + plait_tokens_size(t)};
  }
  // The ids of a conversation. flags: PLAIT_CHAT_*.
  std::vector<int32_t> encode_chat(const std::string& name, std::span<const ChatMessage> messages,
                                   uint32_t flags = 0) const {
    const auto all = host_detail::pointers(messages);
    plait_tokens* t = nullptr;
    host_detail::check(plait_chat_encode(get(), name.c_str(), all.data(), all.size(), flags, &t));
    const std::unique_ptr<plait_tokens, decltype(&plait_tokens_free)> tokens(t, plait_tokens_free);
    const int32_t* ids = plait_tokens_data(t);
    return {ids, ids + plait_tokens_size(t)};
  }
  // flags: PLAIT_DECODE_*. Not always UTF-8.
  std::string decode(std::span<const int32_t> ids, uint32_t flags = 0) const {
    return host_detail::text_of([&](plait_text** t) {
      return plait_tokenizer_decode(get(), ids.data(), ids.size(), flags, t);
    });
  }

 private:
  host_detail::Handle<plait_tokenizer, plait_tokenizer_close> tokenizer_;
};

// JSON: the chat templates, by name.
inline std::string chat_templates() {
  return host_detail::text_of([&](plait_text** t) { return plait_chat_templates(t); });
}
// A conversation as the named template writes it. flags: PLAIT_CHAT_*.
inline std::string chat_render(const std::string& name, std::span<const ChatMessage> messages,
                               uint32_t flags = 0) {
  const auto all = host_detail::pointers(messages);
  return host_detail::text_of([&](plait_text** t) {
    return plait_chat_render(name.c_str(), all.data(), all.size(), flags, t);
  });
}

}  // namespace embedding
}  // namespace plait
