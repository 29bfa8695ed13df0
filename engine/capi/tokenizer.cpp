// Tokenizers.
#include "engine/capi/objects.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

const tokenizer::Tokenizer& open_one(const plait_tokenizer* t, const char* function) {
  require(t, "tokenizer");
  t->engine->check_own(function, "tokenizer");
  return t->tokenizer;
}

}  // namespace

extern "C" {

plait_error* plait_tokenizer_open(plait_engine* engine, const char* toml, uint64_t size,
                                  const char* name, plait_tokenizer** out) {
  return guard_c([&] {
    require(engine, "engine");
    require(out, "out");
    const ApiCall call(*engine, "plait_tokenizer_open", "engine");
    const std::shared_ptr<EngineState>& state = engine->state;
    const config::ItemConfig item = read_item(
        *state, PLAIT_KIND_TOKENIZER, text_argument(toml, size, "toml"), name ? name : "tokenizer");
    *out = new plait_tokenizer{state, {item, shared_registry(state)}};
  });
}

plait_error* plait_tokenizer_describe(const plait_tokenizer* tokenizer, plait_text** json) {
  return guard_c([&] {
    const tokenizer::Tokenizer& t = open_one(tokenizer, "plait_tokenizer_describe");
    require(json, "json");
    *json = new_text(t.json());
  });
}

const int32_t* plait_tokens_data(const plait_tokens* t) { return t ? t->ids.data() : nullptr; }
uint64_t plait_tokens_size(const plait_tokens* t) { return t ? t->ids.size() : 0; }
uint64_t plait_tokens_replaced(const plait_tokens* t, uint64_t* first) {
  if (first) *first = t ? t->invalid.first : 0;
  return t ? t->invalid.n : 0;
}
void plait_tokens_free(plait_tokens* t) { delete t; }

plait_error* plait_tokenizer_encode(const plait_tokenizer* tokenizer, const char* text,
                                    uint64_t size, uint32_t flags, plait_tokens** out) {
  return guard_c([&] {
    const tokenizer::Tokenizer& t = open_one(tokenizer, "plait_tokenizer_encode");
    require(out, "out");
    if (size > 0) require(text, "text");
    const std::string_view all =
        size == PLAIT_NTS ? std::string_view(text) : std::string_view(text ? text : "", size);
    auto tokens = std::make_unique<plait_tokens>();
    tokens->ids = t.encode(all, flags & ~PLAIT_ENCODE_STRICT, (flags & PLAIT_ENCODE_STRICT) != 0,
                           tokens->invalid);
    *out = tokens.release();
  });
}

plait_error* plait_tokenizer_decode(const plait_tokenizer* tokenizer, const int32_t* ids,
                                    uint64_t n, uint32_t flags, plait_text** out) {
  return guard_c([&] {
    const tokenizer::Tokenizer& t = open_one(tokenizer, "plait_tokenizer_decode");
    require(out, "out");
    if (n > 0) require(ids, "ids");
    *out = new_text(t.decode({ids, n}, flags));
  });
}

void plait_tokenizer_close(plait_tokenizer* tokenizer) { delete tokenizer; }

}  // extern "C"
