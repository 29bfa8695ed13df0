#include "plugins/data/fine_tune/encoder.hpp"

#include <algorithm>
#include <utility>

namespace plait::data::fine_tune {
namespace {

// How many ids both begin with. A tokenizer may join the end of one text with the beginning of the
// next: such a token counts to the next.
size_t common(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(at.first - a.begin());
}

}  // namespace

Encoder::Encoder(const HostTokenizer& tokenizer, const kit::ChatTemplate* format, bool plain)
    : tokenizer_(tokenizer), format_(format), plain_(plain), specials_(tokenizer.specials()) {
  if (format_) {
    begin_ = specials_.choose(format_->begin, PLAIT_TOKEN_BEGIN);
    end_ = specials_.choose(format_->end, PLAIT_TOKEN_END);
  }
  for (const plait_special_token& one : tokenizer.specials())
    if (one.role == PLAIT_TOKEN_END) end_ids_.push_back(one.id);
}

std::string Encoder::end_written_as_text() const {
  if (!format_) return "";
  std::string token(format_->reply.after);
  token.erase(0, token.find_first_not_of(' '));
  if (token == "{end}") token = end_;
  return specials_.has(token) ? "" : token;
}

bool Encoder::ends(int32_t id) const {
  return std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end();
}

std::vector<int32_t> Encoder::ids_of(std::span<const kit::ChatPiece> pieces) const {
  std::vector<int32_t> ids;
  for (const kit::ChatSpan& span : kit::chat_spans(pieces, specials_))
    tokenizer_.encode(span.text, span.plain ? PLAIT_ENCODE_PLAIN : 0, ids);
  return ids;
}

std::vector<int32_t> Encoder::ids_of(const std::string& raw) const {
  std::vector<int32_t> ids;
  tokenizer_.encode(raw, PLAIT_ENCODE_WRAP | (plain_ ? PLAIT_ENCODE_PLAIN : 0), ids);
  return ids;
}

Example Encoder::encode_raw(const Conversation& conversation) const {
  const Message &prompt = conversation.messages[0], &completion = conversation.messages[1];
  Example e;
  e.ids = ids_of(prompt.text + completion.text);
  const size_t begin = common(e.ids, ids_of(prompt.text));
  e.weights.assign(e.ids.size(), 0);
  bool ended = false;
  for (size_t i = begin; i < e.ids.size() && !ended; ++i) {
    e.weights[i] = static_cast<float>(completion.weight);
    ended = ends(e.ids[i]);
  }
  if (!ended && !end_ids_.empty()) {
    e.ids.push_back(end_ids_[0]);
    e.weights.push_back(static_cast<float>(completion.weight));
  }
  return e;
}

Example Encoder::encode_chat(const std::string& where, const Conversation& conversation) const {
  std::vector<kit::ChatMessage> messages;
  for (const Message& m : conversation.messages) messages.push_back({m.role, m.text});
  std::vector<kit::ChatPiece> pieces;
  try {
    pieces = kit::render_chat(*format_, messages, false, begin_, end_);
  } catch (const kit::ChatError& e) {
    fail(PLAIT_ERR_DATA, where + ": " + e.what());
  }
  Example e;
  e.ids = ids_of(pieces);
  e.weights.assign(e.ids.size(), 0);
  const std::span<const kit::ChatPiece> all(pieces);
  for (size_t p = 0; p < pieces.size();) {
    size_t end = p + 1;
    while (end < pieces.size() && pieces[end].reply == pieces[p].reply) ++end;
    if (pieces[p].reply) {
      const size_t from = common(e.ids, ids_of(all.first(p))),
                   to = end == pieces.size() ? e.ids.size() : common(e.ids, ids_of(all.first(end)));
      const auto weight = static_cast<float>(conversation.messages[pieces[p].message].weight);
      std::fill(e.weights.begin() + static_cast<ptrdiff_t>(from),
                e.weights.begin() + static_cast<ptrdiff_t>(std::max(from, to)), weight);
    }
    p = end;
  }
  return e;
}

Example Encoder::encode(const std::string& where, const Conversation& conversation) const {
  if (format_) return encode_chat(where, conversation);
  if (conversation.raw) return encode_raw(conversation);
  fail(PLAIT_ERR_DATA, where +
                           ", key 'messages': no template says how they become text; set "
                           "template to one of: " +
                           kit::chat_template_names());
}

}  // namespace plait::data::fine_tune
