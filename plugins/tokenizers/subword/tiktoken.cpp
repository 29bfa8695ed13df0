#include "plugins/tokenizers/subword/tiktoken.hpp"

#include <charconv>
#include <filesystem>

#include "plugins/support/description_file.hpp"
#include "plugins/tokenizers/subword/bpe.hpp"
#include "plugins/tokenizers/subword/patterns.hpp"

#include <xxhash.h>

namespace plait::subword {
namespace {
using support::SourceFile;

constexpr const char* kWho = "tokenizer.tiktoken";
constexpr uint64_t kVersion = 0x74696b0000000001;  // "tik", version 1

struct Special {
  const char* text;
  int32_t id;
};
struct Encoding {
  std::string_view name;
  const char* pattern;
  std::span<const Special> specials;
};
constexpr Special kR50k[] = {{"<|endoftext|>", 50256}};
constexpr Special kCl100k[] = {{"<|endoftext|>", 100257},
                               {"<|fim_prefix|>", 100258},
                               {"<|fim_middle|>", 100259},
                               {"<|fim_suffix|>", 100260},
                               {"<|endofprompt|>", 100276}};
constexpr Special kO200k[] = {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}};
constexpr Encoding kEncodings[] = {{"gpt2", kGpt2Pattern, kR50k},
                                   {"r50k_base", kGpt2Pattern, kR50k},
                                   {"p50k_base", kGpt2Pattern, kR50k},
                                   {"cl100k_base", kCl100kPattern, kCl100k},
                                   {"o200k_base", kO200kPattern, kO200k}};

const Encoding* find_encoding(std::string_view name) {
  for (const Encoding& encoding : kEncodings)
    if (encoding.name == name) return &encoding;
  return nullptr;
}

// RFC 4648, with its padding. False: it is not base64.
bool decode_base64(std::string_view text, std::string& bytes) {
  bytes.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) text.remove_suffix(1), ++padding;
  uint32_t bits = 0;
  int n = 0;
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((n += 6) < 8) continue;
    n -= 8;
    bytes += static_cast<char>(bits >> n & 0xFF);
  }
  return true;
}

class Reader {
 public:
  explicit Reader(const Options& options)
      : options_(options), file_{kWho, "path", std::string(options.text("path"))} {
    parts_.who = kWho;
  }

  Parts read() {
    choose_encoding();
    support::in_memory(file_, [&] {
      const support::Bytes bytes = support::read_description(file_);
      read_ranks({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      parts_.fingerprint = XXH3_64bits_withSeed(bytes.data(), bytes.size(), kVersion);
    });
    add_specials();
    const std::string pattern(encoding_ ? encoding_->pattern : options_.text("pattern"));
    parts_.fingerprint = XXH3_64bits_withSeed(pattern.data(), pattern.size(), parts_.fingerprint);
    try {
      // The library leaves out what lies between the matches, without a word.
      parts_.splitters.push_back(split_by(Regex(pattern, Dialect::kPerl), Matched::kRefused, true));
    } catch (const PatternError& e) {
      fail(PLAIT_ERR_UNIMPLEMENTED, "[tokenizer.tiktoken] " + std::string(e.what()));
    }
    BpeOptions options;
    options.bytes = options.ignore_merges = true;
    Merges merges = merges_of_ranks(ids_);
    parts_.model = std::make_unique<Bpe>(std::move(ids_), std::move(merges), std::move(options));
    add_given_roles(parts_, options_);
    add_customary_end(parts_);
    return std::move(parts_);
  }

 private:
  void choose_encoding() {
    const std::string_view name = options_.text("encoding"), pattern = options_.text("pattern");
    if (!name.empty() && !pattern.empty())
      fail(PLAIT_ERR_CONFIG, "[tokenizer.tiktoken] give encoding or pattern, not both");
    if (!pattern.empty()) return;
    const std::string stem = std::filesystem::path(file_.path).stem();
    encoding_ = find_encoding(name.empty() ? std::string_view(stem) : name);
    if (encoding_) return;
    std::string known;
    for (const Encoding& encoding : kEncodings)
      known += (known.empty() ? "" : ", ") + std::string(encoding.name);
    fail(PLAIT_ERR_CONFIG,
         "[tokenizer.tiktoken] " +
             (name.empty() ? "the name of '" + file_.path + "' does not tell the encoding"
                           : "encoding = '" + std::string(name) + "' is not known") +
             "; give encoding, one of " + known + ", or pattern and specials");
  }

  void read_ranks(std::string_view text) {
    std::string bytes;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      std::string_view line = text.substr(begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) read_rank(line, begin, bytes);
      begin = end + 1;
    }
    if (ids_.empty()) file_.bad(0, "there is no token; expected a token in base64 and its id");
  }
  void read_rank(std::string_view line, size_t offset, std::string& bytes) {
    const size_t space = line.find(' ');
    int32_t id = kNoToken;
    const char* last = line.data() + line.size();
    const auto number = space == line.npos
                            ? std::from_chars_result{last, std::errc::invalid_argument}
                            : std::from_chars(line.data() + space + 1, last, id);
    if (number.ec != std::errc() || number.ptr != last || id < 0 || id >= kMostIds ||
        !decode_base64(line.substr(0, space), bytes))
      file_.bad(offset,
                "expected a token in base64, a space, and an id below " + std::to_string(kMostIds));
    if (!ids_.emplace(bytes, id).second) file_.bad(offset, "this token was there before");
    set_text(id, bytes, offset);
  }
  void set_text(int32_t id, const std::string& bytes, size_t offset) {
    const auto i = static_cast<size_t>(id);
    if (i >= parts_.texts.size()) parts_.texts.resize(i + 1);
    if (!parts_.texts[i].empty())
      file_.bad(offset, "another token has the id " + std::to_string(id));
    parts_.texts[i] = bytes;
  }

  void add_specials() {
    if (encoding_)
      for (const Special& special : encoding_->specials) add_special(special.text, special.id);
    for (const std::string_view given : options_.texts("specials")) {
      const size_t equals = given.rfind('=');
      int32_t id = static_cast<int32_t>(parts_.texts.size());
      std::string_view text = given;
      if (equals != given.npos && equals > 0) {
        int32_t named = 0;
        const auto number =
            std::from_chars(given.data() + equals + 1, given.data() + given.size(), named);
        if (number.ec == std::errc() && number.ptr == given.data() + given.size()) {
          id = named;
          text = given.substr(0, equals);
        }
      }
      add_special(text, id);
    }
    parts_.texts_are_decoded = true;
  }
  void add_special(std::string_view text, int32_t id) {
    const auto i = static_cast<size_t>(id);
    if (id < 0 || id >= kMostIds || (i < parts_.texts.size() && !parts_.texts[i].empty()))
      fail(PLAIT_ERR_CONFIG, "[tokenizer.tiktoken] the special token '" + std::string(text) +
                                 "' has the id " + std::to_string(id) +
                                 ", which another token has, or which is not from 0 to " +
                                 std::to_string(kMostIds - 1) + "; is encoding the file's?");
    if (i >= parts_.texts.size()) parts_.texts.resize(i + 1);
    parts_.texts[i] = text;
    parts_.added.push_back(special_token(id, text));
  }

  const Options& options_;
  SourceFile file_;
  const Encoding* encoding_ = nullptr;
  TokenIds ids_;  // by bytes
  Parts parts_;
};
}  // namespace

Parts read_tiktoken(const Options& options) { return Reader(options).read(); }

}  // namespace plait::subword
