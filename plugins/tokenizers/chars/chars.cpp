// tokenizer-chars: the different characters of a text are the tokens, sorted by code point.
#include <plait/plugin.hpp>

#include <algorithm>

#include "kit/utf8.hpp"
#include "plugins/support/file_bytes.hpp"

#include <xxhash.h>

namespace {
using namespace plait;

constexpr plait_option kChars[] = {
    opt_path("path", "\"\"", "text file whose characters are the tokens"),
    opt_text("characters", "\"\"", "the tokens themselves, instead of a file"),
};

class CharTokenizer {
 public:
  CharTokenizer(const Host&, const Options& o) {
    const bool from_file = !o.text("path").empty();
    if (from_file != o.text("characters").empty())
      fail(PLAIT_ERR_CONFIG, "[tokenizer.chars] give either path, a text file, or characters");
    const support::SourceFile source{"tokenizer.chars", from_file ? "path" : "characters",
                                     std::string(o.text(from_file ? "path" : "characters"))};
    support::in_memory(source, [&] {
      if (!from_file) return collect(source, o.text("characters"));
      const support::Bytes bytes = support::read_file(source);
      collect(source, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    });
  }
  void info(plait_tokenizer_info& out) const {
    out.vocabulary = static_cast<int32_t>(codes_.size());
    out.fingerprint =
        XXH3_64bits_withSeed(codes_.data(), codes_.size() * sizeof codes_[0], kVersion);
  }
  void encode(std::string_view text, uint32_t, IdWriter& to) const {
    for (size_t i = 0; i < text.size() && !to.ended();) {
      const size_t n = kit::utf8_length(text, i);
      const char32_t code = kit::utf8_code(text, i, n);
      const int32_t id = code < kDirect ? direct_[code] : find(code);
      if (id < 0)
        fail(PLAIT_ERR_DATA, "[tokenizer.chars] the character '" + std::string(text.substr(i, n)) +
                                 "' at byte " + std::to_string(i) + " is none of the " +
                                 std::to_string(codes_.size()) +
                                 " tokens; take the characters from a text that has all of them");
      to.write(id);
      i += n;
    }
  }
  void decode(std::span<const int32_t> ids, uint32_t, BytesWriter& to) const {
    std::string text;
    for (const int32_t id : ids) kit::append_utf8(text, codes_[static_cast<size_t>(id)]);
    to.write(text);
  }

 private:
  static constexpr uint64_t kVersion = 0x6368617273000001;  // "chars", version 1
  static constexpr char32_t kDirect = 128, kCodes = 0x110000;

  void collect(const support::SourceFile& source, std::string_view text) {
    std::vector<bool> seen(kCodes);
    for (size_t i = 0; i < text.size();) {
      const size_t n = kit::utf8_length(text, i);
      if (n == 0) source.bad(i, "the text is not UTF-8 there; convert it");
      seen[kit::utf8_code(text, i, n)] = true;
      i += n;
    }
    for (char32_t code = 0; code < kCodes; ++code)
      if (seen[code]) codes_.push_back(code);
    if (codes_.empty()) source.bad(0, "there is no character; give a text");
    std::fill(std::begin(direct_), std::end(direct_), -1);
    for (size_t i = 0; i < codes_.size() && codes_[i] < kDirect; ++i)
      direct_[codes_[i]] = static_cast<int32_t>(i);
  }
  int32_t find(char32_t code) const {
    const auto at = std::lower_bound(codes_.begin(), codes_.end(), code);
    return at == codes_.end() || *at != code ? -1 : static_cast<int32_t>(at - codes_.begin());
  }

  std::vector<char32_t> codes_;   // ascending; the id is the place
  int32_t direct_[kDirect] = {};  // ids of ASCII, -1: none
};
}  // namespace

PLAIT_PLUGIN("tokenizer-chars", "0.1.0", "Apache-2.0", "Characters as tokens") {
  static const auto chars =
      tokenizer<CharTokenizer>("chars", "the sorted characters of a text", kChars);
  host.add(chars);
}
