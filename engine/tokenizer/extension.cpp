#include "engine/tokenizer/extension.hpp"

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/tokenizer/tokenizer.hpp"

struct plait_host_tokenizer {
  plait::tokenizer::Tokenizer tokenizer;
};

namespace plait::tokenizer {
namespace {

void need(const void* pointer, const char* what) {
  if (!pointer) fail_invalid(std::string("[tokenizers] ") + what + " is NULL");
}

plait_error* open(const plait_host* host, const char* type, const plait_options* options,
                  plait_host_tokenizer** out) {
  return guard_c([&] {
    need(host, "host");
    need(type, "type");
    need(options, "options");
    need(out, "out");
    // The object for which it is opened keeps the registry.
    const std::shared_ptr<const plugin::Registry> registry(
        std::shared_ptr<void>(), &static_cast<const plugin::Host*>(host)->registry());
    *out = new plait_host_tokenizer{{std::string(type), options, registry}};
  });
}

const plait_tokenizer_info* info(const plait_host_tokenizer* t) { return &t->tokenizer.info(); }

plait_error* encode(const plait_host_tokenizer* t, const char* text, uint64_t size, uint32_t flags,
                    plait_ids_sink sink, void* user, uint64_t* replaced) {
  return guard_c([&] {
    need(t, "tokenizer");
    if (size > 0) need(text, "text");
    kit::InvalidBytes invalid;
    const std::vector<int32_t> ids =
        t->tokenizer.encode({text ? text : "", size}, flags & ~PLAIT_ENCODE_STRICT,
                            (flags & PLAIT_ENCODE_STRICT) != 0, invalid);
    if (replaced) *replaced = invalid.n;
    if (!ids.empty()) sink(user, ids.data(), ids.size());
  });
}

plait_error* decode(const plait_host_tokenizer* t, const int32_t* ids, uint64_t n, uint32_t flags,
                    plait_bytes_sink sink, void* user) {
  return guard_c([&] {
    need(t, "tokenizer");
    if (n > 0) need(ids, "ids");
    const std::string text = t->tokenizer.decode({ids, n}, flags);
    if (!text.empty()) sink(user, text.data(), text.size());
  });
}

void close(plait_host_tokenizer* t) { delete t; }

constexpr plait_tokenizers_table kTable = {
    sizeof(plait_tokenizers_table), open, info, encode, decode, close};

}  // namespace

const plait_tokenizers_table* tokenizers_table() { return &kTable; }

}  // namespace plait::tokenizer
