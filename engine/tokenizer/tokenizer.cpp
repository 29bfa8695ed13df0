#include "engine/tokenizer/tokenizer.hpp"

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/json.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"

namespace plait::tokenizer {
namespace {

constexpr const char* kRoles[] = {"other", "begin", "end", "pad", "unknown"};

// What a plugin hands to a sink. No exception may pass through the plugin.
template <class To>
struct Collected {
  To to;
  bool out_of_memory = false;
};

// Appends n elements. Returns 1 when there is no memory for them.
template <class To, class Element>
uint32_t collect(void* user, const Element* elements, uint64_t n) noexcept {
  auto& collected = *static_cast<Collected<To>*>(user);
  try {
    collected.to.insert(collected.to.end(), elements, elements + n);
  } catch (...) {
    collected.out_of_memory = true;
  }
  return collected.out_of_memory ? 1 : 0;
}

}  // namespace

Tokenizer::Tokenizer(const config::ItemConfig& config,
                     std::shared_ptr<const plugin::Registry> registry)
    : Tokenizer(config.type, &config.options, std::move(registry)) {}

Tokenizer::Tokenizer(const std::string& type, const plait_options* options,
                     std::shared_ptr<const plugin::Registry> registry)
    : registry_(std::move(registry)),
      item_(registry_->tokenizer(type)),
      host_(registry_->host_of(&item_)),
      plugin_(registry_->plugin_of(&item_)) {
  check_plugin({plugin_, "open", "tokenizer", item_.name}, "",
               [&] { return item_.open(host_, options, &handle_); });
  info_.struct_size = sizeof info_;
  try {
    check_plugin({plugin_, "info", "tokenizer", item_.name}, "",
                 [&] { return item_.info(handle_, &info_); });
    check_info();
  } catch (...) {
    call_plugin_noexcept(host_, {"", "close", "tokenizer", item_.name},
                         [&] { item_.close(handle_); });
    throw;
  }
}

Tokenizer::~Tokenizer() {
  call_plugin_noexcept(host_, {"", "close", "tokenizer", item_.name},
                       [&] { item_.close(handle_); });
}

void Tokenizer::fail_plugin(const std::string& what) const {
  fail(PLAIT_ERR_PLUGIN, "[plugin " + plugin_ + "] tokenizer '" + std::string(item_.name) + "' " +
                             what + "; tell its author");
}

void Tokenizer::check_info() const {
  constexpr uint32_t kMostSpecials = 1u << 20;
  if (info_.vocabulary < 1)
    fail_plugin(strf("has a vocabulary of %d tokens, expected at least 1", info_.vocabulary));
  if (info_.flags & ~PLAIT_TOKENIZER_ANY_BYTES)
    fail_plugin(strf("has the unknown flags 0x%x", info_.flags & ~PLAIT_TOKENIZER_ANY_BYTES));
  if (info_.n_specials > kMostSpecials || (info_.n_specials > 0 && !info_.specials))
    fail_plugin(strf("has %u special tokens, %s", info_.n_specials,
                     info_.specials ? "more than there can be" : "but their list is NULL"));
  for (const plait_special_token& s : specials()) {
    const auto at = static_cast<size_t>(&s - info_.specials);
    if (s.id < 0 || s.id >= info_.vocabulary)
      fail_plugin(strf("has the id %d for special token %zu, its vocabulary is %d", s.id, at,
                       info_.vocabulary));
    if (s.role >= std::size(kRoles))
      fail_plugin(strf("has the unknown role %u for special token %zu", s.role, at));
    if (!s.text && s.text_size > 0)
      fail_plugin(strf("has a special token %zu of %llu bytes, but its text is NULL", at,
                       static_cast<unsigned long long>(s.text_size)));
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, uint32_t flags, bool strict,
                                       kit::InvalidBytes& invalid) const {
  std::string replaced;
  invalid = {};
  if ((info_.flags & PLAIT_TOKENIZER_ANY_BYTES) == 0) {
    invalid = kit::replace_invalid(text, replaced);
    if (invalid.n > 0 && strict)
      fail(PLAIT_ERR_DATA,
           strf("[tokenizer] the text is not UTF-8 at byte %llu; convert it, or let such bytes be "
                "replaced",
                static_cast<unsigned long long>(invalid.first)));
    if (invalid.n > 0) text = replaced;
  }
  Collected<std::vector<int32_t>> collected;
  check_plugin({plugin_, "encode", "tokenizer", item_.name}, "", [&] {
    return item_.encode(handle_, text.data(), text.size(), flags,
                        collect<std::vector<int32_t>, int32_t>, &collected);
  });
  if (collected.out_of_memory) throw std::bad_alloc();
  for (const int32_t id : collected.to)
    if (id < 0 || id >= info_.vocabulary)
      fail_plugin(strf("returned the id %d, its vocabulary is %d", id, info_.vocabulary));
  return std::move(collected.to);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, uint32_t flags) const {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= info_.vocabulary)
      fail_invalid(strf("[tokenizer] the id at position %zu is %d, expected 0 to %d", i, ids[i],
                        info_.vocabulary - 1));
  Collected<std::string> collected;
  check_plugin({plugin_, "decode", "tokenizer", item_.name}, "", [&] {
    return item_.decode(handle_, ids.data(), ids.size(), flags, collect<std::string, char>,
                        &collected);
  });
  if (collected.out_of_memory) throw std::bad_alloc();
  return std::move(collected.to);
}

std::string Tokenizer::json() const {
  JsonWriter w;
  w.object().field("schema", 1).field("type", item_.name).field("plugin", plugin_);
  w.field("vocabulary", info_.vocabulary).field("fingerprint", hex64(info_.fingerprint));
  w.key("specials").array();
  for (const plait_special_token& s : specials())
    w.object()
        .field("text", std::string_view(s.text ? s.text : "", s.text_size))
        .field("id", s.id)
        .field("role", kRoles[s.role])
        .end_object();
  w.end_array().end_object();
  return w.text();
}

}  // namespace plait::tokenizer
