// Conversations as chat templates have them.
#include "kit/chat.hpp"

#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/capi/objects.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

struct Conversation {
  const kit::ChatTemplate* format;
  std::vector<kit::ChatMessage> messages;
  bool generate;
};

const kit::ChatTemplate& template_named(const char* name) {
  try {
    return kit::chat_template(name);
  } catch (const kit::ChatError& e) {
    std::vector<std::string> names;
    for (const kit::ChatTemplate& one : kit::chat_templates()) names.emplace_back(one.name);
    fail_not_found(std::string("[chat] ") + e.what() + did_you_mean(nearest(name, names)));
  }
}

Conversation conversation_of(const char* name, const plait_chat_message* messages, uint64_t n,
                             uint32_t flags) {
  require(name, "name");
  if (n > 0) require(messages, "messages");
  if (flags & ~PLAIT_CHAT_GENERATE)
    fail_invalid(strf("[chat] flags are 0x%x, known is PLAIT_CHAT_GENERATE, 0x1", flags));
  Conversation c{&template_named(name), {}, (flags & PLAIT_CHAT_GENERATE) != 0};
  for (uint64_t i = 0; i < n; ++i) {
    require(messages[i].role, "messages[i].role");
    if (messages[i].size > 0) require(messages[i].text, "messages[i].text");
    const char* text = messages[i].text ? messages[i].text : "";
    c.messages.push_back({messages[i].role, messages[i].size == PLAIT_NTS
                                                ? std::string_view(text)
                                                : std::string_view(text, messages[i].size)});
  }
  return c;
}

std::vector<kit::ChatPiece> pieces_of(const Conversation& c, std::string_view begin = {},
                                      std::string_view end = {}) {
  try {
    return kit::render_chat(*c.format, c.messages, c.generate, begin, end);
  } catch (const kit::ChatError& e) {
    fail_invalid(std::string("[chat] ") + e.what());
  }
}

}  // namespace

namespace plait::capi {

std::vector<int32_t> chat_ids(const tokenizer::Tokenizer& tokenizer, const char* name,
                              const plait_chat_message* messages, uint64_t n, uint32_t flags,
                              kit::InvalidBytes& invalid) {
  const Conversation c = conversation_of(name, messages, n, flags);
  const kit::SpecialTexts specials(tokenizer.specials());
  const auto pieces = pieces_of(c, specials.choose(c.format->begin, PLAIT_TOKEN_BEGIN),
                                specials.choose(c.format->end, PLAIT_TOKEN_END));
  std::vector<int32_t> all;
  uint64_t begin = 0;  // of the span in the conversation's text
  for (const kit::ChatSpan& span : kit::chat_spans(pieces, specials)) {
    kit::InvalidBytes found;
    const auto ids = tokenizer.encode(span.text, span.plain ? PLAIT_ENCODE_PLAIN : 0, false, found);
    all.insert(all.end(), ids.begin(), ids.end());
    if (invalid.n == 0 && found.n > 0) invalid.first = begin + found.first;
    invalid.n += found.n;
    begin += span.text.size();
  }
  return all;
}

std::vector<int32_t> chat_turn_ends(const tokenizer::Tokenizer& tokenizer, const char* name) {
  const kit::ChatTemplate& format = template_named(name);
  const kit::SpecialTexts specials(tokenizer.specials());
  const std::string_view end = specials.choose(format.end, PLAIT_TOKEN_END);
  std::vector<int32_t> ids;
  for (const plait_special_token& s : tokenizer.specials()) {
    const std::string_view text(s.text, s.text_size);
    const bool ends = format.reply.after.starts_with(text) ||
                      (format.reply.after.starts_with("{end}") && text == end);
    if (ends && !text.empty()) ids.push_back(s.id);
  }
  return ids;
}

}  // namespace plait::capi

extern "C" {

plait_error* plait_chat_templates(plait_text** json) {
  return guard_c([&] {
    require(json, "json");
    JsonWriter w;
    w.array();
    for (const kit::ChatTemplate& one : kit::chat_templates())
      w.object().field("name", one.name).field("help", one.help).end_object();
    *json = new_text(w.end_array().text());
  });
}

plait_error* plait_chat_render(const char* name, const plait_chat_message* messages, uint64_t n,
                               uint32_t flags, plait_text** text) {
  return guard_c([&] {
    require(text, "text");
    std::string all;
    for (const kit::ChatPiece& piece : pieces_of(conversation_of(name, messages, n, flags)))
      all += piece.text;
    *text = new_text(std::move(all));
  });
}

plait_error* plait_chat_encode(const plait_tokenizer* tokenizer, const char* name,
                               const plait_chat_message* messages, uint64_t n, uint32_t flags,
                               plait_tokens** out) {
  return guard_c([&] {
    require(tokenizer, "tokenizer");
    tokenizer->engine->check_own("plait_chat_encode", "tokenizer");
    require(out, "out");
    auto tokens = std::make_unique<plait_tokens>();
    tokens->ids = chat_ids(tokenizer->tokenizer, name, messages, n, flags, tokens->invalid);
    *out = tokens.release();
  });
}

}  // extern "C"
