#include "plugins/tokenizers/subword/tokenizer.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "kit/json_cursor.hpp"

namespace plait::subword {

Tokenizer::Tokenizer(Parts parts) : parts_(std::move(parts)), special_(parts_.texts.size()) {
  for (const AddedToken& token : parts_.added) {
    std::string as_found = token.text;
    if (token.normalized && parts_.normalizer) parts_.normalizer->apply(as_found);
    (token.normalized ? in_normalized_ : as_written_).add(token, as_found);
    special_[static_cast<size_t>(token.id)] = token.special;
  }
  for (const AddedToken& token : parts_.added) {
    if (!token.special) continue;
    uint32_t role = PLAIT_TOKEN_OTHER;
    for (const auto& [text, given] : parts_.roles)
      if (text == token.text && role == PLAIT_TOKEN_OTHER) role = given;
    specials_.push_back({token.text.data(), token.text.size(), token.id, role});
  }
}

void Tokenizer::info(plait_tokenizer_info& out) const {
  out.vocabulary = static_cast<int32_t>(parts_.texts.size());
  out.specials = specials_.data();
  out.n_specials = static_cast<uint32_t>(specials_.size());
  out.fingerprint = parts_.fingerprint;
}

std::unique_ptr<WordCache> Tokenizer::take_cache() const {
  const std::lock_guard lock(mutex_);
  if (caches_.empty()) return std::make_unique<WordCache>();
  std::unique_ptr<WordCache> cache = std::move(caches_.back());
  caches_.pop_back();
  return cache;
}
void Tokenizer::give_back(std::unique_ptr<WordCache> cache) const try {
  const std::lock_guard lock(mutex_);
  caches_.push_back(std::move(cache));
} catch (const std::bad_alloc&) {  // the next call makes one of its own
}

class Tokenizer::Encoding {
 public:
  Encoding(const Tokenizer& tokenizer, uint32_t flags, IdWriter& to)
      : tokenizer_(tokenizer), plain_((flags & PLAIT_ENCODE_PLAIN) != 0), to_(to) {}
  ~Encoding() {
    if (cache_) tokenizer_.give_back(std::move(cache_));
  }
  Encoding(const Encoding&) = delete;

  void text(std::string_view text) {
    cut(tokenizer_.as_written_, {text, true}, [&](const Piece& piece) { normalized(piece); });
  }

 private:
  void cut(const AddedTokens& tokens, const Piece& piece, const PieceSink& rest) {
    tokens.cut(
        piece, plain_, [&](int32_t id) { to_.write(id); },
        [&](const Piece& part) {
          if (!to_.ended()) rest(part);
        });
  }
  void normalized(const Piece& piece) {
    const auto split = [&](const Piece& part) {
      split_all(tokenizer_.parts_.splitters, part, [&](const Piece& one) { word(one.text); });
    };
    if (!tokenizer_.parts_.normalizer) return cut(tokenizer_.in_normalized_, piece, split);
    std::string text(piece.text);
    tokenizer_.parts_.normalizer->apply(text);
    cut(tokenizer_.in_normalized_, {text, piece.first}, split);
  }
  void word(std::string_view text) {
    if (to_.ended()) return;
    if (!cache_) cache_ = tokenizer_.take_cache();
    ids_.clear();
    cache_->encode(*tokenizer_.parts_.model, text, ids_);
    to_.write(ids_);
  }

  const Tokenizer& tokenizer_;
  bool plain_;
  IdWriter& to_;
  std::unique_ptr<WordCache> cache_;
  Ids ids_;  // of a word
};

void Tokenizer::encode(std::string_view text, uint32_t flags, IdWriter& to) const {
  const bool wrap = (flags & PLAIT_ENCODE_WRAP) != 0;
  if (wrap) to.write(parts_.before);
  try {
    Encoding(*this, flags, to).text(text);
  } catch (const NoToken& missing) {
    const size_t at = text.find(missing.text);  // not of normalized text
    fail(PLAIT_ERR_DATA, "[" + parts_.who + "] '" + kit::printable(missing.text) + "'" +
                             (at == text.npos ? "" : " at byte " + std::to_string(at)) +
                             " is no token, and the tokenizer has no unknown token; remove such "
                             "text, or take a tokenizer that knows all bytes");
  } catch (const Unmatched& missed) {
    // A view of `text`: what has a normalizer refuses no match.
    const size_t at = static_cast<size_t>(missed.text.data() - text.data());
    constexpr size_t kShown = 40;
    size_t end = std::min(missed.text.size(), kShown);
    while (end < missed.text.size() && (missed.text[end] & 0xC0) == 0x80) --end;
    fail(PLAIT_ERR_DATA, "[" + parts_.who + "] the pattern does not match '" +
                             kit::printable(missed.text.substr(0, end)) +
                             (end < missed.text.size() ? "...'" : "'") + " at byte " +
                             std::to_string(at) +
                             ", which would be left out; remove such text, or end the pattern with "
                             "|[\\s\\S], which matches every character");
  } catch (const PatternError& e) {
    fail(PLAIT_ERR_DATA, "[" + parts_.who + "] " + e.what());
  }
  if (wrap) to.write(parts_.behind);
}

void Tokenizer::decode(std::span<const int32_t> ids, uint32_t flags, BytesWriter& to) const {
  const bool skip = (flags & PLAIT_DECODE_SKIP_SPECIAL) != 0;
  const auto wanted = [&](int32_t id) {
    return !(skip && special_[static_cast<size_t>(id)]) &&
           !parts_.texts[static_cast<size_t>(id)].empty();
  };
  if (parts_.texts_are_decoded) {
    for (const int32_t id : ids)
      if (wanted(id)) to.write(parts_.texts[static_cast<size_t>(id)]);
    return;
  }
  Texts texts;
  for (const int32_t id : ids)
    if (wanted(id)) texts.push_back(parts_.texts[static_cast<size_t>(id)]);
  for (const DecoderPtr& decoder : parts_.decoders) decoder->apply(texts);
  for (const std::string& text : texts) to.write(text);
}

}  // namespace plait::subword
