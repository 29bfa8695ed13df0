// Tokenizers through encode.h, with C++ types.
#pragma once

#include <plait/encode.h>

#include <nlohmann/json.hpp>

#include "tests/unit/host/host.hpp"

namespace host {

using Engine = std::unique_ptr<plait_engine, decltype(&plait_engine_close)>;
using Tokenizer = std::unique_ptr<plait_tokenizer, decltype(&plait_tokenizer_close)>;

inline Tokenizer open_tokenizer(const Engine& engine, const std::string& toml) {
  plait_tokenizer* t = nullptr;
  check(plait_tokenizer_open(engine.get(), toml.c_str(), PLAIT_NTS, nullptr, &t));
  return {t, plait_tokenizer_close};
}

inline std::vector<int32_t> encode(const Tokenizer& t, const std::string& text,
                                   uint32_t flags = 0) {
  plait_tokens* tokens = nullptr;
  check(plait_tokenizer_encode(t.get(), text.data(), text.size(), flags, &tokens));
  std::vector<int32_t> ids(plait_tokens_data(tokens),
                           plait_tokens_data(tokens) + plait_tokens_size(tokens));
  plait_tokens_free(tokens);
  return ids;
}

inline std::string decode(const Tokenizer& t, const std::vector<int32_t>& ids, uint32_t flags = 0) {
  plait_text* text = nullptr;
  check(plait_tokenizer_decode(t.get(), ids.data(), ids.size(), flags, &text));
  std::string all(plait_text_data(text), plait_text_size(text));
  plait_text_free(text);
  return all;
}

inline nlohmann::json describe(const Tokenizer& t) {
  plait_text* json = nullptr;
  check(plait_tokenizer_describe(t.get(), &json));
  return nlohmann::json::parse(take(json));
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace host
