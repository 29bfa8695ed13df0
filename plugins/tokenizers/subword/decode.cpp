#include "plugins/tokenizers/subword/decode.hpp"

#include <array>
#include <utility>

namespace plait::subword {
namespace {

// Makes a Decoder of a function.
template <class F>
DecoderPtr step(F apply) {
  class Step : public Decoder {
   public:
    explicit Step(F f) : apply_(std::move(f)) {}
    void apply(Texts& tokens) const override { apply_(tokens); }

   private:
    F apply_;
  };
  return std::make_unique<Step>(std::move(apply));
}

template <class F>
DecoderPtr each(F change) {
  return step([change = std::move(change)](Texts& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) change(tokens[i], i, i + 1 == tokens.size());
  });
}

void replace_text(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Printable bytes stand for themselves; the others, in order, for the code points from 256 on
// (GPT-2's encoder.py).
std::array<int16_t, 324> stand_ins() {
  std::array<int16_t, 324> table{};
  table.fill(-1);
  int16_t next = 256;
  for (int16_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    table[static_cast<size_t>(printable ? byte : next++)] = byte;
  }
  return table;
}

int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
}  // namespace

int byte_of(char32_t code) {
  static const std::array<int16_t, 324> table = stand_ins();
  return code < table.size() ? table[code] : -1;
}

bool bytes_of(std::string_view text, std::string& bytes) {
  bytes.clear();
  for (size_t i = 0, n; i < text.size(); i += n) {
    const CodeAt c = code_at(text, i);
    n = c.size;
    const int byte = byte_of(c.code);
    if (byte < 0) return false;
    bytes += static_cast<char>(byte);
  }
  return true;
}

DecoderPtr decode_stand_ins() {
  return each([](std::string& text, size_t, bool) {
    std::string bytes;
    if (bytes_of(text, bytes)) text = bytes;
  });
}
DecoderPtr decode_byte_tokens() {
  return each([](std::string& text, size_t, bool) {
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return;
    const int high = hex_digit(text[3]), low = hex_digit(text[4]);
    if (high >= 0 && low >= 0) text = std::string(1, static_cast<char>(high * 16 + low));
  });
}
DecoderPtr decode_marks(std::string mark, bool first_is_no_space) {
  return each([mark = std::move(mark), first_is_no_space](std::string& text, size_t i, bool) {
    replace_text(text, mark, i == 0 && first_is_no_space ? "" : " ");
  });
}
DecoderPtr decode_suffix(std::string suffix) {
  return each([suffix = std::move(suffix)](std::string& text, size_t, bool last) {
    replace_text(text, suffix, last ? "" : " ");
  });
}
DecoderPtr decode_replace(Regex pattern, std::string by) {
  return each([pattern = std::move(pattern), by = std::move(by)](std::string& text, size_t, bool) {
    replace_all(pattern, by, text);
  });
}
DecoderPtr decode_strip(std::string character, size_t start, size_t stop) {
  return each([=](std::string& text, size_t, bool) {
    if (character.empty()) return;
    std::string_view kept = text;
    for (size_t i = 0; i < start && kept.starts_with(character); ++i)
      kept.remove_prefix(character.size());
    for (size_t i = 0; i < stop && kept.ends_with(character); ++i)
      kept.remove_suffix(character.size());
    text = std::string(kept);
  });
}
DecoderPtr decode_fuse() {
  return step([](Texts& tokens) {
    std::string all;
    for (const std::string& text : tokens) all += text;
    tokens.assign(1, all);
  });
}
DecoderPtr decode_spaces() {
  return each([](std::string& text, size_t, bool last) {
    if (!last) text += ' ';
  });
}

}  // namespace plait::subword
